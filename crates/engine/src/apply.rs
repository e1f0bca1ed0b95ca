//! Applying records: the only way durable state changes, live and on replay. Never decides anything.

use crate::conversations::NOWHERE;
use crate::credential::{Ended, NameHold};
use crate::invites;
use crate::mods::Runs;
use crate::monotonic;
use crate::own;
use crate::record::{Acks, Change, EventRecord, Record};
use crate::resources;
use crate::route::StreamKey;
use crate::state::{Channel, DeadLetter, Group, MemberId, ReceiptRequest, State, Unstored, close, is_open, open};
use crate::work;
use rialto_model::channel::ChannelStatus;
use rialto_model::network::Delivery;
use rialto_model::{Millis, Seq, limits};
use roaring::RoaringTreemap;
use std::collections::{BTreeMap, BTreeSet};

/// Types beyond this many distinct ones share one list.
pub(crate) const TYPES_MAX: usize = 10_000;
/// The shared list.
pub(crate) const OTHER_TYPES: u32 = u32::MAX;
/// Leaps of the clock remembered apart; older ones are put together.
const LEAPS_KEPT_MAX: usize = 64;
/// What an event takes in the log beside its texts, about.
const EVENT_OVERHEAD_BYTES: u64 = 96;
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
    monotonic::committed(state, event.timestamp, seq);
    note_size(state, record);
    let route = &record.route;
    let audience = if !record.stored || record.receipt { queued_audience(state, record) } else { 0 };
    let more = record.more.as_deref();
    let mark = more.and_then(|more| more.work.as_ref());
    if !record.stored && audience == 0 && mark.is_none() {
        return;
    }
    let thread = match (&route.thread, route.stream) {
        (Some(thread), Some(StreamKey::Channel(channel))) => {
            let by = route.source.filter(|_| more.is_some_and(|more| more.begins));
            Some(thread_number(state, channel, thread, by))
        }
        _ => None,
    };
    let streams = [
        route.stream,
        route.source.map(StreamKey::Source),
        Some(StreamKey::Type(type_number(state, event.kind()))),
        thread.map(StreamKey::Thread),
        mark.map(|mark| StreamKey::Work(mark.unit)),
        route.room.map(StreamKey::Room),
    ];
    let mentions = more.into_iter().flat_map(|more| &more.mentions).map(|id| StreamKey::Mention(*id));
    let keys = || streams.iter().flatten().copied().chain(mentions.clone());
    keys().for_each(|key| state.lists.post(key, seq));
    let conversations = [thread.map(StreamKey::Thread), route.room.map(StreamKey::Room)];
    conversations.into_iter().flatten().for_each(|key| state.moved(key, Some(seq)));
    if let Some(stream) = route.stream.filter(|_| state.book.settings.max_pending_bytes > 0) {
        state.lists.weigh(stream, seq, event.mail_kib());
    }
    if let (Some(source), true) = (route.source, record.receipt && audience > 0) {
        state.book.receipts.insert(seq, ReceiptRequest { id: event.id().into(), source, waiting: audience });
    }
    if record.stored {
        state.lists.kept.insert(seq);
        if more.is_some_and(|more| more.fleeting) && record.dies_at.is_some() {
            state.book.fleeting.insert(seq, keys().collect());
        }
    } else {
        // A unit's events are held as long as the unit is known.
        let waiting = audience + u32::from(mark.is_some());
        state.book.unstored.insert(seq, Unstored { waiting, streams: keys().collect() });
    }
    if let Some(mark) = mark {
        work::apply_mark(state, event, mark);
    }
    if let Some(to) = &route.to {
        state.book.narrowed.insert(seq, to.clone());
    }
    if let Some(at) = record.dies_at {
        state.book.short_lived.insert(seq, at);
        state.deaths.insert((at, seq));
    }
    if !record.verdicts.is_empty() {
        state.book.verdicts.insert(seq, record.verdicts.clone());
    }
}

