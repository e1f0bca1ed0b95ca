//! A reader of server-sent events.

use super::http::{Answer, Http};
use super::soon;
use serde_json::Value;
use std::net::SocketAddr;

/// An open stream.
#[derive(Debug)]
pub struct Sse {
    http: Http,
    buffer: String,
}

/// One event of the stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SseEvent {
    /// `id:`, if there was one.
    pub id: Option<String>,
    /// `event:`.
    pub event: String,
    /// `data:` as JSON.
    pub data: Value,
    /// `data:` as it came.
    pub text: String,
}

impl Sse {
    /// Opens a stream; a refusal comes back as the answer.
    pub async fn open(address: SocketAddr, path: &str, bearer: &str, last: Option<&str>) -> Result<Sse, Box<Answer>> {
        soon("the stream's head", Sse::try_open(address, path, bearer, last)).await.unwrap()
    }

    /// Opens a stream of a node that may go away meanwhile.
    pub async fn try_open(
        address: SocketAddr,
        path: &str,
        bearer: &str,
        last: Option<&str>,
    ) -> std::io::Result<Result<Sse, Box<Answer>>> {
        let mut http = Http::new(address);
        let mut request = http.request("GET", path).bearer(bearer).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        request.try_begin(None).await?;
        let (status, headers) = http.answer_head().await?;
        if status == 200 {
            return Ok(Ok(Sse { http, buffer: String::new() }));
        }
        let length = headers.iter().find(|(n, _)| n == "content-length").and_then(|(_, v)| v.parse().ok()).unwrap_or(0);
        let body = http.exactly(length).await?;
        Ok(Err(Box::new(Answer { status, headers, body })))
    }

    /// The next event; comments and `retry:` are passed over. None when the stream has ended.
    pub async fn next(&mut self) -> Option<SseEvent> {
        soon("an event of the stream", self.try_next()).await
    }

    /// The next event, however long it takes.
    pub async fn try_next(&mut self) -> Option<SseEvent> {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let event = parse(block);
                self.buffer = rest.to_owned();
                if let Some(event) = event {
                    return Some(event);
                }
            }
            let chunk = self.http.chunk().await.ok()??;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn parse(block: &str) -> Option<SseEvent> {
    let mut out = SseEvent::default();
    let mut data = None;
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => out.id = Some(id.to_owned()),
            Some(("event", name)) => out.event = name.to_owned(),
            Some(("data", text)) => {
                data = Some(serde_json::from_str(text).unwrap());
                text.clone_into(&mut out.text);
            }
            _ => {}
        }
    }
    out.data = data?;
    Some(out)
}
