//! An event id that is taken: the same event again, or another under its id (OpenAgents sheet, section 4.2).

use crate::channels;
use crate::input::{Accepted, Emit};
use crate::invites;
use crate::record::EventRecord;
use crate::state::State;
use crate::visibility;
use crate::work;
use rialto_model::address::Address;
use rialto_model::metadata::Metadata;
use rialto_model::{Envelope, ErrorCode, EventType, Fault, Visibility, json};
use std::sync::Arc;

/// The id is taken: by the same event (the first answer again) or by another (a conflict).
pub(crate) fn duplicate(
    state: &State,
    input: &Emit<'_>,
    address: &str,
    metadata: &Metadata<'_>,
    record: &Arc<EventRecord>,
) -> Result<Accepted, Fault> {
    let first = &record.event;
    let conflict = || {
        Fault::new(
            ErrorCode::IdConflict,
            format!("id {} was used for another event: give this one another id, or none", first.id()),
        )
        .field("id")
    };
    if !same_sender(state, record, address) {
        return Err(conflict());
    }
    // Its sender may have been renamed since.
    let address = first.source();
    if record.received != Some(input.received) {
        let target = Address::parse_in(&input.envelope.target, &state.network).map_err(|_| conflict())?;
        let visibility = visibility::checked(
            visibility::Reach::of(&target),
            &target,
            input.envelope.event_type(),
            input.envelope.visibility,
        )?;
        if let Some(sent) = record.more.as_ref().and_then(|more| more.sent_body) {
            let again = sent_body(input.envelope, address, target.as_str(), metadata, visibility)?;
            return if sent == again { Ok(first_answer(state, record)) } else { Err(conflict()) };
        }
        // Keys that mod/enrichment has put into the stored event and this copy does not have.
        let enriched: Vec<&str> = enriched_keys(state).into_iter().filter(|k| metadata.get(k).is_none()).collect();
        let again = body_hash(
            &input.envelope.kind,
            address,
            target.as_str(),
            &input.envelope.payload,
            metadata.entries(),
            visibility,
            &enriched,
        )?;
        let stored = Metadata::parse(first.metadata())?;
        let original_target = if is_channel_act(first.event_type()) { "core" } else { first.target() };
        let original_visibility = if is_channel_act(first.event_type()) { visibility } else { first.visibility };
        let before = body_hash(
            first.kind(),
            first.source(),
            original_target,
            first.payload(),
            stored.entries(),
            original_visibility,
            &enriched,
        )?;
        if again != before {
            return Err(conflict());
        }
    }
    Ok(first_answer(state, record))
}

/// Whether a member sent the event. Members are compared, not names: an address may belong to another by now. The events
/// of a removed member are those of whoever has its name, or had it last before a rename.
fn same_sender(state: &State, record: &EventRecord, address: &str) -> bool {
    let (Some(source), Some(sender)) = (record.route.source, state.member_id(address)) else { return false };
    let removed = || state.member(source).is_none_or(|m| m.removed);
    sender == source || removed() && state.known_as(record.event.source()) == Some(sender)
}

/// What the sender was told the first time.
fn first_answer(state: &State, record: &Arc<EventRecord>) -> Accepted {
    let first = &record.event;
    Accepted {
        seq: Some(first.seq),
        duplicate: true,
        result: channels::result_again(state, first.event_type(), first.target())
            .or_else(|| work::result_again(state, record))
            .or_else(|| invites::result_again(record))
            .map(Box::new),
        event: Some(record.clone()),
        ..Accepted::default()
    }
}

/// What an event is known by again where its stored form differs from what was sent: the start of its body's hash.
pub(crate) fn sent_body(
    envelope: &Envelope<'_>,
    address: &str,
    target: &str,
    metadata: &Metadata<'_>,
    visibility: Visibility,
) -> Result<[u8; 16], Fault> {
    let hash = body_hash(&envelope.kind, address, target, &envelope.payload, metadata.entries(), visibility, &[])?;
    let mut start = [0; 16];
    start.copy_from_slice(hash.get(..16).unwrap_or_default());
    Ok(start)
}

fn is_channel_act(kind: EventType<'_>) -> bool {
    use EventType::*;
    matches!(kind, ChannelCreate | ChannelDelete | ChannelJoin | ChannelLeave)
}

fn enriched_keys(state: &State) -> Vec<&str> {
    let config = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "enrichment");
    config
        .and_then(|m| m.config.get("static"))
        .and_then(|v| v.as_object())
        .map(|m| m.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

/// SHA-256 of the canonical body (sheet section 4.2): sorted keys, compact, numbers as received, before mods.
fn body_hash<'m>(
    kind: &str,
    source: &str,
    target: &str,
    payload: &str,
    metadata: impl Iterator<Item = (&'m str, &'m str)>,
    visibility: Visibility,
    added_by_mods: &[&str],
) -> Result<[u8; 32], Fault> {
    use sha2::Digest;
    let ignored = ["session_id", "traceparent", "tracestate", "client_timestamp"];
    let mut meta = String::from("{");
    for (key, value) in metadata.filter(|(k, _)| !ignored.contains(k) && !added_by_mods.contains(k)) {
        if meta.len() > 1 {
            meta.push(',');
        }
        json::push_string(&mut meta, key);
        meta.push(':');
        meta.push_str(value);
    }
    meta.push('}');
    let mut text = String::from("{\"metadata\":");
    json::canonical(&meta, &mut text)?;
    text.push_str(",\"payload\":");
    json::canonical(payload, &mut text)?;
    for (name, value) in [("source", source), ("target", target), ("type", kind), ("visibility", visibility.as_str())] {
        text.push_str(",\"");
        text.push_str(name);
        text.push_str("\":");
        json::push_string(&mut text, value);
    }
    text.push('}');
    Ok(sha2::Sha256::digest(text.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(payload: &str, metadata: &[(&str, &str)]) -> String {
        let hash = body_hash(
            "workspace.message.posted",
            "agent:alice",
            "channel/general",
            payload,
            metadata.iter().copied(),
            Visibility::Channel,
            &[],
        );
        hash.unwrap().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_body_hash_of_the_sheet() {
        let vector = "a6e5a58feeb4d55dc717d448eae2f1e5d0f99656968bb715ee444fc9553e761d";
        assert_eq!(hash(r#"{"content":"hi"}"#, &[]), vector);
        assert_eq!(hash(r#"{ "content" : "\u0068i" }"#, &[("session_id", "\"x\""), ("tracestate", "1")]), vector);
        assert_ne!(hash(r#"{"content":"hi","n":1}"#, &[]), vector);
        assert_ne!(hash(r#"{"content":"hi"}"#, &[("k", "1")]), vector);
    }

    #[test]
    fn numbers_are_hashed_as_received() {
        assert_ne!(hash(r#"{"n":1}"#, &[]), hash(r#"{"n":1.0}"#, &[]));
        assert_eq!(hash(r#"{"a":1,"b":2}"#, &[]), hash(r#"{"b":2,"a":1}"#, &[]));
    }
}
