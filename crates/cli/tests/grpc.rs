//! gRPC `rialto.v1.Network`: eight calls with the sheet's field numbers, statuses and trailer, health and reflection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, clippy::wildcard_enum_match_arm, reason = "tests")]

mod support;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::Node;
use support::http::Http;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// The messages of sheet section 12.4: `number name type`, `[]` for repeated.
const MESSAGES: &[(&str, &str)] = &[
    (
        "Event",
        "1 id string · 2 type string · 3 source string · 4 target string · 5 payload bytes · 6 metadata bytes · 7 timestamp int64 · 8 network string · 9 visibility string",
    ),
    (
        "Error",
        "1 code string · 2 message string · 3 event_id string · 4 mod string · 5 retryable bool · 6 details bytes",
    ),
    (
        "JoinRequest",
        "1 network string · 2 agent_id string · 3 credentials bytes · 4 role string · 5 options bytes · 6 resume_after string · 7 session_id string",
    ),
    (
        "JoinReply",
        "1 network_id string · 2 address string · 3 role string · 4 status string · 5 verification int32 · 6 session_id string · 7 heartbeat_ms int64 · 8 offline_after_ms int64 · 9 window int32 · 10 head_id string · 11 pending int64 · 12 expires_at int64",
    ),
    ("LeaveRequest", "1 network string · 2 agent_id string · 3 reason string · 4 forget bool"),
    ("LeaveReply", "1 address string · 2 status string"),
    ("HeartbeatRequest", "1 network string · 2 agent_id string · 3 session_id string"),
    ("HeartbeatReply", "1 status string · 2 server_time int64"),
    ("SendRequest", "1 network string · 2 events []Event"),
    (
        "SendResult",
        "1 event_id string · 2 seq uint64 · 3 duplicate bool · 4 event Event · 5 response Event · 6 error Error",
    ),
    ("SendReply", "1 results []SendResult"),
    (
        "PollRequest",
        "1 network string · 2 after string · 3 limit int32 · 4 wait_ms int32 · 5 view string · 6 type string · 7 channel string · 8 target string · 9 target_agents string · 10 before string · 11 sort string · 12 no_ack bool · 13 ack_ids []string · 14 thread string · 15 room string · 16 search string · 17 source string · 18 conversation string · 19 in_reply_to string",
    ),
    (
        "PollReply",
        "1 events []Event · 2 has_more bool · 3 oldest_id string · 4 newest_id string · 5 next_cursor string · 6 indexed_through uint64 · 7 head uint64",
    ),
    ("DiscoverRequest", "1 network string · 2 filter bytes"),
    ("DiscoverReply", "1 roster bytes"),
    ("ProfileRequest", "1 network string"),
    ("ProfileReply", "1 profile bytes"),
];

/// The calls: name, whether the client streams, whether the server streams.
const CALLS: [(&str, bool); 8] = [
    ("Join", false),
    ("Leave", false),
    ("Heartbeat", false),
    ("Send", false),
    ("Poll", false),
    ("Discover", false),
    ("Profile", false),
    ("Connect", true),
];

async fn channel(node: &Node) -> Channel {
    tonic::transport::Endpoint::new(node.url().to_owned()).unwrap().connect().await.unwrap()
}

fn bearing<T>(message: T, bearer: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if !bearer.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    }
    request
}

async fn join(client: &mut NetworkClient<Channel>, token: &str, name: &str) -> pb::JoinReply {
    let request = pb::JoinRequest { agent_id: name.to_owned(), ..Default::default() };
    client.join(bearing(request, token)).await.unwrap().into_inner()
}

