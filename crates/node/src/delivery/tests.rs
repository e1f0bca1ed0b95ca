//! Streams and their windows, driven by hand.

use super::*;
use crate::outbox::{Inbox, outbox};
use crate::outgoing::{Outgoing, runs};
use rialto_engine::input::{Emit, KnownId, Proofs, Resume};
use rialto_engine::{Accepted, AckRequest, Caller, Clock, Effects, Engine, Record};
use rialto_model::Envelope;
use rialto_model::network::{Preset, Settings};

#[test]
fn back_off_doubles_and_is_capped() {
    for (attempt, base) in [(1, 30_000), (2, 60_000), (3, 120_000), (6, 900_000), (40, 900_000)] {
        let ms = backoff(attempt, 7);
        assert!((base * 80 / 100..=base * 120 / 100).contains(&ms), "{attempt}: {ms}");
    }
}

/// A network in memory and a clock that is moved by hand.
struct Bench {
    engine: Engine,
    sessions: LiveStreams,
    now: Clock,
}

impl Bench {
    fn new() -> Bench {
        let settings =
            Settings { policy: rialto_model::network::Policy::Open, ..Settings::preset("main", Preset::Plain) };
        let created = rialto_engine::record::Change::Created {
            id: "a1b2c3d4".into(),
            number: 1,
            salt: 7,
            id_key: None,
            created_at: 1,
            created_by: None,
            settings,
            mods: Vec::new(),
        };
        let engine = Engine::new(State::created(&created, 1).unwrap());
        Bench { engine, sessions: LiveStreams::default(), now: Clock { wall: 1 << 40, steady: 1 << 40 } }
    }

    fn apply(&mut self, mut fx: Effects) {
        for record in fx.take_records() {
            self.engine.apply(&record);
            if let Record::Event(event) = record {
                let event = Outgoing { record: event, tracked: true, book: 0 };
                for run in runs(vec![event], crate::budget::Accounts::default().mail()) {
                    self.sessions.deliver(&self.engine.state, &run, (false, limits::OUTBOX_BYTES_MAX), self.now.steady);
                }
            }
        }
        self.sessions.flush(&self.engine.state, self.engine.state.book.head, self.now.steady);
    }

    fn emit(&mut self, caller: &Caller, text: &str) -> Accepted {
        let envelope = Envelope::parse(text).unwrap();
        let (proofs, seen) = (Proofs::default(), KnownId::New);
        let emit = Emit {
            caller,
            envelope: &envelope,
            received: 1,
            seen,
            proofs,
            fresh_session: [text.len() as u8; 32],
            resume: Resume::None,
            answers: Default::default(),
        };
        let mut fx = Effects::default();
        let accepted = self.engine.emit(&emit, self.now, &mut fx).unwrap();
        self.apply(fx);
        accepted
    }

