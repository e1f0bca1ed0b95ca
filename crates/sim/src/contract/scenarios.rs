//! The scenarios. Each tells in one line what it holds, and each of its steps has a name.

use super::driver::{Carries, Guest, Receipt};
use super::event::{Draft, Got, Refused};
use super::stage::{During, Failure, Stage, holds, same};
use futures_util::future::join_all;
use std::pin::Pin;

type Run<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// One part of the contract.
pub struct Scenario {
    /// Its name in tables and failures.
    pub name: &'static str,
    /// What it holds.
    pub holds: &'static str,
    run: for<'a> fn(&'a mut Stage) -> Run<'a>,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.holds)
    }
}

impl Scenario {
    /// Plays it once.
    pub async fn play(&self, stage: &mut Stage) -> Result<(), Failure> {
        stage.next_round();
        (self.run)(stage).await
    }

    /// The scenario of this name.
    pub fn named(name: &str) -> Option<&'static Scenario> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }
}

/// The contract.
pub const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "arrive",
        holds: "who shows a credential of the network is a member afterwards; who does not is not let in and is not listed",
        run: |stage| Box::pin(arrive(stage)),
    },
    Scenario {
        name: "be seen",
        holds: "members that arrived one after the other see each other, and nobody who never came",
        run: |stage| Box::pin(be_seen(stage)),
    },
    Scenario {
        name: "send",
        holds: "what a member sends is answered with its position and stored once, in the order of sending, under its own name",
        run: |stage| Box::pin(send(stage)),
    },
    Scenario {
        name: "receive",
        holds: "what is sent to a member comes to it once, in order and as it was sent, and to nobody else",
        run: |stage| Box::pin(receive(stage)),
    },
    Scenario {
        name: "ack",
        holds: "after a lost connection comes again what was not acked, and nothing of what was",
        run: |stage| Box::pin(ack(stage)),
    },
    Scenario {
        name: "read back",
        holds: "the history of a channel is everything said there, once and in order, and is hidden from who has no seat",
        run: |stage| Box::pin(read_back(stage)),
    },
    Scenario {
        name: "be refused",
        holds: "a refusal carries the code of its reason, stores nothing and leaves the connection usable",
        run: |stage| Box::pin(be_refused(stage)),
    },
    Scenario {
        name: "restart",
        holds: "a node that is killed and started again has everything it took, delivers what was not acked and stores a repeated send once",
        run: |stage| Box::pin(restart(stage)),
    },
    Scenario {
        name: "slow reader",
        holds: "who reads nothing for a while holds up no sender and then gets everything, once and in order",
        run: |stage| Box::pin(slow_reader(stage)),
    },
    Scenario {
        name: "several at once",
        holds: "what several say at the same time comes to each of the others once and in the one order of the network",
        run: |stage| Box::pin(several_at_once(stage)),
    },
];

/// Events to a reader that does not read: more than a stream's window holds.
const BACKLOG: usize = 400;
/// How many deliveries a slow reader takes between two acks.
const BETWEEN_ACKS: usize = 50;
/// Who talks at once, and how much each says.
const TALKERS: usize = 4;
const SAID_EACH: usize = 20;

/// A message of this round, the `n`-th of its kind.
fn message(stage: &Stage, what: &str, n: usize, target: &str) -> Draft {
    let id = stage.named(&format!("{what}-{n}"));
    let text = format!("\"{id}\": grüße, 纪要");
    Draft::saying(&id, target, &text)
}

/// Sends all; gives the receipts.
async fn send_all(from: &mut Guest, drafts: &[Draft]) -> Result<Vec<Receipt>, String> {
    let mut receipts = Vec::new();
    for draft in drafts {
        receipts.push(from.send(draft).await?);
    }
    Ok(receipts)
}

fn texts(drafts: &[Draft]) -> Vec<String> {
    drafts.iter().map(Draft::text).collect()
}

/// What was said in those that say one of these, as they came. By text: a copy may come under another id.
fn came(all: &[Got], among: &[String]) -> Vec<String> {
    all.iter().map(Got::text).filter(|text| among.contains(text)).collect()
}

