//! Somebody whose first event is being decided: a member in what the event is judged by, although nothing of its join is applied.
//!
//! Invariant: rules that judge an event look up its sender, names and seats here and in `directory`, so they see the newcomer. What reads the
//! book directly (lists of conversations, rights by label, joins) is not part of deciding a first event.

use crate::record::{Change, Record};
use crate::state::{Channel, ChannelId, Group, Member, MemberId, State, open};
use rialto_model::Seq;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// A member as it will be once it has joined.
#[derive(Debug, Clone)]
pub(crate) struct Newcomer {
    id: MemberId,
    member: Member,
    seats: RoaringBitmap,
    /// The channel that it is seated in with its join.
    channel: Option<(ChannelId, Channel)>,
    /// It was no member before.
    is_new: bool,
}

impl Newcomer {
    /// The member that the records of a join make.
    pub(crate) fn of(state: &State, records: &[Record]) -> Option<Newcomer> {
        let changes = || records.iter().filter_map(Record::change);
        let (id, record) = changes().find_map(|change| {
            let Change::Joined { member, record } = change else { return None };
            Some((*member, record))
        })?;
        let seat = changes().find_map(|change| {
            let Change::Seated { channel, .. } = change else { return None };
            Some(*channel)
        });
        let mut member = Member::clone(record);
        member.join_groups(&state.book.groups, state.book.head);
        let channel = seat.and_then(|seat| Some((seat, state.channel(seat)?.clone())));
        let channel = channel.map(|(seat, mut channel)| {
            member.sit(seat, state.book.head);
            channel.seat(id);
            (seat, channel)
        });
        let seats = member.seats.keys().copied().filter(|channel| member.sits_in(*channel)).collect();
        Some(Newcomer { id, is_new: state.member(id).is_none(), member, seats, channel })
    }
}

impl Member {
    /// Puts the member into every group that names it.
    pub(crate) fn join_groups(&mut self, groups: &BTreeMap<Box<str>, Group>, head: Seq) {
        for group in groups.values().filter(|group| group.members.contains(&self.address)) {
            open(self.groups.entry(group.number).or_default(), head);
        }
    }

    /// Seats the member in a channel, which it hears from here on unless it muted it.
    pub(crate) fn sit(&mut self, channel: ChannelId, head: Seq) {
        let stretches = self.seats.entry(channel).or_default();
        if !self.muted.contains(&channel) {
            open(stretches, head);
        }
    }
}

impl Channel {
    /// Adds a member to those that sit in the channel.
    pub(crate) fn seat(&mut self, member: MemberId) {
        if !self.seated.contains(&member) {
            self.seated.push(member);
        }
    }
}

impl State {
    /// Decides on the state as it will be once a newcomer has joined. Nothing durable changes.
    pub(crate) fn with_newcomer<T>(&mut self, newcomer: Option<Newcomer>, decide: impl FnOnce(&State) -> T) -> T {
        self.newcomer = newcomer.map(Box::new);
        let decided = decide(self);
        self.newcomer = None;
        decided
    }

    fn newcomer(&self, id: MemberId) -> Option<&Newcomer> {
        self.newcomer.as_deref().filter(|newcomer| newcomer.id == id)
    }

    /// A newcomer that was no member before.
    pub(crate) fn new_member(&self) -> Option<(MemberId, &Member)> {
        self.newcomer.as_deref().filter(|newcomer| newcomer.is_new).map(|newcomer| (newcomer.id, &newcomer.member))
    }

    /// A member by number.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        match self.newcomer(id) {
            Some(newcomer) => Some(&newcomer.member),
            None => self.book.members.get(id as usize),
        }
    }

    /// A member by canonical address.
    pub fn member_id(&self, address: &str) -> Option<MemberId> {
        let newcomer = || self.new_member().filter(|(_, member)| *member.address == *address).map(|(id, _)| id);
        self.members.get(address).copied().or_else(newcomer)
    }

    /// Whoever has the address, or had it last before a rename.
    pub fn known_as(&self, address: &str) -> Option<MemberId> {
        self.member_id(address).or_else(|| self.book.former.get(address).copied())
    }

    /// How many members are the network's own, not carried by a face.
    pub(crate) fn own_member_count(&self) -> usize {
        self.member_count() - self.carried_count()
    }

    /// How many members there are.
    pub(crate) fn member_count(&self) -> usize {
        self.members.len() + usize::from(self.new_member().is_some())
    }

    /// A channel by number.
    pub fn channel(&self, id: ChannelId) -> Option<&Channel> {
        let joined = self.newcomer.as_deref().and_then(|newcomer| newcomer.channel.as_ref());
        match joined.filter(|(seat, _)| *seat == id) {
            Some((_, channel)) => Some(channel),
            None => self.book.channels.get(id as usize),
        }
    }

    /// Channels a member sits in.
    pub(crate) fn seats_of(&self, id: MemberId) -> Option<&RoaringBitmap> {
        match self.newcomer(id) {
            Some(newcomer) => Some(&newcomer.seats),
            None => self.directory.seats_of(id),
        }
    }
}
