//! Delivery state: what each member still has to ack (OpenAgents sheet, section 8).
//!
//! Invariant: pending = streams of the member, inside its membership intervals, minus its own events, minus what it
//! acked. Nothing is kept per (event, recipient).
//! Not here: attempts and sessions, which are volatile (`rialto-node`).

use crate::bugs;
use crate::input::{Clock, Effects};
use crate::presence::VolatileState;
use crate::receipts;
use crate::record::{Acks, Record};
use crate::route::StreamKey;
use crate::state::{Interval, MemberId, State, holds, is_open, last_inside, next_inside, trim};
use crate::weights::Weights;
use rialto_model::{ErrorCode, Event, Fault, Seq, limits};
use roaring::RoaringTreemap;
use roaring::treemap::Iter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// One stream of a member, walked inside the stretches that count.
struct Source<'a> {
    seqs: Iter<'a>,
    held: &'a [Interval],
    queueing: &'a [Interval],
    weights: Option<&'a Weights>,
}

/// A stream of a member, with the stretches it receives from it.
struct Received<'a> {
    list: &'a RoaringTreemap,
    held: &'a [Interval],
    weights: Option<&'a Weights>,
}

impl Source<'_> {
    /// The next seq that lies in both kinds of stretches; what lies between is skipped, not walked.
    fn next(&mut self, through: Seq) -> Option<Seq> {
        loop {
            let seq = self.seqs.next().filter(|seq| *seq <= through)?;
            let inside = next_inside(self.held, seq)?.max(next_inside(self.queueing, seq)?);
            if inside == seq {
                return Some(seq);
            }
            self.seqs.advance_to(inside);
        }
    }
}

impl Source<'_> {
    /// The same from the other end: the last seq in both kinds of stretches, not before `from`.
    fn last(&mut self, from: Seq) -> Option<Seq> {
        loop {
            let seq = self.seqs.next_back().filter(|seq| *seq >= from)?;
            let inside = last_inside(self.held, seq)?.min(last_inside(self.queueing, seq)?);
            if inside == seq {
                return Some(seq);
            }
            self.seqs.advance_back_to(inside);
        }
    }
}

/// Pending seqs of one member, ascending.
pub struct Pending<'a> {
    state: &'a State,
    member: MemberId,
    own: Option<&'a RoaringTreemap>,
    above: Option<&'a RoaringTreemap>,
    sources: Vec<Source<'a>>,
    next: BinaryHeap<Reverse<(Seq, usize)>>,
    through: Seq,
}

impl std::fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("member", &self.member).finish_non_exhaustive()
    }
}

const ALWAYS: &[Interval] = &[Interval { from: 0, to: Seq::MAX }];

