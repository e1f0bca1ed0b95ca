//! What the contract asks of a face's client, and doors: drivers by name.

use super::event::{Draft, Got, Refused};
use super::place::Place;
use std::fmt;
use std::pin::Pin;

/// What a call came to: done, refused with a code, or broken on the way.
pub type Answer<T> = Result<Result<T, Refused>, String>;

/// What a face answers to an event that it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The id it is stored under.
    pub id: String,
    /// Its position in the network.
    pub seq: u64,
}

/// What of an event a protocol has room for. Nothing may be lost of what it has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// All nine fields; the sender chooses the id and payloads keep their bytes.
    Everything,
    /// The sender's address, the text of the message and the message that it answers.
    Text,
}

/// A member of a network, played by a client of one face over one carrier: the only thing a new face writes for the
/// contract. It moves bytes and retries nothing by itself.
#[allow(async_fn_in_trait, reason = "scenarios run on the task of their test; nobody needs these futures to be Send")]
pub trait Driver: fmt::Debug {
    /// The member's address in the network.
    fn address(&self) -> &str;

    /// What its protocol has room for.
    fn carries(&self) -> Carries {
        Carries::Everything
    }

    /// Arrives the first time; afterwards comes back on a new connection as the same member.
    async fn connect(&mut self, place: &Place) -> Answer<()>;

    /// Loses the connection, as a cable does, and forgets what was received on it and not handed out by `next`.
    fn disconnect(&mut self);

    /// Sends an event and waits until it is taken or refused.
    async fn send(&mut self, draft: &Draft) -> Answer<Receipt>;

    /// The next event that came; fails when none comes for a while.
    async fn next(&mut self) -> Result<Got, String>;

    /// Says that these were received, and waits until that is known.
    async fn ack(&mut self, events: &[Got]) -> Result<(), String>;

    /// What was said in a channel, oldest first.
    async fn history(&mut self, channel: &str) -> Answer<Vec<Got>>;

    /// Addresses of all members that it can see.
    async fn members(&mut self) -> Answer<Vec<String>>;
}

type Call<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// [`Driver`] without its type, so that drivers of many faces stand in one table.
trait Erased: fmt::Debug {
    fn address(&self) -> &str;
    fn carries(&self) -> Carries;
    fn connect<'a>(&'a mut self, place: &'a Place) -> Call<'a, Answer<()>>;
    fn disconnect(&mut self);
    fn send<'a>(&'a mut self, draft: &'a Draft) -> Call<'a, Answer<Receipt>>;
    fn next(&mut self) -> Call<'_, Result<Got, String>>;
    fn ack<'a>(&'a mut self, events: &'a [Got]) -> Call<'a, Result<(), String>>;
    fn history<'a>(&'a mut self, channel: &'a str) -> Call<'a, Answer<Vec<Got>>>;
    fn members(&mut self) -> Call<'_, Answer<Vec<String>>>;
}

impl<D: Driver> Erased for D {
    fn address(&self) -> &str {
        Driver::address(self)
    }

    fn carries(&self) -> Carries {
        Driver::carries(self)
    }

    fn connect<'a>(&'a mut self, place: &'a Place) -> Call<'a, Answer<()>> {
        Box::pin(Driver::connect(self, place))
    }

    fn disconnect(&mut self) {
        Driver::disconnect(self);
    }

    fn send<'a>(&'a mut self, draft: &'a Draft) -> Call<'a, Answer<Receipt>> {
        Box::pin(Driver::send(self, draft))
    }

    fn next(&mut self) -> Call<'_, Result<Got, String>> {
        Box::pin(Driver::next(self))
    }

    fn ack<'a>(&'a mut self, events: &'a [Got]) -> Call<'a, Result<(), String>> {
        Box::pin(Driver::ack(self, events))
    }

    fn history<'a>(&'a mut self, channel: &'a str) -> Call<'a, Answer<Vec<Got>>> {
        Box::pin(Driver::history(self, channel))
    }

    fn members(&mut self) -> Call<'_, Answer<Vec<String>>> {
        Box::pin(Driver::members(self))
    }
}

