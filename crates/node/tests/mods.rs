//! Mods that run elsewhere: who waits for them and who does not, what becomes of those that do not answer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "mods/atomic.rs"]
mod atomic;
#[path = "mods/owed.rs"]
mod owed;
#[path = "mods/seeds.rs"]
mod seeds;

use rialto_model::limits;
use rialto_model::network::Preset;
use rialto_node::identity::sha256;
use rialto_node::mods::{ModConfig, Mode, OnError};
use rialto_node::{
    AdminOp, Caller, Capabilities, CreateNetwork, Inbox, ModPort, Network, Node, Out, Outbox, Query, View, outbox,
};
use rialto_store::disk::fault::{Call, FaultDisk};
use rialto_store::{LocalOptions, LocalStore, MemoryStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Long enough for anything that comes at all.
const PATIENCE: Duration = Duration::from_secs(20);

async fn network() -> (Node, Network) {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    (node, network)
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn try_send(network: &Network, caller: &Arc<Caller>, event: Value) -> Result<Value, String> {
    let answers =
        network.session(caller).emit(event.to_string().into()).await.map_err(|f| f.code.as_str().to_owned())?;
    let answered = answers.into_iter().next().unwrap();
    answered.result.map(|a| *a.result.unwrap_or_default()).map_err(|f| f.code.as_str().to_owned())
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let seed = Arc::new(Caller { operator: true, ..Caller::default() });
    let joined = try_send(network, &seed, event).await.unwrap();
    let session = sha256(joined["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

fn note(id: &str, target: &str) -> Value {
    json!({ "id": id, "type": "app.note", "target": target })
}

/// A stream and what came out of it, one thing after the other.
struct Stream {
    network: Network,
    name: String,
    connection: u64,
    outbox: Outbox,
    inbox: Inbox,
    ready: std::collections::VecDeque<Heard>,
}

#[derive(Debug, PartialEq)]
enum Heard {
    /// Id, and the code if it was refused.
    Answer(String, Option<String>),
    Delivered(Value),
    Check(Value),
    Closed,
}

impl Stream {
    fn new(network: &Network) -> Stream {
        let (outbox, inbox) = outbox(1024);
        let connection = network.connection();
        Stream { network: network.clone(), name: String::new(), connection, outbox, inbox, ready: Default::default() }
    }

    async fn of(network: &Network, name: &str) -> Stream {
        let mut stream = Stream { name: name.to_owned(), ..Stream::new(network) };
        stream.send(&[json!({ "type": "network.agent.join", "source": name, "target": "core", "id": "join" })]).await;
        assert!(matches!(stream.next().await, Heard::Answer(..)));
        stream
    }

    async fn send(&self, events: &[Value]) {
        let texts = events.iter().map(Value::to_string).collect();
        self.network.session(&operator()).emit_stream(self.connection, texts, &self.outbox).await.unwrap();
    }

    async fn next(&mut self) -> Heard {
        tokio::time::timeout(PATIENCE, self.wait()).await.unwrap()
    }

    /// Nothing comes for a while.
    async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(100), self.wait()).await.is_err()
    }

    async fn wait(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.ready.pop_front() {
                return heard;
            }
            for out in self.inbox.recv().await.unwrap() {
                match out {
                    Out::Delivery(part) => self.ready.extend(
                        part.records().iter().map(|r| Heard::Delivered(serde_json::from_str(&r.event.json()).unwrap())),
                    ),
                    Out::Stored(_) => {}
                    Out::Answers(list) => self.ready.extend(list.into_iter().filter(|a| !a.silent).map(|a| {
                        let code = a.result.as_ref().err().map(|fault| fault.code.as_str().to_owned());
                        Heard::Answer(a.event_id().unwrap_or_default().to_owned(), code)
                    })),
                    Out::Signal(signal) if signal.event().kind() == "rialto.mod.check" => {
                        self.ready.push_back(Heard::Check(serde_json::from_str(signal.event().payload()).unwrap()));
                    }
                    Out::Signal(_) => {}
                    Out::Close(_) => self.ready.push_back(Heard::Closed),
                }
            }
        }
    }

    async fn check(&mut self) -> Value {
        let heard = self.next().await;
        let Heard::Check(check) = heard else { panic!("{heard:?} instead of a check") };
        check
    }

    /// Answers a check; its own answer is read.
    async fn say(&mut self, ticket: &Value, verdict: Value) -> Option<String> {
        self.verdict(ticket, verdict).await;
        let mut others = Vec::new();
        let code = loop {
            let heard = self.next().await;
            if let Heard::Answer(id, code) = &heard
                && id == "verdict"
            {
                break code.clone();
            }
            others.push(heard);
        };
        others.into_iter().rev().for_each(|other| self.ready.push_front(other));
        code
    }

    async fn verdict(&self, ticket: &Value, mut verdict: Value) {
        verdict["ticket"] = ticket.clone();
        self.send(&[json!({ "id": "verdict", "type": "network.mod.verdict", "target": "core", "payload": verdict })])
            .await;
    }

    async fn serve(&mut self, wish: Value) {
        approve(&self.network, &wish, &self.name).await;
        self.send(&[json!({ "type": "network.mod.serve", "target": "core", "payload": wish })]).await;
        loop {
            match self.next().await {
                Heard::Answer(_, code) => return assert_eq!(code, None),
                Heard::Delivered(_) | Heard::Check(_) | Heard::Closed => {}
            }
        }
    }
}

/// The operator lets a member serve a mod.
async fn approve(network: &Network, wish: &Value, who: &str) {
    let name = wish["name"].as_str().unwrap().to_owned();
    network.admin(AdminOp::ApproveMod(name, who.to_owned(), true)).await.unwrap();
}

fn ok(id: &str) -> Heard {
    Heard::Answer(id.to_owned(), None)
}

fn refused(id: &str, code: &str) -> Heard {
    Heard::Answer(id.to_owned(), Some(code.to_owned()))
}

/// A guard that nobody waits for by accident: it has all the time it may have.
fn guard() -> Value {
    json!({ "name": "g", "mode": "guard", "intercepts": ["app.*"], "deadline_ms": limits::MOD_DEADLINE_MS_MAX })
}

#[tokio::test]
async fn one_sender_waits_for_a_mod_in_order_and_nobody_else_does() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut bob = Stream::of(&network, "agent:bob").await;
    server.serve(guard()).await;
    alice.send(&[note("a1", "agent:bob"), json!({ "id": "free", "type": "other.note", "target": "agent:bob" })]).await;
    alice.send(&[note("a2", "agent:bob")]).await;
    let first = server.check().await;
    assert_eq!(
        (&first["mod"], &first["event"]["id"], &first["step"]),
        (&json!("mod/g"), &json!("a1"), &json!("guard"))
    );
    assert_eq!(first["context"]["address"], json!("agent:alice"));
    // What alice sent later waits behind it, also what no mod looks at; bob does not wait.
    assert!(alice.is_quiet().await && bob.is_quiet().await);
    bob.send(&[json!({ "id": "b1", "type": "other.note", "target": "agent:server" })]).await;
    assert_eq!(bob.next().await, ok("b1"));
    assert!(matches!(server.next().await, Heard::Delivered(_)));
    assert_eq!(server.say(&first["ticket"], json!({ "verdict": "pass" })).await, None);
    assert_eq!(alice.next().await, ok("a1"));
    assert_eq!(alice.next().await, ok("free"));
    let second = server.check().await;
    assert_eq!(second["event"]["id"], json!("a2"));
    assert_eq!(server.say(&second["ticket"], json!({ "verdict": "reject" })).await, None);
    assert_eq!(alice.next().await, refused("a2", "rejected"));
    let delivered = [bob.next().await, bob.next().await];
    assert!(matches!(&delivered, [Heard::Delivered(a), Heard::Delivered(b)] if a["id"] == "a1" && b["id"] == "free"));
    assert!(bob.is_quiet().await);
    node.stop().await;
}

#[tokio::test]
async fn a_ticket_is_answered_once_by_whom_it_was_given_to() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut bob = Stream::of(&network, "agent:bob").await;
    server.serve(guard()).await;
    alice.send(&[note("a1", "agent:bob")]).await;
    let ticket = server.check().await["ticket"].clone();
    let late = Some("no_pending_request".to_owned());
    assert_eq!(bob.say(&ticket, json!({ "verdict": "pass" })).await, late, "somebody else's");
    assert_eq!(server.say(&json!("chk_1_1"), json!({ "verdict": "pass" })).await, late, "an older one's");
    assert_eq!(server.say(&json!("nonsense"), json!({ "verdict": "pass" })).await, late);
    assert_eq!(server.say(&ticket, json!({ "verdict": "perhaps" })).await.as_deref(), Some("invalid_payload"));
    assert!(alice.is_quiet().await, "what is no verdict decides nothing");
    assert_eq!(server.say(&ticket, json!({ "verdict": "pass" })).await, None);
    assert_eq!(server.say(&ticket, json!({ "verdict": "reject" })).await, late, "a second time");
    assert_eq!(alice.next().await, ok("a1"));
    node.stop().await;
}

