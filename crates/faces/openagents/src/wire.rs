//! Wire forms of the face: events in pages, acks and errors as events.

use axum::response::Response;
use rialto_carrier::answer::{OK_HEAD, json_text, ok_raw};
use rialto_model::json::{push_number, push_string};
use rialto_model::{Event, EventParts, Fault, Visibility};
use rialto_node::{Accepted, Answered, EventRecord, QueryResult, Searched};
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall clock in milliseconds.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// An event as a read shows it: with delivery marks where it expects an ack.
pub(crate) fn event_json(record: &EventRecord, marks: bool) -> String {
    record.event.json_as(marks.then_some(1))
}

/// Bytes that a page adds to each of its events at most: marks of the delivery, cursors.
const PAGE_EVENT_BYTES: usize = 128;

/// The page of `GET /v1/events` and `network.events.response`.
pub(crate) fn page_json(page: &QueryResult, marks: bool) -> String {
    let QueryResult { events, checks, has_more, next, searched, .. } = page;
    let shown = events.iter().map(|record| (&record.event, marks.then_some(1)));
    let asked = checks.iter().map(|check| (check.as_ref(), None));
    // Made in one piece: a text of a megabyte that grows as it goes would need three.
    let bytes: usize = shown.clone().chain(asked.clone()).map(|(event, _)| event.json_len() + PAGE_EVENT_BYTES).sum();
    let mut out = String::with_capacity(bytes + PAGE_EVENT_BYTES);
    out.push_str("{\"events\":[");
    for (i, (event, attempt)) in shown.chain(asked).enumerate() {
        if i > 0 {
            out.push(',');
        }
        event.push_json_to(attempt, &mut out);
    }
    out.push_str("],\"has_more\":");
    out.push_str(if *has_more { "true" } else { "false" });
    let ids: Vec<(u64, &str)> = events.iter().map(|r| (r.event.seq, r.event.id())).collect();
    for (name, id) in [("oldest_id", ids.iter().min()), ("newest_id", ids.iter().max())] {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        match id {
            Some((_, id)) => push_string(&mut out, id),
            None => out.push_str("null"),
        }
    }
    out.push_str(&format!(",\"next_cursor\":\"seq:{next}\""));
    if let Some(Searched { indexed_through, head }) = searched {
        out.push_str(&format!(",\"indexed_through\":{indexed_through},\"head\":{head}"));
    }
    out.push('}');
    out
}

/// What every ack says, on HTTP and on streams: position, duplicate, durability, result.
fn push_promise(out: &mut String, answered: &Answered, accepted: &Accepted) {
    if let Some(seq) = accepted.seq {
        out.push_str(",\"seq\":");
        push_number(out, seq);
    }
    out.push_str(if accepted.duplicate { ",\"duplicate\":true" } else { ",\"duplicate\":false" });
    out.push_str(",\"durability\":\"");
    out.push_str(answered.durability.as_str());
    out.push('"');
    if let Some(result) = &accepted.result {
        out.push_str(",\"result\":");
        out.push_str(&result.to_string());
    }
}

/// The answer to an accepted `POST /v1/events`: the event after mods and what the ack says.
pub(crate) fn accepted(answered: &Answered, response: Option<&str>) -> Response {
    let Ok(accepted) = &answered.result else { return ok_raw("null") };
    let event = accepted.event.as_ref().map(|record| &record.event);
    let size = event.map_or(0, Event::json_len) + response.map_or(0, str::len) + 256;
    let mut out = String::with_capacity(size);
    out.push_str(OK_HEAD);
    match event {
        Some(event) => {
            event.push_json_to(None, &mut out);
            // Its closing brace: what the ack says goes inside.
            out.pop();
        }
        None => {
            out.push_str("{\"id\":");
            push_string(&mut out, accepted.event_id());
        }
    }
    push_promise(&mut out, answered, accepted);
    if let Some(response) = response {
        out.push_str(",\"response\":");
        out.push_str(response);
    }
    out.push_str("}}");
    json_text(out)
}

/// An event of the server to one client, never stored.
pub(crate) fn server_event(kind: &str, target: &str, network: &str, payload: &str, in_reply_to: Option<&str>) -> Event {
    let mut metadata = String::from("{");
    if let Some(id) = in_reply_to {
        metadata.push_str("\"in_reply_to\":");
        push_string(&mut metadata, id);
    }
    metadata.push('}');
    let now = now_ms();
    let parts = EventParts {
        id: &answer_id(now),
        kind,
        source: "core",
        target,
        payload,
        metadata: &metadata,
        timestamp: now,
        network,
        visibility: Visibility::Direct,
    };
    Event::new(0, &parts)
}

/// Ids of answers: unique in this process; nobody looks them up.
fn answer_id(now: u64) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let seq = (1 << 63) | (1 << 62) | NEXT.fetch_add(1, Ordering::Relaxed);
    rialto_model::EventId { at: now, seq, salt: 0 }.to_text()
}

/// The payload of one `network.event.ack`.
pub(crate) fn ack_payload(answered: &Answered) -> String {
    let mut out = String::from("{\"status\":\"accepted\",\"event_id\":");
    push_string(&mut out, answered.event_id().unwrap_or_default());
    if let Ok(accepted) = &answered.result {
        push_promise(&mut out, answered, accepted);
    }
    out.push('}');
    out
}

/// A `network.event.error`.
pub(crate) fn error_event(fault: &Fault, event_id: Option<&str>, target: &str, network: &str) -> Event {
    server_event("network.event.error", target, network, &fault.payload(event_id).to_string(), event_id)
}
