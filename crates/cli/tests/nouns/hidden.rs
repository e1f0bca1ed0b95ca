//! Other networks of the same node: a listed one is named with its profile, one that is not listed looks like one that does not exist.

use crate::support::Node;
use crate::support::http::Http;
use futures_util::{SinkExt, StreamExt};
use rialto_openagents::grpc::pb;
use rialto_sim::contract::bearing;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// A network that nobody has.
const NOBODYS: &str = "0badcafe";

/// Requests that name a network, with `{n}` in its place.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("GET", "/v1/ws/{n}", ""),
    ("GET", "/v1/ws/{n}/profile", ""),
    ("GET", "/v1/profile?network={n}", ""),
    ("GET", "/v1/ws/{n}/discover", ""),
    ("GET", "/v1/ws/{n}/events", ""),
    ("GET", "/v1/ws/{n}/events?view=log&search=x", ""),
    ("GET", "/v1/ws/{n}/events/stream", ""),
    ("GET", "/v1/ws/{n}/events/some-id/explain", ""),
    ("GET", "/v1/ws/{n}/channels", ""),
    ("GET", "/v1/ws/{n}/work", ""),
    ("GET", "/v1/ws/{n}/resources", ""),
    ("GET", "/v1/ws/{n}/files", ""),
    ("GET", "/v1/ws/{n}/invitations", ""),
    ("GET", "/v1/ws/{n}/asyncapi.json", ""),
    ("GET", "/v1/workspaces/{n}", ""),
    ("POST", "/v1/workspaces/{n}/rotate-token", ""),
    ("POST", "/v1/ws/{n}/events", r#"{"id":"e1","type":"a.b","target":"core"}"#),
    ("POST", "/v1/ws/{n}/events", r#"[{"id":"e1","type":"a.b","target":"core"}]"#),
    ("POST", "/v1/ws/{n}/events", "not json"),
    ("POST", "/v1/events", r#"{"id":"e1","type":"a.b","target":"core","network":"{n}"}"#),
    ("POST", "/v1/ws/{n}/work", r#"{"target":"agent:a","content":"please"}"#),
    ("POST", "/v1/ws/{n}/ack", r#"{"ids":["e1"]}"#),
    ("POST", "/v1/ws/{n}/heartbeat", r#"{"agent_id":"agent:eve"}"#),
    ("POST", "/v1/ws/{n}/leave", r#"{"agent_id":"agent:eve"}"#),
    ("POST", "/v1/ws/{n}/join", r#"{"agent_id":"agent:eve"}"#),
    ("POST", "/v1/ws/{n}/join", r#"{"agent_id":"agent:eve","credentials":{"token":"wrong-token-wrong-token"}}"#),
    ("POST", "/v1/ws/{n}/join", r#"{"agent_id":"agent:eve","credentials":{"invite":"wrong-code-wrong-code"}}"#),
    ("POST", "/v1/ws/{n}/join", r#"{"agent_id":"no address"}"#),
    ("POST", "/v1/ws/{n}/join", r#"{"agent_name":"eve","token":"wrong-token-wrong-token"}"#),
    ("POST", "/v1/ws/{n}/invitations/inv-1/reject", r#"{"code":"wrong-code"}"#),
    ("GET", "/ws/{n}", ""),
];

/// What a stranger may not do.
const STRANGE: (&str, &str, &str) = ("POST", "/v1/ws/{n}/events", r#"{"type":"a.b","target":"core"}"#);

struct Lab {
    node: Node,
    http: Http,
    id: String,
    token: String,
}

impl Lab {
    fn start() -> Lab {
        let node = Node::start();
        let made = node.line("network create lab --json").ok().json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (http, id, token) = (Http::new(node.url()), text("id"), text("token"));
        Lab { node, http, id, token }
    }

    async fn list(&self, listed: bool) {
        let path = format!("/v1/admin/networks/{}", self.id);
        let body = json!({ "metadata": { "listed": listed } }).to_string();
        self.http.call("PATCH", &path, self.node.admin(), &body).await.unwrap().data();
    }

    async fn session(&self, network: &str, token: &str, name: &str) -> String {
        let body = json!({ "agent_id": format!("agent:{name}"), "credentials": { "token": token } });
        let joined = self.http.post(&format!("/v1/ws/{network}/join"), "", &body).await.data();
        joined["session_id"].as_str().unwrap().to_owned()
    }

    /// What a stranger gets for a request, with the network's name taken out.
    async fn answer(&self, (method, path, body): (&str, &str, &str), network: &str, bearer: &str) -> (u16, String) {
        let (path, body) = (path.replace("{n}", network), body.replace("{n}", network));
        let answer = self.http.call(method, &path, bearer, &body).await.unwrap();
        (answer.status, answer.body.replace(network, "{n}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_not_listed_answers_like_one_that_is_not_there() {
    let lab = Lab::start();
    let before = lab.answer(STRANGE, &lab.id, "").await;
    assert_eq!(before.0, 401, "a listed one says what it wants: {before:?}");
    let member = lab.session(&lab.id, &lab.token, "ana").await;
    lab.list(false).await;
    let of_main = lab.session(lab.node.network(), &lab.node.token, "eve").await;
    for bearer in ["", "no-such-token-no-such-token", &lab.node.token, &of_main] {
        for request in REQUESTS {
            let unknown = lab.answer(*request, NOBODYS, bearer).await;
            assert_eq!(lab.answer(*request, &lab.id, bearer).await, unknown, "{request:?} with {bearer:?}");
            assert_eq!(lab.answer(*request, "lab", bearer).await, unknown, "{request:?} by name, with {bearer:?}");
            assert!((400..500).contains(&unknown.0), "{request:?}: {unknown:?}");
        }
    }
    // Who belongs to it is served, from the first call after a join on.
    let newcomer = lab.session(&lab.id, &lab.token, "ben").await;
    for bearer in [&member, &newcomer, &lab.token, &lab.node.admin().to_owned()] {
        let profile = lab.http.get(&format!("/v1/ws/{}/profile", lab.id), bearer).await.data();
        assert_eq!(profile["id"], json!(lab.id));
        let page = lab.http.get(&format!("/v1/ws/{}/events?view=log", lab.id), bearer).await.data();
        assert!(page["events"].is_array());
    }
    lab.list(true).await;
    let after = lab.answer(STRANGE, &lab.id, "").await;
    assert_eq!(after, before);
}

/// A request with a bearer, or without one.
fn shown<T>(message: T, bearer: &str) -> tonic::Request<T> {
    if bearer.is_empty() { tonic::Request::new(message) } else { bearing(message, bearer) }
}

/// First words on a WebSocket, with the token of another network in the place of `{other}`.
const FIRST_WORDS: &[&str] = &[
    r#"{"type":"network.agent.join","source":"agent:eve","target":"core"}"#,
    r#"{"id":"j1","type":"network.agent.join","source":"agent:eve","target":"core","payload":{"agent_id":"agent:eve"}}"#,
    r#"{"type":"network.agent.join","target":"core","payload":{"agent_id":"agent:eve","credentials":{"token":"{other}"}}}"#,
    r#"{"type":"network.agent.join","target":"core","payload":{"agent_id":"agent:eve","credentials":{"token":"wrong-token"}}}"#,
    r#"{"type":"network.agent.join","target":"core","payload":{"agent_id":"agent:eve","credentials":{"invite":"wrong-code"}}}"#,
    r#"{"type":"network.agent.join","target":"core","payload":{"agent_id":"no address"}}"#,
    r#"[{"type":"network.agent.join","source":"agent:eve","target":"core"},{"type":"a.b","target":"core"}]"#,
    r#"{"id":"e1","type":"a.b","target":"core"}"#,
    "not json",
];

/// Everything a WebSocket says to its end, with what is another each time taken out.
async fn said(url: &str, network: &str, bearer: &str, words: Option<&str>) -> Vec<String> {
    let url = format!("{}/ws/{network}", url.replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    if !bearer.is_empty() {
        request.headers_mut().insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    }
    let (mut socket, opened) = match tokio_tungstenite::connect_async(request).await {
        Ok(opened) => opened,
        Err(error) => return vec![error.to_string()],
    };
    let mut headers: Vec<&str> = opened.headers().keys().map(|name| name.as_str()).collect();
    headers.sort_unstable();
    let mut said = vec![format!("{} {headers:?}", opened.status())];
    if let Some(words) = words {
        socket.send(Message::text(words)).await.unwrap();
    }
    while let Some(Ok(message)) = socket.next().await {
        said.push(match message {
            Message::Text(text) => {
                let mut event: Value = serde_json::from_str(&text).unwrap();
                event["id"].take();
                event["timestamp"].take();
                event.to_string()
            }
            other => format!("{other:?}"),
        });
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_over_websocket() {
    let lab = Lab::start();
    lab.list(false).await;
    let of_main = lab.session(lab.node.network(), &lab.node.token, "eve").await;
    for bearer in ["", "no-such-token-no-such-token", &lab.node.token, &of_main] {
        for words in FIRST_WORDS {
            let words = words.replace("{other}", &lab.node.token);
            let unknown = said(lab.node.url(), NOBODYS, bearer, Some(&words)).await;
            assert!(unknown[0].starts_with("101") && unknown[1].contains("network_not_found"), "{unknown:?}");
            for network in [lab.id.as_str(), "lab"] {
                let hidden = said(lab.node.url(), network, bearer, Some(&words)).await;
                assert_eq!(hidden, unknown, "{words:?} with {bearer:?}");
            }
        }
    }
    let quiet = |network: &'static str, words: Option<&'static str>| said(lab.node.url(), network, "", words);
    let (silent, empty) = (|network| quiet(network, None), |network| quiet(network, Some("[]")));
    let all = tokio::join!(silent(NOBODYS), silent("lab"), empty(NOBODYS), empty("lab"));
    assert_eq!((&all.1, &all.3), (&all.0, &all.2), "who says nothing learns nothing");
    assert!(all.0.iter().any(|said| said.contains("join_required")), "{all:?}");
    // Who shows the token with the join is in, without having shown anything before.
    let join = FIRST_WORDS[2].replace("{other}", &lab.token);
    let url = format!("{}/ws/lab", lab.node.url().replacen("http", "ws", 1));
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    socket.send(Message::text(join)).await.unwrap();
    let answer: Value = serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
    assert_eq!((&answer["type"], &answer["network"]), (&json!("network.event.ack"), &json!(lab.id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_over_grpc() {
    let lab = Lab::start();
    lab.list(false).await;
    let mut client = lab.node.place().grpc().await.unwrap();
    let told = |status: tonic::Status| {
        let trailer = status.metadata().get_bin("rialto-error-bin").map(|b| b.to_bytes().unwrap());
        (status.code(), status.message().to_owned(), trailer)
    };
    let of_main = lab.session(lab.node.network(), &lab.node.token, "eve").await;
    for bearer in ["", "no-such-token-no-such-token", &lab.node.token, &of_main] {
        let mut all = Vec::new();
        for network in [NOBODYS, lab.id.as_str(), "lab"] {
            let n = network.to_owned();
            let join = pb::JoinRequest { network: n.clone(), agent_id: "agent:eve".into(), ..Default::default() };
            let odd = pb::JoinRequest { options: b"[]".to_vec(), ..join.clone() };
            let showing = |what: &str, value: &str| pb::JoinRequest {
                credentials: json!({ what: value }).to_string().into_bytes(),
                ..join.clone()
            };
            let (other, invite) = (showing("token", &lab.node.token), showing("invite", "wrong-code-wrong-code"));
            let poll = pb::PollRequest { network: n.clone(), ..Default::default() };
            let event = pb::Event { r#type: "a.b".into(), target: "core".into(), ..Default::default() };
            let send = pb::SendRequest { network: n.clone(), events: vec![event] };
            let first = pb::Event {
                r#type: "network.agent.join".into(),
                source: "agent:eve".into(),
                target: "core".into(),
                network: n.clone().into(),
                ..Default::default()
            };
            let discover = pb::DiscoverRequest { network: n.clone(), ..Default::default() };
            let connect = client.connect(shown(futures_util::stream::iter([first]), bearer)).await;
            all.push(vec![
                told(client.join(shown(join.clone(), bearer)).await.unwrap_err()),
                told(client.join(shown(odd, bearer)).await.unwrap_err()),
                told(client.join(shown(other, bearer)).await.unwrap_err()),
                told(client.join(shown(invite, bearer)).await.unwrap_err()),
                told(client.poll(shown(poll, bearer)).await.unwrap_err()),
                told(client.send(shown(send, bearer)).await.unwrap_err()),
                told(client.profile(shown(pb::ProfileRequest { network: n }, bearer)).await.unwrap_err()),
                told(client.discover(shown(discover, bearer)).await.unwrap_err()),
                told(connect.map(|_| ()).unwrap_err()),
            ]);
        }
        assert_eq!(all[0], all[1], "with {bearer:?}");
        assert_eq!(all[0], all[2], "by name, with {bearer:?}");
        assert!(all[1].iter().all(|(code, ..)| *code == tonic::Code::NotFound), "{all:?}");
    }
    let credentials = json!({ "token": lab.token }).to_string().into_bytes();
    let join =
        pb::JoinRequest { network: lab.id.clone(), agent_id: "agent:ana".into(), credentials, ..Default::default() };
    let joined = client.join(join).await.unwrap().into_inner();
    let poll = pb::PollRequest { network: lab.id.clone(), ..Default::default() };
    client.poll(bearing(poll, &joined.session_id)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_to_another_network_is_refused_with_where_that_is() {
    let lab = Lab::start();
    let session = lab.session(lab.node.network(), &lab.node.token, "ana").await;
    let path = format!("/v1/ws/{}/events", lab.node.network());
    let refusal = async |target: String| -> Value {
        let event = json!({ "id": "x", "type": "a.b", "target": target });
        let answer = lab.http.post(&path, &session, &event).await;
        assert_eq!((answer.status, answer.code().as_str()), (421, "cross_network"));
        answer.json()["error"]["details"].clone()
    };
    let url = format!("{}/v1/ws/{}/profile", lab.node.url(), lab.id);
    for name in [lab.id.as_str(), "lab"] {
        let details = refusal(format!("{name}::agent:bob")).await;
        assert_eq!(details, json!({ "network": name, "entity": "agent:bob", "profile_url": url }));
    }
    let found = url.strip_prefix(lab.node.url()).unwrap();
    assert_eq!(lab.http.get(found, "").await.data()["id"], json!(lab.id), "and there it is");
    let unknown = refusal(format!("{NOBODYS}::agent:bob")).await;
    assert_eq!(unknown, json!({ "network": NOBODYS, "entity": "agent:bob" }));
    // Streams and gRPC say the same.
    let mut client = lab.node.place().grpc().await.unwrap();
    let target = format!("{}::agent:bob", lab.id);
    let event = pb::Event { r#type: "a.b".into(), target: target.clone().into(), ..Default::default() };
    let send = pb::SendRequest { network: lab.node.network().to_owned(), events: vec![event] };
    let sent = client.send(bearing(send, &session)).await.unwrap().into_inner();
    let error = sent.results[0].error.clone().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&error.details).unwrap()["profile_url"], json!(url));
    // The command follows it: there is the network, and nobody of that name.
    lab.node.words(&["send", &target, "hi", "--as", "eva"]).fails(3, "unknown_target");
    lab.list(false).await;
    let hidden = refusal(format!("{}::agent:bob", lab.id)).await;
    assert_eq!(hidden, json!({ "network": lab.id, "entity": "agent:bob" }), "as if it were not there");
}