#[tokio::test]
async fn a_mod_that_never_answers_refuses_or_is_skipped_and_others_go_on() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    server.serve(json!({ "name": "g", "mode": "guard", "intercepts": ["app.*"], "deadline_ms": 50 })).await;
    alice.send(&[note("a1", "agent:server"), note("a2", "agent:server")]).await;
    for id in ["a1", "a2"] {
        assert!(matches!(server.next().await, Heard::Check(_)));
        assert_eq!(alice.next().await, refused(id, "mod_failed"));
    }
    server.serve(json!({ "name": "g", "mode": "transform" })).await;
    alice.send(&[note("a3", "agent:server")]).await;
    assert_eq!(alice.next().await, ok("a3"));
    server.serve(json!({ "name": "g", "on_error": "reject" })).await;
    alice.send(&[note("a4", "agent:server")]).await;
    assert_eq!(alice.next().await, refused("a4", "mod_failed"));
    let counted = network.mod_counters().read();
    let failed: u64 = counted.iter().flat_map(|(_, c)| c.outcomes.values()).sum();
    assert_eq!((counted.len(), failed), (1, 4));
    node.stop().await;
}

#[tokio::test]
async fn a_mod_whose_server_is_away_is_not_waited_for_and_one_that_leaves_is_unloaded() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    server.serve(guard()).await;
    // It goes while it is asked: the next look notices, long before its time is over.
    alice.send(&[note("a1", "agent:server")]).await;
    server.check().await;
    network.close_stream(server.connection).await;
    assert_eq!(alice.next().await, refused("a1", "mod_failed"));
    alice.send(&[note("a2", "agent:server")]).await;
    assert_eq!(alice.next().await, refused("a2", "mod_failed"));
    // Its server may come back although its own mod refuses everything.
    let mut server = Stream::of(&network, "agent:server").await;
    alice.send(&[note("a3", "agent:server")]).await;
    let ticket = server.check().await["ticket"].clone();
    assert_eq!(server.say(&ticket, json!({ "verdict": "pass" })).await, None);
    assert_eq!(alice.next().await, ok("a3"));
    server.send(&[json!({ "type": "network.agent.leave", "target": "core" })]).await;
    alice.send(&[note("a4", "agent:broadcast")]).await;
    loop {
        match alice.next().await {
            Heard::Answer(id, code) => break assert_eq!((id.as_str(), code), ("a4", None)),
            Heard::Delivered(_) | Heard::Check(_) | Heard::Closed => {}
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn joins_wait_for_guards_and_what_follows_them_too() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    server
        .serve(json!({ "name": "door", "mode": "guard", "intercepts": ["network.agent.join"], "deadline_ms": 30_000 }))
        .await;
    let mut carol = Stream::new(&network);
    let join = json!({ "id": "j", "type": "network.agent.join", "source": "agent:carol", "target": "core",
        "payload": { "credentials": { "token": "very-secret" } } });
    carol.send(&[join.clone(), note("c1", "agent:server")]).await;
    carol.send(&[note("c2", "agent:server")]).await;
    let check = server.check().await;
    assert_eq!(check["event"]["source"], json!("agent:carol"));
    assert!(!check.to_string().contains("very-secret"));
    assert!(carol.is_quiet().await);
    assert_eq!(server.say(&check["ticket"], json!({ "verdict": "pass" })).await, None);
    for id in ["j", "c1", "c2"] {
        assert_eq!(carol.next().await, ok(id));
    }
    let mut dave = Stream::new(&network);
    dave.send(&[json!({ "id": "j", "type": "network.agent.join", "source": "agent:dave", "target": "core" })]).await;
    let ticket = loop {
        if let Heard::Check(check) = server.next().await {
            break check["ticket"].clone();
        }
    };
    server.verdict(&ticket, json!({ "verdict": "reject", "code": "acme.full" })).await;
    assert_eq!(dave.next().await, refused("j", "rejected"));
    // A request joins like a stream does.
    let asking = tokio::spawn({
        let network = network.clone();
        async move { join_seed(&network, "agent:erin").await }
    });
    let ticket = loop {
        if let Heard::Check(check) = server.next().await {
            break check["ticket"].clone();
        }
    };
    server.verdict(&ticket, json!({ "verdict": "pass" })).await;
    assert_eq!(asking.await.unwrap(), Ok(()));
    node.stop().await;
}

#[tokio::test]
async fn what_a_stream_sent_before_it_ended_is_taken_and_a_join_that_waits_is_not() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let alice = Stream::of(&network, "agent:alice").await;
    server
        .serve(json!({ "name": "g", "mode": "guard", "intercepts": ["app.*", "network.agent.join"],
        "deadline_ms": limits::MOD_DEADLINE_MS_MAX }))
        .await;
    alice.send(&[note("a1", "agent:server"), note("a2", "agent:server")]).await;
    let first = server.check().await;
    network.close_stream(alice.connection).await;
    assert_eq!(server.say(&first["ticket"], json!({ "verdict": "pass" })).await, None);
    let second = server.check().await;
    assert_eq!(server.say(&second["ticket"], json!({ "verdict": "pass" })).await, None);
    let delivered = [server.next().await, server.next().await];
    assert!(matches!(&delivered, [Heard::Delivered(a), Heard::Delivered(b)] if a["id"] == "a1" && b["id"] == "a2"));
    // Nobody comes in by a stream that is gone.
    let carol = Stream::new(&network);
    let join = json!({ "id": "j", "type": "network.agent.join", "source": "agent:carol", "target": "core" });
    carol.send(&[join, note("c1", "agent:server")]).await;
    let check = server.check().await;
    network.close_stream(carol.connection).await;
    assert_eq!(server.say(&check["ticket"], json!({ "verdict": "pass" })).await, None);
    assert!(server.is_quiet().await);
    server.send(&[note("s1", "agent:carol")]).await;
    assert_eq!(server.next().await, refused("s1", "unknown_target"));
    node.stop().await;
}

