//! Trace context: in by header, gRPC metadata or the event itself, out with every delivery, shown by `explain`.

use crate::support::Node;
use crate::support::http::Http;
use rialto_openagents::grpc::pb;
use rialto_sim::contract::{Carrier, Got, Member, bearing};
use serde_json::{Value, json};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-00";

fn note(id: &str, metadata: &Value) -> Value {
    json!({ "id": id, "type": "test.note.posted", "target": "agent:broadcast", "payload": { "content": id }, "metadata": metadata })
}

fn trace_of(got: &Got) -> (Option<String>, Option<String>) {
    let text = |name: &str| got.metadata[name].as_str().map(str::to_owned);
    (text("traceparent"), text("tracestate"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_goes_with_the_event_over_every_carrier_and_a_restart() {
    let mut node = Node::start();
    let (place, http) = (node.place(), Http::new(node.url()));
    let base = format!("/v1/ws/{}", node.network());
    let joined = http.post(&format!("{base}/join"), &node.token, &json!({ "agent_id": "agent:ana" })).await.data();
    let bearer = format!("Bearer {}", joined["session_id"].as_str().unwrap());
    let carriers = [
        Carrier::HttpInbox,
        Carrier::SseInbox,
        Carrier::WebSocket,
        Carrier::GrpcUnary,
        Carrier::GrpcConnect,
        Carrier::Stdio,
    ];
    let mut members = Vec::new();
    for (n, carrier) in carriers.into_iter().enumerate() {
        members.push(Member::join(&place, carrier, &format!("reader-{n}")).await.unwrap());
    }
    let path = format!("{base}/events");
    let post = async |headers: &[(&str, &str)], body: String| {
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        let response = http.open("POST", &path, &all, &body).await.unwrap();
        assert_eq!(response.status(), 200, "{body}");
    };
    let both = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
    post(&both, note("by-header", &json!({})).to_string()).await;
    post(
        &both,
        json!([note("in-batch", &json!({ "k": 1 })), note("own", &json!({ "traceparent": OTHER }))]).to_string(),
    )
    .await;
    post(&[], note("in-event", &json!({ "traceparent": PARENT, "tracestate": "c=3" })).to_string()).await;
    // What is malformed is as if it were not there, and refuses nothing.
    post(&[("traceparent", "00-junk"), ("tracestate", "a=1")], note("bad-header", &json!({})).to_string()).await;
    post(&[("traceparent", PARENT), ("traceparent", OTHER)], note("two-headers", &json!({})).to_string()).await;
    post(&[("traceparent", PARENT), ("tracestate", "junk")], note("bad-state", &json!({})).to_string()).await;
    post(&[], note("bad-event", &json!({ "traceparent": 5, "tracestate": "a=1" })).to_string()).await;
    let event = pb::Event {
        id: "by-grpc".into(),
        r#type: "test.note.posted".into(),
        target: "agent:broadcast".into(),
        payload: b"{}".to_vec().into(),
        ..Default::default()
    };
    let send = pb::SendRequest { network: node.network().to_owned(), events: vec![event] };
    let mut request = bearing(send, joined["session_id"].as_str().unwrap());
    request.metadata_mut().insert("traceparent", PARENT.parse().unwrap());
    let sent = place.grpc().await.unwrap().send(request).await.unwrap().into_inner();
    assert!(sent.results[0].error.is_none(), "{sent:?}");

    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("by-header", (some(PARENT), some("a=1,b=2"))),
        ("in-batch", (some(PARENT), some("a=1,b=2"))),
        ("own", (some(OTHER), None)),
        ("in-event", (some(PARENT), some("c=3"))),
        ("bad-header", (None, None)),
        ("two-headers", (None, None)),
        ("bad-state", (some(PARENT), None)),
        ("bad-event", (None, None)),
        ("by-grpc", (some(PARENT), None)),
    ];
    for member in &mut members {
        let all = member.until("by-grpc").await.unwrap();
        for (id, trace) in &expected {
            let got = all.iter().find(|got| got.id == *id).unwrap_or_else(|| panic!("{id} did not come"));
            assert_eq!(trace_of(got), *trace, "{id} over {:?}", member.carrier);
        }
    }
    node.kill();
    node.restart();
    for (id, (parent, _)) in expected {
        let explained = node.words(&["explain", id, "--json"]).ok().json();
        assert_eq!(explained.get("traceparent").cloned(), parent.map(|p| json!(p)), "{id}");
    }
}
