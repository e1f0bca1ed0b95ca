//! One network under a driven clock. Every record is encoded, decoded and applied right after it was decided; when the
//! world ends, replay and snapshots must give the state it had.

use rialto_engine::input::{Accepted, Answers, Content, Emit, KnownId, Proofs, Question, Resume, Stop};
use rialto_engine::mods::external::emitted::ModEvent;
use rialto_engine::mods::external::{CheckOutcome, CheckStage, EmitChain, FinishedCheck, ModCheck};
use rialto_engine::mods::{self, ModConfig};
use rialto_engine::record::{Change, VERSION};
use rialto_engine::{
    AckRequest, AdminOp, Caller, CandidatePage, Capabilities, Clock, Effect, Effects, Engine, EventRecord, Filter,
    MemberId, Record, SessionRef, State, View, Viewer, Wishes,
};
use rialto_model::network::{Preset, Settings, Token};
use rialto_model::{Envelope, ErrorCode, Fault, Seq};
use serde_json::{Value, json};
use sha2::Digest;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const NETWORK: &str = "a1b2c3d4";
pub(crate) const TOKEN: &str = "the-network-token";
pub(crate) const START: u64 = 1_767_225_600_000;

pub(crate) fn sha(text: &str) -> [u8; 32] {
    sha2::Sha256::digest(text.as_bytes()).into()
}

pub(crate) fn token(label: &str, text: &str) -> Token {
    Token::whole(label, sha(text), START)
}

/// How a join is made; the payload names the rest.
#[derive(Default, Clone)]
pub(crate) struct Join {
    pub(crate) payload: Value,
    pub(crate) tokens: Vec<&'static str>,
    pub(crate) session: Option<String>,
    pub(crate) capabilities: Capabilities,
    pub(crate) level: u8,
    pub(crate) failed: Option<Fault>,
    pub(crate) operator: bool,
    pub(crate) invite: Option<&'static str>,
    pub(crate) resume: Resume,
}

impl Join {
    pub(crate) fn token() -> Join {
        Join { tokens: vec![TOKEN], payload: json!({}), ..Join::default() }
    }
    pub(crate) fn with(payload: Value) -> Join {
        Join { payload, ..Join::token() }
    }
    pub(crate) fn compat() -> Join {
        Join { capabilities: Capabilities::ALL, ..Join::token() }
    }
}

/// What a mod that runs elsewhere says of an event.
pub(crate) type Elsewhere = Box<dyn FnMut(&ModCheck) -> CheckOutcome>;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Clock,
    pub(crate) created: Change,
    pub(crate) records: Vec<Record>,
    pub(crate) events: BTreeMap<Seq, Arc<EventRecord>>,
    pub(crate) ids: BTreeMap<String, Seq>,
    /// Session secrets by address.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Effects of the last step.
    pub(crate) after: Vec<Effect>,
    /// Compare state hashes around every decision (off where a test makes many).
    pub(crate) careful: bool,
    /// Whether payloads fit the output schemas of tools.
    pub(crate) fits: bool,
    /// Content by hash, as the node's blob store would have it.
    pub(crate) blobs: BTreeMap<[u8; 32], Vec<u8>>,
    /// The secret the node would make for the next invitation.
    pub(crate) fresh: &'static str,
    /// Mods that run elsewhere: what each says of an event. One that is not here does not answer.
    pub(crate) elsewhere: BTreeMap<&'static str, Elsewhere>,
    /// Which of them was asked for what, and the event it was shown.
    pub(crate) asked: Vec<(String, CheckStage, Value)>,
    /// What they send of their own.
    pub(crate) sent: Vec<(String, String)>,
    issued: u32,
    fx: Effects,
}

