//! Conversations by their last event: derived from the lists, never saved.
//!
//! Invariant: a thread is here while it has an event, at its last one; a room always is, at 0 while it has none.

use crate::conversations::ListPosition;
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, Room, State};
use rialto_model::Seq;
use std::collections::{BTreeMap, BTreeSet};

/// Threads and rooms in the order of their listings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recency {
    /// The last event of each thread and of each room, by number; 0 if there is none. A list would have to look for it.
    last_in_thread: Vec<Seq>,
    last_in_room: Vec<Seq>,
    /// By channel.
    pub(crate) threads: BTreeMap<ChannelId, BTreeSet<ListPosition>>,
    /// Threads that have an event.
    pub(crate) live_threads: usize,
    /// By member.
    pub(crate) rooms: BTreeMap<MemberId, BTreeSet<ListPosition>>,
    pub(crate) all_rooms: BTreeSet<ListPosition>,
}

impl Recency {
    fn move_thread(&mut self, channel: ChannelId, number: u32, to: Seq) {
        let from = replaced(&mut self.last_in_thread, number, to);
        if from == to {
            return;
        }
        let places = self.threads.entry(channel).or_default();
        self.live_threads += usize::from(to > 0 && places.insert((to, number)));
        self.live_threads -= usize::from(from > 0 && places.remove(&(from, number)));
        if places.is_empty() {
            self.threads.remove(&channel);
        }
    }

    /// A room is there, without an event.
    pub(crate) fn add_room(&mut self, number: u32, room: &Room) {
        replaced(&mut self.last_in_room, number, 0);
        for member in [room.a, room.b] {
            self.rooms.entry(member).or_default().insert((0, number));
        }
        self.all_rooms.insert((0, number));
    }

    fn move_room(&mut self, number: u32, room: &Room, to: Seq) {
        let from = replaced(&mut self.last_in_room, number, to);
        if from == to {
            return;
        }
        // The new place before the old one goes: a set that is empty in between gives its memory back.
        let change = |places: &mut BTreeSet<ListPosition>| {
            places.insert((to, number));
            places.remove(&(from, number));
        };
        for member in [room.a, room.b] {
            change(self.rooms.entry(member).or_default());
        }
        change(&mut self.all_rooms);
    }
}

/// Notes the last event of one; gives what it was before.
fn replaced(lasts: &mut Vec<Seq>, number: u32, to: Seq) -> Seq {
    let at = number as usize;
    if lasts.len() <= at {
        lasts.resize(at + 1, 0);
    }
    lasts.get_mut(at).map_or(0, |last| std::mem::replace(last, to))
}

impl State {
    /// The last event of a thread or room is this one now, or none.
    pub(crate) fn moved(&mut self, key: StreamKey, to: Option<Seq>) {
        match key {
            StreamKey::Thread(number) => {
                if let Some((channel, _)) = self.book.threads.get(number as usize) {
                    self.recency.move_thread(*channel, number, to.unwrap_or(0));
                }
            }
            StreamKey::Room(number) => {
                if let Some(room) = self.book.rooms.get(number as usize) {
                    self.recency.move_room(number, room, to.unwrap_or(0));
                }
            }
            StreamKey::Inbox(_)
            | StreamKey::Broadcast
            | StreamKey::Channel(_)
            | StreamKey::Group(_)
            | StreamKey::Source(_)
            | StreamKey::Type(_)
            | StreamKey::Work(_)
            | StreamKey::Mention(_) => {}
        }
    }

    /// Looks at all conversations anew.
    pub(crate) fn rank(&mut self) {
        let mut recency = Recency::default();
        for (number, (channel, _)) in (0..).zip(&self.book.threads) {
            recency.move_thread(*channel, number, self.lists.last(StreamKey::Thread(number)).unwrap_or(0));
        }
        for (number, room) in (0..).zip(&self.book.rooms) {
            recency.add_room(number, room);
            recency.move_room(number, room, self.lists.last(StreamKey::Room(number)).unwrap_or(0));
        }
        self.recency = recency;
    }
}
