//! Small reads answered inside the task.

use super::Task;
use crate::command::Look;
use rialto_engine::listing::{Asker, Budget, Piece};
use rialto_engine::{Caller, Clock, Viewer};
use rialto_model::view::{Explanation, Step};
use rialto_model::{ErrorCode, Fault};
use serde_json::{Value, json};

/// Members looked at for one piece of a listing of conversations: each means two lists that are compared.
const PAIRS_MAX: usize = 100;

fn unknown(id: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no event {id:?} is known here"))
}

impl Task {
    pub(super) fn look(&mut self, caller: &Caller, what: Look, now: Clock) -> Result<Value, Fault> {
        let viewer = self.viewer_of(caller, now)?;
        let member = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader { .. } => None,
        };
        match what {
            Look::Discover { filter, compat } => {
                self.engine.state.discovered(&self.engine.live, Asker { viewer, compat }, &filter, now)
            }
            Look::Me => match member {
                Some(id) => Ok(self.engine.state.own_entry(&self.engine.live, id, now)),
                None => Err(Fault::new(ErrorCode::NotAMember, "only members have settings of their own: join first")),
            },
            Look::Channels => Ok(listed(self.engine.state.channel_entries(viewer, None, Budget::default()))),
            Look::ChannelPage { after, limit } => {
                Ok(listed(self.engine.state.channel_entries(viewer, after, Budget::rows(limit))))
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
            Look::Conversations { after } => self.conversations(member, after),
            Look::Workspace { agents } => Ok(self.workspace(caller, agents, now)),
            Look::WorkspaceChannels { after } => Ok(listed(self.workspace_channels(viewer, after))),
            Look::WorkspaceChannel(name) => self.workspace_channel(viewer, &name),
            Look::Invitations(agent) => self.invitations(viewer, agent),
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
        }
    }

    /// Members that come after one of them, with whom the viewer has exchanged direct events: the last one, and how many.
    fn conversations(&self, member: Option<u32>, after: Option<u32>) -> Result<Value, Fault> {
        let Some(me) = member else {
            return Err(Fault::new(ErrorCode::NotAMember, "only members have conversations: join first"));
        };
        let state = &self.engine.state;
        let own = state.member(me).map(|m| m.address.clone()).unwrap_or_default();
        let mut list: Vec<Value> = Vec::new();
        let (mut looks, mut last) = (PAIRS_MAX, None);
        for (other, m) in state.roster_after(after) {
            if looks == 0 {
                return Ok(json!({ "own": own, "with": list, "next": last }));
            }
            last = Some(other);
            if other == me {
                continue;
            }
            looks -= 1;
            let seqs = state.direct_between(me, other);
            let newest = seqs.max().filter(|seq| *seq <= self.committed);
            list.extend(newest.map(|seq| json!({ "last": seq, "count": seqs.len(), "address": m.address })));
        }
        Ok(json!({ "own": own, "with": list, "next": null }))
    }

    /// What became of an event, or why it was refused if there is none.
    pub(crate) fn explain(
        &self,
        viewer: Viewer,
        id: &str,
        record: Option<&rialto_engine::EventRecord>,
    ) -> Result<Explanation, Fault> {
        let state = &self.engine.state;
        let Some(record) = record else {
            let refused = state.explain_refusal(&self.engine.live, viewer, id).ok_or_else(|| unknown(id))?;
            return Ok(Explanation::Refused(Box::new(refused)));
        };
        let mut explained = state.explain(viewer, record).ok_or_else(|| unknown(id))?;
        for (place, member) in explained.pending {
            let Some(rung) = explained.stored.recipients.get_mut(place) else { continue };
            let attempts = self.sessions.attempts(member, record.event.seq);
            rung.attempts = Some(attempts);
            if attempts > 0 || self.sessions.was_shown(member, record.event.seq) {
                rung.rung = Step::Delivered;
            }
        }
        Ok(Explanation::Stored(Box::new(explained.stored)))
    }
}

/// Channels as answers have them, with a cursor if there are more.
fn listed(piece: Piece) -> Value {
    let mut out = json!({ "channels": piece.rows });
    if let (Some(next), Some(map)) = (piece.next, out.as_object_mut()) {
        map.insert("has_more".into(), true.into());
        map.insert("next".into(), next.into());
    }
    out
}

fn operators_only(viewer: Viewer) -> Result<(), Fault> {
    match viewer {
        Viewer::Operator => Ok(()),
        Viewer::Member(_) | Viewer::Reader { .. } => {
            Err(Fault::new(ErrorCode::Forbidden, "only the operator may read this"))
        }
    }
}
