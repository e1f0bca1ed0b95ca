//! Looking at a network as a workspace: itself, its agents, its channels. Times are stamps; whoever shows them formats.

use super::Task;
use rialto_engine::listing::Piece;
use rialto_engine::state::Channel;
use rialto_engine::{Caller, Clock, Viewer};
use rialto_model::{ErrorCode, Fault, limits};
use serde_json::{Value, json};

impl Task {
    /// What the caller may see of the workspace.
    pub(super) fn workspace(&self, caller: &Caller, agents: bool, now: Clock) -> Value {
        let state = &self.engine.state;
        let book = &state.book;
        let agents = if agents { self.agents(now) } else { Piece::default() };
        let last = if book.head == 0 { book.created_at } else { book.last_stamp };
        let has_more = agents.next.is_some();
        let mut seen = json!({
            "workspace": {
                "workspaceId": book.id, "slug": book.id, "name": book.settings.name,
                "creatorEmail": book.settings.metadata.get("creator_email"),
                "settings": book.settings.metadata.get("settings").cloned().unwrap_or_else(|| json!({})),
                "status": book.settings.status.as_str(), "createdAt": book.created_at, "lastActivityAt": last,
                "browserEnabled": false, "agents": agents.rows,
            },
            "metadata": book.settings.metadata, "manages": state.may_manage(caller, now),
            "arranges": state.may_arrange(caller, now),
        });
        if let (true, Some(Value::Object(workspace))) = (has_more, seen.get_mut("workspace")) {
            workspace.insert("hasMore".into(), true.into());
        }
        seen
    }

    fn agents(&self, now: Clock) -> Piece<Value> {
        let (state, live) = (&self.engine.state, &self.engine.live);
        state.members_as(None, |id, m| {
            let agent = || {
                json!({
                    "agentName": m.name(), "role": m.role().as_str(), "agentType": m.profile.agent_type,
                    "status": state.status_text(live, id, now), "description": m.profile.description,
                    "workingDir": m.profile.working_dir, "lastHeartbeatAt": live.last_seen(id, now),
                    "joinedAt": m.joined_at,
                })
            };
            (!m.is_human()).then(agent)
        })
    }

    /// Channels of the workspace that the viewer may know of, after one of them.
    pub(super) fn workspace_channels(&self, viewer: Viewer, after: Option<u32>) -> Piece<Value> {
        self.engine.state.channels_as(viewer, after, |channel| self.channel_object(channel))
    }

    /// One channel of the workspace, by name.
    pub(super) fn workspace_channel(&self, viewer: Viewer, name: &str) -> Result<Value, Fault> {
        let state = &self.engine.state;
        let name = name.trim_start_matches("channel/");
        let found = state.channel_id(name).filter(|id| state.may_see_channel(viewer, *id));
        let found = found.and_then(|id| state.channel(id)).map(|channel| self.channel_object(channel));
        found.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel")))
    }

    fn channel_object(&self, c: &Channel) -> Value {
        let state = &self.engine.state;
        let name = |id: u32| state.member(id).map(|m| m.name().to_owned());
        json!({
            "channelId": c.name, "workspaceId": state.book.id, "name": c.name, "title": c.title,
            "titleManuallySet": c.title_manual, "createdBy": c.created_by.and_then(name),
            "masterAgent": c.master.and_then(name), "resumeFrom": c.resume_from, "status": c.status.as_str(),
            "starred": c.starred, "participants": c.seated.iter().filter_map(|id| name(*id)).collect::<Vec<_>>(),
            "createdAt": c.created_at,
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
            Viewer::Reader { .. } => {
                return Err(Fault::new(
                    ErrorCode::Unauthenticated,
                    "who asks is not known: show a session id as Bearer",
                ));
            }
        };
        let mut list = state.invitations(own.as_deref());
        let has_more = list.len() > limits::LIST_ROWS_MAX;
        list.truncate(limits::LIST_ROWS_MAX);
        let mut out = json!({ "invitations": list });
        if let (true, Some(map)) = (has_more, out.as_object_mut()) {
            map.insert("has_more".into(), true.into());
        }
        Ok(out)
    }
}