async fn join_seed(network: &Network, name: &str) -> Result<(), String> {
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    try_send(network, &operator(), event).await.map(drop)
}

#[tokio::test]
async fn a_guests_first_event_waits_and_joins_it() {
    let (node, network) = network().await;
    let (token, added) = node.make_token(None, None, None, None).unwrap();
    network.admin(AdminOp::AddToken(added)).await.unwrap();
    let mut server = Stream::of(&network, "agent:server").await;
    server.serve(guard()).await;
    let guest = Arc::new(Caller {
        bearer: Some(token.sha256()),
        claimed: Some("openagents:guest".into()),
        capabilities: Capabilities::ALL,
        ..Caller::default()
    });
    let sending = |id: &'static str| {
        let (network, guest) = (network.clone(), guest.clone());
        tokio::spawn(async move { try_send(&network, &guest, note(id, "agent:server")).await.map(drop) })
    };
    let first = sending("g1");
    let check = server.check().await;
    assert_eq!(check["event"]["source"], json!("openagents:guest"));
    server.verdict(&check["ticket"], json!({ "verdict": "reject" })).await;
    assert_eq!(first.await.unwrap(), Err("rejected".to_owned()));
    let profile = network.session(&operator()).profile().await.unwrap();
    assert_eq!(profile.agents_online, 1, "nobody joins with what was refused");
    let second = sending("g2");
    let ticket = loop {
        if let Heard::Check(check) = server.next().await {
            break check["ticket"].clone();
        }
    };
    server.verdict(&ticket, json!({ "verdict": "pass" })).await;
    assert_eq!(second.await.unwrap(), Ok(()));
    node.stop().await;
}

