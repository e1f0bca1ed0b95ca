//! What becomes of one event at a bridge: pure, so that the rules can be read and tested alone.

use crate::bridge::choice::BridgeChoice;
use crate::event::{Draft, Event};
use rialto_model::limits::VIA_NETWORKS_MAX;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// An event at the bridge.
#[derive(Debug, Clone)]
pub(super) enum Passage {
    /// It is said again there.
    Over {
        /// As what.
        draft: Box<Draft>,
        /// Under which key: the same for every repeat.
        key: String,
    },
    /// It stays behind.
    Behind(LeftBehind),
}

/// Why an event stays behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftBehind {
    /// No pattern fits.
    NotChosen,
    /// It has been in the other network.
    Loop,
    /// It has come through as many networks as `via` names.
    TooFar,
    /// It means something in its own network only: the protocol's own events, work, and mail to the bridge itself.
    Inward,
}

impl LeftBehind {
    /// For people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotChosen => "not_chosen",
            Self::Loop => "loop",
            Self::TooFar => "too_far",
            Self::Inward => "inward",
        }
    }
}

/// Keys that mean something in one network only: positions, names of its events and members, its work.
const INWARD_KEYS: [&str; 16] = [
    "via",
    "bridged",
    "seq",
    "attempt",
    "session_id",
    "client_timestamp",
    "source_info",
    "received_at",
    "delegated_by",
    "in_reply_to",
    "target_agents",
    "receipt",
    "to",
    "room_channel",
    "work",
    "work_state",
];
/// Types that only mean something to the network they are in.
const INWARD_TYPES: [&str; 3] = ["network.", "rialto.", "work."];

/// Decides about one event that is in `from` and might go to `to`.
pub(super) fn passage_of(event: &Event, from: &str, to: &str, choice: &BridgeChoice, into: Option<&str>) -> Passage {
    if !choice.takes(&event.kind, &event.target) {
        return Passage::Behind(LeftBehind::NotChosen);
    }
    let shared = ["channel/", "group/"].iter().any(|start| event.target.starts_with(start));
    let inward = INWARD_TYPES.iter().any(|start| event.kind.starts_with(start))
        || event.metadata.contains_key("work")
        || event.metadata.contains_key("work_state");
    if inward || (!shared && event.target != "agent:broadcast" && into.is_none()) {
        return Passage::Behind(LeftBehind::Inward);
    }
    let mut via: Vec<String> = match event.metadata.get("via") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) | None => Vec::new(),
    };
    if via.iter().any(|network| network == to) || from == to {
        return Passage::Behind(LeftBehind::Loop);
    }
    if via.len() >= VIA_NETWORKS_MAX {
        return Passage::Behind(LeftBehind::TooFar);
    }
    via.push(from.to_owned());
    let mut metadata: Map<String, Value> = event
        .metadata
        .iter()
        .filter(|(key, _)| !INWARD_KEYS.contains(&key.as_str()) && !key.starts_with("rialto."))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    metadata.insert("via".to_owned(), json!(via));
    let mut bridged = json!({ "network": from, "id": event.id, "source": event.source });
    if let (Some(answered), Some(map)) = (event.in_reply_to(), bridged.as_object_mut()) {
        map.insert("in_reply_to".to_owned(), json!(answered));
    }
    metadata.insert("bridged".to_owned(), bridged);
    let draft = Draft {
        id: None,
        kind: event.kind.clone(),
        source: None,
        target: into.unwrap_or(&event.target).to_owned(),
        payload: event.payload.clone(),
        metadata,
        visibility: None,
    };
    Passage::Over { draft: Box::new(draft), key: key_of(from, to, &event.id) }
}

