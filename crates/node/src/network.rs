//! A network as the faces see it: a handle to its task.

use crate::budget::{Account, Charge, EndsWhenCrowded, PAGE_IN_THE_MAKING_BYTES, PATIENCE};
use crate::command::{Command, Located, StateAt, Whereabouts};
use crate::directory::Directory;
use crate::metrics::{Counters, ModCounters};
use crate::task::Task;
use crate::task::acks::find_stored;
use crate::task::read::TaskRead;
use crate::texts::Texts;
use rialto_engine::credential::Strangers;
use rialto_engine::{AdminOp, Caller, Clock, EventRecord};
use rialto_model::network::{Settings, Status};
use rialto_model::view::AdminOutcome;
use rialto_model::{ErrorCode, Fault, Seq, limits};
use rialto_store::Store;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{mpsc, oneshot, watch};

/// Stored mail is looked up in pieces of so many bytes, about: fewer of them cost less.
const MAIL_BYTES_ROOMY: usize = 1 << 20;
/// And in smaller ones while the node holds much that is not read.
const MAIL_BYTES_CROWDED: usize = 256 << 10;

/// What is known of a network outside its task.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: Box<str>,
    pub(crate) number: u32,
    pub(crate) settings: RwLock<Settings>,
    pub(crate) tokens: RwLock<Vec<[u8; 32]>>,
    pub(crate) counters: Counters,
    pub(crate) ready: AtomicBool,
    /// mod/analytics counts.
    pub(crate) counted: AtomicBool,
    /// An emit of a mod has waited for other mods, now or at any time.
    pub(crate) has_owed: AtomicBool,
    pub(crate) connections: AtomicU64,
    /// Large inputs that wait for it.
    pub(crate) inputs: Arc<Account>,
    /// The last event that something may be searched for in, at least.
    pub(crate) last_text: AtomicU64,
    /// What came of asking mods that run elsewhere.
    pub(crate) mods: ModCounters,
    /// Hashes of the sessions of a network that is not listed; empty for one that is.
    pub(crate) sessions: RwLock<BTreeSet<[u8; 32]>>,
    /// Where the other networks of this node are.
    pub(crate) directory: Arc<Directory>,
    /// Why some of it cannot be read, for the operator's eyes: then it is not written to.
    pub(crate) damage: RwLock<Option<String>>,
    /// In this run it admits who shows nothing.
    pub(crate) opened: AtomicBool,
}

impl Shared {
    /// Who shows nothing in this run.
    pub(crate) fn strangers(&self) -> Strangers {
        if self.opened.load(Ordering::Acquire) {
            Strangers::Welcome
        } else if self.directory.closed.load(Ordering::Acquire) {
            Strangers::Refused
        } else {
            Strangers::ByPolicy
        }
    }

    /// Whether some of it cannot be read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A handle to one network. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Network {
    pub(crate) handle: Arc<Handle>,
}

/// What a handle holds.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) head: watch::Receiver<Seq>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) index: Option<Arc<rialto_store::search::SearchIndex>>,
    pub(crate) host: crate::Host,
    pub(crate) blobs: Arc<crate::blobs::Blobs>,
}

/// The number of a `seq:n` cursor; nothing for an event id.
pub(crate) fn numbered(cursor: &str) -> Result<Option<Seq>, Fault> {
    let number = cursor.strip_prefix("seq:").map(str::parse).transpose();
    number.map_err(|_| Fault::new(ErrorCode::InvalidArgument, "a cursor must be seq:<number> or the id of an event"))
}

pub(crate) fn gone() -> Fault {
    Fault::from(ErrorCode::ShuttingDown)
}

impl Network {
    /// Id.
    pub fn id(&self) -> &str {
        &self.handle.shared.id
    }