    fn join(&mut self, name: &str) -> Joined {
        let text = format!(r#"{{"type":"network.agent.join","source":"{name}","target":"core"}}"#);
        self.emit(&Caller::default(), &text).joined.map(|joined| *joined).unwrap()
    }

    fn pass(&mut self, ms: Millis) {
        self.now = Clock { wall: self.now.wall + ms, steady: self.now.steady + ms };
        let mut fx = Effects::default();
        self.engine.tick(self.now, &mut fx);
        self.apply(fx);
        let _ = self.sessions.retry(&self.engine.state, self.now.steady);
        self.sessions.flush(&self.engine.state, self.engine.state.book.head, self.now.steady);
    }
}

/// Attempt numbers of everything the stream was sent since the last look.
fn attempts(inbox: &mut Inbox) -> Vec<u32> {
    let mut out = Vec::new();
    while let Ok(outs) = inbox.try_recv() {
        for item in outs {
            match item {
                Out::Delivery(part) => out.extend(std::iter::repeat_n(1, part.len())),
                Out::Stored(list) => out.extend(list.iter().map(|a| a.attempt)),
                Out::Answers(_) | Out::Signal(_) | Out::Close(_) => {}
            }
        }
    }
    out
}

#[test]
fn an_overdue_delivery_comes_again_until_it_is_acked_or_dead() {
    let mut bench = Bench::new();
    let alice = bench.join("agent:alice");
    let bob = bench.join("agent:bob");
    let (outbox, mut inbox) = outbox(64);
    bench.sessions.open(1, &bob, outbox);
    bench.sessions.flush(&bench.engine.state, bench.engine.state.book.head, bench.now.steady);
    let caller = Caller { stream: Some(alice.session), ..Caller::default() };
    let first = bench.emit(&caller, r#"{"id":"m1","type":"app.note","target":"agent:bob"}"#).seq.unwrap();
    assert_eq!(attempts(&mut inbox), [1]);
    bench.pass(29_000);
    assert_eq!(attempts(&mut inbox), [0; 0]);
    // 30 s, then 60 s and 120 s, each give or take a fifth.
    bench.pass(1_000);
    assert_eq!(attempts(&mut inbox), [2]);
    bench.pass(47_000);
    assert_eq!(attempts(&mut inbox), [0; 0]);
    bench.pass(25_000);
    assert_eq!(attempts(&mut inbox), [3]);
    assert_eq!(bench.sessions.attempts(bob.session.member, first), 3);
    // Acked: silence.
    let mut fx = Effects::default();
    let request = AckRequest { seqs: vec![first], ..AckRequest::default() };
    bench.engine.ack(bob.session.member, &request, bench.now, &mut fx);
    bench.apply(fx);
    bench.sessions.acked(&bench.engine.state, bob.session.member, first, bench.now.steady);
    bench.pass(1_000_000);
    assert_eq!(attempts(&mut inbox), [0; 0]);
    // Mail that dies unread is not sent again, and its place in the window is free.
    let short = r#"{"id":"m2","type":"app.note","target":"agent:bob","metadata":{"ttl_ms":40000}}"#;
    let second = bench.emit(&caller, short).seq.unwrap();
    bench.pass(30_000);
    bench.pass(100_000);
    bench.pass(100_000);
    assert_eq!(attempts(&mut inbox), [1, 2]);
    assert_eq!(bench.sessions.attempts(bob.session.member, second), 0);
}

/// A reader that does not read holds only so many bytes; the rest of its mail is named, to be read from the log in its turn.
#[test]
fn outbox_bytes_max() {
    let mut bench = Bench::new();
    let (alice, bob) = (bench.join("agent:alice"), bench.join("agent:bob"));
    let (outbox, mut inbox) = outbox(64);
    bench.sessions.open(1, &Joined { window: limits::WINDOW_MAX, ..bob }, outbox);
    bench.sessions.flush(&bench.engine.state, bench.engine.state.book.head, bench.now.steady);
    let caller = Caller { stream: Some(alice.session), ..Caller::default() };
    let text = "x".repeat(256 << 10);
    let count = 2 * limits::OUTBOX_BYTES_MAX / text.len();
    for n in 0..count {
        let event =
            format!(r#"{{"id":"m{n}","type":"app.note","target":"agent:bob","payload":{{"content":"{text}"}}}}"#);
        bench.emit(&caller, &event);
        bench.sessions.flush(&bench.engine.state, bench.engine.state.book.head, bench.now.steady);
    }
    let (mut held, mut seqs) = (0, Vec::new());
    while let Ok(outs) = inbox.try_recv() {
        for out in outs {
            held += out.held_bytes();
            match out {
                Out::Delivery(part) => seqs.extend(part.records().iter().map(|r| r.event.seq)),
                Out::Stored(list) => seqs.extend(list.iter().map(|a| a.seq)),
                Out::Answers(_) | Out::Signal(_) | Out::Close(_) => {}
            }
        }
    }
    assert!(held < limits::OUTBOX_BYTES_MAX + 2 * text.len(), "{held} bytes");
    assert_eq!(seqs.len(), count, "all of it, in order");
    assert!(seqs.is_sorted());
}
