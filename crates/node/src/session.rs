//! The one typed door: a caller in a network, through which it sends, reads and changes things.
//!
//! Invariant: whether the caller may do what it asks is decided with the act itself, inside the network; no method asks first and acts
//! then. Its methods stand with their nouns (`work`, `files`, `resources`, `conversations`, …).
//! Not here: wire forms of any protocol.

use crate::command::{Answered, Command, PageAnswer, Reply};
use crate::network::{Network, gone, numbered};
use crate::outbox::Outbox;
use crate::task::Task;
use crate::task::acks::few_enough;
use crate::task::read::ReadContext;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_engine::{AckRequest, AdminOp, Caller, Filter, View, Wishes};
use rialto_identity::Secret;
use rialto_model::view::{AdminOutcome, Explanation, MeView};
use rialto_model::{ErrorCode, Fault, Seq, limits};
use std::sync::Arc;

/// A caller in a network. Cheap to clone; it holds nothing open, and a credential that ends is refused with the next use.
#[derive(Debug, Clone)]
pub struct Session {
    pub(crate) network: Network,
    pub(crate) caller: Arc<Caller>,
    /// Whose it is and what it is shown by, where it was opened here.
    opened: Option<Arc<Opened>>,
}

#[derive(Debug)]
struct Opened {
    address: Box<str>,
    secret: Secret,
}

impl Session {
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The address of the member that it was opened for, which a rename may have changed since.
    pub fn address(&self) -> Option<&str> {
        self.opened.as_deref().map(|opened| opened.address.as_ref())
    }

    /// What its holder shows to go on with it later, where it was opened through [`Node::open_session`](crate::Node::open_session).
    pub fn secret(&self) -> Option<&Secret> {
        self.opened.as_deref().map(|opened| &opened.secret)
    }

    pub(crate) fn opened(self, address: Box<str>, secret: Secret) -> Session {
        Session { opened: Some(Arc::new(Opened { address, secret })), ..self }
    }

    /// What the caller shows of itself.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// The same network for a caller that shows something else.
    #[must_use]
    pub fn showing(&self, caller: Caller) -> Session {
        Session { network: self.network.clone(), caller: Arc::new(caller), opened: None }
    }

    /// Emits events and waits for their commit: one answer per text, in order. Refused as a whole when the queue is full.
    pub async fn emit(&self, texts: Texts) -> Result<Vec<Answered>, Fault> {
        let texts = self.network.counted(texts).await?;
        let connection = self.network.connection();
        let caller = self.caller.clone();
        self.network.ask(|tx| Command::Emit { connection, caller, texts, reply: Reply::Once(tx) }).await
    }

    /// Emits one event without an id of its own: the same key from the same sender is the same event.
    pub async fn emit_keyed(&self, frame: Bytes, key: String) -> Result<Vec<Answered>, Fault> {
        let caller = self.caller.clone();
        // Counted until it is answered.
        let _counted = self.network.counted(Texts::one(frame.clone())).await?;
        self.network.ask(|reply| Command::EmitKeyed { caller, key, frame, reply }).await
    }

    /// Hands a stream's texts over; answers come through its outbox, in order. Waits while the queue is full.
    pub async fn emit_stream(&self, connection: u64, texts: Texts, outbox: &Outbox) -> Result<(), Fault> {
        let texts = self.network.room_for(texts).await;
        let reply = Reply::Stream(connection, outbox.clone());
        let command = Command::Emit { connection, caller: self.caller.clone(), texts, reply };
        self.network.handle.commands.send(command).await.map_err(|_| gone())
    }

    /// Also sends what is never stored to a reader that follows by cursor, until [`Network::close_stream`].
    pub async fn watch(&self, connection: u64, outbox: &Outbox) {
        let command = Command::Watch { connection, caller: self.caller.clone(), outbox: outbox.clone() };
        let _ = self.network.handle.commands.send(command).await;
    }

    /// Acks by event ids or up to one; gives how many there were.
    pub async fn ack(&self, ids: Vec<String>, up_to: Option<String>) -> Result<u64, Fault> {
        few_enough(ids.len())?;
        let last = up_to.is_some();
        let mut names = ids;
        names.extend(up_to);
        let mut seqs = self.network.positions(Some(self.caller.clone()), names).await?.0;
        let up_to = if last { seqs.pop().flatten() } else { None };
        let request = AckRequest { seqs: seqs.into_iter().flatten().collect(), up_to, count: true };
        let caller = self.caller.clone();
        self.network.ask(|reply| Command::AckThese { caller, request, reply }).await?
    }

    /// Acks by positions; returns how many there were.
    pub async fn ack_seqs(&self, seqs: Vec<Seq>) -> Result<u64, Fault> {
        few_enough(seqs.len())?;
        let request = AckRequest { seqs, up_to: None, count: true };
        let caller = self.caller.clone();
        self.network.ask(|reply| Command::AckThese { caller, request, reply }).await?
    }

    /// Acks everything up to a position that passes the filter.
    pub async fn ack_filtered(&self, up_to: Seq, filter: Filter) -> Result<u64, Fault> {
        let filter = Filter { after: None, before: None, descending: false, ..filter };
        let request = if filter == Filter::default() {
            AckRequest { up_to: Some(up_to), count: true, ..AckRequest::default() }
        } else {
            AckRequest { seqs: self.pending_that_pass(up_to, filter).await?, up_to: None, count: true }
        };
        let caller = self.caller.clone();
        self.network.ask(|reply| Command::AckThese { caller, request, reply }).await?
    }

