//! Doing and seeing mods that run elsewhere: what a step about them means, and which the operator is listed.

use super::World;
use super::client::Frame;
use super::oracle::{Input, Mode, ServedMod, Wrong, wrong};
use super::script::{DEADLINES_MS, MODS, Mods, PATTERNS, Terms};
use rialto_model::view::{AdminOutcome, ModKind};
use rialto_node::AdminOp;
use rialto_node::mods::manage::ModPatch;
use rialto_node::mods::{self, ModConfig, OnError};
use serde_json::{Value, json};

/// Rounds in which whoever has nothing that waits is answered.
const AT_ONCE: usize = 24;

impl World {
    /// Does what a step about mods means.
    pub(crate) async fn mods(&mut self, n: usize, c: usize, act: Mods, calm: bool) -> Result<(), Wrong> {
        match act {
            Mods::Serve { which, terms, approved } => {
                let (name, ..) = MODS[which % 5];
                let me = self.nets[n].clients[c].address;
                if approved && !self.nets[n].oracle.is_approved(name, me) {
                    // Who is let do something has to be known.
                    self.observe().await?;
                    let done = self.operate(n, AdminOp::ApproveMod(name.to_owned(), me.to_owned(), true)).await?;
                    done.into_iter().for_each(|_| self.nets[n].oracle.approved(name, me));
                }
                self.habit(n, name, terms.prompt);
                let payload = wish(which, terms);
                self.serve(n, c, payload, calm).await
            }
            Mods::Withdraw { which } => {
                let (name, ..) = MODS[which % 5];
                let server = self.nets[n].oracle.served_mod(name).and_then(|m| m.server.clone());
                let Some(c) = self.nets[n].clients.iter().position(|c| Some(c.address) == server.as_deref()) else {
                    return Ok(());
                };
                self.serve(n, c, json!({ "name": name, "unload": true }), calm).await
            }
            Mods::Process { which, terms } => self.process(n, which % 5, terms).await,
            Mods::Ends { which } => {
                self.nets[n].desk.ports.remove(MODS[which % 5].0);
                Ok(())
            }
            Mods::Unload { which } => {
                let (name, ..) = MODS[which % 5];
                if self.nets[n].oracle.settled_mod(name).is_none() {
                    return Ok(());
                }
                let done = self.operate(n, AdminOp::RemoveMod(name.to_owned())).await?;
                done.into_iter().for_each(|_| self.nets[n].oracle.mod_unloaded(name));
                Ok(())
            }
            Mods::Change { which, deadline, rejects } => {
                let Some(known) = self.nets[n].oracle.settled_mod(MODS[which % 5].0) else { return Ok(()) };
                let deadline_ms = DEADLINES_MS[deadline % 3];
                let on_error = if rejects { OnError::Reject } else { OnError::Skip };
                let patch =
                    ModPatch { deadline_ms: Some(deadline_ms), on_error: Some(on_error), ..ModPatch::default() };
                let done = self.operate(n, AdminOp::ChangeMod(known.name.clone(), patch)).await?;
                let changed = ServedMod { deadline_ms, rejects, ..known };
                done.into_iter().for_each(|_| self.nets[n].oracle.mod_loaded(changed.clone()));
                Ok(())
            }
            Mods::First { which } => self.first(n, which % 5).await,
            Mods::Answer { nth, word, emits } => self.answer(n, nth, word, emits, calm).await,
            Mods::Repeat { nth, word } => {
                let answered = self.nets[n].desk.open.iter().enumerate().rev().filter(|(_, o)| o.answered);
                let Some(at) = answered.map(|(at, _)| at).nth(nth) else { return Ok(()) };
                let by = self.nets[n].desk.open[at].by;
                self.give_word(n, at, by, word, 0).await?;
                self.said(calm, None, n).await
            }
            Mods::Usurp { nth, word } => {
                self.hear(n).await?;
                let open = self.nets[n].desk.open.iter().enumerate().filter(|(_, o)| !o.answered && o.by != Some(c));
                let Some(at) = open.map(|(at, _)| at).nth(nth) else { return Ok(()) };
                if self.nets[n].desk.open[at].by.is_none() || self.nets[n].clients[c].session.is_none() {
                    return Ok(());
                }
                self.give_word(n, at, Some(c), word, 0).await?;
                self.said(calm, None, n).await
            }
            Mods::Mail { which } => {
                if self.nets[n].clients[c].session.is_none() {
                    return Ok(());
                }
                let input = self.input(n, c, "app.note", &format!("mod/{}", MODS[which % 5].0));
                self.deliver(n, c, vec![(Frame::Event(0), input)], calm).await
            }
            Mods::Bystander => self.bystander(n).await,
        }
    }

