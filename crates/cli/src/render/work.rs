//! Events of a work unit for people: time, state, who, and what was said or handed over.

use super::{bytes, local_time, safe, safe_line};
use crate::out::Paint;
use jiff::tz::TimeZone;
use rialto_client::{Event, WorkEvent};
use serde_json::Value;

const TEXT_CHARS_MAX: usize = 400;

/// One event, on one line; further lines of a text are indented below it.
pub(crate) fn line(entry: &WorkEvent, zone: &TimeZone, paint: Paint) -> String {
    let event = &entry.event;
    let time = paint.dim(&local_time(event.timestamp, zone));
    let state = safe_line(entry.state.as_deref().unwrap_or("-"));
    let who = paint.bold(&safe_line(&event.source));
    let what = what(event);
    let mut lines = what.lines();
    let mut out = format!("{time}  {state:<14}  {who}: {}", lines.next().unwrap_or_default());
    for more in lines {
        out.push_str("\n    ");
        out.push_str(more);
    }
    out
}

fn what(event: &Event) -> String {
    let payload = event.payload_value();
    let mut parts = Vec::new();
    if let Some(progress) = payload.get("progress").and_then(Value::as_f64) {
        parts.push(format!("{:.0}%", progress * 100.0));
    }
    if let Some(artifact) = payload.get("artifact") {
        let name = artifact.get("name").or(artifact.get("id")).and_then(Value::as_str).unwrap_or_default();
        let size = artifact.pointer("/blob/size").and_then(Value::as_u64);
        let inline = || artifact.get("parts").map_or(0, |parts| parts.to_string().len());
        let size = size.unwrap_or_else(|| u64::try_from(inline()).unwrap_or(u64::MAX));
        let more = if payload.get("last") == Some(&Value::Bool(false)) { ", more follows" } else { "" };
        parts.push(format!("artifact {} ({}{more})", safe_line(name), bytes(size)));
    }
    let texts = ["/content", "/message/content", "/message", "/reason", "/error/message"];
    if let Some(text) = texts.iter().find_map(|at| payload.pointer(at)?.as_str()) {
        parts.push(safe(text));
    }
    if parts.is_empty() && !event.kind.starts_with("work.") {
        let raw: String = safe_line(event.payload.get()).chars().take(TEXT_CHARS_MAX).collect();
        parts.push(format!("{} {raw}", safe_line(&event.kind)));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(state: &str, kind: &str, payload: &str, expected: Expect) {
        let json = format!(
            r#"{{"state":"{state}","event":{{"id":"e","type":"{kind}","source":"agent:b","target":"agent:a","payload":{payload},"timestamp":1767225600000}}}}"#
        );
        let entry: WorkEvent = serde_json::from_str(&json).unwrap();
        expected.assert_eq(&line(&entry, &TimeZone::UTC, Paint(false)));
    }

    #[test]
    fn what_happens_to_work() {
        check(
            "submitted",
            "workspace.message.posted",
            r#"{"content":"please\nsoon"}"#,
            expect![[r#"
                2026-01-01 00:00:00  submitted       agent:b: please
                    soon"#]],
        );
        check(
            "working",
            "work.update",
            r#"{"work":"w","state":"working","progress":0.5,"message":"half"}"#,
            expect!["2026-01-01 00:00:00  working         agent:b: 50% half"],
        );
        check(
            "working",
            "work.artifact",
            r#"{"work":"w","artifact":{"id":"a","parts":[{"text":"x"}]},"last":false}"#,
            expect!["2026-01-01 00:00:00  working         agent:b: artifact a (14 B, more follows)"],
        );
        check(
            "failed",
            "work.update",
            r#"{"work":"w","state":"failed","error":{"code":"timeout","message":"nothing \u001b was heard"}}"#,
            expect!["2026-01-01 00:00:00  failed          agent:b: nothing � was heard"],
        );
        check(
            "completed",
            "my.own.type",
            r#"{"n":1}"#,
            expect![[r#"2026-01-01 00:00:00  completed       agent:b: my.own.type {"n":1}"#]],
        );
    }
}
