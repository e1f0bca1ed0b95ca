//! Conversations: threads inside channels and direct rooms between two members, with what each member has not read.
//!
//! Invariant: whoever may not see a channel cannot learn of its threads; a room is known to its two members and the
//! operator.
//! Not here: texts. Summaries name events by position; whoever shows them reads the bodies.

use crate::channels;
use crate::emit::EmitDraft;
use crate::history::{Lens, Viewer};
use crate::input::{Clock, Effects};
use crate::membership::{DEFAULT_CHANNEL, find_named};
use crate::record::Change;
use crate::rooms::direct_id;
use crate::route::{Route, StreamKey};
use crate::shares::{Maker, ShareKind};
use crate::state::{ChannelId, Member, MemberId, Room, State};
use rialto_model::metadata::Metadata;
use rialto_model::view::{ConversationCounts, RoomView, ThreadView};
use rialto_model::{ErrorCode, Fault, Seq, limits};
use roaring::RoaringTreemap;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Bound;

/// Unread events of one conversation are counted up to here.
pub const UNREAD_COUNTED_MAX: u64 = 1000;
/// Events of one conversation looked at while counting.
const LOOKED_AT_MAX: usize = 10_000;
/// Members looked at while it is counted who wrote in the threads of a list: with many of them, only the first threads are counted.
const WRITERS_LOOKS_MAX: usize = 50_000;

/// Where a conversation stands in its listing: its last event (none is 0), then its number.
pub type ListPosition = (Seq, u32);

/// The channel that scopes a direct room, if the event says which.
pub(crate) fn room_channel(state: &State, metadata: &Metadata<'_>, by: MemberId) -> Result<Option<String>, Fault> {
    let Some(said) = metadata.text("room_channel") else { return Ok(None) };
    let name = channels::channel_name(&said)?;
    channels::visible(state, &name, by)?;
    Ok(Some(name))
}

