//! Conversations by their last event: derived from the lists, never saved.
//!
//! Invariant: a thread is here while it has an event, at its last one; a room always is, at 0 while it has none.

use crate::conversations::Place;
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, Room, State};
use rialto_model::Seq;
use std::collections::{BTreeMap, BTreeSet};

/// Threads and rooms in the order of their listings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recency {
    /// By channel.
    pub(crate) threads: BTreeMap<ChannelId, BTreeSet<Place>>,
    /// Threads that have an event.
    pub(crate) live_threads: usize,
    /// By member.
    pub(crate) rooms: BTreeMap<MemberId, BTreeSet<Place>>,
    pub(crate) all_rooms: BTreeSet<Place>,
}

impl Recency {
    fn move_thread(&mut self, channel: ChannelId, number: u32, from: Option<Seq>, to: Option<Seq>) {
        let places = self.threads.entry(channel).or_default();
        self.live_threads -= usize::from(from.is_some_and(|seq| places.remove(&(seq, number))));
        self.live_threads += usize::from(to.is_some_and(|seq| places.insert((seq, number))));
        if places.is_empty() {
            self.threads.remove(&channel);
        }
    }

    pub(crate) fn move_room(&mut self, number: u32, room: &Room, from: Option<Seq>, to: Seq) {
        for places in [room.a, room.b] {
            let places = self.rooms.entry(places).or_default();
            from.map(|seq| places.remove(&(seq, number)));
            places.insert((to, number));
        }
        from.map(|seq| self.all_rooms.remove(&(seq, number)));
        self.all_rooms.insert((to, number));
    }
}

impl State {
    /// The last event of a thread or room was `from`, and is what its list says now.
    pub(crate) fn moved(&mut self, key: StreamKey, from: Option<Seq>) {
        let to = self.lists.last(key);
        if from == to {
            return;
        }
        match key {
            StreamKey::Thread(number) => {
                if let Some((channel, _)) = self.book.threads.get(number as usize) {
                    self.recency.move_thread(*channel, number, from, to);
                }
            }
            StreamKey::Room(number) => {
                if let Some(room) = self.book.rooms.get(number as usize) {
                    self.recency.move_room(number, room, Some(from.unwrap_or(0)), to.unwrap_or(0));
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
            let last = self.lists.last(StreamKey::Thread(number));
            if last.is_some() {
                recency.move_thread(*channel, number, None, last);
            }
        }
        for (number, room) in (0..).zip(&self.book.rooms) {
            recency.move_room(number, room, None, self.lists.last(StreamKey::Room(number)).unwrap_or(0));
        }
        self.recency = recency;
    }
}
