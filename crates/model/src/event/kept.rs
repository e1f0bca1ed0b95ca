//! The event as the network keeps and delivers it.
//!
//! Invariant: it holds its texts one behind the other, copied once, as the log takes them; its canonical JSON, all nine
//! fields on one line, is written for who gets it.

use super::Visibility;
use crate::json;
use crate::{EventType, Millis, Seq, limits};

/// The nine fields of an event about to be built.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the fields of the envelope, by their names")]
pub struct EventParts<'a> {
    pub id: &'a str,
    pub kind: &'a str,
    pub source: &'a str,
    pub target: &'a str,
    pub payload: &'a str,
    pub metadata: &'a str,
    pub timestamp: Millis,
    pub network: &'a str,
    pub visibility: Visibility,
}

/// Lengths of the texts of an event: id, type, source, target, payload, metadata.
pub type TextLengths = [u32; 6];

// What stands before each member of the canonical text.
const ID: &str = "{\"id\":\"";
const TYPE: &str = "\",\"type\":\"";
const SOURCE: &str = "\",\"source\":\"";
const TARGET: &str = "\",\"target\":\"";
const PAYLOAD: &str = "\",\"payload\":";
const METADATA: &str = ",\"metadata\":";
const TIMESTAMP: &str = ",\"timestamp\":";
const NETWORK: &str = ",\"network\":\"";
const VISIBILITY: &str = "\",\"visibility\":\"";
const END: &str = "\"}";
/// Bytes of all of them.
const NAMES: usize = ID.len()
    + TYPE.len()
    + SOURCE.len()
    + TARGET.len()
    + PAYLOAD.len()
    + METADATA.len()
    + TIMESTAMP.len()
    + NETWORK.len()
    + VISIBILITY.len()
    + END.len();
// The marks of a tracked delivery.
const SEQ: &str = "\"seq\":";
const ATTEMPT: &str = ",\"attempt\":";

/// An event of the network: immutable, all nine fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Position in the network; 0 for what is never stored.
    pub seq: Seq,
    /// Commit time.
    pub timestamp: Millis,
    /// Who may see it.
    pub visibility: Visibility,
    /// Id, type, source, target, payload and metadata, then the network's id.
    texts: Box<str>,
    /// Where each of the first six ends.
    ends: TextLengths,
}

impl Event {
    /// `payload` and `metadata` must be JSON objects on one line.
    pub fn new(seq: Seq, parts: &EventParts<'_>) -> Event {
        let six = [parts.id, parts.kind, parts.source, parts.target, parts.payload, parts.metadata];
        let mut end = 0;
        let ends = six.map(|text| {
            end += text.len();
            // An event is at most a few MiB; saturating keeps a wrong caller from a wrong slice.
            u32::try_from(end).unwrap_or(u32::MAX)
        });
        let mut texts = String::with_capacity(end + parts.network.len());
        six.iter().for_each(|text| texts.push_str(text));
        texts.push_str(parts.network);
        let (timestamp, visibility) = (parts.timestamp, parts.visibility);
        Event { seq, timestamp, visibility, texts: texts.into_boxed_str(), ends }
    }

    /// The event of texts as [`Event::texts`] gives them; none if the lengths do not fit them.
    pub fn from_texts(
        (seq, timestamp, visibility): (Seq, Millis, Visibility),
        lengths: TextLengths,
        texts: &str,
        network: &str,
    ) -> Option<Event> {
        let (mut end, mut ends) = (0u32, lengths);
        for place in &mut ends {
            end = end.checked_add(*place)?;
            *place = end;
        }
        if end as usize != texts.len() || !ends.iter().all(|end| texts.is_char_boundary(*end as usize)) {
            return None;
        }
        let mut all = String::with_capacity(texts.len() + network.len());
        all.push_str(texts);
        all.push_str(network);
        Some(Event { seq, timestamp, visibility, texts: all.into_boxed_str(), ends })
    }

    /// Its six texts, one behind the other, and the length of each.
    pub fn texts(&self) -> (TextLengths, &str) {
        let mut start = 0;
        let lengths = self.ends.map(|end| end - std::mem::replace(&mut start, end));
        (lengths, self.texts.get(..start as usize).unwrap_or_default())
    }

