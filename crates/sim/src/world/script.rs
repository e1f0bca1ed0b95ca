//! What happens in a world: a plan of networks and a list of steps, made from a seed, readable, and still a script when
//! steps are taken out of it.

mod mods;
mod rename;
mod resource;
mod talk;
mod weave;
mod work;

pub use mods::{DEADLINES_MS, MODS, Mods, PATTERNS, Terms, Word};
pub use resource::{RESOURCES, RULES, Res};
pub use talk::Talk;
pub use work::{By, Work};

use crate::harness::Chance;
use rialto_model::network::Durability;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Addresses that take part, the same in every network, so that names alone can never keep networks apart.
pub const ADDRESSES: [&str; 6] = ["agent:ann", "agent:bob", "agent:cat", "human:dee", "agent:eli", "human:fay"];
/// Names of channels that are made, deleted and made again.
pub const CHANNELS: [&str; 4] = ["general", "plans", "ops", "den"];
/// Names of groups.
pub const GROUPS: [&str; 2] = ["crew", "night"];

/// Names that agents are given: new ones, and those of others, which may be free by then.
pub const NAMES: [&str; 5] = ["agent:zed", "agent:yan", "agent:ann", "agent:bob", "agent:cat"];

/// What a member says it can do.
pub fn skills(address: &str) -> &'static [&'static str] {
    match address {
        "agent:bob" => &["plan", "code"],
        "agent:ann" | "human:fay" => &["plan"],
        "agent:eli" => &["code"],
        _ => &[],
    }
}

/// How far the wall clock is set: an hour and ten years, either way.
const LEAPS_MS: [i64; 4] = [3_600_000, -3_600_000, 315_360_000_000, -315_360_000_000];

/// One network of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetPlan {
    /// The workspace preset, or the plain one.
    pub workspace: bool,
    /// History is kept.
    pub persistence: bool,
    /// Deliveries are tracked.
    pub at_least_once: bool,
    /// Life of mail, if not the default.
    pub ttl_ms: Option<u64>,
    /// Mail a member may have pending.
    pub max_pending: Option<u64>,
    /// KiB of mail a member may have pending; some events are large where it is bounded.
    #[serde(default)]
    pub max_pending_kib: Option<u64>,
    /// Deadlines that may pass before mail dies.
    pub max_attempts: Option<u32>,
    /// Events history keeps.
    pub max_events: Option<u64>,
    /// What is acknowledged is with the operating system, not yet on the medium: durability `os`.
    #[serde(default)]
    pub os: bool,
    /// Whoever joins shows a token or an invitation.
    #[serde(default)]
    pub closed: bool,
}

impl NetPlan {
    /// What an acknowledgement promises.
    pub fn durability(&self) -> Durability {
        if self.os { Durability::Os } else { Durability::Sync }
    }
}

/// A world and what happens in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// Chance of the disk and the host.
    pub seed: u64,
    /// Size of the first segment.
    pub segment_bytes: u64,
    /// Log bytes between snapshots.
    pub snapshot_bytes: usize,
    /// There is a search index.
    #[serde(default)]
    pub search: bool,
    /// The log is written past the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Networks.
    pub nets: Vec<NetPlan>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Where a send goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the forms of section 7")]
pub enum Target {
    Member(usize),
    Broadcast,
    Channel(usize),
    Group(usize),
    Core,
    ModLoaded,
    ModUnknown,
    Resource,
    Foreign,
    Nobody,
    Malformed,
}

/// Which event is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// A new one with an id of the client's.
    Fresh,
    /// A new one without an id.
    Unnamed,
    /// The client's n-th last one again, byte for byte.
    Again(usize),
    /// Another one under the id of the client's n-th last one.
    Clash(usize),
}

/// An act on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the types of section 5")]
pub enum Act {
    Create { private: bool, guest: Option<usize> },
    Join { guest: Option<usize> },
    Leave { guest: Option<usize> },
    Delete,
}