impl State {
    /// The streams a member receives from, with the stretches it did.
    fn streams_of(&self, member: MemberId) -> impl Iterator<Item = Received<'_>> {
        let record = self.member(member).filter(|m| !m.removed);
        let own = [(StreamKey::Inbox(member), ALWAYS), (StreamKey::Broadcast, ALWAYS)];
        let seats = record.into_iter().flat_map(|m| &m.seats).map(|(c, l)| (StreamKey::Channel(*c), l.as_slice()));
        let groups = record.into_iter().flat_map(|m| &m.groups).map(|(g, l)| (StreamKey::Group(*g), l.as_slice()));
        own.into_iter().filter(move |_| record.is_some()).chain(seats).chain(groups).filter_map(|(key, held)| {
            self.lists.stream(key).map(|list| Received { list, held, weights: self.lists.weights(key) })
        })
    }

    /// Events after this one were sent at most once and are nobody's pending mail.
    fn last_tracked(&self) -> Seq {
        self.book.at_most_once_after.unwrap_or(Seq::MAX)
    }

    /// The member's pending events after `after`, up to and including `through`.
    pub fn pending(&self, member: MemberId, after: Seq, through: Seq) -> Pending<'_> {
        let start = after.max(self.lists.floor(member)).saturating_add(1);
        let through = through.min(self.last_tracked());
        let queueing = self.member(member).map_or(&[][..], |m| m.queueing.as_slice());
        let mut sources = Vec::new();
        let mut next = BinaryHeap::new();
        if start <= through && next_inside(queueing, start).is_some_and(|first| first <= through) {
            for stream in self.streams_of(member).filter(|stream| stream.list.max() >= Some(start)) {
                let mut seqs = stream.list.iter();
                seqs.advance_to(start);
                let mut source = Source { seqs, held: stream.held, queueing, weights: stream.weights };
                if let Some(seq) = source.next(through) {
                    next.push(Reverse((seq, sources.len())));
                    sources.push(source);
                }
            }
        }
        let own = self.lists.stream(StreamKey::Source(member));
        let above = self.lists.acked(member).map(|a| &a.above).filter(|above| !above.is_empty());
        Pending { state: self, member, own, above, sources, next, through }
    }

    /// The member's pending events after `after`, up to and including `through`, the newest first.
    pub fn pending_newest(&self, member: MemberId, after: Seq, through: Seq) -> impl Iterator<Item = Seq> {
        let start = after.max(self.lists.floor(member)).saturating_add(1);
        let through = through.min(self.last_tracked());
        let queueing = self.member(member).map_or(&[][..], |m| m.queueing.as_slice());
        let mut sources: Vec<Source<'_>> = Vec::new();
        let mut next: BinaryHeap<(Seq, usize)> = BinaryHeap::new();
        if start <= through && last_inside(queueing, through).is_some_and(|last| last >= start) {
            for stream in self.streams_of(member).filter(|stream| stream.list.max() >= Some(start)) {
                let mut seqs = stream.list.iter();
                seqs.advance_back_to(through);
                let mut source = Source { seqs, held: stream.held, queueing, weights: stream.weights };
                if let Some(seq) = source.last(start) {
                    next.push((seq, sources.len()));
                    sources.push(source);
                }
            }
        }
        std::iter::from_fn(move || {
            loop {
                let (seq, at) = next.pop()?;
                if let Some(earlier) = sources.get_mut(at).and_then(|s| s.last(start)) {
                    next.push((earlier, at));
                }
                if self.is_wanted(member, seq) {
                    return Some(seq);
                }
            }
        })
    }

    /// Stored events after `after` that the member was sent and that go to a place where it still is, acked or not,
    /// ascending, at most `max`. What is pending is among them. Recipients are fixed at commit: what was said before the
    /// member came, or while it was away, is not replayed.
    pub fn replayable(&self, member: MemberId, after: Seq, through: Seq, max: usize) -> Vec<Seq> {
        let mut all: RoaringTreemap = self.pending(member, after, through).take(max).collect();
        let own = self.lists.stream(StreamKey::Source(member));
        let mut queueing = self.member(member).map_or(&[][..], |m| m.queueing.as_slice());
        if bugs::on("replay from before one came") {
            queueing = ALWAYS;
        }
        for Received { list, held, .. } in self.streams_of(member).filter(|stream| is_open(stream.held)) {
            let mut seqs = list.iter();
            seqs.advance_to(after.saturating_add(1));
            let held = if bugs::on("replay from before one came") { ALWAYS } else { held };
            let mut source = Source { seqs, held, queueing, weights: None };
            let wanted = |seq: &Seq| {
                !own.is_some_and(|own| own.contains(*seq))
                    && !self.book.unstored.contains_key(seq)
                    && self.book.narrowed.get(seq).is_none_or(|to| to.contains(&member))
            };
            all.extend(std::iter::from_fn(|| source.next(through)).filter(wanted).take(max));
        }
        all.iter().take(max).collect()
    }

    /// The oldest pending event. Each stream is walked by itself, up to the oldest found so far: a sender that hears
    /// nothing but itself has much to pass over.
    pub(crate) fn first_pending(&self, member: MemberId) -> Option<Seq> {
        let record = self.member(member).filter(|m| !m.removed)?;
        let start = self.lists.floor(member).saturating_add(1);
        let own = self.lists.stream(StreamKey::Source(member));
        let acked = self.lists.acked(member).map(|a| &a.above).filter(|above| !above.is_empty());
        let is_wanted = |seq: Seq| {
            !own.is_some_and(|own| own.contains(seq))
                && !acked.is_some_and(|acked| acked.contains(seq))
                && self.book.narrowed.get(&seq).is_none_or(|to| to.contains(&member))
        };
        let mut first = None;
        for stream in self.streams_of(member).filter(|stream| stream.list.max() >= Some(start)) {
            let mut seqs = stream.list.iter();
            seqs.advance_to(start);
            let mut source = Source { seqs, held: stream.held, queueing: &record.queueing, weights: None };
            let through = first.map_or(self.last_tracked(), |first: Seq| first - 1);
            first = std::iter::from_fn(|| source.next(through)).find(|seq| is_wanted(*seq)).or(first);
        }
        first
    }

    /// How many events the member has pending, without walking them: a queue may hold millions.
    pub(crate) fn pending_count(&self, member: MemberId) -> u64 {
        self.pending_sums(member).0
    }

    /// How many events the member has pending, and how many KiB they are, without walking them.
    pub(crate) fn pending_sums(&self, member: MemberId) -> (u64, u64) {
        self.pending_sums_through(member, Seq::MAX)
    }

    /// The same, of events up to and including `through`.
    fn pending_sums_through(&self, member: MemberId, through: Seq) -> (u64, u64) {
        let Some(record) = self.member(member).filter(|m| !m.removed) else { return (0, 0) };
        let (start, through) = (self.lists.floor(member).saturating_add(1), through.min(self.last_tracked()));
        let mut done = self.lists.stream(StreamKey::Source(member)).cloned().unwrap_or_default();
        if let Some(acked) = self.lists.acked(member) {
            done |= &acked.above;
        }
        let narrowed = self.book.narrowed.range(start..).filter(|(_, to)| !to.contains(&member));
        done.extend(narrowed.map(|(seq, _)| *seq));
        let (mut count, mut further) = (0, 0);
        for Received { list, held, weights } in self.streams_of(member) {
            let done = &done & list;
            let weights = weights.map(|all| (all, all.of(&done)));
            for Interval { from, to } in common(held, &record.queueing) {
                let stretch = from.saturating_add(1).max(start)..=to.min(through);
                if !stretch.is_empty() {
                    count += list.range_cardinality(stretch.clone()) - done.range_cardinality(stretch.clone());
                    if let Some((all, done)) = &weights {
                        further += all.further_in(stretch.clone()) - done.further_in(stretch);
                    }
                }
            }
        }
        (count, count + further)
    }

    /// At least as many as the member has pending: quicker than the count, and mostly enough to know.
    fn backlog(&self, member: MemberId) -> u64 {
        let start = self.lists.floor(member).saturating_add(1);
        self.streams_of(member).map(|stream| stream.list.range_cardinality(start..)).sum()
    }

    /// At least as many KiB as the member has pending.
    fn backlog_kib(&self, member: MemberId) -> u64 {
        let start = self.lists.floor(member).saturating_add(1);
        let further = |stream: &Received<'_>| stream.weights.map_or(0, |weights| weights.further_in(start..));
        self.streams_of(member).map(|stream| stream.list.range_cardinality(start..) + further(&stream)).sum()
    }

    /// How many events the member has pending beyond `max`.
    pub(crate) fn surplus(&self, member: MemberId, max: u64) -> u64 {
        if self.book.head.saturating_sub(self.lists.floor(member)) <= max || self.backlog(member) <= max {
            return 0;
        }
        self.pending_count(member).saturating_sub(max)
    }

    /// How many events and KiB the member has pending, if it may be more than `max` KiB. Most members need no look: what
    /// came after their floor is few events, or the large ones are not theirs.
    fn heavy_backlog(&self, member: MemberId, max: u64) -> Option<(u64, u64)> {
        let events = self.book.head.saturating_sub(self.lists.floor(member));
        let largest = self.lists.further_kib().min(events.saturating_mul(limits::PENDING_EVENT_KIB_MAX - 1));
        if events + largest <= max || self.backlog_kib(member) <= max {
            return None;
        }
        Some(self.pending_sums(member)).filter(|(_, kib)| *kib > max)
    }

    /// How many KiB of pending mail a member may have.
    fn pending_kib_max(&self) -> u64 {
        match self.book.settings.max_pending_bytes {
            0 => u64::MAX,
            bytes => (bytes / 1024).max(1),
        }
    }

    /// How many KiB the member has pending beyond what the network allows. A single event never is too much.
    pub(crate) fn surplus_kib(&self, member: MemberId) -> u64 {
        let max = self.pending_kib_max();
        self.heavy_backlog(member, max).filter(|(count, _)| *count > 1).map_or(0, |(_, kib)| kib - max)
    }

    /// Refuses one more event for a member that has as many unread as the network allows.
    pub(crate) fn takes_one_more(&self, member: MemberId) -> Result<(), Fault> {
        let max = self.book.settings.max_pending;
        if max > 0 && self.surplus(member, max - 1) == 0 { Ok(()) } else { Err(self.queue_is_full(member)) }
    }

    /// Refuses an event that would make a member's unread mail more bytes than the network allows. A queue with nothing in it
    /// takes any event.
    pub(crate) fn takes_bytes_of(&self, member: MemberId, event: &Event) -> Result<(), Fault> {
        let room = self.pending_kib_max().saturating_sub(event.mail_kib());
        match self.heavy_backlog(member, room) {
            Some((1.., _)) => Err(self.queue_is_full(member)),
            None | Some((0, _)) => Ok(()),
        }
    }

    /// Refuses an event that would make a member's unread mail more than the network allows, in events or in bytes.
    pub(crate) fn takes(&self, member: MemberId, event: &Event) -> Result<(), Fault> {
        self.takes_one_more(member).and_then(|()| self.takes_bytes_of(member, event))
    }

    fn queue_is_full(&self, member: MemberId) -> Fault {
        let name = self.member(member).map_or("the recipient", |m| &m.address);
        let settings = &self.book.settings;
        let text = format!(
            "{name} has as much unread mail as this network allows ({} events or {} bytes); send it again when {name} has read some",
            settings.max_pending, settings.max_pending_bytes,
        );
        Fault::new(ErrorCode::RecipientQueueFull, text)
    }

    /// Whether the member was sent this event and has not acked it.
    pub fn is_pending(&self, member: MemberId, seq: Seq) -> bool {
        let Some(record) = self.member(member).filter(|m| !m.removed) else { return false };
        seq > self.lists.floor(member)
            && seq <= self.last_tracked()
            && holds(&record.queueing, seq)
            && self.is_wanted(member, seq)
            && self.streams_of(member).any(|stream| holds(stream.held, seq) && stream.list.contains(seq))
    }

    /// Those of these events that the member was sent and has not acked. Each stream is looked at once, however many events there are.
    pub(crate) fn pending_among(&self, member: MemberId, seqs: &RoaringTreemap) -> RoaringTreemap {
        let Some(record) = self.member(member).filter(|m| !m.removed) else { return RoaringTreemap::new() };
        let (floor, last) = (self.lists.floor(member), self.last_tracked());
        let mut out = RoaringTreemap::new();
        for Received { list, held, .. } in self.streams_of(member).filter(|stream| stream.list.max() >= seqs.min()) {
            if list.is_disjoint(seqs) {
                continue;
            }
            let inside = |seq: &Seq| *seq > floor && *seq <= last && holds(held, *seq) && holds(&record.queueing, *seq);
            out.extend((list & seqs).iter().filter(inside).filter(|seq| self.is_wanted(member, *seq)));
        }
        out
    }

    /// Of an event in the member's streams: not its own, not acked, not narrowed to others.
    fn is_wanted(&self, member: MemberId, seq: Seq) -> bool {
        !self.lists.contains(StreamKey::Source(member), seq)
            && !self.lists.acked(member).is_some_and(|a| a.above.contains(seq))
            && self.book.narrowed.get(&seq).is_none_or(|to| to.contains(&member))
    }

    /// Raises the floor to just below the oldest pending event, and drops stretches that only matter below it.
    pub(crate) fn settle(&mut self, member: MemberId) {
        let mut floor = self.first_pending(member).map_or(self.book.head, |first| first - 1);
        if bugs::on("ack floor too high") {
            floor = self.book.head.min(floor + 1);
        }
        let Some(record) = self.book.members.get_mut(member as usize).filter(|m| !m.removed) else { return };
        trim(&mut record.queueing, floor);
        record.seats.values_mut().chain(record.groups.values_mut()).for_each(|l| trim(l, floor));
        let acked = self.lists.acked.entry(member).or_default();
        acked.floor = acked.floor.max(floor);
        acked.above.remove_range(..=acked.floor);
    }
}

