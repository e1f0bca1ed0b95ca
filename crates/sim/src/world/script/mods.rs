//! Steps about mods that run elsewhere: served by members, or as processes.

use super::{Admin, Step, Target, Trouble, Which, one_in, pick};
use crate::harness::Chance;
use serde::{Deserialize, Serialize};

/// Mods that worlds have: name, mode, place within it.
pub const MODS: [(&str, &str, i64); 5] = [
    ("gate", "guard", 50),
    ("door", "guard", 60),
    ("quill", "transform", 60),
    ("stamp", "transform", 70),
    ("eye", "observe", 110),
];

/// What a mod looks at.
pub const PATTERNS: [&[&str]; 5] =
    [&["app.*"], &["app.*", "workspace.*"], &["app.note", "workspace.message.posted"], &["*"], &["echo.*"]];

/// How long a mod may take.
pub const DEADLINES_MS: [u64; 3] = [1_000, 400, 1_500];

/// How a mod is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields say what they are")]
pub struct Terms {
    pub patterns: usize,
    pub deadline: usize,
    /// A transform that fails refuses.
    pub rejects: bool,
    /// It answers at once, without a step.
    pub prompt: bool,
}

/// What a mod says of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sheet's own words")]
pub enum Word {
    Pass,
    Reject,
    Modify,
    /// Modified to another target.
    Move(Target),
    /// No verdict.
    Mumble,
}

/// What happens about mods that run elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields say what they are")]
pub enum Mods {
    /// A member serves a mod; the operator lets it, or has not been asked.
    Serve { which: usize, terms: Terms, approved: bool },
    /// Its server serves it no longer.
    Withdraw { which: usize },
    /// The operator loads it as a process, or starts the process again.
    Process { which: usize, terms: Terms },
    /// The process ends.
    Ends { which: usize },
    /// The operator unloads it, whoever waits for it.
    Unload { which: usize },
    /// The operator changes how long it may take and what becomes of events when it fails.
    Change { which: usize, deadline: usize, rejects: bool },
    /// The operator puts it before the others of its mode.
    First { which: usize },
    /// The oldest open question but `nth` is answered, perhaps with events of the mod's own.
    Answer { nth: usize, word: Word, emits: usize },
    /// An answer to what was answered before.
    Repeat { nth: usize, word: Word },
    /// The member answers what another is asked.
    Usurp { nth: usize, word: Word },
    /// The member writes to a mod.
    Mail { which: usize },
    /// Whoever has nothing that waits is not kept waiting.
    Bystander,
}

fn terms(c: &mut Chance) -> Terms {
    let patterns = if one_in(c, 5) { 3 + pick(c, 2) } else { pick(c, 3) };
    Terms { patterns, deadline: pick(c, 3), rejects: one_in(c, 2), prompt: one_in(c, 2) }
}

fn word(c: &mut Chance) -> Word {
    match c.below(16) {
        0..7 => Word::Pass,
        7..10 => Word::Reject,
        10..13 => Word::Modify,
        13 | 14 => Word::Move([Target::Member(pick(c, 3)), Target::Channel(0)][pick(c, 2)]),
        _ => Word::Mumble,
    }
}

fn answer(c: &mut Chance) -> Mods {
    Mods::Answer { nth: pick(c, 2), word: word(c), emits: if one_in(c, 3) { 1 + pick(c, 2) } else { 0 } }
}

fn load(c: &mut Chance) -> Mods {
    let which = pick(c, 5);
    if one_in(c, 4) {
        Mods::Process { which, terms: terms(c) }
    } else {
        Mods::Serve { which, terms: terms(c), approved: !one_in(c, 8) }
    }
}

fn sends(c: &mut Chance, net: usize, who: usize) -> Step {
    let to = [Target::Member(pick(c, 3)), Target::Channel(0), Target::Broadcast][pick(c, 3)];
    Step::Send { net, who, to, which: Which::Fresh, count: 1 + pick(c, 3), calm: false, form: 0 }
}

/// Steps about mods in a network.
pub(super) fn steps(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let who = pick(c, 4);
    let act = match c.below(24) {
        0..3 => load(c),
        3..9 => return waits(c, net, out),
        9..13 => answer(c),
        13 => Mods::Repeat { nth: pick(c, 2), word: word(c) },
        14 => Mods::Usurp { nth: 0, word: word(c) },
        15 => change(c),
        16 => Mods::Mail { which: pick(c, 5) },
        17 => Mods::Bystander,
        18 => return out.push(Step::Pass { ms: [100, 500, 2_000][pick(c, 3)] }),
        19 | 20 => return out.push(sends(c, net, who)),
        21 => return out.push(Step::Settle),
        22 => {
            return out.push(Step::Join {
                net,
                who,
                stream: !one_in(c, 3),
                keep: one_in(c, 2),
                window: 4,
                observer: false,
                resume: false,
                replay: false,
                named: false,
                compat: false,
            });
        }
        _ if one_in(c, 2) => return owes(c, net, out),
        _ => return out.push(Step::Look),
    };
    out.push(Step::Mods { net, who, act, calm: one_in(c, 2) });
}