/// The room of a direct event; a new one is opened with it. Beyond the bound events are in no room.
pub(crate) fn room_of(
    state: &State,
    draft: &EmitDraft<'_, '_>,
    metadata: &Metadata<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Option<u32> {
    let Some(StreamKey::Inbox(to)) = draft.route.stream else { return None };
    if to == draft.member || draft.kind.is_network() {
        return None;
    }
    let said = metadata.text("room_channel");
    let channel = said.as_deref().map_or(DEFAULT_CHANNEL, |name| name.trim_start_matches("channel/"));
    let known = state.room_between(channel, draft.member, to);
    known.or_else(|| open(state, channel, (draft.member, to), draft.maker, now, fx).ok())
}

/// Opens the room of two members in a channel.
fn open(
    state: &State,
    channel: &str,
    (by, other): (MemberId, MemberId),
    maker: Maker,
    now: Clock,
    fx: &mut Effects,
) -> Result<u32, Fault> {
    state.has_room(ShareKind::Rooms, maker)?;
    let gone = || Fault::from(ErrorCode::UnknownTarget);
    let number = u32::try_from(state.book.rooms.len()).map_err(|_| Fault::from(ErrorCode::Internal))?;
    let (a, b) = sorted((by, other));
    let peers = (peer(state, a).ok_or_else(gone)?, peer(state, b).ok_or_else(gone)?);
    let id = direct_id(&state.book.id, channel, &peers.0, &peers.1);
    let opened_at = state.stamp(now.wall);
    let room = Room { id: id.into(), channel: channel.into(), a, b, opened_at, by: Some(by) };
    fx.change(Change::RoomOpened { room: number, record: room });
    Ok(number)
}

/// What a member is called in the id of a room: the bare name of an agent, else the whole address. Of two agents of one
/// name the one of this network has it.
fn peer(state: &State, id: MemberId) -> Option<String> {
    let address = state.member(id)?.address.as_ref();
    let bare = match address.split_once(':') {
        Some(("agent", name)) => Some(name),
        Some(("openagents", name)) if state.member_id(&format!("agent:{name}")).is_none() => Some(name),
        _ => None,
    };
    Some(bare.unwrap_or(address).to_owned())
}

fn sorted((a, b): (MemberId, MemberId)) -> (MemberId, MemberId) {
    (a.min(b), a.max(b))
}

/// Decides that a member has a room with another: an existing one, or a new one without an event.
pub(crate) fn resolve_room(
    state: &State,
    by: MemberId,
    peer: &str,
    channel: Option<&str>,
    now: Clock,
    fx: &mut Effects,
) -> Result<u32, Fault> {
    crate::emit::is_active(state)?;
    let present = |id: &MemberId| state.member(*id).is_some_and(Member::is_present);
    let peer = find_named(state, peer)
        .filter(present)
        .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{peer}: not a member")).field("peer"))?;
    if by == peer {
        return Err(Fault::new(
            ErrorCode::InvalidArgument,
            "a direct room is between two members: name one other than yourself",
        )
        .field("peer"));
    }
    let channel = match channel {
        Some(name) => {
            let name = channels::channel_name(name)?;
            channels::visible(state, &name, by)?;
            name
        }
        None => DEFAULT_CHANNEL.to_owned(),
    };
    match state.room_between(&channel, by, peer) {
        Some(room) => Ok(room),
        None => open(state, &channel, (by, peer), Maker::Member(by), now, fx),
    }
}

impl State {
    /// The room of two members, in either order.
    pub fn room_between(&self, channel: &str, a: MemberId, b: MemberId) -> Option<u32> {
        self.room_pairs.get(&sorted((a, b)))?.get(channel).copied()
    }

    /// A room by number.
    pub fn room(&self, number: u32) -> Option<&Room> {
        self.book.rooms.get(number as usize)
    }

    /// A room by id, if the viewer may know of it.
    pub fn room_seen(&self, viewer: Viewer, id: &str) -> Option<u32> {
        let number = *self.room_ids.get(id)?;
        let room = self.room(number)?;
        let seen = match viewer {
            Viewer::Operator => true,
            Viewer::Member(me) => room.a == me || room.b == me,
            Viewer::Reader { .. } => false,
        };
        seen.then_some(number)
    }

    /// A channel by name, if the lens shows what is in it.
    fn channel_seen(&self, lens: &Lens, name: &str) -> Result<ChannelId, Fault> {
        let name = name.trim_start_matches("channel/");
        let found = self.channel_id(name).filter(|id| lens.is_operator() || lens.channels().contains(*id));
        found.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel")))
    }

    /// Threads the viewer may see, in one channel or in all, newest activity first, before a place.
    pub fn threads(
        &self,
        viewer: Viewer,
        channel: Option<&str>,
        before: Option<ListPosition>,
        max: usize,
    ) -> Result<Vec<ThreadView>, Fault> {
        let lens = self.lens(viewer);
        let only = channel.map(|name| self.channel_seen(&lens, name)).transpose()?;
        let all = lens.is_operator() || crate::bugs::on("thread of a channel one has left");
        let shown = |c: ChannelId| only.map_or(all || lens.channels().contains(c), |only| only == c);
        let threads = &self.recency.threads;
        let places: Vec<&BTreeSet<ListPosition>> = match only {
            Some(only) => threads.get(&only).into_iter().collect(),
            None => threads.iter().filter(|(channel, _)| shown(**channel)).map(|(_, places)| places).collect(),
        };
        let counted = WRITERS_LOOKS_MAX / self.member_count().max(1);
        let numbers = newest(&places, before, max).into_iter().enumerate();
        Ok(numbers.filter_map(|(at, n)| self.thread_view(viewer, n, at < counted)).collect())
    }

    /// One thread of a channel.
    pub fn thread(&self, viewer: Viewer, channel: &str, thread: &str) -> Result<ThreadView, Fault> {
        let lens = self.lens(viewer);
        let id = self.channel_seen(&lens, channel)?;
        let number = self.threads.get(&(id, thread.into())).copied();
        let found = number.and_then(|n| self.thread_view(viewer, n, true));
        found
            .filter(|thread| thread.counts.last_seq.is_some())
            .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("no thread {thread:?} in {}", channel)))
    }

    /// Rooms of the viewer (all for the operator), newest activity first, before a position.
    pub fn rooms(&self, viewer: Viewer, before: Option<ListPosition>, max: usize) -> Vec<RoomView> {
        let places = match viewer {
            Viewer::Operator => Some(&self.recency.all_rooms),
            Viewer::Member(me) => self.recency.rooms.get(&me),
            Viewer::Reader { .. } => None,
        };
        let numbers = newest(&places.into_iter().collect::<Vec<_>>(), before, max);
        numbers.into_iter().filter_map(|n| self.room_view(viewer, n)).collect()
    }

    /// A thread without its texts.
    fn thread_view(&self, viewer: Viewer, number: u32, counts_writers: bool) -> Option<ThreadView> {
        let (channel, thread) = self.book.threads.get(number as usize)?;
        let key = StreamKey::Thread(number);
        let counts = ConversationCounts {
            participant_count: counts_writers.then(|| self.writers(key)),
            open_work_count: self.work.open_in.get(&(*channel, thread.clone())).copied().unwrap_or(0),
            ..self.counts(viewer, key)
        };
        Some(ThreadView {
            thread: thread.clone(),
            channel: self.channel(*channel).map(|c| format!("channel/{}", c.name)),
            counts,
            root: None,
            latest: None,
            last_activity_at: None,
            number,
        })
    }

    /// One room, without its texts.
    pub fn room_view(&self, viewer: Viewer, number: u32) -> Option<RoomView> {
        let room = self.room(number)?;
        Some(RoomView {
            room: room.id.clone(),
            channel: format!("channel/{}", room.channel),
            members: [room.a, room.b].map(|id| self.member(id).map(|m| m.address.clone())),
            opened_at: room.opened_at,
            counts: ConversationCounts { participant_count: Some(2), ..self.counts(viewer, StreamKey::Room(number)) },
            latest: None,
            last_activity_at: room.opened_at,
            number,
        })
    }

    /// What threads and rooms have in common; nobody counted who wrote.
    fn counts(&self, viewer: Viewer, key: StreamKey) -> ConversationCounts {
        let list = self.lists.stream(key);
        let me = match viewer {
            Viewer::Member(id) => Some(id),
            Viewer::Operator | Viewer::Reader { .. } => None,
        };
        ConversationCounts {
            first_seq: list.and_then(RoaringTreemap::min),
            last_seq: list.and_then(RoaringTreemap::max),
            message_count: list.map_or(0, RoaringTreemap::len),
            participant_count: None,
            open_work_count: 0,
            unread: me.map_or(0, |me| self.unread(me, key)),
            mentions: me.map_or(0, |me| self.unread_mentions(me, key)),
        }
    }

    /// How many members wrote in a thread.
    fn writers(&self, key: StreamKey) -> usize {
        let Some(list) = self.lists.stream(key) else { return 0 };
        let wrote = |id: MemberId| self.lists.stream(StreamKey::Source(id)).is_some_and(|own| !own.is_disjoint(list));
        (0..).zip(&self.book.members).filter(|(id, _)| wrote(*id)).count()
    }

    /// Events of a list that the member was sent and has not acked.
    pub fn unread(&self, member: MemberId, key: StreamKey) -> u64 {
        self.lists.stream(key).map_or(0, |list| self.count_pending(member, list))
    }

    /// Those among them that mention the member.
    pub fn unread_mentions(&self, member: MemberId, key: StreamKey) -> u64 {
        match (self.lists.stream(key), self.lists.stream(StreamKey::Mention(member))) {
            (Some(list), Some(mentions)) => self.count_pending(member, &(list & mentions)),
            _ => 0,
        }
    }

    fn count_pending(&self, member: MemberId, list: &RoaringTreemap) -> u64 {
        let mut seqs = list.iter();
        seqs.advance_to(self.lists.floor(member).saturating_add(1));
        let narrowed = |seq: &Seq| crate::bugs::on("narrowed mail is unread") && self.book.narrowed.contains_key(seq);
        let pending = seqs.take(LOOKED_AT_MAX).filter(|seq| self.is_pending(member, *seq) || narrowed(seq));
        pending.take(usize::try_from(UNREAD_COUNTED_MAX).unwrap_or(usize::MAX)).count() as u64
    }
}

