//! The event: what a client sends ([`Envelope`]) and what the network keeps and delivers ([`Event`]).
//!
//! Not here: who may send it and where it goes (`rialto-engine`).

mod kept;
mod plain;

pub use kept::{Event, EventParts, TextLengths};
pub use plain::Beginning;

use crate::json;
use crate::{ErrorCode, EventType, Fault, limits};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Who may see an event (sheet section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Visibility {
    /// Any member.
    Public = 0,
    /// Members of the target channel or group.
    Channel = 1,
    /// The target alone.
    Direct = 2,
    /// Mods alone.
    ModOnly = 3,
}

impl Visibility {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Channel => "channel",
            Self::Direct => "direct",
            Self::ModOnly => "mod_only",
        }
    }

    /// The visibility of this wire name.
    pub fn from_wire(text: &str) -> Option<Visibility> {
        [Self::Public, Self::Channel, Self::Direct, Self::ModOnly].into_iter().find(|v| v.as_str() == text)
    }

    /// The visibility of this number in the log.
    pub fn from_u8(n: u8) -> Option<Visibility> {
        [Self::Public, Self::Channel, Self::Direct, Self::ModOnly].into_iter().find(|v| *v as u8 == n)
    }
}

/// An event as received: fields borrowed from the frame, payload and metadata as raw JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Client-supplied id, if any.
    pub id: Option<Cow<'a, str>>,
    /// `type`.
    pub kind: Cow<'a, str>,
    /// `source`, if said.
    pub source: Option<Cow<'a, str>>,
    /// `target`, not yet parsed as an address.
    pub target: Cow<'a, str>,
    /// Raw JSON object.
    pub payload: Cow<'a, str>,
    /// Raw JSON object.
    pub metadata: &'a str,
    /// The client's own timestamp, raw JSON number.
    pub timestamp: Option<&'a str>,
    /// `network`, if said.
    pub network: Option<Cow<'a, str>>,
    /// `visibility`, if said.
    pub visibility: Option<Visibility>,
    /// Whether the payload may have one of [`TEXT_MEMBERS`]; false only if it surely has none.
    pub may_hold_text: bool,
}

/// Members of a payload that hold what people wrote, and may look for again.
pub const TEXT_MEMBERS: [&str; 4] = ["content", "text", "title", "filename"];

/// A frame that is no event: the refusal, and the id if one could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Why.
    pub fault: Fault,
    /// The event's id, if it was readable.
    pub id: Option<String>,
}

#[derive(Default)]
struct Fields<'a> {
    id: Option<&'a RawValue>,
    kind: Option<&'a RawValue>,
    source: Option<&'a RawValue>,
    target: Option<&'a RawValue>,
    payload: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
    timestamp: Option<&'a RawValue>,
    network: Option<&'a RawValue>,
    visibility: Option<&'a RawValue>,
    twice: Option<String>,
}

impl<'de> serde::Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an event object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut out = Fields::default();
                let mut unknown: Vec<Cow<'de, str>> = Vec::new();
                while let Some(json::Key(key)) = map.next_key::<json::Key<'de>>()? {
                    let value: &'de RawValue = map.next_value()?;
                    let slot = match key.as_ref() {
                        "id" => &mut out.id,
                        "type" => &mut out.kind,
                        "source" => &mut out.source,
                        "target" => &mut out.target,
                        "payload" => &mut out.payload,
                        "metadata" => &mut out.metadata,
                        "timestamp" => &mut out.timestamp,
                        "network" => &mut out.network,
                        "visibility" => &mut out.visibility,
                        _ => {
                            if unknown.contains(&key) {
                                out.twice = Some(key.into_owned());
                            } else if unknown.len() < limits::METADATA_KEYS_MAX {
                                unknown.push(key);
                            }
                            continue;
                        }
                    };
                    if slot.replace(value).is_some() {
                        out.twice = Some(key.into_owned());
                    }
                }
                Ok(out)
            }
        }
        d.deserialize_map(Members)
    }
}

