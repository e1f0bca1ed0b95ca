//! Following events over server-sent events (sheet section 12.6), over any number of connections.

use crate::backoff::Backoff;
use crate::error::{ApiError, ClientError};
use crate::event::Event;
use crate::http::{Body, Http};
use crate::query::EventQuery;
use bytes::BytesMut;
use hyper::Method;
use std::time::Duration;

/// A field line is at most this long: one event and its name.
const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The node sends a comment every 15 s; silence for this long means that it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A live view of a network's events. Reconnects by itself, after the last event seen.
#[derive(Debug)]
pub struct Tail {
    http: Http,
    query: EventQuery,
    body: Option<Body>,
    parser: Parser,
    ready: std::collections::VecDeque<Message>,
    last_id: Option<String>,
    backoff: Backoff,
    /// Whether any connection was ever made: the first failure is the caller's to see.
    opened: bool,
}

impl Tail {
    /// Follows what `query` selects; nothing is connected before [`Tail::next`].
    pub fn new(http: Http, mut query: EventQuery) -> Tail {
        let last_id = query.after.take();
        Tail {
            http,
            query,
            body: None,
            parser: Parser::default(),
            ready: std::collections::VecDeque::new(),
            last_id,
            backoff: Backoff::default(),
            opened: false,
        }
    }

    /// The same with other waits between reconnects.
    pub fn with_backoff(mut self, backoff: Backoff) -> Tail {
        self.backoff = backoff;
        self
    }

    /// Connects now, so that nothing sent after this call is missed and a refusal shows at once.
    pub async fn open(&mut self) -> Result<(), ClientError> {
        if self.body.is_none() {
            self.connect().await?;
        }
        Ok(())
    }

    /// The last event seen: where another view may go on.
    pub fn cursor(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// The next event. An error is final: the node refused, or ended the view for good.
    pub async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            while let Some(message) = self.ready.pop_front() {
                if let Some(event) = self.take(message)? {
                    return Ok(event);
                }
            }
            if self.body.is_none() {
                self.reconnect().await?;
            }
            self.read().await;
        }
    }

    fn take(&mut self, message: Message) -> Result<Option<Event>, ClientError> {
        if message.name == "control" {
            let error = ApiError::from_payload(&message.data);
            return match error {
                Some(error) if error.retryable => {
                    self.body = None; // the node goes away and comes back
                    self.ready.clear();
                    Ok(None)
                }
                Some(error) => Err(error.into()),
                None => Err(ClientError::Closed("the node ended the stream".to_owned())),
            };
        }
        if message.data.is_empty() {
            return Ok(None);
        }
        let event: Event = serde_json::from_str(&message.data)
            .map_err(|e| ClientError::Protocol(format!("an event cannot be read: {e}")))?;
        if let Some(id) = message.id {
            self.last_id = Some(id);
        }
        Ok(Some(event))
    }

    /// Reads once. A lost connection is forgotten, so that the next turn makes a new one.
    async fn read(&mut self) {
        let Some(body) = &mut self.body else { return };
        if let Ok(Ok(Some(bytes))) = tokio::time::timeout(SILENCE_MAX, body.chunk()).await
            && self.parser.push(&bytes, &mut self.ready).is_ok()
        {
            if let Some(retry) = self.parser.retry.take() {
                self.backoff = Backoff::new(retry, self.backoff.cap.max(retry));
            }
            return;
        }
        self.body = None;
    }

    async fn reconnect(&mut self) -> Result<(), ClientError> {
        loop {
            if self.opened {
                tokio::time::sleep(self.backoff.next_wait()).await;
            }
            match self.connect().await {
                Ok(()) => return Ok(()),
                Err(error) if self.opened && error.retryable() => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let path = format!("events/stream{}", self.query.to_query());
        let url = self.http.endpoint().call(self.http.network(), &path);
        let mut headers = vec![("accept", "text/event-stream".to_owned())];
        if let Some(id) = &self.last_id {
            headers.push(("last-event-id", id.clone()));
        }
        let body = self.http.open(Method::GET, url, None, &headers).await?;
        self.body = Some(body);
        self.parser = Parser::default();
        self.opened = true;
        self.backoff.reset();
        Ok(())
    }
}

/// One dispatched message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Message {
    id: Option<String>,
    name: String,
    data: String,
}

