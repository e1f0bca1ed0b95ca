//! Names, visibilities and envelopes between the SDK and the network.

use super::wire::SdkEvent;
use super::words;
use rialto_model::address::{Address, Entity};
use rialto_model::view::bare_name;
use rialto_model::{ErrorCode, Event, Fault, Visibility};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// Under which the metadata keeps what only this dialect has.
const LEGACY: &str = "legacy";
/// Names that the SDK takes for placeholders and refuses.
const PLACEHOLDERS: [&str; 3] = ["transport.message", "base.event", "system.event"];
/// What goes out in place of an event whose type the SDK would refuse.
const WRAPPED: &str = "rialto.event.wrapped";

/// The address that an agent's name stands for.
pub(super) fn agent(name: &str) -> String {
    if name.contains(':') || name.contains('/') { name.to_owned() } else { format!("agent:{name}") }
}

/// The address that a destination stands for.
pub(super) fn target(said: &str) -> String {
    match said.split_once(':') {
        _ if matches!(said, "" | "system" | "core") => "core".to_owned(),
        None if matches!(said, "broadcast" | "all") => "agent:broadcast".to_owned(),
        None => agent(said),
        Some(("system", _)) => "core".to_owned(),
        Some(("channel", name)) => channel(name),
        Some(("group", name)) => format!("group/{name}"),
        Some(("mod", name)) => format!("mod/{name}"),
        Some(_) => said.to_owned(),
    }
}

/// The address of a channel that is called so.
pub(super) fn channel(name: &str) -> String {
    format!("channel/{}", name.trim_start_matches("channel/").trim_start_matches('#'))
}

/// An address as the SDK has it.
pub(super) fn shown(address: &str) -> String {
    if address == "core" {
        return "system:system".to_owned();
    }
    let Ok(parsed) = Address::parse(address) else { return address.to_owned() };
    match parsed.entity() {
        Entity::Agent(_) if parsed.is_broadcast() => "agent:broadcast".to_owned(),
        Entity::Agent(name) => name.to_owned(),
        Entity::Channel(name) => format!("channel:{name}"),
        Entity::Group(name) => format!("group:{name}"),
        Entity::Mod(name) => format!("mod:{name}"),
        Entity::Core | Entity::Human(_) | Entity::Registered { .. } | Entity::Resource { .. } => address.to_owned(),
    }
}

fn shown_visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Public => "network",
        Visibility::Channel => "channel",
        Visibility::Direct => "direct",
        Visibility::ModOnly => "mod_only",
    }
}

/// An event on its way in, as the network's task reads it.
#[derive(Debug, Serialize)]
pub(super) struct SdkFrame<'f> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'f str>,
    #[serde(rename = "type")]
    pub(super) kind: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    pub(super) target: String,
    pub(super) payload: Box<RawValue>,
    pub(super) metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visibility: Option<&'static str>,
}

impl SdkFrame<'_> {
    pub(super) fn text(&self) -> Result<String, Fault> {
        serde_json::to_string(self).map_err(|_| ErrorCode::Internal.into())
    }
}

/// A JSON value as the text of a payload.
pub(super) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, Fault> {
    to_raw_value(value).map_err(|_| ErrorCode::Internal.into())
}

impl SdkEvent {
    /// Its id, if the sender chose one.
    pub(super) fn id(&self) -> Option<&str> {
        self.event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// What its metadata is in the network.
    fn inner_metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone().unwrap_or_default();
        if let Some(id) = self.response_to.as_deref().filter(|id| !id.is_empty()) {
            metadata.insert("in_reply_to".into(), id.into());
        }
        let mut own = Map::new();
        for (name, text) in [("thread_name", &self.thread_name), ("text_representation", &self.text_representation)] {
            own.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
        }
        own.extend(
            self.requires_response.filter(|asks| *asks).map(|asks| ("requires_response".to_owned(), json!(asks))),
        );
        if !own.is_empty() {
            metadata.insert(LEGACY.into(), own.into());
        }
        metadata
    }

