//! Event metadata: the keys the protocol reserves, read in one borrowed pass (OpenAgents sheet, section 4.4).
//!
//! Invariant: after [`Metadata::parse`] no server-only key is left, and the values the engine needs are typed.

use crate::json;
use crate::trace::{TRACEPARENT, TRACESTATE, is_traceparent, is_tracestate};
use crate::{ErrorCode, Fault, limits};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Keys only the server writes; clients' values are dropped.
const SERVER_ONLY: &[&str] = &["seq", "attempt", "client_timestamp", "source_info", "received_at", "delegated_by"];

/// Metadata of one event, still borrowing the received text.
#[derive(Debug, Clone, Default)]
pub struct Metadata<'a> {
    entries: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The received text, while it still says the same as `entries`.
    raw: Option<&'a str>,
    has_tracestate: bool,
    /// `session_id`, which is read and never kept.
    pub session_id: Option<Cow<'a, str>>,
    /// `ephemeral`, if the client said either way.
    pub ephemeral: Option<bool>,
    /// `receipt`: the sender wants to hear of acks.
    pub receipt: bool,
    /// `ttl_ms`: a shorter life in the queues.
    pub ttl_ms: Option<u64>,
}

struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> serde::Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((json::Key(key), value)) = map.next_entry::<json::Key<'de>, &RawValue>()? {
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        d.deserialize_map(Seen)
    }
}

impl<'a> Metadata<'a> {
    /// Reads the raw JSON of a metadata member; `null` counts as empty.
    pub fn parse(raw: &'a str) -> Result<Metadata<'a>, Fault> {
        if raw == "{}" || raw == "null" {
            return Ok(Metadata { raw: Some("{}"), ..Metadata::default() });
        }
        if raw.len() > limits::METADATA_BYTES_MAX {
            return Err(too_large(format!("metadata is over {} bytes", limits::METADATA_BYTES_MAX)));
        }
        if !raw.starts_with('{') {
            return Err(Fault::new(ErrorCode::InvalidEvent, "metadata must be an object").field("metadata"));
        }
        let Pairs(pairs) = serde_json::from_str(raw).map_err(|e| json::syntax_fault(&e))?;
        if pairs.len() > limits::METADATA_KEYS_MAX {
            return Err(too_large(format!("metadata has over {} keys", limits::METADATA_KEYS_MAX)));
        }
        let mut out = Metadata { raw: Some(raw), ..Metadata::default() };
        for (key, value) in pairs {
            if out.entries.iter().any(|(k, _)| *k == key) {
                return Err(
                    Fault::new(ErrorCode::InvalidEvent, format!("metadata names {key:?} twice")).field("metadata")
                );
            }
            out.take(key, value.get())?;
        }
        // Without a trace there is nothing it could be the state of.
        if out.has_tracestate && out.get(TRACEPARENT).is_none() {
            out.entries.retain(|(key, _)| key != TRACESTATE);
            out.raw = None;
        }
        Ok(out)
    }

    fn take(&mut self, key: Cow<'a, str>, value: &'a str) -> Result<(), Fault> {
        let bad = |what: &str| {
            Fault::new(ErrorCode::InvalidEvent, format!("metadata.{key} must be {what}"))
                .field(&format!("metadata.{key}"))
        };
        match key.as_ref() {
            "session_id" => {
                self.session_id = json::string(value);
                self.raw = None;
                return Ok(());
            }
            TRACEPARENT if !json::string(value).is_some_and(|v| is_traceparent(&v)) => {
                self.raw = None;
                return Ok(());
            }
            TRACESTATE => {
                self.has_tracestate = true;
                if !json::string(value).is_some_and(|v| is_tracestate(&v)) {
                    self.raw = None;
                    return Ok(());
                }
            }
            "ephemeral" => self.ephemeral = Some(boolean(value).ok_or_else(|| bad("true or false"))?),
            "receipt" => self.receipt = boolean(value).ok_or_else(|| bad("true or false"))?,
            "ttl_ms" if value == "null" => {}
            "via" if !is_trail(value) => return Err(bad("a list of at most 8 network ids")),
            "ttl_ms" => self.ttl_ms = Some(value.parse().map_err(|_| bad("a number of milliseconds"))?),
            "in_reply_to" | "thread" | "room_channel" if value != "null" && json::string(value).is_none() => {
                return Err(bad("text"));
            }
            name if SERVER_ONLY.contains(&name) || name.starts_with("rialto.") => {
                self.raw = None;
                return Ok(());
            }
            _ => {}
        }
        self.entries.push((key, Cow::Borrowed(value)));
        Ok(())
    }

    /// The raw JSON value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_ref())
    }