/// The driver of some face, as scenarios use it: a refusal that a scenario does not ask for is an error.
#[derive(Debug)]
pub struct Guest(Box<dyn Erased>);

impl Guest {
    /// Its address.
    pub fn address(&self) -> &str {
        self.0.address()
    }

    /// What its protocol has room for.
    pub fn carries(&self) -> Carries {
        self.0.carries()
    }

    /// Arrives, or comes back.
    pub async fn try_connect(&mut self, place: &Place) -> Answer<()> {
        self.0.connect(place).await
    }

    /// Arrives, or comes back.
    pub async fn connect(&mut self, place: &Place) -> Result<(), String> {
        accepted(self.0.connect(place).await)
    }

    /// Loses its connection and comes back.
    pub async fn reconnect(&mut self, place: &Place) -> Result<(), String> {
        self.0.disconnect();
        self.connect(place).await
    }

    /// Loses its connection.
    pub fn disconnect(&mut self) {
        self.0.disconnect();
    }

    /// Sends; the answer may be a refusal.
    pub async fn try_send(&mut self, draft: &Draft) -> Answer<Receipt> {
        self.0.send(draft).await
    }

    /// Sends what must be taken.
    pub async fn send(&mut self, draft: &Draft) -> Result<Receipt, String> {
        accepted(self.0.send(draft).await)
    }

    /// Everything received up to and including the event `id`.
    pub async fn until(&mut self, id: &str) -> Result<Vec<Got>, String> {
        let mut all = Vec::new();
        loop {
            let got = self.0.next().await;
            all.push(got.map_err(|e| format!("{} waits for {id}: {e}", self.address()))?);
            if all.last().is_some_and(|got| got.id == id) {
                return Ok(all);
            }
        }
    }

    /// The next event that came.
    pub async fn next(&mut self) -> Result<Got, String> {
        self.0.next().await
    }

    /// Acks.
    pub async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        self.0.ack(events).await
    }

    /// The history of a channel; the answer may be a refusal.
    pub async fn try_history(&mut self, channel: &str) -> Answer<Vec<Got>> {
        self.0.history(channel).await
    }

    /// The history of a channel that it may read.
    pub async fn history(&mut self, channel: &str) -> Result<Vec<Got>, String> {
        accepted(self.0.history(channel).await)
    }

    /// Whom it can see.
    pub async fn members(&mut self) -> Result<Vec<String>, String> {
        accepted(self.0.members().await)
    }
}

/// What must not be refused.
pub(super) fn accepted<T>(answer: Answer<T>) -> Result<T, String> {
    answer?.map_err(|refused| format!("refused: {refused:?}"))
}

/// Makes a guest of a name and a role.
type Make = Box<dyn Fn(&str, &'static str) -> Guest>;

/// A face over one carrier.
pub struct Door {
    /// As readers of the tables know it, and as one that receives.
    pub name: &'static str,
    /// Its name as one that sends, if it has a way of its own to send.
    pub sends: Option<&'static str>,
    make: Make,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("name", &self.name).field("sends", &self.sends).finish_non_exhaustive()
    }
}

impl Door {
    /// A door by its name and by what makes its driver of a member's name and role (`member` or `observer`).
    pub fn new<D: Driver + 'static>(name: &'static str, make: impl Fn(&str, &'static str) -> D + 'static) -> Door {
        Door { name, sends: None, make: Box::new(move |name, role| Guest(Box::new(make(name, role)))) }
    }

    /// It sends in a way of its own, known by this name.
    pub fn sending(self, name: &'static str) -> Door {
        Door { sends: Some(name), ..self }
    }

    /// Somebody who has not arrived yet.
    pub fn guest(&self, name: &str, role: &'static str) -> Guest {
        (self.make)(name, role)
    }

    /// Somebody who has arrived.
    pub async fn arrived(&self, place: &Place, name: &str, role: &'static str) -> Result<Guest, String> {
        let mut guest = self.guest(name, role);
        guest.connect(place).await.map_err(|e| format!("{name} cannot arrive over {}: {e}", self.name))?;
        Ok(guest)
    }
}