/// What came is what was sent: who said it, to whom and what.
fn as_sent(got: &Got, draft: &Draft, from: &Guest, to: &Guest) -> Result<(), String> {
    same("the sender", &got.source.as_str(), &from.address())?;
    same("the text", &got.text(), &draft.text())?;
    if [from.carries(), to.carries()] == [Carries::Everything; 2] {
        same("the target", &got.target, &draft.target)?;
        same("the type", &got.kind.as_str(), &draft.kind)?;
        same("the payload", &got.payload, &draft.payload)?;
    }
    Ok(())
}

async fn arrive(stage: &mut Stage) -> Result<(), Failure> {
    let place = stage.place();
    let mut guest = stage.guest("newcomer");
    guest.connect(&place).await.during("arriving with the network's token")?;
    let mut stranger = stage.guest("stranger");
    let wrong = super::Place { token: "not-the-token-of-this-network".to_owned(), ..place };
    let let_in = matches!(stranger.try_connect(&wrong).await, Ok(Ok(())));
    holds(!let_in, || "a wrong token was taken".to_owned()).during("arriving with a wrong token")?;
    let listed = guest.members().await.during("listing the members")?;
    let has = |who: &Guest| listed.iter().any(|address| address == who.address());
    holds(has(&guest), || format!("{} is not in {listed:?}", guest.address())).during("looking for oneself")?;
    holds(!has(&stranger), || format!("{} is in {listed:?}", stranger.address())).during("looking for the stranger")
}

async fn be_seen(stage: &mut Stage) -> Result<(), Failure> {
    let mut first = stage.member("first").await.during("the first arrives")?;
    let mut second = stage.member("second").await.during("the second arrives")?;
    let absent = stage.guest("absent");
    let addresses = [first.address().to_owned(), second.address().to_owned()];
    for (who, other, step) in
        [(&mut first, &addresses[1], "the first looks"), (&mut second, &addresses[0], "the second looks")]
    {
        let listed = who.members().await.during(step)?;
        holds(listed.contains(other), || format!("{other} is not in {listed:?}")).during(step)?;
        let ghost = listed.iter().any(|address| address == absent.address());
        holds(!ghost, || format!("{} never came and is in {listed:?}", absent.address())).during(step)?;
    }
    Ok(())
}

async fn send(stage: &mut Stage) -> Result<(), Failure> {
    let mut from = stage.member("sender").await.during("the sender arrives")?;
    let to = stage.member("addressee").await.during("the addressee arrives")?;
    let drafts: Vec<Draft> = (0..5).map(|n| message(stage, "sent", n, to.address())).collect();
    let receipts = send_all(&mut from, &drafts).await.during("sending")?;
    let rising = receipts.is_sorted_by(|a, b| a.seq < b.seq) && receipts[0].seq > 0;
    holds(rising, || format!("positions do not rise: {receipts:?}")).during("reading the answers")?;
    let stored = stage.stored(&texts(&drafts)).await.during("reading the log")?;
    let expected = receipts.into_iter().zip(&drafts);
    let expected = expected.map(|(receipt, draft)| (receipt.id, draft.text(), from.address().to_owned()));
    same("the log", &stored, &expected.collect()).during("reading the log")
}

async fn receive(stage: &mut Stage) -> Result<(), Failure> {
    let mut from = stage.member("sender").await.during("the sender arrives")?;
    let mut to = stage.member("addressee").await.during("the addressee arrives")?;
    let mut bystander = stage.member("bystander").await.during("a bystander arrives")?;
    let drafts: Vec<Draft> = (0..20).map(|n| message(stage, "letter", n, to.address())).collect();
    let sent = texts(&drafts);
    send_all(&mut from, &drafts).await.during("sending")?;
    let all = stage.all_of(&mut to).await.during("receiving")?;
    same("what came", &came(&all, &sent), &sent).during("receiving")?;
    for (draft, got) in drafts.iter().zip(all.iter().filter(|got| sent.contains(&got.text()))) {
        as_sent(got, draft, &from, &to).during("comparing what came with what was sent")?;
    }
    to.ack(&all).await.during("acking")?;
    let others = stage.all_of(&mut bystander).await.during("the bystander reads")?;
    same("what the bystander got", &came(&others, &sent), &Vec::new()).during("the bystander reads")
}