    /// What it counts for where mail is bounded by bytes: its texts in whole KiB, at least one.
    pub fn mail_kib(&self) -> u64 {
        let bytes = self.ends.last().copied().unwrap_or(0);
        u64::from(bytes.div_ceil(1024)).clamp(1, limits::PENDING_EVENT_KIB_MAX)
    }

    /// The canonical JSON, without delivery marks.
    pub fn json(&self) -> String {
        self.json_as(None)
    }

    /// Bytes of [`Event::json`].
    pub fn json_len(&self) -> usize {
        self.json_len_as(None)
    }

    /// The JSON of a delivery. If it is tracked, `metadata.seq` and `metadata.attempt` say that an ack is expected.
    pub fn json_as(&self, attempt: Option<u32>) -> String {
        let mut out = String::with_capacity(self.json_len_as(attempt));
        self.push_json_to(attempt, &mut out);
        out
    }

    /// Bytes of [`Event::json_as`].
    pub fn json_len_as(&self, attempt: Option<u32>) -> usize {
        let escapes = json::escaped(self.target()).map_or(0, |escaped| escaped.len() - self.target().len());
        let marks = attempt.map_or(0, |attempt| {
            let comma = usize::from(!self.metadata_is_empty());
            SEQ.len() + ATTEMPT.len() + digits(self.seq) + digits(u64::from(attempt)) + comma
        });
        NAMES + self.texts.len() + digits(self.timestamp) + self.visibility.as_str().len() + escapes + marks
    }

    /// Appends [`Event::json_as`] to a text that goes on.
    pub fn push_json_to(&self, attempt: Option<u32>, out: &mut String) {
        self.write(attempt, |text| out.push_str(text));
    }

    /// Appends [`Event::json_as`] to a buffer that many events share.
    pub fn push_json(&self, attempt: Option<u32>, out: &mut Vec<u8>) {
        self.write(attempt, |text| out.extend_from_slice(text.as_bytes()));
    }

    /// The metadata of a tracked delivery.
    pub fn tracked_metadata(&self, attempt: u32) -> String {
        let mut out = String::new();
        self.write_marked(attempt, |text| out.push_str(text));
        out
    }

    #[inline]
    fn write_marked(&self, attempt: u32, mut put: impl FnMut(&str)) {
        let mut number = itoa::Buffer::new();
        put("{");
        put(SEQ);
        put(number.format(self.seq));
        put(ATTEMPT);
        put(number.format(attempt));
        put(if self.metadata_is_empty() { "" } else { "," });
        put(self.metadata().get(1..).unwrap_or("}"));
    }

    /// Writes the canonical JSON, with delivery marks if it is the given attempt, piece by piece: names have a known
    /// length and are written without a call.
    #[inline]
    fn write(&self, attempt: Option<u32>, mut put: impl FnMut(&str)) {
        put(ID);
        put(self.id());
        put(TYPE);
        put(self.kind());
        put(SOURCE);
        put(self.source());
        put(TARGET);
        put(json::escaped(self.target()).as_deref().unwrap_or(self.target()));
        put(PAYLOAD);
        put(self.payload());
        put(METADATA);
        match attempt {
            None => put(self.metadata()),
            Some(attempt) => self.write_marked(attempt, &mut put),
        }
        put(TIMESTAMP);
        put(itoa::Buffer::new().format(self.timestamp));
        put(NETWORK);
        put(self.network());
        put(VISIBILITY);
        put(self.visibility.as_str());
        put(END);
    }

    fn metadata_is_empty(&self) -> bool {
        let metadata = self.metadata();
        metadata.len() == 2 || metadata.bytes().skip(1).find(|b| !b.is_ascii_whitespace()) == Some(b'}')
    }

    fn part(&self, from: u32, to: u32) -> &str {
        self.texts.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Event id.
    pub fn id(&self) -> &str {
        let [id, ..] = self.ends;
        self.part(0, id)
    }
    /// Event type.
    pub fn kind(&self) -> &str {
        let [id, kind, ..] = self.ends;
        self.part(id, kind)
    }
    /// Event type, to be matched on.
    pub fn event_type(&self) -> EventType<'_> {
        EventType::of(self.kind())
    }
    /// Canonical source address.
    pub fn source(&self) -> &str {
        let [_, kind, source, ..] = self.ends;
        self.part(kind, source)
    }
    /// Canonical target address.
    pub fn target(&self) -> &str {
        let [_, _, source, target, ..] = self.ends;
        self.part(source, target)
    }
    /// Raw payload object.
    pub fn payload(&self) -> &str {
        let [.., target, payload, _] = self.ends;
        self.part(target, payload)
    }
    /// Raw metadata object.
    pub fn metadata(&self) -> &str {
        let [.., payload, metadata] = self.ends;
        self.part(payload, metadata)
    }
    /// Id of the network.
    pub fn network(&self) -> &str {
        let [.., metadata] = self.ends;
        self.texts.get(metadata as usize..).unwrap_or_default()
    }

