//! Steps about resources: tools that are called, files and contexts that the network keeps.

use super::{By, Step, one_in, pick};
use crate::harness::Chance;
use serde::{Deserialize, Serialize};

/// What resources there may be.
pub const RESOURCES: [&str; 4] =
    ["resource/tool/sum", "resource/file/notes/today.md", "resource/context/plan", "resource/tool/ask"];
/// Rules of access, as they are written.
pub const RULES: [&str; 7] = [
    "\"network\"",
    "\"role:member\"",
    "\"owner\"",
    "\"role:master\"",
    "\"group/crew\"",
    "[\"agent:bob\",\"human:dee\"]",
    "\"none\"",
];

/// What is done about a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the types of section 5")]
pub enum Res {
    /// With rules for reading and for using it.
    Register {
        which: usize,
        rules: Option<(usize, usize)>,
    },
    /// New content; `expects` is how far off the version is that the sender thinks it is at.
    Write {
        which: usize,
        append: bool,
        expects: Option<u64>,
    },
    Permit {
        which: usize,
        rules: (usize, usize),
    },
    Unregister {
        which: usize,
    },
    Invoke {
        which: usize,
        waits: bool,
        timeout_ms: Option<u64>,
    },
    /// The result of a call, counted from the newest, by its owner or by somebody else.
    Result {
        by: By,
        nth: usize,
        fails: bool,
    },
    /// Content that is brought first; then an event names it, or never does.
    Upload {
        which: usize,
        named: bool,
    },
    CleanUp,
}

/// Steps about resources in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let who = pick(c, 4);
    match c.below(8) {
        0 => return called(c, net, out),
        1 => return written(c, net, out),
        2 if one_in(c, 3) => return for_members(c, net, out),
        _ => {}
    }
    let rules = |c: &mut Chance| (pick(c, 7), pick(c, 7));
    let act = match c.below(32) {
        0..6 => Res::Register { which: pick(c, 4), rules: one_in(c, 2).then(|| rules(c)) },
        6..11 => {
            let expects = one_in(c, 2).then(|| c.below(3).saturating_sub(1));
            Res::Write { which: 1 + pick(c, 2), append: one_in(c, 2), expects }
        }
        11 => Res::Permit { which: pick(c, 4), rules: rules(c) },
        12 => Res::Unregister { which: pick(c, 4) },
        13..18 => call(c),
        18..22 => {
            let by = if one_in(c, 5) { By::Member(pick(c, 4)) } else { By::Executor };
            Res::Result { by, nth: pick(c, 2), fails: one_in(c, 3) }
        }
        22..24 => Res::Upload { which: 1 + pick(c, 2), named: one_in(c, 2) },
        24 => Res::CleanUp,
        25 => return out.push(Step::Pass { ms: [6_000, 17_000, 31_000][pick(c, 3)] }),
        26 if one_in(c, 2) => return out.push(Step::Leave { net, who, forget: one_in(c, 4) }),
        26 => return out.push(Step::Admin { net, op: super::Admin::Group(0, u8::try_from(c.below(64)).unwrap_or(0)) }),
        27 => {
            return out.push(Step::Join {
                net,
                who,
                stream: true,
                keep: one_in(c, 2),
                window: 4,
                observer: one_in(c, 6),
                resume: false,
                replay: false,
                named: false,
                compat: false,
            });
        }
        28 => return out.extend([Step::Pump, Step::PowerCut].into_iter().skip(pick(c, 2))),
        29 => return out.push(Step::Settle),
        _ => return out.push(Step::Look),
    };
    out.push(Step::Resource { net, who, act, calm: one_in(c, 2) });
    // Whatever follows on the same stream waits behind content that is being kept.
    if let (Res::Register { .. } | Res::Write { .. }, true) = (act, one_in(c, 3)) {
        let to = super::Target::Member(pick(c, 4));
        out.push(Step::Send { net, who, to, which: super::Which::Fresh, count: 1 + pick(c, 3), calm: false, form: 0 });
    }
}

/// A tool is offered and called, then something happens, then a result comes.
fn called(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (owner, caller, other) = (pick(c, 3), pick(c, 3), pick(c, 3));
    let mut add = |who: usize, act: Res, calm: bool| out.push(Step::Resource { net, who, act, calm });
    let which = [0, 3][pick(c, 2)];
    add(owner, Res::Register { which, rules: None }, true);
    add(caller, Res::Invoke { which, waits: true, timeout_ms: one_in(c, 2).then_some(15_000) }, true);
    match c.below(8) {
        0 => add(other, Res::Register { which: 3 - which, rules: None }, true),
        1 => add(owner, Res::Unregister { which }, true),
        2 => out.push(Step::Leave { net, who: owner, forget: one_in(c, 3) }),
        3 => out.push(Step::Pass { ms: [12_000, 17_000][pick(c, 2)] }),
        4 => out.push([Step::PowerCut, Step::Restart][pick(c, 2)]),
        _ => {}
    }
    let by = if one_in(c, 3) { By::Member(other) } else { By::Executor };
    out.push(Step::Resource { net, who: 0, act: Res::Result { by, nth: 0, fails: one_in(c, 3) }, calm: one_in(c, 2) });
}

/// Something for members, and somebody who only looks on.
fn for_members(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (owner, which) = (pick(c, 3), pick(c, 4));
    out.push(Step::Resource { net, who: owner, act: Res::Register { which, rules: Some((1, 1)) }, calm: true });
    out.push(Step::Admin { net, op: super::Admin::Role(owner + 1, ["observer", "master"][pick(c, 2)]) });
    out.push(Step::Look);
    out.push(Step::Admin { net, op: super::Admin::Role(owner + 1, "member") });
}

/// Content is kept, changed by two at once, and read after a start.
fn written(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (owner, which) = (pick(c, 3), 1 + pick(c, 2));
    let rules = one_in(c, 2).then_some((pick(c, 2), 0));
    out.push(Step::Resource { net, who: owner, act: Res::Register { which, rules }, calm: true });
    for who in [owner, pick(c, 3)] {
        let act = Res::Write { which, append: one_in(c, 2), expects: one_in(c, 2).then_some(0) };
        out.push(Step::Resource { net, who, act, calm: false });
        let to = super::Target::Member(pick(c, 3));
        out.push(Step::Send { net, who, to, which: super::Which::Fresh, count: 1, calm: false, form: 0 });
    }
    out.extend([Step::Pump, Step::Pump, Step::PowerCut, Step::Look].into_iter().skip(pick(c, 4)));
}

fn call(c: &mut Chance) -> Res {
    let timeout_ms = one_in(c, 2).then(|| [5_000, 15_000, 60_000][pick(c, 3)]);
    Res::Invoke { which: [0, 0, 3, 1][pick(c, 4)], waits: one_in(c, 2), timeout_ms }
}
