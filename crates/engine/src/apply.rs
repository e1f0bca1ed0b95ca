//! Applying records: the only way durable state changes, live and on replay. Never decides anything.

use crate::record::{Acks, Change, EventRecord, Record};
use crate::route::StreamKey;
use crate::state::{Channel, DeadLetter, Group, MemberId, Receipt, State, close, open};
use rialto_model::channel::ChannelStatus;
use rialto_model::network::{Delivery, Status};
use rialto_model::{Seq, limits};

/// Types beyond this many distinct ones share one list.
const TYPES_MAX: usize = 10_000;
/// The shared list.
pub(crate) const OTHER_TYPES: u32 = u32::MAX;
/// Hashes of ended sessions remembered per member.
const REVOKED_KEPT_MAX: usize = 8;

pub(crate) fn apply(state: &mut State, record: &Record) {
    match record {
        Record::Event(record) => event(state, record),
        Record::Acks(acks) => self::acks(state, acks),
        Record::Change(change) => self::change(state, change),
    }
}

fn event(state: &mut State, record: &EventRecord) {
    let event = &record.event;
    let seq = event.seq;
    state.book.head = seq;
    if event.timestamp / 1000 != state.book.last_stamp / 1000 || state.book.times.is_empty() {
        state.book.times.push((event.timestamp, seq));
    }
    state.book.last_stamp = state.book.last_stamp.max(event.timestamp);
    let route = &record.route;
    let audience = if !record.stored || record.receipt { queued_audience(state, record) } else { 0 };
    if !record.stored {
        if audience == 0 {
            return;
        }
        state.book.unstored.insert(seq, audience);
    }
    if let Some(stream) = route.stream {
        state.lists.post(stream, seq);
    }
    if let Some(source) = route.source {
        state.lists.post(StreamKey::Source(source), seq);
        if record.receipt && audience > 0 {
            state.book.receipts.insert(seq, Receipt { id: event.id().into(), source, waiting: audience });
        }
    }
    let kind = type_number(state, event.kind());
    state.lists.post(StreamKey::Type(kind), seq);
    if let (Some(thread), Some(StreamKey::Channel(channel))) = (&route.thread, route.stream) {
        let number = thread_number(state, channel, thread);
        state.lists.post(StreamKey::Thread(number), seq);
    }
    if let Some(to) = &route.to {
        state.book.narrowed.insert(seq, to.clone());
    }
    if let Some(at) = record.dies_at {
        state.book.short_lived.insert(seq, at);
    }
    if !record.verdicts.is_empty() {
        state.book.verdicts.insert(seq, record.verdicts.clone());
    }
}

/// How many members the event is queued for.
fn queued_audience(state: &State, record: &EventRecord) -> u32 {
    if !state.is_tracked() {
        return 0;
    }
    let queued = |id: &MemberId| state.member(*id).is_some_and(|m| m.queueing.last().is_some_and(|i| i.to == Seq::MAX));
    u32::try_from(state.audience(&record.route).iter().filter(|id| queued(id)).count()).unwrap_or(u32::MAX)
}

fn type_number(state: &mut State, kind: &str) -> u32 {
    if let Some(number) = state.types.get(kind) {
        return *number;
    }
    if state.book.types.len() >= TYPES_MAX {
        return OTHER_TYPES;
    }
    let number = u32::try_from(state.book.types.len()).unwrap_or(OTHER_TYPES);
    state.book.types.push(kind.into());
    state.types.insert(kind.into(), number);
    number
}

fn thread_number(state: &mut State, channel: u32, thread: &str) -> u32 {
    let key = (channel, Box::<str>::from(thread));
    if let Some(number) = state.threads.get(&key) {
        return *number;
    }
    let number = u32::try_from(state.book.threads.len()).unwrap_or(u32::MAX);
    state.book.threads.push(key.clone());
    state.threads.insert(key, number);
    number
}

fn acks(state: &mut State, acks: &Acks) {
    let covered = |seq: Seq| seq <= acks.floor || acks.above.iter().any(|(from, to)| (*from..=*to).contains(&seq));
    if !state.book.unstored.is_empty() || !state.book.receipts.is_empty() {
        let last = acks.above.last().map_or(acks.floor, |(_, to)| *to);
        let ended: Vec<Seq> = state.pending(acks.member, 0, last).filter(|s| covered(*s)).collect();
        ended.into_iter().for_each(|seq| delivery_ended(state, seq));
    }
    let acked = state.lists.acked.entry(acks.member).or_default();
    acked.floor = acked.floor.max(acks.floor);
    for (from, to) in &acks.above {
        acked.above.insert_range(*from..=*to);
    }
    state.settle(acks.member);
}

