//! What time alone brings: mail that dies, sessions that end, members that fall silent, history that is purged.

use crate::emit;
use crate::input::{Clock, Effect, Effects};
use crate::mods::persistence;
use crate::presence::{Live, SESSION_IDLE_MS};
use crate::record::Change;
use crate::route::StreamKey;
use crate::state::{DeadLetter, Member, MemberId, State};
use rialto_model::{ErrorCode, Millis, Seq, limits};
use serde_json::json;
use std::collections::BTreeMap;

/// Event ids named in one dead-letter notice.
const NAMED_MAX: usize = 100;
/// Dead letters made in one tick: the rest waits for the next.
const DEAD_PER_TICK_MAX: usize = 10_000;

pub(crate) fn decide(state: &State, live: &mut Live, now: Clock, fx: &mut Effects) {
    live.buckets.sweep(now);
    fall_silent(state, live, now, fx);
    expire_mail(state, now, fx);
    overflow(state, now, fx);
    end_idle_sessions(state, live, now, fx);
    purge(state, now, fx);
}

/// Members that made no call for a minute and have no stream are offline; each change is told once.
fn fall_silent(state: &State, live: &mut Live, now: Clock, fx: &mut Effects) {
    let changed: Vec<(MemberId, bool)> = live
        .presence
        .iter()
        .map(|(id, p)| (*id, p.online, p.streams > 0 || now.steady < p.last_call + crate::presence::OFFLINE_AFTER_MS))
        .filter(|(_, told, is)| told != is)
        .map(|(id, _, is)| (id, is))
        .collect();
    for (id, online) in changed {
        if let Some(p) = live.presence.get_mut(&id) {
            p.online = online;
        }
        if let Some(m) = state.member(id).filter(|m| !m.removed) {
            emit::presence_signal(state, live, &m.address.clone(), m.role, online, now, fx);
        }
    }
}

/// The last event committed at or before `time`, to the second.
fn seq_at(state: &State, time: Millis) -> Seq {
    // An entry is the first event of its second: everything before the next entry is older than it.
    let next = state.book.times.partition_point(|(at, _)| at / 1000 <= time / 1000);
    match state.book.times.get(next) {
        Some((_, first)) => first - 1,
        None if state.book.last_stamp <= time => state.book.head,
        None => state.book.times.last().map_or(0, |(_, first)| first.saturating_sub(1)),
    }
}

fn expire_mail(state: &State, now: Clock, fx: &mut Effects) {
    let wall = state.book.last_stamp.max(now.wall);
    let cutoff = seq_at(state, wall.saturating_sub(state.book.settings.ttl_ms));
    let short: Vec<Seq> = state.book.short_lived.iter().filter(|(_, at)| **at <= wall).map(|(seq, _)| *seq).collect();
    if cutoff == 0 && short.is_empty() {
        return;
    }
    for (id, _) in state.roster() {
        let floor = state.lists.acked(id).map_or(0, |a| a.floor);
        let mut seqs: Vec<Seq> =
            if cutoff > floor { state.pending(id, 0, cutoff).take(DEAD_PER_TICK_MAX).collect() } else { Vec::new() };
        seqs.extend(short.iter().filter(|s| **s > cutoff.max(floor) && state.is_pending(id, **s)));
        dead_letters(state, id, &seqs, "ttl", now, fx);
    }
}

/// A fan-out commits whatever its members' queues hold; the oldest mail beyond the limit dies here.
fn overflow(state: &State, now: Clock, fx: &mut Effects) {
    for (id, _) in state.roster() {
        let floor = state.lists.acked(id).map_or(0, |a| a.floor);
        if state.book.head.saturating_sub(floor) <= limits::PENDING_EVENTS_MAX {
            continue;
        }
        let pending = state.pending(id, 0, Seq::MAX).count() as u64;
        let surplus = usize::try_from(pending.saturating_sub(limits::PENDING_EVENTS_MAX)).unwrap_or(0);
        let seqs: Vec<Seq> = state.pending(id, 0, Seq::MAX).take(surplus.min(DEAD_PER_TICK_MAX)).collect();
        dead_letters(state, id, &seqs, "queue_full", now, fx);
    }
}