    /// The text of a key whose value is a JSON string.
    pub fn text(&self, key: &str) -> Option<Cow<'_, str>> {
        self.get(key).and_then(json::string)
    }

    /// Sets a key to raw JSON, replacing what was there.
    pub fn set(&mut self, key: &'a str, raw_value: String) {
        self.raw = None;
        match self.entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, value)) => *value = Cow::Owned(raw_value),
            None => self.entries.push((Cow::Borrowed(key), Cow::Owned(raw_value))),
        }
    }

    /// Sets a key to raw JSON where the key is not static.
    pub fn set_owned(&mut self, key: String, raw_value: String) {
        self.raw = None;
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some((_, value)) => *value = Cow::Owned(raw_value),
            None => self.entries.push((Cow::Owned(key), Cow::Owned(raw_value))),
        }
    }

    /// Keys in order, with their raw values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_ref(), v.as_ref()))
    }

    /// The JSON object as it is stored and delivered, on one line.
    pub fn to_json(&self) -> Cow<'a, str> {
        if let Some(raw) = self.raw {
            return if raw == "{}" || json::is_simple(raw, usize::MAX) {
                Cow::Borrowed(raw)
            } else {
                json::one_line(raw, json::scan(raw))
            };
        }
        let mut out = String::from("{");
        for (i, (key, value)) in self.entries.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            json::push_string(&mut out, key);
            out.push(':');
            out.push_str(&json::one_line(value, json::scan(value)));
        }
        out.push('}');
        Cow::Owned(out)
    }
}

fn too_large(message: String) -> Fault {
    Fault::new(ErrorCode::TooLarge, message).field("metadata")
}

/// The networks a bridged event has passed.
fn is_trail(raw: &str) -> bool {
    raw == "null"
        || serde_json::from_str::<Vec<Cow<'_, str>>>(raw).is_ok_and(|list| list.len() <= limits::VIA_NETWORKS_MAX)
}

fn boolean(raw: &str) -> Option<bool> {
    match raw {
        "true" => Some(true),
        "false" | "null" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn server_only_keys_are_dropped_and_the_rest_kept_as_sent() {
        let m = Metadata::parse(r#"{"seq":9,"k": 1.0,"session_id":"s","rialto.x":1,"traceparent":"junk"}"#).unwrap();
        assert_eq!(m.to_json(), r#"{"k":1.0}"#);
        assert_eq!(m.session_id.as_deref(), Some("s"));
        let parent = r#""traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01""#;
        for (sent, kept) in [
            (format!(r#"{{{parent},"tracestate":"a=1"}}"#), format!(r#"{{{parent},"tracestate":"a=1"}}"#)),
            (format!(r#"{{"tracestate":"a=1",{parent}}}"#), format!(r#"{{"tracestate":"a=1",{parent}}}"#)),
            (format!(r#"{{{parent},"tracestate":5}}"#), format!(r#"{{{parent}}}"#)),
            (r#"{"tracestate":"a=1","k":1}"#.to_owned(), r#"{"k":1}"#.to_owned()),
            (r#"{"traceparent":"junk","tracestate":"a=1"}"#.to_owned(), "{}".to_owned()),
        ] {
            assert_eq!(Metadata::parse(&sent).unwrap().to_json(), kept, "{sent}");
        }
        let plain = r#"{"in_reply_to":"e1","x":{"y":[1]}}"#;
        assert_eq!(Metadata::parse(plain).unwrap().to_json(), plain);
    }

    #[test]
    fn metadata_bytes_max_and_metadata_keys_max_are_enforced() {
        let wide = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::METADATA_BYTES_MAX));
        assert_eq!(Metadata::parse(&wide).unwrap_err().code, ErrorCode::TooLarge);
        let keys: Vec<String> = (0..=limits::METADATA_KEYS_MAX).map(|i| format!("\"k{i}\":0")).collect();
        assert_eq!(Metadata::parse(&format!("{{{}}}", keys.join(","))).unwrap_err().code, ErrorCode::TooLarge);
    }

    #[test]
    fn via_networks_max_is_the_limit() {
        let via = |n: usize| format!(r#"{{"via":[{}]}}"#, vec!["\"n1\""; n].join(","));
        assert!(Metadata::parse(&via(limits::VIA_NETWORKS_MAX)).is_ok());
        assert_eq!(Metadata::parse(&via(limits::VIA_NETWORKS_MAX + 1)).unwrap_err().code, ErrorCode::InvalidEvent);
        assert_eq!(Metadata::parse(r#"{"via":"n1"}"#).unwrap_err().code, ErrorCode::InvalidEvent);
    }

    #[test]
    fn duplicates_and_wrong_kinds_are_refused() {
        for bad in [r#"{"a":1,"a":2}"#, r#"{"ephemeral":1}"#, r#"{"ttl_ms":"x"}"#, r#"{"thread":5}"#, "[]", "5"] {
            assert_eq!(Metadata::parse(bad).unwrap_err().code, ErrorCode::InvalidEvent, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = Metadata::parse(&text);
        }
    }
}