/// Counts what history keeps, while that is bounded by size.
fn note_size(state: &mut State, record: &EventRecord) {
    if record.stored && state.loaded.bounded_by_size {
        let bytes = record.event.texts().1.len() as u64 + EVENT_OVERHEAD_BYTES;
        state.book.sizes.add(record.event.seq, bytes);
    }
}

/// How many members the event is queued for.
fn queued_audience(state: &State, record: &EventRecord) -> u32 {
    if !state.is_tracked() {
        return 0;
    }
    let queued = |id: &MemberId| state.member(*id).is_some_and(|m| is_open(&m.queueing));
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

fn thread_number(state: &mut State, channel: u32, thread: &str, by: Option<MemberId>) -> u32 {
    let key = (channel, Box::<str>::from(thread));
    if let Some(number) = state.threads.get(&key) {
        return *number;
    }
    let number = match state.free_threads.pop_first() {
        Some(free) => {
            if let Some(place) = state.book.threads.get_mut(free as usize) {
                place.clone_from(&key);
            }
            free
        }
        None => {
            state.book.threads.push(key.clone());
            u32::try_from(state.book.threads.len() - 1).unwrap_or(u32::MAX)
        }
    };
    state.threads_named.entry(key.1.clone()).or_default().insert(number);
    state.threads.insert(key, number);
    if let Some(by) = by {
        state.book.thread_makers.insert(number, by);
        state.shares.thread(by, true);
    }
    number
}

fn acks(state: &mut State, acks: &Acks) {
    if !state.book.unstored.is_empty() || !state.book.receipts.is_empty() {
        // Nothing changes for events that nobody waits for otherwise.
        let mut watched = RoaringTreemap::new();
        let floor = state.lists.floor(acks.member);
        let below = (floor < acks.floor).then_some((floor.saturating_add(1), acks.floor));
        for (from, to) in below.iter().chain(&acks.above).filter(|(from, to)| from <= to) {
            watched.extend(state.book.unstored.range(*from..=*to).map(|(seq, _)| *seq));
            watched.extend(state.book.receipts.range(*from..=*to).map(|(seq, _)| *seq));
        }
        let ended = state.pending_among(acks.member, &watched);
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
    release(state, seq);
}

/// One less waits for an event that history does not keep.
fn release(state: &mut State, seq: Seq) {
    if let Some(unstored) = state.book.unstored.get_mut(&seq) {
        unstored.waiting -= unstored.waiting.min(1);
        if unstored.waiting == 0 {
            forget(state, seq);
        }
    }
}

/// Short lives that ended; what was to leave history with its life does. Its deliveries have ended before.
fn lapsed(state: &mut State, through: Millis) {
    let later = state.deaths.split_off(&(through.saturating_add(1), 0));
    for (_, seq) in std::mem::replace(&mut state.deaths, later) {
        state.book.short_lived.remove(&seq);
        if let Some(streams) = state.book.fleeting.remove(&seq) {
            forget_in(state, &streams, seq);
            state.book.receipts.remove(&seq);
            state.book.narrowed.remove(&seq);
            state.book.verdicts.remove(&seq);
        }
    }
}

/// Nobody waits for the event and history does not keep it: nothing of it stays.
fn forget(state: &mut State, seq: Seq) {
    if let Some(unstored) = state.book.unstored.remove(&seq) {
        forget_in(state, &unstored.streams, seq);
    }
    state.book.receipts.remove(&seq);
    state.book.narrowed.remove(&seq);
    if let Some(at) = state.book.short_lived.remove(&seq) {
        state.deaths.remove(&(at, seq));
    }
    state.book.verdicts.remove(&seq);
}

/// Takes an event out of the lists that hold it; conversations whose last one it was have another, or none.
fn forget_in(state: &mut State, streams: &[StreamKey], seq: Seq) {
    let conversation = |key: &&StreamKey| matches!(key, StreamKey::Thread(_) | StreamKey::Room(_));
    let last = |key: &&StreamKey| state.lists.last(**key) == Some(seq);
    let moved: Vec<StreamKey> = streams.iter().filter(conversation).filter(last).copied().collect();
    state.lists.forget(streams, seq);
    for key in moved {
        let last = state.lists.last(key);
        state.moved(key, last);
    }
}

fn change(state: &mut State, change: &Change) {
    let head = state.book.head;
    match change {
        // The first record of a network; `State::created` makes the state from it.
        Change::Created { .. } => {}
        Change::Settings { settings } => settings_changed(state, settings),
        Change::Token { token } => state.book.tokens.push(token.clone()),
        Change::TokenUsed { label, at } => token_used(state, label, *at),
        Change::TokenRevoked { label } => {
            state.book.tokens.retain(|t| &t.label != label);
            state
                .book
                .members
                .iter_mut()
                .filter(|m| m.token.as_ref() == Some(label))
                .for_each(|m| m.token_revoked = true);
        }
        Change::Joined { member, record } => {
            let slot = *member as usize;
            if slot < state.book.members.len() {
                if let Some(m) = state.book.members.get_mut(slot) {
                    *m = record.as_ref().clone();
                }
            } else {
                state.book.members.push(record.as_ref().clone());
                // Nothing committed before its first join can be its mail.
                state.lists.acked.entry(*member).or_default().floor = head;
            }
            state.members.insert(record.address.clone(), *member);
            if let Some(face) = &record.via {
                state.carried.entry(face.clone()).or_default().insert(*member);
            }
            state.directory.enter_member(*member, record);
            state.book.former.remove(&record.address);
            seat_in_groups(state, *member);
        }
        Change::SessionIssued { member, session, keep_others } => {
            if !keep_others {
                end_sessions(state, *member, Ended::Taken, |_| true);
            }
            if let Some(m) = state.book.members.get_mut(*member as usize) {
                // Most members have one session for as long as they live.
                m.sessions.reserve_exact(1);
                m.sessions.push(session.clone());
                state.sessions.insert(session.sha256, (*member, session.number));
            }
            state.book.next_session = state.book.next_session.max(session.number + 1);
            session.token.iter().for_each(|label| token_used(state, label, session.created_at));
        }
        Change::SessionEnded { member, numbers, expired, voided } => {
            let why = match (expired, voided) {
                (_, true) => Ended::Voided,
                (true, false) => Ended::Expired,
                (false, false) => Ended::Taken,
            };
            end_sessions(state, *member, why, |n| numbers.contains(&n));
        }
        Change::SessionCapped { member, number, cap } => with_member(state, *member, |m| {
            m.sessions.iter_mut().filter(|s| s.number == *number).for_each(|s| s.cap = Some(*cap));
        }),
        Change::SessionsUsed { members, at } => {
            members.iter().for_each(|member| with_member(state, *member, |m| m.used_at = *at));
        }
        Change::Released { name } => released(state, name),
        Change::Audited { entry } => {
            state.book.audit.push_back(entry.as_ref().clone());
            while state.book.audit.len() > crate::audit::ENTRIES_MAX {
                state.book.audit.pop_front();
            }
        }
        Change::Role { member, role } => with_member(state, *member, |m| m.granted = *role),
        Change::Profile { member, profile } => with_member(state, *member, |m| m.profile = profile.clone()),
        Change::Queueing { member, on, left, receive } => {
            let now = state.monotonic();
            with_member(state, *member, |m| {
                if *on {
                    open(&mut m.queueing, head)
                } else if !crate::bugs::on("mail queued for who left") {
                    close(&mut m.queueing, head)
                }
                if *left && !m.left {
                    m.left_at = now;
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
                title_manual: false,
                archived_at: None,
                seated: Vec::new(),
            });
            state.channels.insert(name.as_str().into(), *channel);
            state.shares.channel(*created_by, true);
            if let Some(made) = state.book.channels.last() {
                state.directory.enter_channel(*channel, made);
            }
        }
        Change::ChannelStatus { channel, status } => {
            let at = state.book.last_stamp;
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.status = *status;
                c.archived_at = (*status == ChannelStatus::Archived).then_some(at);
                if *status == ChannelStatus::Deleted {
                    let (name, by) = (c.name.clone(), c.created_by);
                    state.channels.swap_remove(&name);
                    state.directory.delete_channel(*channel, &name);
                    state.shares.channel(by, false);
                }
            }
        }
        Change::ChannelMaster { channel, master } => {
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.master = *master;
            }
        }
        Change::ChannelSet { channel, title, title_manual, starred, no_resume_from } => {
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.title = title.clone().unwrap_or(std::mem::take(&mut c.title));
                c.title_manual = title_manual.unwrap_or(c.title_manual);
                c.starred = starred.unwrap_or(c.starred);
                c.resume_from = c.resume_from.take().filter(|_| !no_resume_from);
            }
        }
        Change::Seated { channel, member } => {
            state.directory.seat(*member, *channel, true);
            if let Some(c) = state.book.channels.get_mut(*channel as usize) {
                c.seat(*member);
            }
            with_member(state, *member, |m| m.sit(*channel, head));
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
            state.mods_changed();
        }
        Change::ModApproved { name, member, on } => {
            let who = state.book.approved.entry(name.clone()).or_default();
            if *on {
                who.insert(*member);
            } else {
                who.remove(member);
            }
            state.book.approved.retain(|_, who| !who.is_empty());
        }
        Change::Dead { member, reason, at, seqs } => dead(state, *member, reason, *at, seqs),
        Change::DeadSettled { letters, retried_as } => crate::dead::settled(state, letters, *retried_as),
        Change::Lapsed { through } => lapsed(state, *through),
        Change::Clock { monotonic, stamp } => monotonic::apply(state, *monotonic, *stamp),
        Change::Leapt { by } => leapt(state, *by),
        Change::Purged { through } => purge(state, *through),
        Change::Redacted { seq } => {
            state.book.redacted.insert(*seq);
            work::redacted(state, *seq);
        }
        Change::ResourceSet { resource, record } => resources::set(state, *resource, record),
        Change::ProfileRevised { revision } => state.book.profile_revision = *revision,
        Change::Fact { face, key, value } => {
            let facts = state.book.facts.entry(face.clone()).or_default();
            facts.set(key, value.as_deref());
            if facts.is_empty() {
                state.book.facts.remove(face);
            }
        }
        Change::EmitOwed { number, record } => {
            state.book.owed.insert(*number, record.as_ref().clone());
            state.book.next_owed = state.book.next_owed.max(number + 1);
        }
        Change::EmitSettled { number } => {
            state.book.owed.remove(number);
        }
        Change::ResourceGone { resource } => resources::gone(state, *resource),
        Change::Invited { invitation, record } => {
            state.shares.invitation(record.inviter, true);
            if let Some(old) = state.book.invites.insert(invitation.clone(), record.clone()) {
                state.shares.invitation(old.inviter, false);
            }
        }
        Change::InviteUsed { invitation, ended } => invites::used(state, invitation, *ended),
        Change::InvitesLapsed { through } => {
            state.book.invites.retain(|_, invite| invite.expires_at > *through);
            state.shares.recount_invitations(&state.book.invites);
        }
        Change::RoomOpened { room, record } => {
            state.enter_room(*room, record);
            state.recency.add_room(*room, record);
            state.shares.room(record.by);
            state.book.rooms.push(record.clone());
        }
        Change::ThreadsFreed { threads } => {
            for number in threads {
                if let Some(place) = state.book.threads.get_mut(*number as usize) {
                    let key = std::mem::replace(place, (NOWHERE, "".into()));
                    state.threads.swap_remove(&key);
                    if let Some(by) = state.book.thread_makers.remove(number) {
                        state.shares.thread(by, false);
                    }
                    if let Some(named) = state.threads_named.get_mut(&key.1) {
                        named.remove(number);
                        if named.is_empty() {
                            state.threads_named.swap_remove(&key.1);
                        }
                    }
                    state.free_threads.insert(*number);
                }
            }
        }
        Change::Muted { member, channel, on } => own::muted(state, *member, *channel, *on),
        Change::Quiet { member, until } => with_member(state, *member, |m| m.quiet_until = *until),
        Change::Renamed { member, address } => {
            own::renamed(state, *member, address);
            seat_in_groups(state, *member);
        }
        Change::UnitSet { unit, record } => work::set(state, *unit, record),
        Change::WorkForgotten { units } => {
            work::forgotten(state, units).into_iter().for_each(|seq| release(state, seq));
        }
    }
}

