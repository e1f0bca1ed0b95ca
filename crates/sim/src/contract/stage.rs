//! What a scenario is played on: a node of its own as a real process, one door, and an operator who looks.

use super::driver::{Door, Guest};
use super::event::Got;
use super::host::Host;
use super::place::Place;
use crate::harness::{Network, Server, rialto};
use serde_json::Value;
use std::fmt;

/// What did not hold, and in which step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step of the scenario.
    pub step: &'static str,
    /// What was seen.
    pub why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.why)
    }
}

/// Names the step in which something went wrong.
pub(super) trait During<T> {
    fn during(self, step: &'static str) -> Result<T, Failure>;
}

impl<T> During<T> for Result<T, String> {
    fn during(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|why| Failure { step, why })
    }
}

/// Says what was seen when a thing does not hold.
pub(super) fn holds(it: bool, seen: impl FnOnce() -> String) -> Result<(), String> {
    if it { Ok(()) } else { Err(seen()) }
}

/// Two things that must be one.
pub(super) fn same<T: PartialEq + fmt::Debug>(what: &str, left: &T, right: &T) -> Result<(), String> {
    holds(left == right, || format!("{what}: {left:?} is not {right:?}"))
}

/// A node and a door.
#[derive(Debug)]
pub struct Stage {
    server: Server,
    door: Door,
    /// Rounds played: every name and id carries their number, so that rounds do not meet.
    round: u32,
    host: Host,
}

impl Stage {
    /// Starts a node for a door.
    pub async fn start(door: Door) -> Stage {
        Stage::on(Server::start().await, door).await
    }

    /// A door of a node that runs.
    pub async fn on(server: Server, door: Door) -> Stage {
        let host = Host::join(&place_of(&server)).await.unwrap();
        Stage { server, door, round: 0, host }
    }

    /// Another door of the same node.
    pub fn turn_to(&mut self, door: Door) {
        self.door = door;
    }

    pub(super) fn next_round(&mut self) {
        self.round += 1;
    }

    /// The node as it is now.
    pub fn place(&self) -> Place {
        place_of(&self.server)
    }

    /// A name or an id of this round alone.
    pub(super) fn named(&self, what: &str) -> String {
        format!("{what}-r{}", self.round)
    }

    /// Somebody who has not arrived yet.
    pub(super) fn guest(&self, name: &str) -> Guest {
        self.door.guest(&self.named(name), "member")
    }

    /// A member who has arrived.
    pub(super) async fn member(&self, name: &str) -> Result<Guest, String> {
        self.door.arrived(&self.place(), &self.named(name), "member").await
    }

    /// An observer who has arrived.
    pub(super) async fn observer(&self, name: &str) -> Result<Guest, String> {
        self.door.arrived(&self.place(), &self.named(name), "observer").await
    }

    /// Ends the node as a power cut would (SIGKILL) and starts it again on its data.
    pub(super) async fn restart(&mut self) {
        self.server.kill();
        self.server.restart().await;
    }

    /// Makes a channel of this round with these members; gives its name.
    pub(super) async fn channel(&self, name: &str, members: &[&Guest]) -> Result<String, String> {
        let name = self.named(name);
        self.host.channel(&self.place(), &name, members).await?;
        Ok(name)
    }

    /// Sends a message after which nothing that was sent before can still be missing; gives its id.
    pub(super) async fn ring(&mut self, guest: &Guest) -> Result<String, String> {
        let place = self.place();
        self.host.ring(&place, guest).await
    }

    /// Everything that a guest gets until a bell.
    pub(super) async fn all_of(&mut self, guest: &mut Guest) -> Result<Vec<Got>, String> {
        let bell = self.ring(guest).await?;
        guest.until(&bell).await
    }

    /// Id, text and source of every stored event that says one of these texts, in the order of the log.
    pub(super) async fn stored(&self, texts: &[String]) -> Result<Vec<(String, String, String)>, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let events = self.place().stored().await?.into_iter();
        let events = events.map(|e| (text(&e["id"]), text(&e["payload"]["content"]), text(&e["source"])));
        Ok(events.filter(|(_, said, _)| texts.contains(said)).collect())
    }
}

fn place_of(server: &Server) -> Place {
    let Network { id, token } = server.main();
    Place {
        url: server.url().to_owned(),
        network: id,
        token,
        admin: server.admin(),
        program: rialto().to_owned(),
        sessions: server.data().with_extension("clients"),
        data: server.data(),
    }
}
