//! A raw WebSocket conversation.

use super::{Network, join, soon};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

/// One connection.
#[derive(Debug)]
pub struct Ws {
    inner: WebSocketStream<TcpStream>,
}

/// What comes from the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// A text frame.
    Event(Value),
    /// The close frame.
    Closed(u16, String),
    /// The connection broke without one.
    Gone,
}

impl Ws {
    /// Opens `/ws/{network}`; a refused upgrade gives its HTTP status and body.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Ws, (u16, String)> {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        for (name, value) in headers {
            let name: tokio_tungstenite::tungstenite::http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let tcp = TcpStream::connect(address).await.map_err(|e| (0, e.to_string()))?;
        tcp.set_nodelay(true).unwrap();
        match soon("the upgrade", tokio_tungstenite::client_async(request, tcp)).await {
            Ok((inner, _)) => Ok(Ws { inner }),
            Err(Error::Http(answer)) => {
                let body = answer.body().clone().unwrap_or_default();
                Err((answer.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
            }
            Err(error) => Err((0, error.to_string())),
        }
    }

    /// Opens and joins; gives the result of the join as well. A refusal fails the test.
    pub async fn joined(address: SocketAddr, network: &Network, agent: &str, options: &Value) -> (Ws, Value) {
        let mut ws = Ws::open(address, &format!("/ws/{}", network.id), &[]).await.unwrap();
        ws.send(&join(agent, &network.token, options)).await;
        let ack = ws.event().await;
        assert_eq!(ack["type"], "network.event.ack", "{ack}");
        let result = ack["payload"]["result"].clone();
        assert_eq!(result["address"], agent, "{ack}");
        (ws, result)
    }

    /// Sends an event or an array.
    pub async fn send(&mut self, event: &Value) {
        self.text(&event.to_string()).await;
    }

    /// Sends a text frame.
    pub async fn text(&mut self, text: &str) {
        self.try_text(text).await.unwrap();
    }

    /// Sends a text frame; fails when the connection is broken.
    pub async fn try_text(&mut self, text: &str) -> Result<(), Error> {
        self.inner.send(Message::text(text)).await
    }

    /// Sends any message.
    pub async fn message(&mut self, message: Message) -> Result<(), Error> {
        self.inner.send(message).await
    }

    /// Hands a text frame over without waiting for the socket to take it all.
    pub async fn feed(&mut self, text: &str) -> Result<(), Error> {
        self.inner.feed(Message::text(text)).await
    }

    /// Writes what was handed over.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.inner.flush().await
    }

    /// Acks deliveries by id.
    pub async fn ack(&mut self, ids: &[&str]) {
        self.send(&json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": ids } })).await;
    }

    /// The next frame, however long it takes.
    pub async fn try_next(&mut self) -> Frame {
        match self.next_message().await {
            Ok(text) => Frame::Event(serde_json::from_str(&text).unwrap()),
            Err(end) => end,
        }
    }

    /// The next text as it came, however long it takes; how the connection ended when there is none.
    pub async fn next_text(&mut self) -> Result<String, String> {
        self.next_message().await.map_err(|end| format!("the connection has ended: {end:?}"))
    }

    async fn next_message(&mut self) -> Result<String, Frame> {
        loop {
            match self.inner.next().await {
                None | Some(Err(_)) => return Err(Frame::Gone),
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Close(frame))) => {
                    let (code, reason) = frame.map_or((1005, String::new()), |f| (f.code.into(), f.reason.to_string()));
                    return Err(Frame::Closed(code, reason));
                }
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next frame.
    pub async fn next(&mut self) -> Frame {
        soon("a frame", self.try_next()).await
    }

    /// The next event; a close fails the test.
    pub async fn event(&mut self) -> Value {
        match self.next().await {
            Frame::Event(event) => event,
            end @ (Frame::Closed(..) | Frame::Gone) => panic!("an event was expected, not {end:?}"),
        }
    }

    /// The next event that is no roster news.
    pub async fn news(&mut self) -> Value {
        loop {
            let event = self.event().await;
            if event["type"] != "rialto.member.status" {
                return event;
            }
        }
    }

    /// The next tracked delivery; answers and signals are passed over.
    pub async fn delivery(&mut self) -> Value {
        loop {
            let event = self.event().await;
            if event["metadata"]["attempt"].is_u64() {
                return event;
            }
        }
    }

    /// The answer to the event with this id; deliveries and signals are passed over.
    pub async fn answer(&mut self, id: &str) -> Value {
        loop {
            let event = self.event().await;
            let kind = event["type"].as_str().unwrap_or_default();
            if matches!(kind, "network.event.ack" | "network.event.error") && event["metadata"]["in_reply_to"] == id {
                return event;
            }
        }
    }

    /// Reads to the end; gives the close code and the last error code that came before it.
    pub async fn end(&mut self) -> (Option<u16>, Option<String>) {
        let mut error = None;
        loop {
            match self.next().await {
                Frame::Event(event) if event["type"] == "network.event.error" => {
                    error = event["payload"]["code"].as_str().map(str::to_owned);
                }
                Frame::Event(_) => {}
                Frame::Closed(code, _) => return (Some(code), error),
                Frame::Gone => return (None, error),
            }
        }
    }
}
