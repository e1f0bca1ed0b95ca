//! Who is who, on the real binary: levels 0 to 3 on every carrier, what is refused, what ends a proof, and the node's own registrar.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use rialto_node::identity::{Algorithm, KeyPair};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::{Value, json};
use support::http::{Answer, Http};
use support::{Node, PATIENCE};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Somebody with a key.
struct Person {
    name: String,
    key: KeyPair,
    api_key: String,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

fn signed(key: &KeyPair, challenge: &str) -> String {
    STANDARD.encode(key.sign(&STANDARD.decode(challenge).unwrap()).unwrap())
}

/// A key whose signatures the registrar knows, under a name.
async fn register(http: &Http, name: &str, algorithm: Algorithm) -> Person {
    let key = match algorithm {
        Algorithm::Rs256 => {
            let vectors: Value = serde_json::from_str(include_str!("../../../vectors/identity.json")).unwrap();
            KeyPair::from_pem(vectors["openssl"]["keys"][1]["private"].as_str().unwrap()).unwrap()
        }
        Algorithm::Ed25519 | Algorithm::Es256 => KeyPair::generate(algorithm).unwrap(),
    };
    let body = json!({ "agent_name": name, "public_key_pem": key.public().to_pem().unwrap() });
    let data = paced(http, "/v1/agentid/register", "", &body).await.data();
    assert_eq!(data["agent_id"], format!("openagents:{name}"));
    Person { name: name.to_owned(), key, api_key: text(&data["api_key"]) }
}

/// Posts, and again where it was too often.
async fn paced(http: &Http, path: &str, bearer: &str, body: &Value) -> Answer {
    loop {
        let answer = http.post(path, bearer, body).await;
        if answer.status != 429 {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(120)).await;
    }
}

impl Person {
    fn address(&self) -> String {
        format!("openagents:{}", self.name)
    }

    /// A signed challenge to join.
    async fn proof(&self, http: &Http, network: &str, address: &str) -> Value {
        let body =
            json!({ "network": network, "agent_id": address, "algorithm": self.key.public().algorithm().name() });
        let challenge = paced(http, "/v1/challenge", "", &body).await.data();
        assert_eq!(challenge["expires_in"], 300);
        json!({ "nonce": challenge["nonce"], "signature": signed(&self.key, challenge["challenge"].as_str().unwrap()) })
    }

    async fn did(&self, http: &Http, network: &str, address: &str) -> Value {
        let mut proof = self.proof(http, network, address).await;
        proof["did"] = json!(format!("did:{address}"));
        proof
    }

