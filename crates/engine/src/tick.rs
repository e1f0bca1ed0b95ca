//! What time alone brings: mail that dies, sessions that end, members that fall silent, history that is purged.
//!
//! All of it runs on monotonic time (`monotonic`): setting the wall clock ends no session, kills no mail and delays
//! nothing.

use crate::conversations;
use crate::credential::Session;
use crate::delivery::ranges;
use crate::input::{Clock, Effect, Effects};
use crate::invites;
use crate::mods::{persistence, workspace};
use crate::monotonic;
use crate::own;
use crate::presence::{
    PERSON_SESSION_AGE_MS, PERSON_SESSION_IDLE_MS, Presence, SESSION_AGE_MS, SESSION_IDLE_MS, USED_EVERY_MS,
    VolatileState,
};
use crate::record::{Acks, Change, Record};
use crate::rights;
use crate::route::StreamKey;
use crate::server_events::{self, ServerEvent};
use crate::state::{Member, MemberId, State, holds};
use crate::work;
use rialto_model::network::Settings;
use rialto_model::{ErrorCode, EventType, Millis, Seq, limits};
use roaring::RoaringTreemap;
use serde_json::json;
use std::collections::BTreeMap;

/// Event ids named in one dead-letter notice.
const NAMED_MAX: usize = 100;
/// Dead letters made in one tick: the rest waits for the next.
const DEAD_PER_TICK_MAX: usize = 10_000;
/// Ranges in one record of dead letters.
const DEAD_RANGES_MAX: usize = 4096;
/// A floor may lag behind by this much before a tick raises it.
const FLOOR_LAG_MAX: Seq = 65_536;
/// Floors looked at in one tick.
const FLOORS_PER_TICK_MAX: usize = 64;
/// Ids are known again for at least this long.
const IDS_KEPT_MS: Millis = 24 * 3_600_000;
/// In debug builds, counts of pending mail are checked by walking in networks of at most so many events.
const WALKED_MAX: Seq = 2000;
/// Events purged at once between two purge intervals.
const PURGE_STRIDE: Seq = 1000;

pub(crate) fn decide(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    live.buckets.sweep(now);
    fall_silent(state, live, now, fx);
    server_events::presence_changes(state, live, now, fx);
    rights::end_expired_credentials(state, live, now, fx);
    rights::record_token_use(state, live, fx);
    end_old_sessions(state, live, now, fx);
    own::end_quiet(state, now, fx);
    bound_bytes(state, fx);
    undeliverable(state, now, fx);
    work::expire(state, live, now, fx);
    work::forget(state, now, fx);
    conversations::free_threads(state, fx);
    workspace::sessions::archive(state, live, now, fx);
    invites::lapse(state, now, fx);
    purge(state, live, now, fx);
    raise_floors(state, live, fx);
    monotonic::record(state, now, fx);
}

/// Members that made no call for a minute and have no stream are offline; each change is told once.
fn fall_silent(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    live.presence.retain(|id| state.member(id).is_some_and(|m| !m.removed));
    let changed: Vec<(MemberId, bool)> = live
        .presence
        .iter()
        .map(|(id, p)| (id, p.online, p.is_there(now)))
        .filter(|(_, told, is)| told != is)
        .map(|(id, _, is)| (id, is))
        .collect();
    for (id, online) in changed {
        if let Some(p) = live.presence.get_mut(id) {
            p.online = online;
        }
        if let Some(m) = state.member(id) {
            server_events::presence_signal(state, live, &m.address, m.role(), online, now, fx);
        }
    }
}

impl State {
    /// Records of events up to this one are no longer needed: not by history, not by a recipient, and not to know an id
    /// again, which takes a day.
    pub fn horizon(&self, now: Clock) -> Seq {
        let first = [self.lists.kept().min(), self.book.unstored.keys().next().copied()].into_iter().flatten().min();
        let unneeded = first.map_or(self.book.head, |first| first - 1);
        unneeded.min(self.aged_through(now, IDS_KEPT_MS))
    }
}

