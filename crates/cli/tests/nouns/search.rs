//! Searching while the index is far behind the log: everything is found on every carrier, in both orders, and a page that could not
//! look at all of the log says so.

use crate::support::http::Http;
use crate::support::sse::Sse;
use crate::support::{Node, until};
use rialto_model::limits;
use rialto_openagents::grpc::pb;
use rialto_sim::contract::{Carrier, Member, bearing, ids_of};
use serde_json::{Value, json};

const CARRIERS: [Carrier; 5] =
    [Carrier::HttpInbox, Carrier::WebSocket, Carrier::GrpcUnary, Carrier::GrpcConnect, Carrier::Stdio];
/// More than one read looks at.
const BURST: usize = limits::SCAN_EVENTS_MAX + 5_000;

/// Changes the index of a node while nobody runs on it. A node that is killed leaves no seal, so it takes the index as it is.
fn tamper(node: &mut Node, sql: &str) {
    node.kill();
    let connection = rusqlite::Connection::open(node.data().join("search.db")).unwrap();
    connection.execute_batch(sql).unwrap();
    drop(connection);
    node.restart();
}

/// Keeps the node from writing into its index.
fn hold_index(node: &mut Node) {
    tamper(
        node,
        "CREATE TRIGGER held_in BEFORE INSERT ON progress BEGIN SELECT RAISE(ABORT, 'held back'); END;
         CREATE TRIGGER held_up BEFORE UPDATE ON progress BEGIN SELECT RAISE(ABORT, 'held back'); END;",
    );
}

fn caught_up(node: &Node) {
    until("the index catches up", || {
        let page = node.line("search heron --json").ok().json();
        (page["indexed_through"].as_u64()? == page["head"].as_u64()?).then_some(())
    });
}

