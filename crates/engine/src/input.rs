//! What comes into an engine and what comes out, besides records.

use crate::mods::ModConfig;
use crate::mods::external::{FinishedCheck, ModCheck};
use crate::record::{EventRecord, Record};
use crate::route::Route;
use crate::state::MemberId;
use rialto_model::{Envelope, ErrorCode, Event, FaceName, Fault, Millis, Seq};
use serde_json::Value;
use std::sync::Arc;

/// Time as the node sees it: wall for stamps and published expiry dates, steady for deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// Wall clock; may jump.
    pub wall: Millis,
    /// The network's monotonic time: it runs while the node runs, never jumps, and goes on after a restart from where it
    /// was last recorded ([`State::monotonic`](crate::State::monotonic)). Deadlines are times of this clock.
    pub steady: Millis,
}

/// What the engine does for a session because of how its clients work. A face gives them; the settings of the network say whether they
/// apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Its first event joins it: no join has to be sent.
    pub joins_by_speaking: bool,
    /// Holders of the network token may speak for whoever joins or first speaks by it.
    pub shares_name: bool,
    /// A join after a position that nobody knows goes on from the beginning, and is not refused.
    pub resumes_anywhere: bool,
    /// Who joins or first speaks by it reads history, where the network keeps one: mail is queued only if the join asks for that.
    pub reads_history: bool,
}

impl Capabilities {
    /// Every capability.
    pub const ALL: Capabilities =
        Capabilities { joins_by_speaking: true, shares_name: true, resumes_anywhere: true, reads_history: true };
}

/// A live or stored session of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionRef {
    /// Whose.
    pub member: MemberId,
    /// Its number.
    pub number: u64,
}

/// Credentials as presented, already hashed.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The node's admin secret was shown.
    pub operator: bool,
    /// SHA-256 of the bearer: a session id or a network token.
    pub bearer: Option<[u8; 32]>,
    /// SHA-256 of a session id presented apart from the bearer.
    pub session: Option<[u8; 32]>,
    /// The address the caller says it is, canonical.
    pub claimed: Option<Box<str>>,
    /// What its session may do.
    pub capabilities: Capabilities,
    /// Its event's id was made from a key of the sender's by the node.
    pub keyed: bool,
    /// A stream that has joined: nothing else is looked at.
    pub stream: Option<SessionRef>,
    /// The face that speaks for a member it carries, the one that is `claimed`: nothing else is looked at.
    pub via: Option<Via>,
    /// The trace that the request belongs to; its events do, unless they say otherwise.
    pub trace: Option<Box<rialto_model::TraceContext>>,
}

/// A face that speaks for a member it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via {
    /// Which.
    pub face: FaceName,
    /// The verification level that it vouches for.
    pub level: u8,
}

/// What the proofs of a join gave.
#[derive(Debug, Clone, Default)]
pub struct Proofs {
    /// SHA-256 of every network token presented.
    pub tokens: Vec<[u8; 32]>,
    /// SHA-256 of the invitation's secret.
    pub invite: Option<[u8; 32]>,
    /// Verification level proved.
    pub level: u8,
    /// A proof was presented and does not hold.
    pub failed: Option<Fault>,
}

/// What is known of an event id that a client chose.
#[derive(Debug, Clone, Default)]
pub enum KnownId {
    /// Nothing.
    #[default]
    New,
    /// It is taken by this event.
    Known(Arc<EventRecord>),
}

/// Where a join wants to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resume {
    /// It does not say.
    #[default]
    None,
    /// After this position.
    After(Seq),
    /// After an event nobody knows.
    Unknown,
}

/// One event of a client.
#[derive(Debug)]
pub struct Emit<'a> {
    /// Who sends it.
    pub caller: &'a Caller,
    /// What was received.
    pub envelope: &'a Envelope<'a>,
    /// 128-bit hash of the received bytes.
    pub received: u128,
    /// What is known of its id.
    pub seen: KnownId,
    /// For a join: what was proved.
    pub proofs: Proofs,
    /// For a join: SHA-256 of the fresh session id. For an invitation: of its fresh secret.
    pub fresh_session: [u8; 32],
    /// For a join: where to resume.
    pub resume: Resume,
    /// What the engine asked for before it could decide this event.
    pub answers: Answers,
}

