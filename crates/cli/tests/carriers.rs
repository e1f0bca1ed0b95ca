//! Every ordered pair of carriers: what is sent over one is received over the other, the same and exactly once.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

#[path = "carriers/event.rs"]
mod event;
#[path = "carriers/line.rs"]
mod line;
#[allow(dead_code, reason = "queries are for another test")]
#[path = "carriers/member.rs"]
mod member;
#[path = "carriers/report.rs"]
mod report;
mod support;

use event::{Draft, Got, Refused};
use expect_test::expect_file;
use member::{Carrier, Member, Place, RECEIVING, SENDING};
use report::{REFUSALS, Report};
use serde_json::json;
use support::Node;

/// Numbers, spaces, escapes and a key twice: whatever re-writes a payload changes one of them.
const PAYLOAD: &str = r#"{ "content": "gr\u00fc\u00dfe 纪要 \"x\"\n", "n":1.50, "big":123456789012345678901234567890,"z":{"b":1,"a":[ ]},"z":null}"#;
const METADATA: &str = r#"{"note":"kept","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;

/// Sends a message after which nothing that was sent before can still be missing.
struct Bell {
    ringer: Member,
    rung: u32,
}

impl Bell {
    async fn ring(&mut self, whom: &Member) -> Result<String, String> {
        self.rung += 1;
        let id = format!("bell-{}", self.rung);
        let rung = self.ringer.send(&Draft::note(&id, &whom.address, "{}")).await?;
        rung.map_err(|r| format!("{r:?}"))?;
        Ok(id)
    }
}

fn accepted(sent: Result<Result<u64, Refused>, String>) -> Result<u64, String> {
    sent?.map_err(|r| format!("refused: {r:?}"))
}

fn the_one(all: &[Got], id: &str) -> Result<Got, String> {
    let mut found = all.iter().filter(|got| got.id == id);
    match (found.next(), found.count()) {
        (Some(got), 0) => Ok(got.clone()),
        (None, _) => Err(format!("{id} did not come")),
        (Some(_), more) => Err(format!("{id} came {} times", more + 1)),
    }
}

fn none(all: &[Got], id: &str) -> Result<(), String> {
    if all.iter().any(|got| got.id == id) { Err(format!("{id} came")) } else { Ok(()) }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, left: &T, right: &T) -> Result<(), String> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} is not {right:?}")) }
}

/// Field by field what the sender wrote; the node adds time, network and visibility.
fn as_sent(got: &Got, draft: &Draft, sender: &Member, network: &str, visibility: &str) -> Result<(), String> {
    let expected = Got {
        id: draft.id.clone(),
        kind: draft.kind.to_owned(),
        source: sender.address.clone(),
        target: draft.target.clone(),
        payload: draft.payload.clone(),
        metadata: serde_json::from_str(&draft.metadata).unwrap(),
        timestamp: got.timestamp,
        network: network.to_owned(),
        visibility: visibility.to_owned(),
    };
    same("the event", got, &expected)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let age = i64::try_from(now).unwrap() - got.timestamp;
    if (-1000..60_000).contains(&age) { Ok(()) } else { Err(format!("stamped {age} ms ago")) }
}

async fn direct(pair: &mut Pair<'_>) -> Result<(), String> {
    let draft = Draft::note(&format!("{}-direct", pair.id), &pair.to.address, PAYLOAD).metadata(METADATA);
    accepted(pair.from.send(&draft).await)?;
    let bell = pair.bell.ring(pair.to).await?;
    let all = pair.to.until(&bell).await?;
    let got = the_one(&all, &draft.id)?;
    pair.to.ack(&all).await?;
    as_sent(&got, &draft, pair.from, pair.network, "direct")
}

async fn again_then_acked(pair: &mut Pair<'_>) -> (Result<(), String>, Result<(), String>) {
    let id = format!("{}-twice", pair.id);
    let again = async {
        let draft = Draft::note(&id, &pair.to.address, PAYLOAD);
        accepted(pair.from.send(&draft).await)?;
        let first = the_one(&pair.to.until(&id).await?, &id)?;
        pair.to.reconnect().await?;
        let bell = pair.bell.ring(pair.to).await?;
        let all = pair.to.until(&bell).await?;
        same("the second delivery", &the_one(&all, &id)?, &first)?;
        pair.to.ack(&all).await
    };
    let again = again.await;
    let acked = async {
        pair.to.reconnect().await?;
        let bell = pair.bell.ring(pair.to).await?;
        let all = pair.to.until(&bell).await?;
        pair.to.ack(&all).await?;
        none(&all, &id)
    };
    (again, acked.await)
}

async fn reply(pair: &mut Pair<'_>) -> Result<(), String> {
    let request = Draft::note(&format!("{}-request", pair.id), &pair.to.address, r#"{"q":1}"#);
    accepted(pair.from.send(&request).await)?;
    let asked = pair.to.until(&request.id).await?;
    let link = json!({ "in_reply_to": request.id }).to_string();
    let answer = Draft::note(&format!("{}-answer", pair.id), &pair.from.address, PAYLOAD).metadata(&link);
    accepted(pair.to.send(&answer).await)?;
    pair.to.ack(&asked).await?;
    let all = pair.from.until(&answer.id).await?;
    let got = the_one(&all, &answer.id)?;
    pair.from.ack(&all).await?;
    same("in_reply_to", &got.in_reply_to(), &Some(request.id.as_str()))?;
    as_sent(&got, &answer, pair.to, pair.network, "direct")
}

struct Pair<'a> {
    id: String,
    from: &'a mut Member,
    to: &'a mut Member,
    bell: &'a mut Bell,
    network: &'a str,
}