#[tokio::test]
async fn a_member_that_polls_serves_mods_too() {
    let (node, network) = network().await;
    let server = join(&network, "agent:server").await;
    let alice = join(&network, "agent:alice").await;
    approve(&network, &guard(), "agent:server").await;
    let serve = json!({ "type": "network.mod.serve", "target": "core", "payload": guard() });
    try_send(&network, &server, serve).await.unwrap();
    let sending = tokio::spawn({
        let network = network.clone();
        async move { try_send(&network, &alice, note("a1", "agent:server")).await.map(drop) }
    });
    let poll = Query { view: Some(View::Inbox), asks: true, ..Query::default() };
    let mut head = network.head();
    let check = loop {
        head.borrow_and_update();
        let page = network.session(&server).query(&poll).await.unwrap();
        if let Some(check) = page.checks.first() {
            break serde_json::from_str::<Value>(check.payload()).unwrap();
        }
        tokio::time::timeout(PATIENCE, head.changed()).await.unwrap().unwrap();
    };
    assert!(network.session(&server).query(&poll).await.unwrap().checks.is_empty(), "handed out once");
    let verdict = json!({ "ticket": check["ticket"], "verdict": "pass" });
    try_send(&network, &server, json!({ "type": "network.mod.verdict", "target": "core", "payload": verdict }))
        .await
        .unwrap();
    assert_eq!(sending.await.unwrap(), Ok(()));
    node.stop().await;
}

