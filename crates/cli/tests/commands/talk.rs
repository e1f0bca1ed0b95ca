//! `send`, `inbox`, `ack`, `tail`, `history`, `search` and `explain`.

use crate::support::{Node, Ran, RunningNode, until};
use crate::{ids, rung};
use serde_json::json;

#[test]
fn mail_waits_is_read_and_acked() {
    let node = Node::start();
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), Vec::<String>::new());
    let id = node.words(&["send", "bob", "two words", "--as", "alice"]).ok().out.trim().to_owned();
    let inbox = node.line("inbox --as bob").ok();
    assert!(inbox.out.contains("agent:alice → agent:bob: two words") && inbox.err.contains(&format!("--up-to {id}")));
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), std::slice::from_ref(&id), "reading acks nothing");
    assert_eq!(node.words(&["ack", &id, "--as", "bob", "--json"]).ok().json(), json!({ "acked": 1 }));
    assert_eq!(node.words(&["ack", &id, "--as", "bob", "--json"]).ok().json(), json!({ "acked": 0 }));
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), Vec::<String>::new());
    for n in 0..3 {
        node.words(&["send", "bob", "more", "--as", "alice", "--id", &format!("more-{n}")]).ok();
    }
    assert_eq!(node.line("ack --up-to more-1 --as bob --json").ok().json(), json!({ "acked": 2 }));
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), ["more-2"]);
}

#[test]
fn inbox_waits_for_mail() {
    let node = Node::start();
    let waiting = RunningNode::start(node.command(&["inbox", "--as", "bob", "--wait", "20", "--json"]));
    until("bob to come", || node.line("who --json").out.contains("agent:bob").then_some(()));
    let started = std::time::Instant::now();
    node.line("send bob wake --as alice --id wake-1").ok();
    assert!(waiting.rest().contains("wake-1"));
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "it was not woken");
    assert_eq!(ids(&node.line("inbox --as carol --wait 1 --json").ok()), Vec::<String>::new());
}