    fn habit(&mut self, n: usize, name: &'static str, prompt: bool) {
        let habits = &mut self.nets[n].desk.prompt;
        habits.retain(|known| *known != name);
        habits.extend(prompt.then_some(name));
    }

    async fn serve(&mut self, n: usize, c: usize, mut payload: Value, calm: bool) -> Result<(), Wrong> {
        if self.nets[n].clients[c].session.is_none() {
            return Ok(());
        }
        payload["k"] = json!(self.nets[n].oracle.next_input());
        let me = self.nets[n].clients[c].address;
        self.nets[n].oracle.wants_to_serve(&payload, me);
        self.act(n, c, "network.mod.serve", payload, calm).await
    }

    /// An operator's act in the middle of everything; none if it was refused, or nobody may know.
    async fn operate(&mut self, n: usize, op: AdminOp) -> Result<Option<AdminOutcome>, Wrong> {
        // What was sent before waits by now.
        Self::breathe().await;
        let Some(network) = self.nets[n].handle.clone().filter(|_| !self.trouble) else { return Ok(None) };
        if !network.is_ready() {
            return Ok(None);
        }
        let result = self.drive(async move { network.admin(op).await }).await?;
        self.note(&format!("operator: {:?}", result.as_ref().map_err(|f| f.code.as_str())));
        Ok(result.ok())
    }

    async fn process(&mut self, n: usize, which: usize, terms: Terms) -> Result<(), Wrong> {
        let (name, mode, priority) = MODS[which];
        if self.nets[n].oracle.is_wished(name) {
            // Whether a member serves it already has to be known.
            self.observe().await?;
        }
        let known = self.nets[n].oracle.served_mod(name).cloned();
        if known.is_none() {
            let wish = wish(which, terms);
            let mode = mods::Mode::from_wire(mode).unwrap_or(mods::Mode::Guard);
            let config = ModConfig {
                intercepts: patterns(terms),
                priority: i32::try_from(priority).unwrap_or(0),
                on_error: if terms.rejects { OnError::Reject } else { OnError::Skip },
                deadline_ms: wish["deadline_ms"].as_u64(),
                ..ModConfig::process(name, mode)
            };
            if self.operate(n, AdminOp::LoadMod(config)).await?.is_none() {
                return Ok(());
            }
            self.habit(n, name, terms.prompt);
            self.nets[n].oracle.mod_loaded(served(which, terms));
        } else if known.is_some_and(|known| known.server.is_some()) {
            return Ok(());
        }
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let port = network.mod_port(name).await;
        Self::breathe().await;
        let since = self.nets[n].oracle.next_input();
        self.nets[n].desk.ports.insert(name, (port, since));
        Ok(())
    }

    /// The processes of mods are started with the node, in most lives: what they were asked before, they are asked again.
    pub(crate) async fn start_processes(&mut self) {
        if (self.script.seed ^ self.counts.restarts).is_multiple_of(4) {
            return;
        }
        for net in &mut self.nets {
            let Some(network) = net.handle.clone() else { continue };
            for (name, ..) in MODS {
                if net.oracle.served_mod(name).is_some_and(|known| known.server.is_none()) {
                    net.desk.ports.insert(name, (network.mod_port(name).await, net.oracle.next_input()));
                }
            }
        }
    }

