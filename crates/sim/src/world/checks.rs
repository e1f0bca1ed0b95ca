//! Hearing what mods are asked, and answering for them.

use super::client::{Frame, verdict_id};
use super::oracle::{Input, Said, Wrong, wrong};
use super::script::{ADDRESSES, MODS, Word};
use super::steps::address;
use super::{Net, World};
use rialto_model::{ErrorCode, Event, Fault};
use rialto_node::{Filter, ModPort, ProcessCheck, Query, View};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;

/// One question that somebody holds.
pub(crate) struct Open {
    ticket: String,
    name: String,
    /// The member that is asked; none of a process.
    pub(crate) by: Option<usize>,
    process: Option<ProcessCheck>,
    event: Value,
    /// Words that were said, by anybody.
    said: usize,
    pub(crate) answered: bool,
}

/// A network's mods, as far as those know that serve them.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) open: Vec<Open>,
    /// Doors of processes, and the input they were opened at.
    pub(crate) ports: BTreeMap<&'static str, (ModPort, usize)>,
    /// Mods that answer at once.
    pub(crate) prompt: Vec<&'static str>,
    /// Refusals by mods that nobody has judged yet: input, code, mod.
    refusals: Vec<(usize, ErrorCode, String)>,
    processes: usize,
}

impl Desk {
    /// The process is gone, and with it everything that was asked.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.ports.clear();
    }
}

impl World {
    /// Lets those that serve mods hear what they are asked.
    pub(crate) async fn hear(&mut self, n: usize) -> Result<(), Wrong> {
        for _ in 0..2 {
            Self::breathe().await;
            self.collect().await?;
            self.poll_checks(n).await?;
            if self.nets[n].desk.open.iter().any(|open| !open.answered) {
                return Ok(());
            }
            self.pump();
        }
        Ok(())
    }

    /// Servers without a stream are asked with their next poll.
    async fn poll_checks(&mut self, n: usize) -> Result<(), Wrong> {
        for c in 0..self.nets[n].clients.len() {
            let client = &self.nets[n].clients[c];
            let serves = self.nets[n].oracle.serves_any(client.address);
            let (Some(network), Some(caller)) = (self.nets[n].handle.clone(), client.caller()) else { continue };
            if !serves || client.stream.is_some() || self.trouble || !network.is_ready() {
                continue;
            }
            let filter = Filter { kind: Some("none.such".to_owned()), ..Filter::default() };
            let query = Query { view: Some(View::Inbox), asks: true, limit: Some(1), filter, ..Query::default() };
            let polled = self.drive(async move { network.session(&caller).query(&query).await }).await?;
            for check in polled.into_iter().flat_map(|page| page.checks) {
                self.check_came(n, c, &check)?;
            }
        }
        Ok(())
    }

    /// A member was asked something.
    pub(crate) fn check_came(&mut self, n: usize, c: usize, check: &Event) -> Result<(), Wrong> {
        let payload: Value = serde_json::from_str(check.payload()).unwrap_or_default();
        let me = self.nets[n].clients[c].address;
        let ticket = payload["ticket"].as_str().unwrap_or_default().to_owned();
        if check.target() != me {
            return wrong("borders", format!("{me} is asked what {} is", check.target()));
        }
        // Who polls may have been asked long before.
        let since = if self.nets[n].clients[c].stream.is_some() { self.collected } else { 0 };
        self.asked(n, Some(c), None, (ticket, since), payload)
    }

    fn asked(
        &mut self,
        n: usize,
        by: Option<usize>,
        process: Option<ProcessCheck>,
        (ticket, since): (String, u64),
        check: Value,
    ) -> Result<(), Wrong> {
        self.note(&format!("{ticket}: {check}"));
        // Whoever was silent for too long is shown an event that nobody sent; here it stays silent.
        if check["event"]["type"] == "rialto.mod.probe" {
            return Ok(());
        }
        let asked = (since, self.now());
        let net = &mut self.nets[n];
        let address = by.map(|c| net.clients[c].address);
        net.oracle.asked(&ticket, address, &check, asked)?;
        let name = check["mod"].as_str().unwrap_or_default().trim_start_matches("mod/").to_owned();
        let event = check["event"].clone();
        net.desk.open.push(Open { ticket, name, by, process, event, said: 0, answered: false });
        Ok(())
    }

