//! A member's mail as it comes: deliveries within a window, sent again until they are acked.
//!
//! Invariant: nothing is lost by dropping a [`Mailbox`] or the future of [`Mailbox::next`]; what was not acked comes again.
//! Not here: queues, redelivery and time to live, which are the network's, and the stream conversation with its frames, which reads
//! the same queue without looking into it (`rialto-openagents`).

use crate::budget::Charge;
use crate::command::Command;
use crate::command::Out;
use crate::delivery::Attempt;
use crate::outbox::{Inbox, outbox};
use crate::session::Session;
use rialto_engine::{Caller, SessionRef};
use rialto_model::{ErrorCode, Event, Fault, Seq, limits};
use serde::Serialize;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;

/// How mail is to come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InboxOptions {
    /// Deliveries that may wait for their acks at once; 256 if none is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Also what was acked, behind the place it resumes from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replay: bool,
    /// Behind this event, or `seq:n`: everything up to it is acked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_after: Option<String>,
}

/// Something for the member.
#[derive(Debug, Clone)]
pub enum Arrival {
    /// An event, and which delivery of it this is where it expects an ack.
    Mail(Event, Option<u32>),
    /// Something that is never stored.
    Signal(Arc<Event>),
}

/// The mail of a member while it is there. The member counts as online for as long as it is held.
#[derive(Debug)]
pub struct Mailbox {
    session: Session,
    /// The stream that the mail comes by.
    stream: Caller,
    connection: u64,
    inbox: Inbox,
    waiting: VecDeque<Out>,
    /// To be read from the store, in order.
    stored: VecDeque<Attempt>,
    ready: VecDeque<Arrival>,
    /// What `ready` is charged to.
    charge: Option<Charge>,
}

impl Session {
    /// Opens the member's mail. Another one that was opened with the same session ends.
    pub async fn inbox(&self, options: &InboxOptions) -> Result<Mailbox, Fault> {
        #[derive(Serialize)]
        struct Join<'a> {
            agent_id: &'a str,
            #[serde(flatten)]
            options: &'a InboxOptions,
        }
        let Some(address) = self.address() else {
            let caller = self.caller.clone();
            self.network.ask(|reply| Command::Admitted { caller, reply }).await??;
            return Err(Fault::new(ErrorCode::NotAMember, "mail belongs to a member: open a session for one first"));
        };
        let join = Join { agent_id: address, options };
        let frame = json!({ "type": "network.agent.join", "source": address, "target": "core", "payload": join });
        let connection = self.network.connection();
        let (outbox, inbox) = outbox(limits::OUTBOX_FRAMES_MAX);
        self.emit_stream(connection, frame.to_string().into(), &outbox).await?;
        let mut mailbox = Mailbox {
            session: self.clone(),
            stream: Caller::default(),
            connection,
            inbox,
            waiting: VecDeque::new(),
            stored: VecDeque::new(),
            ready: VecDeque::new(),
            charge: None,
        };
        mailbox.stream = Caller { stream: Some(mailbox.joined().await?), ..Caller::default() };
        Ok(mailbox)
    }
}

impl Mailbox {
    /// Whose mail it is.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for the answer to the join, which comes before any mail.
    async fn joined(&mut self) -> Result<SessionRef, Fault> {
        loop {
            match self.take().await? {
                Out::Answers(answers) => {
                    let Some(answered) = answers.into_iter().next() else { continue };
                    let joined = answered.result?.joined.ok_or(ErrorCode::Internal)?;
                    return Ok(joined.session);
                }
                Out::Close(code) => return Err(code.into()),
                Out::Delivery(_) | Out::Stored(_) | Out::Signal(_) => {}
            }
        }
    }

    /// The next thing of the queue. Safe to drop.
    async fn take(&mut self) -> Result<Out, Fault> {
        loop {
            if let Some(out) = self.waiting.pop_front() {
                return Ok(out);
            }
            let outs = self.inbox.recv().await.ok_or(ErrorCode::ShuttingDown)?;
            self.waiting.extend(outs);
        }
    }

    /// Waits for what comes next. Refused when it is over: the session ended, somebody took the name over, or the node stops.
    pub async fn next(&mut self) -> Result<Arrival, Fault> {
        loop {
            if let Some(arrival) = self.ready.pop_front() {
                return Ok(arrival);
            }
            self.charge = None;
            if !self.stored.is_empty() {
                self.read().await?;
                continue;
            }
            match self.take().await? {
                Out::Delivery(part) => {
                    let attempt = part.attempt();
                    self.ready.extend(part.records().iter().map(|r| Arrival::Mail(r.event.clone(), attempt)));
                }
                Out::Stored(mut attempts) => {
                    attempts.sort_unstable_by_key(|attempt| attempt.seq);
                    self.stored.extend(attempts);
                }
                Out::Signal(signal) => self.ready.push_back(Arrival::Signal(signal.event().clone())),
                Out::Answers(_) => {}
                Out::Close(code) => return Err(code.into()),
            }
        }
    }

    /// Reads mail from the store, as much as there is room for. Dropped, it has read nothing.
    async fn read(&mut self) -> Result<(), Fault> {
        let network = self.session.network.clone();
        let (most, charge) = network.room_for_mail(&self.stream).await;
        let rising = self.stored.iter().zip(self.stored.iter().skip(1)).take_while(|(a, b)| a.seq < b.seq).count() + 1;
        let seqs: Vec<Seq> = self.stored.iter().take(rising.min(limits::PAGE_EVENTS_MAX)).map(|a| a.seq).collect();
        let (records, looked_at) = network.read_some(seqs, most).await?;
        let attempts: Vec<Attempt> = self.stored.drain(..looked_at.clamp(1, self.stored.len())).collect();
        for record in records {
            let found = attempts.binary_search_by_key(&record.event.seq, |attempt| attempt.seq).ok();
            let attempt = found.and_then(|at| attempts.get(at)).filter(|attempt| attempt.tracked);
            self.ready.push_back(Arrival::Mail(record.event.clone(), attempt.map(|attempt| attempt.attempt)));
        }
        self.charge = charge;
        Ok(())
    }

    /// Says that events were received, by their positions; returns how many of them were waiting for it.
    pub async fn ack(&self, seqs: Vec<Seq>) -> Result<u64, Fault> {
        self.session.ack_seqs(seqs).await
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let (network, connection) = (self.session.network.clone(), self.connection);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { network.close_stream(connection).await });
        }
    }
}
