//! Look-ups by which members and channels are listed in order: derived from the book, never saved.
//!
//! Invariant: whoever lists something looks at what it gives, not at everything there is.

use crate::history::Viewer;
use crate::state::{Book, Channel, ChannelId, Index, Member, MemberId, State};
use rialto_model::Role;
use rialto_model::channel::ChannelStatus;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

/// Numbers in order, and names that somebody or something ever had.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Directory {
    /// Members that are not removed.
    members: RoaringBitmap,
    /// Channels that are not deleted.
    channels: RoaringBitmap,
    /// Those among them that are not private.
    open_channels: RoaringBitmap,
    /// Channels each member sits in, muted or not.
    seats: BTreeMap<MemberId, RoaringBitmap>,
    /// Deleted channels by the name they had.
    deleted: Index<Box<str>, BTreeSet<ChannelId>>,
    /// Every member that has an address or had it, removed ones too.
    named: Index<Box<str>, BTreeSet<MemberId>>,
    /// Somebody was renamed.
    renamed: bool,
}

impl Directory {
    pub(crate) fn new(hasher: impl Fn() -> foldhash::fast::FixedState, book: &Book) -> Directory {
        let mut directory = Directory {
            members: RoaringBitmap::new(),
            channels: RoaringBitmap::new(),
            open_channels: RoaringBitmap::new(),
            seats: BTreeMap::new(),
            deleted: Index::with_hasher(hasher()),
            named: Index::with_hasher(hasher()),
            renamed: false,
        };
        (0..).zip(&book.members).for_each(|(id, member)| directory.enter_member(id, member));
        (0..).zip(&book.channels).for_each(|(id, channel)| directory.enter_channel(id, channel));
        directory
    }

    /// A member is there, as it is now.
    pub(crate) fn enter_member(&mut self, id: MemberId, member: &Member) {
        if !member.removed {
            self.members.insert(id);
            let seats = member.seats.keys().copied().filter(|channel| member.sits_in(*channel));
            self.seats.insert(id, seats.collect());
        }
        self.renamed |= !member.former.is_empty();
        for name in std::iter::once(&member.address).chain(&member.former) {
            self.named.entry(name.clone()).or_default().insert(id);
        }
    }

    pub(crate) fn remove_member(&mut self, id: MemberId) {
        self.members.remove(id);
        self.seats.remove(&id);
    }

    /// A member sits in a channel, or no longer.
    pub(crate) fn seat(&mut self, id: MemberId, channel: ChannelId, on: bool) {
        let seats = self.seats.entry(id).or_default();
        if on {
            seats.insert(channel);
        } else {
            seats.remove(channel);
        }
    }

    /// Channels a member sits in.
    pub(crate) fn seats_of(&self, id: MemberId) -> Option<&RoaringBitmap> {
        self.seats.get(&id)
    }

    /// Channels that are neither private nor deleted.
    pub(crate) fn open_channels(&self) -> &RoaringBitmap {
        &self.open_channels
    }

    /// A member no longer knows that it had an address.
    pub(crate) fn forget_name(&mut self, id: MemberId, address: &str) {
        if let Some(known) = self.named.get_mut(address) {
            known.remove(&id);
            if known.is_empty() {
                self.named.swap_remove(address);
            }
        }
    }

    pub(crate) fn enter_channel(&mut self, id: ChannelId, channel: &Channel) {
        if channel.status == ChannelStatus::Deleted {
            return self.delete_channel(id, &channel.name);
        }
        self.channels.insert(id);
        if !channel.private {
            self.open_channels.insert(id);
        }
    }

    pub(crate) fn delete_channel(&mut self, id: ChannelId, name: &str) {
        self.channels.remove(id);
        self.open_channels.remove(id);
        self.deleted.entry(name.into()).or_default().insert(id);
    }
}

/// Numbers from one on, rising.
fn from_on(set: &RoaringBitmap, from: u32) -> roaring::bitmap::Iter<'_> {
    let mut numbers = set.iter();
    numbers.advance_to(from);
    numbers
}

/// Numbers of two rising sequences, each once, in order.
struct Merged<A: Iterator<Item = u32>, B: Iterator<Item = u32>> {
    a: Peekable<A>,
    b: Peekable<B>,
}

impl<A: Iterator<Item = u32>, B: Iterator<Item = u32>> Iterator for Merged<A, B> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let first = match (self.a.peek(), self.b.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (Some(one), None) | (None, Some(one)) => *one,
            (None, None) => return None,
        };
        self.a.next_if_eq(&first);
        self.b.next_if_eq(&first);
        Some(first)
    }
}

impl State {
    /// Members that are not removed, in join order.
    pub fn roster(&self) -> impl Iterator<Item = (MemberId, &Member)> {
        self.roster_after(None)
    }

    /// Those that came after this one.
    pub fn roster_after(&self, after: Option<MemberId>) -> impl Iterator<Item = (MemberId, &Member)> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        let members = from_on(&self.directory.members, from).filter_map(|id| Some((id, self.member(id)?)));
        members.chain(self.new_member().filter(|(id, _)| *id >= from))
    }

    /// How many channels there are that are not deleted.
    pub fn channel_count(&self) -> usize {
        usize::try_from(self.directory.channels.len()).unwrap_or(usize::MAX)
    }

    /// Channels the viewer may know of, in the order of their making, after one of them.
    pub fn channels_seen(
        &self,
        viewer: Viewer,
        after: Option<ChannelId>,
    ) -> Box<dyn Iterator<Item = (ChannelId, &Channel)> + '_> {
        let from = after.map_or(0, |after| after.saturating_add(1));
        let of = |id: ChannelId| Some((id, self.channel(id)?));
        let sees_all = match viewer {
            Viewer::Operator => true,
            Viewer::Reader { .. } => false,
            Viewer::Member(id) => self.member(id).is_some_and(|m| m.role() == Role::Master),
        };
        if sees_all {
            return Box::new(from_on(&self.directory.channels, from).filter_map(of));
        }
        let own = match viewer {
            Viewer::Member(id) => self.seats_of(id),
            Viewer::Operator | Viewer::Reader { .. } => None,
        };
        let seats = own.into_iter().flat_map(move |seats| from_on(seats, from));
        let seats = seats.filter(|id| self.directory.channels.contains(*id));
        let open = from_on(&self.directory.open_channels, from);
        Box::new(Merged { a: open.peekable(), b: seats.peekable() }.filter_map(of))
    }

    /// Whether the viewer may know of a channel that is not deleted.
    pub fn may_see_channel(&self, viewer: Viewer, id: ChannelId) -> bool {
        let before = id.checked_sub(1);
        self.channels_seen(viewer, before).next().is_some_and(|(first, _)| first == id)
    }

    /// Every channel that has or had the name.
    pub(crate) fn channels_named(&self, name: &str) -> impl Iterator<Item = ChannelId> {
        let deleted = self.directory.deleted.get(name).into_iter().flatten().copied();
        deleted.chain(self.channel_id(name))
    }

    /// Every member that has or had exactly this address.
    pub(crate) fn ever_named(&self, address: &str) -> impl Iterator<Item = MemberId> {
        let named = self.directory.named.get(address).into_iter().flatten().copied();
        named.chain(self.new_member().filter(|(_, member)| *member.address == *address).map(|(id, _)| id))
    }

    /// Whether names alone do not tell who is who.
    pub(crate) fn has_renamed(&self) -> bool {
        self.directory.renamed
    }
}