    /// Hears processes, lets who is prompt answer, and judges what mods refused.
    pub(crate) async fn collect_mods(&mut self, n: usize) -> Result<(), Wrong> {
        if !self.nets[n].oracle.had_mods() {
            return Ok(());
        }
        if self.nets[n].shaky {
            self.nets[n].oracle.tickets_void(false);
        }
        for name in MODS.map(|(name, ..)| name) {
            while let Some(asked) = next_of(&mut self.nets[n].desk, name).await {
                let mut check: Value = serde_json::from_str(&asked.line).unwrap_or_default();
                self.nets[n].desk.processes += 1;
                let ticket = format!("process-{}", self.nets[n].desk.processes);
                check["mod"] = json!(format!("mod/{name}"));
                check["step"] = json!(step_of(name, &check));
                self.asked(n, None, Some(asked), (ticket, self.collected), check)?;
            }
        }
        for at in 0..self.nets[n].desk.open.len() {
            let open = &self.nets[n].desk.open[at];
            if open.answered || !self.nets[n].desk.prompt.contains(&open.name.as_str()) {
                continue;
            }
            let k = open.event["payload"]["k"].as_u64().unwrap_or(0);
            let word = [Word::Pass, Word::Reject, Word::Pass, Word::Modify, Word::Pass, Word::Pass, Word::Modify];
            let by = open.by;
            self.give_word(n, at, by, word[usize::try_from(k % 7).unwrap_or(0)], 0).await?;
        }
        for (k, code, name) in std::mem::take(&mut self.nets[n].desk.refusals) {
            let there = self.nets[n].is_served(&name, k);
            let now = self.now();
            self.nets[n].oracle.refused_by_mod(k, code, &name, now, there)?;
        }
        Ok(())
    }

    pub(crate) async fn answer(
        &mut self,
        n: usize,
        nth: usize,
        word: Word,
        emits: usize,
        calm: bool,
    ) -> Result<(), Wrong> {
        self.hear(n).await?;
        let open: Vec<usize> =
            (0..self.nets[n].desk.open.len()).filter(|at| !self.nets[n].desk.open[*at].answered).collect();
        let Some(at) = open.get(nth.min(open.len().saturating_sub(1))).copied() else { return Ok(()) };
        let (by, ticket) = (self.nets[n].desk.open[at].by, self.nets[n].desk.open[at].ticket.clone());
        self.give_word(n, at, by, word, emits).await?;
        self.said(calm, Some(&ticket), n).await
    }

    /// What was said is heard, and what came of it is looked at.
    pub(crate) async fn said(&mut self, calm: bool, ticket: Option<&str>, n: usize) -> Result<(), Wrong> {
        Self::breathe().await;
        self.collect().await?;
        if !calm || self.trouble {
            return Ok(());
        }
        self.observe().await?;
        match ticket.filter(|_| !self.nets[n].shaky) {
            Some(ticket) => self.nets[n].oracle.emits_are_there(ticket),
            None => Ok(()),
        }
    }