    async fn first(&mut self, n: usize, which: usize) -> Result<(), Wrong> {
        let (name, mode, _) = MODS[which];
        // The node's own mods of a mode are put behind, too: only those of the world are looked at.
        let own = |(other, of, _): &&(&str, &str, i64)| *of == mode && *other != name;
        let oracle = &self.nets[n].oracle;
        let others: Option<Vec<ServedMod>> = MODS
            .iter()
            .filter(own)
            .filter(|(other, ..)| oracle.served_mod(other).is_some())
            .map(|(other, ..)| oracle.settled_mod(other))
            .collect();
        let (Some(known), Some(others)) = (oracle.settled_mod(name), others) else { return Ok(()) };
        let done = self.operate(n, AdminOp::OrderMods(None, vec![name.to_owned()])).await?;
        if done.is_some() {
            let mut all = others;
            all.sort_by_key(|m| (m.priority, m.name.clone()));
            for (place, m) in (0..).zip([known].into_iter().chain(all)) {
                self.nets[n].oracle.mod_loaded(ServedMod { priority: -100 + place, ..m });
            }
        }
        Ok(())
    }

    /// An input that a member is about to send.
    fn input(&mut self, n: usize, c: usize, kind: &str, target: &str) -> Input {
        let sent_at = self.now();
        let net = &mut self.nets[n];
        let k = net.oracle.next_input();
        let lane = net.clients[c].lane();
        let id = Some(format!("m-{k}"));
        Input { id, ..Input::new(net.clients[c].address, kind, target, &json!({ "k": k }), sent_at, lane) }
    }

    /// Somebody whose events nobody looks at is answered without waiting for others.
    async fn bystander(&mut self, n: usize) -> Result<(), Wrong> {
        if self.trouble || self.nets[n].shaky || self.nets[n].oracle.is_asked_about("free.note") {
            return Ok(());
        }
        let idle = |c: &usize| {
            let client = &self.nets[n].clients[*c];
            let stream = client.stream.as_ref().is_none_or(|s| s.joined && s.listening && s.waiting.is_empty());
            client.session.is_some() && client.calls.is_empty() && stream && !self.nets[n].oracle.waits(client.address)
        };
        let Some(c) = (0..self.nets[n].clients.len()).find(idle) else { return Ok(()) };
        let input = self.input(n, c, "free.note", "core");
        let k = self.nets[n].oracle.next_input();
        self.deliver(n, c, vec![(Frame::Event(0), input)], false).await?;
        for _ in 0..AT_ONCE {
            Self::breathe().await;
            self.pump();
            self.collect().await?;
            let stream = self.nets[n].clients[c].stream.as_ref();
            let gone = self.nets[n].shaky || self.nets[n].clients[c].session.is_none();
            if gone || self.nets[n].clients[c].calls.is_empty() && stream.is_none_or(|s| s.waiting.is_empty()) {
                return Ok(());
            }
        }
        wrong("order", format!("{} is kept waiting by others (k={k})", self.nets[n].clients[c].address))
    }

    /// Compares the mods the operator is listed with those there are.
    pub(crate) async fn compare_mods(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        if !self.nets[n].oracle.had_mods() {
            return Ok(());
        }
        let listed = self.look_at(&network, |session| async move { session.mods().await }).await?;
        let outside = listed.mods.into_iter().filter(|m| m.kind != ModKind::Builtin);
        let listed: Vec<(String, Option<String>)> =
            outside.map(|m| (m.name.into(), m.served_by.flatten().map(String::from))).collect();
        self.note(&format!("mods {listed:?}"));
        self.nets[n].oracle.mods_listed(&listed)
    }
}

fn patterns(terms: Terms) -> Vec<String> {
    PATTERNS[terms.patterns % 5].iter().map(|p| (*p).to_owned()).collect()
}

/// What a member says that wants to serve a mod.
fn wish(which: usize, terms: Terms) -> Value {
    let (name, mode, priority) = MODS[which % 5];
    json!({
        "name": name, "mode": mode, "intercepts": patterns(terms), "priority": priority,
        "deadline_ms": DEADLINES_MS[terms.deadline % 3], "on_error": if terms.rejects { "reject" } else { "skip" },
    })
}

/// The same as the oracle knows it.
fn served(which: usize, terms: Terms) -> ServedMod {
    let (name, mode, priority) = MODS[which % 5];
    let modes = [Mode::Guard, Mode::Transform, Mode::Observe];
    ServedMod {
        name: name.to_owned(),
        mode: modes.into_iter().find(|m| m.as_str() == mode).unwrap_or(Mode::Guard),
        server: None,
        intercepts: patterns(terms),
        priority,
        rejects: terms.rejects,
        deadline_ms: DEADLINES_MS[terms.deadline % 3],
    }
}
