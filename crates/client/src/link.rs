//! One WebSocket connection to a network (sheet section 12.2): text frames in and out, both at once.
//!
//! Not here: what the frames mean (`stream`) and what happens after a connection is lost.

use crate::endpoint::Endpoint;
use crate::error::{ApiError, ClientError};
use crate::secret::Secret;
use crate::tls;
use futures_util::{Sink, Stream as _};
use rialto_model::ErrorCode;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error as WsError, Message, Utf8Bytes};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

/// The node sends frames of at most 4 MiB; an array of them may be somewhat larger.
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
const OPEN_WAIT: Duration = Duration::from_secs(15);
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The close code, if the node sent one.
    pub code: Option<u16>,
    /// Its words, or the transport's.
    pub reason: String,
}

impl Closed {
    /// Whether it makes sense to connect again: the node went away, or we were too slow; not: it sent us away.
    pub fn may_return(&self) -> bool {
        match self.code {
            None | Some(1001 | 1005 | 1006 | 1011..=1014 | 4408 | 4429) => true,
            Some(_) => false,
        }
    }

    /// The same as a refusal in the registry's words, where the code has one.
    pub fn to_error(&self) -> ClientError {
        let code = match self.code {
            Some(1009) => ErrorCode::TooLarge,
            Some(4400) => ErrorCode::InvalidEvent,
            Some(4401) => ErrorCode::Unauthenticated,
            Some(4403) => ErrorCode::Forbidden,
            Some(4404) => ErrorCode::NetworkNotFound,
            Some(4408) => ErrorCode::JoinRequired,
            Some(4409) => ErrorCode::SessionRevoked,
            Some(4410) => ErrorCode::NetworkArchived,
            Some(_) | None => return ClientError::Closed(self.reason.clone()),
        };
        ApiError::of(code, self.reason.clone()).into()
    }
}

/// An open connection. Frames are queued with [`Link::push`] and written while [`Link::recv`] is awaited.
#[derive(Debug)]
pub struct Link {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    out: VecDeque<Message>,
    unflushed: bool,
    heard_at: Instant,
}

impl Link {
    /// Connects to `/ws/{network}`. The credential, if any, goes into the header.
    pub async fn open(endpoint: &Endpoint, network: &str, bearer: Option<&Secret>) -> Result<Link, ClientError> {
        let url = endpoint.websocket(network);
        let connecting = Self::connect(endpoint, &url, bearer);
        match tokio::time::timeout(OPEN_WAIT, connecting).await {
            Ok(result) => result,
            Err(_) => Err(ClientError::Timeout { url, seconds: OPEN_WAIT.as_secs() }),
        }
    }

    async fn connect(endpoint: &Endpoint, url: &str, bearer: Option<&Secret>) -> Result<Link, ClientError> {
        let bad = |reason: &'static str| ClientError::BadUrl { url: url.to_owned(), reason };
        let mut request = url.into_client_request().map_err(|_| bad("no WebSocket can be opened there"))?;
        if let Some(bearer) = bearer {
            let value = format!("Bearer {}", bearer.expose())
                .parse()
                .map_err(|_| ClientError::Protocol("the credential has characters no header may carry".to_owned()))?;
            request.headers_mut().insert("authorization", value);
        }
        let connector =
            if endpoint.is_tls() { Connector::Rustls(tls::config_for(endpoint)?) } else { Connector::Plain };
        let config =
            WebSocketConfig::default().max_message_size(Some(FRAME_BYTES_MAX)).max_frame_size(Some(FRAME_BYTES_MAX));
        match connect_async_tls_with_config(request, Some(config), true, Some(connector)).await {
            Ok((socket, _)) => Ok(Link { socket, out: VecDeque::new(), unflushed: false, heard_at: Instant::now() }),
            Err(error) => Err(open_error(&endpoint.base(), error)),
        }
    }

    /// Queues a text frame; it is written while `recv` or `close` is awaited.
    pub fn push(&mut self, text: impl Into<Utf8Bytes>) {
        self.out.push_back(Message::Text(text.into()));
    }

