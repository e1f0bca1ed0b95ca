//! What happens in a world: a plan of networks and a list of steps, made from a seed, readable, and still a script when
//! steps are taken out of it.

mod make;
mod mods;
mod rename;
mod resource;
mod rights;
mod show;
mod talk;
mod weave;
mod work;

pub use mods::{DEADLINES_MS, MODS, Mods, PATTERNS, Terms, Word};
pub use resource::{RESOURCES, RULES, Res};
pub use rights::{Deed, Guest, Hand};
pub use talk::Talk;
pub use work::{By, Work};

use make::{one_in, pick};
use rialto_model::network::Durability;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

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
    /// Whoever holds the network's token manages it, from the start.
    #[serde(default)]
    pub token_manages: bool,
    /// Members invite: the mod for it is loaded.
    #[serde(default)]
    pub guests: bool,
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
    /// From now on whoever holds the network's token manages it, or no longer.
    TokenManages(bool),
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
        /// It speaks as clients of workspace servers do, which only ever name themselves.
        #[serde(default)]
        compat: bool,
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
    Manage {
        net: usize,
        by: Hand,
        deed: Deed,
    },
    Guest {
        net: usize,
        who: usize,
        act: Guest,
        calm: bool,
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
    /// A face changes a fact, or removes it.
    Fact {
        net: usize,
        face: usize,
        key: usize,
        value: Option<u8>,
        /// Only if it says what it is known to say.
        sure: bool,
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
