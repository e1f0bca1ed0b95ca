//! Shares: what one member may make of what the network may hold, so that nobody fills it alone.
//!
//! Invariant: counts are derived from the book; replay and snapshots give the ones there are. The operator is outside of shares, and a
//! part of every limit is kept for it.

use crate::audit::AuditActor;
use crate::input::{Caller, Clock};
use crate::principal::Principal;
use crate::rights::is_reserved;
use crate::state::{Book, MemberId, State};
use crate::{AdminOp, invites::Invite};
use rialto_model::address::Address;
use rialto_model::channel::ChannelStatus;
use rialto_model::error::Scope;
use rialto_model::{Fault, limits};
use std::collections::BTreeMap;

/// What there is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShareKind {
    Channels,
    Groups,
    Threads,
    Rooms,
    Resources,
    Invitations,
    OpenWork,
}

impl ShareKind {
    fn limit(self) -> usize {
        match self {
            ShareKind::Channels => limits::CHANNELS_MAX,
            ShareKind::Groups => limits::GROUPS_MAX,
            ShareKind::Threads => limits::THREADS_MAX,
            ShareKind::Rooms => limits::ROOMS_MAX,
            ShareKind::Resources => limits::RESOURCES_MAX,
            ShareKind::Invitations => limits::INVITES_MAX,
            ShareKind::OpenWork => limits::WORK_OPEN_MAX,
        }
    }

    fn words(self) -> &'static str {
        match self {
            ShareKind::Channels => "channels",
            ShareKind::Groups => "groups",
            ShareKind::Threads => "threads",
            ShareKind::Rooms => "direct rooms",
            ShareKind::Resources => "resources",
            ShareKind::Invitations => "invitations",
            ShareKind::OpenWork => "open work units",
        }
    }

    /// How room is made.
    fn way_out(self) -> &'static str {
        match self {
            ShareKind::Channels | ShareKind::Groups => "delete some",
            ShareKind::Threads => "go on in those there are",
            ShareKind::Rooms => "go on in those there are",
            ShareKind::Resources => "unregister some",
            ShareKind::Invitations => "revoke some, or let them lapse",
            ShareKind::OpenWork => "let some end first",
        }
    }
}

/// Who makes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Outside of shares.
    Operator,
    Member(MemberId),
    /// Whoever is not known by a name: all of them have one share together.
    Nobody,
}

impl Maker {
    /// Whose count it is.
    fn id(self) -> Option<MemberId> {
        match self {
            Maker::Member(id) => Some(id),
            Maker::Operator | Maker::Nobody => None,
        }
    }
}

/// How many of each kind somebody made and are there; `None` is nobody by name.
type Made = BTreeMap<Option<MemberId>, usize>;

/// Counts by maker, of what has no look-up of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shares {
    channels: Made,
    threads: Made,
    rooms: Made,
    invitations: Made,
}

fn count_up(made: &mut Made, by: Option<MemberId>) {
    *made.entry(by).or_default() += 1;
}

fn count_down(made: &mut Made, by: Option<MemberId>) {
    if let Some(count) = made.get_mut(&by) {
        *count -= 1;
        if *count == 0 {
            made.remove(&by);
        }
    }
}

impl Shares {
    pub(crate) fn new(book: &Book) -> Shares {
        let mut shares = Shares::default();
        for channel in book.channels.iter().filter(|c| c.status != ChannelStatus::Deleted) {
            count_up(&mut shares.channels, channel.created_by);
        }
        book.thread_makers.values().for_each(|by| count_up(&mut shares.threads, Some(*by)));
        book.rooms.iter().for_each(|room| count_up(&mut shares.rooms, room.by));
        shares.recount_invitations(&book.invites);
        shares
    }

    pub(crate) fn channel(&mut self, by: Option<MemberId>, there: bool) {
        if there { count_up(&mut self.channels, by) } else { count_down(&mut self.channels, by) }
    }

    pub(crate) fn thread(&mut self, by: MemberId, there: bool) {
        if there { count_up(&mut self.threads, Some(by)) } else { count_down(&mut self.threads, Some(by)) }
    }

    pub(crate) fn room(&mut self, by: Option<MemberId>) {
        count_up(&mut self.rooms, by);
    }

    pub(crate) fn invitation(&mut self, by: Option<MemberId>, there: bool) {
        if there { count_up(&mut self.invitations, by) } else { count_down(&mut self.invitations, by) }
    }

    pub(crate) fn recount_invitations(&mut self, all: &BTreeMap<Box<str>, Invite>) {
        self.invitations.clear();
        all.values().for_each(|invite| count_up(&mut self.invitations, invite.inviter));
    }
}