/// Bytes to messages, in pieces of any size.
#[derive(Debug, Default)]
struct Parser {
    rest: BytesMut,
    message: Message,
    /// A `retry:` not yet taken by the owner.
    retry: Option<Duration>,
}

/// A line over the limit: the connection cannot be trusted any further.
#[derive(Debug)]
struct LineTooLong;

impl Parser {
    fn push(&mut self, bytes: &[u8], out: &mut std::collections::VecDeque<Message>) -> Result<(), LineTooLong> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line = self.rest.split_to(end + 1);
            let line = String::from_utf8_lossy(&line);
            self.line(line.trim_end_matches(['\r', '\n']), out);
        }
        if self.rest.len() > LINE_BYTES_MAX {
            return Err(LineTooLong);
        }
        Ok(())
    }

    fn line(&mut self, line: &str, out: &mut std::collections::VecDeque<Message>) {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            if message != Message::default() {
                out.push_back(message);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.message.name),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            "retry" => self.retry = value.parse().ok().map(Duration::from_millis),
            _ => {} // comments (an empty field name) and fields we do not know
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::HttpServer;
    use rialto_model::ErrorCode;

    fn parse(text: &str, piece: usize) -> Vec<Message> {
        let mut parser = Parser::default();
        let mut out = std::collections::VecDeque::new();
        for bytes in text.as_bytes().chunks(piece) {
            parser.push(bytes, &mut out).unwrap();
        }
        out.into()
    }

    #[test]
    fn pieces_of_any_size_give_the_same_messages() {
        let text = "retry: 2000\n\n: keepalive\n\nid: e1\r\nevent: message\r\ndata: {\"ü\":1}\r\n\r\ndata:a\ndata: b\n\nevent: control\ndata: {}\n\n";
        let whole = parse(text, usize::MAX);
        assert_eq!(whole.len(), 3);
        assert_eq!((whole[0].id.as_deref(), whole[0].data.as_str()), (Some("e1"), "{\"ü\":1}"));
        assert_eq!(whole[1].data, "a\nb");
        for piece in 1..20 {
            assert_eq!(parse(text, piece), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut parser = Parser::default();
        let mut out = std::collections::VecDeque::new();
        let big = vec![b'x'; LINE_BYTES_MAX + 1];
        assert!(parser.push(&big, &mut out).is_err());
    }

    fn event(id: &str) -> String {
        format!(
            "id: {id}\nevent: message\ndata: {{\"id\":\"{id}\",\"type\":\"a.b\",\"source\":\"agent:a\",\"target\":\"core\",\"payload\":{{}}}}\n\n"
        )
    }

    #[tokio::test]
    async fn a_lost_connection_resumes_after_the_last_event() {
        let first = format!(
            "retry: 1\n\n{}{}event: control\ndata: {{\"code\":\"shutting_down\"}}\n\nid: half\nda",
            event("e1"),
            event("e2")
        );
        let second = format!("{}event: control\ndata: {{\"code\":\"session_revoked\"}}\n\n", event("e3"));
        let server = HttpServer::answering(vec![(200, first), (200, second)]).await;
        let query = EventQuery { after: Some("e0".into()), ..EventQuery::log() };
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(5));
        let mut tail = Tail::new(Http::new(&server.url).unwrap(), query).with_backoff(backoff);
        for id in ["e1", "e2", "e3"] {
            assert_eq!(tail.next().await.unwrap().id, id);
        }
        assert!(tail.next().await.unwrap_err().is(ErrorCode::SessionRevoked));
        let requests = server.requests().await;
        assert!(requests[0].starts_with("GET /v1/events/stream?view=log&ack=false "), "{}", requests[0]);
        assert!(requests[0].contains("last-event-id: e0\r\n"));
        assert!(requests[1].contains("last-event-id: e2\r\n"));
    }

    #[tokio::test]
    async fn an_unknown_cursor_is_final() {
        let body = r#"{"code":410,"message":"cursor_unknown: purged","data":null}"#.to_owned();
        let server = HttpServer::answering(vec![(410, body)]).await;
        let mut tail = Tail::new(Http::new(&server.url).unwrap(), EventQuery::log());
        assert!(tail.next().await.unwrap_err().is(ErrorCode::CursorUnknown));
    }
}
