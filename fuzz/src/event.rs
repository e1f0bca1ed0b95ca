//! Events: what parses is within its bounds, and written as an event it parses to the same.

use rialto_model::event::{Beginning, TEXT_MEMBERS};
use rialto_model::metadata::Metadata;
use rialto_model::{Address, Envelope, Event, EventParts, Visibility, limits};
use serde_json::Value;
use serde_json::value::RawValue;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut beginning = Beginning::default();
    let first = Envelope::parse_after(text, &mut beginning);
    // An event reads the same when one before began like it.
    assert_eq!(first, Envelope::parse_after(text, &mut beginning), "{text}");
    let envelope = match first {
        Ok(envelope) => envelope,
        Err(unreadable) => {
            // A refusal can be told to whoever sent it.
            let told = unreadable.fault.payload(unreadable.id.as_deref()).to_string();
            assert!(told.len() < 64 << 10, "a refusal of {} bytes", told.len());
            return;
        }
    };
    assert!(text.len() <= limits::EVENT_BYTES_MAX && envelope.payload.len() <= text.len());
    assert!(envelope.metadata.len() <= text.len());
    // Numbers of any size are kept as they were sent; what cannot be read as a value is not searched either.
    let payload: Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
    let holds_text = TEXT_MEMBERS.iter().any(|name| payload.get(name).is_some());
    assert!(envelope.may_hold_text || !holds_text, "{text}");
    // What metadata may be is judged by those who use it.
    let Ok(metadata) = Metadata::parse(envelope.metadata) else { return };
    let metadata = metadata.to_json();
    for json in [envelope.payload.as_ref(), metadata.as_ref()] {
        let raw: &RawValue = serde_json::from_str(json).unwrap_or_else(|e| panic!("{json:?}: {e}"));
        assert!(raw.get().starts_with('{'), "{json}");
    }
    // The network writes a source only once it is known to be a principal's address.
    let source = envelope.source.as_deref().and_then(|source| Address::parse(source).ok());
    let source = source.filter(Address::is_principal);
    let parts = EventParts {
        id: envelope.id.as_deref().unwrap_or("some-id"),
        kind: &envelope.kind,
        source: source.as_ref().map_or("agent:a", Address::as_str),
        target: &envelope.target,
        payload: &envelope.payload,
        metadata: &metadata,
        timestamp: 1_767_225_600_000,
        network: "a1b2c3d4",
        visibility: envelope.visibility.unwrap_or(Visibility::Direct),
    };
    let event = Event::new(7, &parts);
    let json = event.json();
    let written = Envelope::parse(&json).unwrap_or_else(|e| panic!("{json}: {e:?}"));
    assert_eq!((written.id.as_deref(), &written.kind), (Some(event.id()), &envelope.kind));
    assert_eq!((written.target.as_ref(), event.target()), (envelope.target.as_ref(), envelope.target.as_ref()));
    // Numbers beyond what a float holds are kept as they are written; they have no value to compare.
    let value = |json: &str| serde_json::from_str::<Value>(json).ok();
    assert_eq!(value(&written.payload), value(&envelope.payload));
    assert_eq!(written.visibility, Some(parts.visibility));
    if let Some(tracked) = value(&event.json_as(Some(3))) {
        assert_eq!((&tracked["metadata"]["seq"], &tracked["metadata"]["attempt"]), (&7.into(), &3.into()));
    }
}
