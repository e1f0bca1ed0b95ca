//! Taking what waits: all of it that fits one batch, everybody in turn.

use super::{BATCH_EVENTS, Task};
use crate::command::{Command, Reply};
use std::collections::VecDeque;

/// A batch of so many events is handed over behind another, so that the disk never waits for it.
const PIPELINE_EVENTS: usize = 256;
/// Turns given to senders while a batch is gathered.
const GATHER_TURNS: usize = 16;
/// Turns in a row that nobody used: nobody is ready.
const QUIET_TURNS: usize = 2;
/// Events of one connection taken in a row before others have their turn.
const TURN_EVENTS: usize = 256;
/// Bytes decided in one batch, about.
pub(super) const BATCH_BYTES: usize = 8 << 20;

impl Task {
    /// Takes all that waits, fairly, and makes one batch of it. While another is on its way to the disk, a small batch
    /// stays open: it could not be flushed sooner, and those who hear of the other's commit may still join it.
    pub(super) async fn gather(&mut self, first: Option<Command>) {
        let mut lanes: Vec<(u64, VecDeque<Command>)> = Vec::new();
        let (mut others, mut requests) = (Vec::new(), Vec::new());
        // A stream's end is behind all that it sent; a request is all that its connection sends.
        let mut put = |command: Command| {
            if matches!(&command, Command::Emit { reply: Reply::Once(_), .. }) {
                return requests.push(command);
            }
            let (Command::Emit { connection, .. } | Command::CloseStream { connection }) = &command else {
                return others.push(command);
            };
            match lanes.iter_mut().find(|(c, _)| c == connection) {
                Some((_, lane)) => lane.push_back(command),
                None => lanes.push((*connection, VecDeque::from([command]))),
            }
        };
        let (mut events, mut bytes) = (0, 0);
        let mut stop = None;
        let mut turns = GATHER_TURNS;
        let mut next = match first {
            None => self.next_waiting(&mut turns).await,
            first => first,
        };
        while let Some(command) = next {
            if let Command::Emit { texts, .. } = &command {
                events += texts.len();
                bytes += texts.bytes();
            }
            if let Command::Stop { reply } = command {
                stop = Some(reply);
                break;
            }
            put(command);
            let room = events < BATCH_EVENTS && bytes < BATCH_BYTES;
            next = if room { self.next_waiting(&mut turns).await } else { None };
        }
        self.open.events.reserve(events);
        self.engine.state.strangers = self.shared.strangers();
        self.engine.state.registrars = self.shared.directory.identities.prefixes();
        let now = self.clock.now();
        // Acks and reads first: they are short and free windows.
        others.into_iter().for_each(|command| self.other(command, now));
        for command in requests {
            if let Command::Emit { connection, caller, texts, reply } = command {
                self.emit(connection, &caller, texts, reply, now);
            }
        }
        while !lanes.is_empty() {
            for (_, lane) in &mut lanes {
                let mut turn = 0;
                while let Some(command) = lane.pop_front() {
                    let Command::Emit { connection, caller, texts, reply } = command else {
                        self.other(command, now);
                        continue;
                    };
                    turn += texts.len().max(1);
                    self.emit(connection, &caller, texts, reply, now);
                    let next =
                        lane.front().map_or(0, |c| if let Command::Emit { texts, .. } = c { texts.len() } else { 0 });
                    if turn + next > TURN_EVENTS {
                        break;
                    }
                }
            }
            lanes.retain(|(_, lane)| !lane.is_empty());
        }
        if self.deferred.awaits_mods() {
            self.ask_connected_mods(now);
            self.resume_deferred(now);
        }
        let heavy = self.is_heavy();
        // Also what could wait for others.
        self.urgent |= heavy;
        let full = self.open.events.len() >= PIPELINE_EVENTS || heavy;
        if self.is_due() && (self.log.flights.is_empty() || full) {
            self.submit().await;
        }
        if let Some(reply) = stop {
            self.stop().await;
            let _ = reply.send(());
            self.commands.close();
        }
    }

    /// Whether the open batch has all it should: the log takes no batch of any size.
    pub(super) fn is_heavy(&self) -> bool {
        self.open.records.bytes() >= BATCH_BYTES
    }

    /// Whether something waits for a commit. Reads alone do not.
    pub(super) fn is_due(&self) -> bool {
        let answered = self.then.is_empty() && self.open.hashes.is_empty() && self.open.saves.is_empty();
        !answered || !self.fx.after.is_empty() || self.urgent || self.sessions.is_dirty()
    }

    /// The next command for the batch being gathered. When none waits, everybody who is ready to send gets a turn
    /// first: on a busy node that makes one flush serve many, on an idle one it costs nothing that can be measured.
    async fn next_waiting(&mut self, turns: &mut usize) -> Option<Command> {
        if let Ok(command) = self.commands.try_recv() {
            return Some(command);
        }
        for _ in 0..QUIET_TURNS {
            *turns = turns.checked_sub(1)?;
            tokio::task::yield_now().await;
            if let Ok(command) = self.commands.try_recv() {
                return Some(command);
            }
        }
        None
    }
}