impl State {
    /// Who makes what this member makes: the operator, where it speaks as one.
    pub(crate) fn maker(&self, member: MemberId, caller: &Caller) -> Maker {
        // Only people have names that are the operator's alone; the rest need no parsing.
        let person = self.member(member).filter(|m| m.is_human()).and_then(|m| Address::parse(&m.address).ok());
        let operators = caller.operator || person.is_some_and(|address| is_reserved(&address));
        if operators { Maker::Operator } else { Maker::Member(member) }
    }

    fn all_of(&self, kind: ShareKind) -> usize {
        match kind {
            ShareKind::Channels => self.channels.len(),
            ShareKind::Groups => self.book.groups.len(),
            ShareKind::Threads => self.threads.len(),
            ShareKind::Rooms => self.book.rooms.len(),
            ShareKind::Resources => self.book.resources.len(),
            ShareKind::Invitations => self.book.invites.len(),
            ShareKind::OpenWork => self.work.open,
        }
    }

    fn made(&self, kind: ShareKind, by: Option<MemberId>) -> usize {
        let of = |made: &Made| made.get(&by).copied().unwrap_or(0);
        match kind {
            ShareKind::Channels => of(&self.shares.channels),
            ShareKind::Threads => of(&self.shares.threads),
            ShareKind::Rooms => of(&self.shares.rooms),
            ShareKind::Invitations => of(&self.shares.invitations),
            // No group says who made it.
            ShareKind::Groups => self.book.groups.len(),
            ShareKind::Resources => {
                by.and_then(|by| self.resource_index.owned.get(&by)).map_or(0, std::collections::BTreeSet::len)
            }
            ShareKind::OpenWork => by.and_then(|by| self.work.open_asked.get(&by)).copied().unwrap_or(0),
        }
    }

    /// Refuses another one of a kind where the network, or its maker, has all that may be.
    pub(crate) fn has_room(&self, kind: ShareKind, by: Maker) -> Result<(), Fault> {
        let (whole, what, way_out) = (kind.limit(), kind.words(), kind.way_out());
        let limit = match by {
            Maker::Operator => whole,
            Maker::Member(_) | Maker::Nobody => whole - whole * limits::OPERATOR_PERCENT / 100,
        };
        if self.all_of(kind) >= limit {
            let text = format!("this network has reached its limit of {limit} {what}: {way_out}");
            return Err(Fault::full(Scope::Network, limit, text));
        }
        if by == Maker::Operator {
            return Ok(());
        }
        let share = (whole * usize::from(self.book.settings.member_share_percent) / 100).max(1);
        if self.made(kind, by.id()) < share {
            return Ok(());
        }
        let who = by.id().and_then(|id| self.member(id)).map_or("whoever has no name here", |m| &m.address);
        let text = format!(
            "{who} has made its share of {share} {what}: {way_out}, or ask the operator to raise member_share_percent"
        );
        Err(Fault::full(Scope::Member, share, text))
    }

    /// Refuses an act of who is not the operator that makes one more of something where there is no room.
    pub(crate) fn has_room_for(&self, op: &AdminOp, by: &AuditActor<'_>, now: Clock) -> Result<(), Fault> {
        if self.principal(by.caller, None, now) == Ok(Principal::Operator) {
            return Ok(());
        }
        let kind = match op {
            AdminOp::OpenSession(..) | AdminOp::CreateChannel(_) => Some(ShareKind::Channels),
            AdminOp::SetGroup(name, _) => (!self.book.groups.contains_key(name.as_str())).then_some(ShareKind::Groups),
            AdminOp::Invite(..) => Some(ShareKind::Invitations),
            AdminOp::Settings(_)
            | AdminOp::AddToken(_)
            | AdminOp::RotateToken(_)
            | AdminOp::RevokeToken(_)
            | AdminOp::Role(..)
            | AdminOp::Member(..)
            | AdminOp::Remove(_)
            | AdminOp::Release(_)
            | AdminOp::EndSessions(..)
            | AdminOp::DeleteGroup(_)
            | AdminOp::LoadMod(_)
            | AdminOp::SetMod(_)
            | AdminOp::ChangeMod(..)
            | AdminOp::RemoveMod(_)
            | AdminOp::ApproveMod(..)
            | AdminOp::OrderMods(..)
            | AdminOp::Redact(..)
            | AdminOp::RetryDead(..)
            | AdminOp::DropDead(..)
            | AdminOp::Enroll(..)
            | AdminOp::SetChannel(..)
            | AdminOp::EndInvite(..)
            | AdminOp::Noted(..)
            | AdminOp::Unregister(_)
            | AdminOp::ReviseProfile { .. } => None,
        };
        kind.map_or(Ok(()), |kind| self.has_room(kind, Maker::Nobody))
    }
}