impl<'a> Envelope<'a> {
    /// Its type.
    pub fn event_type(&self) -> EventType<'_> {
        EventType::of(&self.kind)
    }

    /// Parses one received frame. What is wrong is told with the registry's code and the offending field.
    pub fn parse(text: &'a str) -> Result<Envelope<'a>, Unreadable> {
        Self::parse_after(text, &mut Beginning::default())
    }

    /// The same, quicker if the event begins like one that was parsed before.
    pub fn parse_after(text: &'a str, beginning: &mut Beginning) -> Result<Envelope<'a>, Unreadable> {
        if text.len() > limits::EVENT_BYTES_MAX {
            let fault =
                Fault::new(ErrorCode::TooLarge, format!("an event is at most {} bytes", limits::EVENT_BYTES_MAX));
            return Err(Unreadable { fault, id: None });
        }
        if let Some(envelope) = Self::from_plain(text, beginning) {
            return Ok(envelope);
        }
        Self::parse_fully(text)
    }

    /// An event as most are written; none if anything about it is unusual.
    fn from_plain(text: &'a str, beginning: &mut Beginning) -> Option<Envelope<'a>> {
        let plain = plain::read(text, beginning)?;
        let part = |span: plain::Span| span.of(text);
        Some(Envelope {
            id: part(plain.id).map(Cow::Borrowed),
            kind: Cow::Borrowed(part(plain.kind)?),
            source: part(plain.source).map(Cow::Borrowed),
            target: Cow::Borrowed(part(plain.target)?),
            payload: Cow::Borrowed(part(plain.payload).unwrap_or("{}")),
            metadata: part(plain.metadata).unwrap_or("{}"),
            timestamp: None,
            network: part(plain.network).map(Cow::Borrowed),
            visibility: plain.visibility,
            may_hold_text: plain.may_hold_text,
        })
    }

    fn parse_fully(text: &'a str) -> Result<Envelope<'a>, Unreadable> {
        let fields: Fields<'a> = serde_json::from_str(text).map_err(|e| {
            // Something else than an object is looked at no further: it may not be JSON at all behind its first byte.
            let fault = match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) if e.is_data() => Fault::new(ErrorCode::InvalidEvent, "an event is a JSON object"),
                Ok(_) => json::syntax_fault(&e),
                Err(e) => json::syntax_fault(&e),
            };
            Unreadable { fault, id: None }
        })?;
        let id = fields.id.and_then(|raw| json::string(raw.get())).map(Cow::into_owned);
        Self::from_fields(&fields).map_err(|fault| Unreadable { fault, id })
    }

    fn from_fields(f: &Fields<'a>) -> Result<Envelope<'a>, Fault> {
        if let Some(name) = &f.twice {
            return Err(Fault::new(ErrorCode::InvalidEvent, format!("{name:?} is given twice")).field(name));
        }
        let id = text_field(f.id, "id")?;
        if id.as_deref().is_some_and(|id| !crate::EventId::is_legal(id)) {
            return Err(
                Fault::new(ErrorCode::InvalidEvent, "id must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}").field("id")
            );
        }
        let missing =
            |name: &'static str| Fault::new(ErrorCode::InvalidEvent, format!("{name} is required")).field(name);
        let kind = text_field(f.kind, "type")?.ok_or_else(|| missing("type"))?;
        EventType::parse(&kind)?;
        let target = text_field(f.target, "target")?.ok_or_else(|| missing("target"))?;
        let visibility = match text_field(f.visibility, "visibility")? {
            None => None,
            Some(name) => Some(Visibility::from_wire(&name).ok_or_else(|| {
                Fault::new(ErrorCode::InvalidVisibility, "visibility is public, channel, direct or mod_only")
                    .field("visibility")
            })?),
        };
        let metadata = f.metadata.map_or("{}", |m| m.get());
        let timestamp = f.timestamp.map(|t| t.get()).filter(|t| *t != "null");
        if timestamp.is_some_and(|t| !t.starts_with(|c: char| c == '-' || c.is_ascii_digit())) {
            return Err(Fault::new(ErrorCode::InvalidEvent, "timestamp must be a number").field("timestamp"));
        }
        if metadata.contains('\\') && json::scan(metadata).lone_surrogate {
            return Err(lone_surrogate());
        }
        Ok(Envelope {
            id,
            kind,
            source: text_field(f.source, "source")?,
            target,
            payload: payload_field(f.payload)?,
            metadata,
            timestamp,
            network: text_field(f.network, "network")?,
            visibility,
            may_hold_text: true,
        })
    }
}

fn lone_surrogate() -> Fault {
    Fault::new(ErrorCode::InvalidJson, "a \\u escape names half of a surrogate pair")
}

fn text_field<'a>(raw: Option<&'a RawValue>, name: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    let text = json::string(raw).ok_or_else(|| {
        let fault = if raw.starts_with('"') {
            lone_surrogate()
        } else {
            Fault::new(ErrorCode::InvalidEvent, format!("{name} must be text"))
        };
        fault.field(name)
    })?;
    Ok(Some(text))
}