async fn ack(stage: &mut Stage) -> Result<(), Failure> {
    let mut from = stage.member("sender").await.during("the sender arrives")?;
    let mut to = stage.member("addressee").await.during("the addressee arrives")?;
    let drafts: Vec<Draft> = (0..6).map(|n| message(stage, "mail", n, to.address())).collect();
    let sent = texts(&drafts);
    let receipts = send_all(&mut from, &drafts).await.during("sending")?;
    let first = to.until(&receipts[2].id).await.during("receiving the first half")?;
    to.ack(&first).await.during("acking the first half")?;
    to.until(&receipts[5].id).await.during("receiving the second half")?;
    let place = stage.place();
    to.reconnect(&place).await.during("coming back")?;
    let again = stage.all_of(&mut to).await.during("receiving again")?;
    same("what came again", &came(&again, &sent), &sent[3..].to_vec()).during("receiving again")?;
    to.ack(&again).await.during("acking the rest")?;
    to.reconnect(&place).await.during("coming back once more")?;
    let rest = stage.all_of(&mut to).await.during("looking for what was acked")?;
    same("what came after all was acked", &came(&rest, &sent), &Vec::new()).during("looking for what was acked")
}

async fn read_back(stage: &mut Stage) -> Result<(), Failure> {
    let mut ana = stage.member("ana").await.during("ana arrives")?;
    let mut ben = stage.member("ben").await.during("ben arrives")?;
    let mut eve = stage.member("eve").await.during("eve arrives")?;
    let channel = stage.channel("room", &[&ana, &ben]).await.during("making a channel for ana and ben")?;
    let target = format!("channel/{channel}");
    let drafts: Vec<Draft> = (0..6).map(|n| message(stage, "said", n, &target)).collect();
    let said = texts(&drafts);
    for (n, draft) in drafts.iter().enumerate() {
        let who = if n % 2 == 0 { &mut ana } else { &mut ben };
        who.send(draft).await.during("talking")?;
    }
    for who in [&mut ana, &mut ben] {
        let read = who.history(&channel).await.during("reading the history")?;
        same("the history", &came(&read, &said), &said).during("reading the history")?;
    }
    let seen = eve.try_history(&channel).await.during("reading the history without a seat")?.unwrap_or_default();
    same("what eve reads", &came(&seen, &said), &Vec::new()).during("reading the history without a seat")
}

async fn be_refused(stage: &mut Stage) -> Result<(), Failure> {
    let mut observer = stage.observer("observer").await.during("an observer arrives")?;
    let mut member = stage.member("member").await.during("a member arrives")?;
    let other = stage.member("other").await.during("another arrives")?;
    let observed = message(stage, "observed", 0, other.address());
    let nowhere = Draft { target: format!("agent:{}", stage.named("nobody")), ..message(stage, "nowhere", 0, "") };
    let mut tried = vec![observed.text(), nowhere.text()];
    let answer = observer.try_send(&observed).await.during("an observer sends")?;
    refused_with("observer_read_only", answer, &observed).during("an observer sends")?;
    let answer = member.try_send(&nowhere).await.during("sending to nobody")?;
    refused_with("unknown_target", answer, &nowhere).during("sending to nobody")?;
    if member.carries() == Carries::Everything {
        let source = Some(other.address().to_owned());
        let spoofed = Draft { source, ..message(stage, "spoofed", 0, other.address()) };
        let answer = member.try_send(&spoofed).await.during("sending under somebody else's name")?;
        refused_with("source_mismatch", answer, &spoofed).during("sending under somebody else's name")?;
        tried.push(spoofed.text());
    }
    let fine = message(stage, "fine", 0, other.address());
    let receipt = member.send(&fine).await.during("sending after refusals")?;
    tried.push(fine.text());
    let stored = stage.stored(&tried).await.during("reading the log")?;
    let expected = vec![(receipt.id, fine.text(), member.address().to_owned())];
    same("the log", &stored, &expected).during("reading the log")
}

fn refused_with(code: &str, answer: Result<Receipt, Refused>, draft: &Draft) -> Result<(), String> {
    let refused = answer.err().ok_or_else(|| format!("{} was taken; {code} was expected", draft.id))?;
    let expected = Refused { code: code.to_owned(), event_id: draft.id.clone(), retryable: false };
    same("the refusal", &refused, &expected)
}