/// One recipient is done with the event: receipts and forgotten bodies depend on it.
fn delivery_ended(state: &mut State, seq: Seq) {
    if let Some(receipt) = state.book.receipts.get_mut(&seq) {
        receipt.waiting -= receipt.waiting.min(1);
        if receipt.waiting == 0 {
            state.book.receipts.remove(&seq);
        }
    }
    if let Some(waiting) = state.book.unstored.get_mut(&seq) {
        *waiting -= (*waiting).min(1);
        if *waiting == 0 {
            forget(state, seq);
        }
    }
}

fn forget(state: &mut State, seq: Seq) {
    state.lists.forget(seq);
    state.book.unstored.remove(&seq);
    state.book.receipts.remove(&seq);
    state.book.narrowed.remove(&seq);
    state.book.short_lived.remove(&seq);
    state.book.verdicts.remove(&seq);
}

fn change(state: &mut State, change: &Change) {
    let head = state.book.head;
    match change {
        // The first record of a network; `State::created` makes the state from it.
        Change::Created { .. } => {}
        Change::Settings { settings } => settings_changed(state, settings),
        Change::Token { token } => state.book.tokens.push(token.clone()),
        Change::TokenRevoked { label } => state.book.tokens.retain(|t| &t.label != label),
        Change::Joined { member, record } => {
            let slot = *member as usize;
            if slot < state.book.members.len() {
                if let Some(m) = state.book.members.get_mut(slot) {
                    *m = record.as_ref().clone();
                }
            } else {
                state.book.members.push(record.as_ref().clone());
            }
            state.members.insert(record.address.clone(), *member);
            seat_in_groups(state, *member);
        }
        Change::SessionIssued { member, session, keep_others } => {
            if !keep_others {
                end_sessions(state, *member, |_| true);
            }
            if let Some(m) = state.book.members.get_mut(*member as usize) {
                m.sessions.push(session.clone());
                state.sessions.insert(session.sha256, (*member, session.number));
            }
            state.book.next_session = state.book.next_session.max(session.number + 1);
        }
        Change::SessionEnded { member, numbers } => end_sessions(state, *member, |n| numbers.contains(&n)),
        Change::Role { member, role } => with_member(state, *member, |m| m.role = *role),
        Change::Profile { member, profile } => with_member(state, *member, |m| m.profile = profile.clone()),
        Change::Queueing { member, on, left, receive } => {
            with_member(state, *member, |m| {
                if *on {
                    open(&mut m.queueing, head)
                } else {
                    close(&mut m.queueing, head)
                }
                m.left = *left;
                m.receive = *receive;
            });
        }
        Change::Removed { member } => removed(state, *member),
        Change::ChannelCreated { channel, name, title, private, master, created_by, at, resume_from } => {
            state.book.channels.push(Channel {
                name: name.as_str().into(),
                title: title.clone(),
                private: *private,
                master: *master,
                created_by: *created_by,
                created_at: *at,
                status: ChannelStatus::Active,
                starred: false,
                resume_from: resume_from.clone(),
                seated: Vec::new(),
            });
            state.channels.insert(name.as_str().into(), *channel);
        }
        Change::ChannelStatus { channel, status } => {
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.status = *status;
                if *status == ChannelStatus::Deleted {
                    let name = c.name.clone();
                    state.channels.shift_remove(&name);
                }
            }
        }
        Change::ChannelMaster { channel, master } => {
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.master = *master;
            }
        }
        Change::Seated { channel, member } => {
            if let Some(c) = state.book.channels.get_mut(*channel as usize)
                && !c.seated.contains(member)
            {
                c.seated.push(*member);
            }
            with_member(state, *member, |m| open(m.seats.entry(*channel).or_default(), head));
        }
        Change::Unseated { channel, member } => unseat(state, *channel, *member),
        Change::Group { name, members } => set_group(state, name, members),
        Change::GroupDeleted { name } => {
            if let Some(group) = state.book.groups.remove(name.as_str()) {
                state.book.members.iter_mut().for_each(|m| {
                    if let Some(intervals) = m.groups.get_mut(&group.number) {
                        close(intervals, head);
                    }
                });
            }
        }
        Change::Mods { mods } => {
            state.book.mods.clone_from(mods);
            state.book.mods_revision += 1;
        }
        Change::Dead { letters, member } => dead(state, letters, *member),
        Change::Purged { through } => purge(state, *through),
        Change::Redacted { seq } => state.book.redacted.push(*seq),
    }
}

fn with_member(state: &mut State, id: MemberId, f: impl FnOnce(&mut crate::state::Member)) {
    if let Some(m) = state.book.members.get_mut(id as usize) {
        f(m);
    }
}

