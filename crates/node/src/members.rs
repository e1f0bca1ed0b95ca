//! Who is in a network.

use crate::session::Session;
use crate::task::Task;
use rialto_model::Fault;
use rialto_model::payload::RosterFilter;
use rialto_model::view::MemberView;
use std::collections::BTreeSet;

impl Session {
    /// The members that the caller may know of, in the order of joining: up to [`rialto_model::limits::LIST_ROWS_MAX`].
    pub async fn members(&self) -> Result<Vec<MemberView>, Fault> {
        let filter = RosterFilter { include: Some(vec!["agents".to_owned()]), ..RosterFilter::default() };
        Ok(self.discover(filter).await?.agents.unwrap_or_default())
    }

    /// Which of these addresses members have, for faces that have other names for some.
    pub async fn known(&self, addresses: Vec<Box<str>>) -> Result<BTreeSet<Box<str>>, Fault> {
        let known = |task: &mut Task, address: &str| task.engine.state.member_id(address).is_some();
        self.view(move |task, _| Ok(addresses.into_iter().filter(|address| known(task, address)).collect())).await
    }
}