#[test]
fn what_send_takes_and_what_it_refuses() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    node.typed("send bob --as alice --id typed-1", "from a pipe\nsecond line\n").ok();
    node.typed("send bob - --as alice --id typed-2", "dash").ok();
    node.typed("send bob --as alice --id typed-3 --type my.own.type --payload -", r#"{"n": 1.50}"#).ok();
    let again = node.typed("send bob --as alice --id typed-1 --json", "from a pipe\nsecond line\n").ok().json();
    assert_eq!((&again["duplicate"], &again["id"]), (&json!(true), &json!("typed-1")));
    let inbox = node.line("inbox --as bob --json").ok();
    assert_eq!(ids(&inbox), ["typed-1", "typed-2", "typed-3"]);
    assert!(inbox.out.contains(r#"{"content":"from a pipe\nsecond line"}"#) && inbox.out.contains(r#"{"n": 1.50}"#));

    node.line("send bob other --as alice --id typed-1").fails(5, "id_conflict");
    node.line("send nobody hi --as alice").fails(3, "unknown_target").fails(3, "rialto who");
    node.line("send channel/none hi --as alice").fails(3, "unknown_target");
    node.line("send foo/bar hi --as alice").fails(2, "no address");
    node.line("send bob hi --as channel/x").fails(2, "nobody can speak as");
    node.line("send bob hi --as alice --type network.own.type").fails(4, "reserved_type");
    node.line("send bob hi --as alice --payload []").fails(2, "cannot be used with");
    node.line("send bob --as alice --payload []").fails(2, "JSON object");
    node.line("sned bob hi").fails(2, "send");
    let error: serde_json::Value = serde_json::from_str(&node.line("send nobody hi --as alice --json").err).unwrap();
    assert_eq!(error["error"]["code"], "unknown_target", "{error}");
}

#[test]
fn an_answer_is_waited_for() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    let late = node.line("send bob q0 --as alice --wait=1").fails(7, "no answer to");
    assert!(!late.out.trim().is_empty(), "the id is told all the same");
    let asking = node.command(&["send", "bob", "q1", "--as", "alice", "--id", "q1", "--wait=20", "--json"]);
    let asking = std::thread::spawn(move || Ran::of(asking, ""));
    until("the question", || node.line("inbox --as bob --json").out.contains("\"q1\"").then_some(()));
    node.line("send alice the-answer --as bob --reply-to q1").ok();
    let answered = asking.join().unwrap().ok().json();
    assert_eq!(answered["response"]["payload"]["content"], "the-answer");
    assert_eq!(answered["response"]["metadata"]["in_reply_to"], "q1");
    // In text the answer is what is printed.
    let asking = node.command(&["send", "bob", "q2", "--as", "alice", "--id", "q2", "--wait=20"]);
    let asking = std::thread::spawn(move || Ran::of(asking, ""));
    until("the question", || node.line("inbox --as bob --json").out.contains("\"q2\"").then_some(()));
    node.line("send alice second-answer --as bob --reply-to q2").ok();
    assert!(asking.join().unwrap().ok().out.contains("second-answer"));
}

#[test]
fn tail_follows_over_a_restart() {
    let mut node = Node::start_with(&["--listen", &free_port()]);
    node.line("send channel/general before --as alice").ok();
    let tail = RunningNode::start(node.command(&["tail", "channel/general", "--json", "--as", "bob"]));
    until("bob to come", || node.line("who --json").out.contains("agent:bob").then_some(()));
    // It follows once something that is said comes out.
    let mut said = 0;
    until("the tail", || {
        said += 1;
        node.words(&["send", "channel/general", "probe", "--as", "alice", "--id", &format!("probe-{said}")]).ok();
        tail.line_within(std::time::Duration::from_millis(100))
    });
    node.line("send bob private --as alice --id tail-private").ok();
    node.line("send channel/general first --as alice --id tail-1").ok();
    loop {
        let line = tail.line();
        assert!(!line.contains("tail-private"), "{line}");
        if line.contains("tail-1") {
            break;
        }
    }
    node.kill();
    node.restart();
    node.line("send channel/general second --as alice --id tail-2").ok();
    assert!(tail.line().contains("tail-2"));
    // With a beginning, the past comes first.
    let tail = RunningNode::start(node.command(&["tail", "channel/general", "--since", "1h"]));
    let mut lines = std::iter::from_fn(|| Some(tail.line())).filter(|line| !line.ends_with("probe"));
    for said in ["before", "first", "second"] {
        let line = lines.next().unwrap();
        assert!(line.ends_with(said), "{line}");
    }
}

/// A port that was free a moment ago: a node that is to come back needs a fixed one.
pub fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn history_by_every_choice() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    for n in 0..5 {
        node.words(&["send", "channel/general", &format!("line {n}"), "--as", "alice", "--id", &format!("h{n}")]).ok();
    }
    node.line("send bob direct --as alice --id d1").ok();
    node.line("send channel/general typed --as bob --id t1 --type my.own.type --payload {}").fails(2, "cannot be used");
    node.line("send channel/general --as bob --id t1 --type my.own.type --payload {}").ok();
    let read = |line: &str| ids(&node.words(&[&line.split(' ').collect::<Vec<_>>()[..], &["--json"]].concat()).ok());
    assert_eq!(read("history channel/general --type workspace.message"), ["h0", "h1", "h2", "h3", "h4"]);
    assert_eq!(read("history channel/general --limit 2 --from alice"), ["h3", "h4"]);
    assert_eq!(read("history channel/general --after h2 --limit 1"), ["h3"]);
    assert_eq!(read("history channel/general --before h2"), ["h0", "h1"]);
    assert_eq!(read("history channel/general --since h3"), ["h4", "t1"]);
    assert_eq!(read("history bob"), ["d1"]);
    assert_eq!(read("history --type my.own.*"), ["t1"]);
    assert_eq!(read("history channel/general --since 1h --limit 3"), ["h0", "h1", "h2"]);
    assert!(!node.line("history --json --as carol").ok().out.contains("\"d1\""), "somebody else's mail");
    node.line("history --after no-such-event").fails(3, "cursor_unknown");
    node.line("history --since yesterdayish-x!").fails(2, "yesterdayish");
}