/// A token's last use, which never goes back.
fn token_used(state: &mut State, label: &str, at: Millis) {
    let tokens = state.book.tokens.iter_mut().filter(|t| t.label == label);
    tokens.for_each(|t| t.last_used_at = t.last_used_at.max(Some(at)));
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
    state.book.settings = settings.clone();
}

/// The name is anybody's again who may join; a former name leads to nobody.
fn released(state: &mut State, name: &str) {
    if let Some(id) = state.member_id(name) {
        with_member(state, id, |m| m.hold = NameHold::Nothing);
    }
    state.book.former.remove(name);
}

fn end_sessions(state: &mut State, member: MemberId, why: Ended, ends: impl Fn(u64) -> bool) {
    let Some(m) = state.book.members.get_mut(member as usize) else { return };
    let mut ended = Vec::new();
    m.sessions.retain(|s| {
        let keep = !ends(s.number);
        if !keep {
            ended.push(s.sha256);
        }
        keep
    });
    let past = match why {
        Ended::Taken => &mut m.revoked,
        Ended::Expired => &mut m.expired,
        Ended::Voided => &mut m.voided,
    };
    for hash in ended {
        state.sessions.swap_remove(&hash);
        state.ended.insert(hash, (member, why));
        past.push(hash);
        if past.len() > REVOKED_KEPT_MAX {
            state.ended.swap_remove(&past.remove(0));
        }
    }
}

