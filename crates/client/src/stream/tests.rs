//! Conversations with a scripted node: each connection of the client meets the next part of the script.

use super::*;
use crate::Backoff;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// The node's end of one connection.
struct Peer(WebSocketStream<TcpStream>);

impl Peer {
    async fn recv(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => panic!("the client closed"),
                Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_) => {}
            }
        }
    }

    async fn send(&mut self, event: Value) {
        self.0.send(Message::text(event.to_string())).await.unwrap();
    }

    /// Answers the join and gives its payload back.
    async fn join(&mut self) -> Value {
        let join = self.recv().await;
        assert_eq!(join["type"], "network.agent.join");
        let result = json!({"network_id":"n1","address":"agent:a","role":"member","session_id":"S","window":2});
        self.ack(&join, json!({"seq":1,"result":result})).await;
        join["payload"].clone()
    }

    async fn ack(&mut self, event: &Value, mut payload: Value) {
        payload["status"] = json!("accepted");
        payload["event_id"] = event["id"].clone();
        self.core("network.event.ack", payload, event["id"].clone()).await;
    }

    async fn core(&mut self, kind: &str, payload: Value, in_reply_to: Value) {
        self.send(json!({"id":fresh_id(),"type":kind,"source":"core","target":"agent:a","payload":payload,"metadata":{"in_reply_to":in_reply_to}})).await;
    }

    async fn deliver(&mut self, id: &str, seq: u64, attempt: u64) {
        self.send(json!({"id":id,"type":"a.b","source":"agent:z","target":"agent:a","payload":{},"metadata":{"seq":seq,"attempt":attempt}})).await;
    }

    async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "bye".into() };
        self.0.close(Some(frame)).await.ok();
        while let Some(Ok(_)) = self.0.next().await {}
    }
}

/// Listens, and runs the script in a task that the test awaits at its end.
async fn node<F, Fut>(script: F) -> (String, tokio::task::JoinHandle<()>)
where
    F: FnOnce(Door) -> Fut,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/ws/n1", listener.local_addr().unwrap());
    (url, tokio::spawn(script(Door(listener))))
}

struct Door(TcpListener);

impl Door {
    async fn accept(&self) -> Peer {
        let (socket, _) = self.0.accept().await.unwrap();
        Peer(tokio_tungstenite::accept_async(socket).await.unwrap())
    }
}

fn options() -> JoinOptions {
    JoinOptions {
        token: Some("T".into()),
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(10)),
        ..JoinOptions::new("agent:a")
    }
}

fn draft(id: &str) -> Draft {
    Draft { id: Some(id.to_owned()), ..Draft::new("a.b", "agent:z", json!({})) }
}

#[tokio::test]
async fn sends_are_answered_in_order_and_deliveries_come_between() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        let join = peer.join().await;
        assert_eq!(join["credentials"]["token"], "T");
        let sent = peer.recv().await;
        let events: Vec<Value> = sent.as_array().unwrap().clone();
        peer.deliver("e1", 7, 1).await;
        peer.ack(&events[0], json!({"seq":8,"duplicate":false,"durability":"sync"})).await;
        let refusal = json!({"code":"unknown_target","message":"nobody","event_id":"m2","retryable":false});
        peer.core("network.event.error", refusal, json!("m2")).await;
        let ack = peer.recv().await;
        assert_eq!((&ack["type"], &ack["payload"]["ids"]), (&json!("network.event.ack"), &json!(["e1"])));
        let ping = peer.recv().await;
        peer.core("network.pong", json!({"server_time":9}), ping["id"].clone()).await;
        let leave = peer.recv().await;
        assert_eq!(leave["type"], "network.agent.leave");
        peer.ack(&leave, json!({})).await;
        peer.close(1000).await;
    })
    .await;
    let mut stream = Stream::connect(&url, options()).await.unwrap();
    let answers = stream.send_batch(vec![draft("m1"), draft("m2")]).await.unwrap();
    let receipt = answers[0].as_ref().unwrap();
    assert_eq!((receipt.seq, receipt.durability.as_deref()), (Some(8), Some("sync")));
    assert!(answers[1].as_ref().unwrap_err().is(ErrorCode::UnknownTarget));
    let delivery = stream.next().await.unwrap();
    assert!(delivery.tracked && delivery.event.id == "e1");
    stream.ack("e1").await.unwrap();
    assert_eq!(stream.ping().await.unwrap().payload_value(), json!({"server_time":9}));
    stream.leave().await.unwrap();
    script.await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_resumes_resends_and_hides_repeats() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        let join = peer.join().await;
        assert_eq!(join.get("resume_after"), None);
        for (id, seq) in [("e1", 3), ("e2", 4), ("e3", 5)] {
            peer.deliver(id, seq, 1).await;
        }
        // e1 and e3 are acked, e2 is not; m1 is never answered here.
        let mut acked = Vec::new();
        let mut sent = None;
        while acked.len() < 2 || sent.is_none() {
            let frame = peer.recv().await;
            match frame["payload"]["ids"].as_array() {
                Some(ids) => acked.extend(ids.clone()),
                None => sent = Some(frame),
            }
        }
        drop(peer);

        let mut peer = door.accept().await;
        let join = peer.join().await;
        assert_eq!((&join["resume_after"], &join["session_id"]), (&json!("e1"), &json!("S")));
        let again = peer.recv().await;
        assert_eq!(Some(&again), sent.as_ref());
        peer.ack(&again, json!({"seq":6,"duplicate":true})).await;
        peer.deliver("e2", 4, 1).await; // still with the owner: hidden, not acked
        peer.deliver("e3", 5, 1).await; // acked before: hidden and acked again
        peer.deliver("e4", 7, 1).await;
        let ack = peer.recv().await;
        assert_eq!(ack["payload"]["ids"], json!(["e3"]));
        peer.close(4409).await;
    })
    .await;
    let mut stream = Stream::connect(&url, options()).await.unwrap();
    for id in ["e1", "e2", "e3"] {
        assert_eq!(stream.next().await.unwrap().event.id, id);
    }
    stream.ack("e1").await.unwrap();
    stream.ack("e3").await.unwrap();
    let receipt = stream.send(draft("m1")).await.unwrap();
    assert!(receipt.duplicate && receipt.seq == Some(6));
    assert_eq!(stream.next().await.unwrap().event.id, "e4");
    // Somebody else took the name: no fight for it.
    assert!(stream.next().await.unwrap_err().is(ErrorCode::SessionRevoked));
    assert!(stream.send(draft("m2")).await.unwrap_err().is(ErrorCode::SessionRevoked));
    script.await.unwrap();
}