/// Ends deliveries: recorded for the operator, told to each source once.
pub(crate) fn dead_letters(
    state: &State,
    recipient: MemberId,
    seqs: &[Seq],
    reason: &str,
    now: Clock,
    fx: &mut Effects,
) {
    let Some(member) = state.member(recipient).filter(|_| !seqs.is_empty()) else { return };
    let at = state.stamp(now.wall);
    let letters: Vec<DeadLetter> = seqs
        .iter()
        .map(|seq| DeadLetter { seq: *seq, recipient: member.address.clone(), reason: reason.into(), at })
        .collect();
    fx.change(Change::Dead { letters, member: recipient });
    let mut by_source: BTreeMap<MemberId, Vec<Seq>> = BTreeMap::new();
    for seq in seqs {
        // Notices themselves come from the server, so they have no source and are never dead-lettered on.
        if let Some((source, _)) = state.roster().find(|(id, _)| state.lists.contains(StreamKey::Source(*id), *seq)) {
            by_source.entry(source).or_default().push(*seq);
        }
    }
    for (source, seqs) in by_source {
        let Some(sender) = state.member(source).filter(|m| m.is_present()) else { continue };
        for part in seqs.chunks(NAMED_MAX) {
            let ids: Vec<String> = part.iter().map(|seq| format!("seq:{seq}")).collect();
            let mut payload =
                json!({ "event_id": ids.first(), "recipient": member.address, "reason": reason, "attempts": 0 });
            if let (Some(map), Some(more)) = (payload.as_object_mut(), ids.get(1..).filter(|m| !m.is_empty())) {
                map.insert("more".into(), json!(more));
            }
            emit::server_event(
                state,
                "rialto.delivery.dead",
                &sender.address,
                Some(StreamKey::Inbox(source)),
                &payload,
                now,
                fx,
            );
        }
    }
}

/// Archiving ends deliveries for the operator's list only; no source is told.
pub(crate) fn archive_letters(state: &State, recipient: MemberId, seqs: &[Seq], now: Clock, fx: &mut Effects) {
    let Some(member) = state.member(recipient).filter(|_| !seqs.is_empty()) else { return };
    let at = state.stamp(now.wall);
    let letter = |seq: &Seq| DeadLetter { seq: *seq, recipient: member.address.clone(), reason: "archived".into(), at };
    fx.change(Change::Dead { letters: seqs.iter().map(letter).collect(), member: recipient });
}

fn end_idle_sessions(state: &State, live: &mut Live, now: Clock, fx: &mut Effects) {
    for (id, member) in state.roster().filter(|(_, m)| !m.sessions.is_empty()) {
        // Since a restart, the first tick counts as a call: a session survives the node's absence.
        let p = live.presence.entry(id).or_insert_with(|| crate::presence::Presence {
            last_call: now.steady.saturating_sub(crate::presence::OFFLINE_AFTER_MS),
            ..Default::default()
        });
        if p.streams == 0 && now.steady >= p.last_call + SESSION_IDLE_MS {
            let numbers: Vec<u64> = member.sessions.iter().map(|s| s.number).collect();
            fx.change(Change::SessionEnded { member: id, numbers: numbers.clone() });
            fx.after.push(Effect::Revoked { member: id, numbers, code: ErrorCode::SessionExpired });
        }
    }
}

/// History forgets by age and count, oldest first, never what is undelivered.
fn purge(state: &State, now: Clock, fx: &mut Effects) {
    let (age, count) = persistence::retention(state);
    let wall = state.book.last_stamp.max(now.wall);
    let by_age = age.map_or(0, |age| seq_at(state, wall.saturating_sub(age)));
    let by_count = count.map_or(0, |keep| state.book.head.saturating_sub(keep));
    let through = by_age.max(by_count).min(state.book.head);
    // In strides, so that a steady flow does not log a purge per event.
    if through > state.book.purged && (through - state.book.purged >= 1000 || by_age > state.book.purged) {
        fx.change(Change::Purged { through });
    }
}

/// Whether the event was queued for this member when it was committed.
pub(crate) fn was_recipient(state: &State, id: MemberId, member: &Member, stream: Option<StreamKey>, seq: Seq) -> bool {
    let held =
        |intervals: Option<&Vec<crate::state::Interval>>| intervals.is_some_and(|l| l.iter().any(|i| i.contains(seq)));
    let behind = match stream {
        Some(StreamKey::Inbox(to)) => to == id,
        Some(StreamKey::Broadcast) => true,
        Some(StreamKey::Channel(c)) => held(member.seats.get(&c)),
        Some(StreamKey::Group(g)) => held(member.groups.get(&g)),
        None | Some(StreamKey::Thread(_) | StreamKey::Source(_) | StreamKey::Type(_)) => false,
    };
    behind
        && held(Some(&member.queueing))
        && !state.lists.contains(StreamKey::Source(id), seq)
        && state.book.narrowed.get(&seq).is_none_or(|to| to.contains(&id))
}