    /// A token of the registrar.
    async fn token(&self, http: &Http, audience: Option<&str>) -> String {
        let algorithm = self.key.public().algorithm().name();
        let body = json!({ "agentName": self.name, "algorithm": algorithm });
        let challenge = paced(http, "/v1/agentid/challenge", "", &body).await.data();
        let signature = signed(&self.key, challenge["challenge"].as_str().unwrap());
        let body = json!({ "agentName": self.name, "nonce": challenge["nonce"], "signature": signature, "audience": audience });
        text(&http.post("/v1/agentid/token", "", &body).await.data()["accessToken"])
    }
}

async fn socket(node: &Node) -> Socket {
    let url = format!("{}/ws/{}", node.url().replacen("http", "ws", 1), node.network());
    tokio_tungstenite::connect_async(url).await.unwrap().0
}

async fn heard(socket: &mut Socket) -> Value {
    loop {
        match timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Close(close) => return json!({ "closed": close.map(|close| u16::from(close.code)) }),
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

async fn ws_join(socket: &mut Socket, address: &str, credentials: &Value) -> Value {
    let join = json!({ "id": "j", "type": "network.agent.join", "source": address, "target": "core", "payload": { "credentials": credentials } });
    socket.send(Message::text(join.to_string())).await.unwrap();
    heard(socket).await
}

/// What comes of a join: the level, or the code it is refused with.
async fn join(node: &Node, carrier: &str, address: &str, credentials: &Value) -> Result<u64, String> {
    match carrier {
        "http" => {
            let body = json!({ "agent_id": address, "credentials": credentials });
            let answer = Http::new(node.url()).post(&format!("/v1/ws/{}/join", node.network()), "", &body).await;
            if answer.status == 200 { Ok(answer.data()["verification"].as_u64().unwrap()) } else { Err(answer.code()) }
        }
        "websocket" => {
            let frame = ws_join(&mut socket(node).await, address, credentials).await;
            match frame["type"].as_str() {
                Some("network.event.ack") => Ok(frame["payload"]["result"]["verification"].as_u64().unwrap()),
                _ => Err(text(&frame["payload"]["code"])),
            }
        }
        _ => {
            let channel =
                tonic::transport::Channel::from_shared(node.url().to_owned()).unwrap().connect().await.unwrap();
            let mut client = NetworkClient::new(channel);
            let request = pb::JoinRequest {
                network: node.network().to_owned(),
                agent_id: address.to_owned(),
                credentials: credentials.to_string().into_bytes(),
                ..pb::JoinRequest::default()
            };
            match client.join(request).await {
                Ok(reply) => Ok(u64::try_from(reply.get_ref().verification).unwrap()),
                Err(status) => {
                    let error = status.metadata().get_bin("rialto-error-bin").unwrap().to_bytes().unwrap();
                    Err(<pb::Error as prost::Message>::decode(error).unwrap().code)
                }
            }
        }
    }
}

fn with_token(node: &Node, kind: &str, proof: Value) -> Value {
    json!({ "token": node.token, kind: proof })
}

#[tokio::test]
async fn every_level_on_every_carrier() {
    let node = Node::start();
    let (http, network) = (Http::new(node.url()), node.network().to_owned());
    for (n, carrier) in ["http", "websocket", "grpc"].into_iter().enumerate() {
        assert_eq!(join(&node, carrier, &format!("agent:zero{n}"), &json!({ "token": node.token })).await, Ok(0));
        for algorithm in [Algorithm::Ed25519, Algorithm::Es256, Algorithm::Rs256] {
            let person = register(&http, &format!("one-{}-{n}", algorithm.name()), algorithm).await;
            let address = person.address();
            let unproved = join(&node, carrier, &address, &json!({ "token": node.token })).await;
            assert_eq!(unproved, Err("verification_required".to_owned()), "{carrier}");
            let proof = with_token(&node, "key", person.proof(&http, &network, &address).await);
            assert_eq!(join(&node, carrier, &address, &proof).await, Ok(1), "{carrier} {algorithm}");
            assert_eq!(join(&node, carrier, &address, &proof).await, Err("verification_failed".to_owned()), "replayed");
            let jwt = with_token(&node, "jwt", json!(person.token(&http, None).await));
            assert_eq!(join(&node, carrier, &address, &jwt).await, Ok(2), "{carrier} {algorithm}");
            let did = with_token(&node, "did", person.did(&http, &network, &address).await);
            assert_eq!(join(&node, carrier, &address, &did).await, Ok(3), "{carrier} {algorithm}");
            let weak = join(&node, carrier, &address, &json!({ "token": node.token })).await;
            assert_eq!(weak, Err("verification_required".to_owned()), "never silently less");
        }
        for algorithm in [Algorithm::Ed25519, Algorithm::Es256] {
            let key = KeyPair::generate(algorithm).unwrap();
            let name = key.public().to_multikey().unwrap();
            let person = Person { name: name.clone(), key, api_key: String::new() };
            let address = format!("key:{name}");
            let did = with_token(&node, "did", person.did(&http, &network, &address).await);
            assert_eq!(join(&node, carrier, &address, &did).await, Ok(3), "{carrier} {algorithm}");
            let key = with_token(&node, "key", person.proof(&http, &network, &address).await);
            assert_eq!(join(&node, carrier, &address, &key).await, Err("verification_failed".to_owned()));
        }
    }
    let roster = http.get(&format!("/v1/ws/{network}/discover"), node.admin()).await;
    assert_eq!(roster.status, 200, "{roster:?}");
    let levels: Vec<u64> =
        roster.data()["agents"].as_array().unwrap().iter().map(|a| a["verification"].as_u64().unwrap()).collect();
    assert!(levels.contains(&0) && levels.contains(&3), "{levels:?}");
}

#[tokio::test]
async fn proofs_that_do_not_hold_refuse_the_join() {
    let node = Node::start();
    let (http, network) = (Http::new(node.url()), node.network().to_owned());
    let ann = register(&http, "ann-of-the-keys", Algorithm::Ed25519).await;
    let eve = register(&http, "eve", Algorithm::Ed25519).await;
    let (own, other) = (ann.address(), eve.address());
    let made = http.post("/v1/admin/networks", node.admin(), &json!({ "name": "second" })).await.data();
    let second = text(&made["id"]);
    let failed = || Err("verification_failed".to_owned());
    let key = |proof: Value| with_token(&node, "key", proof);
    let did = |proof: Value| with_token(&node, "did", proof);
    let forged =
        Person { name: ann.name.clone(), key: KeyPair::generate(Algorithm::Ed25519).unwrap(), api_key: String::new() };
    let mut cut = ann.proof(&http, &network, &own).await;
    cut["signature"] = json!(text(&cut["signature"])[..40]);
    let mut padded = ann.proof(&http, &network, &own).await;
    padded["signature"] = json!(format!("{}AAAA", text(&padded["signature"]).trim_end_matches('=')));
    let mut foreign_did = ann.proof(&http, &network, &own).await;
    foreign_did["did"] = json!(format!("did:{other}"));
    let mut own_key = KeyPair::generate(Algorithm::Ed25519).unwrap().public().to_multikey().unwrap();
    own_key.insert_str(0, "did:key:");
    let mut key_did = ann.proof(&http, &network, &own).await;
    key_did["did"] = json!(own_key);
    let mut other_method = ann.did(&http, &network, &own).await;
    other_method["verification_method"] = json!("#key-2");
    let table = [
        ("a foreign key", key(forged.proof(&http, &network, &own).await)),
        ("another's challenge", key(eve.proof(&http, &network, &other).await)),
        ("another network's challenge", key(ann.proof(&http, &second, &own).await)),
        ("an unknown nonce", key(json!({ "nonce": "AAAA", "signature": "AAAA" }))),
        ("a truncated signature", key(cut)),
        ("a lengthened signature", key(padded)),
        ("another's DID", did(foreign_did)),
        ("a DID of another method", did(key_did)),
        ("a method that is not there", did(other_method)),
        ("a DID with a foreign key", did(forged.did(&http, &network, &own).await)),
        ("another's token", with_token(&node, "jwt", json!(eve.token(&http, None).await))),
        ("a token for others", with_token(&node, "jwt", json!(ann.token(&http, Some("elsewhere")).await))),
        ("no token at all", with_token(&node, "jwt", json!("aaaa.bbbb.cccc"))),
    ];
    for (what, credentials) in &table {
        for carrier in ["http", "websocket", "grpc"] {
            assert_eq!(join(&node, carrier, &own, credentials).await, failed(), "{what} over {carrier}");
        }
    }
    // One that fails refuses all.
    let mut both = key(ann.proof(&http, &network, &own).await);
    both["jwt"] = json!(eve.token(&http, None).await);
    assert_eq!(join(&node, "http", &own, &both).await, failed());
    // The best that holds counts.
    let mut both = key(ann.proof(&http, &network, &own).await);
    both["jwt"] = json!(ann.token(&http, Some(&network)).await);
    assert_eq!(join(&node, "http", &own, &both).await, Ok(2));
    // What cannot be read is no proof, and not nothing either.
    let unreadable = with_token(&node, "key", json!("signature"));
    assert_eq!(join(&node, "http", &own, &unreadable).await, Err("invalid_payload".to_owned()));
    assert_eq!(
        join(&node, "http", "acme:x", &json!({ "token": node.token })).await,
        Err("unknown_registrar".to_owned())
    );
    assert_eq!(join(&node, "http", "agent:nobody", &key(json!({ "nonce": "n", "signature": "s" }))).await, failed());
}

#[tokio::test]
async fn a_stream_is_told_what_to_sign() {
    let node = Node::start();
    let http = Http::new(node.url());
    let ann = register(&http, "ann", Algorithm::Es256).await;
    let mut socket = socket(&node).await;
    let refused = ws_join(&mut socket, &ann.address(), &json!({ "token": node.token })).await;
    let details = &refused["payload"]["details"];
    assert_eq!(refused["payload"]["code"], "verification_required");
    assert_eq!((&details["required"], &details["presented"]), (&json!(1), &json!(0)));
    let challenge = &details["challenge"];
    assert_eq!(challenge["algorithm"], "ES256");
    let signature = signed(&ann.key, challenge["challenge"].as_str().unwrap());
    let proof = json!({ "token": node.token, "key": { "nonce": challenge["nonce"], "signature": signature } });
    let joined = ws_join(&mut socket, &ann.address(), &proof).await;
    assert_eq!(joined["payload"]["result"]["verification"], 1, "{joined}");
}

#[tokio::test]
async fn what_is_revoked_or_replaced_is_out_at_once_on_every_carrier() {
    let mut node = Node::start();
    let http = Http::new(node.url());
    let network = node.network().to_owned();
    for act in ["rotate", "revoke"] {
        let ann = register(&http, &format!("ann-{act}"), Algorithm::Ed25519).await;
        let address = ann.address();
        let jwt = ann.token(&http, None).await;
        let mut stream = socket(&node).await;
        let credentials = with_token(&node, "key", ann.proof(&http, &network, &address).await);
        let joined = ws_join(&mut stream, &address, &credentials).await;
        let session = text(&joined["payload"]["result"]["session_id"]);
        for bearer in [&session, &jwt] {
            let me = http.get(&format!("/v1/ws/{network}/me"), bearer).await;
            assert_eq!(me.data()["address"], address, "{act}");
        }
        let new = KeyPair::generate(Algorithm::Ed25519).unwrap();
        let pem = new.public().to_pem().unwrap();
        let body = json!({ "agentName": ann.name, "publicKeyPem": pem });
        let path = format!("/v1/agentid/{act}");
        assert_eq!(http.post(&path, "", &body).await.status, 401);
        assert_eq!(http.post(&path, &jwt, &body).await.code(), "forbidden", "a token does not change keys");
        http.post(&path, &ann.api_key, &body).await.data();
        let told = loop {
            let told = heard(&mut stream).await;
            if told["type"] == "network.event.error" || told["closed"].is_u64() {
                break told;
            }
        };
        assert_eq!(told["payload"]["code"], "invalid_token", "{act}: {told}");
        assert_eq!(heard(&mut stream).await["closed"], 4401);
        assert_eq!(http.get(&format!("/v1/ws/{network}/me"), &session).await.code(), "invalid_token");
        assert_eq!(http.get(&format!("/v1/ws/{network}/me"), &jwt).await.code(), "verification_failed");
        let old = with_token(&node, "jwt", json!(jwt));
        assert_eq!(join(&node, "http", &address, &old).await, Err("verification_failed".to_owned()));
        let again = Person { name: ann.name.clone(), key: new, api_key: String::new() };
        if act == "rotate" {
            let proof = with_token(&node, "key", again.proof(&http, &network, &address).await);
            assert_eq!(join(&node, "http", &address, &proof).await, Ok(1), "the new key proves the name");
        } else {
            let taken = json!({ "agent_name": ann.name.to_uppercase(), "public_key_pem": again.key.public().to_pem().unwrap() });
            assert_eq!(paced(&http, "/v1/agentid/register", "", &taken).await.status, 409, "nobody gets it again");
        }
    }
    // All of it survives a power cut.
    node.kill();
    node.restart();
    let http = Http::new(node.url());
    let name = |name: &str| format!("/v1/agent-ids/{name}");
    assert_eq!(http.get(&name("ann-revoke"), "").await.data()["status"], "revoked");
    assert_eq!(http.get(&name("ann-rotate"), "").await.data()["status"], "active");
    assert_eq!(http.get(&name("nobody-at-all"), "").await.json()["code"], 404);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(node.data().join("admin.db")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    assert!(!node.log().contains("PRIVATE KEY") && !node.log().contains("oa_agentid_"));
}

#[tokio::test]
async fn policies_and_levels_of_a_network() {
    let node = Node::start();
    let http = Http::new(node.url());
    let network = node.network().to_owned();
    let ann = register(&http, "ann", Algorithm::Ed25519).await;
    let address = ann.address();
    let set = async |settings: Value| {
        let path = format!("/v1/admin/networks/{network}");
        http.call("PATCH", &path, node.admin(), &settings.to_string()).await.unwrap().data();
    };
    set(json!({ "policy": "did-verify" })).await;
    let required = || Err("did_required".to_owned());
    assert_eq!(join(&node, "http", "agent:x", &json!({ "token": node.token })).await, required());
    let key = with_token(&node, "key", ann.proof(&http, &network, &address).await);
    assert_eq!(join(&node, "http", &address, &key).await, required());
    let jwt = with_token(&node, "jwt", json!(ann.token(&http, None).await));
    assert_eq!(join(&node, "http", &address, &jwt).await, required());
    let did = json!({ "did": ann.did(&http, &network, &address).await });
    assert_eq!(join(&node, "http", &address, &did).await, Ok(3));
    set(json!({ "policy": "token", "require_audience": true })).await;
    assert_eq!(join(&node, "http", &address, &jwt).await, Err("verification_failed".to_owned()));
    for audience in [network.clone(), format!("openagents://{network}"), node.url().to_owned()] {
        let jwt = with_token(&node, "jwt", json!(ann.token(&http, Some(&audience)).await));
        assert_eq!(join(&node, "http", &address, &jwt).await, Ok(2), "{audience}");
    }
    set(json!({ "require_audience": false, "min_verification": 2 })).await;
    let low = with_token(&node, "key", ann.proof(&http, &network, &address).await);
    assert_eq!(join(&node, "http", &address, &low).await, Err("verification_required".to_owned()));
}

#[tokio::test]
async fn names_of_another_nodes_registrar_are_verified_there() {
    let elsewhere = Node::start();
    let away = Http::new(elsewhere.url());
    let dir = tempfile::TempDir::new().unwrap();
    let config = dir.path().join("rialto.toml");
    // Nobody listens there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "[outbound]\nallow_private_hosts = true\n[registrars.openagents]\nbase_url = \"{}\"\n[registrars.acme]\nbase_url = \"http://{nobody}\"\n",
        elsewhere.url()
    );
    std::fs::write(&config, text).unwrap();
    let node = Node::start_with(&["--config", config.to_str().unwrap()]);
    let (http, network) = (Http::new(node.url()), node.network().to_owned());
    let ann = register(&away, "ann", Algorithm::Ed25519).await;
    let address = ann.address();
    let key = with_token(&node, "key", ann.proof(&http, &network, &address).await);
    assert_eq!(join(&node, "http", &address, &key).await, Ok(1));
    let jwt = with_token(&node, "jwt", json!(ann.token(&away, None).await));
    assert_eq!(join(&node, "http", &address, &jwt).await, Ok(2));
    let did = with_token(&node, "did", ann.did(&http, &network, &address).await);
    assert_eq!(join(&node, "http", &address, &did).await, Ok(3));
    // Its own names are not those of that registrar.
    let own = register(&http, "ben", Algorithm::Ed25519).await;
    let key = with_token(&node, "key", own.proof(&http, &network, &own.address()).await);
    assert_eq!(join(&node, "http", &own.address(), &key).await, Err("verification_failed".to_owned()));
    // One that does not answer makes a proof unavailable, never weaker.
    let body = json!({ "agent_id": "acme:ann", "network": network });
    assert_eq!(paced(&http, "/v1/challenge", "", &body).await.code(), "registrar_unavailable");
    let token = json!({ "token": node.token, "jwt": "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhY21lOmFubiJ9.AAAA" });
    assert_eq!(join(&node, "http", "acme:ann", &token).await, Err("registrar_unavailable".to_owned()));
}

#[tokio::test]
async fn a_name_says_where_it_can_be_met() {
    let node = Node::start();
    let (http, network) = (Http::new(node.url()), node.network().to_owned());
    let ann = register(&http, "ann", Algorithm::Ed25519).await;
    let did = format!("did:{}", ann.address());
    let services = async || http.get(&format!("/v1/agentid/did/{did}"), "").await.data()["service"].clone();
    assert_eq!(services().await, json!([]));
    let credentials = with_token(&node, "key", ann.proof(&http, &network, &ann.address()).await);
    let body = json!({ "agent_id": ann.address(), "credentials": credentials, "publish": true });
    let session = text(&http.post(&format!("/v1/ws/{network}/join"), "", &body).await.data()["session_id"]);
    let endpoint = format!("{}/v1/ws/{network}", node.url());
    let mut entry = json!({ "id": format!("{did}#network-1"), "type": "OpenAgentsNetwork", "serviceEndpoint": endpoint,
        "network": network, "address": ann.address(), "transport": "http" });
    for _ in 0..200 {
        if services().await != json!([]) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(services().await, json!([entry]));
    let object = http.get(&format!("/1.0/identifiers/{did}"), "").await.json();
    entry = json!({ "network": network, "address": ann.address(), "transport": endpoint });
    assert_eq!(object["service"][0]["serviceEndpoint"], entry);
    http.post(&format!("/v1/ws/{network}/leave"), &session, &json!({})).await.data();
    for _ in 0..200 {
        if services().await == json!([]) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(services().await, json!([]));
    let put = json!({ "service": [{ "type": "OpenAgentsNetwork", "serviceEndpoint": "https://x.example", "network": "x1" }] });
    let path = format!("/v1/agentid/did/{did}/services");
    for (bearer, status) in [("", 401), ("nonsense", 401), (ann.api_key.as_str(), 200)] {
        assert_eq!(http.call("PUT", &path, bearer, &put.to_string()).await.unwrap().status, status, "{bearer}");
    }
    assert_eq!(services().await[0]["network"], "x1");
}

#[tokio::test]
async fn guessing_is_slowed_down_and_good_credentials_are_not() {
    let node = Node::start_paced();
    let http = Http::new(node.url());
    let path = format!("/v1/ws/{}/me", node.network());
    let mut statuses = Vec::new();
    for n in 0..rialto_model::limits::GUESSES_MAX * 2 {
        statuses.push(http.get(&path, &format!("guess-number-{n}-of-many")).await.status);
    }
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    let joined =
        http.post(&format!("/v1/ws/{}/join", node.network()), &node.token, &json!({ "agent_id": "agent:a" })).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    assert_eq!(http.get("/v1/admin/networks", node.admin()).await.status, 200);
}
