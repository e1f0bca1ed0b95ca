//! Who is in a network.

use crate::session::Session;
use rialto_model::Fault;
use rialto_model::payload::RosterFilter;
use rialto_model::view::MemberView;

impl Session {
    /// The members that the caller may know of, in the order of joining: up to [`rialto_model::limits::LIST_ROWS_MAX`].
    pub async fn members(&self) -> Result<Vec<MemberView>, Fault> {
        let filter = RosterFilter { include: Some(vec!["agents".to_owned()]), ..RosterFilter::default() };
        Ok(self.discover(filter).await?.agents.unwrap_or_default())
    }
}