/// A process mod that answers each question with what the function says.
async fn process(network: &Network, config: ModConfig, said: impl Fn(&Value) -> String + Send + 'static) {
    let name = config.name.to_string();
    network.admin(AdminOp::SetMod(config)).await.unwrap();
    let mut port = network.mod_port(&name).await;
    tokio::spawn(async move {
        while let Some(asked) = port.next().await {
            let question: Value = serde_json::from_str(&asked.line).unwrap();
            port.said(&asked, &said(&question)).await;
        }
    });
}

#[tokio::test]
async fn what_mods_send_comes_after_what_they_answer_and_ends() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut bob = Stream::of(&network, "agent:bob").await;
    // Each answers every event of the other: that ends.
    for name in ["ping", "pong"] {
        let config = ModConfig { intercepts: vec!["app.*".into()], ..ModConfig::process(name, Mode::Guard) };
        process(&network, config, move |question| {
            let n = question["event"]["payload"]["n"].as_u64().unwrap_or(0);
            let emit = json!({ "type": "app.echo", "target": "agent:bob", "payload": { "n": n + 1 } });
            json!({ "verdict": "pass", "emit": [emit] }).to_string()
        })
        .await;
    }
    alice.send(&[note("a1", "agent:bob")]).await;
    assert_eq!(alice.next().await, ok("a1"));
    let mut heard = Vec::new();
    while heard.len() < 17 {
        if let Heard::Delivered(event) = bob.next().await {
            heard.push((event["source"].clone(), event["payload"]["n"].as_u64().unwrap_or(0)));
        }
    }
    assert_eq!(heard[0], (json!("agent:alice"), 0), "the cause comes first");
    let deepest = heard.iter().map(|(_, n)| *n).max().unwrap();
    assert_eq!(deepest, u64::from(limits::MOD_EMIT_DEPTH_MAX));
    assert!(heard.iter().skip(1).all(|(source, _)| *source == json!("mod/ping") || *source == json!("mod/pong")));
    assert!(bob.is_quiet().await);
    node.stop().await;
}