    /// The caller's pending events up to a position that pass a filter; reads them outside the network's task.
    async fn pending_that_pass(&self, up_to: Seq, filter: Filter) -> Result<Vec<Seq>, Fault> {
        let mut filter = Filter { before: Some(up_to.saturating_add(1)), ..filter };
        let (mut passing, mut position, mut scanned) = (Vec::new(), None, 0);
        loop {
            let page = self.page(View::Inbox, &filter, position, limits::PAGE_EVENTS_MAX).await?.page;
            filter.people = page.people;
            let (records, looked_at) = self.network.read_some(page.seqs.clone(), limits::PAGE_BYTES_MAX).await?;
            passing.extend(records.iter().filter(|r| filter.passes(r)).map(|r| r.event.seq));
            scanned += looked_at;
            position = looked_at.checked_sub(1).and_then(|last| page.seqs.get(last)).copied().or(position);
            if looked_at == page.seqs.len() && page.exhausted || scanned >= limits::SCAN_EVENTS_MAX || looked_at == 0 {
                return Ok(passing);
            }
        }
    }

    /// Candidates of a read.
    pub async fn page(
        &self,
        view: View,
        filter: &Filter,
        position: Option<Seq>,
        max: usize,
    ) -> Result<PageAnswer, Fault> {
        self.candidates(view, filter, position, (max, 0), false).await
    }

    /// Candidates of a read that will use at least so many of them. What is sent at most once is given away here.
    pub(crate) async fn candidates(
        &self,
        view: View,
        filter: &Filter,
        position: Option<Seq>,
        (max, wanted): (usize, usize),
        asks: bool,
    ) -> Result<PageAnswer, Fault> {
        let (caller, filter) = (self.caller.clone(), Box::new(filter.clone()));
        self.network.ask(|reply| Command::Page { caller, view, filter, position, max, wanted, asks, reply }).await?
    }

    /// The position to read on from: `seq:n` or an event id. One that was never reached or is purged is unknown; a
    /// lenient reader begins again.
    /// What there is and what not is told to who may read only.
    pub async fn cursor(&self, cursor: &str, lenient: bool) -> Result<Option<Seq>, Fault> {
        let head = *self.network.handle.head.borrow();
        let (seq, purged) = match numbered(cursor)? {
            Some(seq) => (Some(seq).filter(|seq| *seq <= head), 0),
            None => {
                let (seq, purged) = self.network.locate(cursor).await?;
                (seq.filter(|seq| *seq >= purged), purged)
            }
        };
        if seq.is_some() || lenient {
            return Ok(seq);
        }
        let caller = self.caller.clone();
        self.network.ask(|reply| Command::Admitted { caller, reply }).await??;
        let details = serde_json::json!({ "head_id": format!("seq:{head}"), "oldest_id": format!("seq:{purged}") });
        Err(Fault::new(ErrorCode::CursorUnknown, format!("no event {cursor:?} is known here")).details(details))
    }

    /// The position to read up to; one that is not reached yet is no mistake.
    pub async fn before(&self, cursor: &str, lenient: bool) -> Result<Option<Seq>, Fault> {
        match numbered(cursor)? {
            Some(seq) => Ok(Some(seq)),
            None => self.cursor(cursor, lenient).await,
        }
    }

    /// Reads in the task of the network, as the caller may see it.
    pub(crate) async fn view<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Task, &ReadContext<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let caller = self.caller.clone();
        self.network.view(move |task, now| task.read_for(&caller, now, read)).await
    }

    /// Explains an event, or its refusal, to who may ask; unknown to all others.
    pub async fn explain(&self, id: &str) -> Result<Explanation, Fault> {
        let (id, record) = (id.to_owned(), self.network.find(id).await?);
        self.view(move |task, by| task.explain(by.viewer, &id, record.as_deref())).await
    }

    /// The caller as it sees itself.
    pub async fn me(&self) -> Result<MeView, Fault> {
        self.view(|task, by| task.me(by)).await
    }

    /// Changes something about the caller; gives what [`Session::me`] gives from then on.
    pub async fn change_me(&self, wishes: Wishes) -> Result<MeView, Fault> {
        let (caller, wishes) = (self.caller.clone(), Box::new(wishes));
        self.network.ask(|reply| Command::Own { caller, wishes, reply }).await?
    }

    /// A heartbeat; gives the address of the member it is of.
    pub async fn heartbeat(&self) -> Result<Box<str>, Fault> {
        self.network.heartbeat(self.caller.clone()).await
    }

    /// An act of this caller, which may not be its to do; it is recorded who did it, and from where.
    pub async fn act(&self, from: Option<String>, op: AdminOp) -> Result<AdminOutcome, Fault> {
        let by = Some((self.caller.clone(), from));
        self.network.ask(|reply| Command::Admin { by, op, reply }).await?
    }
}

impl Network {
    /// Counts a call as presence of the member that calls; gives its address.
    pub(crate) async fn heartbeat(&self, caller: Arc<Caller>) -> Result<Box<str>, Fault> {
        self.view(move |task, now| task.heartbeat(&caller, now)).await
    }

    /// The network for a caller. Nothing is looked at yet: every method of the session finds out what the caller may do.
    pub fn session(&self, caller: &Arc<Caller>) -> Session {
        Session { network: self.clone(), caller: caller.clone(), opened: None }
    }
}