    /// Who may see it; with `restricted`, whom it is narrowed to.
    fn reach(&self, metadata: &mut Map<String, Value>) -> Result<Option<&'static str>, Fault> {
        match self.visibility.as_deref() {
            // The flat default of the SDK, on mail to one agent too: it is no wish to show that mail to everybody.
            None | Some("" | "network") => Ok(None),
            Some("public") => Ok(Some("public")),
            Some("channel") => Ok(Some("channel")),
            Some("direct") => Ok(Some("direct")),
            Some("mod_only") => Ok(Some("mod_only")),
            Some("restricted") => {
                let allowed = self.allowed_agents.as_deref().unwrap_or_default();
                if allowed.is_empty() {
                    let text =
                        "a restricted event names its readers: fill allowed_agents, or choose another visibility";
                    return Err(Fault::new(ErrorCode::InvalidVisibility, text).field("allowed_agents"));
                }
                metadata.insert("to".into(), allowed.iter().map(|name| json!(agent(name))).collect());
                Ok(None)
            }
            Some(other) => Err(Fault::new(ErrorCode::InvalidVisibility, format!("there is no visibility {other:?}"))
                .field("visibility")),
        }
    }

    /// The event as the network takes it: with this type, to there, saying this.
    pub(super) fn frame<'f>(
        &'f self,
        kind: &'f str,
        target: String,
        payload: Box<RawValue>,
        more: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<SdkFrame<'f>, Fault> {
        let mut metadata = self.inner_metadata();
        metadata.extend(more);
        let visibility = self.reach(&mut metadata)?;
        let source = self.source_id.as_deref().filter(|source| !source.is_empty()).map(agent);
        let timestamp = self.timestamp.filter(|at| at.is_finite() && *at > 0.0 && *at < 1e11);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within its bounds")]
        let timestamp = timestamp.map(|seconds| (seconds * 1000.0) as u64);
        Ok(SdkFrame { id: self.id(), kind, source, target, payload, metadata, timestamp, visibility })
    }

    /// The event as it stands.
    pub(super) fn plain_frame(&self) -> Result<SdkFrame<'_>, Fault> {
        let payload = match &self.payload {
            Some(payload) => payload.clone(),
            None => raw(&json!({}))?,
        };
        self.frame(&self.event_name, target(self.target_agent_id.as_deref().unwrap_or_default()), payload, [])
    }
}

/// An event as the SDK reads it.
#[derive(Debug, Serialize)]
struct LegacyEvent<'e> {
    event_id: &'e str,
    event_name: &'e str,
    source_id: String,
    source_type: &'static str,
    destination_id: String,
    target_agent_id: String,
    payload: Box<RawValue>,
    metadata: Box<RawValue>,
    timestamp: u64,
    visibility: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_to: Option<&'e Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_name: Option<&'e Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_representation: Option<&'e Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_response: Option<&'e Value>,
}