    /// The fields again, for building a changed copy.
    pub fn parts(&self) -> EventParts<'_> {
        EventParts {
            id: self.id(),
            kind: self.kind(),
            source: self.source(),
            target: self.target(),
            payload: self.payload(),
            metadata: self.metadata(),
            timestamp: self.timestamp,
            network: self.network(),
            visibility: self.visibility,
        }
    }

    /// A text value of the metadata, such as `in_reply_to`.
    pub fn metadata_text(&self, key: &str) -> Option<String> {
        let raw = self.metadata();
        if !raw.contains(key) {
            return None;
        }
        let value: serde_json::Value = serde_json::from_str(raw).ok()?;
        value.get(key)?.as_str().map(str::to_owned)
    }

    /// Bytes of its texts, which is what it occupies in memory and on disk, nearly.
    pub fn weight(&self) -> usize {
        self.texts.len()
    }
}

/// Digits of a number.
fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_has_all_nine_fields_and_tracked_adds_two_marks() {
        let parts = EventParts {
            id: "e1",
            kind: "a.b",
            source: "agent:a",
            target: "resource/file/a\"b.md",
            payload: r#"{"n": 1.0}"#,
            metadata: r#"{"k":1}"#,
            timestamp: 7,
            network: "n1",
            visibility: Visibility::Direct,
        };
        let event = Event::new(3, &parts);
        assert_eq!(
            event.json(),
            r#"{"id":"e1","type":"a.b","source":"agent:a","target":"resource/file/a\"b.md","payload":{"n": 1.0},"metadata":{"k":1},"timestamp":7,"network":"n1","visibility":"direct"}"#
        );
        assert_eq!(event.target(), "resource/file/a\"b.md");
        assert!(event.json_as(Some(1)).contains(r#""metadata":{"seq":3,"attempt":1,"k":1}"#));
        let empty = Event::new(3, &EventParts { metadata: "{}", ..parts });
        assert!(empty.json_as(Some(2)).contains(r#""metadata":{"seq":3,"attempt":2},"#));
        assert_eq!(Event::new(3, &event.parts()), event);
        for (metadata, seq, attempt) in
            [("{}", 0, 1), ("{ }", 9, 10), (r#"{"a":1}"#, 10, 99), (r#"{"a":1}"#, u64::MAX, 1)]
        {
            let event = Event::new(seq, &EventParts { metadata, ..parts });
            assert_eq!(event.json_len_as(Some(attempt)), event.json_as(Some(attempt)).len(), "{metadata} {seq}");
        }
    }

    proptest! {
        #[test]
        fn lengths_are_those_of_what_is_written(
            target: String, metadata in r#"\{ ?("a":"é")?\}"#, seq: u64, timestamp: u64, attempt: u32
        ) {
            let parts = EventParts {
                id: "e1", kind: "a.b", source: "agent:a", target: &target, payload: "{}", metadata: &metadata, timestamp,
                network: "n1", visibility: Visibility::ModOnly,
            };
            let event = Event::new(seq, &parts);
            prop_assert_eq!(event.json_len(), event.json().len());
            prop_assert_eq!(event.json_len_as(Some(attempt)), event.json_as(Some(attempt)).len());
            let (mut plain, mut tracked) = (Vec::new(), Vec::new());
            event.push_json(None, &mut plain);
            event.push_json(Some(attempt), &mut tracked);
            prop_assert_eq!((plain, tracked), (event.json().into_bytes(), event.json_as(Some(attempt)).into_bytes()));
            let written: serde_json::Value = serde_json::from_str(&event.json()).unwrap();
            prop_assert_eq!(written["target"].as_str(), Some(target.as_str()));
            let (lengths, texts) = event.texts();
            prop_assert_eq!(Event::from_texts((seq, timestamp, parts.visibility), lengths, texts, "n1"), Some(event.clone()));
        }
    }
}
