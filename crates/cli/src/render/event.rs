//! Events for people: time, id, who to whom, and what was said.

use super::{local_time, safe, safe_line};
use crate::out::Paint;
use jiff::tz::TimeZone;
use rialto_client::Event;
use serde_json::Value;

const PAYLOAD_CHARS_MAX: usize = 400;

/// One event. The first line has the time and the id; further lines of a text are indented below it.
pub(crate) fn line(event: &Event, zone: &TimeZone, paint: Paint) -> String {
    let time = local_time(event.timestamp, zone);
    let head = paint.dim(&format!("{time}  {}", safe_line(&event.id)));
    let who = paint.bold(&safe_line(&event.source));
    let whom = safe_line(&event.target);
    let about = about(event);
    let what = what(event);
    let mut lines = what.lines();
    let mut out = format!("{head}  {who} → {whom}{about}: {}", lines.next().unwrap_or_default());
    for more in lines {
        out.push_str("\n    ");
        out.push_str(more);
    }
    out
}

/// Several events, one below the other.
pub(crate) fn lines(events: &[Event], zone: &TimeZone, paint: Paint) -> String {
    events.iter().map(|event| line(event, zone, paint) + "\n").collect()
}

fn about(event: &Event) -> String {
    let mut parts = Vec::new();
    if let Some(thread) = event.metadata_text("thread") {
        parts.push(format!("thread {}", safe_line(thread)));
    }
    if let Some(id) = event.in_reply_to() {
        parts.push(format!("re {}", safe_line(id)));
    }
    if event.attempt().is_some_and(|attempt| attempt > 1) {
        parts.push("again".to_owned());
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn what(event: &Event) -> String {
    let payload = event.payload_value();
    let content = payload.get("content").and_then(Value::as_str);
    match content {
        Some(content) if event.kind == "workspace.message.posted" => safe(content),
        Some(_) | None => {
            let raw = safe_line(event.payload.get());
            let short: String = raw.chars().take(PAYLOAD_CHARS_MAX).collect();
            let cut = if short.len() < raw.len() { "…" } else { "" };
            // A redacted payload is an object of blanks.
            let bare = payload.as_object().is_some_and(serde_json::Map::is_empty);
            let payload = if bare { String::new() } else { format!(" {short}{cut}") };
            format!("{}{payload}", safe_line(&event.kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(json: &str, expected: Expect) {
        let event: Event = serde_json::from_str(json).unwrap();
        expected.assert_eq(&line(&event, &TimeZone::UTC, Paint(false)));
    }

    #[test]
    fn a_message() {
        check(
            r#"{"id":"01K0","type":"workspace.message.posted","source":"human:ana","target":"channel/general","payload":{"content":"hello\nworld"},"metadata":{"thread":"t1","in_reply_to":"e1","attempt":2},"timestamp":1767225600000}"#,
            expect![[r#"
                2026-01-01 00:00:00  01K0  human:ana → channel/general (thread t1, re e1, again): hello
                    world"#]],
        );
    }

    #[test]
    fn any_other_event() {
        check(
            r#"{"id":"e2","type":"myapp.task.assigned","source":"agent:a","target":"agent:b","payload":{"n": 1},"timestamp":1767225600000}"#,
            expect![[r#"2026-01-01 00:00:00  e2  agent:a → agent:b: myapp.task.assigned {"n": 1}"#]],
        );
        check(
            r#"{"id":"e3","type":"a.b","source":"agent:a","target":"core","payload":{},"timestamp":0}"#,
            expect!["1970-01-01 00:00:00  e3  agent:a → core: a.b"],
        );
    }

    #[test]
    fn long_payloads_are_cut_and_hostile_ones_shown() {
        let long = format!(
            r#"{{"id":"e","type":"a.b","source":"agent:a","target":"core","payload":{{"x":"{}"}}}}"#,
            "é".repeat(1000)
        );
        let event: Event = serde_json::from_str(&long).unwrap();
        assert!(what(&event).ends_with('…'));
        let hostile = r#"{"id":"e","type":"workspace.message.posted","source":"agent:a","target":"core","payload":{"content":"\u001b[2J"}}"#;
        let event: Event = serde_json::from_str(hostile).unwrap();
        assert!(!line(&event, &TimeZone::UTC, Paint(false)).contains('\x1b'));
    }
}