/// Numbers by the last event of their lists, newest first, of several lists; those without any come last.
fn newest(lists: &[&BTreeSet<ListPosition>], before: Option<ListPosition>, max: usize) -> Vec<u32> {
    let end = before.map_or(Bound::Unbounded, Bound::Excluded);
    let mut lists: Vec<_> = lists.iter().map(|places| places.range((Bound::Unbounded, end)).rev()).collect();
    let mut heads: BinaryHeap<(ListPosition, usize)> =
        lists.iter_mut().enumerate().filter_map(|(at, places)| Some((*places.next()?, at))).collect();
    let mut out = Vec::new();
    while let Some((place, at)) = heads.pop().filter(|_| out.len() < max) {
        out.push(place.1);
        heads.extend(lists.get_mut(at).and_then(Iterator::next).map(|next| (*next, at)));
    }
    out
}

/// Threads whose events are all gone: their names are free again once there are many.
pub(crate) fn free_threads(state: &State, fx: &mut Effects) {
    if state.threads.len() < limits::THREADS_MAX / 2 || state.recency.live_threads >= state.threads.len() {
        return;
    }
    let gone = |n: &u32| state.lists.stream(StreamKey::Thread(*n)).is_none();
    let used = (0u32..).zip(&state.book.threads).filter(|(_, (channel, _))| *channel != NOWHERE);
    let threads: Vec<u32> = used.map(|(n, _)| n).filter(gone).take(limits::THREADS_MAX / 2).collect();
    if !threads.is_empty() {
        fx.change(Change::ThreadsFreed { threads });
    }
}

/// The channel of a thread number that is free.
pub(crate) const NOWHERE: ChannelId = ChannelId::MAX;

/// Whether one more thread may begin.
pub(crate) fn may_begin(state: &State, channel: ChannelId, thread: &str, by: Maker) -> Result<(), Fault> {
    if state.threads.contains_key(&(channel, Box::<str>::from(thread))) {
        return Ok(());
    }
    state.has_room(ShareKind::Threads, by).map_err(|fault| fault.field("metadata.thread"))
}

/// Whether an event that goes this way is the first of its thread.
pub(crate) fn begins(state: &State, route: &Route) -> bool {
    match (&route.thread, route.stream) {
        (Some(thread), Some(StreamKey::Channel(channel))) => !state.threads.contains_key(&(channel, thread.clone())),
        _ => false,
    }
}