/// Reads a search page by page to its end; gives the ids found and how many pages it took.
async fn to_the_end(filters: &Value, mut page_of: impl AsyncFnMut(Value) -> Value) -> (Vec<String>, usize) {
    let cursor = if filters["sort"] == "desc" { "before" } else { "after" };
    let (mut filters, mut found) = (filters.clone(), Vec::new());
    for pages in 1..200 {
        let page = page_of(filters.clone()).await;
        assert!(page["indexed_through"].is_u64() && page["head"].is_u64(), "{filters}: {page}");
        found.extend(ids_of(&page));
        if page["has_more"] == false {
            return (found, pages);
        }
        assert_ne!(page["next_cursor"], filters[cursor], "{filters} goes on nowhere");
        filters[cursor] = page["next_cursor"].clone();
    }
    panic!("{filters} has no end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_back_index_hides_nothing_on_any_carrier() {
    let mut node = Node::start();
    node.line("send channel/general indexed-heron --as alice --id indexed").ok();
    caught_up(&node);
    hold_index(&mut node);
    let (place, http) = (node.place(), Http::new(node.url()));
    let base = format!("/v1/ws/{}", node.network());
    let indexed_through = node.line("search heron --json").ok().json()["indexed_through"].as_u64().unwrap();

    let joined = http.post(&format!("{base}/join"), &node.token, &json!({ "agent_id": "agent:bulk" })).await.data();
    let session = joined["session_id"].as_str().unwrap();
    let mut burst: Vec<String> = Vec::new();
    for n in 0..BURST {
        let text = match n {
            100 => "an early kingfisher",
            n if n == BURST - 100 => "a late kingfisher",
            _ => "a sparrow",
        };
        let event = json!({
            "id": format!("burst-{n}"), "type": "test.note.posted", "target": "channel/general",
            "payload": { "content": text },
        });
        burst.push(event.to_string());
    }
    for batch in burst.chunks(limits::BATCH_EVENTS_MAX) {
        let body = format!("[{}]", batch.join(","));
        let answer = http.call("POST", &format!("{base}/events"), session, &body).await.unwrap();
        assert!(!answer.data().to_string().contains("\"ok\":false"));
    }
    let (early, late) = ("burst-100".to_owned(), format!("burst-{}", BURST - 100));

    for (n, carrier) in CARRIERS.into_iter().enumerate() {
        let mut member = Member::join(&place, carrier, &format!("reader-{n}")).await.unwrap();
        let mut asked = 0;
        let mut page_of = async |filters: Value| {
            asked += 1;
            member.query_page(&format!("q-{n}-{asked}"), &filters).await.unwrap().unwrap()
        };
        // The newest end of the log comes first here, and the page says that it is not all.
        let first = page_of(json!({ "search": "kingfisher", "sort": "desc" })).await;
        assert_eq!(ids_of(&first), std::slice::from_ref(&late), "{carrier:?}");
        assert_eq!((&first["has_more"], &first["indexed_through"]), (&json!(true), &json!(indexed_through)));
        assert!(first["head"].as_u64().unwrap() > indexed_through + BURST as u64);
        let first = page_of(json!({ "search": "kingfisher" })).await;
        assert_eq!((ids_of(&first), &first["has_more"]), (vec![early.clone()], &json!(true)), "{carrier:?}");
        for (filters, expected) in [
            (json!({ "search": "kingfisher", "sort": "desc" }), vec![&late, &early]),
            (json!({ "search": "kingfisher", "sort": "asc" }), vec![&early, &late]),
            (json!({ "search": "kingfisher", "sort": "desc", "limit": 1 }), vec![&late, &early]),
            (json!({ "search": "kingfisher", "limit": 1 }), vec![&early, &late]),
        ] {
            let (found, pages) = to_the_end(&filters, &mut page_of).await;
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{carrier:?}: {filters}");
            assert!(pages > 1, "{carrier:?}: {filters} was read at once");
        }
        for sort in ["asc", "desc"] {
            let heron = json!({ "search": "heron", "sort": sort });
            assert_eq!(to_the_end(&heron, &mut page_of).await.0, ["indexed"], "{carrier:?} {sort}");
            let none = json!({ "search": "albatross", "sort": sort });
            assert_eq!(to_the_end(&none, &mut page_of).await.0, Vec::<String>::new(), "{carrier:?} {sort}");
        }
    }

    // One's own message, right after its ack; by `GET /v1/events`, by `Poll`, and followed as it comes.
    let own = json!({ "id": "own", "type": "test.note.posted", "target": "channel/general", "payload": { "text": "my wagtail" } });
    http.post(&format!("{base}/events"), session, &own).await.data();
    let page = http.get(&format!("{base}/events?search=wagtail&sort=desc"), session).await.data();
    assert_eq!((ids_of(&page), &page["indexed_through"]), (vec!["own".to_owned()], &json!(indexed_through)));
    let (network, search) = (node.network().to_owned(), "wagtail".to_owned());
    let request = pb::PollRequest { network, search, sort: "desc".to_owned(), ..Default::default() };
    let polled = place.grpc().await.unwrap().poll(bearing(request, session)).await.unwrap().into_inner();
    assert_eq!(polled.events.iter().map(|e| e.id.clone()).collect::<Vec<_>>(), ["own"]);
    assert_eq!((polled.indexed_through, polled.has_more), (Some(indexed_through), true));
    assert!(polled.head > polled.indexed_through);
    let stream = format!("{base}/events/stream?view=log&search=kingfisher&after=seq:0");
    let mut sse = Sse::open(&http, &stream, session, None).await.unwrap();
    for id in [&early, &late] {
        assert_eq!(sse.next().await.unwrap().id.as_ref(), Some(id));
    }

    // The command line reads on by itself, and says why it took longer.
    let told = node.line("search kingfisher").ok();
    assert!(told.err.contains("2 events found") && told.err.contains("the search index is 25"), "{told:?}");
    assert!(told.err.contains("behind; those were read from the log"), "{told:?}");
    let found = node.line("search kingfisher --json").ok().json();
    assert_eq!((ids_of(&found), &found["has_more"]), (vec![early.clone(), late.clone()], &json!(false)));
    assert_eq!(found["indexed_through"], json!(indexed_through));

    tamper(&mut node, "DROP TRIGGER held_in; DROP TRIGGER held_up;");
    caught_up(&node);
    let told = node.line("search kingfisher").ok();
    assert!(told.err.contains("2 events found") && !told.err.contains("behind"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_through_a_search_acks_nothing() {
    let node = Node::start();
    let http = Http::new(node.url());
    let base = format!("/v1/ws/{}", node.network());
    let joined = http.post(&format!("{base}/join"), &node.token, &json!({ "agent_id": "agent:bob" })).await.data();
    let session = joined["session_id"].as_str().unwrap();
    for n in 0..3 {
        node.words(&["send", "bob", "a heron", "--as", "alice", "--id", &format!("mail-{n}")]).ok();
    }
    let mut after = String::new();
    for view in ["", "&view=inbox", "&view=log"] {
        for n in 0..3 {
            let page = http.get(&format!("{base}/events?search=heron&limit=1{view}{after}"), session).await.data();
            assert_eq!(ids_of(&page), [format!("mail-{n}")], "{view}");
            after = format!("&after={}", page["next_cursor"].as_str().unwrap());
        }
        after.clear();
    }
    let inbox = http.get(&format!("{base}/events?view=inbox"), session).await.data();
    assert_eq!(ids_of(&inbox), ["mail-0", "mail-1", "mail-2"], "nothing was acked");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_index_the_log_is_read() {
    let dir = tempfile::TempDir::new().unwrap();
    std::fs::write(dir.path().join("rialto.toml"), "[search]\nenabled = false\n").unwrap();
    let (data, config) = (dir.path().join("data"), dir.path().join("rialto.toml").display().to_string());
    let node = Node::start_in(dir, &data, &["--config", &config]);
    node.line("send channel/general a-heron --as alice --id one").ok();
    let page = node.line("search heron --json").ok().json();
    assert_eq!(
        (ids_of(&page), &page["indexed_through"], &page["has_more"]),
        (vec!["one".to_owned()], &json!(0), &json!(false))
    );
    assert!(!node.data().join("search.db").exists());
}