#[tokio::test]
async fn mail_to_a_mod_is_answered_by_it() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let config = ModConfig { intercepts: vec!["nothing.*".into()], ..ModConfig::process("desk", Mode::Observe) };
    process(&network, config, |question| {
        let to = &question["event"]["source"];
        let emit = json!({ "type": "desk.answer", "target": to, "payload": { "of": question["event"]["payload"] } });
        json!({ "verdict": "pass", "emit": [emit] }).to_string()
    })
    .await;
    alice.send(&[json!({ "id": "q", "type": "desk.question", "target": "mod/desk", "payload": { "n": 5 } })]).await;
    assert_eq!(alice.next().await, ok("q"));
    let Heard::Delivered(answer) = alice.next().await else { panic!("no answer") };
    assert_eq!((&answer["source"], &answer["metadata"]["in_reply_to"]), (&json!("mod/desk"), &json!("q")));
    assert_eq!(answer["payload"]["of"]["n"], json!(5));
    node.stop().await;
}

#[tokio::test]
async fn observers_see_what_was_committed_and_may_answer_it() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let config = ModConfig { intercepts: vec!["app.*".into()], ..ModConfig::process("watch", Mode::Observe) };
    process(&network, config, |question| {
        let seen = &question["event"]["id"];
        json!({ "verdict": "reject", "emit": [{ "type": "watch.saw", "target": "agent:alice", "payload": { "id": seen } }] })
            .to_string()
    })
    .await;
    alice.send(&[note("a1", "agent:broadcast")]).await;
    assert_eq!(alice.next().await, ok("a1"));
    let Heard::Delivered(saw) = alice.next().await else { panic!("nothing was seen") };
    assert_eq!(saw["payload"]["id"], json!("a1"));
    node.stop().await;
}

#[tokio::test]
async fn an_observer_that_answers_nothing_is_shown_so_much_and_no_more() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let config = ModConfig { intercepts: vec!["app.*".into()], ..ModConfig::process("slow", Mode::Observe) };
    network.admin(AdminOp::SetMod(config)).await.unwrap();
    let mut port = network.mod_port("slow").await;
    // A reader that reads and never answers.
    let reading = tokio::spawn(async move {
        let mut shown = 0;
        while tokio::time::timeout(Duration::from_secs(2), port.next()).await.is_ok_and(|asked| asked.is_some()) {
            shown += 1;
        }
        shown
    });
    let more = limits::MOD_OBSERVING_MAX + 50;
    for n in 0..more {
        alice.send(&[note(&format!("n{n}"), "core")]).await;
        assert_eq!(alice.next().await, ok(&format!("n{n}")));
    }
    assert_eq!(reading.await.unwrap(), limits::MOD_OBSERVING_MAX);
    let missed: u64 = network.mod_counters().read().iter().flat_map(|(_, c)| c.outcomes.values()).sum();
    assert_eq!(missed, 50);
    node.stop().await;
}

