//! A network as a workspace: itself, its channels by name, invitations and their secrets.

use crate::Network;
use crate::session::Session;
use crate::task::Task;
use crate::task::read::ReadContext;
use rialto_engine::AdminOp;
use rialto_model::payload::NewInvitation;
use rialto_model::view::{AdminOutcome, ChannelView, InvitationIssued, InvitationList, WorkspaceView};
use rialto_model::{ErrorCode, Fault};

impl Session {
    /// The network as a workspace and what the caller may do to it, with its agents if they are asked for.
    pub async fn workspace(&self, agents: bool) -> Result<WorkspaceView, Fault> {
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            Ok(task.engine.state.workspace_view(&task.engine.live, by.caller, agents, by.now))
        };
        self.view(read).await
    }

    /// A channel by name.
    pub async fn channel(&self, name: &str) -> Result<ChannelView, Fault> {
        let name = name.to_owned();
        self.view(move |task, by| task.channel(by.viewer, &name)).await
    }

    /// Invitations the caller may see: the operator all, or those for one address; a member its own.
    pub async fn invitations(&self, agent: Option<String>) -> Result<InvitationList, Fault> {
        self.view(move |task, by| task.invitations(by.viewer, agent.as_deref())).await
    }
}

impl Network {
    /// The operator invites somebody. The answer holds the code, which is known nowhere else.
    pub async fn invite(&self, wish: NewInvitation) -> Result<InvitationIssued, Fault> {
        let secret = self.handle.host.secret().map_err(|_| Fault::from(ErrorCode::Internal))?;
        let outcome = self.admin(AdminOp::Invite(wish, secret.sha256())).await?;
        let AdminOutcome::Invited { invitation_id, expires_at } = outcome else {
            return Err(ErrorCode::Internal.into());
        };
        let (code, url) = (secret.expose().to_owned(), url(self.id(), secret.expose()));
        Ok(InvitationIssued { invitation_id, expires_at, code, url })
    }
}

/// Where an invitation is taken, below the node's address.
pub(crate) fn url(network: &str, code: &str) -> String {
    format!("/?network={network}&invite={code}")
}
