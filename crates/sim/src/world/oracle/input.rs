//! What clients send, and whether what is committed is the same.

use super::{CREATED, Rules};
use rialto_model::{Event, Visibility};

/// Ids are known again for at least this long.
const IDS_KEPT_MS: u64 = 24 * 3_600_000;

/// What one client event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its id, if the client chose one.
    pub id: Option<String>,
    /// Sender.
    pub source: String,
    /// Type.
    pub kind: String,
    /// Target as sent.
    pub target: String,
    /// Payload as sent.
    pub payload: String,
    /// Visibility as sent.
    pub visibility: Option<Visibility>,
    /// Recipients are narrowed to these.
    pub to: Option<Vec<String>>,
    /// A shorter life than the network's.
    pub ttl_ms: Option<u64>,
    /// What else its metadata says.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Its sender speaks as clients of workspace servers do.
    pub compat: bool,
    /// Steady time of the first sending.
    pub sent_at: u64,
    /// What is sent in one lane is committed in the order of sending.
    pub lane: u64,
    /// Label of the token that its sender came with, or who invited it did; empty if there is none, nothing if that is not known.
    pub token: Option<String>,
}

impl Input {
    /// An event of one member, sent now, with nothing special about it.
    pub fn new(source: &str, kind: &str, target: &str, payload: &serde_json::Value, sent_at: u64, lane: u64) -> Input {
        Input {
            id: None,
            source: source.to_owned(),
            kind: kind.to_owned(),
            target: target.to_owned(),
            payload: payload.to_string(),
            visibility: None,
            to: None,
            ttl_ms: None,
            metadata: serde_json::Map::new(),
            compat: false,
            sent_at,
            lane,
            token: None,
        }
    }
}

/// Whether the payload is the one that was sent. What a requester calls its unit is the unit's own id for everybody.
pub(super) fn is_same_payload(input: &Input, event: &Event) -> bool {
    if input.payload == event.payload() {
        return true;
    }
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let (mut sent, mut kept) = (read(&input.payload), read(event.payload()));
    let named = |value: &serde_json::Value| value.get("work").and_then(|id| id.as_str()).map(str::to_owned);
    let own = input.kind.starts_with("work.") && named(&sent).is_some_and(|name| !name.starts_with("work_"));
    if let (true, Some(id), Some(map)) = (own, named(&kept).filter(|id| id.starts_with("work_")), sent.as_object_mut())
    {
        map.insert("work".into(), id.into());
    }
    if input.kind == CREATED {
        // It says besides which invitation it is, and whom it is for now.
        for key in ["invitation_id", "expires_at", "invitee"] {
            [&mut sent, &mut kept]
                .into_iter()
                .filter_map(|value| value.as_object_mut())
                .for_each(|map| drop(map.remove(key)));
        }
    }
    sent == kept
}

/// Whether an event may be forgotten so far that the same again is a new one: ids are only kept for a day, or as long as
/// the event is stored.
pub(super) fn is_old(rules: &Rules, input: &Input, now: u64) -> bool {
    let forgets = rules.max_events.is_some() || !rules.persistence;
    forgets && now.saturating_sub(input.sent_at) >= IDS_KEPT_MS
}

/// The number an input carries in its payload.
pub(crate) fn number_of(payload: &str) -> Option<usize> {
    let value: serde_json::Value = serde_json::from_str(payload).ok()?;
    match value.get("k") {
        Some(k) => usize::try_from(k.as_u64()?).ok(),
        // Of a join nothing is kept that nobody knows.
        None => value.get("description")?.as_str()?.strip_prefix("join ")?.parse().ok(),
    }
}

/// How a join carries its number.
pub(crate) fn numbered(k: usize) -> String {
    format!("join {k}")
}
