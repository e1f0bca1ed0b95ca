//! What clients of workspace servers say and expect differently: their events on the way in, events as they are shown to them, and who is
//! writing just now (OpenAgents sheet, sections 12.5 and 19).

use crate::auth::Call;
use bytes::Bytes;
use rialto_model::view::bare_name;
use rialto_model::{Event, EventParts, EventType, Fault};
use rialto_node::EventRecord;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long it is told that somebody writes.
const COMPOSING: Duration = Duration::from_secs(10);

/// What of an event decides how it is read.
#[derive(Debug, Deserialize)]
struct Peeked<'e> {
    #[serde(borrow)]
    r#type: Cow<'e, str>,
    #[serde(borrow)]
    target: Cow<'e, str>,
    #[serde(borrow)]
    visibility: Option<Cow<'e, str>>,
}

/// The channel of a message, if the event is one.
pub(crate) fn message_channel(body: &[u8]) -> Option<String> {
    let Peeked { r#type, target, .. } = serde_json::from_slice(body).ok()?;
    let is_message = r#type == EventType::MessagePosted.as_str();
    target.strip_prefix("channel/").filter(|_| is_message).map(str::to_owned)
}

/// An event as the network takes it. What does not have to change stays as it is, byte by byte; what cannot be read is refused there.
pub(crate) fn event(body: Bytes) -> Bytes {
    let Ok(Peeked { r#type, target, visibility }) = serde_json::from_slice(&body) else { return body };
    let said = visibility.as_deref();
    let for_all = r#type.starts_with("workspace.agent.") || r#type.starts_with("workspace.user.") && target == "core";
    let shown = match said {
        // Polled for without an identity, whatever their sender says.
        Some(_) if for_all => Some(None),
        Some("network") if target == "core" || target.starts_with("mod/") || target.starts_with("resource/") => {
            Some(None)
        }
        Some("network") => Some(Some("public")),
        Some(_) | None => None,
    };
    let seat =
        matches!(EventType::of(&r#type), EventType::ChannelJoin | EventType::ChannelLeave | EventType::ChannelDelete);
    let channel = target.strip_prefix("channel/").filter(|_| seat);
    if shown.is_none() && channel.is_none() {
        return body;
    }
    rewritten(&body, shown, channel).unwrap_or_else(|| body.clone())
}

fn rewritten(body: &Bytes, shown: Option<Option<&str>>, channel: Option<&str>) -> Option<Bytes> {
    let mut whole: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(body).ok()?;
    match shown {
        Some(Some(visibility)) => whole.insert("visibility".to_owned(), to_raw_value(visibility).ok()?),
        Some(None) => whole.remove("visibility"),
        None => None,
    };
    if let Some(channel) = channel {
        whole.insert("target".to_owned(), to_raw_value("core").ok()?);
        let payload = whole.get("payload").map_or("{}", |payload| payload.get());
        let mut payload: Map<String, Value> = serde_json::from_str(payload).ok()?;
        payload.entry("channel").or_insert_with(|| channel.into());
        whole.insert("payload".to_owned(), to_raw_value(&payload).ok()?);
    }
    Some(serde_json::to_vec(&whole).ok()?.into())
}

/// The same event from somebody else, or with other metadata.
fn altered(record: &EventRecord, source: &str, metadata: &str) -> Arc<EventRecord> {
    let event = &record.event;
    let parts = EventParts {
        id: event.id(),
        kind: event.kind(),
        source,
        target: event.target(),
        payload: event.payload(),
        metadata,
        timestamp: event.timestamp,
        network: event.network(),
        visibility: event.visibility,
    };
    Arc::new(EventRecord { event: Event::new(event.seq, &parts), ..record.clone() })
}

/// What a client is shown of a channel that it made: it looks for the name in the metadata.
pub(crate) fn made_channel(record: &EventRecord) -> Option<Arc<EventRecord>> {
    if record.event.event_type() != EventType::ChannelCreate {
        return None;
    }
    let name = record.event.target().strip_prefix("channel/")?;
    let mut metadata: Map<String, Value> = serde_json::from_str(record.event.metadata()).unwrap_or_default();
    for key in ["channel_name", "channel_id"] {
        metadata.insert(key.to_owned(), name.into());
    }
    Some(altered(record, record.event.source(), &Value::Object(metadata).to_string()))
}

/// Shows `agent:N` as `openagents:N`, unless somebody else has that name: these clients take messages from `openagents:` names alone.
pub(crate) async fn native_names(call: &Call, events: &mut [Arc<EventRecord>]) -> Result<(), Fault> {
    let other = |record: &EventRecord| {
        let name = record.event.source().strip_prefix("agent:")?;
        Some(format!("openagents:{name}").into_boxed_str())
    };
    let names: BTreeSet<Box<str>> = events.iter().filter_map(|record| other(record)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let taken = call.session.known(names.into_iter().collect()).await?;
    for record in events {
        if let Some(name) = other(record).filter(|name| !taken.contains(name)) {
            *record = altered(record, &name, record.event.metadata());
        }
    }
    Ok(())
}

/// The same name for a member of the roster.
pub(crate) fn native_name(address: &str, taken: impl Fn(&str) -> bool) -> String {
    let other = format!("openagents:{}", bare_name(address));
    if address.starts_with("agent:") && !taken(&other) { other } else { address.to_owned() }
}

/// In which networks somebody writes just now. Nothing of it is kept.
#[derive(Debug, Default)]
pub(crate) struct Composing(Mutex<BTreeMap<String, Instant>>);

impl Composing {
    fn networks(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody writes there. Networks where that is over are forgotten.
    pub(crate) fn note(&self, network: &str) {
        let mut networks = self.networks();
        networks.retain(|_, at| at.elapsed() < COMPOSING);
        networks.insert(network.to_owned(), Instant::now());
    }

    /// Whether somebody writes there.
    pub(crate) fn is_going_on(&self, network: &str) -> bool {
        self.networks().get(network).is_some_and(|at| at.elapsed() < COMPOSING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: &str) -> Value {
        serde_json::from_slice(&event(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
    }

    #[test]
    fn what_has_to_change_changes_and_the_rest_stays() {
        let plain = r#"{"type":"workspace.message.posted","target":"channel/a","payload":{"n":1.50}}"#;
        assert_eq!(event(Bytes::from_static(plain.as_bytes())), plain);
        let control = read(
            r#"{"type":"workspace.agent.control","target":"openagents:a","visibility":"direct","payload":{"n":1.50}}"#,
        );
        assert_eq!(control.get("visibility"), None);
        let message = read(r#"{"type":"workspace.message.posted","target":"channel/a","visibility":"network"}"#);
        assert_eq!(message["visibility"], "public");
        let core = read(r#"{"type":"network.ping","target":"core","visibility":"network"}"#);
        assert_eq!(core.get("visibility"), None);
        let join = read(r#"{"type":"network.channel.join","target":"channel/a","payload":{"agent":"b"}}"#);
        assert_eq!((&join["target"], &join["payload"]), (&json!("core"), &json!({ "channel": "a", "agent": "b" })));
        assert_eq!(read(r#"{"type":"a.b","target":"channel/a","visibility":"direct"}"#)["visibility"], "direct");
        for broken in ["", "{", r#"{"type":1}"#, "[]"] {
            assert_eq!(event(Bytes::from_static(broken.as_bytes())), broken);
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_apart() {
        assert_eq!(native_name("agent:a", |_| false), "openagents:a");
        assert_eq!(native_name("agent:a", |name| name == "openagents:a"), "agent:a");
        assert_eq!(native_name("human:a", |_| false), "human:a");
    }
}