/// One message to the room per sender; all receivers compare what they got.
async fn channel(
    s: usize,
    from: &mut Member,
    receivers: &mut [Member],
    bell: &mut Bell,
    network: &str,
) -> Vec<Result<(), String>> {
    let draft = Draft::note(&format!("channel-{s}"), "channel/room", PAYLOAD).metadata(METADATA);
    let sent = accepted(from.send(&draft).await);
    let mut seen: Vec<Result<Got, String>> = Vec::new();
    for to in receivers.iter_mut() {
        let got = async {
            sent.clone()?;
            let bell = bell.ring(to).await?;
            let all = to.until(&bell).await?;
            to.ack(&all).await?;
            let got = the_one(&all, &draft.id)?;
            as_sent(&got, &draft, from, network, "channel")?;
            Ok(got)
        };
        seen.push(got.await);
    }
    let first = seen.iter().find_map(|got| got.as_ref().ok()).cloned();
    seen.into_iter().map(|got| same("the copy", &Some(got?), &first)).collect()
}

async fn refusals(
    place: &Place,
    s: usize,
    carrier: Carrier,
) -> Result<Vec<(&'static str, Result<(), String>)>, String> {
    let mut observer = Member::join_as(place, carrier, &format!("observer-{s}"), "observer").await?;
    let mut member = Member::join(place, carrier, &format!("refused-{s}")).await?;
    let note = |what: &str, target: &str| Draft::note(&format!("refused-{what}-{s}"), target, PAYLOAD);
    let observed = note("observed", "agent:bell");
    let spoofed = Draft { source: Some("agent:bell".to_owned()), ..note("spoofed", "agent:bell") };
    let nowhere = note("nowhere", "agent:nobody");
    let tries = [
        (observer.send(&observed).await?, observed.id),
        (member.send(&spoofed).await?, spoofed.id),
        (member.send(&nowhere).await?, nowhere.id),
    ];
    let judge = |sent: Result<u64, Refused>, code: &str, event_id: String| {
        let expected = Refused { code: code.to_owned(), event_id, retryable: false };
        same("the answer", &sent.err(), &Some(expected))
    };
    let judged = REFUSALS.iter().zip(tries).map(|((what, code), (sent, id))| (*what, judge(sent, code, id)));
    let judged: Vec<_> = judged.collect();
    // A refusal ends nothing: the same connection still sends.
    accepted(member.send(&Draft::note(&format!("fine-{s}"), "agent:bell", PAYLOAD)).await)?;
    Ok(judged)
}

/// The ids of everything in the log, as the operator sees it.
async fn stored(node: &Node) -> Vec<String> {
    let http = support::http::Http::new(node.url());
    let (mut after, mut ids) = ("seq:0".to_owned(), Vec::new());
    loop {
        let path = format!("/v1/ws/{}/events?view=log&limit=500&after={after}", node.network());
        let page = http.get(&path, node.admin()).await.data();
        ids.extend(page["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()));
        if page["has_more"] != true {
            assert!(ids.iter().any(|id| id == "fine-0"), "the log was not read");
            return ids;
        }
        after = page["next_cursor"].as_str().unwrap().to_owned();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_pair_of_carriers() {
    let node = Node::start();
    let place = Place::of(&node);
    let network = place.network.as_str();
    let mut bell = Bell { ringer: Member::join(&place, Carrier::HttpLog, "bell").await.unwrap(), rung: 0 };
    let mut receivers = Vec::new();
    for (r, (carrier, _)) in RECEIVING.iter().enumerate() {
        receivers.push(Member::join(&place, *carrier, &format!("receiver-{r}")).await.unwrap());
    }
    let seats: Vec<&str> = receivers.iter().map(|m| m.address.as_str()).collect();
    let create = json!({ "name": "room", "participants": seats }).to_string();
    let create = Draft { kind: "network.channel.create", ..Draft::note("room", "core", &create) };
    accepted(bell.ringer.send(&create).await).unwrap();

    let mut report = Report::default();
    for (s, (carrier, _)) in SENDING.iter().enumerate() {
        let mut sender = Member::join(&place, *carrier, &format!("sender-{s}")).await.unwrap();
        let seat = Draft {
            kind: "network.channel.join",
            ..Draft::note(&format!("seat-{s}"), "core", r#"{"channel":"room"}"#)
        };
        accepted(sender.send(&seat).await).unwrap();
        for (r, to) in receivers.iter_mut().enumerate() {
            let (from, bell) = (&mut sender, &mut bell);
            let mut pair = Pair { id: format!("p{s}-{r}"), from, to, bell, network };
            report.pairs.push((s, r, "direct", direct(&mut pair).await));
            let (again, acked) = again_then_acked(&mut pair).await;
            report.pairs.push((s, r, "again", again));
            report.pairs.push((s, r, "acked", acked));
            report.pairs.push((s, r, "reply", reply(&mut pair).await));
        }
        for (r, result) in channel(s, &mut sender, &mut receivers, &mut bell, network).await.into_iter().enumerate() {
            report.pairs.push((s, r, "channel", result));
        }
        let refused = refusals(&place, s, *carrier).await.unwrap();
        report.refusals.extend(refused.into_iter().map(|(what, result)| (s, what, result)));
    }
    let refused = stored(&node).await.into_iter().filter(|id| id.starts_with("refused-")).collect::<Vec<_>>();
    assert_eq!(refused, Vec::<String>::new(), "what was refused is stored");
    let page = report.page();
    println!("{page}");
    assert_eq!(report.faults(), Vec::<String>::new());
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/interop.md")].assert_eq(&page);
}