/// The same for the same event over the same border, and for nothing else.
fn key_of(from: &str, to: &str, id: &str) -> String {
    let digest = Sha256::digest(format!("rialto-bridge-v1\n{from}\n{to}\n{id}\n"));
    digest.iter().fold(String::from("bridge:"), |mut key, byte| {
        // Writing into a text does not fail.
        let _ = write!(key, "{byte:02x}");
        key
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(target: &str, metadata: Value) -> Event {
        let text = json!({
            "id": "e1", "type": "workspace.message.posted", "source": "agent:alice", "target": target,
            "payload": { "content": "hi" }, "metadata": metadata, "network": "a",
        });
        serde_json::from_value(text).unwrap()
    }

    fn over(event: &Event, from: &str, to: &str) -> Result<(Draft, String), LeftBehind> {
        match passage_of(event, from, to, &BridgeChoice::default(), None) {
            Passage::Over { draft, key } => Ok((*draft, key)),
            Passage::Behind(why) => Err(why),
        }
    }

    #[test]
    fn what_goes_over_says_where_it_came_from() {
        let metadata = json!({
            "seq": 7, "attempt": 1, "mood": "good", "in_reply_to": "e0", "thread": "t", "via": ["z"],
            "target_agents": ["bob"], "rialto.x": 1,
        });
        let (draft, key) = over(&event("channel/general", metadata), "a", "b").unwrap();
        assert_eq!(
            Value::Object(draft.metadata),
            json!({
                "mood": "good", "thread": "t", "via": ["z", "a"],
                "bridged": { "network": "a", "id": "e1", "source": "agent:alice", "in_reply_to": "e0" },
            })
        );
        assert_eq!((draft.id, draft.source, draft.target.as_str()), (None, None, "channel/general"));
        assert_eq!(draft.payload.get(), r#"{"content":"hi"}"#);
        assert!(key.len() <= rialto_model::limits::IDEMPOTENCY_KEY_CHARS_MAX);
    }

    #[test]
    fn a_key_is_one_events_over_one_border() {
        let keys = [key_of("a", "b", "e1"), key_of("b", "a", "e1"), key_of("a", "c", "e1"), key_of("a", "b", "e2")];
        let mut different = keys.to_vec();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), keys.len());
        assert_eq!(key_of("a", "b", "e1"), keys[0]);
    }

    #[test]
    fn what_stays_behind() {
        let loops = event("channel/x", json!({ "via": ["b"] }));
        assert_eq!(over(&loops, "a", "b").unwrap_err(), LeftBehind::Loop);
        let far = event("channel/x", json!({ "via": ["1", "2", "3", "4", "5", "6", "7", "8"] }));
        assert_eq!(over(&far, "a", "b").unwrap_err(), LeftBehind::TooFar);
        assert_eq!(over(&event("agent:bridge-b", json!({})), "a", "b").unwrap_err(), LeftBehind::Inward);
        assert_eq!(
            over(&event("channel/x", json!({ "work": { "id": "w" } })), "a", "b").unwrap_err(),
            LeftBehind::Inward
        );
        let protocol = Event { kind: "network.channel.join".to_owned(), ..event("channel/x", json!({})) };
        assert_eq!(over(&protocol, "a", "b").unwrap_err(), LeftBehind::Inward);
        let choice = BridgeChoice::parse(&["channel/y"]).unwrap();
        let left = passage_of(&event("channel/x", json!({})), "a", "b", &choice, None);
        assert!(matches!(left, Passage::Behind(LeftBehind::NotChosen)));
    }

    #[test]
    fn mail_to_the_bridge_goes_where_it_is_told() {
        let mail = event("agent:bridge-b", json!({}));
        let Passage::Over { draft, .. } = passage_of(&mail, "a", "b", &BridgeChoice::default(), Some("channel/desk"))
        else {
            panic!("it stays behind")
        };
        assert_eq!(draft.target, "channel/desk");
    }

    proptest! {
        /// However networks are bridged, an event ends somewhere.
        #[test]
        fn every_walk_ends(steps in prop::collection::vec(0u8..12, 1..60)) {
            let mut at = "n0".to_owned();
            let mut walking = event("channel/x", json!({}));
            let mut crossed = 0;
            for step in steps {
                let to = format!("n{step}");
                match over(&walking, &at, &to) {
                    Ok((draft, _)) => {
                        crossed += 1;
                        walking = Event { metadata: draft.metadata, ..walking };
                        at = to;
                    }
                    Err(_) => continue,
                }
            }
            prop_assert!(crossed <= VIA_NETWORKS_MAX);
        }
    }
}
