//! Events between protobuf and the model.

use super::pb;
use crate::stream::Frame;
use rialto_model::json::push_string_bytes;
use rialto_node::Texts;

/// JSON texts of protobuf events as they are put together; the node judges them like any other.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    block: Vec<u8>,
    ends: Vec<usize>,
}

impl Gathered {
    pub(super) fn push(&mut self, event: &pb::Event) {
        push_json(event, &mut self.block);
        self.ends.push(self.block.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Gives all of them away; room for as many is kept ready.
    pub(super) fn take(&mut self) -> Texts {
        let room = self.block.len();
        let mut texts = Texts::of(std::mem::replace(&mut self.block, Vec::with_capacity(room)).into());
        let mut start = 0;
        for end in self.ends.drain(..) {
            texts.mark(start..end);
            start = end;
        }
        texts
    }
}

/// The JSON texts of protobuf events.
pub(super) fn texts_of(events: &[pb::Event]) -> Texts {
    let mut gathered = Gathered::default();
    events.iter().for_each(|event| gathered.push(event));
    gathered.take()
}

/// Whether the bytes end with the object, list or text that they begin with; what else they are is seen with all of the event.
fn is_one_value(bytes: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        let ended = match byte {
            _ if escaped => {
                escaped = false;
                false
            }
            b'\\' if in_text => {
                escaped = true;
                false
            }
            b'"' => {
                in_text = !in_text;
                !in_text && depth == 0
            }
            _ if in_text => false,
            b'{' | b'[' => {
                depth += 1;
                false
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                depth == 0
            }
            b',' | b':' if depth == 0 => return false,
            _ => false,
        };
        if ended {
            return bytes.iter().skip(at + 1).all(u8::is_ascii_whitespace);
        }
    }
    depth == 0 && !in_text
}

/// Appends the JSON text of a protobuf event.
fn push_json(event: &pb::Event, block: &mut Vec<u8>) {
    block.extend_from_slice(b"{\"type\":");
    push_string_bytes(block, &event.r#type);
    let mut text = |name: &[u8], value: &[u8]| {
        if !value.is_empty() {
            block.extend_from_slice(name);
            push_string_bytes(block, value);
        }
    };
    text(b",\"source\":", &event.source);
    text(b",\"target\":", &event.target);
    text(b",\"network\":", &event.network);
    text(b",\"visibility\":", &event.visibility);
    if event.timestamp != 0 {
        block.extend_from_slice(format!(",\"timestamp\":{}", event.timestamp).as_bytes());
    }
    for (name, value) in [(&b",\"payload\":"[..], &event.payload), (b",\"metadata\":", &event.metadata)] {
        if !value.is_empty() {
            block.extend_from_slice(name);
            // Bytes that are more than one value would add members to the event; such an event is no JSON.
            block.extend_from_slice(if is_one_value(value) { value } else { b"not one value" });
        }
    }
    // Behind what a sender's events have in common: they begin alike.
    if !event.id.is_empty() {
        block.extend_from_slice(b",\"id\":");
        push_string_bytes(block, &event.id);
    }
    block.push(b'}');
}

/// What a frame says, as messages.
pub(super) fn events_of(frame: &Frame) -> Vec<pb::Event> {
    match frame {
        Frame::One(event, attempt) => vec![pb::Event::of(event, *attempt)],
        Frame::Signal(signal) => vec![pb::Event::of(signal.event(), None)],
        Frame::Shared(part) => {
            part.records().iter().map(|record| pb::Event::of(&record.event, part.attempt())).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn events_survive_the_way_there_and_back() {
        let event = pb::Event {
            id: "e1".into(),
            r#type: "a.b".into(),
            source: "agent:a".into(),
            target: "resource/file/a\"b.md".into(),
            payload: Bytes::from_static(br#"{"n":1.50}"#),
            metadata: Bytes::from_static(br#"{"k":"\u00e9"}"#),
            timestamp: 0,
            network: "a1b2c3d4".into(),
            visibility: "direct".into(),
        };
        let texts = texts_of(&[event.clone(), event.clone()]);
        let text = std::str::from_utf8(texts.iter().last().unwrap()).unwrap();
        let read = rialto_model::Envelope::parse(text).unwrap();
        let parts = rialto_model::EventParts {
            id: read.id.as_deref().unwrap(),
            kind: &read.kind,
            source: read.source.as_deref().unwrap(),
            target: &read.target,
            payload: &read.payload,
            metadata: read.metadata,
            timestamp: 0,
            network: read.network.as_deref().unwrap(),
            visibility: read.visibility.unwrap(),
        };
        assert_eq!(pb::Event::of(&rialto_model::Event::new(1, &parts), None), event);
    }
}
