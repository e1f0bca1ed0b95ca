//! Delivery state: what each member still has to ack (OpenAgents sheet, section 8).
//!
//! Invariant: pending = streams of the member, inside its membership intervals, minus its own events, minus what it
//! acked. Nothing is kept per (event, recipient).
//! Not here: attempts and sessions, which are volatile (`rialto-node`).

use crate::input::{Clock, Effect, Effects};
use crate::record::{Acks, Record};
use crate::route::StreamKey;
use crate::state::{Interval, Member, MemberId, State};
use rialto_model::{Event, EventId, EventParts, Seq, Visibility};
use roaring::treemap::Iter;
use std::sync::Arc;

/// What a member acks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AckRequest {
    /// These.
    pub seqs: Vec<Seq>,
    /// Everything up to and including this.
    pub up_to: Option<Seq>,
    /// The caller wants to know how many there were.
    pub count: bool,
}

struct Source<'a> {
    seqs: std::iter::Peekable<Iter<'a>>,
    intervals: &'a [Interval],
}

/// Pending seqs of one member, ascending.
pub struct Pending<'a> {
    state: &'a State,
    member: MemberId,
    record: Option<&'a Member>,
    sources: Vec<Source<'a>>,
    through: Seq,
}

impl std::fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("member", &self.member).finish_non_exhaustive()
    }
}

const ALWAYS: &[Interval] = &[Interval { from: 0, to: Seq::MAX }];

impl State {
    /// The member's pending events after `after`, up to and including `through`.
    pub fn pending(&self, member: MemberId, after: Seq, through: Seq) -> Pending<'_> {
        let floor = self.lists.acked(member).map_or(0, |a| a.floor);
        let start = after.max(floor).saturating_add(1);
        let record = self.member(member).filter(|m| !m.removed);
        let through = through.min(self.book.at_most_once_after.unwrap_or(Seq::MAX));
        let mut sources = Vec::new();
        let mut add = |key: StreamKey, intervals| {
            if let Some(list) = self.lists.stream(key) {
                let mut seqs = list.iter();
                seqs.advance_to(start);
                sources.push(Source { seqs: seqs.peekable(), intervals });
            }
        };
        if let Some(record) = record.filter(|_| start <= through) {
            add(StreamKey::Inbox(member), ALWAYS);
            add(StreamKey::Broadcast, ALWAYS);
            record.seats.iter().for_each(|(c, intervals)| add(StreamKey::Channel(*c), intervals));
            record.groups.iter().for_each(|(g, intervals)| add(StreamKey::Group(*g), intervals));
        }
        Pending { state: self, member, record, sources, through }
    }

    /// More than the member has pending, quickly: what its own inbox holds above its floor.
    pub(crate) fn inbox_backlog(&self, member: MemberId) -> u64 {
        let floor = self.lists.acked(member).map_or(0, |a| a.floor);
        self.lists.stream(StreamKey::Inbox(member)).map_or(0, |list| list.range_cardinality(floor.saturating_add(1)..))
    }

    /// Whether the member was sent this event and has not acked it.
    pub fn is_pending(&self, member: MemberId, seq: Seq) -> bool {
        self.pending(member, seq.saturating_sub(1), seq).next().is_some()
    }

    /// Raises the floor to just below the oldest pending event.
    pub(crate) fn settle(&mut self, member: MemberId) {
        let floor = self.pending(member, 0, Seq::MAX).next().map_or(self.book.head, |first| first - 1);
        let acked = self.lists.acked.entry(member).or_default();
        acked.floor = acked.floor.max(floor);
        acked.above.remove_range(..=acked.floor);
    }
}

impl Iterator for Pending<'_> {
    type Item = Seq;

    fn next(&mut self) -> Option<Seq> {
        let record = self.record?;
        loop {
            let seq = self.sources.iter_mut().filter_map(|s| s.seqs.peek().copied()).min()?;
            if seq > self.through {
                return None;
            }
            let mut seated = false;
            for source in &mut self.sources {
                if source.seqs.next_if_eq(&seq).is_some() {
                    seated |= source.intervals.iter().any(|i| i.contains(seq));
                }
            }
            let lists = &self.state.lists;
            let wanted = seated
                && record.queueing.iter().any(|i| i.contains(seq))
                && !lists.contains(StreamKey::Source(self.member), seq)
                && !lists.acked(self.member).is_some_and(|a| a.above.contains(seq))
                && self.state.book.narrowed.get(&seq).is_none_or(|to| to.contains(&self.member));
            if wanted {
                return Some(seq);
            }
        }
    }
}

/// Decides acks: only what is really pending counts. Returns how many there were, if asked.
pub(crate) fn decide_acks(state: &State, by: MemberId, request: &AckRequest, now: Clock, fx: &mut Effects) -> u64 {
    let floor = state.lists.acked(by).map_or(0, |a| a.floor);
    let up_to = request.up_to.unwrap_or(0).min(state.book.head);
    let mut seqs: Vec<Seq> = request.seqs.iter().copied().filter(|s| *s > floor.max(up_to)).collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs.retain(|s| *s <= state.book.head && state.is_pending(by, *s));
    let below = if up_to > floor && (request.count || !state.book.receipts.is_empty()) {
        state.pending(by, 0, up_to).collect()
    } else {
        Vec::new()
    };
    if seqs.is_empty() && up_to <= floor {
        return 0;
    }
    let count = (seqs.len() + below.len()) as u64;
    for seq in below.iter().chain(&seqs) {
        if let Some(receipt) = state.book.receipts.get(seq) {
            fx.after.push(receipt_signal(state, by, &receipt.id, receipt.source, now));
        }
    }
    fx.commit(Record::Acks(Acks { member: by, floor: up_to, above: ranges(&seqs) }));
    count
}

/// Inclusive ranges of ascending seqs.
fn ranges(seqs: &[Seq]) -> Vec<(Seq, Seq)> {
    let mut out: Vec<(Seq, Seq)> = Vec::new();
    for seq in seqs {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == *seq => *end = *seq,
            _ => out.push((*seq, *seq)),
        }
    }
    out
}

/// The end-to-end ack a sender asked for with `metadata.receipt`.
fn receipt_signal(state: &State, by: MemberId, id: &str, to: MemberId, now: Clock) -> Effect {
    let address = |m: MemberId| state.member(m).map_or("core", |m| m.address.as_ref());
    let metadata = serde_json::json!({ "in_reply_to": id }).to_string();
    let own_id = EventId {
        at: state.stamp(now.wall),
        seq: (1 << 62) | u64::from(by) << 32 | state.book.head,
        salt: state.book.salt,
    };
    let event = Event::new(
        0,
        &EventParts {
            id: &own_id.to_text(),
            kind: "network.event.ack",
            source: address(by),
            target: address(to),
            payload: "{\"status\":\"acked\"}",
            metadata: &metadata,
            timestamp: state.stamp(now.wall),
            network: &state.book.id,
            visibility: Visibility::Direct,
        },
    );
    let route = crate::Route { stream: Some(StreamKey::Inbox(to)), source: Some(by), ..Default::default() };
    Effect::Signal { event: Arc::new(event), route }
}
