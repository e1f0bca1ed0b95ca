//! The interop matrix: every ordered pair of doors. What is sent over one is received over the other, the same and exactly once.

use super::driver::{Answer, Carries, Door, Guest, Receipt, accepted};
use super::event::{Draft, Got, Refused};
use super::host::Host;
use super::page::{self, REFUSALS};
use super::place::Place;
use super::stage::{holds, same};
use serde_json::json;

/// Numbers, spaces, escapes and a key twice: whatever re-writes a payload changes one of them.
const PAYLOAD: &str = r#"{ "content": "gr\u00fc\u00dfe 纪要 \"x\"\n", "n":1.50, "big":123456789012345678901234567890,"z":{"b":1,"a":[ ]},"z":null}"#;
const METADATA: &str = r#"{"note":"kept","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
/// How far the clocks of the node and of the test may be apart, in milliseconds; a stamp is as old as the test at most.
const STAMP_AGE_MS: std::ops::Range<i64> = -1000..60_000;

type Outcome = Result<(), String>;

/// Results by sender, receiver and what was tried; by sender and refusal.
#[derive(Debug, Default)]
pub struct Matrix {
    /// Names of the doors that send.
    pub senders: Vec<&'static str>,
    /// Names of the doors that receive.
    pub receivers: Vec<&'static str>,
    pub(super) pairs: Vec<(usize, usize, &'static str, Outcome)>,
    pub(super) refusals: Vec<(usize, &'static str, Outcome)>,
}

impl Matrix {
    /// Tries every pair on one node. Fails only when the stage itself cannot be set.
    pub async fn run(place: &Place, doors: &[Door]) -> Result<Matrix, String> {
        let mut host = Host::join(place).await?;
        let mut receivers = Vec::new();
        for (r, door) in doors.iter().enumerate() {
            receivers.push(door.arrived(place, &format!("receiver-{r}"), "member").await?);
        }
        let mut matrix = Matrix { receivers: doors.iter().map(|door| door.name).collect(), ..Matrix::default() };
        for door in doors {
            if let Some(name) = door.sends {
                let s = matrix.senders.len();
                matrix.senders.push(name);
                matrix.row(place, s, door, &mut receivers, &mut host).await?;
            }
        }
        let refused: Vec<String> = stored(place).await?.into_iter().filter(|id| id.starts_with("refused-")).collect();
        same("what was refused and stored", &refused, &Vec::new())?;
        Ok(matrix)
    }

    /// One sender to every receiver.
    async fn row(
        &mut self,
        place: &Place,
        s: usize,
        door: &Door,
        receivers: &mut [Guest],
        host: &mut Host,
    ) -> Result<(), String> {
        let mut from = door.arrived(place, &format!("sender-{s}"), "member").await?;
        let seats: Vec<&Guest> = receivers.iter().chain([&from]).collect();
        host.channel(place, &format!("room-{s}"), &seats).await?;
        for (r, to) in receivers.iter_mut().enumerate() {
            let mut pair = Pair { id: format!("p{s}-{r}"), from: &mut from, to, host, place };
            self.pairs.push((s, r, "direct", pair.direct().await));
            let (again, acked) = pair.again_then_acked().await;
            self.pairs.push((s, r, "again", again));
            self.pairs.push((s, r, "acked", acked));
            self.pairs.push((s, r, "reply", pair.reply().await));
        }
        for (r, result) in channel(place, s, &mut from, receivers, host).await.into_iter().enumerate() {
            self.pairs.push((s, r, "channel", result));
        }
        let refused = refusals(place, s, door).await?;
        self.refusals.extend(refused.into_iter().map(|(what, result)| (s, what, result)));
        Ok(())
    }

    /// Everything that went wrong, one line each.
    pub fn faults(&self) -> Vec<String> {
        let pairs = self.pairs.iter().filter_map(|(s, r, what, result)| {
            let why = result.as_ref().err()?;
            Some(format!("{} to {}, {what}: {why}", self.senders[*s], self.receivers[*r]))
        });
        let refusals = self.refusals.iter();
        let refusals = refusals
            .filter_map(|(s, what, result)| Some(format!("{}, {what}: {}", self.senders[*s], result.as_ref().err()?)));
        pairs.chain(refusals).collect()
    }

    /// The page `docs/interop.md`.
    pub fn page(&self) -> String {
        page::interop(self)
    }
}

fn the_one(all: &[Got], id: &str) -> Result<Got, String> {
    let mut found = all.iter().filter(|got| got.id == id);
    match (found.next(), found.count()) {
        (Some(got), 0) => Ok(got.clone()),
        (None, _) => Err(format!("{id} did not come")),
        (Some(_), more) => Err(format!("{id} came {} times", more + 1)),
    }
}

/// Field by field what the sender wrote, as far as both protocols have room for it; the node adds time, network and visibility.
fn as_sent(got: &Got, draft: &Draft, ends: (&Guest, &Guest), network: &str, visibility: &str) -> Result<(), String> {
    let (sender, receiver) = ends;
    if [sender.carries(), receiver.carries()] != [Carries::Everything; 2] {
        same("the sender", &got.source.as_str(), &sender.address())?;
        return same("the text", &got.text(), &draft.text());
    }
    let expected = Got {
        id: draft.id.clone(),
        kind: draft.kind.to_owned(),
        source: sender.address().to_owned(),
        target: draft.target.clone(),
        payload: draft.payload.clone(),
        metadata: serde_json::from_str(&draft.metadata).map_err(|e| e.to_string())?,
        timestamp: got.timestamp,
        network: network.to_owned(),
        visibility: visibility.to_owned(),
    };
    same("the event", got, &expected)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let age = i64::try_from(now).unwrap_or(i64::MAX) - got.timestamp;
    holds(STAMP_AGE_MS.contains(&age), || format!("stamped {age} ms ago"))
}

struct Pair<'a> {
    id: String,
    from: &'a mut Guest,
    to: &'a mut Guest,
    host: &'a mut Host,
    place: &'a Place,
}

impl Pair<'_> {
    async fn direct(&mut self) -> Outcome {
        let draft = Draft::note(&format!("{}-direct", self.id), self.to.address(), PAYLOAD).metadata(METADATA);
        let sent = self.from.send(&draft).await?;
        let bell = self.host.ring(self.place, self.to).await?;
        let all = self.to.until(&bell).await?;
        let got = the_one(&all, &sent.id)?;
        self.to.ack(&all).await?;
        as_sent(&got, &draft, (self.from, self.to), &self.place.network, "direct")
    }