fn payload_field(raw: Option<&RawValue>) -> Result<Cow<'_, str>, Fault> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(Cow::Borrowed("{}")) };
    if !raw.starts_with('{') {
        return Err(Fault::new(ErrorCode::InvalidPayload, "payload must be an object").field("payload"));
    }
    if json::is_simple(raw, limits::PAYLOAD_DEPTH_MAX) {
        return Ok(Cow::Borrowed(raw));
    }
    let shape = json::scan(raw);
    if shape.depth > limits::PAYLOAD_DEPTH_MAX {
        return Err(Fault::new(
            ErrorCode::InvalidPayload,
            format!("payload nests deeper than {}", limits::PAYLOAD_DEPTH_MAX),
        )
        .field("payload"));
    }
    if shape.lone_surrogate {
        return Err(lone_surrogate());
    }
    Ok(json::one_line(raw, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_type::is_event_type;
    use proptest::prelude::*;

    fn parse_code(text: &str) -> ErrorCode {
        Envelope::parse(text).unwrap_err().fault.code
    }

    #[test]
    fn refusals_name_their_code() {
        use ErrorCode::*;
        let cases = [
            ("", InvalidJson),
            ("{", InvalidJson),
            ("[]", InvalidEvent),
            ("5", InvalidEvent),
            ("[{}", InvalidJson),
            ("5 5", InvalidJson),
            (r#"{"type":"a.b"}"#, InvalidEvent),
            (r#"{"type":"a.b","target":null}"#, InvalidEvent),
            (r#"{"type":"a.b","target":5}"#, InvalidEvent),
            (r#"{"target":"core"}"#, InvalidEvent),
            (r#"{"type":"A.b","target":"core"}"#, InvalidType),
            (r#"{"type":"ab","target":"core"}"#, InvalidType),
            (r#"{"type":"a.b","type":"a.c","target":"core"}"#, InvalidEvent),
            (r#"{"type":"a.b","target":"core","x":1,"x":2}"#, InvalidEvent),
            (r#"{"type":"a.b","target":"core","payload":[]}"#, InvalidPayload),
            (r#"{"type":"a.b","target":"core","id":"-x"}"#, InvalidEvent),
            (r#"{"type":"a.b","target":"core","id":"a\u0000"}"#, InvalidEvent),
            (r#"{"type":"a.b","target":"core","visibility":"secret"}"#, InvalidVisibility),
            (r#"{"type":"a.b","target":"core","payload":{"a":"\ud800"}}"#, InvalidJson),
            (r#"{"type":"a.b","target":"core","timestamp":"x"}"#, InvalidEvent),
        ];
        for (text, code) in cases {
            assert_eq!(parse_code(text), code, "{text}");
        }
        let unreadable = Envelope::parse(r#"{"id":"e1","type":"a.b"}"#).unwrap_err();
        assert_eq!(unreadable.id.as_deref(), Some("e1"));
    }

    #[test]
    fn payload_depth_max_and_event_bytes_max_are_enforced() {
        let nested = |n: usize| {
            format!(r#"{{"type":"a.b","target":"core","payload":{}1{}}}"#, "{\"a\":".repeat(n), "}".repeat(n))
        };
        assert!(Envelope::parse(&nested(limits::PAYLOAD_DEPTH_MAX)).is_ok());
        assert_eq!(parse_code(&nested(limits::PAYLOAD_DEPTH_MAX + 1)), ErrorCode::InvalidPayload);
        assert!(matches!(parse_code(&nested(100_000)), ErrorCode::InvalidPayload | ErrorCode::InvalidJson));
        let large =
            format!(r#"{{"type":"a.b","target":"core","payload":{{"a":"{}"}}}}"#, "x".repeat(limits::EVENT_BYTES_MAX));
        assert_eq!(parse_code(&large), ErrorCode::TooLarge);
        assert!(!is_event_type(&format!("a.{}", "b".repeat(limits::EVENT_TYPE_CHARS_MAX))));
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let e = Envelope::parse("{\"type\":\"a.b\",\"target\":\"core\",\"payload\":{\n\"a\":\r\n1}}").unwrap();
        assert_eq!(e.payload, "{ \"a\":  1}");
    }

    /// Texts that look like events, right and wrong.
    fn like_an_event() -> impl Strategy<Value = String> {
        let name = prop_oneof![
            Just("id"),
            Just("type"),
            Just("source"),
            Just("target"),
            Just("payload"),
            Just("metadata"),
            Just("network"),
            Just("visibility"),
            Just("timestamp"),
            Just("x")
        ];
        let value = prop_oneof![
            Just("\"a.b\"".to_owned()),
            Just("\"agent:a\"".to_owned()),
            Just("\"core\"".to_owned()),
            Just("\"direct\"".to_owned()),
            Just("{}".to_owned()),
            Just("null".to_owned()),
            Just("5".to_owned()),
            r#"\{"[a-z\\é]{0,12}":(1|-0\.5e3|01|true|"[a-z\\"nu0é]{0,9}"|\[1,?\]|\{\}| 1 |\[\[\]\])\}"#,
            r#"\{("x":\{"text":1\},|"y":"title",)?"(content|text|title|filename|tex|texts|conten\\t)":"a"\}"#,
            r#""[a-z.\\u0041é ]{0,20}""#,
        ];
        let member = (name, value, " {0,2}").prop_map(|(n, v, s)| format!("{s}\"{n}\"{s}:{s}{v}{s}"));
        prop::collection::vec(member, 0..7).prop_map(|members| format!("{{{}}}", members.join(",")))
    }

    /// Events of few senders: most begin like one before.
    fn like_the_one_before() -> impl Strategy<Value = String> {
        let space = || prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("  ")];
        let kind = prop_oneof![8 => Just("a.b"), 1 => Just("a.c"), 1 => Just("A")];
        let target = prop_oneof![Just("core"), Just("channel/é"), Just(""), Just("a\\n")];
        let between = prop_oneof![
            4 => Just(""),
            1 => Just(r#","network":"n""#),
            1 => Just(r#","id":"e1""#),
            1 => Just(r#","visibility":"direct""#),
            1 => Just(r#","metadata":{}"#),
            1 => Just(r#","type":"a.b""#),
        ];
        let payload = prop_oneof![Just("{}"), Just(r#"{"text":"é"}"#), Just(r#"{"a":[1]}"#), Just("1"), Just("{")];
        let after = prop_oneof![2 => Just(""), 1 => Just(r#","metadata":{"k":1}"#), 1 => Just(r#","target":"core""#)];
        (kind, target, between, payload, after, space(), space()).prop_map(|(kind, target, between, payload, after, s, t)| {
            format!(
                r#"{{"type":"{kind}","source":"agent:a","target":{s}"{target}"{between},"payload":{t}{payload}{after}}}"#
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn what_was_read_before_changes_nothing(texts in prop::collection::vec(like_the_one_before(), 1..12)) {
            let mut beginning = Beginning::default();
            for text in &texts {
                let alone = Envelope::from_plain(text, &mut Beginning::default());
                prop_assert_eq!(Envelope::from_plain(text, &mut beginning), alone, "{}", text);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn the_quick_way_agrees_with_the_full_one(text in like_an_event(), before in like_an_event()) {
            let mut beginning = Beginning::default();
            let _ = (Envelope::from_plain(&before, &mut beginning), Envelope::from_plain(&text, &mut beginning));
            for like in [text.clone(), text.replace("\":", "\": "), text.replace(": ", ":"), text.replace("core", "agent:b")] {
                prop_assert_eq!(Envelope::parse_after(&like, &mut beginning), Envelope::parse(&like));
            }
            if let Some(quick) = Envelope::from_plain(&text, &mut Beginning::default()) {
                let payload: serde_json::Value = serde_json::from_str(&quick.payload).unwrap();
                prop_assert_eq!(quick.may_hold_text, TEXT_MEMBERS.iter().any(|name| payload.get(name).is_some()));
                prop_assert_eq!(Ok(Envelope { may_hold_text: true, ..quick }), Envelope::parse_fully(&text));
            }
        }

        #[test]
        fn the_quick_way_agrees_on_damaged_events(cut in 0usize..150, byte in 0u8..128) {
            let good = r#"{"type":"a.b","source":"agent:a","target":"core","payload":{"a":"x\n","b":[1,2.5,-3e4,true,null,{}]},"metadata":{"thread":"t"},"id":"e1"}"#;
            let mut beginning = Beginning::default();
            prop_assert!(Envelope::from_plain(good, &mut beginning).is_some());
            let mut bytes = good.as_bytes().to_vec();
            if let Some(b) = bytes.get_mut(cut) { *b = byte; }
            if let Some((text, quick)) =
                std::str::from_utf8(&bytes).ok().and_then(|t| Some((t, Envelope::from_plain(t, &mut beginning)?)))
            {
                prop_assert_eq!(Ok(Envelope { may_hold_text: true, ..quick }), Envelope::parse_fully(text));
            }
        }

        #[test]
        fn types_are_dotted_words(text in "[a-z0-9_.A-]{0,12}") {
            let word = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
            let words: Vec<&str> = text.split('.').collect();
            let starts = |w: &str| w.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
            let good = words.len() > 1
                && words.iter().all(|w| word(w) && starts(w))
                && text.starts_with(|c: char| c.is_ascii_lowercase());
            prop_assert_eq!(is_event_type(&text), good);
        }
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = Envelope::parse(&text);
            let _ = is_event_type(&text);
        }

        #[test]
        fn never_panics_on_damaged_events(cut in 0usize..120, byte: u8) {
            let good = r#"{"id":"e1","type":"a.b","source":"agent:a","target":"core","payload":{"a":"\u00e9"},"metadata":{"thread":"t"}}"#;
            let mut bytes = good.as_bytes().to_vec();
            if let Some(b) = bytes.get_mut(cut) { *b = byte; }
            if let Ok(text) = std::str::from_utf8(&bytes) { let _ = Envelope::parse(text); }
        }
    }
}