impl<'a> Pending<'a> {
    /// The same with the KiB each event counts for.
    pub(crate) fn weighed(mut self) -> impl Iterator<Item = (Seq, u64)> + use<'a> {
        std::iter::from_fn(move || {
            let (seq, at) = self.step()?;
            let weights = self.sources.get(at).and_then(|source| source.weights);
            Some((seq, 1 + weights.map_or(0, |weights| weights.further_of(seq))))
        })
    }

    /// The next event, and which of the sources it is from.
    fn step(&mut self) -> Option<(Seq, usize)> {
        loop {
            let Reverse((seq, at)) = self.next.pop()?;
            if let Some(later) = self.sources.get_mut(at).and_then(|s| s.next(self.through)) {
                self.next.push(Reverse((later, at)));
            }
            let wanted = !self.own.is_some_and(|own| own.contains(seq))
                && !self.above.is_some_and(|above| above.contains(seq))
                && self.state.book.narrowed.get(&seq).is_none_or(|to| to.contains(&self.member));
            if wanted {
                return Some((seq, at));
            }
        }
    }
}

impl Iterator for Pending<'_> {
    type Item = Seq;

    fn next(&mut self) -> Option<Seq> {
        self.step().map(|(seq, _)| seq)
    }
}

/// The stretches that lie in both lists; both ascend.
fn common<'a>(a: &'a [Interval], b: &'a [Interval]) -> impl Iterator<Item = Interval> {
    a.iter().flat_map(move |x| {
        let overlap = move |y: &Interval| Interval { from: x.from.max(y.from), to: x.to.min(y.to) };
        b.iter().skip_while(|y| y.to <= x.from).take_while(|y| y.from < x.to).map(overlap)
    })
}

