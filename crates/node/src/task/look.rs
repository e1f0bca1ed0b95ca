//! Small reads answered inside the task.

use super::Task;
use super::read::ReadContext;
use rialto_engine::{MemberId, Viewer};
use rialto_model::view::{Explanation, Step};
use rialto_model::{ErrorCode, Fault, Seq};

/// Members looked at for one piece of a listing of conversations: each means two lists that are compared.
const PAIRS_MAX: usize = 100;

/// With whom a member has exchanged direct events: a piece of the members.
#[derive(Debug)]
pub(crate) struct DirectPairs {
    /// The member's own address.
    pub(crate) own: Box<str>,
    /// The others.
    pub(crate) with: Vec<DirectPair>,
    /// After whom the next piece begins, if there is one.
    pub(crate) next: Option<MemberId>,
}

/// Somebody with whom a member has exchanged direct events.
#[derive(Debug)]
pub(crate) struct DirectPair {
    /// Position of the last of them.
    pub(crate) last: Seq,
    /// How many there are.
    pub(crate) count: u64,
    /// Its address.
    pub(crate) address: Box<str>,
}

fn unknown(id: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no event {id:?} is known here"))
}

impl Task {
    /// Members that come after one of them, with whom the reader has exchanged direct events: the last one, and how many.
    pub(crate) fn conversations(&self, by: &ReadContext<'_>, after: Option<MemberId>) -> Result<DirectPairs, Fault> {
        let Viewer::Member(me) = by.viewer else {
            return Err(Fault::new(ErrorCode::NotAMember, "only members have conversations: join first"));
        };
        let state = &self.engine.state;
        let own = state.member(me).map(|m| m.address.clone()).unwrap_or_default();
        let mut pairs = DirectPairs { own, with: Vec::new(), next: None };
        let (mut looks, mut last) = (PAIRS_MAX, None);
        for (other, m) in state.roster_after(after) {
            if looks == 0 {
                pairs.next = last;
                break;
            }
            last = Some(other);
            if other == me {
                continue;
            }
            looks -= 1;
            let seqs = state.direct_between(me, other);
            if let Some(last) = seqs.max().filter(|seq| *seq <= self.committed) {
                pairs.with.push(DirectPair { last, count: seqs.len(), address: m.address.clone() });
            }
        }
        Ok(pairs)
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