    /// Queues a transport ping.
    pub fn push_ping(&mut self) {
        self.out.push_back(Message::Ping(Bytes::new()));
    }

    /// How many frames wait to be written.
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// How long the node has said nothing, not even a ping.
    pub fn silence(&self) -> Duration {
        self.heard_at.elapsed()
    }

    /// The next text frame, writing what is queued meanwhile, so that neither side can block the other.
    /// Safe to drop at any await: what was queued stays queued, what was half received stays buffered.
    pub async fn recv(&mut self) -> Result<Utf8Bytes, Closed> {
        poll_fn(|cx| self.poll_turn(cx)).await
    }

    /// Writes what is queued, says goodbye and waits a moment for the node to do the same.
    pub async fn close(mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        self.out.push_back(Message::Close(Some(frame)));
        let goodbye = async { while self.recv().await.is_ok() {} };
        // The node may be gone; then there is nobody to say goodbye to.
        tokio::time::timeout(CLOSE_WAIT, goodbye).await.ok();
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<Utf8Bytes, Closed>> {
        if let Err(error) = self.poll_write(cx) {
            // The node may have closed with a reason that is still waiting to be read.
            return match self.poll_read(cx) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => Poll::Ready(Err(lost(&error))),
            };
        }
        self.poll_read(cx)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<(), WsError> {
        let mut socket = Pin::new(&mut self.socket);
        while !self.out.is_empty() {
            match socket.as_mut().poll_ready(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            if let Some(message) = self.out.pop_front() {
                socket.as_mut().start_send(message)?;
                self.unflushed = true;
            }
        }
        if self.unflushed
            && let Poll::Ready(flushed) = socket.as_mut().poll_flush(cx)
        {
            flushed?;
            self.unflushed = false;
        }
        Ok(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Utf8Bytes, Closed>> {
        loop {
            let message = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Err(closed(None, "the connection ended"))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(lost(&error))),
                Poll::Ready(Some(Ok(message))) => message,
            };
            self.heard_at = Instant::now();
            match message {
                Message::Text(text) => return Poll::Ready(Ok(text)),
                Message::Close(frame) => return Poll::Ready(Err(closed_by(frame))),
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            }
        }
    }
}

fn closed(code: Option<u16>, reason: &str) -> Closed {
    Closed { code, reason: reason.to_owned() }
}

fn lost(error: &WsError) -> Closed {
    closed(None, &error.to_string())
}

fn closed_by(frame: Option<CloseFrame>) -> Closed {
    match frame {
        Some(frame) if frame.reason.is_empty() => closed(Some(frame.code.into()), "closed by the node"),
        Some(frame) => closed(Some(frame.code.into()), &frame.reason),
        None => closed(None, "closed by the node"),
    }
}

fn open_error(url: &str, error: WsError) -> ClientError {
    if let WsError::Http(response) = error {
        let body = response.body().as_deref().unwrap_or_default();
        return ApiError::from_http(response.status().as_u16(), body).into();
    }
    ClientError::Unreachable { url: url.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_return() {
        let by = |code| closed(code, "x");
        for code in [None, Some(1001), Some(1011), Some(4408), Some(4429)] {
            assert!(by(code).may_return(), "{code:?}");
        }
        for code in [1000, 1003, 1009, 4400, 4401, 4403, 4404, 4409, 4410] {
            assert!(!by(Some(code)).may_return(), "{code}");
        }
        assert!(by(Some(4409)).to_error().is(ErrorCode::SessionRevoked));
        assert!(matches!(by(Some(1000)).to_error(), ClientError::Closed(_)));
    }

    #[tokio::test]
    async fn a_refused_upgrade_gives_the_nodes_words() {
        let body = r#"{"code":404,"message":"network_not_found: no network x","data":null}"#;
        let server = crate::testing::HttpServer::answering(vec![(404, body.to_owned())]).await;
        let endpoint = Endpoint::parse(&server.url).unwrap();
        let error = Link::open(&endpoint, "x", None).await.unwrap_err();
        assert!(error.is(ErrorCode::NetworkNotFound), "{error}");
    }
}
