//! When the disk refuses, and when the node stops.

use super::{Flight, Task, Then, load};
use crate::command::{Answered, Command, Out, Reply};
use crate::delivery::Sessions;
use rialto_engine::Effects;
use rialto_model::network::Durability;
use rialto_model::{ErrorCode, Fault};
use std::sync::atomic::Ordering;
use std::time::Duration;

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
        let flights: Vec<Flight> = self.flights.drain(..).collect();
        let unanswered = flights.into_iter().flat_map(|f| f.then).chain(std::mem::take(&mut self.then));
        for then in unanswered {
            match then {
                Then::Count(reply, _) => drop(reply.send(Err(fault()))),
                Then::Value(reply, _) => drop(reply.send(Err(fault()))),
                Then::Hash(reply, _) => drop(reply),
                Then::Answers(reply, mut answers, _) => {
                    answers.iter_mut().filter(|a| a.result.is_ok()).for_each(|a| {
                        a.result = Err(fault());
                        a.query = None;
                        a.silent = false;
                    });
                    match reply {
                        Reply::Once(reply) => drop(reply.send(answers)),
                        Reply::Stream(connection, outbox) => {
                            self.sessions.answer(connection, &outbox, Out::Answers(answers))
                        }
                    }
                }
            }
        }
        self.sessions.close_all(ErrorCode::StorageUnavailable);
        self.sessions = Sessions::default();
        self.joined.clear();
        self.records.clear();
        self.events.clear();
        self.fx = Effects::default();
        self.decided_after = 0;
        self.recent.clear();
        self.recent_bytes = 0;
        self.recent_ids.clear();
        let mut wait = Duration::from_millis(50);
        loop {
            let (store, number, class) = (self.store.clone(), self.shared.number, self.class);
            let seed = self.host.seed();
            let work = move || {
                store.reopen(number)?;
                load::load(store.as_ref(), class, number, seed)
            };
            let loaded = self.host.blocking(work).await;
            match loaded {
                Ok(Ok((engine, lsn))) => {
                    self.committed = engine.state.book.head;
                    self.last_lsn = lsn;
                    self.engine = engine;
                    self.broken = false;
                    // Late completions of dropped batches mean nothing any more.
                    while self.completions.try_recv().is_ok() {}
                    let _ = self.head.send(self.committed);
                    self.publish();
                    tracing::info!(network = %self.shared.id, head = self.committed, "the log was reopened");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(network = %self.shared.id, %error, "the log cannot be reopened yet"),
                Err(error) => tracing::error!(network = %self.shared.id, %error, "reopening failed"),
            }
            self.refuse_for(wait).await;
            if self.stopping {
                return;
            }
            wait = (wait * 2).min(Duration::from_millis(500));
        }
    }

    /// While the disk refuses, callers are told so at once.
    async fn refuse_for(&mut self, wait: Duration) {
        let until = tokio::time::Instant::now() + wait;
        let fault = || Fault::new(ErrorCode::StorageUnavailable, "the disk refuses writes; try again later");
        while let Ok(command) = tokio::time::timeout_at(until, self.commands.recv()).await {
            let Some(command) = command else {
                self.stopping = true;
                return;
            };
            match command {
                Command::Emit { frames, reply, .. } => {
                    let refused = |_| Answered {
                        event_id: None,
                        result: Err(fault()),
                        durability: Durability::Sync,
                        query: None,
                        silent: false,
                        session_id: None,
                    };
                    let answers: Vec<Answered> = frames.iter().map(refused).collect();
                    match reply {
                        Reply::Once(reply) => drop(reply.send(answers)),
                        Reply::Stream(_, outbox) => drop(
                            outbox.try_send(vec![Out::Answers(answers), Out::Close(ErrorCode::StorageUnavailable)]),
                        ),
                    }
                }
                Command::EmitKeyed { reply, .. } => {
                    let refused = Answered {
                        event_id: None,
                        result: Err(fault()),
                        durability: Durability::Sync,
                        query: None,
                        silent: false,
                        session_id: None,
                    };
                    let _ = reply.send(vec![refused]);
                }
                Command::Ack { reply, .. } | Command::AckThese { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Page { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Admin { reply, .. } | Command::View { reply, .. } | Command::Touch { reply, .. } => {
                    drop(reply.send(Err(fault())))
                }
                Command::Find { reply, .. } => drop(reply.send(Err(fault()))),
                Command::Shown { .. }
                | Command::CloseStream { .. }
                | Command::Hash { .. }
                | Command::Watch { .. }
                | Command::Forget { .. }
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
        self.urgent = !self.records.is_empty();
        self.submit().await;
        while !self.flights.is_empty() && !self.broken {
            match self.completions.recv().await {
                Some((number, result)) => self.completed(number, result),
                None => break,
            }
        }
        self.sessions.close_all(ErrorCode::ShuttingDown);
        if !self.broken {
            let bytes = self.engine.state.to_snapshot();
            let (store, class, number, lsn) = (self.store.clone(), self.class, self.shared.number, self.last_lsn);
            let saved = self.host.blocking(move || store.save_snapshot(class, number, lsn, &bytes)).await;
            if !matches!(saved, Ok(Ok(()))) {
                tracing::warn!(?saved, "snapshot was not saved; the next start replays more");
            }
        }
    }
}