impl World {
    pub(crate) fn with(settings: Settings, names: &[&str]) -> World {
        let mut list: Vec<ModConfig> = names.iter().map(|n| ModConfig::standard(n).unwrap()).collect();
        mods::sort(&mut list);
        let created = Change::Created {
            id: NETWORK.into(),
            number: 1,
            salt: 7,
            id_key: None,
            created_at: START,
            created_by: None,
            settings,
            mods: list,
        };
        let state = State::created(&created, 9).unwrap();
        let mut world = World {
            engine: Engine::new(state),
            now: Clock { wall: START, steady: 5_000 },
            created,
            records: Vec::new(),
            events: BTreeMap::new(),
            ids: BTreeMap::new(),
            secrets: BTreeMap::new(),
            after: Vec::new(),
            careful: true,
            fits: true,
            blobs: BTreeMap::new(),
            fresh: "secret",
            elsewhere: BTreeMap::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            issued: 0,
            fx: Effects::default(),
        };
        world.admin(AdminOp::AddToken(token("main", TOKEN))).unwrap();
        world
    }

    /// A plain network with history.
    pub(crate) fn plain() -> World {
        World::with(Settings::preset("main", Preset::Plain), &["persistence"])
    }

    /// A plain network without any mod.
    pub(crate) fn bare() -> World {
        World::with(Settings::preset("main", Preset::Plain), &[])
    }

    /// A workspace network as the node makes it.
    pub(crate) fn workspace() -> World {
        let mut world = World::with(Settings::preset("main", Preset::Workspace), &["auth", "persistence"]);
        world.admin(AdminOp::CreateChannel("general".into())).unwrap();
        world
    }

    /// Agents that joined, in order.
    pub(crate) fn joined(mut self, names: &[&str]) -> World {
        names.iter().for_each(|name| {
            self.join(name);
        });
        self
    }

    pub(crate) fn state(&self) -> &State {
        &self.engine.state
    }

    fn step(&mut self) {
        for record in self.fx.take_records() {
            let ids = &self.events;
            let record = record.with_ids(&|seq| ids.get(&seq).map(|r| r.event.id().to_owned()));
            let mut body = Vec::new();
            record.encode(&mut body);
            let seq = if let Record::Event(e) = &record { e.event.seq } else { 0 };
            assert_eq!(Record::decode(record.kind(), VERSION, seq, NETWORK, &body).unwrap(), record);
            if let Record::Event(e) = &record {
                assert_eq!(e.event.seq, self.state().book.head + 1, "gapless");
                assert!(e.event.timestamp >= self.state().book.last_stamp, "stamps never go back");
                self.events.insert(e.event.seq, e.clone());
                self.ids.insert(e.event.id().to_owned(), e.event.seq);
            }
            self.engine.apply(&record);
            self.records.push(record);
        }
        self.after = std::mem::take(&mut self.fx.after);
    }

    /// Applies a record that no input of this world decides.
    pub(crate) fn commit(&mut self, record: Record) {
        self.fx.commit(record);
        self.step();
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now.wall += ms;
        self.now.steady += ms;
    }

    pub(crate) fn tick(&mut self) {
        self.engine.tick(self.now, &mut self.fx);
        self.step();
    }