/// Mail past its life, and the oldest mail of queues that hold too much: a fan-out commits whatever they hold.
fn undeliverable(state: &State, now: Clock, fx: &mut Effects) {
    let cutoff = state.aged_through(now, state.book.settings.ttl_ms);
    // Many may end at once: some now, the rest with the next ticks. Those that end at the same moment go together.
    let late = state.deadline_clock(now);
    let most = state.deaths.range(..=(late, Seq::MAX)).nth(DEAD_PER_TICK_MAX).map_or(late, |(at, _)| *at);
    let through = most.min(late);
    let short: RoaringTreemap = state.deaths.range(..=(through, Seq::MAX)).map(|(_, seq)| *seq).collect();
    let mut budget = DEAD_PER_TICK_MAX;
    let mut ends: Vec<ExpiredDeliveries> = Vec::new();
    for (id, _) in state.roster() {
        // Held to the walk wherever tests and simulated worlds let time pass.
        debug_assert!(state.book.head > WALKED_MAX || agrees_with_walk(state, id), "pending mail is counted wrongly");
        let mut seqs: Vec<Seq> = Vec::new();
        // Nothing is pending below the floor: most members need no look.
        if cutoff > state.lists.floor(id) {
            seqs.extend(state.pending(id, 0, cutoff).take(budget));
        }
        if !short.is_empty() {
            let young = state.pending_among(id, &short);
            seqs.extend(young.iter().filter(|seq| *seq > cutoff).take(budget - seqs.len()));
        }
        seqs.sort_unstable();
        budget -= seqs.len();
        let over = beyond_bounds(state, id, &seqs, budget);
        if !over.is_empty() {
            budget -= over.len();
            ends.push(ExpiredDeliveries { recipient: id, reason: "queue_full", seqs: over });
        }
        if !seqs.is_empty() {
            ends.push(ExpiredDeliveries { recipient: id, reason: "ttl", seqs });
        }
    }
    end_deliveries(state, &ends, now, fx);
    if !short.is_empty() && budget > 0 {
        fx.change(Change::Lapsed { through });
    }
}

/// The oldest mail of a queue that holds more events or bytes than it may; mail that ends anyway makes room first, and at
/// least one event stays.
fn beyond_bounds(state: &State, id: MemberId, ending: &[Seq], budget: usize) -> Vec<Seq> {
    let mut events = state.surplus(id, state.book.settings.max_pending).saturating_sub(ending.len() as u64);
    let mut kib = state.surplus_kib(id);
    let mut over = Vec::new();
    if events == 0 && kib == 0 {
        return over;
    }
    let ends = |seq: &Seq| ending.binary_search(seq).is_ok();
    if kib > 0 && !ending.is_empty() {
        let ended: u64 =
            state.pending(id, 0, Seq::MAX).weighed().filter(|(seq, _)| ends(seq)).map(|(_, kib)| kib).sum();
        kib = kib.saturating_sub(ended);
    }
    let mut rest = state.pending(id, 0, Seq::MAX).weighed().filter(|(seq, _)| !ends(seq)).peekable();
    while (events > 0 || kib > 0) && over.len() < budget {
        let Some((seq, size)) = rest.next() else { break };
        if events == 0 && rest.peek().is_none() {
            break;
        }
        over.push(seq);
        events = events.saturating_sub(1);
        kib = kib.saturating_sub(size);
    }
    over
}

/// A network of before queues were bounded by bytes gets that bound, once.
fn bound_bytes(state: &State, fx: &mut Effects) {
    let settings = &state.book.settings;
    if settings.max_pending_bytes == 0 {
        let settings = Settings { max_pending_bytes: limits::PENDING_BYTES_MAX, ..settings.clone() };
        fx.change(Change::Settings { settings });
    }
}

/// Whether what is known of a member's pending mail without walking it is what the walk finds.
fn agrees_with_walk(state: &State, id: MemberId) -> bool {
    let walk: Vec<(Seq, u64)> = state.pending(id, 0, Seq::MAX).weighed().collect();
    let newest: Vec<Seq> = state.pending_newest(id, 0, Seq::MAX).collect();
    newest.iter().rev().eq(walk.iter().map(|(seq, _)| seq))
        && state.first_pending(id) == walk.first().map(|(seq, _)| *seq)
        && state.pending_sums(id) == (walk.len() as u64, walk.iter().map(|(_, kib)| kib).sum())
}

/// Deliveries of one member that end undelivered.
struct ExpiredDeliveries<'a> {
    recipient: MemberId,
    reason: &'a str,
    seqs: Vec<Seq>,
}

/// Ends deliveries of one member: recorded for the operator, told to each source once. What is not pending is left out.
pub(crate) fn dead_letters(
    state: &State,
    recipient: MemberId,
    seqs: &[Seq],
    reason: &str,
    now: Clock,
    fx: &mut Effects,
) {
    let seqs: Vec<Seq> = state.pending_among(recipient, &seqs.iter().copied().collect()).iter().collect();
    end_deliveries(state, &[ExpiredDeliveries { recipient, reason, seqs }], now, fx);
}

