//! When the disk refuses, and when the node stops.

use super::load::{self, Readable};
use super::{Flight, Task, Then};
use crate::command::{Answered, Command, Out, Reply};
use crate::delivery::LiveStreams;
use rialto_engine::{Effects, Engine};
use rialto_model::{ErrorCode, Fault};
use rialto_store::StoreError;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The log is tried again after this long …
const WAIT_MIN: Duration = Duration::from_millis(50);
/// … and at most this long.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// Whether a command changes nothing that lasts.
fn only_reads(command: &Command) -> bool {
    match command {
        Command::Page { .. }
        | Command::Latest { .. }
        | Command::Read(_)
        | Command::Locate { .. }
        | Command::Admitted { .. }
        | Command::Shown { .. }
        | Command::Forget { .. }
        | Command::Snapshot { .. }
        | Command::Contents { .. }
        | Command::Fact { .. }
        | Command::Facts { .. }
        | Command::Horizon { .. } => true,
        Command::Emit { .. }
        | Command::EmitKeyed { .. }
        | Command::AckThese { .. }
        | Command::Admin { .. }
        | Command::OpenRoom { .. }
        | Command::Own { .. }
        | Command::Watch { .. }
        | Command::Carry { .. }
        | Command::ChangeFact { .. }
        | Command::CloseStream { .. }
        | Command::ModPort { .. }
        | Command::ModSaid { .. }
        | Command::Hash { .. }
        | Command::Save { .. }
        | Command::Stop { .. } => false,
    }
}