    /// Lets time pass, with a tick at the end.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.advance(ms);
        self.tick();
    }

    /// The node stops in order and starts again; meanwhile so much wall time goes by.
    pub(crate) fn restart(&mut self, away_ms: u64) {
        self.engine.stop(self.now, &mut self.fx);
        self.step();
        self.crash(away_ms);
    }

    /// The node is killed and starts again; meanwhile so much wall time goes by.
    pub(crate) fn crash(&mut self, away_ms: u64) {
        self.engine = Engine::new(self.state().clone());
        self.now = Clock { wall: self.now.wall + away_ms, steady: self.state().monotonic() };
    }

    pub(crate) fn caller(&self, address: &str) -> Caller {
        Caller { bearer: self.secrets.get(address).map(|s| sha(s)), ..Caller::default() }
    }

    pub(crate) fn holder(claimed: &str) -> Caller {
        Caller {
            bearer: Some(sha(TOKEN)),
            claimed: Some(claimed.into()),
            capabilities: Capabilities::ALL,
            ..Caller::default()
        }
    }

    /// Joins with the network token.
    pub(crate) fn join(&mut self, address: &str) -> Value {
        *self.try_join(address, Join::token()).unwrap().result.unwrap()
    }

    pub(crate) fn join_with(&mut self, address: &str, payload: Value) -> Value {
        *self.try_join(address, Join::with(payload)).unwrap().result.unwrap()
    }

    pub(crate) fn try_join(&mut self, address: &str, join: Join) -> Result<Accepted, Fault> {
        let text =
            json!({ "type": "network.agent.join", "source": address, "target": "core", "payload": join.payload })
                .to_string();
        let envelope = Envelope::parse(&text).map_err(|u| u.fault)?;
        self.issued += 1;
        let secret = format!("session-{}", self.issued);
        let caller = Caller {
            session: join.session.as_deref().map(sha),
            capabilities: join.capabilities,
            operator: join.operator,
            ..Caller::default()
        };
        let emit = Emit {
            caller: &caller,
            envelope: &envelope,
            received: 0,
            seen: KnownId::New,
            proofs: Proofs {
                tokens: join.tokens.iter().map(|t| sha(t)).collect(),
                invite: join.invite.map(sha),
                level: join.level,
                failed: join.failed,
            },
            fresh_session: sha(&secret),
            resume: join.resume,
            answers: Answers::default(),
        };
        let result = self.decide(emit);
        if result.is_err() {
            assert!(self.fx.records.is_empty(), "a refused join leaves nothing behind");
        }
        self.step();
        if let Ok(accepted) = &result
            && accepted.joined.as_ref().is_some_and(|j| j.issued)
        {
            let address = accepted.result.as_ref().unwrap()["address"].as_str().unwrap().to_owned();
            self.secrets.insert(address, secret);
        }
        result
    }

    /// Sends an event under the member's own session.
    pub(crate) fn emit(&mut self, source: &str, event: Value) -> Result<Accepted, Fault> {
        let caller = self.caller(source);
        self.emit_text(&caller, &event.to_string())
    }

    pub(crate) fn emit_as(&mut self, caller: &Caller, event: Value) -> Result<Accepted, Fault> {
        self.emit_text(caller, &event.to_string())
    }

    pub(crate) fn emit_text(&mut self, caller: &Caller, text: &str) -> Result<Accepted, Fault> {
        let envelope = Envelope::parse(text).map_err(|u| u.fault)?;
        let seen = envelope.id.as_deref().and_then(|id| self.ids.get(id)).map(|seq| self.events[seq].clone());
        let emit = Emit {
            caller,
            envelope: &envelope,
            received: xxhash_rust::xxh3::xxh3_128(text.as_bytes()),
            seen: seen.map_or(KnownId::New, KnownId::Known),
            proofs: Proofs::default(),
            fresh_session: sha(self.fresh),
            resume: Resume::None,
            answers: Answers::default(),
        };
        let before = self.careful.then(|| self.state().hash());
        let result = self.decide(emit);
        if let Some(before) = before {
            assert_eq!(self.engine.state.hash(), before, "deciding changes nothing durable");
        }
        if result.is_err() {
            assert!(self.fx.records.is_empty(), "a refusal leaves nothing behind");
        }
        self.step();
        result
    }

    /// Decides an event; questions are answered as a node would answer them, from what this world keeps.
    fn decide(&mut self, mut emit: Emit<'_>) -> Result<Accepted, Fault> {
        loop {
            let question = match self.engine.emit(&emit, self.now, &mut self.fx) {
                Ok(accepted) => return Ok(accepted),
                Err(Stop::Refused(fault)) => return Err(fault),
                Err(Stop::Ask(question)) => *question,
            };
            assert!(self.fx.records.is_empty(), "a question leaves nothing behind");
            match question {
                Question::Check(check) => {
                    emit.answers.mods = Some(check.mods.clone());
                    let checked = self.checked(&check);
                    emit.answers.checked.push(checked);
                }
                Question::Schema { .. } => emit.answers.schema = true,
                Question::Input { resource, version, .. } => emit.answers.input = Some((resource, version)),
                Question::Content { base, bytes, .. } => {
                    let mut all = base.map(|b| self.blobs[&b.blob].clone()).unwrap_or_default();
                    all.extend_from_slice(&bytes);
                    let content = Content { blob: sha2::Sha256::digest(&all).into(), size: all.len() as u64 };
                    self.blobs.insert(content.blob, all);
                    emit.answers.content = Some((base, content));
                }
                Question::Output { resource, version, .. } => {
                    emit.answers.output = Some(((resource, version), self.fits))
                }
                Question::Find { id } => {
                    let record = self.ids.get(&id).map(|seq| self.events[seq].clone());
                    emit.answers.found.push((id, record));
                }
                Question::Bytes { content, offset, length } => {
                    let all = &self.blobs[&content.blob];
                    let from = usize::try_from(offset).unwrap().min(all.len());
                    let to = usize::try_from(offset + length).unwrap().min(all.len());
                    emit.answers.bytes = Some((content, offset, all[from..to].into()));
                }
                Question::Blob { sha256, .. } => {
                    let Some(known) = self.blobs.get(&sha256) else {
                        return Err(Fault::from(ErrorCode::UnknownTarget));
                    };
                    emit.answers.blobs.push(Content { blob: sha256, size: known.len() as u64 });
                }
            }
        }
    }

    /// What a mod that runs elsewhere says.
    fn checked(&mut self, check: &ModCheck) -> FinishedCheck {
        let event = serde_json::from_str(&check.event).unwrap();
        self.asked.push((check.name.to_string(), check.step, event));
        let outcome = match self.elsewhere.get_mut(check.name.as_ref()) {
            Some(said) => said(check),
            None => CheckOutcome::Failed("offline"),
        };
        if let CheckOutcome::Said(verdict) = &outcome {
            self.sent.extend(verdict.emit.iter().map(|e| (check.name.to_string(), e.get().to_owned())));
        }
        FinishedCheck { name: check.name.clone(), step: check.step, outcome }
    }

    /// Decides an event while things happen between a question and its answer.
    pub(crate) fn interrupted(
        &mut self,
        caller: &Caller,
        text: &str,
        mut meanwhile: impl FnMut(&mut World, &ModCheck) -> CheckOutcome,
    ) -> Result<Accepted, Fault> {
        let envelope = Envelope::parse(text).map_err(|u| u.fault)?;
        let mut emit = Emit {
            caller,
            envelope: &envelope,
            received: 0,
            seen: KnownId::New,
            proofs: Proofs::default(),
            fresh_session: [0; 32],
            resume: Resume::None,
            answers: Answers::default(),
        };
        let result = loop {
            match self.engine.emit(&emit, self.now, &mut self.fx) {
                Ok(accepted) => break Ok(accepted),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => match *question {
                    Question::Check(check) => {
                        emit.answers.mods = Some(check.mods.clone());
                        let outcome = meanwhile(self, &check);
                        emit.answers.checked.push(FinishedCheck {
                            name: check.name.clone(),
                            step: check.step,
                            outcome,
                        });
                    }
                    other => panic!("only mods are asked here, not {other:?}"),
                },
            }
        };
        self.step();
        result
    }

    /// Decides what a mod sends.
    pub(crate) fn emit_of_mod(&mut self, name: &str, event: &Value) -> Result<Accepted, Fault> {
        let text = event.to_string();
        let envelope = Envelope::parse(&text).map_err(|u| u.fault)?;
        let mut answers = Answers::default();
        let result = loop {
            let input = ModEvent {
                name,
                envelope: &envelope,
                answers_to: None,
                chain: EmitChain::default(),
                owed: None,
                answers: &answers,
            };
            match self.engine.emit_of_mod(&input, self.now, &mut self.fx) {
                Ok(accepted) => break Ok(accepted),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => match *question {
                    Question::Check(check) => {
                        answers.mods = Some(check.mods.clone());
                        let checked = self.checked(&check);
                        answers.checked.push(checked);
                    }
                    other => panic!("a mod's event asks {other:?}"),
                },
            }
        };
        self.step();
        result
    }

    /// Sends a plain message; gives its seq.
    pub(crate) fn say(&mut self, source: &str, target: &str) -> Seq {
        self.emit(source, json!({ "type": "chat.message.posted", "target": target })).unwrap().seq.unwrap()
    }

    /// The code a plain message is refused with, or `ok`.
    pub(crate) fn try_say(&mut self, source: &str, target: &str) -> String {
        outcome(&self.emit(source, json!({ "type": "chat.message.posted", "target": target })))
    }

    /// An act on the core; gives its result.
    pub(crate) fn act(&mut self, source: &str, kind: &str, payload: Value) -> Result<Value, Fault> {
        let accepted = self.emit(source, json!({ "type": kind, "target": "core", "payload": payload }))?;
        Ok(*accepted.result.unwrap_or_default())
    }

    pub(crate) fn admin(&mut self, op: AdminOp) -> Result<Value, Fault> {
        let result = self.engine.admin(&op, self.now, &mut self.fx);
        if result.is_err() {
            assert!(self.fx.records.is_empty(), "a refusal leaves nothing behind");
        }
        self.step();
        result.map(|outcome| json!(outcome))
    }

    /// What a member changes about itself.
    pub(crate) fn own(&mut self, address: &str, wishes: Value) -> Result<(), Fault> {
        let id = self.id(address);
        let result = self.engine.change_own(id, &Wishes::from_json(&wishes)?, self.now, &mut self.fx);
        if result.is_err() {
            assert!(self.fx.records.is_empty(), "a refusal leaves nothing behind");
        }
        self.step();
        result
    }

    /// Opens or closes a stream of the member.
    pub(crate) fn stream(&mut self, address: &str, open: bool) {
        let id = self.id(address);
        self.engine.live.stream(id, open, self.now);
    }

    pub(crate) fn set(&mut self, settings: Value) {
        self.admin(AdminOp::Settings(settings)).unwrap();
    }

    pub(crate) fn load(&mut self, name: &str, config: Value) {
        let mut m = ModConfig::standard(name).unwrap();
        m.config = config.as_object().cloned().unwrap_or_default();
        self.admin(AdminOp::SetMod(m)).unwrap();
    }

    pub(crate) fn id(&self, address: &str) -> MemberId {
        self.state().member_id(address).unwrap_or_else(|| panic!("{address} is no member"))
    }

    pub(crate) fn ack(&mut self, address: &str, seqs: &[Seq]) -> u64 {
        self.ack_request(address, &AckRequest { seqs: seqs.to_vec(), up_to: None, count: true })
    }

    pub(crate) fn ack_up_to(&mut self, address: &str, seq: Seq) -> u64 {
        self.ack_request(address, &AckRequest { seqs: vec![], up_to: Some(seq), count: true })
    }

    pub(crate) fn ack_request(&mut self, address: &str, request: &AckRequest) -> u64 {
        let id = self.id(address);
        let n = self.engine.ack(id, request, self.now, &mut self.fx);
        self.step();
        n
    }

    pub(crate) fn give_up(&mut self, address: &str, seqs: &[Seq], reason: &str) {
        let id = self.id(address);
        self.engine.give_up(id, seqs, reason, self.now, &mut self.fx);
        self.step();
    }

    pub(crate) fn receive_queue(&mut self, address: &str) {
        let id = self.id(address);
        self.engine.receive_queue(id, &mut self.fx);
        self.step();
    }

    pub(crate) fn pending(&self, address: &str) -> Vec<Seq> {
        self.state().pending(self.id(address), 0, Seq::MAX).collect()
    }

    pub(crate) fn head(&self) -> Seq {
        self.state().book.head
    }

    /// Dead-letter notices committed so far: (source, recipient, reason, ids).
    pub(crate) fn notices(&self) -> Vec<(String, String, String, Vec<String>)> {
        let notices = self.events.values().filter(|e| e.event.kind() == "rialto.delivery.dead");
        notices
            .map(|e| {
                let p: Value = serde_json::from_str(e.event.payload()).unwrap();
                let text = |k: &str| p[k].as_str().unwrap().to_owned();
                let more = p.get("more").and_then(Value::as_array).cloned().unwrap_or_default();
                let ids = std::iter::once(text("event_id")).chain(more.iter().map(|v| v.as_str().unwrap().to_owned()));
                (e.event.target().to_owned(), text("recipient"), text("reason"), ids.collect())
            })
            .collect()
    }

    pub(crate) fn page(
        &self,
        viewer: Viewer,
        filter: &Filter,
        position: Option<Seq>,
        max: usize,
    ) -> Result<CandidatePage, Fault> {
        self.state().page(viewer, View::Log, filter, position, Seq::MAX, max)
    }

    /// Everything a viewer finds with a filter, read page by page of two candidates.
    pub(crate) fn read(&self, viewer: Viewer, filter: &Filter) -> Vec<Seq> {
        let (mut out, mut position) = (Vec::new(), None);
        loop {
            let page = self.page(viewer, filter, position, 2).unwrap();
            let filter = &Filter { people: page.people.clone(), ..filter.clone() };
            position = page.seqs.last().copied().or(position);
            out.extend(page.seqs.iter().copied().filter(|seq| {
                let record = &self.events[seq];
                page.lens.shows(record) && filter.passes(record)
            }));
            if page.exhausted {
                return out;
            }
        }
    }

    pub(crate) fn session(&self, address: &str) -> SessionRef {
        let member = self.id(address);
        let number = self.state().member(member).unwrap().sessions.last().unwrap().number;
        SessionRef { member, number }
    }

    /// The records as the log would hold them.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.records
            .iter()
            .map(|r| {
                let mut body = vec![r.kind()];
                r.encode(&mut body);
                body
            })
            .collect()
    }

    /// Replay from the start, and from a snapshot taken anywhere, give the state there is.
    pub(crate) fn check(&self) {
        let mut replayed = Engine::new(State::created(&self.created, 1).unwrap());
        let cuts = [0, self.records.len() / 3, self.records.len() / 2, self.records.len()];
        for (at, record) in self.records.iter().enumerate() {
            if cuts.contains(&at) {
                let bytes = replayed.state.to_snapshot();
                let mut rest = Engine::new(State::from_snapshot(&bytes, 2).unwrap());
                assert_eq!(rest.state.hash(), replayed.state.hash(), "snapshot reads back");
                self.records[at..].iter().for_each(|r| rest.apply(r));
                assert_same(&rest.state, self.state(), "snapshot and the rest");
            }
            replayed.apply(record);
        }
        assert_same(&replayed.state, self.state(), "replay");
    }
}

fn assert_same(a: &State, b: &State, what: &str) {
    assert_eq!(a.reading, b.reading, "{what}: the clock");
    assert_eq!(a.book, b.book, "{what}");
    assert_eq!(a.lists, b.lists, "{what}");
    assert_eq!(a.hash(), b.hash(), "{what}");
    assert!(a.derives_as(b), "{what}: look-ups");
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// `ok`, or the code of the refusal.
pub(crate) fn outcome<T>(result: &Result<T, Fault>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(fault) => fault.wire_code().to_owned(),
    }
}

/// Signals of a type among the last effects, as (source, target, metadata).
pub(crate) fn signals<'w>(world: &'w World, kind: &'w str) -> Vec<&'w rialto_model::Event> {
    world
        .after
        .iter()
        .filter_map(|e| match e {
            Effect::Signal { event, .. } => Some(event.as_ref()),
            _ => None,
        })
        .filter(|e| e.kind() == kind)
        .collect()
}