#[tokio::test]
async fn batch_acks_answer_many_at_once() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        assert_eq!(peer.join().await["acks"], "batch");
        peer.recv().await;
        let payload = json!({"accepted":[["m1",4],["m3",5]],"durability":"os"});
        peer.core("network.event.ack", payload, Value::Null).await;
        let refusal = json!({"code":"too_large","message":"big","event_id":"m2","retryable":false});
        peer.core("network.event.error", refusal, json!("m2")).await;
        peer.recv().await;
    })
    .await;
    let stream = Stream::connect(&url, JoinOptions { batch_acks: true, ..options() }).await.unwrap();
    let answers = stream.send_batch(vec![draft("m1"), draft("m2"), draft("m3")]).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().seq, Some(4));
    assert!(answers[1].as_ref().unwrap_err().is(ErrorCode::TooLarge));
    assert_eq!(answers[2].as_ref().unwrap().durability.as_deref(), Some("os"));
    stream.ack_up_to("e1").await.unwrap();
    script.await.unwrap();
}

#[tokio::test]
async fn an_expired_session_is_replaced_by_the_credentials() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        peer.join().await;
        let down = json!({"code":"shutting_down","message":"stopping","event_id":null,"retryable":true});
        peer.core("network.event.error", down, Value::Null).await;
        peer.close(1001).await;
        let mut peer = door.accept().await;
        let join = peer.recv().await;
        assert_eq!(join["payload"]["session_id"], "S");
        let expired = json!({"code":"session_expired","message":"old","event_id":join["id"],"retryable":false});
        peer.core("network.event.error", expired, join["id"].clone()).await;
        let mut peer = door.accept().await;
        let join = peer.join().await;
        assert_eq!((join.get("session_id"), &join["credentials"]["token"]), (None, &json!("T")));
        peer.deliver("e1", 3, 1).await;
        peer.recv().await;
    })
    .await;
    let mut stream = Stream::connect(&url, options()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().event.id, "e1");
    stream.ack("e1").await.unwrap();
    script.await.unwrap();
    stream.close().await;
}

#[tokio::test]
async fn the_first_refusal_is_the_callers() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        let join = peer.recv().await;
        let refusal = json!({"code":"invalid_token","message":"no","event_id":join["id"],"retryable":false});
        peer.core("network.event.error", refusal, join["id"].clone()).await;
    })
    .await;
    let error = Stream::connect(&url, options()).await.unwrap_err();
    assert!(error.is(ErrorCode::InvalidToken), "{error}");
    script.await.unwrap();
}

#[tokio::test]
async fn a_node_that_stays_away_is_given_up() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        peer.join().await;
    })
    .await;
    let patience = Some(Duration::from_millis(50));
    let mut stream = Stream::connect(&url, JoinOptions { give_up_after: patience, ..options() }).await.unwrap();
    script.await.unwrap();
    assert!(matches!(stream.next().await, Err(ClientError::Closed(_))));
    assert!(matches!(stream.send(draft("m1")).await, Err(ClientError::Closed(_))));
}

#[tokio::test]
async fn an_owner_that_does_not_read_still_gets_answers() {
    let (url, script) = node(|door| async move {
        let mut peer = door.accept().await;
        peer.join().await;
        for n in 0..(UNTRACKED_ROOM + 10) {
            peer.send(
                json!({"id":format!("x{n}"),"type":"a.typing","source":"agent:z","target":"agent:a","payload":{}}),
            )
            .await;
        }
        let sent = peer.recv().await;
        peer.ack(&sent, json!({"seq":2})).await;
        peer.recv().await;
    })
    .await;
    let stream = Stream::connect(&url, options()).await.unwrap();
    assert_eq!(stream.send(draft("m1")).await.unwrap().seq, Some(2));
    drop(stream);
    script.abort();
}