impl Task {
    /// Answers everything unanswered with `storage_unavailable`, then starts again from what reached the disk.
    pub(super) async fn recover(&mut self) {
        self.shared.ready.store(false, Ordering::Release);
        let fault = || {
            Fault::new(
                ErrorCode::StorageUnavailable,
                "the disk refused the write; nothing of this was accepted for sure: send it again",
            )
        };
        let flights: Vec<Flight> = self.log.flights.drain(..).collect();
        let unanswered = flights.into_iter().flat_map(|f| f.then).chain(std::mem::take(&mut self.then));
        for then in unanswered {
            match then {
                Then::Count(reply, _) => drop(reply.send(Err(fault()))),
                Then::Pending(answer) => answer.give(Err(fault())),
                Then::Page(reply, _) => drop(reply.send(Err(fault()))),
                Then::Latest(reply, _) => drop(reply.send(Err(fault()))),
                Then::Changed(reply, _) => drop(reply.send(Err(fault()))),
                Then::Fact(reply, _) => drop(reply.send(Err(fault()))),
                Then::Facts(reply, _) => drop(reply.send(Err(fault()))),
                Then::Hash(reply, _) => drop(reply),
                Then::Save(reply, _) => drop(reply),
                Then::Answers(reply, mut answers, _) => {
                    for answered in answers.iter_mut().filter(|a| a.result.is_ok()) {
                        *answered = Answered::refusal(answered.event_id().map(str::to_owned), fault());
                    }
                    self.answer(reply, answers);
                }
            }
        }
        self.urgent = false;
        self.refuse_deferred(&fault(), false);
        self.mod_calls.forget();
        self.blobs.doubt(self.shared.number);
        self.sessions.close_all(ErrorCode::StorageUnavailable);
        self.tell();
        self.sessions = LiveStreams::default();
        self.joined.clear();
        self.forget_decided();
        self.recent.clear();
        let mut wait = WAIT_MIN;
        // The state is whole but the disk has no room: it can be read, not changed.
        let mut full = false;
        loop {
            let (store, number, class) = (self.log.store.clone(), self.shared.number, self.log.class);
            let seed = self.host.seed();
            let work = move || match store.reopen(number) {
                Ok(()) => Ok((load::load_readable(store.as_ref(), class, number, seed)?, None)),
                Err(error @ StoreError::NoSpace { .. }) if !full => {
                    Ok((load::load_readable(store.as_ref(), class, number, seed)?, Some(error)))
                }
                Err(error) => Err(load::LoadError::Store(error)),
            };
            match self.host.blocking(work).await {
                Ok(Ok(_)) if rialto_engine::bugs::on("engine kept after a failed flush") => {
                    self.log.broken = false;
                    self.publish();
                    return;
                }
                Ok(Ok((Readable { engine, lsn, damage }, no_room))) => {
                    self.take_over(engine, lsn);
                    if let Some(damage) = damage {
                        tracing::error!(network = %self.shared.id, %damage, "the network is damaged: it can be read, not written");
                        *self.shared.damage.write().unwrap_or_else(PoisonError::into_inner) = Some(damage.to_string());
                        self.blobs.doubt(self.shared.number);
                        return self.serve_reads().await;
                    }
                    let Some(error) = no_room else {
                        self.publish();
                        tracing::info!(network = %self.shared.id, head = self.committed, "the log was reopened");
                        return;
                    };
                    tracing::warn!(network = %self.shared.id, %error, "no room for writes: reads are served");
                    full = true;
                }
                Ok(Err(load::LoadError::Store(StoreError::NoSpace { .. }))) => {}
                Ok(Err(error)) => {
                    full = false;
                    tracing::warn!(network = %self.shared.id, %error, "the log cannot be reopened yet");
                }
                Err(error) => tracing::error!(network = %self.shared.id, %error, "reopening failed"),
            }
            let what = if full {
                "the disk is full: writes are refused until there is room again"
            } else {
                "the disk refuses writes; try again later"
            };
            self.refuse_for(Some(wait), full, what).await;
            if self.stopping {
                return;
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Forgets what was decided and is not in the log.
    fn forget_decided(&mut self) {
        self.open.discard();
        self.fx = Effects::default();
        self.walk.decided_after = 0;
    }

    /// Goes on with a state as it is in the log.
    fn take_over(&mut self, engine: Engine, lsn: u64) {
        self.committed = engine.state.book.head;
        self.shared.last_text.store(self.committed, Ordering::Release);
        self.log.last_lsn = lsn;
        self.blobs.load(self.shared.number, engine.state.blobs());
        self.engine = engine;
        self.log.broken = false;
        self.forget_decided();
        // Late completions of dropped batches mean nothing any more.
        while self.log.completions.try_recv().is_ok() {}
        let _ = self.head.send(self.committed);
    }

    /// What a damaged network does until it is stopped: it shows what there is before the damage, and changes nothing. Neither what
    /// may be freed nor a state to save is told: both would build on what cannot be read.
    pub(super) async fn serve_reads(&mut self) {
        self.shared.ready.store(false, Ordering::Release);
        let what = "this network is damaged: it can be read up to the damage and takes no writes until its operator has repaired it (`rialto repair`)";
        self.refuse_for(None, true, what).await;
        self.stopping = true;
    }

    /// Callers are told at once that nothing is written, for a while or until the node stops; reads are answered if `reads`.
    async fn refuse_for(&mut self, wait: Option<Duration>, reads: bool, what: &str) {
        let until = wait.map(|wait| tokio::time::Instant::now() + wait);
        let fault = || Fault::new(ErrorCode::StorageUnavailable, what);
        loop {
            let next = self.commands.recv();
            let command = match until {
                Some(until) => match tokio::time::timeout_at(until, next).await {
                    Ok(command) => command,
                    Err(_) => return,
                },
                None => next.await,
            };
            let Some(command) = command else {
                self.stopping = true;
                return;
            };
            if until.is_none() && matches!(command, Command::Snapshot { .. } | Command::Horizon { .. }) {
                continue;
            }
            if reads && only_reads(&command) {
                self.engine.state.strangers = self.shared.strangers();
                let now = self.clock.now();
                self.other(command, now);
                continue;
            }
            match command {
                Command::Emit { texts, reply, .. } => {
                    let answers: Vec<Answered> = texts.iter().map(|_| Answered::refusal(None, fault())).collect();
                    match reply {
                        Reply::Once(reply) => drop(reply.send(answers)),
                        Reply::Stream(_, outbox) => {
                            let _ = outbox.send(vec![Out::Answers(answers), Out::Close(ErrorCode::StorageUnavailable)]);
                        }
                        Reply::Nobody => {}
                    }
                }
                Command::EmitKeyed { reply, .. } => {
                    let _ = reply.send(vec![Answered::refusal(None, fault())]);
                }
                Command::AckThese { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Page { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Latest { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Admin { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Own { reply, .. } => drop(reply.send(Err(fault()))),
                Command::OpenRoom { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Read(read) => read.refuse(fault()),
                Command::Locate { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Carry { reply, .. } => drop(reply.send(Err(fault()))),
                Command::ChangeFact { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Fact { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Facts { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Admitted { reply, .. } => drop(reply.send(Err(fault()))),
                Command::ModPort { name, asks } => self.mod_calls.connect(name, asks),
                Command::Shown { .. }
                | Command::ModSaid { .. }
                | Command::CloseStream { .. }
                | Command::Hash { .. }
                | Command::Save { .. }
                | Command::Contents { .. }
                | Command::Watch { .. }
                | Command::Forget { .. }
                | Command::Snapshot { .. }
                | Command::Horizon { .. } => {}
                Command::Stop { reply } => {
                    let _ = reply.send(());
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    /// Commits what waits, tells the streams, saves a snapshot.
    pub(super) async fn stop(&mut self) {
        if !self.log.broken {
            self.engine.stop(self.clock.now(), &mut self.fx);
            let _ = self.decided(Ok(()));
        }
        self.urgent = !self.open.records.is_empty();
        self.submit().await;
        while !self.log.flights.is_empty() && !self.log.broken {
            match self.log.completions.recv().await {
                Some((number, result)) => self.completed(number, result),
                None => break,
            }
        }
        // Behind the answers to what was sent before and is committed now.
        self.refuse_deferred(&ErrorCode::ShuttingDown.into(), !self.log.broken);
        self.sessions.close_all(ErrorCode::ShuttingDown);
        self.tell();
        if !self.log.broken {
            let bytes = self.engine.state.to_snapshot();
            let (store, class, number, lsn) =
                (self.log.store.clone(), self.log.class, self.shared.number, self.log.last_lsn);
            let saved = self.host.blocking(move || store.save_snapshot(class, number, lsn, &bytes)).await;
            if !matches!(saved, Ok(Ok(()))) {
                tracing::warn!(?saved, "snapshot was not saved; the next start replays more");
            }
        }
    }
}