    /// Current settings.
    pub fn settings(&self) -> Settings {
        self.handle.shared.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the network takes writes: replay is done and the disk does not refuse.
    pub fn is_ready(&self) -> bool {
        self.handle.shared.ready.load(Ordering::Acquire) && !self.handle.commands.is_closed()
    }

    /// Why some of it cannot be read, if so: it shows what there is up to that place and takes no writes. Names files.
    pub fn damage(&self) -> Option<String> {
        self.handle.shared.damage.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Admits who shows nothing, until the node stops.
    pub fn open_for_this_run(&self) {
        self.handle.shared.opened.store(true, Ordering::Release);
    }

    /// Whether who shows nothing is admitted in this run.
    pub fn is_open(&self) -> bool {
        match self.handle.shared.strangers() {
            Strangers::Refused => false,
            Strangers::ByPolicy => self.settings().policy == rialto_model::network::Policy::Open,
            Strangers::Welcome => true,
        }
    }

    /// Whether this hash is one of its tokens.
    pub fn has_token(&self, sha256: &[u8; 32]) -> bool {
        self.handle.shared.tokens.read().unwrap_or_else(PoisonError::into_inner).contains(sha256)
    }

    /// Whether this hash is of one of its sessions.
    pub fn has_session(&self, sha256: &[u8; 32]) -> bool {
        self.handle.shared.sessions.read().unwrap_or_else(PoisonError::into_inner).contains(sha256)
    }

    /// Whether this caller must not learn that the network exists: it is not listed, and the caller shows nothing that it has given out.
    pub fn is_hidden_from(&self, caller: &Caller) -> bool {
        let shared = &self.handle.shared;
        if shared.is_listed() || caller.operator || caller.stream.is_some() {
            return false;
        }
        let shown = [caller.bearer, caller.session].into_iter().flatten();
        !shown.into_iter().any(|hash| self.has_token(&hash) || self.has_session(&hash))
    }

    /// Whether mod/analytics counts what happens here.
    pub fn is_counted(&self) -> bool {
        self.handle.shared.counted.load(Ordering::Acquire)
    }

    /// What came of asking mods that run elsewhere, for `/metrics`.
    pub fn mod_counters(&self) -> &ModCounters {
        &self.handle.shared.mods
    }

    /// Counters for `/metrics`.
    pub fn counters(&self) -> &Counters {
        &self.handle.shared.counters
    }

    /// Milliseconds that the wall clock is behind the last stamp.
    pub fn clock_behind_ms(&self) -> u64 {
        self.handle.shared.counters.clock_behind_ms.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The last committed position, and a way to wait for the next.
    pub fn head(&self) -> watch::Receiver<Seq> {
        self.handle.head.clone()
    }

    /// Charges for a page that the member of a stream is about to be given; waits while it does not read what it was given before.
    pub async fn reserve(&self, caller: &Caller) -> Result<Option<Charge>, Fault> {
        let Some(session) = caller.stream else { return Ok(None) };
        let shared = &self.handle.shared;
        let account = shared.directory.accounts.member_of(shared.number, session.member);
        account.charge(PAGE_IN_THE_MAKING_BYTES, PATIENCE).await.map(Some)
    }

    /// Waits until there is room for stored mail that the member of a stream is about to be given, and says for how many bytes: for
    /// much as long as the node holds little. Those who do not read make room in time.
    pub async fn room_for_mail(&self, caller: &Caller) -> (usize, Option<Charge>) {
        let shared = &self.handle.shared;
        let accounts = &shared.directory.accounts;
        let bytes = if accounts.is_roomy() { MAIL_BYTES_ROOMY } else { MAIL_BYTES_CROWDED };
        let Some(stream) = caller.stream else { return (bytes, None) };
        let account = accounts.member_of(shared.number, stream.member);
        loop {
            if let Ok(charge) = account.charge(bytes, PATIENCE).await {
                return (bytes, Some(charge));
            }
        }
    }

    /// Counts bytes that wait for a stream to be read, whether or not there is room for them.
    pub fn hold_mail(&self, bytes: usize) -> Charge {
        let mut charge = self.handle.shared.directory.accounts.mail().owe();
        charge.resize(bytes);
        charge
    }

    /// Has the connection of a stream ended when the node holds too much for those who do not read, and this one holds most of it.
    pub fn ends_when_crowded(
        &self,
        caller: &Caller,
        end: impl Fn() + Send + Sync + 'static,
    ) -> Option<EndsWhenCrowded> {
        let shared = &self.handle.shared;
        let account = shared.directory.accounts.member_of(shared.number, caller.stream?.member);
        Some(account.ends_when_crowded(end))
    }

    /// A number for a new connection.
    pub fn connection(&self) -> u64 {
        self.handle.shared.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Fault> {
        let (tx, rx) = oneshot::channel();
        match self.handle.commands.try_send(make(tx)) {
            Ok(()) => rx.await.map_err(|_| gone()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Fault::new(
                ErrorCode::RateLimited,
                "the network has more requests waiting than it takes: try again in a moment",
            )
            .details(serde_json::json!({ "retry_after_ms": 50 }))),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gone()),
        }
    }

    /// Reads in the task of the network; the answer comes when everything it shows is committed.
    pub(crate) async fn view<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Task, Clock) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.ask(|reply| Command::Read(TaskRead::new(reply, read))).await?
    }

    /// Charges for large texts for as long as they wait to be decided; waits for room, and refuses them after a while.
    pub(crate) async fn counted(&self, texts: Texts) -> Result<Texts, Fault> {
        let bytes = texts.block().len();
        if bytes <= limits::INPUT_SMALL_BYTES || texts.is_held() {
            return Ok(texts);
        }
        let charge = self.handle.shared.inputs.charge(bytes, PATIENCE).await?;
        Ok(texts.held_by(charge))
    }

    /// The same for a stream, which waits as long as it takes.
    pub async fn room_for(&self, texts: Texts) -> Texts {
        loop {
            if let Ok(counted) = self.counted(texts.clone()).await {
                return counted;
            }
        }
    }

    /// Ends a stream: its member is offline, its mail stays.
    pub async fn close_stream(&self, connection: u64) {
        let _ = self.handle.commands.send(Command::CloseStream { connection }).await;
    }

    /// Where committed events are, by their ids or `seq:n`: one for each, nothing for those that are unknown; and through where history
    /// is purged. What the network's task does not have at hand is looked up outside of it.
    pub(crate) async fn positions(
        &self,
        member: Option<Arc<Caller>>,
        ids: Vec<String>,
    ) -> Result<(Vec<Option<Seq>>, Seq), Fault> {
        let numbers: Vec<Option<Seq>> = ids.iter().map(|id| id.strip_prefix("seq:")?.parse().ok()).collect();
        let asked = ids.clone();
        let found = self.ask(|reply| Command::Locate { member, ids: asked, reply }).await??;
        let Located { places, committed, purged } = found;
        let mut out = Vec::with_capacity(ids.len());
        let mut sought: Vec<(usize, String, Option<Seq>)> = Vec::new();
        for (at, ((id, number), place)) in ids.into_iter().zip(numbers).zip(places).enumerate() {
            out.push(match (number, place) {
                (Some(seq), _) => Some(seq),
                (None, Whereabouts::At(seq)) => Some(seq).filter(|seq| *seq <= committed),
                (None, Whereabouts::Stored(own)) => {
                    sought.push((at, id, own));
                    None
                }
            });
        }
        if sought.is_empty() {
            return Ok((out, purged));
        }
        let (store, number, id) = (self.handle.store.clone(), self.handle.shared.number, self.handle.shared.id.clone());
        let look = move || {
            let find = |(at, text, own): (usize, String, Option<Seq>)| {
                Ok((at, find_stored(store.as_ref(), number, &id, &text, own)?))
            };
            sought.into_iter().map(find).collect::<Result<Vec<_>, Fault>>()
        };
        for (at, seq) in self.handle.host.blocking(look).await.map_err(|_| Fault::from(ErrorCode::Internal))?? {
            if let Some(place) = out.get_mut(at) {
                // What was committed while it was looked for counts.
                let committed = committed.max(*self.handle.head.borrow());
                *place = seq.filter(|seq| *seq <= committed);
            }
        }
        Ok((out, purged))
    }

    /// Notes that a poll hands these events to its member.
    pub(crate) async fn shown(&self, member: u32, seqs: Vec<Seq>) {
        let _ = self.handle.commands.send(Command::Shown { member, seqs }).await;
    }

    /// Where a committed event is, if it is known, and through where history is purged.
    pub(crate) async fn locate(&self, id: &str) -> Result<(Option<Seq>, Seq), Fault> {
        let (seqs, purged) = self.positions(None, vec![id.to_owned()]).await?;
        Ok((seqs.into_iter().next().flatten(), purged))
    }

    /// Reads events by position, on a blocking thread.
    pub async fn read(&self, seqs: Vec<Seq>) -> Result<Vec<Arc<EventRecord>>, Fault> {
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let (store, number, id) = (self.handle.store.clone(), self.handle.shared.number, self.handle.shared.id.clone());
        self.handle
            .host
            .blocking(move || crate::query::read_records(store.as_ref(), number, &id, &seqs))
            .await
            .map_err(|_| Fault::from(ErrorCode::Internal))?
    }

    /// Reads events in the order given (rising or falling), until they are as many bytes; gives how many it looked at.
    pub async fn read_some(&self, seqs: Vec<Seq>, bytes: usize) -> Result<(Vec<Arc<EventRecord>>, usize), Fault> {
        if seqs.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let (store, number, id) = (self.handle.store.clone(), self.handle.shared.number, self.handle.shared.id.clone());
        self.handle
            .host
            .blocking(move || crate::query::read_some(store.as_ref(), number, &id, &seqs, bytes))
            .await
            .map_err(|_| Fault::from(ErrorCode::Internal))?
    }

    /// Where an event is, by its id or `seq:n`.
    pub(crate) async fn position(&self, id: &str) -> Result<Option<Seq>, Fault> {
        match numbered(id)? {
            Some(seq) => Ok(Some(seq)),
            None => Ok(self.locate(id).await?.0),
        }
    }

    /// An event by id, whoever may see it: the caller checks.
    pub async fn find(&self, id: &str) -> Result<Option<Arc<EventRecord>>, Fault> {
        match self.position(id).await? {
            None => Ok(None),
            Some(seq) => Ok(self.read(vec![seq]).await?.into_iter().next()),
        }
    }

    /// An act of the node itself, or one that the caller has checked and recorded.
    pub async fn admin(&self, op: AdminOp) -> Result<AdminOutcome, Fault> {
        self.ask(|reply| Command::Admin { by: None, op, reply }).await?
    }

    /// LSN and hash of the state, with everything in the log.
    pub async fn state_hash(&self) -> Result<(u64, [u8; 32]), Fault> {
        self.ask(|reply| Command::Hash { reply }).await
    }

    /// The log it is in, and below which position nothing is needed any more.
    pub(crate) async fn horizon(&self) -> Result<(rialto_store::Class, Seq), Fault> {
        self.ask(|reply| Command::Horizon { reply }).await
    }

    /// Its state, to be saved; none while something is on its way to the log.
    pub(crate) async fn state_to_save(&self) -> Result<Option<StateAt>, Fault> {
        self.ask(|reply| Command::Snapshot { reply }).await
    }

    /// The network's number in the store.
    pub fn number(&self) -> u32 {
        self.handle.shared.number
    }

    /// Whether it is archived.
    pub fn status(&self) -> Status {
        self.settings().status
    }

    pub(crate) async fn stop(&self) {
        let (reply, done) = oneshot::channel();
        if self.handle.commands.send(Command::Stop { reply }).await.is_ok() {
            let _ = done.await;
        }
    }
}
