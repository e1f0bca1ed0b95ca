//! Steps about who may do what: managing by who may not, networks whose token manages, and invitations of members.

use super::{Admin, FixedWord, Step, Target, Which, one_in, pick, word};
use crate::harness::Chance;
use serde::{Deserialize, Serialize};

/// Whose hand does what is not everybody's to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hand {
    /// The operator.
    Operator,
    /// Whoever holds a token of the network, and is nobody.
    Bare,
    /// Whoever holds a token for observers, and is nobody.
    Narrowed,
    /// Whoever holds the token for one member's name.
    Own(usize),
    /// A member, with its session.
    Member(usize),
    /// Somebody with a token that was revoked.
    Gone,
    /// Somebody who shows nothing.
    Stranger,
}

/// What is done to a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// One of the operator's plain acts.
    Does(Admin),
    /// A token is made, and revoked again.
    Token,
    /// The network's token is replaced by another; the operator puts the old ones back.
    Rotate,
    /// An invitation is taken back, counted from the newest.
    TakeBack(usize),
    /// A conversation is arranged that there is not.
    Arrange,
    /// The name of a member is freed, which is the operator's alone.
    Release(usize),
    /// The sessions of a member are ended, which is the operator's alone.
    EndSessions(usize),
}

/// What members and their guests do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields say what they are")]
pub enum Guest {
    /// A member invites somebody, or whoever has the code.
    Invite {
        invitee: Option<usize>,
        #[serde(deserialize_with = "word")]
        role: FixedWord,
        uses: u32,
        seconds: u64,
    },
    /// Somebody joins by an invitation, counted from the newest.
    Come { nth: usize },
    /// Whoever has the code of an invitation refuses it.
    Refuse { nth: usize },
    /// A member removes another one.
    Expel { whom: usize },
}

/// Steps about rights in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    // Those who were there from the start, and one who was not.
    let who = [0, 1, 2, 3, 4, 4][pick(c, 6)];
    let guest = [4, 4, 4, 0, 1, 2][pick(c, 6)];
    let nth = pick(c, 3);
    if one_in(c, 7) {
        return visit(c, net, guest, out);
    }
    let step = match c.below(31) {
        0..5 => {
            let invitee = one_in(c, 4).then_some(guest);
            let role = ["member", "member", "member", "observer", "master"][pick(c, 5)];
            let uses = 1 + u32::try_from(c.below(2)).unwrap_or(0);
            let seconds = [30, 3_600, 604_800, 604_800][pick(c, 4)];
            let act = Guest::Invite { invitee, role, uses, seconds };
            Step::Guest { net, who: pick(c, 4), act, calm: !one_in(c, 3) }
        }
        5..10 => Step::Guest { net, who: guest, act: Guest::Come { nth }, calm: true },
        10 => Step::Guest { net, who: guest, act: Guest::Refuse { nth }, calm: true },
        11 | 12 => {
            // People remove others where the token manages, and only there.
            let who = if one_in(c, 2) { who } else { 3 };
            if who == 3 && one_in(c, 2) {
                let person = joins(c, net, who, (false, false, false));
                out.push(person);
            }
            Step::Guest { net, who, act: Guest::Expel { whom: guest }, calm: true }
        }
        13..15 => Step::Manage { net, by: hand(c), deed: Deed::TakeBack(nth) },
        15..20 => Step::Manage { net, by: hand(c), deed: Deed::Does(act(c)) },
        20 | 21 => {
            let deed = match c.below(7) {
                0 | 1 => Deed::Token,
                2 => Deed::Rotate,
                3 => Deed::Release(who),
                4 => Deed::EndSessions(who),
                _ => Deed::Arrange,
            };
            Step::Manage { net, by: hand(c), deed }
        }
        22 => Step::Admin { net, op: Admin::TokenManages(one_in(c, 2)) },
        23 => Step::Admin { net, op: Admin::Role(who, "master") },
        24 | 25 => {
            let (observer, named, compat) = (one_in(c, 8), one_in(c, 8), !one_in(c, 3));
            joins(c, net, who, (observer, named, compat))
        }
        26 => Step::Leave { net, who: guest, forget: true },
        27 | 28 => return letter(c, net, out),
        // Whoever holds the token reads.
        _ => Step::Read { net, who, form: 0x30, page: 1 + pick(c, 7) },
    };
    out.push(step);
}

