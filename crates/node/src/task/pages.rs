//! Pages of history and inboxes: which events a read may look at.

use super::Task;
use crate::command::PageAnswer;
use crate::delivery::Wants;
use rialto_engine::{Caller, CandidatePage, Clock, Filter, View, Viewer};
use rialto_model::{Fault, Seq, limits};

impl Task {
    #[allow(clippy::too_many_arguments, reason = "who reads what from where")]
    pub(super) fn page(
        &mut self,
        caller: &Caller,
        view: View,
        filter: &Filter,
        position: Option<Seq>,
        (max, wanted): (usize, usize),
        asks: bool,
        now: Clock,
    ) -> Result<PageAnswer, Fault> {
        let viewer = self.viewer_of(caller, now)?;
        if let (View::Inbox, Viewer::Member(id)) = (view, viewer) {
            self.engine.receive_queue(id, &mut self.fx);
            self.decided(Ok(()))?;
        }
        let state = &self.engine.state;
        let people = state.people(filter);
        let (tracked, oldest, head) = (state.is_tracked(), state.book.purged, self.committed);
        let page = match (view, viewer) {
            (View::Inbox, Viewer::Member(id)) if !tracked => {
                let lens = state.lens(viewer);
                let named = Filter { people: people.clone(), ..filter.clone() };
                let (seqs, exhausted) = self.poll_ring(id, &named, wanted)?;
                CandidatePage { exhausted, seqs, lens, people }
            }
            _ => state.page(viewer, view, filter, position, head, max)?,
        };
        let quiet = match viewer {
            Viewer::Member(id) => self.engine.state.member(id).is_some_and(rialto_engine::state::Member::is_quiet),
            Viewer::Operator | Viewer::Reader { .. } => false,
        };
        let checks = match viewer {
            Viewer::Member(id) if asks => self.mod_calls.take(id),
            Viewer::Member(_) | Viewer::Operator | Viewer::Reader { .. } => Vec::new(),
        };
        Ok(PageAnswer { page, viewer, head, oldest, tracked, quiet, checks })
    }

    /// What an at-most-once member's poll gets: it leaves the ring with this answer, all else stays.
    fn poll_ring(&mut self, member: u32, filter: &Filter, wanted: usize) -> Result<(Vec<Seq>, bool), Fault> {
        let mut sessions = std::mem::take(&mut self.sessions);
        let (mut taken, mut bytes, mut left, mut failed) = (0, 0, false, None);
        let after = filter.after.unwrap_or(0);
        let seqs = sessions.take_from_ring(member, |seq| {
            let passing = match self.record_at(seq) {
                Ok(record) => record.filter(|r| filter.passes(r)),
                Err(fault) => {
                    failed = Some(fault);
                    return Wants::Leave;
                }
            };
            let Some(record) = passing else { return Wants::Leave };
            if seq <= after {
                return Wants::Drop;
            }
            if taken >= wanted || bytes >= limits::PAGE_BYTES_MAX {
                left = true;
                return Wants::Leave;
            }
            taken += 1;
            bytes += record.event.json_len();
            Wants::Take
        });
        self.sessions = sessions;
        match failed.filter(|_| seqs.is_empty()) {
            Some(fault) => Err(fault),
            None => Ok((seqs, !left)),
        }
    }
}