fn settings_changed(state: &mut State, settings: &rialto_model::network::Settings) {
    let head = state.book.head;
    let before = state.book.settings.delivery;
    if before == Delivery::AtLeastOnce && settings.delivery == Delivery::AtMostOnce {
        state.book.at_most_once_after = Some(head);
    }
    if before == Delivery::AtMostOnce && settings.delivery == Delivery::AtLeastOnce {
        // What was sent at most once is nobody's pending mail: mark it acked for all.
        let after = state.book.at_most_once_after.take().unwrap_or(head);
        if head > after {
            let ids: Vec<MemberId> = state.roster().map(|(id, _)| id).collect();
            for id in ids {
                state.lists.acked.entry(id).or_default().above.insert_range(after + 1..=head);
                state.settle(id);
            }
        }
    }
    if settings.status == Status::Archived {
        // Dead letters were recorded first; sessions end here.
        let ids: Vec<MemberId> = state.roster().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| end_sessions(state, id, |_| true));
    }
    state.book.settings = settings.clone();
}

fn end_sessions(state: &mut State, member: MemberId, ends: impl Fn(u64) -> bool) {
    let Some(m) = state.book.members.get_mut(member as usize) else { return };
    let mut ended = Vec::new();
    m.sessions.retain(|s| {
        let keep = !ends(s.number);
        if !keep {
            ended.push(s.sha256);
        }
        keep
    });
    for hash in ended {
        state.sessions.shift_remove(&hash);
        m.revoked.push(hash);
        if m.revoked.len() > REVOKED_KEPT_MAX {
            m.revoked.remove(0);
        }
    }
}

fn unseat(state: &mut State, channel: u32, member: MemberId) {
    let head = state.book.head;
    if let Some(c) = state.book.channels.get_mut(channel as usize) {
        c.seated.retain(|m| *m != member);
        if c.master == Some(member) {
            c.master = c.seated.first().copied();
        }
    }
    with_member(state, member, |m| {
        if let Some(intervals) = m.seats.get_mut(&channel) {
            close(intervals, head);
        }
    });
}

fn removed(state: &mut State, member: MemberId) {
    let channels: Vec<u32> = state.member(member).map(|m| m.seats.keys().copied().collect()).unwrap_or_default();
    channels.into_iter().for_each(|c| unseat(state, c, member));
    end_sessions(state, member, |_| true);
    if let Some(m) = state.book.members.get_mut(member as usize) {
        m.removed = true;
        m.left = true;
        let address = m.address.clone();
        m.seats.clear();
        m.groups.clear();
        m.queueing.clear();
        state.members.shift_remove(&address);
    }
    state.lists.acked.remove(&member);
}

fn set_group(state: &mut State, name: &str, members: &[Box<str>]) {
    let head = state.book.head;
    let next = state.book.next_group;
    let group = state.book.groups.entry(name.into()).or_insert_with(|| Group { number: next, members: Vec::new() });
    if group.number == next {
        state.book.next_group += 1;
    }
    group.members = members.to_vec();
    let number = group.number;
    for m in state.book.members.iter_mut().filter(|m| !m.removed) {
        if members.contains(&m.address) {
            open(m.groups.entry(number).or_default(), head);
        } else if let Some(intervals) = m.groups.get_mut(&number) {
            close(intervals, head);
        }
    }
}

/// A group may name an address before it joins.
fn seat_in_groups(state: &mut State, member: MemberId) {
    let head = state.book.head;
    let Some(m) = state.book.members.get_mut(member as usize) else { return };
    for group in state.book.groups.values().filter(|g| g.members.contains(&m.address)) {
        open(m.groups.entry(group.number).or_default(), head);
    }
}

fn dead(state: &mut State, letters: &[DeadLetter], member: MemberId) {
    for letter in letters {
        if state.is_pending(member, letter.seq) {
            delivery_ended(state, letter.seq);
            state.lists.acked.entry(member).or_default().above.insert(letter.seq);
        }
    }
    state.settle(member);
    state.book.dead_letters.extend_from_slice(letters);
    let surplus = state.book.dead_letters.len().saturating_sub(limits::DEAD_LETTERS_KEPT_MAX);
    state.book.dead_letters.drain(..surplus);
}

/// History forgets, but never what is still pending for somebody.
fn purge(state: &mut State, through: Seq) {
    let mut keep = roaring::RoaringTreemap::new();
    let ids: Vec<MemberId> = state.roster().map(|(id, _)| id).collect();
    ids.into_iter().for_each(|id| keep.extend(state.pending(id, 0, through)));
    state.lists.purge(through, &keep);
    // Kept ones are no longer history: they are forgotten with their last delivery.
    for seq in &keep {
        let waiting = state.roster().filter(|(id, _)| state.is_pending(*id, seq)).count();
        state.book.unstored.insert(seq, u32::try_from(waiting).unwrap_or(u32::MAX));
    }
    state.book.purged = state.book.purged.max(through);
    state.book.narrowed.retain(|seq, _| *seq > through || keep.contains(*seq));
    state.book.verdicts.retain(|seq, _| *seq > through);
    state.book.redacted.retain(|seq| *seq > through);
    let first_kept = state.book.times.partition_point(|(_, seq)| *seq <= through);
    state.book.times.drain(..first_kept.saturating_sub(1));
}