impl<'a> Emit<'a> {
    /// The same input after a mod changed its event.
    pub(crate) fn again<'b>(&self, envelope: &'b Envelope<'b>) -> Emit<'b>
    where
        'a: 'b,
    {
        Emit {
            caller: self.caller,
            envelope,
            received: self.received,
            seen: KnownId::New,
            proofs: Proofs::default(),
            fresh_session: self.fresh_session,
            resume: Resume::None,
            answers: self.answers.clone(),
        }
    }
}

/// What a join gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// The session.
    pub session: SessionRef,
    /// The fresh session id is in use; otherwise the presented one stays.
    pub issued: bool,
    /// Tracked unacked events at once.
    pub window: usize,
    /// Resume point.
    pub resume_after: Option<Seq>,
    /// Deliver stored events after the resume point even if acked.
    pub replay: bool,
    /// One ack per commit instead of one per event.
    pub batch_acks: bool,
    /// The position of the join.
    pub since: Seq,
}

/// The answer to an accepted event.
#[derive(Debug, Clone, Default)]
pub struct Accepted {
    /// The id it is answered under where that is not its event's: of an ack, a query, a ping, a join sent again.
    pub named: Option<Box<str>>,
    /// Its position, if it has one.
    pub seq: Option<Seq>,
    /// It was there already.
    pub duplicate: bool,
    /// The `result` member of the ack. Few have one, and all are moved about.
    pub result: Option<Box<Value>>,
    /// A response event that follows the ack.
    pub response: Option<Arc<Event>>,
    /// The event as committed or signalled.
    pub event: Option<Arc<EventRecord>>,
    /// Set by a join.
    pub joined: Option<Box<Joined>>,
    /// Set by a leave: the stream ends.
    pub left: bool,
    /// No ack is sent for it (ping).
    pub silent: bool,
}

impl Accepted {
    /// Gives the ack a `result`.
    pub(crate) fn says(&mut self, result: Value) {
        self.result = Some(Box::new(result));
    }

    /// The event's id.
    pub fn event_id(&self) -> &str {
        self.named.as_deref().or(self.event.as_ref().map(|e| e.event.id())).unwrap_or_default()
    }
}

/// What happens besides records: never durable, after the commit.
#[derive(Debug, Clone)]
pub enum Effect {
    /// A credential that no session was made with has ended: whoever reads with it is to be refused.
    CredentialEnded,
    /// An event for whoever is there.
    Signal {
        /// The event.
        event: Arc<Event>,
        /// Where it goes.
        route: Route,
        /// It was sent when this was the last position: whoever came, or was let in, after it has no part in it. Without one it is for
        /// whoever is there when it goes out.
        after: Option<Seq>,
    },
    /// Sessions that ended: their streams are told and closed.
    Revoked {
        /// Whose.
        member: MemberId,
        /// Which.
        numbers: Vec<u64>,
        /// Why.
        code: ErrorCode,
    },
    /// A mod that runs elsewhere is shown an event; nobody waits for it.
    Observe(Box<ModCheck>),
    /// A member that a face carried is no member any more.
    CarriedGone {
        /// The face.
        face: FaceName,
        /// The address it had.
        address: Box<str>,
    },
    /// Every session is told and closed.
    CloseAll {
        /// Why.
        code: ErrorCode,
    },
}

/// Everything decided by one or more inputs, in order.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be applied and appended.
    pub records: Vec<Record>,
    /// To be done after the commit.
    pub after: Vec<Effect>,
    events: u64,
    /// Work units that end here: whatever else would end them comes too late.
    ended: std::collections::BTreeSet<crate::work::UnitNo>,
}

impl Effects {
    /// Adds a record.
    pub fn commit(&mut self, record: Record) {
        if let Record::Event(event) = &record {
            self.events += 1;
            self.ended.extend(event.ends_unit());
        }
        self.records.push(record);
    }

    /// Whether the unit ends by what was decided here.
    pub(crate) fn ends(&self, unit: crate::work::UnitNo) -> bool {
        self.ended.contains(&unit)
    }

    /// Adds a change of the book.
    pub fn change(&mut self, change: crate::record::Change) {
        self.records.push(change.into());
    }