fn unseat(state: &mut State, channel: u32, member: MemberId) {
    let head = state.book.head;
    if let Some(c) = state.book.channels.get_mut(channel as usize) {
        c.seated.retain(|m| *m != member);
        if c.master == Some(member) {
            let members = &state.book.members;
            let is_agent = |id: &MemberId| members.get(*id as usize).is_some_and(|m| !m.is_human());
            c.master = c.seated.iter().copied().find(is_agent);
        }
    }
    state.directory.seat(member, channel, false);
    with_member(state, member, |m| {
        m.muted.remove(&channel);
        if let Some(intervals) = m.seats.get_mut(&channel) {
            close(intervals, head);
        }
    });
}

fn removed(state: &mut State, member: MemberId) {
    let channels: Vec<u32> = state.member(member).map(|m| m.seats.keys().copied().collect()).unwrap_or_default();
    channels.into_iter().for_each(|c| unseat(state, c, member));
    end_sessions(state, member, Ended::Taken, |_| true);
    if let Some(m) = state.book.members.get_mut(member as usize) {
        m.removed = true;
        m.left = true;
        let address = m.address.clone();
        m.seats.clear();
        m.groups.clear();
        m.queueing.clear();
        state.members.swap_remove(&address);
        if let Some(face) = m.via.take() {
            state.carried.entry(face).or_default().remove(&member);
            state.carried.retain(|_, members| !members.is_empty());
        }
        state.directory.remove_member(member);
    }
    state.book.former.retain(|_, id| *id != member);
    state.lists.acked.remove(&member);
    for who in state.book.approved.values_mut() {
        who.remove(&member);
    }
    state.book.approved.retain(|_, who| !who.is_empty());
    let loaded = state.book.mods.len();
    state.book.mods.retain(|m| m.runs != Runs::Served(member));
    if state.book.mods.len() != loaded {
        state.book.mods_revision += 1;
        state.mods_changed();
    }
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
    let members: BTreeSet<&str> = members.iter().map(AsRef::as_ref).collect();
    for m in state.book.members.iter_mut().filter(|m| !m.removed) {
        if members.contains(m.address.as_ref()) {
            open(m.groups.entry(number).or_default(), head);
        } else if let Some(intervals) = m.groups.get_mut(&number) {
            close(intervals, head);
        }
    }
}