#[tokio::test]
async fn checks_that_nobody_polls_are_bounded() {
    let (node, network) = network().await;
    let server = join(&network, "agent:server").await;
    let serve = json!({ "name": "o", "mode": "observe", "intercepts": ["app.*"] });
    approve(&network, &serve, "agent:server").await;
    try_send(&network, &server, json!({ "type": "network.mod.serve", "target": "core", "payload": serve }))
        .await
        .unwrap();
    let mut alice = Stream::of(&network, "agent:alice").await;
    for n in 0..limits::MOD_CHECKS_WAITING_MAX + 10 {
        alice.send(&[note(&format!("n{n}"), "core")]).await;
        assert_eq!(alice.next().await, ok(&format!("n{n}")));
    }
    let poll = Query { view: Some(View::Inbox), asks: true, ..Query::default() };
    let checks = network.session(&server).query(&poll).await.unwrap().checks;
    assert_eq!(checks.len(), limits::MOD_CHECKS_WAITING_MAX);
    let newest: Value = serde_json::from_str(checks.last().unwrap().payload()).unwrap();
    assert_eq!(newest["event"]["id"], json!(format!("n{}", limits::MOD_CHECKS_WAITING_MAX + 9)));
    node.stop().await;
}

/// A port that is held and never answers.
async fn silent(network: &Network, config: ModConfig) -> ModPort {
    let name = config.name.to_string();
    network.admin(AdminOp::SetMod(config)).await.unwrap();
    network.mod_port(&name).await
}

fn patient(name: &str) -> ModConfig {
    let deadline_ms = Some(limits::MOD_DEADLINE_MS_MAX);
    ModConfig { intercepts: vec!["app.*".into()], deadline_ms, ..ModConfig::process(name, Mode::Guard) }
}

#[tokio::test]
async fn a_stop_answers_those_that_wait() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut port = silent(&network, patient("p")).await;
    alice.send(&[note("a1", "core"), note("a2", "core")]).await;
    assert!(port.next().await.is_some());
    node.stop().await;
    assert!(matches!(alice.next().await, Heard::Answer(_, Some(code)) if code == "shutting_down"));
}

#[tokio::test]
async fn what_waits_is_not_kept_and_the_mod_is() {
    let disk = FaultDisk::new(3);
    let open = |disk: &FaultDisk| {
        let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
        Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap())
    };
    let node = Node::over(open(&disk), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut port = silent(&network, patient("p")).await;
    alice.send(&[note("a1", "core")]).await;
    assert!(port.next().await.is_some());
    // The disk fails while an event waits: it is answered, and nothing of it is there.
    disk.fail(Call::Sync, 0, std::io::ErrorKind::Other, false);
    let bob = Stream::of_refused(&network, "agent:bob").await;
    drop(bob);
    assert!(matches!(alice.next().await, Heard::Answer(_, Some(code)) if code == "storage_unavailable"));
    node.stop().await;
    drop(node);
    let node = Node::over(open(&disk), None, false).await.unwrap();
    let network = node.default_network().unwrap();
    let loaded = network.session(&operator()).mods().await.unwrap();
    assert!(loaded.mods.iter().any(|m| m.address == "mod/p"), "loaded as before");
    let mut alice = Stream::of(&network, "agent:alice").await;
    alice.send(&[note("a1", "core")]).await;
    assert_eq!(alice.next().await, refused("a1", "mod_failed"), "a guard without its process refuses");
    node.stop().await;
}

impl Stream {
    /// A join that a failing disk refuses.
    async fn of_refused(network: &Network, name: &str) -> Stream {
        let mut stream = Stream::new(network);
        stream.send(&[json!({ "type": "network.agent.join", "source": name, "target": "core" })]).await;
        assert!(matches!(stream.next().await, Heard::Answer(_, Some(code)) if code == "storage_unavailable"));
        stream
    }
}

#[tokio::test]
async fn transforms_change_what_a_tool_is_given_before_it_is_checked() {
    let (node, network) = network().await;
    let mut owner = Stream::of(&network, "agent:owner").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let tool = json!({ "address": "resource/tool/add", "schema": { "input": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } } } });
    owner.send(&[json!({ "id": "reg", "type": "network.resource.register", "target": "core", "payload": tool })]).await;
    assert_eq!(owner.next().await, ok("reg"));
    let invokes = vec!["network.resource.invoke".to_owned()];
    let config =
        ModConfig { intercepts: invokes, on_error: OnError::Reject, ..ModConfig::process("fix", Mode::Transform) };
    process(&network, config, |question| {
        let n: i64 = question["event"]["payload"]["n"].as_str().unwrap().parse().unwrap();
        json!({ "verdict": "modified", "event": { "payload": { "n": n } } }).to_string()
    })
    .await;
    let call = |id: &str, n: Value| json!({ "id": id, "type": "network.resource.invoke", "target": "resource/tool/add", "payload": { "n": n } });
    alice.send(&[call("c1", json!("5"))]).await;
    assert_eq!(alice.next().await, ok("c1"));
    let Heard::Delivered(call) = owner.next().await else { panic!("no call") };
    assert_eq!(call["payload"]["n"], json!(5));
    node.stop().await;
}