/// What a client acks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Everything up to the newest it has seen but `n`.
    UpTo(usize),
    /// One it has seen, counted from the newest.
    One(usize),
    /// Every second one it has seen.
    Scattered,
    /// An event that is not its mail.
    Foreign(u64),
}

/// An operator's act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the admin API")]
pub enum Admin {
    Role(usize, #[serde(deserialize_with = "word")] FixedWord),
    Remove(usize),
    Group(usize, u8),
    DeleteGroup(usize),
    Status(#[serde(deserialize_with = "word")] FixedWord),
    Redact(u64),
    MaxPending(u64),
    /// A member mutes a channel, or hears it again.
    Mute(usize, usize, bool),
    /// A member's mail waits, or no longer.
    Quiet(usize, bool),
    /// A member is called otherwise from here on.
    Rename(usize, usize),
    /// The token that agents join with is revoked, and made anew.
    Revoke,
    /// The token for a member's own name is revoked, and made anew when it is needed.
    RevokeOwn(usize),
    /// A member begins a session with what ends soon: an invitation that is taken back, or a token.
    Visit(usize, bool),
}

/// A role, a status of a network or a state of work, in the sheet's own word. Steps are copied freely, so it is not owned.
pub type FixedWord = &'static str;

/// Every word that a step can hold.
const WORDS: [&str; 14] = [
    "member",
    "observer",
    "master",
    "active",
    "paused",
    "archived",
    "submitted",
    "working",
    "input_required",
    "auth_required",
    "completed",
    "failed",
    "canceled",
    "rejected",
];

/// Reads one of [`WORDS`]; any other is an error.
fn word<'de, D: Deserializer<'de>>(from: D) -> Result<FixedWord, D::Error> {
    let text = String::deserialize(from)?;
    let known = WORDS.into_iter().find(|word| *word == text);
    known.ok_or_else(|| D::Error::custom(format!("no step holds the word `{text}`")))
}

/// Reads one of [`WORDS`] or null.
fn optional_word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FixedWord>, D::Error> {
    #[derive(Deserialize)]
    struct Known(#[serde(deserialize_with = "word")] FixedWord);
    Ok(Option::<Known>::deserialize(from)?.map(|known| known.0))
}

/// What goes wrong below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each says what fails")]
pub enum Trouble {
    DiskFull,
    WriteFails,
    FlushFails,
    DirFlushFails,
    RenameFails,
}

/// One thing that happens. `net` and `who` count modulo what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields say what they are")]
pub enum Step {
    Join {
        net: usize,
        who: usize,
        stream: bool,
        keep: bool,
        window: usize,
        observer: bool,
        resume: bool,
        #[serde(default)]
        replay: bool,
        /// It shows a token for its own name, from now on always.
        #[serde(default)]
        named: bool,
    },
    Leave {
        net: usize,
        who: usize,
        forget: bool,
    },
    Hangup {
        net: usize,
        who: usize,
    },
    Vanish {
        net: usize,
        who: usize,
    },
    Listen {
        net: usize,
        who: usize,
        on: bool,
    },
    Send {
        net: usize,
        who: usize,
        to: Target,
        which: Which,
        count: usize,
        calm: bool,
        form: u8,
    },
    Channel {
        net: usize,
        who: usize,
        act: Act,
        channel: usize,
        calm: bool,
    },
    Ack {
        net: usize,
        who: usize,
        what: What,
        stream: bool,
    },
    Admin {
        net: usize,
        op: Admin,
    },
    Resource {
        net: usize,
        who: usize,
        act: Res,
        calm: bool,
    },
    Talk {
        net: usize,
        who: usize,
        talk: Talk,
        calm: bool,
    },
    Work {
        net: usize,
        by: By,
        act: Work,
        nth: usize,
        calm: bool,
    },
    Mods {
        net: usize,
        who: usize,
        act: Mods,
        calm: bool,
    },
    Read {
        net: usize,
        who: usize,
        form: u8,
        page: usize,
    },
    Pump,
    Errand,
    Settle,
    Look,
    Pass {
        ms: u64,
    },
    Leap {
        ms: i64,
    },
    Recycle,
    Trouble {
        what: Trouble,
        skip: u32,
        lasting: bool,
    },
    Heal,
    PowerCut,
    Kill,
    Fall {
        calls: u64,
        power: bool,
        starting: bool,
    },
    Restart,
    Rot {
        file: u64,
        byte: u64,
        bit: u8,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |who: &usize| ADDRESSES.get(who % ADDRESSES.len()).copied().unwrap_or_default();
        let room = |c: &usize| CHANNELS.get(c % CHANNELS.len()).copied().unwrap_or_default();
        match self {
            Step::Join { net, who, stream, keep, window, observer, resume, replay, named } => {
                write!(f, "net {net}: {} joins", name(who))?;
                let marks = [
                    (*stream, "with a stream"),
                    (*keep, "keeping its session"),
                    (*observer, "as observer"),
                    (*resume, "resuming"),
                    (*replay, "with a replay"),
                    (*named, "with a token of its own"),
                ];
                for (_, mark) in marks.iter().filter(|(on, _)| *on) {
                    write!(f, ", {mark}")?;
                }
                if *stream { write!(f, ", window {window}") } else { Ok(()) }
            }
            Step::Leave { net, who, forget: false } => write!(f, "net {net}: {} leaves", name(who)),
            Step::Leave { net, who, forget: true } => write!(f, "net {net}: {} leaves for good", name(who)),
            Step::Hangup { net, who } => write!(f, "net {net}: {} closes its stream", name(who)),
            Step::Vanish { net, who } => write!(f, "net {net}: {} vanishes", name(who)),
            Step::Listen { net, who, on: true } => write!(f, "net {net}: {} reads again", name(who)),
            Step::Listen { net, who, on: false } => write!(f, "net {net}: {} stops reading", name(who)),
            Step::Send { net, who, to, which, count, calm, form } => {
                write!(f, "net {net}: {} sends {count} x {which:?} to {to:?}, form {form}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Channel { net, who, act, channel, calm } => {
                write!(f, "net {net}: {} {act:?} channel {}", name(who), room(channel))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Ack { net, who, what, stream } => {
                write!(f, "net {net}: {} acks {what:?}{}", name(who), if *stream { " on its stream" } else { "" })
            }
            Step::Admin { net, op: Admin::Role(who, role) } => {
                write!(f, "net {net}: operator makes {} {role}", name(who))
            }
            Step::Admin { net, op: Admin::Remove(who) } => write!(f, "net {net}: operator removes {}", name(who)),
            Step::Admin { net, op } => write!(f, "net {net}: operator {op:?}"),
            Step::Resource { net, who, act, calm } => {
                write!(f, "net {net}: {} {act:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Talk { net, who, talk, calm } => {
                write!(f, "net {net}: {} {talk:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Work { net, by, act, nth, calm } => {
                write!(f, "net {net}: {by} {act} (unit {nth} from the newest)")?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Mods { net, who, act, calm } => {
                write!(f, "net {net}: {} {act:?}", name(who))?;
                if *calm { write!(f, ", alone") } else { Ok(()) }
            }
            Step::Read { net, who, form, page } => {
                write!(f, "net {net}: {} reads history, form {form}, {page} a page", name(who))
            }
            Step::Pump => write!(f, "the log commits one group"),
            Step::Errand => write!(f, "one background errand is done"),
            Step::Settle => write!(f, "everything settles"),
            Step::Look => write!(f, "everything settles and everything is compared, the state with the log too"),
            Step::Pass { ms } => write!(f, "{ms} ms pass"),
            Step::Leap { ms } => write!(f, "the wall clock is set {ms} ms"),
            Step::Recycle => write!(f, "old segments are recycled"),
            Step::Trouble { what, skip, lasting } => {
                write!(f, "{what:?} after {skip} calls{}", if *lasting { ", until healed" } else { ", once" })
            }
            Step::Heal => write!(f, "the disk is healed"),
            Step::PowerCut => write!(f, "power cut, start"),
            Step::Kill => write!(f, "kill -9, start"),
            Step::Fall { calls, power, starting } => {
                let end = if *power { "the power goes" } else { "kill -9" };
                let when = if *starting { "of the next start" } else { "from now" };
                write!(f, "{end} in the middle of change {} of the disk {when}, start", calls + 1)
            }
            Step::Restart => write!(f, "clean stop, start"),
            Step::Rot { file, byte, bit } => write!(f, "stop, bit {bit} of byte {byte} of file {file} rots, start"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "chance {}, segments of {} bytes, a snapshot every {}",
            self.seed, self.segment_bytes, self.snapshot_bytes
        )?;
        if self.search {
            writeln!(f, "with a search index")?;
        }
        if self.direct {
            writeln!(f, "with direct writes")?;
        }
        for (n, net) in self.nets.iter().enumerate() {
            let words = [
                (net.workspace, "workspace", "plain"),
                (net.persistence, "history", "no history"),
                (net.at_least_once, "at least once", "at most once"),
                (net.os, "durability os", "durability sync"),
                (net.closed, "closed", "open"),
            ];
            let words: Vec<&str> = words.iter().map(|(on, yes, no)| if *on { *yes } else { *no }).collect();
            let limits = (net.ttl_ms, net.max_pending, net.max_pending_kib, net.max_attempts, net.max_events);
            writeln!(f, "net {n}: {}, (ttl, pending, KiB, attempts, events) {limits:?}", words.join(", "))?;
        }
        for (n, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}  {step}", n + 1)?;
        }
        Ok(())
    }
}

/// What a seed's world is like.
struct Mood {
    nets: u64,
    /// Steps out of a hundred that are trouble below.
    trouble: u64,
    /// Steps out of a hundred that are time.
    time: u64,
    /// Sends out of a hundred that wait for nobody.
    hurry: u64,
    /// Days pass, history forgets, segments are used again.
    days: bool,
    /// Some networks are of durability `os`.
    os: bool,
}

impl Script {
    /// The script of a seed: every second one is plain, the others are each about a noun.
    pub fn of(seed: u64) -> Script {
        if seed.is_multiple_of(2) {
            return Script::plain(seed / 2);
        }
        let plain = Script::plain(seed);
        Script { steps: weave::nouns(seed / 2, plain.nets.len() as u64, plain.steps), ..plain }
    }

    fn plain(seed: u64) -> Script {
        let mut c = Chance::new(seed ^ 0x5EED);
        let nets = 1 + c.below(3);
        let days = one_in(&mut c, 4);
        let mood = Mood {
            nets,
            trouble: if days { 12 } else { [0, 4, 10][pick(&mut c, 3)] },
            time: 5 + c.below(12),
            hurry: c.below(90),
            days,
            os: one_in(&mut c, 8),
        };
        let plans = (0..nets).map(|_| net_plan(&mut c, &mood)).collect();
        let count = 50 + c.below(90);
        let mut steps = Vec::new();
        // Somebody is there from the start.
        for (net, who) in (0..usize::try_from(nets).unwrap_or(1)).flat_map(|net| (0..3).map(move |who| (net, who))) {
            let stream = one_in(&mut c, 2);
            steps.push(Step::Join {
                net,
                who,
                stream,
                keep: false,
                window: 4,
                observer: false,
                resume: false,
                replay: false,
                named: false,
            });
        }
        while (steps.len() as u64) < count {
            steps.push(step(&mut c, &mood));
        }
        let segment_bytes = [4096, 4096, 8192, 32768][pick(&mut c, 4)];
        let snapshot_bytes = [1500, 4000, 12_000, 1 << 20][pick(&mut c, 4)];
        Script {
            seed,
            search: one_in(&mut c, 10),
            direct: one_in(&mut c, 2),
            segment_bytes: if mood.days { 4096 } else { segment_bytes },
            snapshot_bytes: if mood.days { 1500 } else { snapshot_bytes },
            nets: plans,
            steps,
        }
    }
}

fn pick(c: &mut Chance, n: u64) -> usize {
    usize::try_from(c.below(n)).unwrap_or(0)
}

fn one_in(c: &mut Chance, n: u64) -> bool {
    c.below(n) == 0
}

fn net_plan(c: &mut Chance, mood: &Mood) -> NetPlan {
    let plan = NetPlan {
        workspace: one_in(c, 2),
        persistence: !one_in(c, 4),
        at_least_once: !one_in(c, 5),
        ttl_ms: one_in(c, 2).then(|| [20_000, 90_000, 1_800_000][pick(c, 3)]),
        max_pending: one_in(c, 3).then(|| 2 + c.below(6)),
        max_pending_kib: one_in(c, 4).then(|| 2 + c.below(9)),
        max_attempts: one_in(c, 4).then(|| 1 + u32::try_from(c.below(2)).unwrap_or(0)),
        max_events: one_in(c, 2).then(|| 3 + c.below(10)),
        os: mood.os && !one_in(c, 3),
        closed: one_in(c, 2),
    };
    // What is not delivered is kept: only where mail dies is anything forgotten.
    let forgets = NetPlan { persistence: true, ttl_ms: Some(90_000), max_events: Some(3), ..plan.clone() };
    if mood.days { forgets } else { plan }
}

fn target(c: &mut Chance) -> Target {
    match c.below(24) {
        0..6 => Target::Member(pick(c, 6)),
        6..10 => Target::Broadcast,
        10..17 => Target::Channel(pick(c, 4)),
        17..19 => Target::Group(pick(c, 2)),
        19 => Target::Core,
        20 => [Target::ModLoaded, Target::ModUnknown][pick(c, 2)],
        21 => [Target::Resource, Target::Malformed][pick(c, 2)],
        22 => Target::Foreign,
        _ => Target::Nobody,
    }
}

fn step(c: &mut Chance, mood: &Mood) -> Step {
    let (net, who) = (pick(c, mood.nets), pick(c, 6));
    let roll = c.below(100);
    if roll < mood.trouble {
        return trouble(c);
    }
    if roll < mood.trouble + mood.time {
        if mood.days && one_in(c, 3) {
            return Step::Pass { ms: 90_000_000 };
        }
        return match c.below(10) {
            0..3 => Step::Pass { ms: [50, 1000, 2500][pick(c, 3)] },
            3..6 => Step::Pass { ms: [10_000, 31_000, 95_000][pick(c, 3)] },
            6 => Step::Pass { ms: [1_900_000, 3_700_000, 90_000_000][pick(c, 3)] },
            7 => Step::Leap { ms: LEAPS_MS[pick(c, 4)] },
            8 => Step::Recycle,
            _ => Step::Errand,
        };
    }
    match c.below(76) {
        64..76 => busy(c, net, who),
        0..6 => Step::Join {
            net,
            who,
            stream: !one_in(c, 3),
            keep: one_in(c, 2),
            window: [1, 2, 4, 64][pick(c, 4)],
            observer: one_in(c, 12),
            resume: one_in(c, 4),
            replay: one_in(c, 4),
            named: one_in(c, 6),
        },
        6 => Step::Leave { net, who, forget: one_in(c, 2) },
        7 => Step::Hangup { net, who },
        8 => Step::Vanish { net, who },
        9..12 => Step::Listen { net, who, on: !one_in(c, 3) },
        12..34 => {
            let which = match c.below(12) {
                0..7 => Which::Fresh,
                7 | 8 => Which::Unnamed,
                9 | 10 => Which::Again(pick(c, 3)),
                _ => Which::Clash(pick(c, 2)),
            };
            let count = if one_in(c, 4) { 1 + pick(c, 6) } else { 1 };
            let calm = c.below(100) >= mood.hurry;
            Step::Send { net, who, to: target(c), which, count, calm, form: u8::try_from(c.below(19)).unwrap_or(0) }
        }
        34..40 => {
            let guest = one_in(c, 3).then(|| pick(c, 6));
            let act = match c.below(8) {
                0 | 1 => Act::Create { private: one_in(c, 2), guest },
                2..5 => Act::Join { guest },
                5 | 6 => Act::Leave { guest },
                _ => Act::Delete,
            };
            Step::Channel { net, who, act, channel: pick(c, 4), calm: !one_in(c, 3) }
        }
        40..47 => {
            let what = match c.below(8) {
                0..3 => What::UpTo(pick(c, 3)),
                3..5 => What::One(pick(c, 4)),
                5 | 6 => What::Scattered,
                _ => What::Foreign(c.below(40)),
            };
            Step::Ack { net, who, what, stream: one_in(c, 2) }
        }
        47..51 => {
            let op = match c.below(24) {
                0 => Admin::Role(who, ["member", "observer", "master"][pick(c, 3)]),
                1 => Admin::Remove(who),
                2..6 => Admin::Group(pick(c, 2), u8::try_from(c.below(64)).unwrap_or(0)),
                6 => Admin::DeleteGroup(pick(c, 2)),
                7 => Admin::Status(["paused", "archived"][pick(c, 2)]),
                8..11 => Admin::Status("active"),
                11 => Admin::Redact(c.below(30)),
                12..16 => Admin::Mute(who, pick(c, 4), c.below(3) > 0),
                16..19 => Admin::Quiet(who, c.below(2) > 0),
                19 => Admin::Revoke,
                20 => Admin::RevokeOwn(who),
                21 | 22 => Admin::Visit(who, one_in(c, 2)),
                _ => Admin::MaxPending(1 + c.below(8)),
            };
            Step::Admin { net, op }
        }
        51..55 => Step::Read { net, who, form: u8::try_from(c.below(64)).unwrap_or(0), page: 1 + pick(c, 7) },
        55..58 => Step::Pump,
        58..61 => Step::Settle,
        _ => Step::Look,
    }
}

/// A send that is likely to reach somebody.
fn busy(c: &mut Chance, net: usize, who: usize) -> Step {
    let to = match c.below(6) {
        0 | 1 => Target::Broadcast,
        2 | 3 => Target::Channel(pick(c, 2)),
        _ => Target::Member(pick(c, 3)),
    };
    let count = 1 + pick(c, 8);
    Step::Send {
        net,
        who: who % 3,
        to,
        which: Which::Fresh,
        count,
        calm: false,
        // Some of them are ephemeral.
        form: [0, 1, 2, 3, 4, 5, 6, 16][pick(c, 8)],
    }
}

fn trouble(c: &mut Chance) -> Step {
    match c.below(16) {
        0..3 => Step::PowerCut,
        3 => Step::Kill,
        4 => {
            let (power, starting) = (one_in(c, 2), one_in(c, 3));
            Step::Fall { calls: c.below(if starting { 40 } else { 12 }), power, starting }
        }
        5..7 => Step::Restart,
        7 => Step::Rot { file: c.draw() >> 8, byte: c.draw() >> 8, bit: u8::try_from(c.below(8)).unwrap_or(0) },
        8..11 => Step::Heal,
        _ => {
            let what = [
                Trouble::DiskFull,
                Trouble::WriteFails,
                Trouble::FlushFails,
                Trouble::FlushFails,
                Trouble::DirFlushFails,
                Trouble::RenameFails,
            ];
            Step::Trouble {
                what: what[pick(c, 6)],
                skip: u32::try_from(c.below(4)).unwrap_or(0),
                lasting: one_in(c, 2),
            }
        }
    }
}
