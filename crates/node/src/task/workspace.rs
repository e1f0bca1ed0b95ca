//! Looking at a network as a workspace: itself, its agents, its channels. Times are stamps; whoever shows them formats.

use super::Task;
use rialto_engine::{Caller, Clock, Viewer};
use rialto_model::{ErrorCode, Fault};
use serde_json::{Value, json};

impl Task {
    /// What the caller may see of the workspace.
    pub(super) fn workspace(&self, caller: &Caller, viewer: Viewer, now: Clock) -> Value {
        let state = &self.engine.state;
        let book = &state.book;
        let member = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader => None,
        };
        let name = |id: u32| state.member(id).map(|m| m.name().to_owned());
        let agents: Vec<Value> = state
            .roster()
            .filter(|(_, m)| !m.is_human())
            .map(|(id, m)| {
                let entry = state.roster_entry(&self.engine.live, id, now);
                json!({
                    "agentName": m.name(), "role": m.role().as_str(), "agentType": m.profile.agent_type,
                    "status": entry.get("status"), "description": m.profile.description,
                    "workingDir": m.profile.working_dir, "lastHeartbeatAt": entry.get("last_seen_at"),
                    "joinedAt": m.joined_at,
                })
            })
            .collect();
        let channels: Vec<Value> = state
            .visible_channels(member)
            .filter(|(_, c)| !(viewer == Viewer::Reader && c.private))
            .map(|(_, c)| {
                json!({
                    "channelId": c.name, "workspaceId": book.id, "name": c.name, "title": c.title,
                    "titleManuallySet": c.title_manual, "createdBy": c.created_by.and_then(name),
                    "masterAgent": c.master.and_then(name), "resumeFrom": c.resume_from, "status": c.status.as_str(),
                    "starred": c.starred, "participants": c.seated.iter().filter_map(|id| name(*id)).collect::<Vec<_>>(),
                    "createdAt": c.created_at,
                })
            })
            .collect();
        let last = if book.head == 0 { book.created_at } else { book.last_stamp };
        json!({
            "workspace": {
                "workspaceId": book.id, "slug": book.id, "name": book.settings.name,
                "creatorEmail": book.settings.metadata.get("creator_email"),
                "settings": book.settings.metadata.get("settings").cloned().unwrap_or_else(|| json!({})),
                "status": book.settings.status.as_str(), "createdAt": book.created_at, "lastActivityAt": last,
                "browserEnabled": false, "agents": agents,
            },
            "channels": channels, "metadata": book.settings.metadata, "manages": state.may_manage(caller, now),
            "arranges": state.may_arrange(caller, now),
            "tokens": book.tokens.iter().filter(|t| t.agent.is_none() && t.role.is_none()).map(|t| &t.label).collect::<Vec<_>>(),
        })
    }

    /// Invitations the viewer may see: the operator all, a member its own.
    pub(super) fn invitations(&self, viewer: Viewer, agent: Option<String>) -> Result<Value, Fault> {
        let state = &self.engine.state;
        let canonical = |text: &str| {
            let address = rialto_model::Address::parse_in(text, &state.network);
            address.map(|a| a.as_str().to_owned()).map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()))
        };
        let asked = agent.as_deref().map(canonical).transpose()?;
        let own = match viewer {
            Viewer::Operator => asked,
            Viewer::Member(id) => state.member(id).map(|m| m.address.to_string()),
            Viewer::Reader => return Err(Fault::new(ErrorCode::Unauthenticated, "say who you are")),
        };
        Ok(json!({ "invitations": state.invitations(own.as_deref()) }))
    }
}
