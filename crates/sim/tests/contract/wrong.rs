//! Drivers that are wrong in one thing each, and the step that has to find it.

use rialto_sim::contract::{Answer, Carrier, Door, Draft, Driver, Got, Member, Place, Receipt};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    LetsAnybodyIn,
    SaysAnotherName,
    ListsOnlyItself,
    ListsWhoNeverCame,
    AnswersWithoutSending,
    AnswersTheSamePosition,
    SendsTwice,
    Drops(usize),
    DeliversTwice(usize),
    Swaps(usize),
    ChangesTheText,
    ChangesTheSender,
    DeliversToEverybody,
    NeverAcks,
    AcksWhatItReads,
    HistoryWithoutTheLast,
    HistoryBackwards,
    HistoryForEverybody,
    AnotherCode,
    TakesWhatIsRefused,
    SendsWhatIsRefused,
    HangsUpWhenRefused,
    DropsAfterComingBack,
    RepeatsAfterComingBack,
    StoresARepeatedSend,
}

use Fault::*;

/// Each fault, the scenario that has to find it, and in which step.
pub(crate) const FAULTS: [(Fault, &str, &str); 29] = [
    (LetsAnybodyIn, "arrive", "arriving with a wrong token"),
    (SaysAnotherName, "arrive", "looking for oneself"),
    (ListsOnlyItself, "be seen", "the first looks"),
    (ListsWhoNeverCame, "be seen", "the first looks"),
    (AnswersWithoutSending, "send", "reading the log"),
    (AnswersTheSamePosition, "send", "reading the answers"),
    (SendsTwice, "send", "reading the log"),
    (Drops(3), "receive", "receiving"),
    (DeliversTwice(3), "receive", "receiving"),
    (Swaps(3), "receive", "receiving"),
    (SendsTwice, "receive", "receiving"),
    (ChangesTheText, "receive", "receiving"),
    (ChangesTheSender, "receive", "comparing what came with what was sent"),
    (DeliversToEverybody, "receive", "the bystander reads"),
    (NeverAcks, "ack", "receiving again"),
    (AcksWhatItReads, "ack", "receiving again"),
    (HistoryWithoutTheLast, "read back", "reading the history"),
    (HistoryBackwards, "read back", "reading the history"),
    (HistoryForEverybody, "read back", "reading the history without a seat"),
    (AnotherCode, "be refused", "an observer sends"),
    (TakesWhatIsRefused, "be refused", "an observer sends"),
    (SendsWhatIsRefused, "be refused", "reading the log"),
    (HangsUpWhenRefused, "be refused", "sending under somebody else's name"),
    (DropsAfterComingBack, "restart", "receiving after the restart"),
    (RepeatsAfterComingBack, "restart", "receiving after the restart"),
    (StoresARepeatedSend, "restart", "sending again what was taken before the restart"),
    (Drops(300), "slow reader", "reading all of it"),
    (Swaps(300), "slow reader", "reading all of it"),
    (DeliversTwice(7), "several at once", "hearing the others"),
];

/// What the drivers of one door know of each other.
#[derive(Debug, Default)]
struct Shared {
    delivered: Vec<Got>,
    history: Vec<Got>,
}

/// A right driver with one fault.
#[derive(Debug)]
pub(crate) struct Wrong {
    inner: Member,
    said: String,
    fault: Fault,
    shared: Arc<Mutex<Shared>>,
    connections: u32,
    /// Messages received so far.
    received: usize,
    /// What it gives out next.
    ahead: VecDeque<Got>,
    first: Option<Got>,
    sent: Vec<String>,
}

impl Wrong {
    /// A door of such drivers.
    pub(crate) fn door(fault: Fault) -> Door {
        let shared = Arc::new(Mutex::new(Shared::default()));
        Door::new("wrong", move |name, role| {
            let inner = Member::new(Carrier::WebSocket, name, role);
            let said = if fault == SaysAnotherName { "agent:somebody-else" } else { &inner.address };
            Wrong {
                said: said.to_owned(),
                inner,
                fault,
                shared: Arc::clone(&shared),
                connections: 0,
                received: 0,
                ahead: VecDeque::new(),
                first: None,
                sent: Vec::new(),
            }
        })
    }

