//! Frames of a stream conversation, decided by a real engine: a refused frame leaves the state as it was; what is accepted is recorded,
//! the records survive their encoding, and replayed they give the same state, hash for hash.
//!
//! The input is a frame, or several in lines, each an event or an array of events.

use rialto_engine::credential::ProvedBy;
use rialto_engine::input::{Answers, Content, Emit, KnownId, Proofs, ProvedName, Question, Resume, Stop};
use rialto_engine::mods::ModConfig;
use rialto_engine::mods::external::verdict::ModVerdict;
use rialto_engine::mods::external::{CheckOutcome, FinishedCheck};
use rialto_engine::record::{Change, VERSION};
use rialto_engine::{AdminOp, Caller, Clock, Effects, Engine, Record, State};
use rialto_model::network::{Preset, Settings};
use rialto_model::{Envelope, limits};
use serde_json::value::RawValue;
use std::sync::{Arc, OnceLock};

const NETWORK: &str = "a1b2c3d4";
const START: u64 = 1_767_225_600_000;
/// Frames looked at in one input: more would only be slow.
const FRAMES: usize = 16;

struct World {
    engine: Engine,
    /// Of the state before the next frame.
    hash: [u8; 32],
    records: Vec<(u8, u64, Vec<u8>)>,
    fx: Effects,
    now: Clock,
}

/// A network with two members and a channel, as a snapshot: every input begins here.
fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mods = ["auth", "persistence"].map(|name| ModConfig::standard(name).unwrap()).to_vec();
        let settings = Settings::preset("main", Preset::Workspace);
        let (id, created_by) = (NETWORK.into(), None);
        let created =
            Change::Created { id, number: 1, salt: 7, id_key: None, created_at: START, created_by, settings, mods };
        let mut world = World::over(State::created(&created, 9).unwrap());
        world.engine.admin(&AdminOp::CreateChannel("general".into()), world.now, &mut world.fx).unwrap();
        world.step();
        world.emit(r#"{"type":"network.agent.join","source":"agent:alice","target":"core"}"#);
        world.emit(r#"{"type":"network.agent.join","source":"agent:bob","target":"core"}"#);
        assert!(world.records.len() > 2, "nobody joined");
        world.engine.state.to_snapshot()
    })
}

impl World {
    fn over(state: State) -> World {
        let hash = state.hash();
        let now = Clock { wall: START, steady: 5_000 };
        World { engine: Engine::new(state), hash, records: Vec::new(), fx: Effects::default(), now }
    }

    fn new() -> World {
        World::over(State::from_snapshot(base(), 9).unwrap())
    }

    /// Applies what was decided, by way of its bytes.
    fn step(&mut self) {
        for record in self.fx.take_records() {
            let record = record.with_ids(&|_| None);
            let mut body = Vec::new();
            record.encode(&mut body);
            let seq = if let Record::Event(event) = &record { event.event.seq } else { 0 };
            let back = Record::decode(record.kind(), VERSION, seq, NETWORK, &body).unwrap();
            assert_eq!(back, record);
            self.engine.apply(&back);
            self.records.push((record.kind(), seq, body));
        }
        self.fx = Effects::default();
        self.hash = self.engine.state.hash();
    }

    fn emit(&mut self, frame: &str) {
        let Ok(envelope) = Envelope::parse(frame) else { return };
        // The operator may speak for whom it names, so every rule behind the credentials is reached.
        let claimed = envelope.source.as_deref().map(Into::into);
        let caller = Caller { operator: true, claimed, ..Caller::default() };
        let mut emit = Emit {
            caller: &caller,
            envelope: &envelope,
            received: frame.len() as u128,
            seen: KnownId::New,
            proofs: Proofs::default(),
            fresh_session: [7; 32],
            resume: Resume::None,
            answers: Answers::default(),
        };
        self.now.wall += 1;
        self.now.steady += 1;
        let result = loop {
            let result = self.engine.emit(&emit, self.now, &mut self.fx);
            assert_eq!(self.engine.state.hash(), self.hash, "deciding changed the state");
            match result {
                Ok(_) => break Ok(()),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => {
                    assert!(self.fx.records.is_empty(), "asked {question:?}, yet recorded");
                    answer(*question, &mut emit.answers);
                }
            }
        };
        match result {
            Ok(()) => self.step(),
            Err(fault) => {
                let records = self.fx.take_records();
                assert!(records.is_empty(), "refused ({fault}), yet recorded: {records:?}");
                assert!(fault.payload(None).to_string().len() < 64 << 10);
            }
        }
    }
}

/// What a mod says that runs elsewhere.
fn said(verdict: &str) -> CheckOutcome {
    ModVerdict::parse(verdict).map_or(CheckOutcome::Failed("unreadable"), CheckOutcome::Said)
}

/// Answers as a node that takes everything.
fn answer(question: Question, answers: &mut Answers) {
    let kept = |bytes: &[u8]| Content { blob: [bytes.len() as u8; 32], size: bytes.len() as u64 };
    match question {
        Question::Check(check) => {
            let outcome = match check.event.len() % 3 {
                0 => CheckOutcome::Failed("fuzzed"),
                1 => said(r#"{"verdict":"pass"}"#),
                _ => said(r#"{"verdict":"modified","event":{"type":"fuzz.changed","payload":{"n":1}}}"#),
            };
            answers.mods = Some(check.mods);
            answers.checked.push(FinishedCheck { name: check.name, step: check.step, outcome });
        }
        Question::Schema { .. } => answers.schema = true,
        Question::Input { resource, version, .. } => answers.input = Some((resource, version)),
        Question::Output { resource, version, .. } => answers.output = Some(((resource, version), false)),
        Question::Content { base, bytes, .. } => answers.content = Some((base, kept(&bytes))),
        Question::Bytes { content, offset, length } => {
            answers.bytes = Some((content, offset, vec![b'x'; length as usize].into()));
        }
        Question::Blob { sha256, .. } => answers.blobs.push(Content { blob: sha256, size: 1 }),
        // Every other name has a key at its registrar; what the fuzzed join presents holds for the address it is for.
        Question::Registered { address } => answers.registered = Some((address.clone(), address.len() % 2 == 0)),
        Question::Proofs { address, .. } => {
            let by = ProvedBy { method: "key".into(), key: "fuzzed".into() };
            let level = u8::try_from(address.len() % 3 + 1).unwrap_or(1);
            let proved = ProvedName { address, level, by, ends_at: None, for_anybody: false, serial: 1 };
            answers.proved = Some(Arc::new(proved));
        }
        Question::Find { id } => answers.found.push((id, None)),
    }
}

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if data.len() > 64 << 10 {
        return;
    }
    let mut world = World::new();
    for frame in text.lines().take(FRAMES) {
        match serde_json::from_str::<Vec<&RawValue>>(frame) {
            Ok(items) if items.len() <= limits::BATCH_EVENTS_MAX => {
                items.iter().take(FRAMES).for_each(|raw| world.emit(raw.get()));
            }
            _ => world.emit(frame),
        }
    }
    let mut replayed = Engine::new(State::from_snapshot(base(), 21).unwrap());
    for (kind, seq, body) in &world.records {
        replayed.apply(&Record::decode(*kind, VERSION, *seq, NETWORK, body).unwrap());
    }
    let hash = world.engine.state.hash();
    assert_eq!(replayed.state.hash(), hash, "replay gives another state");
    let snapshot = world.engine.state.to_snapshot();
    assert_eq!(State::from_snapshot(&snapshot, 33).unwrap().hash(), hash, "the snapshot gives another state");
}