    /// Answers a question, as who is asked or as somebody else.
    pub(crate) async fn give_word(
        &mut self,
        n: usize,
        at: usize,
        by: Option<usize>,
        word: Word,
        emits: usize,
    ) -> Result<(), Wrong> {
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let Some(open) = net.desk.open.get(at) else { return Ok(()) };
        let (ticket, own) = (open.ticket.clone(), open.by == by);
        let (said, mut line) = worded(net, open, word);
        let mut inputs = Vec::new();
        for _ in 0..if own { emits } else { 0 } {
            let k = net.oracle.next_input();
            let target = ["core", "channel/general", ADDRESSES[k % 3]][k % 3];
            let payload = json!({ "k": k });
            let lane = u64::MAX / 2 + k as u64;
            let source = format!("mod/{}", open.name);
            inputs.push(net.oracle.sending(Input::new(&source, "echo.note", target, &payload, sent_at, lane)));
            let event = json!({ "type": "echo.note", "target": target, "payload": payload });
            line["emit"].as_array_mut().into_iter().for_each(|list| list.push(event.clone()));
        }
        net.oracle.saying(&ticket, own, said, inputs, sent_at);
        let Some(open) = net.desk.open.get_mut(at) else { return Ok(()) };
        let index = open.said;
        open.said += 1;
        // What nobody understands is no answer; of a process it is the end of the question.
        open.answered |= own && (word != Word::Mumble || by.is_none());
        match (by, &open.process) {
            (Some(c), _) => {
                line["ticket"] = json!(ticket);
                let id = verdict_id(&ticket, index);
                let text = json!({ "id": id, "type": "network.mod.verdict", "target": "core", "payload": line });
                let text = text.to_string();
                self.hand(n, c, vec![(Frame::Verdict(ticket, index), text)]).await;
            }
            (None, Some(asked)) => {
                if let Some((port, _)) = net.desk.ports.get(open.name.as_str()) {
                    port.said(asked, &line.to_string()).await;
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// A verdict was answered.
    pub(crate) fn verdict_answered(
        &mut self,
        n: usize,
        ticket: &str,
        index: usize,
        refused: Option<ErrorCode>,
    ) -> Result<(), Wrong> {
        if matches!(refused, Some(ErrorCode::StorageUnavailable | ErrorCode::ShuttingDown)) {
            // Nobody knows whether it was heard.
            return Ok(());
        }
        let now = self.now();
        let net = &mut self.nets[n];
        let open = net.desk.open.iter().find(|open| open.ticket == ticket);
        let about = open.map(|open| (open.by, open.event["payload"]["k"].as_u64().unwrap_or(0)));
        let there = about.is_some_and(|(by, k)| by.is_some_and(|c| net.clients[c].is_there_since(k)));
        net.oracle.word_answered(ticket, index, refused, now, there && !net.shaky)
    }
}

impl Net {
    /// Whether a mod could be asked at any time since an input was sent.
    fn is_served(&self, name: &str, k: usize) -> bool {
        let name = name.trim_start_matches("mod/");
        let Some(known) = self.oracle.served_mod(name) else { return false };
        let Some(server) = &known.server else {
            return self.desk.ports.get(name).is_some_and(|(_, since)| *since <= k);
        };
        let client = self.clients.iter().find(|c| c.address == server);
        // Whoever has left, or is about to, takes its mods along.
        client.is_some_and(|client| client.session.is_some() && !client.is_leaving() && client.is_there_since(k as u64))
    }

    /// A mod refused an input: who was there then is judged when everything was gathered.
    pub(crate) fn refused_by(&mut self, k: usize, fault: &Fault) {
        if let (ErrorCode::Rejected | ErrorCode::ModFailed, Some(by)) = (fault.code, &fault.by_mod) {
            self.desk.refusals.push((k, fault.code, by.to_string()));
        }
    }
}

/// What a process is asked next, if anything.
async fn next_of(desk: &mut Desk, name: &str) -> Option<ProcessCheck> {
    let (port, _) = desk.ports.get_mut(name)?;
    std::future::poll_fn(|cx| {
        let next = pin!(port.next());
        Poll::Ready(match next.poll(cx) {
            Poll::Ready(asked) => asked,
            Poll::Pending => None,
        })
    })
    .await
}

/// A process is not told what it is asked for: it is asked for what it is, unless it is written to.
fn step_of(name: &str, check: &Value) -> &'static str {
    if check["event"]["target"] == format!("mod/{name}") {
        return "mail";
    }
    MODS.iter().find(|(known, ..)| *known == name).map_or("guard", |(_, mode, _)| mode)
}

/// What is said, and how it is written.
fn worded(net: &Net, open: &Open, word: Word) -> (Said, Value) {
    let plain = open.event["type"].as_str().is_some_and(|kind| !kind.starts_with("network."));
    let mut payload = open.event["payload"].clone();
    payload[open.name.as_str()] = json!(open.ticket);
    let pass = (Said::Pass, json!({ "verdict": "pass", "emit": [] }));
    match word {
        Word::Pass => pass,
        Word::Reject => (Said::Reject, json!({ "verdict": "reject", "code": "world.no", "emit": [] })),
        Word::Mumble => (Said::Mumbled, json!({ "verdict": "hm", "emit": [] })),
        Word::Modify if plain => {
            let line = json!({ "verdict": "modified", "event": { "payload": payload }, "emit": [] });
            (Said::Modified(payload.to_string(), None), line)
        }
        Word::Move(to) if plain => {
            let target = address(net, to);
            let event = json!({ "payload": payload, "target": target });
            let line = json!({ "verdict": "modified", "event": event, "emit": [] });
            (Said::Modified(payload.to_string(), Some(target)), line)
        }
        Word::Modify | Word::Move(_) => pass,
    }
}