/// One guard sends with its verdict what the other one has to see; something happens while that one is asked.
fn owes(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (server, sender) = (pick(c, 3), pick(c, 3));
    let add = |out: &mut Vec<Step>, act: Mods| out.push(Step::Mods { net, who: server, act, calm: false });
    let plain = Terms { patterns: 1, deadline: 2, rejects: one_in(c, 2), prompt: false };
    let echoes = Terms { patterns: 4, prompt: one_in(c, 4), ..plain };
    for (which, terms) in [(0, plain), (1, echoes)] {
        let served = one_in(c, 4);
        let serve = Mods::Serve { which, terms, approved: true };
        add(out, if served { serve } else { Mods::Process { which, terms } });
    }
    out.push(Step::Settle);
    out.push(Step::Send {
        net,
        who: sender,
        to: Target::Core,
        which: Which::Fresh,
        count: 1 + pick(c, 2),
        calm: false,
        form: 0,
    });
    add(out, Mods::Answer { nth: 0, word: Word::Pass, emits: 1 + pick(c, 2) });
    match c.below(6) {
        0 => {}
        1 => add(out, Mods::Bystander),
        _ => out.push(Step::Settle),
    }
    match c.below(10) {
        0..3 => out.push(Step::PowerCut),
        3 => out.push(Step::Kill),
        4..6 => out.push(Step::Restart),
        6 => out.push(Step::Fall { calls: c.below(12), power: one_in(c, 2), starting: one_in(c, 2) }),
        7 => out.push(Step::Trouble { what: Trouble::FlushFails, skip: 0, lasting: false }),
        8 => add(out, change(c)),
        _ => out.push(Step::Pass { ms: [500, 1_500][pick(c, 2)] }),
    }
    for _ in 0..pick(c, 3) {
        add(out, answer(c));
    }
    if one_in(c, 3) {
        out.push([Step::PowerCut, Step::Look, Step::Restart][pick(c, 3)]);
    }
}

fn change(c: &mut Chance) -> Mods {
    let which = pick(c, 5);
    match c.below(6) {
        0 | 1 => Mods::Unload { which },
        2 => Mods::Withdraw { which },
        3 => Mods::Change { which, deadline: pick(c, 3), rejects: one_in(c, 2) },
        4 => Mods::First { which },
        _ => Mods::Ends { which },
    }
}

/// Events wait for a mod, something happens, answers come.
fn waits(c: &mut Chance, net: usize, out: &mut Vec<Step>) {
    let (server, sender) = (pick(c, 3), pick(c, 3));
    let which = pick(c, 4);
    let add = |out: &mut Vec<Step>, who: usize, act: Mods| out.push(Step::Mods { net, who, act, calm: false });
    if one_in(c, 2) {
        let terms = Terms { prompt: false, ..terms(c) };
        out.push(Step::Mods { net, who: server, act: Mods::Serve { which, terms, approved: true }, calm: true });
    }
    out.push(sends(c, net, sender));
    if one_in(c, 2) {
        let who = (sender + pick(c, 2)) % 3;
        out.push(sends(c, net, who));
    }
    if one_in(c, 2) {
        add(out, sender, answer(c));
    }
    match c.below(16) {
        0 | 1 => add(out, server, Mods::Unload { which }),
        2 => add(out, server, change(c)),
        3 => out.push(Step::Leave { net, who: server, forget: one_in(c, 2) }),
        4 => out.push([Step::Hangup { net, who: server }, Step::Vanish { net, who: server }][pick(c, 2)]),
        5 => out.push([Step::PowerCut, Step::Kill, Step::Restart][pick(c, 3)]),
        6 => out.push(Step::Pass { ms: [500, 1_500, 4_000][pick(c, 3)] }),
        7 => add(out, sender, Mods::Bystander),
        8 => out.push(Step::Admin { net, op: Admin::Remove(server) }),
        9 => out.push(Step::Pump),
        _ => {}
    }
    for _ in 0..1 + pick(c, 3) {
        add(out, sender, answer(c));
    }
    if one_in(c, 3) {
        let last = [Step::PowerCut, Step::Look, Step::Settle][pick(c, 3)];
        out.push(last);
    }
}