/// Decides acks: only what is really pending counts, and nothing is recorded where nothing changes. Returns how many
/// there were, if asked.
pub(crate) fn decide_acks(
    state: &State,
    live: &VolatileState,
    by: MemberId,
    request: &AckRequest,
    now: Clock,
    fx: &mut Effects,
) -> u64 {
    let floor = state.lists.floor(by);
    let up_to = request.up_to.unwrap_or(0).min(state.book.head);
    let named: RoaringTreemap = request.seqs.iter().copied().filter(|s| *s > floor.max(up_to)).collect();
    let seqs: Vec<Seq> = state.pending_among(by, &named).iter().collect();
    let below = match (up_to > floor, request.count) {
        (false, _) => 0,
        (true, true) => state.pending_sums_through(by, up_to).0,
        (true, false) => u64::from(state.pending(by, 0, up_to).next().is_some()),
    };
    if seqs.is_empty() && below == 0 {
        return 0;
    }
    // Only what is acked is looked up: somebody may want receipts for many events that are not this member's.
    if !state.book.receipts.is_empty() {
        let under = (below > 0).then(|| state.pending(by, 0, up_to)).into_iter().flatten();
        for seq in under.chain(seqs.iter().copied()) {
            let Some(receipt) = state.book.receipts.get(&seq) else { continue };
            receipts::give(state, live, by, seq, receipt, now, fx);
            if bugs::on("receipt twice") {
                receipts::give(state, live, by, seq, receipt, now, fx);
            }
        }
    }
    let floor = if below > 0 { up_to } else { 0 };
    fx.commit(Record::Acks(Acks { member: by, floor, above: ranges(&seqs) }));
    below + seqs.len() as u64
}

/// Inclusive ranges of ascending seqs.
pub(crate) fn ranges(seqs: &[Seq]) -> Vec<(Seq, Seq)> {
    let mut out: Vec<(Seq, Seq)> = Vec::new();
    for seq in seqs {
        match out.last_mut() {
            Some((_, end)) if *end + 1 == *seq => *end = *seq,
            Some((_, end)) if bugs::on("off by one in ranges") && *end + 2 == *seq => *end = *seq,
            _ => out.push((*seq, *seq)),
        }
    }
    out
}