/// Two members, of whom some speak as clients of workspace servers do, write to one another, and whoever holds the token reads.
fn letter(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (from, to) = (pick(c, 3), pick(c, 3));
    for who in [from, to] {
        let (joined, named, compat) = (!one_in(c, 3), one_in(c, 9), !one_in(c, 5));
        out.extend(joined.then(|| joins(c, net, who, (false, named, compat))));
    }
    let (which, to) = (Which::Fresh, Target::Member(to));
    out.push(Step::Send { net, who: from, to, which, count: 1 + pick(c, 2), calm: one_in(c, 2), form: 0 });
    out.push(Step::Read { net, who: from, form: 0x30, page: 1 + pick(c, 7) });
}

/// Somebody joins: as observer, with a token of its own, as clients of workspace servers do.
fn joins(c: &mut Chance, net: usize, who: usize, (observer, named, compat): (bool, bool, bool)) -> Step {
    let (stream, keep) = (!one_in(c, 3), one_in(c, 3));
    Step::Join { net, who, stream, keep, window: 4, observer, resume: false, replay: false, named, compat }
}

/// A member invites somebody, who comes by it and speaks, and then it ends one way or another.
fn visit(c: &mut Chance, net: usize, guest: usize, out: &mut Vec<Step>) {
    let host = [0, 1, 2][pick(c, 3)];
    let operator = |op| Step::Admin { net, op };
    let sends =
        |who, to| Step::Send { net, who, to: Target::Member(to), which: Which::Fresh, count: 1, calm: true, form: 0 };
    if host == guest {
        return out.push(sends(host, 3));
    }
    if !one_in(c, 3) {
        let compat = one_in(c, 3);
        out.push(joins(c, net, host, (false, false, compat)));
    }
    // Only a name that nobody has is a guest's.
    out.extend((!one_in(c, 3)).then(|| operator(Admin::Remove(guest))));
    let role = ["member", "member", "observer"][pick(c, 3)];
    let seconds = [30, 604_800, 604_800][pick(c, 3)];
    let invite =
        Guest::Invite { invitee: one_in(c, 3).then_some(guest), role, uses: 1 + u32::from(one_in(c, 2)), seconds };
    let come = Step::Guest { net, who: guest, act: Guest::Come { nth: 0 }, calm: true };
    out.extend([Step::Guest { net, who: host, act: invite, calm: true }, come]);
    out.push(match c.below(5) {
        0 => Step::Pass { ms: 45_000 },
        1 => Step::Restart,
        _ => sends(guest, host),
    });
    out.push(match c.below(8) {
        0..2 => operator(Admin::Remove(host)),
        2 => Step::Leave { net, who: host, forget: true },
        3 => Step::Manage { net, by: Hand::Member(3), deed: Deed::Does(Admin::Remove(host)) },
        4 => Step::Manage { net, by: hand(c), deed: Deed::TakeBack(0) },
        5 => Step::Manage { net, by: Hand::Operator, deed: Deed::TakeBack(0) },
        6 => Step::Admin { net, op: Admin::Revoke },
        _ => operator(Admin::Role(host, "observer")),
    });
    // It may be tried once more, by a name that is free again.
    out.extend((!one_in(c, 3)).then(|| operator(Admin::Remove(guest))));
    out.push(come);
}

fn hand(c: &mut Chance) -> Hand {
    match c.below(12) {
        0..4 => Hand::Bare,
        4..8 => Hand::Member(pick(c, 6)),
        8 => Hand::Own(pick(c, 3)),
        9 => Hand::Narrowed,
        10 => [Hand::Gone, Hand::Stranger][pick(c, 2)],
        _ => Hand::Operator,
    }
}

fn act(c: &mut Chance) -> Admin {
    let who = pick(c, 6);
    match c.below(10) {
        0..3 => Admin::Role(who, ["member", "member", "observer", "master"][pick(c, 4)]),
        3..6 => Admin::Remove(who),
        6 => Admin::Group(pick(c, 2), u8::try_from(c.below(64)).unwrap_or(0)),
        7 => Admin::DeleteGroup(pick(c, 2)),
        8 => Admin::MaxPending(4 + c.below(30)),
        _ => Admin::Quiet(who, one_in(c, 2)),
    }
}