    /// How much was decided so far.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.records.len(), self.after.len())
    }

    /// Takes back everything decided since the mark: a refusal leaves nothing behind.
    pub(crate) fn undo(&mut self, (records, after): (usize, usize)) {
        for record in self.records.drain(records.min(self.records.len())..) {
            if let Record::Event(event) = record {
                self.events -= 1;
                if let Some(unit) = event.ends_unit() {
                    self.ended.remove(&unit);
                }
            }
        }
        self.after.truncate(after);
    }

    /// Events decided here and not yet applied.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Hands out the records, which the caller applies at once.
    pub fn take_records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.swap_records(&mut records);
        records
    }

    /// Hands out the records for an empty buffer, so that two buffers do for all.
    pub fn swap_records(&mut self, empty: &mut Vec<Record>) {
        self.events = 0;
        self.ended.clear();
        std::mem::swap(&mut self.records, empty);
    }
}

/// Why an event is not decided now.
#[derive(Debug, Clone)]
pub enum Stop {
    /// It is refused.
    Refused(Fault),
    /// Something must be known first. Nothing has been decided; nothing was charged that is not remembered in the answer.
    Ask(Box<Question>),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Refused(fault)
    }
}

impl From<ErrorCode> for Stop {
    fn from(code: ErrorCode) -> Stop {
        Stop::Refused(code.into())
    }
}

/// What the engine cannot know by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Whether a schema is one that tools may have. A bad one is refused by who is asked.
    Schema {
        /// JSON text.
        text: String,
    },
    /// Whether the event's payload fits a tool's schema. What does not fit is refused by who is asked.
    Input {
        /// The tool.
        resource: u32,
        /// Its version.
        version: u64,
        /// Its schema.
        schema: Arc<str>,
        /// The payload, where it is not the one that was sent.
        payload: Option<Arc<str>>,
    },
    /// Whether the event's payload fits a tool's output schema.
    Output {
        /// The tool.
        resource: u32,
        /// Its version.
        version: u64,
        /// Its schema.
        schema: Arc<str>,
        /// The payload, where it is not the one that was sent.
        payload: Option<Arc<str>>,
    },
    /// That this content is kept as a blob.
    Content {
        /// Who brings it.
        by: MemberId,
        /// What comes before it, if it is appended.
        base: Option<Content>,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// What a mod that runs elsewhere says.
    Check(Box<ModCheck>),
    /// The event of this id.
    Find {
        /// The id.
        id: String,
    },
    /// Bytes of a blob.
    Bytes {
        /// Which.
        content: Content,
        /// From here.
        offset: u64,
        /// At most so many.
        length: u64,
    },
    /// How large a blob is that the sender names: it must have brought it, or be able to read it already.
    Blob {
        /// Who names it.
        by: MemberId,
        /// Its SHA-256.
        sha256: [u8; 32],
    },
}

/// A blob by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Content {
    /// SHA-256.
    #[serde(with = "hex_hash")]
    pub blob: [u8; 32],
    /// Bytes.
    pub size: u64,
}

mod hex_hash {
    use rialto_model::hex;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex::text(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        hex::hash(&text).ok_or_else(|| serde::de::Error::custom("a hash is 64 hex digits"))
    }
}

/// What was asked for, as far as it is known. Most events ask nothing and carry nothing.
#[derive(Debug, Clone, Default)]
pub struct Answers(Option<Box<Known>>);

static NOTHING: Known = Known {
    schema: false,
    input: None,
    output: None,
    content: None,
    blobs: Vec::new(),
    found: Vec::new(),
    bytes: None,
    mods: None,
    checked: Vec::new(),
};

impl std::ops::Deref for Answers {
    type Target = Known;

    fn deref(&self) -> &Known {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl std::ops::DerefMut for Answers {
    fn deref_mut(&mut self) -> &mut Known {
        self.0.get_or_insert_default()
    }
}

/// What was asked for and is known.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The schema is a good one.
    pub schema: bool,
    /// The payload fits this version of this tool's schema.
    pub input: Option<(u32, u64)>,
    /// Whether the payload fits this version of this tool's output schema.
    pub output: Option<((u32, u64), bool)>,
    /// The content, after this base, is kept.
    pub content: Option<(Option<Content>, Content)>,
    /// Blobs the sender may name.
    pub blobs: Vec<Content>,
    /// Events by id, as far as they are known.
    pub found: Vec<(String, Option<Arc<EventRecord>>)>,
    /// Bytes of this blob, from there on.
    pub bytes: Option<(Content, u64, Arc<[u8]>)>,
    /// The mods the event is on its way through, once one of them was asked.
    pub mods: Option<Arc<[ModConfig]>>,
    /// What mods said.
    pub checked: Vec<FinishedCheck>,
}
