//! The relay against a scripted node.

use super::*;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    async fn accept(listener: &TcpListener) -> Peer {
        let (socket, _) = listener.accept().await.unwrap();
        Peer(tokio_tungstenite::accept_async(socket).await.unwrap())
    }

    /// The next text frame; none when the relay said goodbye.
    async fn recv(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
                Message::Close(_) => return None,
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            }
        }
    }

    async fn send(&mut self, event: Value) {
        self.0.send(Message::text(event.to_string())).await.unwrap();
    }

    async fn ack(&mut self, event: &Value, result: Value) {
        let payload = json!({"event_id": event["id"], "result": result});
        self.send(json!({"id":"x","type":"network.event.ack","source":"core","target":"agent:a","payload":payload,"metadata":{"in_reply_to":event["id"]}})).await;
    }
}

fn line(value: Value) -> ProgramLine {
    ProgramLine::Text(value.to_string())
}

fn place(listener: &TcpListener) -> RelayTarget {
    RelayTarget {
        endpoint: Endpoint::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap(),
        network: "n1".into(),
        bearer: Some("T".into()),
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(10)),
    }
}

#[tokio::test]
async fn lines_and_frames_pass_over_a_lost_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = place(&listener);
    let session = json!({"network_id":"n1","address":"agent:a","session_id":"S"});
    let script = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        let join = peer.recv().await.unwrap();
        peer.ack(&join, session.clone()).await;
        let first = peer.recv().await.unwrap();
        drop(peer); // before it is answered
        let mut peer = Peer::accept(&listener).await;
        let rejoin = peer.recv().await.unwrap();
        assert_eq!(rejoin["payload"]["session_id"], "S");
        peer.ack(&rejoin, session).await;
        let again = peer.recv().await.unwrap();
        assert_eq!(again, first);
        peer.send(json!({"id":"e1","type":"a.b","source":"agent:z","target":"agent:a","payload":{},"metadata":{"seq":1,"attempt":1}})).await;
        peer.ack(&again, json!(null)).await;
        assert_eq!(peer.recv().await, None, "the end of input is no leave");
    });
    let (sender, mut lines) = mpsc::channel(8);
    sender.send(line(json!({"id":"m1","type":"a.b","target":"agent:z","payload":{}}))).await.unwrap();
    sender.send(ProgramLine::End).await.unwrap();
    let join = line(json!({"id":"j1","type":"network.agent.join","source":"agent:a","target":"core","payload":{}}));
    let (mut out, data, talk) = crate::out::testing::out(false);
    converse(&place, Relay::new(None), join, &mut lines, &mut out).await.unwrap();
    script.await.unwrap();
    let events: Vec<Value> = data.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["network.event.ack", "a.b", "network.event.ack"]);
    assert!(talk.text().contains("connecting again"));
}

#[tokio::test]
async fn a_refused_join_is_printed_and_decides_the_exit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = place(&listener);
    let script = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        let join = peer.recv().await.unwrap();
        let payload = json!({"code":"invalid_token","message":"no","event_id":join["id"],"retryable":false});
        peer.send(json!({"id":"x","type":"network.event.error","source":"core","target":"agent:a","payload":payload}))
            .await;
        peer.recv().await;
    });
    let (sender, mut lines) = mpsc::channel(8);
    sender.send(ProgramLine::End).await.unwrap();
    let join = line(json!({"id":"j1","type":"network.agent.join","source":"agent:a","target":"core","payload":{}}));
    let (mut out, data, _) = crate::out::testing::out(false);
    let error = converse(&place, Relay::new(None), join, &mut lines, &mut out).await.unwrap_err();
    script.await.unwrap();
    assert_eq!(error.exit, crate::exit::Exit::Denied);
    assert!(data.text().contains("invalid_token"));
}

#[tokio::test]
async fn a_line_over_the_limit_is_answered_here() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = place(&listener);
    let script = tokio::spawn(async move {
        let mut peer = Peer::accept(&listener).await;
        assert_eq!(peer.recv().await, None);
    });
    let (sender, mut lines) = mpsc::channel(8);
    sender.send(ProgramLine::End).await.unwrap();
    let (mut out, data, _) = crate::out::testing::out(false);
    converse(&place, Relay::new(None), ProgramLine::TooLong, &mut lines, &mut out).await.unwrap();
    script.await.unwrap();
    let error: Value = serde_json::from_str(data.text().trim()).unwrap();
    assert_eq!(error["payload"]["code"], "too_large");
}