/// Everything of sixteen senders, as much as each may have waiting, is let go at once when the mod they wait for goes: more than the log
/// takes in one batch.
#[tokio::test]
async fn what_waited_is_let_go_in_pieces_when_its_mod_goes() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    server.serve(json!({ "name": "t", "mode": "transform", "intercepts": ["app.*"], "deadline_ms": 30_000 })).await;
    let pad = "x".repeat(900 << 10);
    let heavy = |id: String| json!({ "id": id, "type": "app.note", "target": "core", "payload": { "pad": pad } });
    let mut waiting = tokio::task::JoinSet::new();
    let senders = 14;
    for n in 0..senders {
        let caller = join(&network, &format!("agent:s{n}")).await;
        let texts = (0..4).map(|i| heavy(format!("{n}-{i}")).to_string()).collect();
        let network = network.clone();
        waiting.spawn(async move { network.session(&caller).emit(texts).await.unwrap() });
    }
    for _ in 0..senders {
        server.check().await;
    }
    network.close_stream(server.connection).await;
    let answers: Vec<_> = waiting.join_all().await.into_iter().flatten().collect();
    assert_eq!(answers.len(), senders * 4);
    for answer in &answers {
        assert!(answer.result.is_ok(), "{:?}", answer.result.as_ref().err());
    }
    // The network is what it was.
    let bob = join(&network, "agent:bob").await;
    try_send(&network, &bob, json!({ "type": "other.note", "target": "core" })).await.unwrap();
    node.stop().await;
}

#[tokio::test]
async fn mod_timeouts_max_suspends_a_mod_until_it_answers_a_probe() {
    let (node, network) = network().await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    server.serve(json!({ "name": "g", "mode": "guard", "intercepts": ["app.*"], "deadline_ms": 50 })).await;
    let suspended = || network.mod_counters().read().iter().any(|(_, counts)| counts.suspended);
    for n in 0..limits::MOD_TIMEOUTS_MAX {
        assert!(!suspended());
        alice.send(&[note(&format!("t{n}"), "core")]).await;
        assert_eq!(server.check().await["event"]["id"], json!(format!("t{n}")));
        assert_eq!(alice.next().await, refused(&format!("t{n}"), "mod_failed"));
    }
    // It stays closed, and nobody waits for it: it is not even asked.
    assert!(suspended());
    let caller = join(&network, "agent:bob").await;
    let answers = network.session(&caller).emit(note("closed", "core").to_string().into()).await.unwrap();
    let fault = answers[0].result.as_ref().unwrap_err();
    assert_eq!(fault.code.as_str(), "mod_failed");
    assert!(fault.message.contains("mod/g") && fault.message.contains("suspended"), "{}", fault.message);
    // What comes next is a probe; once it is answered the mod is asked again.
    let probe = server.check().await;
    assert_eq!((&probe["event"]["type"], &probe["mod"]), (&json!("rialto.mod.probe"), &json!("mod/g")));
    assert_eq!(server.say(&probe["ticket"], json!({ "verdict": "pass" })).await, None);
    assert!(!suspended());
    alice.send(&[note("open", "core")]).await;
    let check = server.check().await;
    assert_eq!(check["event"]["id"], json!("open"));
    server.verdict(&check["ticket"], json!({ "verdict": "pass" })).await;
    assert_eq!(alice.next().await, ok("open"));
    node.stop().await;
}
