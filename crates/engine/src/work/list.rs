//! Looking at units: one by its id, and those of a member, newest first.

use super::unit::{Artifact, Unit, UnitNo, WorkPlace};
use crate::history::Viewer;
use crate::input::Clock;
use crate::presence::VolatileState;
use crate::state::{MemberId, State};
use rialto_model::WorkState;
use rialto_model::view::{ArtifactView, ExecutorStatus, WorkList, WorkView};
use std::collections::BinaryHeap;

/// Which units are listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnitFilter {
    /// Those the viewer asked for.
    pub asked: bool,
    /// Those the viewer has to do.
    pub to_do: bool,
    /// Those the viewer might take.
    pub untaken: bool,
    /// In one of these states; none means any.
    pub states: Vec<WorkState>,
    /// In this channel.
    pub channel: Option<String>,
    /// In this thread.
    pub thread: Option<String>,
    /// With this context.
    pub context: Option<String>,
    /// Parts of this unit.
    pub parent: Option<String>,
    /// Older than the unit of this number.
    pub before: Option<UnitNo>,
}

/// Whether somebody may still take it.
pub(super) fn is_untaken(unit: &Unit) -> bool {
    unit.is_open() && unit.executor.is_none()
}

/// An artifact as participants see it: what it is, not where it is kept.
fn shown(artifact: &Artifact) -> ArtifactView {
    ArtifactView {
        id: artifact.id.clone(),
        name: artifact.name.clone(),
        content_type: artifact.content_type.clone(),
        chunks: artifact.chunks,
        bytes: artifact.bytes,
        last: artifact.last,
        content: artifact.is_content(),
    }
}

impl State {
    /// A unit as its sides see it.
    pub fn unit_view(&self, live: &VolatileState, unit: &Unit, now: Clock) -> WorkView {
        let address = |id: MemberId| self.member(id).map(|m| m.address.clone());
        let id_of = |no: UnitNo| self.unit(no).map(|u| u.id.clone());
        let target = match unit.place {
            WorkPlace::Agent => unit.executor.and_then(address).map(String::from),
            WorkPlace::Channel(id) => self.channel(id).map(|c| format!("channel/{}", c.name)),
            WorkPlace::Resource(no) => self.resource(no).map(|r| r.address.to_string()),
        };
        WorkView {
            id: unit.id.clone(),
            kind: unit.kind,
            state: unit.state,
            requester: address(unit.requester),
            executor: unit.executor.and_then(address),
            executor_status: unit.executor.map(|id| self.executor_status(live, id, now)),
            target,
            thread: unit.thread.clone(),
            skill: unit.skill.clone(),
            context: unit.context.clone(),
            parent: unit.parent.and_then(id_of),
            root: id_of(unit.root),
            depth: unit.depth,
            deadline_ms: unit.wait_ms,
            due_at: (unit.is_open() && unit.wait_ms.is_some()).then(|| self.shown(unit.due, now)),
            opened_at: unit.opened_at,
            updated_at: unit.updated_at,
            terminal_at: unit.terminal_at,
            error: unit.error.clone(),
            request_id: unit.request_id.clone(),
            last_seq: unit.last_seq,
            aliases: unit.aliases.iter().map(|a| a.id.clone()).collect(),
            artifacts: unit.artifacts.iter().map(shown).collect(),
        }
    }

    /// Whether the executor is there: what pending work depends on.
    fn executor_status(&self, live: &VolatileState, id: MemberId, now: Clock) -> ExecutorStatus {
        match self.member(id) {
            None => ExecutorStatus::Removed,
            Some(m) if m.removed => ExecutorStatus::Removed,
            Some(m) if m.left => ExecutorStatus::Left,
            Some(_) if live.is_online(id, now) => ExecutorStatus::Online,
            Some(_) => ExecutorStatus::Offline,
        }
    }

    /// A page of the units the viewer may see, the newest first.
    pub fn unit_list(
        &self,
        live: &VolatileState,
        viewer: Viewer,
        filter: &UnitFilter,
        limit: usize,
        now: Clock,
    ) -> WorkList {
        let mut units = self.units(viewer, filter, limit + 1);
        let has_more = units.len() > limit;
        units.truncate(limit);
        let next = units.last().filter(|_| has_more).map(|(no, _)| *no);
        let works = units.into_iter().map(|(_, unit)| self.unit_view(live, unit, now)).collect();
        WorkList { works, has_more, next }
    }

    /// Units the viewer may see, newest first: at most `max`.
    pub fn units(&self, viewer: Viewer, filter: &UnitFilter, max: usize) -> Vec<(UnitNo, &Unit)> {
        let before = filter.before.unwrap_or(UnitNo::MAX);
        let passes = |unit: &Unit| self.passes(unit, filter);
        let member = match viewer {
            Viewer::Reader { .. } => return Vec::new(),
            Viewer::Operator => {
                let all = self.book.units.range(..before).rev().map(|(no, unit)| (*no, unit));
                return all.filter(|(_, unit)| passes(unit)).take(max).collect();
            }
            Viewer::Member(id) => id,
        };
        let any = !(filter.asked || filter.to_do || filter.untaken);
        // Each list is in order: the newest of all are taken one by one.
        let mut lists: Vec<_> = Vec::new();
        if any || filter.asked {
            lists.extend(self.work.asked_by.get(&member).map(|units| (false, units.range(..before).rev())));
        }
        if any || filter.to_do {
            lists.extend(self.work.done_by.get(&member).map(|units| (false, units.range(..before).rev())));
        }
        if any || filter.untaken {
            let sits = |channel: &u32| self.member(member).is_some_and(|m| m.sits_in(*channel));
            let here = self.work.untaken.iter().filter(|(channel, _)| sits(channel));
            lists.extend(here.map(|(_, units)| (true, units.range(..before).rev())));
        }
        let mut heads: BinaryHeap<(UnitNo, usize)> =
            lists.iter_mut().enumerate().filter_map(|(at, (_, units))| Some((*units.next()?, at))).collect();
        let (mut found, mut last) = (Vec::new(), None);
        while let Some((no, at)) = heads.pop().filter(|_| found.len() < max) {
            let Some((untaken, units)) = lists.get_mut(at) else { break };
            heads.extend(units.next().map(|next| (*next, at)));
            let fits = |unit: &&Unit| (!*untaken || unit.requester != member) && passes(unit);
            if let Some(unit) = self.unit(no).filter(fits).filter(|_| last != Some(no)) {
                found.push((no, unit));
                last = Some(no);
            }
        }
        found
    }

    fn passes(&self, unit: &Unit, filter: &UnitFilter) -> bool {
        let in_channel = |name: &str| match unit.place {
            WorkPlace::Channel(id) => {
                self.channel(id).is_some_and(|c| c.name.as_ref() == name.trim_start_matches("channel/"))
            }
            WorkPlace::Agent | WorkPlace::Resource(_) => false,
        };
        let parent = |text: &str| unit.parent.and_then(|no| self.unit(no)).is_some_and(|u| u.id.as_ref() == text);
        (filter.states.is_empty() || filter.states.contains(&unit.state))
            && filter.channel.as_deref().is_none_or(in_channel)
            && filter.thread.as_deref().is_none_or(|t| unit.thread.as_deref() == Some(t))
            && filter.context.as_deref().is_none_or(|c| unit.context.as_deref() == Some(c))
            && filter.parent.as_deref().is_none_or(parent)
    }
}