fn event(id: &str, target: &str) -> pb::Event {
    let (id, target) = (id.to_owned().into(), target.to_owned().into());
    pb::Event {
        id,
        target,
        r#type: "test.note.posted".into(),
        payload: br#"{"n":1.50}"#.to_vec().into(),
        ..Default::default()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The error in the trailer.
#[track_caller]
fn error_of(status: &Status) -> pb::Error {
    let trailer = status.metadata().get_bin("rialto-error-bin").unwrap_or_else(|| panic!("no trailer: {status:?}"));
    pb::Error::decode(trailer.to_bytes().unwrap()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, name: &str) -> pb::Error {
    let status = result.unwrap_err();
    let error = error_of(&status);
    assert_eq!((status.code(), error.code.as_str()), (code, name), "{status:?}");
    assert!(status.message().starts_with(name), "{status:?}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_tells_the_calls_and_field_numbers_of_the_sheet() {
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let node = Node::start();
    let mut client = ServerReflectionClient::new(channel(&node).await);
    let mut ask = async |what: MessageRequest| {
        let request =
            tonic_reflection::pb::v1::ServerReflectionRequest { host: String::new(), message_request: Some(what) };
        let stream = futures_util::stream::once(std::future::ready(request));
        let mut answers = client.server_reflection_info(stream).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await else {
        panic!("no list")
    };
    let services: Vec<&str> = list.service.iter().map(|s| s.name.as_str()).collect();
    for service in ["rialto.v1.Network", "grpc.health.v1.Health"] {
        assert!(services.contains(&service), "{services:?}");
    }
    let symbol = MessageRequest::FileContainingSymbol("rialto.v1.Network".into());
    let MessageResponse::FileDescriptorResponse(files) = ask(symbol).await else { panic!("no file") };
    let file = files.file_descriptor_proto.iter().map(|f| prost_types::FileDescriptorProto::decode(&f[..]).unwrap());
    let file = file.into_iter().find(|f| f.package() == "rialto.v1").unwrap();

    let messages: BTreeMap<String, String> =
        file.message_type.iter().map(|m| (m.name().to_owned(), fields(m))).collect();
    let expected: BTreeMap<String, String> = MESSAGES.iter().map(|(n, f)| ((*n).to_owned(), (*f).to_owned())).collect();
    assert_eq!(messages, expected);
    let calls: Vec<_> = file.service[0].method.iter().map(|m| (m.name().to_owned(), m.client_streaming())).collect();
    assert_eq!(calls, CALLS.map(|(name, stream)| (name.to_owned(), stream)));
    for method in &file.service[0].method {
        let (input, output) =
            (format!(".rialto.v1.{}Request", method.name()), format!(".rialto.v1.{}Reply", method.name()));
        if method.name() == "Connect" {
            assert_eq!((method.input_type(), method.output_type()), (".rialto.v1.Event", ".rialto.v1.Event"));
            assert!(method.server_streaming());
        } else {
            assert_eq!((method.input_type(), method.output_type()), (input.as_str(), output.as_str()));
        }
    }
}

fn fields(message: &prost_types::DescriptorProto) -> String {
    let field = |f: &prost_types::FieldDescriptorProto| {
        let kind = match f.r#type() {
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Bool => "bool",
            Type::Int32 => "int32",
            Type::Int64 => "int64",
            Type::Uint64 => "uint64",
            Type::Message => f.type_name().rsplit('.').next().unwrap(),
            other => panic!("{other:?}"),
        };
        let list = if f.label() == Label::Repeated { "[]" } else { "" };
        format!("{} {} {list}{kind}", f.number(), f.name())
    };
    message.field.iter().map(field).collect::<Vec<_>>().join(" · ")
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_serving() {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let node = Node::start();
    let mut client = HealthClient::new(channel(&node).await);
    for service in ["", "rialto.v1.Network"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        assert_eq!(client.check(request).await.unwrap().into_inner().status(), ServingStatus::Serving, "{service:?}");
    }
    let request = tonic_health::pb::HealthCheckRequest { service: "no.such.Service".to_owned() };
    assert_eq!(client.check(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seven_unary_calls() {
    let node = Node::start();
    let mut client = NetworkClient::new(channel(&node).await);
    let network = node.network().to_owned();
    // Join: credentials in the message, or as the bearer.
    let credentials = json!({ "token": node.token }).to_string().into_bytes();
    let options = json!({ "description": "tester", "window": 17 }).to_string().into_bytes();
    let agent_id = "agent:alice".to_owned();
    let request = pb::JoinRequest { network: network.clone(), agent_id, credentials, options, ..Default::default() };
    let alice = client.join(request).await.unwrap().into_inner();
    assert_eq!((alice.network_id.as_str(), alice.address.as_str()), (network.as_str(), "agent:alice"));
    assert_eq!((alice.role.as_str(), alice.status.as_str(), alice.verification), ("member", "online", 0));
    assert_eq!((alice.heartbeat_ms, alice.offline_after_ms, alice.window), (30_000, 60_000, 17));
    assert!(!alice.session_id.is_empty() && !alice.head_id.is_empty());
    let bob = join(&mut client, &node.token, "bob").await;
    assert_eq!((bob.address.as_str(), bob.role.as_str(), bob.pending), ("agent:bob", "member", 0));

    // Send: each event for itself, in order.
    let events =
        vec![event("s1", "agent:bob"), event("s2", "agent:nobody"), event("s1", "agent:bob"), event("s3", "bob")];
    let request = pb::SendRequest { network: network.clone(), events };
    let results = client.send(bearing(request, &alice.session_id)).await.unwrap().into_inner().results;
    let ids: Vec<_> = results.iter().map(|r| r.event_id.as_str()).collect();
    assert_eq!(ids, ["s1", "s2", "s1", "s3"]);
    assert_eq!(results.iter().map(|r| r.duplicate).collect::<Vec<_>>(), [false, false, true, false]);
    let error = results[1].error.as_ref().unwrap();
    assert_eq!((error.code.as_str(), error.event_id.as_str(), error.retryable), ("unknown_target", "s2", false));
    let stored = results[0].event.as_ref().unwrap();
    assert_eq!((&stored.source[..], &stored.visibility[..]), (&b"agent:alice"[..], &b"direct"[..]));
    assert_eq!(stored.payload.as_ref(), br#"{"n":1.50}"#);
    assert_eq!((results[0].seq + 1, results[0].seq), (results[3].seq, results[2].seq));
    // A request's response comes with its result.
    let ask = pb::Event { r#type: "network.agent.discover".into(), target: "core".into(), ..Default::default() };
    let request = pb::SendRequest { network: network.clone(), events: vec![ask] };
    let results = client.send(bearing(request, &alice.session_id)).await.unwrap().into_inner().results;
    assert_eq!(results[0].response.as_ref().unwrap().r#type, "network.agent.discover.response");

    // Poll: pages, cursors and both ways to ack.
    let poll = |more: pb::PollRequest| bearing(more, &bob.session_id);
    let page = client.poll(poll(pb::PollRequest { limit: 1, ..Default::default() })).await.unwrap().into_inner();
    assert_eq!((text(&page.events[0].id), page.has_more, page.oldest_id.as_str()), ("s1", true, "s1"));
    let marks: Value = serde_json::from_slice(&page.events[0].metadata).unwrap();
    assert_eq!(marks["attempt"], 1);
    let request = pb::PollRequest { ack_ids: vec!["s1".into()], ..Default::default() };
    let page = client.poll(poll(request)).await.unwrap().into_inner();
    assert_eq!(page.events.iter().map(|e| text(&e.id)).collect::<Vec<_>>(), ["s3"]);
    let request = pb::PollRequest { after: page.next_cursor, ..Default::default() };
    assert!(client.poll(poll(request)).await.unwrap().into_inner().events.is_empty(), "`after` acks");
    assert!(client.poll(poll(pb::PollRequest::default())).await.unwrap().into_inner().events.is_empty());
    let request =
        pb::PollRequest { view: "log".into(), r#type: "test.".into(), sort: "desc".into(), ..Default::default() };
    let log = client.poll(poll(request)).await.unwrap().into_inner();
    assert_eq!(log.events.iter().map(|e| text(&e.id)).collect::<Vec<_>>(), ["s3", "s1"]);
    assert_eq!((log.oldest_id.as_str(), log.newest_id.as_str()), ("s1", "s3"));
    // Filters, as HTTP has them.
    let mut said = event("t1", "channel/general");
    said.metadata = br#"{"thread":"thread_abc","in_reply_to":"s1"}"#.to_vec().into();
    said.payload = br#"{"content":"zanzibar"}"#.to_vec().into();
    let request = pb::SendRequest { network: network.clone(), events: vec![said] };
    let sent = client.send(bearing(request, &alice.session_id)).await.unwrap().into_inner();
    assert!(sent.results[0].error.is_none(), "{sent:?}");
    let log = || pb::PollRequest { view: "log".into(), r#type: "test.".into(), ..Default::default() };
    for (request, expected) in [
        (pb::PollRequest { thread: "thread_abc".into(), ..log() }, vec!["t1"]),
        (pb::PollRequest { thread: "thread_xyz".into(), ..log() }, vec![]),
        (pb::PollRequest { source: "agent:alice".into(), ..log() }, vec!["s1", "s3", "t1"]),
        (pb::PollRequest { source: "agent:bob".into(), ..log() }, vec![]),
        (pb::PollRequest { conversation: "agent:alice,agent:bob".into(), ..log() }, vec!["s1", "s3"]),
        (pb::PollRequest { in_reply_to: "s1".into(), ..log() }, vec!["t1"]),
        (pb::PollRequest { search: "zanzibar".into(), ..log() }, vec!["t1"]),
        (pb::PollRequest { room: format!("direct_{}", "0".repeat(32)), ..log() }, vec![]),
    ] {
        let page = client.poll(poll(request.clone())).await.map(tonic::Response::into_inner).unwrap_or_default();
        let ids: Vec<&str> = page.events.iter().map(|e| text(&e.id)).collect();
        assert_eq!(ids, expected, "{request:?}");
    }
    let request = pb::PollRequest { ack_ids: vec!["t1".into()], ..Default::default() };
    client.poll(poll(request)).await.unwrap();
    // It waits, and is woken.
    let (mut waiting, session) = (client.clone(), bob.session_id.clone());
    let request = pb::PollRequest { wait_ms: 20_000, ..Default::default() };
    let waiting = tokio::spawn(async move { waiting.poll(bearing(request, &session)).await });
    // A call behind it on the same connection was answered: the poll is there and waits.
    client.heartbeat(bearing(pb::HeartbeatRequest::default(), &alice.session_id)).await.unwrap();
    let sent = Instant::now();
    let request = pb::SendRequest { network: network.clone(), events: vec![event("wake", "agent:bob")] };
    client.send(bearing(request, &alice.session_id)).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().into_inner().events[0].id, "wake");
    assert!(sent.elapsed() < Duration::from_secs(10));

    // Discover and Profile.
    let filter = json!({ "include": ["agents"] }).to_string().into_bytes();
    let request = pb::DiscoverRequest { network: network.clone(), filter };
    let roster = client.discover(bearing(request, &bob.session_id)).await.unwrap().into_inner().roster;
    let roster: Value = serde_json::from_slice(&roster).unwrap();
    assert_eq!((roster["agents"].as_array().unwrap().len(), roster.get("channels")), (2, None), "{roster}");
    let profile = client.profile(pb::ProfileRequest { network: network.clone() }).await.unwrap().into_inner().profile;
    let profile: Value = serde_json::from_slice(&profile).unwrap();
    assert_eq!((&profile["id"], &profile["agents_online"]), (&json!(network), &json!(2)));

    // Heartbeat and Leave.
    let request = pb::HeartbeatRequest { agent_id: "agent:bob".into(), ..Default::default() };
    let beat = client.heartbeat(bearing(request, &bob.session_id)).await.unwrap().into_inner();
    assert!(beat.status == "online" && beat.server_time > 1_700_000_000_000, "{beat:?}");
    let request = pb::LeaveRequest { reason: "done".into(), ..Default::default() };
    let left = client.leave(bearing(request, &bob.session_id)).await.unwrap().into_inner();
    assert_eq!((left.address.as_str(), left.status.as_str()), ("agent:bob", "offline"));
    let after = client.poll(poll(pb::PollRequest::default())).await;
    assert_eq!(after.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_their_status_and_trailer() {
    let node = Node::start();
    let mut client = NetworkClient::new(channel(&node).await);
    let http = Http::new(node.url());
    let alice = join(&mut client, &node.token, "alice").await.session_id;
    let wish = |name: &str| pb::JoinRequest { agent_id: name.to_owned(), ..Default::default() };
    let poll = |p: pb::PollRequest| bearing(p, &alice);
    let any = pb::PollRequest::default;

    refused(client.join(wish("agent:x")).await, Code::Unauthenticated, "token_required");
    refused(
        client.join(bearing(wish("agent:x"), "wrong-token-0123456789")).await,
        Code::Unauthenticated,
        "invalid_token",
    );
    refused(client.join(bearing(wish("agent:"), &node.token)).await, Code::InvalidArgument, "invalid_address");
    refused(client.join(bearing(wish("core"), &node.token)).await, Code::InvalidArgument, "invalid_address");
    let elsewhere = pb::JoinRequest { network: "ffffffff".into(), ..wish("agent:x") };
    refused(client.join(bearing(elsewhere, &node.token)).await, Code::NotFound, "network_not_found");
    let bad = pb::JoinRequest { options: b"{".to_vec(), ..wish("agent:x") };
    refused(client.join(bearing(bad, &node.token)).await, Code::InvalidArgument, "invalid_json");

    refused(client.poll(any()).await, Code::Unauthenticated, "unauthenticated");
    refused(client.poll(bearing(any(), "stale-session-0123456789")).await, Code::Unauthenticated, "invalid_token");
    refused(
        client.poll(poll(pb::PollRequest { limit: 501, ..any() })).await,
        Code::InvalidArgument,
        "invalid_argument",
    );
    refused(client.poll(poll(pb::PollRequest { limit: -1, ..any() })).await, Code::InvalidArgument, "invalid_argument");
    let error = refused(
        client.poll(poll(pb::PollRequest { wait_ms: 60_001, ..any() })).await,
        Code::InvalidArgument,
        "invalid_argument",
    );
    assert_eq!(serde_json::from_slice::<Value>(&error.details).unwrap()["field"], "wait_ms");
    let unknown = pb::PollRequest { after: "no-such-event".into(), ..any() };
    let error = refused(client.poll(poll(unknown)).await, Code::OutOfRange, "cursor_unknown");
    assert!(!error.retryable && String::from_utf8(error.details).unwrap().contains("head_id"));
    let stranger = pb::LeaveRequest { agent_id: "agent:stranger".into(), ..Default::default() };
    refused(client.leave(bearing(stranger, &alice)).await, Code::PermissionDenied, "source_mismatch");

    let many = vec![event("", "core"); 4097];
    let request = pb::SendRequest { events: many, ..Default::default() };
    refused(client.send(bearing(request, &alice)).await, Code::ResourceExhausted, "too_large");
    let request = pb::SendRequest { events: vec![event("e", "core")], ..Default::default() };
    let results = client.send(request).await.unwrap().into_inner().results;
    assert_eq!(results[0].error.as_ref().unwrap().code, "unauthenticated", "events are judged one by one");
    // What is not text is no event, also where it looks like the rest of one.
    let bad = |target: &'static [u8]| pb::Event { target: target.into(), ..event("e", "core") };
    let events =
        vec![bad(b"\xFF"), bad(b"core\",\"source\":\"agent:bob\xC3"), bad(b"a\"b"), event("good", "agent:alice")];
    let request = pb::SendRequest { events, ..Default::default() };
    let results = client.send(bearing(request, &alice)).await.unwrap().into_inner().results;
    let codes: Vec<&str> = results.iter().map(|r| r.error.as_ref().map_or("", |e| &e.code)).collect();
    assert_eq!(codes, ["invalid_json", "invalid_json", "invalid_address", ""]);

    let path = format!("/v1/admin/networks/{}", node.network());
    let change = |status: &str| json!({ "status": status }).to_string();
    http.call("PATCH", &path, node.admin(), &change("paused")).await.unwrap().data();
    let error =
        refused(client.join(bearing(wish("agent:late"), &node.token)).await, Code::Unavailable, "network_paused");
    assert!(error.retryable);
    http.call("PATCH", &path, node.admin(), &change("archived")).await.unwrap().data();
    refused(client.join(bearing(wish("agent:late"), &node.token)).await, Code::FailedPrecondition, "network_archived");
}

/// An open Connect.
struct Stream {
    out: mpsc::UnboundedSender<pb::Event>,
    answers: tonic::Streaming<pb::Event>,
}

async fn connect(client: &mut NetworkClient<Channel>, token: &str, first: pb::Event) -> Result<Stream, Status> {
    let (out, outgoing) = mpsc::unbounded_channel();
    out.send(first).unwrap();
    let stream = futures_util::stream::unfold(outgoing, |mut o: mpsc::UnboundedReceiver<pb::Event>| async {
        o.recv().await.map(|event| (event, o))
    });
    let answers = client.connect(bearing(stream, token)).await?.into_inner();
    Ok(Stream { out, answers })
}

fn join_event(name: &str) -> pb::Event {
    let (source, target) = (name.to_owned().into(), "core".into());
    pb::Event { id: "j".into(), r#type: "network.agent.join".into(), source, target, ..Default::default() }
}

impl Stream {
    async fn next(&mut self) -> Result<Option<pb::Event>, Status> {
        tokio::time::timeout(support::PATIENCE, self.answers.message()).await.expect("nothing came")
    }

    /// The next event of this type.
    async fn hear(&mut self, kind: &str) -> pb::Event {
        loop {
            let event = self.next().await.unwrap().expect("the stream ended");
            if event.r#type == kind {
                return event;
            }
        }
    }
}

fn payload(event: &pb::Event) -> Value {
    serde_json::from_slice(&event.payload).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_join_ends_the_stream_with_session_revoked() {
    let node = Node::start();
    let mut client = NetworkClient::new(channel(&node).await);
    let mut first = connect(&mut client, &node.token, join_event("agent:alice")).await.unwrap();
    assert_eq!(payload(&first.hear("network.event.ack").await)["status"], "accepted");
    let mut second = connect(&mut client, &node.token, join_event("agent:alice")).await.unwrap();
    second.hear("network.event.ack").await;
    let goodbye = first.hear("network.event.error").await;
    assert_eq!(payload(&goodbye)["code"], "session_revoked");
    let end = loop {
        match first.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a status"),
            Err(status) => break status,
        }
    };
    refused(Err::<(), _>(end), Code::Unauthenticated, "session_revoked");
    // The newer one is untouched.
    second.out.send(pb::Event { r#type: "network.ping".into(), target: "core".into(), ..Default::default() }).unwrap();
    second.hear("network.pong").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_a_join_and_ends_with_a_leave() {
    let node = Node::start();
    let mut client = NetworkClient::new(channel(&node).await);
    let mut early = connect(&mut client, &node.token, event("x", "core")).await.unwrap();
    assert_eq!(payload(&early.hear("network.event.error").await)["code"], "join_required");
    early.out.send(join_event("agent:early")).unwrap();
    early.hear("network.event.ack").await;
    let elsewhere = pb::Event { network: "ffffffff".into(), ..join_event("agent:x") };
    let lost = connect(&mut client, &node.token, elsewhere).await.map(|_| ());
    refused(lost, Code::NotFound, "network_not_found");
    let nowhere = pb::Event { network: b"\xFF"[..].into(), ..join_event("agent:x") };
    let lost = connect(&mut client, &node.token, nowhere).await.map(|_| ());
    refused(lost, Code::InvalidArgument, "invalid_argument");
    let mut wrong = connect(&mut client, "wrong-token-0123456789", join_event("agent:x")).await.unwrap();
    assert_eq!(payload(&wrong.hear("network.event.error").await)["code"], "invalid_token");

    let mut stream = connect(&mut client, &node.token, join_event("agent:alice")).await.unwrap();
    stream.hear("network.event.ack").await;
    let leave =
        pb::Event { id: "l".into(), r#type: "network.agent.leave".into(), target: "core".into(), ..Default::default() };
    stream.out.send(leave).unwrap();
    stream.hear("network.event.ack").await;
    while let Some(_event) = stream.next().await.unwrap() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_or_none_is_refused_like_everything_else() {
    let node = Node::start();
    let mut client = NetworkClient::new(channel(&node).await).max_encoding_message_size(usize::MAX);
    let joined = join(&mut client, &node.token, "agent:alice").await;
    let large = pb::Event { payload: vec![b' '; rialto_model::limits::BATCH_BYTES_MAX].into(), ..event("x", "core") };
    let send = pb::SendRequest { network: node.network().to_owned(), events: vec![large.clone()] };
    let error = refused(client.send(bearing(send, &joined.session_id)).await, Code::ResourceExhausted, "too_large");
    assert!(error.message.contains("4194304 bytes") && !error.retryable, "{error:?}");
    let first = connect(&mut client, &node.token, large.clone()).await.map(|_| ());
    refused(first, Code::ResourceExhausted, "too_large");
    let mut stream = connect(&mut client, &node.token, join_event("agent:bob")).await.unwrap();
    stream.hear("network.event.ack").await;
    stream.out.send(large).unwrap();
    let end = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => break status,
        }
    };
    refused(Err::<(), _>(end), Code::ResourceExhausted, "too_large");

    // Bytes that are no message of the call.
    let mut grpc = tonic::client::Grpc::new(channel(&node).await);
    grpc.ready().await.unwrap();
    let path = "/rialto.v1.Network/Poll".parse().unwrap();
    let nonsense = pb::Event { id: vec![0xFF; 4].into(), ..Default::default() };
    let codec = tonic_prost::ProstCodec::<pb::Event, pb::PollReply>::default();
    let answer = grpc.unary(bearing(nonsense, &joined.session_id), path, codec).await;
    refused(answer, Code::InvalidArgument, "invalid_argument");
    assert!(client.heartbeat(bearing(pb::HeartbeatRequest::default(), &joined.session_id)).await.is_ok());
}
