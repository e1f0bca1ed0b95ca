//! The door for a mod that runs as a process beside the node: what it is asked, and what it says.

use crate::command::Command;
use crate::network::Network;
use rialto_engine::mods::external::CheckOutcome;
use rialto_engine::mods::external::verdict::ModVerdict;
use rialto_model::Millis;
use std::time::Duration;
use tokio::sync::mpsc;

/// Questions that wait for a process; more fail at once.
const WAITING_MAX: usize = 256;

/// One event for a process.
#[derive(Debug)]
pub struct ProcessCheck {
    pub(crate) ticket: u64,
    /// The line it is given.
    pub line: String,
    pub(crate) deadline_ms: Millis,
}

impl ProcessCheck {
    /// How long it may take.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }
}

/// Where a process hears and answers. While nobody holds it, the mod does not run.
#[derive(Debug)]
pub struct ModPort {
    network: Network,
    asks: mpsc::Receiver<ProcessCheck>,
}

impl ModPort {
    /// The next question; none when the network has stopped, or another took the mod over.
    pub async fn next(&mut self) -> Option<ProcessCheck> {
        self.asks.recv().await
    }

    /// What the process said, one line.
    pub async fn said(&self, asked: &ProcessCheck, line: &str) {
        let outcome = match ModVerdict::parse(line) {
            Ok(verdict) => CheckOutcome::Said(verdict),
            Err(fault) => {
                tracing::warn!(%fault, "a mod said what is no verdict");
                CheckOutcome::Failed("no verdict")
            }
        };
        self.tell(asked, outcome).await;
    }

    /// It said nothing, for this reason.
    pub async fn failed(&self, asked: &ProcessCheck, reason: &'static str) {
        self.tell(asked, CheckOutcome::Failed(reason)).await;
    }

    async fn tell(&self, asked: &ProcessCheck, outcome: CheckOutcome) {
        let command = Command::ModSaid { ticket: asked.ticket, outcome };
        let _ = self.network.handle.commands.send(command).await;
    }
}

impl Network {
    /// Takes over what a process mod is asked.
    pub async fn mod_port(&self, name: &str) -> ModPort {
        let (tx, asks) = mpsc::channel(WAITING_MAX);
        let _ = self.handle.commands.send(Command::ModPort { name: name.into(), asks: tx }).await;
        ModPort { network: self.clone(), asks }
    }
}
