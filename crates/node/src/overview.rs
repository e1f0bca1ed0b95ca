//! What is shown of a network as a whole: its public profile, what mod/analytics counted, and what only the operator sees.

use crate::session::Session;
use crate::task::Task;
use rialto_engine::{State, mods};
use rialto_model::view::{
    AnalyticsView, AuditList, DeadLetterLedger, GroupList, MembersList, ModList, NetworkView, ProfileView, TokenList,
};
use rialto_model::{ErrorCode, Fault, Millis};

impl Session {
    /// The public profile, for everybody. Whether the network may be known of is in it, not checked here.
    pub async fn profile(&self) -> Result<ProfileView, Fault> {
        let bearer = self.caller.bearer;
        let read = move |task: &mut Task, now| {
            task.token_shown(bearer.as_ref(), now);
            Ok(task.engine.state.profile_view(task.engine.online(now)))
        };
        self.network.view(read).await
    }

    /// What mod/analytics counted.
    pub async fn analytics(&self) -> Result<AnalyticsView, Fault> {
        let missing = || Fault::new(ErrorCode::ModNotFound, "mod/analytics is not loaded");
        self.view(move |task, by| task.engine.analytics(by.now).ok_or_else(missing)).await
    }

    /// The network with its settings.
    pub async fn network_view(&self) -> Result<NetworkView, Fault> {
        self.view_as_operator(State::network_view).await
    }

    /// The tokens of the network, without their hashes.
    pub async fn tokens(&self) -> Result<TokenList, Fault> {
        self.view(|task, by| by.operator_only().map(|()| task.engine.state.tokens(&task.engine.live))).await
    }

    /// The groups of the network.
    pub async fn groups(&self) -> Result<GroupList, Fault> {
        self.view_as_operator(State::groups).await
    }

    /// The pipeline, with every setting of its mods.
    pub async fn mods(&self) -> Result<ModList, Fault> {
        self.view_as_operator(mods::manage::listed).await
    }

    /// Dead letters, dealt with or not, without their events.
    pub async fn dead_letter_ledger(&self) -> Result<DeadLetterLedger, Fault> {
        self.view_as_operator(State::dead_letter_ledger).await
    }

    /// Members with their sessions, without their secrets.
    pub async fn member_sessions(&self) -> Result<MembersList, Fault> {
        self.view(|task, by| {
            by.operator_only()?;
            Ok(task.engine.state.credentials(&task.engine.live, by.now))
        })
        .await
    }

    /// Who managed the network since a time; one actor alone, if it is named.
    pub async fn audit(&self, since: Millis, actor: Option<String>) -> Result<AuditList, Fault> {
        self.view_as_operator(move |state| state.audit(since, actor.as_deref())).await
    }

    async fn view_as_operator<T: Send + 'static>(
        &self,
        read: impl FnOnce(&State) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        self.view(|task, by| by.operator_only().map(|()| read(&task.engine.state))).await
    }
}