/// A group may name an address before it joins.
fn seat_in_groups(state: &mut State, member: MemberId) {
    if let Some(m) = state.book.members.get_mut(member as usize) {
        m.join_groups(&state.book.groups, state.book.head);
    }
}

fn dead(state: &mut State, member: MemberId, reason: &str, at: Millis, seqs: &[(Seq, Seq)]) {
    let Some(recipient) = state.member(member).map(|m| m.address.clone()) else { return };
    let named: RoaringTreemap = seqs.iter().flat_map(|(from, to)| *from..=*to).collect();
    let pending = state.pending_among(member, &named);
    for seq in seqs.iter().flat_map(|(from, to)| *from..=*to) {
        if pending.contains(seq) {
            delivery_ended(state, seq);
            state.lists.acked.entry(member).or_default().above.insert(seq);
        }
        let (recipient, reason) = (recipient.clone(), reason.into());
        state.book.dead_letters.push(DeadLetter { seq, recipient, reason, at, retried_as: None, dropped: false });
    }
    state.settle(member);
    let surplus = state.book.dead_letters.len().saturating_sub(limits::DEAD_LETTERS_KEPT_MAX);
    state.book.dead_letters.drain(..surplus);
}

/// A record of an older release, whose deadlines were stamps: what is committed gets the time back that the wall clock
/// leapt over.
fn leapt(state: &mut State, by: Millis) {
    let leaps = &mut state.book.leaps;
    leaps.push((state.book.head, by));
    if leaps.len() > LEAPS_KEPT_MAX {
        let (_, oldest) = leaps.remove(0);
        if let Some((_, next)) = leaps.first_mut() {
            *next += oldest;
        }
    }
    state.book.short_lived.values_mut().for_each(|at| *at += by);
    state.deaths = state.book.short_lived.iter().map(|(seq, at)| (*at, *seq)).collect();
    own::leapt(state, by);
    work::leapt(state, by);
}