fn end_deliveries(state: &State, ends: &[ExpiredDeliveries<'_>], now: Clock, fx: &mut Effects) {
    let all: RoaringTreemap = ends.iter().flat_map(|end| &end.seqs).collect();
    if all.is_empty() {
        return;
    }
    let sources = state.lists.sources(&all);
    for end in ends {
        record_end(state, end, now, fx);
        if crate::bugs::on("dead letter twice") {
            record_end(state, end, now, fx);
        }
    }
    for end in ends {
        let mut by_source: BTreeMap<MemberId, Vec<Seq>> = BTreeMap::new();
        for seq in end.seqs.iter().filter(|seq| !state.book.fleeting.contains_key(seq)) {
            if let Some(source) = sources.get(seq) {
                by_source.entry(*source).or_default().push(*seq);
            }
        }
        for (source, seqs) in by_source {
            notices(state, end, source, &seqs, now, fx);
        }
        work::request_died(state, end.recipient, &end.seqs, end.reason, now, fx);
    }
}

/// Records the end of deliveries; a notice of earlier dead letters ends without becoming one itself, and so does what
/// was to be forgotten anyway.
fn record_end(state: &State, end: &ExpiredDeliveries<'_>, now: Clock, fx: &mut Effects) {
    let notice = state.types.get(EventType::DeliveryDead.as_str()).map(|number| StreamKey::Type(*number));
    let is_quiet =
        |seq: &Seq| notice.is_some_and(|key| state.lists.contains(key, *seq)) || state.book.fleeting.contains_key(seq);
    let (quiet, letters): (Vec<Seq>, Vec<Seq>) = end.seqs.iter().partition(|seq| is_quiet(seq));
    let at = state.stamp(now.wall);
    for seqs in ranges(&letters).chunks(DEAD_RANGES_MAX) {
        fx.change(Change::Dead { member: end.recipient, reason: end.reason.into(), at, seqs: seqs.to_vec() });
    }
    if !quiet.is_empty() {
        fx.commit(Record::Acks(Acks { member: end.recipient, floor: 0, above: ranges(&quiet) }));
    }
}

/// Tells a source which of its events one recipient did not get. Events are named by position here;
/// [`Record::with_ids`] puts their ids in.
fn notices(state: &State, end: &ExpiredDeliveries<'_>, source: MemberId, seqs: &[Seq], now: Clock, fx: &mut Effects) {
    let Some(sender) = state.member(source).filter(|m| m.is_present()) else { return };
    let Some(recipient) = state.member(end.recipient) else { return };
    let attempts = if end.reason == "max_attempts" { state.book.settings.max_attempts.unwrap_or(0) } else { 0 };
    for part in seqs.chunks(NAMED_MAX) {
        let names: Vec<String> = part.iter().map(|seq| format!("seq:{seq}")).collect();
        let mut payload = json!({
            "event_id": names.first(), "recipient": recipient.address, "reason": end.reason, "attempts": attempts,
        });
        if let (Some(map), Some(more)) = (payload.as_object_mut(), names.get(1..).filter(|m| !m.is_empty())) {
            map.insert("more".into(), json!(more));
        }
        let notice = ServerEvent {
            kind: EventType::DeliveryDead,
            target: &sender.address,
            stream: Some(StreamKey::Inbox(source)),
            payload: &payload,
            metadata: None,
            more: None,
        };
        server_events::server_event(state, notice, now, fx);
    }
}

/// Archiving ends deliveries for the operator's list only; no source is told.
pub(crate) fn archive_letters(state: &State, recipient: MemberId, now: Clock, fx: &mut Effects) {
    let seqs = state.pending(recipient, 0, Seq::MAX).collect();
    record_end(state, &ExpiredDeliveries { recipient, reason: "archived", seqs }, now, fx);
}

/// Sessions end when they were not used for long enough, and when they are too old, whatever restarts there were. That they
/// were used is recorded now and then: after a restart it counts as if they had been used once more in that time.
fn end_old_sessions(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    let mut used = Vec::new();
    for (id, member) in state.roster().filter(|(_, m)| !m.sessions.is_empty()) {
        let known =
            if member.used_at == 0 { now.steady } else { member.used_at.saturating_add(USED_EVERY_MS).min(now.steady) };
        let absent = Presence { last_call: known, gone: true, ..Presence::default() };
        let Some(p) = live.presence.or_insert(id, absent) else { continue };
        let last = if p.streams > 0 { now.steady } else { p.last_call };
        if member.used_at == 0 || last > member.used_at.saturating_add(USED_EVERY_MS) {
            used.push(id);
        }
        let (idle_ms, age_ms) = if member.is_human() {
            (PERSON_SESSION_IDLE_MS, PERSON_SESSION_AGE_MS)
        } else {
            (SESSION_IDLE_MS, SESSION_AGE_MS)
        };
        let jumped = crate::bugs::on("clock jump ends sessions") && now.wall > now.steady.saturating_add(3_000_000);
        let idle = p.streams == 0 && (jumped || now.steady >= last.saturating_add(idle_ms));
        let old = |s: &Session| s.began.is_some_and(|began| now.steady >= began.saturating_add(age_ms));
        let numbers: Vec<u64> = member.sessions.iter().filter(|s| idle || old(s)).map(|s| s.number).collect();
        if !numbers.is_empty() {
            fx.change(Change::SessionEnded { member: id, numbers: numbers.clone(), expired: true, voided: false });
            fx.after.push(Effect::Revoked { member: id, numbers, code: ErrorCode::SessionExpired });
        }
    }
    if !used.is_empty() {
        fx.change(Change::SessionsUsed { members: used, at: now.steady.max(1) });
    }
}

/// History forgets by age, count and size, oldest first, never what is undelivered; once per interval, and in between when
/// there is much to forget, so that a steady flow does not log a purge per event.
fn purge(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    let retention = persistence::retention(state);
    let by_age = retention.age.map_or(0, |age| state.aged_through(now, age));
    let kept = state.lists.kept();
    let surplus = retention.events.map_or(0, |keep| kept.len().saturating_sub(keep));
    let by_count = surplus.checked_sub(1).and_then(|last| kept.select(last)).unwrap_or(0);
    let by_size = retention.bytes.map_or(0, |bytes| state.book.sizes.beyond(bytes));
    let through = by_age.max(by_count).max(by_size).min(state.book.head);
    if through <= state.book.purged {
        return;
    }
    let interval = persistence::purge_interval(state);
    let due = live.purged_at.is_none_or(|at| now.steady >= at.saturating_add(interval));
    if due || through - state.book.purged >= PURGE_STRIDE {
        live.purged_at = Some(now.steady);
        fx.change(Change::Purged { through });
    }
}

/// Members that never ack leave their floor behind; raising it now and then keeps their pending sets quick to find.
/// Each tick looks at some members, in turn.
fn raise_floors(state: &State, live: &mut VolatileState, fx: &mut Effects) {
    let head = state.book.head;
    let lags = |id: MemberId| head.saturating_sub(state.lists.floor(id)) > FLOOR_LAG_MAX;
    let from = live.floors_from;
    let (before, after): (Vec<_>, Vec<_>) =
        state.roster().map(|(id, _)| id).filter(|id| lags(*id)).partition(|id| *id < from);
    let turn: Vec<MemberId> = after.into_iter().chain(before).take(FLOORS_PER_TICK_MAX).collect();
    live.floors_from = turn.last().map_or(0, |last| last.saturating_add(1));
    for member in turn {
        let floor = state.first_pending(member).map_or(head, |first| first - 1);
        if floor.saturating_sub(state.lists.floor(member)) > FLOOR_LAG_MAX / 2 {
            fx.commit(Record::Acks(Acks { member, floor, above: Vec::new() }));
        }
    }
}

/// Whether the event was queued for this member when it was committed.
pub(crate) fn was_recipient(state: &State, id: MemberId, member: &Member, stream: Option<StreamKey>, seq: Seq) -> bool {
    let held = |intervals: Option<&Vec<crate::state::Interval>>| intervals.is_some_and(|l| holds(l, seq));
    let behind = match stream {
        Some(StreamKey::Inbox(to)) => to == id,
        Some(StreamKey::Broadcast) => true,
        Some(StreamKey::Channel(c)) => held(member.seats.get(&c)),
        Some(StreamKey::Group(g)) => held(member.groups.get(&g)),
        None
        | Some(
            StreamKey::Thread(_)
            | StreamKey::Source(_)
            | StreamKey::Type(_)
            | StreamKey::Room(_)
            | StreamKey::Work(_)
            | StreamKey::Mention(_),
        ) => false,
    };
    behind
        && held(Some(&member.queueing))
        && !state.lists.contains(StreamKey::Source(id), seq)
        && state.book.narrowed.get(&seq).is_none_or(|to| to.contains(&id))
}