    fn shared<T>(&self, look: impl FnOnce(&mut Shared) -> T) -> T {
        look(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn message(&mut self) -> Result<Got, String> {
        loop {
            let got = self.inner.next().await?;
            if got.kind == "test.note.posted" {
                return Ok(got);
            }
        }
    }
}

impl Driver for Wrong {
    fn address(&self) -> &str {
        &self.said
    }

    async fn connect(&mut self, place: &Place) -> Answer<()> {
        self.connections += 1;
        match self.inner.connect(place).await {
            Ok(Ok(())) => Ok(Ok(())),
            _ if self.fault == LetsAnybodyIn => Ok(Ok(())),
            refused => refused,
        }
    }

    fn disconnect(&mut self) {
        self.inner.disconnect();
        self.ahead.clear();
    }

    async fn send(&mut self, draft: &Draft) -> Answer<Receipt> {
        if self.fault == AnswersWithoutSending {
            self.sent.push(draft.id.clone());
            return Ok(Ok(Receipt { id: draft.id.clone(), seq: self.sent.len() as u64 }));
        }
        let repeated = self.fault == StoresARepeatedSend && self.sent.contains(&draft.id);
        let own =
            Draft { id: if repeated { format!("{}-again", draft.id) } else { draft.id.clone() }, ..draft.clone() };
        self.sent.push(draft.id.clone());
        if self.fault == SendsTwice {
            let copy = Draft { id: format!("{}-copy", draft.id), ..draft.clone() };
            Driver::send(&mut self.inner, &copy).await?.ok();
        }
        match Driver::send(&mut self.inner, &own).await? {
            Ok(mut receipt) => {
                draft.id.clone_into(&mut receipt.id);
                receipt.seq = if self.fault == AnswersTheSamePosition { 1 } else { receipt.seq };
                Ok(Ok(receipt))
            }
            Err(mut refused) => {
                match self.fault {
                    AnotherCode => "internal".clone_into(&mut refused.code),
                    TakesWhatIsRefused => return Ok(Ok(Receipt { id: draft.id.clone(), seq: 1 })),
                    SendsWhatIsRefused => {
                        let under_its_own_name = Draft { source: None, ..draft.clone() };
                        Driver::send(&mut self.inner, &under_its_own_name).await?.ok();
                    }
                    HangsUpWhenRefused => self.inner.disconnect(),
                    _ => {}
                }
                Ok(Err(refused))
            }
        }
    }

    async fn next(&mut self) -> Result<Got, String> {
        if let Some(got) = self.ahead.pop_front() {
            return Ok(got);
        }
        if self.fault == DeliversToEverybody {
            let own = self.inner.address.clone();
            let position = |shared: &mut Shared| {
                let at = shared.delivered.iter().position(|got| got.target != own)?;
                Some(shared.delivered.remove(at))
            };
            if let Some(got) = self.shared(position) {
                return Ok(got);
            }
        }
        let mut got = self.message().await?;
        self.received += 1;
        let back = self.connections > 1;
        match self.fault {
            Drops(n) if n == self.received => got = self.message().await?,
            DropsAfterComingBack if back && self.received == 2 => got = self.message().await?,
            DeliversTwice(n) if n == self.received => self.ahead.push_back(got.clone()),
            Swaps(n) if n == self.received => {
                let later = self.message().await?;
                self.ahead.push_back(std::mem::replace(&mut got, later));
            }
            ChangesTheText => got.payload = got.payload.replace("grüße", "gruesse"),
            ChangesTheSender => "agent:somebody-else".clone_into(&mut got.source),
            DeliversToEverybody => self.shared(|shared| shared.delivered.push(got.clone())),
            AcksWhatItReads => Driver::ack(&mut self.inner, std::slice::from_ref(&got)).await?,
            RepeatsAfterComingBack if back => self.ahead.extend(self.first.take()),
            _ => {}
        }
        if !back {
            self.first.get_or_insert_with(|| got.clone());
        }
        Ok(got)
    }

    async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        if self.fault == NeverAcks { Ok(()) } else { Driver::ack(&mut self.inner, events).await }
    }

    async fn history(&mut self, channel: &str) -> Answer<Vec<Got>> {
        let mut read = match self.inner.history(channel).await? {
            Ok(read) => read,
            Err(_) if self.fault == HistoryForEverybody => Vec::new(),
            Err(refused) => return Ok(Err(refused)),
        };
        match self.fault {
            HistoryWithoutTheLast => drop(read.pop()),
            HistoryBackwards => read.reverse(),
            HistoryForEverybody if read.is_empty() => read = self.shared(|shared| shared.history.clone()),
            _ => self.shared(|shared| read.clone_into(&mut shared.history)),
        }
        Ok(Ok(read))
    }

    async fn members(&mut self) -> Answer<Vec<String>> {
        let mut listed = match self.inner.members().await? {
            Ok(listed) => listed,
            Err(refused) => return Ok(Err(refused)),
        };
        match self.fault {
            ListsOnlyItself => listed.retain(|address| *address == self.inner.address),
            ListsWhoNeverCame => listed.push(self.inner.address.replace("first", "absent")),
            _ => {}
        }
        Ok(Ok(listed))
    }
}
