//! Events: what parses is within its bounds, and written as an event it parses to the same.

use rialto_model::{Envelope, Event, EventParts, Visibility, limits};
use serde_json::Value;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let envelope = match Envelope::parse(text) {
        Ok(envelope) => envelope,
        Err(unreadable) => {
            // A refusal can be told to whoever sent it.
            let told = unreadable.fault.payload(unreadable.id.as_deref()).to_string();
            assert!(told.len() < 64 << 10, "a refusal of {} bytes", told.len());
            return;
        }
    };
    assert!(text.len() <= limits::EVENT_BYTES_MAX && envelope.payload.len() <= text.len());
    assert!(envelope.metadata.len() <= text.len() && envelope.received_len == text.len());
    for json in [envelope.payload.as_ref(), envelope.metadata] {
        let value: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{json:?}: {e}"));
        assert!(value.is_object(), "{value}");
    }
    let parts = EventParts {
        id: envelope.id.as_deref().unwrap_or("some-id"),
        kind: &envelope.kind,
        source: envelope.source.as_deref().unwrap_or("agent:a"),
        target: &envelope.target,
        payload: &envelope.payload,
        metadata: envelope.metadata,
        timestamp: 1_767_225_600_000,
        network: "a1b2c3d4",
        visibility: envelope.visibility.unwrap_or(Visibility::Direct),
    };
    let event = Event::new(7, &parts);
    let written = Envelope::parse(event.json()).unwrap_or_else(|e| panic!("{}: {e:?}", event.json()));
    assert_eq!((written.id.as_deref(), &written.kind), (Some(event.id()), &envelope.kind));
    assert_eq!((written.target.as_ref(), event.target()), (envelope.target.as_ref(), envelope.target.as_ref()));
    let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    assert_eq!(value(&written.payload), value(&envelope.payload));
    assert_eq!(written.visibility, Some(parts.visibility));
    let tracked: Value = value(&event.tracked_json(3));
    assert_eq!((&tracked["metadata"]["seq"], &tracked["metadata"]["attempt"]), (&7.into(), &3.into()));
}