    async fn again_then_acked(&mut self) -> (Outcome, Outcome) {
        let mut id = format!("{}-twice", self.id);
        let again = async {
            let draft = Draft::note(&id, self.to.address(), PAYLOAD);
            id = self.from.send(&draft).await?.id;
            let first = the_one(&self.to.until(&id).await?, &id)?;
            self.to.reconnect(self.place).await?;
            let bell = self.host.ring(self.place, self.to).await?;
            let all = self.to.until(&bell).await?;
            same("the second delivery", &the_one(&all, &id)?, &first)?;
            self.to.ack(&all).await
        };
        let again = again.await;
        let acked = async {
            self.to.reconnect(self.place).await?;
            let bell = self.host.ring(self.place, self.to).await?;
            let all = self.to.until(&bell).await?;
            self.to.ack(&all).await?;
            holds(!all.iter().any(|got| got.id == id), || format!("{id} came"))
        };
        (again, acked.await)
    }

    async fn reply(&mut self) -> Outcome {
        let request = Draft::note(&format!("{}-request", self.id), self.to.address(), r#"{"content":"q"}"#);
        let request = self.from.send(&request).await?;
        let asked = self.to.until(&request.id).await?;
        let link = json!({ "in_reply_to": request.id }).to_string();
        let answer = Draft::note(&format!("{}-answer", self.id), self.from.address(), PAYLOAD).metadata(&link);
        let answered = self.to.send(&answer).await?;
        self.to.ack(&asked).await?;
        let all = self.from.until(&answered.id).await?;
        let got = the_one(&all, &answered.id)?;
        self.from.ack(&all).await?;
        same("in_reply_to", &got.in_reply_to(), &Some(request.id.as_str()))?;
        as_sent(&got, &answer, (self.to, self.from), &self.place.network, "direct")
    }
}

/// One message to the room per sender; all receivers compare what they got.
async fn channel(place: &Place, s: usize, from: &mut Guest, receivers: &mut [Guest], host: &mut Host) -> Vec<Outcome> {
    let draft = Draft::note(&format!("channel-{s}"), &format!("channel/room-{s}"), PAYLOAD).metadata(METADATA);
    let sent = from.send(&draft).await;
    let mut seen: Vec<Result<Got, String>> = Vec::new();
    for to in receivers.iter_mut() {
        let got = async {
            let sent = sent.clone()?;
            let bell = host.ring(place, to).await?;
            let all = to.until(&bell).await?;
            to.ack(&all).await?;
            let got = the_one(&all, &sent.id)?;
            as_sent(&got, &draft, (from, to), &place.network, "channel")?;
            Ok(got)
        };
        seen.push(got.await);
    }
    // Who gets all of an event compares with the others of its kind.
    let whole: Vec<bool> = receivers.iter().map(|to| to.carries() == Carries::Everything).collect();
    let first = seen.iter().zip(&whole).find_map(|(got, whole)| got.as_ref().ok().filter(|_| *whole)).cloned();
    let copies = seen.into_iter().zip(whole);
    copies
        .map(|(got, whole)| got.and_then(|got| if whole { same("the copy", &Some(got), &first) } else { Ok(()) }))
        .collect()
}

async fn refusals(place: &Place, s: usize, door: &Door) -> Result<Vec<(&'static str, Outcome)>, String> {
    let mut observer = door.arrived(place, &format!("observer-{s}"), "observer").await?;
    let mut member = door.arrived(place, &format!("refused-{s}"), "member").await?;
    let names_sources = member.carries() == Carries::Everything;
    let note = |what: &str, target: &str| Draft::note(&format!("refused-{what}-{s}"), target, PAYLOAD);
    let observed = note("observed", "agent:host");
    let spoofed = Draft { source: Some("agent:host".to_owned()), ..note("spoofed", "agent:host") };
    let nowhere = note("nowhere", "agent:nobody");
    let mut tries = vec![(observer.try_send(&observed).await, observed.id)];
    // Who cannot say whom a message is from cannot lie about it.
    if names_sources {
        tries.push((member.try_send(&spoofed).await, spoofed.id));
    }
    tries.push((member.try_send(&nowhere).await, nowhere.id));
    let judge = |sent: Answer<Receipt>, code: &str, event_id: String| {
        let expected = Refused { code: code.to_owned(), event_id, retryable: false };
        same("the answer", &sent?.err(), &Some(expected))
    };
    let tried = REFUSALS.iter().filter(|(_, code)| *code != "source_mismatch" || names_sources);
    let judged = tried.zip(tries).map(|((what, code), (sent, id))| (*what, judge(sent, code, id)));
    let judged: Vec<_> = judged.collect();
    // A refusal ends nothing: the same connection still sends.
    accepted(member.try_send(&Draft::note(&format!("fine-{s}"), "agent:host", PAYLOAD)).await)?;
    Ok(judged)
}

/// The ids of everything in the log, as the operator sees it.
async fn stored(place: &Place) -> Result<Vec<String>, String> {
    let events = place.stored().await?;
    let ids: Vec<String> = events.iter().filter_map(|e| Some(e["id"].as_str()?.to_owned())).collect();
    holds(!ids.is_empty(), || "the log was not read".to_owned())?;
    Ok(ids)
}