async fn restart(stage: &mut Stage) -> Result<(), Failure> {
    let mut from = stage.member("sender").await.during("the sender arrives")?;
    let mut to = stage.member("addressee").await.during("the addressee arrives")?;
    let drafts: Vec<Draft> = (0..3).map(|n| message(stage, "before", n, to.address())).collect();
    let sent = send_all(&mut from, &drafts).await.during("sending before the restart")?;
    let first = to.until(&sent[0].id).await.during("receiving before the restart")?;
    to.ack(&first).await.during("acking before the restart")?;
    // An ack is on disk with the next thing that is answered.
    let mark = message(stage, "mark", 0, from.address());
    from.send(&mark).await.during("sending before the restart")?;
    from.disconnect();
    to.disconnect();
    stage.restart().await;
    let place = stage.place();
    from.connect(&place).await.during("the sender comes back")?;
    to.connect(&place).await.during("the addressee comes back")?;
    let mut said = texts(&drafts);
    if from.carries() == Carries::Everything {
        let again = from.send(&drafts[2]).await.during("sending again what was taken before the restart")?;
        same("the answer", &again, &sent[2]).during("sending again what was taken before the restart")?;
    }
    let after = message(stage, "after", 0, to.address());
    said.push(after.text());
    from.send(&after).await.during("sending after the restart")?;
    let all = stage.all_of(&mut to).await.during("receiving after the restart")?;
    same("what came", &came(&all, &said), &said[1..].to_vec()).during("receiving after the restart")?;
    let stored = stage.stored(&said).await.during("reading the log")?;
    let stored: Vec<String> = stored.into_iter().map(|(_, text, _)| text).collect();
    same("the log", &stored, &said).during("reading the log")
}

async fn slow_reader(stage: &mut Stage) -> Result<(), Failure> {
    let mut from = stage.member("sender").await.during("the sender arrives")?;
    let mut to = stage.member("reader").await.during("the reader arrives")?;
    let padding = "x".repeat(4096);
    let drafts: Vec<Draft> = (0..BACKLOG)
        .map(|n| Draft::saying(&stage.named(&format!("backlog-{n}")), to.address(), &format!("{n} {padding}")))
        .collect();
    let sent = texts(&drafts);
    send_all(&mut from, &drafts).await.during("sending to a reader that does not read")?;
    let bell = stage.ring(&to).await.during("sending to a reader that does not read")?;
    let mut seen = Vec::new();
    let mut unacked = Vec::new();
    loop {
        let got = to.next().await.during("reading all of it")?;
        if got.id == bell {
            break;
        }
        seen.extend(came(std::slice::from_ref(&got), &sent));
        unacked.push(got);
        if unacked.len() == BETWEEN_ACKS {
            to.ack(&unacked).await.during("acking while reading")?;
            unacked.clear();
        }
    }
    let wrong = seen.iter().zip(&sent).position(|(seen, sent)| seen != sent);
    let told =
        || format!("{} of {} came, the first that is not in its place is number {wrong:?}", seen.len(), sent.len());
    holds(seen == sent, told).during("reading all of it")
}

async fn several_at_once(stage: &mut Stage) -> Result<(), Failure> {
    let mut talkers = Vec::new();
    for n in 0..TALKERS {
        talkers.push(stage.member(&format!("talker-{n}")).await.during("the talkers arrive")?);
    }
    let channel =
        stage.channel("crowd", &talkers.iter().collect::<Vec<_>>()).await.during("making a channel for all")?;
    let target = format!("channel/{channel}");
    let talks = talkers.iter_mut().enumerate().map(|(n, talker)| {
        let drafts = talks_of(stage, n, &target);
        async move { send_all(talker, &drafts).await }
    });
    for result in join_all(talks).await {
        result.during("talking at once")?;
    }
    let said: Vec<String> = (0..TALKERS).flat_map(|n| texts(&talks_of(stage, n, &target))).collect();
    let log = stage.stored(&said).await.during("reading the log")?;
    same("how many are stored", &log.len(), &said.len()).during("reading the log")?;
    for talker in &mut talkers {
        let all = stage.all_of(talker).await.during("hearing the others")?;
        let others: Vec<String> =
            log.iter().filter(|(.., source)| source != talker.address()).map(|(_, text, _)| text.clone()).collect();
        let heard = came(&all, &others);
        same(&format!("what {} heard", talker.address()), &heard, &others).during("hearing the others")?;
        talker.ack(&all).await.during("acking")?;
    }
    Ok(())
}

/// What one of several says.
fn talks_of(stage: &Stage, talker: usize, target: &str) -> Vec<Draft> {
    (0..SAID_EACH).map(|n| message(stage, &format!("talk-{talker}"), n, target)).collect()
}
