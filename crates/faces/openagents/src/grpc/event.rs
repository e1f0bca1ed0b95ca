//! `rialto.v1.Event` with texts that stay in the block they were received in.

use bytes::Bytes;
use rialto_model::Event as Kept;

/// An event as a message. On the wire a string and bytes do not differ: whether a text is one is found out with all else
/// of the event, by who judges it.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
#[allow(missing_docs, reason = "the fields of the message, by their names")]
pub struct Event {
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub r#type: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub source: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub target: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub payload: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub metadata: Bytes,
    #[prost(int64, tag = "7")]
    pub timestamp: i64,
    #[prost(bytes = "bytes", tag = "8")]
    pub network: Bytes,
    #[prost(bytes = "bytes", tag = "9")]
    pub visibility: Bytes,
}

impl Event {
    /// The message of an event, with delivery marks if it is the given attempt.
    pub(super) fn of(event: &Kept, attempt: Option<u32>) -> Event {
        let (lengths, texts) = event.texts();
        let mut block = Bytes::copy_from_slice(texts.as_bytes());
        let [id, r#type, source, target, payload, mut metadata] = lengths.map(|len| block.split_to(len as usize));
        if let Some(attempt) = attempt {
            metadata = event.tracked_metadata(attempt).into();
        }
        Event {
            id,
            r#type,
            source,
            target,
            payload,
            metadata,
            timestamp: i64::try_from(event.timestamp).unwrap_or(i64::MAX),
            network: Bytes::copy_from_slice(event.network().as_bytes()),
            visibility: Bytes::from_static(event.visibility.as_str().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use rialto_model::{EventParts, Visibility};

    fn parts() -> EventParts<'static> {
        EventParts {
            id: "e1",
            kind: "a.b",
            source: "agent:a",
            target: "resource/file/a\"b.md",
            payload: r#"{"n": 1.0}"#,
            metadata: r#"{"k":1}"#,
            timestamp: 7,
            network: "n1",
            visibility: Visibility::Direct,
        }
    }

    #[test]
    fn the_wire_is_that_of_the_protocol_file() {
        let text = |number: u8, value: &str| [&[number << 3 | 2, value.len() as u8], value.as_bytes()].concat();
        let p = parts();
        let mut wire = Vec::new();
        for (number, value) in (1..).zip([p.id, p.kind, p.source, p.target, p.payload, p.metadata]) {
            wire.extend(text(number, value));
        }
        wire.extend([7 << 3, 7]);
        wire.extend([text(8, "n1"), text(9, "direct")].concat());
        let message = Event::of(&Kept::new(3, &parts()), None);
        assert_eq!(message.encode_to_vec(), wire);
        assert_eq!(Event::decode(&wire[..]).unwrap(), message);
        let marked = Event::of(&Kept::new(3, &parts()), Some(2));
        assert_eq!(&marked.metadata[..], br#"{"seq":3,"attempt":2,"k":1}"#);
        assert_eq!(Event { metadata: message.metadata.clone(), ..marked }, message);
    }
}