/// History forgets, but never what is still pending for somebody.
fn purge(state: &mut State, through: Seq) {
    let mut waiting: BTreeMap<Seq, u32> = BTreeMap::new();
    for (id, _) in state.roster().filter(|(id, _)| state.lists.floor(*id) < through) {
        state.pending(id, 0, through).for_each(|seq| *waiting.entry(seq).or_default() += 1);
    }
    for no in state.book.units.keys().filter(|_| !crate::bugs::on("purge under open work")) {
        let events = state.lists.stream(StreamKey::Work(*no)).into_iter().flatten();
        events.take_while(|seq| *seq <= through).for_each(|seq| *waiting.entry(seq).or_default() += 1);
    }
    let mut held = state.lists.purge(through, &waiting.keys().collect());
    state.book.purged = state.book.purged.max(through);
    state.rank();
    state.book.narrowed.retain(|seq, _| *seq > through || waiting.contains_key(seq));
    state.book.verdicts.retain(|seq, _| *seq > through);
    state.book.fleeting = state.book.fleeting.split_off(&through.saturating_add(1));
    state.book.redacted = state.book.redacted.split_off(&through.saturating_add(1));
    state.book.sizes.forget(through);
    state.book.leaps.retain(|(seq, _)| *seq > through || waiting.keys().next().is_some_and(|first| first <= seq));
    let needed = waiting.keys().next().copied().unwrap_or(through + 1).min(through + 1);
    monotonic::forget_before(&mut state.book.times, needed);
    if let Some(clock) = &mut state.book.monotonic {
        clock.index.forget_before(needed);
    }
    // Kept ones are no longer history: they are forgotten with their last delivery.
    for (seq, waiting) in waiting {
        let streams = held.remove(&seq).unwrap_or_default();
        state.book.unstored.insert(seq, Unstored { waiting, streams });
    }
}
