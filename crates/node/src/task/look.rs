//! Small reads answered inside the task.

use super::Task;
use crate::command::{Ledger, Look};
use rialto_engine::{Caller, Clock, Viewer, mods};
use rialto_model::{ErrorCode, Fault};
use serde_json::{Value, json};

/// Conversations in one listing, the liveliest first: each is read inside the task.
const LISTED_MAX: usize = 500;

fn unknown(id: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no event {id:?} is known here"))
}

impl Task {
    pub(super) fn look(&mut self, caller: &Caller, what: Look, now: Clock) -> Result<Value, Fault> {
        if matches!(what, Look::Profile) {
            return Ok(self.profile());
        }
        let viewer = self.viewer_of(caller, now)?;
        let member = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader => None,
        };
        match what {
            Look::Profile => Ok(self.profile()),
            Look::Discover { filter, compat } => self.discover(viewer, &filter, compat, now),
            Look::Me => match member {
                Some(id) => Ok(self.engine.state.own_entry(&self.engine.live, id, now)),
                None => Err(Fault::new(ErrorCode::NotAMember, "only a member has a page of its own: join first")),
            },
            Look::Channels => {
                let readers = viewer == Viewer::Reader;
                let state = &self.engine.state;
                let list: Vec<Value> = state
                    .visible_channels(member)
                    .filter(|(_, c)| !(readers && c.private))
                    .map(|(id, _)| state.channel_entry(id))
                    .collect();
                Ok(json!({ "channels": list }))
            }
            Look::Threads { channel, before, limit } => {
                let list = self.engine.state.threads(viewer, channel.as_deref(), before, limit)?;
                Ok(list.iter().map(|summary| self.summary(summary)).collect())
            }
            Look::Thread { channel, thread } => Ok(self.summary(&self.engine.state.thread(viewer, &channel, &thread)?)),
            Look::Rooms { before, limit } => {
                let list = self.engine.state.rooms(viewer, before, limit);
                Ok(list.iter().map(|summary| self.summary(summary)).collect())
            }
            Look::Room(id) => self.room(viewer, &id),
            Look::Resources(filter) => {
                self.engine.state.resources(&self.engine.live, self.asker(viewer)?, &filter, now)
            }
            Look::Resource { address, version } => {
                let asker = self.asker(viewer)?;
                let found = self.engine.state.readable(&self.engine.live, asker, &address, version, now)?;
                Ok(json!({ "entry": found.0, "blob": found.1 }))
            }
            Look::MayWrite(address) => self.may_write(member, &address),
            Look::MayBring => self.may_bring(viewer),
            Look::Files(filter) => self.engine.state.files_seen(viewer, &filter),
            Look::File(id) => self.file(caller, viewer, &id, now),
            Look::HasFile(id) => Ok(self.engine.state.has_file(&id).into()),
            Look::Works { filter, limit } => Ok(self.works(viewer, &filter, limit, now)),
            Look::Work(id) => self.work(viewer, &id, now),
            Look::Artifact { id, artifact } => self.artifact(viewer, &id, &artifact),
            Look::WorkLog { id, after, limit } => self.work_log(viewer, &id, after, limit),
            Look::Conversations => self.conversations(member),
            Look::Workspace => Ok(self.workspace(caller, viewer, now)),
            Look::Invitations(agent) => self.invitations(viewer, agent),
            Look::Analytics => self
                .engine
                .analytics(now)
                .ok_or_else(|| Fault::new(ErrorCode::ModNotFound, "mod/analytics is not loaded")),
            Look::Explain { id, record } => self.explain(viewer, &id, record.as_deref()),
            Look::DeadLetters { seq, recipient, limit } => {
                operators_only(viewer)?;
                let state = &self.engine.state;
                let mut letters = state.open_dead_letters(seq, recipient.as_deref());
                let list: Vec<Value> = letters
                    .by_ref()
                    .take(limit)
                    .map(|d| json!({ "seq": d.seq, "recipient": d.recipient, "reason": d.reason, "at": d.at, "kept": state.lists.kept().contains(d.seq) }))
                    .collect();
                Ok(json!({ "dead_letters": list, "has_more": letters.next().is_some() }))
            }
            Look::Operator(ledger) => {
                operators_only(viewer)?;
                Ok(self.operator(ledger))
            }
        }
    }

    fn profile(&self) -> Value {
        let book = &self.engine.state.book;
        let s = &book.settings;
        let now = self.clock.now();
        let online =
            self.engine.state.roster().filter(|(id, m)| m.is_present() && self.engine.live.is_online(*id, now)).count();
        let mut capabilities = vec!["network.agent", "network.channel"];
        if self.engine.state.has_mod("persistence") {
            capabilities.push("network.events");
        }
        json!({
            "id": book.id, "slug": book.id, "name": s.name, "description": s.metadata.get("description").cloned().unwrap_or_default(),
            "access": { "policy": if self.engine.state.is_open() { "open" } else { s.policy.as_str() }, "min_verification": s.min_verification },
            "capabilities": capabilities, "agents_online": online, "status": s.status.as_str(), "delivery": s.delivery.as_str(),
            "durability": s.durability.as_str(), "profile": s.profile.as_str(), "onm_version": "1.0",
            "listed": s.metadata.get("listed").and_then(Value::as_bool).unwrap_or(true),
        })
    }

    fn discover(&self, viewer: Viewer, filter: &Value, compat: bool, now: Clock) -> Result<Value, Fault> {
        let state = &self.engine.state;
        let member = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader => None,
        };
        let mut roster = state.discover(&self.engine.live, member, filter, now)?;
        let Some(map) = roster.as_object_mut() else { return Ok(roster) };
        if viewer == Viewer::Reader {
            let open: Vec<String> = state
                .visible_channels(None)
                .filter(|(_, c)| !c.private)
                .map(|(_, c)| format!("channel/{}", c.name))
                .collect();
            map.insert("channels".into(), json!(open));
        }
        if compat {
            let names: Vec<String> = map
                .get("channels")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            let objects: Vec<Value> = state
                .visible_channels(None)
                .filter(|(_, c)| names.iter().any(|n| n.strip_prefix("channel/") == Some(&c.name)))
                .map(|(id, _)| state.channel_entry(id))
                .collect();
            map.insert("channels".into(), objects.into());
            for agent in map.get_mut("agents").and_then(Value::as_array_mut).into_iter().flatten() {
                let name = agent
                    .get("address")
                    .and_then(Value::as_str)
                    .map(|a| a.split_once(':').map_or(a, |(_, n)| n).to_owned());
                if let (Some(agent), Some(name)) = (agent.as_object_mut(), name) {
                    let seen = agent.get("last_seen_at").cloned().unwrap_or_default();
                    agent.insert("agent_name".into(), json!(name));
                    agent.insert("last_heartbeat_at".into(), seen);
                    agent.insert("enabled_skills".into(), json!([]));
                }
            }
        }
        Ok(roster)
    }

    fn conversations(&self, member: Option<u32>) -> Result<Value, Fault> {
        let Some(me) = member else {
            return Err(Fault::new(ErrorCode::NotAMember, "conversations are a member's: join first"));
        };
        let state = &self.engine.state;
        let own = state.member(me).map(|m| m.address.clone()).unwrap_or_default();
        let mut list: Vec<(u64, u64, &str)> = Vec::new();
        for (other, m) in state.roster().filter(|(id, _)| *id != me) {
            let seqs = state.direct_between(me, other);
            let Some(last) = seqs.max() else { continue };
            list.push((last, seqs.len(), &m.address));
        }
        list.sort_unstable_by_key(|(last, ..)| std::cmp::Reverse(*last));
        let mut conversations = Vec::new();
        for (last, count, address) in list.into_iter().take(LISTED_MAX) {
            let Some(record) = self.record_at(last)? else { continue };
            let payload: Value = serde_json::from_str(record.event.payload()).unwrap_or_default();
            conversations.push(json!({
                "agents": [own, address], "message_count": count,
                "last_message": { "content": payload.get("content").cloned().unwrap_or_default(), "sender": record.event.source(), "timestamp": record.event.timestamp },
            }));
        }
        Ok(json!({ "conversations": conversations }))
    }

    fn explain(&self, viewer: Viewer, id: &str, record: Option<&rialto_engine::EventRecord>) -> Result<Value, Fault> {
        let state = &self.engine.state;
        let Some(record) = record else {
            return state.explain_refusal(&self.engine.live, viewer, id).ok_or_else(|| unknown(id));
        };
        let mut explanation = state.explain(viewer, record).ok_or_else(|| unknown(id))?;
        let pending: Vec<(String, u32, bool)> = explanation
            .pending
            .iter()
            .filter_map(|m| {
                let (seq, member) = (record.event.seq, state.member(*m)?);
                let attempts = self.sessions.attempts(*m, seq);
                Some((member.address.to_string(), attempts, attempts > 0 || self.sessions.was_shown(*m, seq)))
            })
            .collect();
        for rung in explanation.json.get_mut("recipients").and_then(Value::as_array_mut).into_iter().flatten() {
            let found = pending.iter().find(|(a, ..)| rung.get("recipient").and_then(Value::as_str) == Some(a));
            if let (Some((_, attempts, went_out)), Some(map)) = (found, rung.as_object_mut()) {
                map.insert("attempts".into(), json!(attempts));
                if *went_out {
                    map.insert("rung".into(), "delivered".into());
                }
            }
        }
        Ok(explanation.json)
    }

    /// When a token was last shown, or a session last made with it.
    fn token_used_at(&self, token: &rialto_model::network::Token) -> Option<u64> {
        let sessions = self.engine.state.roster().flat_map(|(_, m)| &m.sessions);
        let made = sessions.filter(|s| s.token.as_deref() == Some(&token.label)).map(|s| s.created_at).max();
        self.tokens_shown.get(&token.sha256).copied().max(made)
    }

    fn operator(&self, ledger: Ledger) -> Value {
        let book = &self.engine.state.book;
        match ledger {
            Ledger::Tokens => {
                let list: Vec<Value> = book
                    .tokens
                    .iter()
                    .map(|t| json!({ "label": t.label, "role": t.role.map(rialto_model::Role::as_str), "agent": t.agent, "expires_at": t.expires_at, "created_at": t.created_at, "last_used_at": self.token_used_at(t) }))
                    .collect();
                json!({ "tokens": list })
            }
            Ledger::Groups => {
                let list: Vec<Value> = book
                    .groups
                    .iter()
                    .map(|(n, g)| json!({ "group": format!("group/{n}"), "name": n, "members": g.members }))
                    .collect();
                json!({ "groups": list })
            }
            Ledger::Mods => mods::manage::listed(&self.engine.state),
            Ledger::DeadLetters => {
                let list: Vec<Value> = book
                    .dead_letters
                    .iter()
                    .map(|d| json!({ "seq": d.seq, "recipient": d.recipient, "reason": d.reason, "at": d.at }))
                    .collect();
                json!({ "dead_letters": list })
            }
            Ledger::Sessions => {
                json!({ "members": self.engine.state.credentials(&self.engine.live, self.clock.now()) })
            }
            Ledger::Audit(since, actor) => json!({ "entries": self.engine.state.audit(since, actor.as_deref()) }),
            Ledger::Network => {
                let mut out = serde_json::to_value(&book.settings).unwrap_or_default();
                if let Some(map) = out.as_object_mut() {
                    map.insert("id".into(), json!(book.id));
                    map.insert("created_at".into(), json!(book.created_at));
                    map.insert("created_by".into(), json!(book.created_by));
                    map.insert("members".into(), json!(self.engine.state.roster().count()));
                    map.insert("channels".into(), json!(self.engine.state.visible_channels(None).count()));
                    map.insert("head".into(), json!(book.head));
                    map.insert("purged".into(), json!(book.purged));
                    map.insert("mods".into(), json!(book.mods));
                }
                out
            }
        }
    }
}

fn operators_only(viewer: Viewer) -> Result<(), Fault> {
    match viewer {
        Viewer::Operator => Ok(()),
        Viewer::Member(_) | Viewer::Reader => Err(Fault::new(ErrorCode::Forbidden, "this is the operator's")),
    }
}