/// Whether the SDK takes an event of this name.
fn is_good_name(name: &str) -> bool {
    let good = |part: &str, first: bool| {
        part.len() >= 2
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && (!first || part.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let parts: Vec<&str> = name.split('.').collect();
    parts.len() >= 2 && parts.iter().enumerate().all(|(n, part)| good(part, n == 0)) && !PLACEHOLDERS.contains(&name)
}

/// An event as `me` is given it.
pub(super) fn outward(event: &Event, me: &str) -> Result<Box<RawValue>, Fault> {
    let metadata: Map<String, Value> = serde_json::from_str(event.metadata()).unwrap_or_default();
    let own = metadata.get(LEGACY);
    let of = |name: &str, fits: fn(&Value) -> bool| own.and_then(|own| own.get(name)).filter(|value| fits(value));
    let (name, payload) = match words::notification(event, &metadata, me) {
        Some((name, payload)) => (name, raw(&payload)?),
        None if is_good_name(event.kind()) => (event.kind(), whole(event.payload())?),
        None => (WRAPPED, raw(&json!({ "event": whole(&event.json())? }))?),
    };
    let destination = shown(event.target());
    let from_mod = event.source().starts_with("mod/");
    raw(&LegacyEvent {
        event_id: event.id(),
        event_name: name,
        source_id: shown(event.source()),
        source_type: if from_mod { "mod" } else { "agent" },
        target_agent_id: destination.clone(),
        destination_id: destination,
        payload,
        metadata: whole(event.metadata())?,
        timestamp: event.timestamp / 1000,
        visibility: shown_visibility(event.visibility),
        response_to: metadata.get("in_reply_to").filter(|id| id.is_string()),
        thread_name: of("thread_name", Value::is_string),
        text_representation: of("text_representation", Value::is_string),
        requires_response: of("requires_response", Value::is_boolean),
    })
}

fn whole(text: &str) -> Result<Box<RawValue>, Fault> {
    RawValue::from_string(text.to_owned()).map_err(|_| ErrorCode::Internal.into())
}

/// The bare names of addresses.
pub(super) fn names(addresses: &[Box<str>]) -> Vec<&str> {
    addresses.iter().map(|address| bare_name(address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rialto_model::EventParts;

    #[test]
    fn destinations_there_and_back() {
        for (said, address, back) in [
            ("echo", "agent:echo", "echo"),
            ("agent:echo", "agent:echo", "echo"),
            ("channel:plans", "channel/plans", "channel:plans"),
            ("channel:#plans", "channel/plans", "channel:plans"),
            ("group:ops", "group/ops", "group:ops"),
            ("mod:lint", "mod/lint", "mod:lint"),
            ("broadcast", "agent:broadcast", "agent:broadcast"),
            ("all", "agent:broadcast", "agent:broadcast"),
            ("agent:broadcast", "agent:broadcast", "agent:broadcast"),
            ("", "core", "system:system"),
            ("system", "core", "system:system"),
            ("system:core", "core", "system:system"),
            ("human:ana", "human:ana", "human:ana"),
            ("openagents:ben", "openagents:ben", "openagents:ben"),
        ] {
            assert_eq!(target(said), address, "{said}");
            assert_eq!(shown(address), back, "{said}");
        }
    }

    #[test]
    fn the_flat_default_shows_nothing_to_more_than_its_target() {
        let event = |visibility: &str, allowed: &[&str]| SdkEvent {
            event_name: "agent.message".into(),
            target_agent_id: Some("ben".into()),
            visibility: Some(visibility.into()),
            allowed_agents: Some(allowed.iter().map(|name| (*name).to_owned()).collect()),
            ..SdkEvent::default()
        };
        assert_eq!(event("network", &[]).plain_frame().unwrap().visibility, None);
        assert_eq!(event("public", &[]).plain_frame().unwrap().visibility, Some("public"));
        let narrowed = event("restricted", &["cy"]);
        assert_eq!(narrowed.plain_frame().unwrap().metadata["to"], json!(["agent:cy"]));
        for (visibility, field) in [("restricted", "allowed_agents"), ("secret", "visibility")] {
            let fault = event(visibility, &[]).plain_frame().unwrap_err();
            assert_eq!(fault.code, ErrorCode::InvalidVisibility);
            assert_eq!(fault.details.unwrap()["field"], field);
        }
    }

    fn out(kind: &str, payload: &str, metadata: &str) -> Value {
        let parts = EventParts {
            id: "e1",
            kind,
            source: "agent:ana",
            target: "channel/plans",
            payload,
            metadata,
            timestamp: 1999,
            network: "n1",
            visibility: Visibility::Channel,
        };
        serde_json::from_str(outward(&Event::new(3, &parts), "ben").unwrap().get()).unwrap()
    }

    #[test]
    fn events_as_the_sdk_reads_them() {
        let event = out(
            "app.note",
            r#"{"n":1.50}"#,
            r#"{"in_reply_to":"e0","legacy":{"thread_name":"t","requires_response":true}}"#,
        );
        assert_eq!((&event["event_name"], &event["source_id"]), (&json!("app.note"), &json!("ana")));
        assert_eq!((&event["destination_id"], &event["timestamp"]), (&json!("channel:plans"), &json!(1)));
        assert_eq!((&event["response_to"], &event["thread_name"]), (&json!("e0"), &json!("t")));
        assert_eq!((&event["requires_response"], &event["visibility"]), (&json!(true), &json!("channel")));
        for name in ["app.x", "my-app.note", "system.event", "app.Note", "note", "1app.note"] {
            let wrapped = out(name, "{}", "{}");
            assert_eq!(wrapped["event_name"], WRAPPED, "{name}");
            assert_eq!(wrapped["payload"]["event"]["type"], *name);
        }
    }
}