#[test]
fn search_finds_what_one_may_see_at_once() {
    let node = Node::start();
    for name in ["bob", "carol"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    node.line("channel create secret --private --with bob --as alice").ok();
    for n in 0..20 {
        let text = format!("第{n}次会议纪要 number-{n}");
        node.words(&["send", "channel/general", &text, "--as", "alice", "--id", &format!("s{n}")]).ok();
        let found = ids(&node.words(&["search", &format!("number-{n}"), "--as", "alice", "--json"]).ok());
        assert!(found.contains(&format!("s{n}")), "{n}: {found:?}");
    }
    node.line("send channel/secret 秘密纪要 --as alice --id hidden").ok();
    node.line("send bob 密码在这里 --as alice --id letter").ok();
    let find =
        |text: &str, name: &str| ids(&node.words(&["search", text, "--as", name, "--limit", "50", "--json"]).ok());
    assert_eq!(find("会议纪要", "carol").len(), 20);
    assert_eq!(find("纪要", "bob").len(), 21, "two characters are found too");
    assert_eq!(find("纪要", "carol").len(), 20);
    assert_eq!(find("秘密", "carol"), Vec::<String>::new());
    assert_eq!(find("秘密", "bob"), ["hidden"]);
    assert_eq!((find("密码", "bob"), find("密码", "carol")), (vec!["letter".to_owned()], vec![]));
    assert_eq!(ids(&node.line("search 密码 --json").ok()), ["letter"], "the operator sees all");
    assert!(node.line("search 密码").ok().err.contains("1 event found"));
    assert_eq!(find("no such words anywhere", "bob"), Vec::<String>::new());
    let one = ids(&node.line("search 纪要 --limit 1 --json").ok());
    assert_eq!(one, ["hidden"], "the newest first");
    // Seats given up hide what was there.
    node.line("channel leave secret --as bob").ok();
    assert_eq!(find("秘密", "bob"), Vec::<String>::new());
}

#[test]
fn a_deleted_search_index_is_made_again() {
    let mut node = Node::start();
    node.line("send channel/general findme-please --as alice --id f1").ok();
    node.stop();
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        std::fs::remove_file(node.data().join(name)).ok();
    }
    node.restart();
    assert_eq!(ids(&node.line("search findme-please --json").ok()), ["f1"]);
    until("the index", || node.data().join("search.db").exists().then_some(()));
    node.line("send channel/general findme-too --as alice --id f2").ok();
    assert_eq!(ids(&node.line("search findme --json").ok()), ["f1", "f2"]);
    // Nor does rubbish in its place keep anything from starting.
    node.stop();
    std::fs::write(node.data().join("search.db"), "rubbish, not a database at all").unwrap();
    node.restart();
    assert_eq!(ids(&node.line("search findme --json").ok()), ["f1", "f2"]);
}

#[test]
fn explain_shows_every_rung() {
    let node = Node::start();
    for name in ["bob", "carol"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    let explain = |id: &str| node.words(&["explain", id, "--json"]).ok().json();
    node.line("send channel/general hi --as alice --id e1").ok();
    let told = explain("e1");
    assert_eq!((&told["status"], &told["redacted"]), (&json!("stored"), &json!(false)));
    assert_eq!(rung(&told, "agent:bob"), "stored");
    node.line("inbox --as bob").ok();
    assert_eq!(rung(&explain("e1"), "agent:bob"), "delivered");
    assert_eq!(rung(&explain("e1"), "agent:carol"), "stored");
    node.line("ack e1 --as bob").ok();
    let told = explain("e1");
    assert_eq!((rung(&told, "agent:bob"), rung(&told, "agent:carol")), (&json!("acked"), &json!("stored")));
    assert!(node.line("explain e1").ok().out.contains("acked"));
    // The sender may ask, a recipient about itself, nobody else.
    assert_eq!(node.line("explain e1 --as alice --json").ok().json()["recipients"].as_array().unwrap().len(), 2);
    let own = node.line("explain e1 --as bob --json").ok().json();
    assert_eq!(own["recipients"].as_array().unwrap().len(), 1);
    node.line("inbox --as late").ok();
    node.line("explain e1 --as late").fails(3, "no event");
    node.line("explain no-such-event").fails(3, "no event");

    node.line("send nobody hi --as alice --id refused-1").fails(3, "unknown_target");
    let told = explain("refused-1");
    assert_eq!((&told["status"], &told["error"]["code"]), (&json!("refused"), &json!("unknown_target")));
    node.line("explain refused-1 --as alice").ok();
    node.line("explain refused-1 --as bob").fails(3, "no event");

    let dying = r#"{"id":"dies","type":"my.own.type","target":"agent:bob","payload":{},"metadata":{"ttl_ms":300}}"#;
    let join = r#"{"type":"network.agent.join","source":"agent:dan","target":"core"}"#;
    node.typed("stdio", &format!("{join}\n{dying}\n")).ok();
    let told = until("its death", || Some(explain("dies")).filter(|told| rung(told, "agent:bob") == "dead"));
    assert_eq!(told["recipients"][0]["reason"], "ttl");
    assert!(!node.line("inbox --as bob --json").ok().out.contains("\"dies\""));
    let notice = node.line("inbox --as dan --json").ok();
    assert!(notice.out.contains("rialto.delivery.dead") && notice.out.contains("\"dies\""), "{notice:?}");
}
