//! Server-sent events as far as no protocol is concerned: how a stream begins, what it says while nothing happens, how it
//! is given up, and what the reader saw last.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_model::Fault;
use std::fmt::{Display, Write as _};
use std::time::Duration;
use tokio::sync::mpsc;

/// A comment is sent after this long without an event.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
/// Chunks waiting for a slow reader; it is then parked on its cursor.
pub const CHUNKS: usize = 1;
/// How a stream begins: when to come back after it was lost.
pub const RETRY: &str = "retry: 2000\n\n";
/// The comment that says that a stream lives.
pub const SILENCE: &str = ": keepalive\n\n";

/// The `Last-Event-ID` of a request: what the reader saw last, if it was here before.
pub fn last_event_id(headers: &HeaderMap) -> Option<String> {
    headers.get("last-event-id").and_then(|v| v.to_str().ok()).filter(|v| !v.is_empty()).map(str::to_owned)
}

/// Appends an event. Its data is one line.
pub fn push_event(chunk: &mut String, id: Option<&dyn Display>, name: &str, data: &dyn Display) {
    // Writing to a string cannot fail.
    if let Some(id) = id {
        let _ = writeln!(chunk, "id: {id}");
    }
    let _ = write!(chunk, "event: {name}\ndata: {data}\n\n");
}

/// One event as a chunk.
pub fn event(id: Option<&dyn Display>, name: &str, data: &dyn Display) -> String {
    let mut chunk = String::new();
    push_event(&mut chunk, id, name, data);
    chunk
}

/// The last chunk of a stream that is given up.
pub fn control(fault: &Fault) -> String {
    let data = serde_json::json!({ "code": fault.wire_code(), "message": fault.message });
    event(None, "control", &data)
}

/// Chunks as a stream of server-sent events.
pub fn response(rx: mpsc::Receiver<Bytes>) -> Response {
    let body = Body::from_stream(futures_util::stream::unfold(rx, |mut rx| async move {
        rx.recv().await.map(|chunk| (Ok::<Bytes, std::convert::Infallible>(chunk), rx))
    }));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn events_as_readers_take_them_apart() {
        let mut chunk = event(Some(&"e1"), "message", &"{}");
        push_event(&mut chunk, None, "control", &7);
        assert_eq!(chunk, "id: e1\nevent: message\ndata: {}\n\nevent: control\ndata: 7\n\n");
    }

    #[test]
    fn what_was_seen_last() {
        let mut headers = HeaderMap::new();
        assert_eq!(last_event_id(&headers), None);
        headers.insert("last-event-id", HeaderValue::from_static(""));
        assert_eq!(last_event_id(&headers), None, "nothing was seen yet");
        headers.insert("last-event-id", HeaderValue::from_static("e7"));
        assert_eq!(last_event_id(&headers).as_deref(), Some("e7"));
    }
}
