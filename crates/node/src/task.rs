//! The task of one network: gathers what waits, decides and applies it, appends it, and only after the flush answers
//! senders and serves recipients.
//!
//! Invariant: nothing is answered before its batch is committed, and batches finish in order.
//! On an append error the engine value is dropped and rebuilt from what reached the disk.

pub(crate) mod acks;
mod commit;
mod deciding;
mod gather;
pub use deciding::too_much_at_once;
pub(crate) mod load;
mod look;
mod named;
pub(crate) mod nouns;
mod pages;
pub(crate) mod read;
mod recent;
mod recover;

use crate::blobs::Blobs;
use crate::clock::NetworkClock;
use crate::command::{Answered, Command, Located, PageAnswer, Reply, StateAt};
use crate::delivery::LiveStreams;
use crate::host::Host;
use crate::metrics::Counters;
use crate::network::Shared;
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::schema::Validators;
use crate::texts::Texts;
use deciding::deferred::Deferred;
use deciding::mod_calls::ModCalls;
use named::BlobChanges;
use read::PendingAnswer;
use recent::RecentEvents;
use rialto_engine::audit::AuditActor;
use rialto_engine::input::Joined;
use rialto_engine::{Caller, Clock, Effect, Effects, Engine, FactPage, Latest, Principal, Record, SessionRef, Viewer};
use rialto_model::event::Beginning;
use rialto_model::{ErrorCode, Fault, Millis, Seq, limits};
use rialto_store::{Batch, Class, Committed, Store, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// Batches between decision and commit: one flushes while the next gathers.
const FLIGHTS_MAX: usize = 2;
/// Events decided in one batch, about.
const BATCH_EVENTS: usize = 8192;

/// A wall clock that is further behind the last stamp than this is worth a warning.
pub const CLOCK_BEHIND_MS: Millis = 60_000;

/// A stream that joined: its connection, what it joined as, where its mail goes.
type Opened = (u64, Joined, Outbox);

/// Something to do when a batch has committed, in order.
enum Then {
    Answers(Reply, Vec<Answered>, Vec<Opened>),
    Count(oneshot::Sender<Result<u64, Fault>>, u64),
    Pending(PendingAnswer),
    Page(oneshot::Sender<Result<PageAnswer, Fault>>, Result<PageAnswer, Fault>),
    Latest(oneshot::Sender<Result<Latest, Fault>>, Result<Latest, Fault>),
    Changed(oneshot::Sender<Result<bool, Fault>>, bool),
    Fact(oneshot::Sender<Result<Option<Box<str>>, Fault>>, Option<Box<str>>),
    Facts(oneshot::Sender<Result<FactPage, Fault>>, FactPage),
    Hash(oneshot::Sender<(u64, [u8; 32])>, [u8; 32]),
    Save(oneshot::Sender<StateAt>, Vec<u8>),
}

/// A batch on its way to the disk.
struct Flight {
    number: u64,
    done: Option<Result<u64, StoreError>>,
    then: Vec<Then>,
    events: Vec<Outgoing>,
    /// Content that is named, and content that no longer is, once this has committed.
    blobs: BlobChanges,
    after: Vec<Effect>,
    head: Seq,
    handed: Instant,
    snapshot: Option<Vec<u8>>,
    wrote: bool,
}

/// The network's side of the log: where its records go, how far they have come, and when a snapshot is due.
struct LogSide {
    store: Arc<dyn Store>,
    class: Class,
    epoch: u64,
    last_lsn: u64,
    /// Batches on their way to the disk.
    flights: VecDeque<Flight>,
    next_flight: u64,
    completions: mpsc::Receiver<(u64, Result<Committed, StoreError>)>,
    complete: mpsc::Sender<(u64, Result<Committed, StoreError>)>,
    /// Buffers that came back from the log.
    buffers: Vec<Batch>,
    /// No batch was handed over since the last tick.
    rests: bool,
    /// The log refused a batch.
    broken: bool,
    /// Bytes of log after which a snapshot is taken.
    snapshot_bytes: usize,
    bytes_since_snapshot: usize,
    /// A snapshot goes with the next batch.
    snapshot_due: bool,
    /// The segment that holds the last batch; 0 before the first.
    segment: u64,
    /// Bytes of the last snapshot.
    snapshot_size: usize,
}

impl LogSide {
    fn new(place: LogPlace) -> LogSide {
        let (complete, completions) = mpsc::channel(FLIGHTS_MAX * 2);
        LogSide {
            store: place.store,
            class: place.class,
            epoch: place.epoch,
            last_lsn: place.last_lsn,
            flights: VecDeque::new(),
            next_flight: 0,
            completions,
            complete,
            buffers: Vec::new(),
            rests: true,
            broken: false,
            snapshot_bytes: place.snapshot_bytes,
            bytes_since_snapshot: 0,
            snapshot_due: false,
            segment: 0,
            snapshot_size: 0,
        }
    }
}

/// What is decided and applied, and not yet handed to the log.
struct OpenBatch {
    /// As the log will have it.
    records: Batch,
    /// It cannot be handed over.
    spoiled: Option<StoreError>,
    events: Vec<Outgoing>,
    blobs: BlobChanges,
    /// Who wants the hash of the state after this batch.
    hashes: Vec<oneshot::Sender<(u64, [u8; 32])>>,
    /// Who wants to save the state after this batch.
    saves: Vec<oneshot::Sender<StateAt>>,
}

impl OpenBatch {
    fn new(network: u32) -> OpenBatch {
        let (events, hashes, saves) = (Vec::new(), Vec::new(), Vec::new());
        OpenBatch { records: Batch::new(network), spoiled: None, events, blobs: BlobChanges::default(), hashes, saves }
    }

    /// Forgets what was decided; who waits for the state goes on waiting.
    fn discard(&mut self) {
        self.records.clear();
        self.spoiled = None;
        self.events.clear();
        self.blobs = BlobChanges::default();
    }
}

/// What deciding one event leaves for the next.
#[derive(Default)]
struct DecidingState {
    /// How the event before began.
    beginning: Beginning,
    /// Bytes of responses that still fit into the answer to the batch that is being decided.
    response_room: usize,
    /// How many of the effects belong to accepted inputs.
    decided_after: usize,
    /// An empty buffer for the next decision.
    spare: Vec<Record>,
}

/// What the last tick found.
#[derive(Default)]
struct LastTick {
    /// When it was, monotonic time.
    at: Millis,
    /// The wall clock was far behind the last stamp.
    clock_is_behind: bool,
}

/// Changes of the book since the task began.
#[derive(Default)]
struct BookChanges {
    count: u64,
    /// Settings or tokens may have changed since they were published.
    unpublished: bool,
}

/// Everything one network's task owns.
pub(crate) struct Task {
    shared: Arc<Shared>,
    pub(crate) engine: Engine,
    host: Host,
    /// The network's own: everything here is timed by it.
    clock: NetworkClock,
    last_tick: LastTick,
    commands: mpsc::Receiver<Command>,
    head: watch::Sender<Seq>,
    sessions: LiveStreams,
    /// Streams that joined, by connection: known from the decision on.
    joined: BTreeMap<u64, SessionRef>,
    walk: DecidingState,
    /// Events that wait to be decided.
    deferred: Deferred,
    mod_calls: ModCalls,
    validators: Arc<Validators>,
    fx: Effects,
    open: OpenBatch,
    /// Something in the open batch must not wait.
    urgent: bool,
    then: Vec<Then>,
    book_changes: BookChanges,
    log: LogSide,
    committed: Seq,
    recent: RecentEvents,
    blobs: Arc<Blobs>,
    /// Members some of whose acks are being looked up in the store, and what they ask for meanwhile.
    acks_looked_up: BTreeMap<u32, acks::Sought>,
    /// The node stops while the disk refuses: there is nothing to wait for.
    stopping: bool,
}

/// Waits until a question is given up.
async fn late(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

/// Where a network's records go, and how far they have come.
pub(crate) struct LogPlace {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) class: Class,
    pub(crate) epoch: u64,
    pub(crate) last_lsn: u64,
    /// Bytes of log after which a snapshot is taken.
    pub(crate) snapshot_bytes: usize,
    /// Content that is named by records.
    pub(crate) blobs: Arc<Blobs>,
}

impl Task {
    pub(crate) fn new(
        host: Host,
        shared: Arc<Shared>,
        engine: Engine,
        log: LogPlace,
        commands: mpsc::Receiver<Command>,
        head: watch::Sender<Seq>,
    ) -> Task {
        let committed = engine.state.book.head;
        let _ = head.send(committed);
        Task {
            clock: NetworkClock::resume(host.clock(), engine.state.monotonic()),
            last_tick: LastTick::default(),
            commands,
            head,
            sessions: LiveStreams::default(),
            joined: BTreeMap::new(),
            walk: DecidingState::default(),
            deferred: Deferred::default(),
            mod_calls: ModCalls::new(host.seed()),
            validators: Arc::new(Validators::new()),
            fx: Effects::default(),
            open: OpenBatch::new(shared.number),
            urgent: false,
            then: Vec::new(),
            book_changes: BookChanges::default(),
            committed,
            recent: RecentEvents::new(shared.directory.accounts.recent().owe()),
            blobs: log.blobs.clone(),
            log: LogSide::new(log),
            acks_looked_up: BTreeMap::new(),
            stopping: false,
            shared,
            engine,
            host,
        }
    }

    /// Runs until stopped. Dropped at any await it loses nothing that was answered.
    pub(crate) async fn run(mut self) {
        self.publish();
        if self.shared.is_damaged() {
            return self.serve_reads().await;
        }
        self.take_up_owed().await;
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let due = self.next_due();
            tokio::select! {
                biased;
                Some((number, result)) = self.log.completions.recv() => {
                    self.completed(number, result);
                    if !self.log.broken && self.is_due() {
                        self.gather(None).await;
                    }
                }
                _ = tick.tick() => self.tick().await,
                Some((ticket, resolution)) = self.deferred.arrival(), if self.log.flights.len() < FLIGHTS_MAX => {
                    let now = self.clock.now();
                    self.resume(ticket, resolution, now);
                    self.resume_deferred(now);
                    self.gather(None).await;
                }
                () = late(due), if self.log.flights.len() < FLIGHTS_MAX => {
                    let now = self.clock.now();
                    self.give_up_overdue(now);
                    if self.engine.next_deadline(self.last_tick.at).is_some_and(|at| at <= now.steady) {
                        self.tick().await;
                    }
                    self.gather(None).await;
                }
                command = self.commands.recv(), if self.log.flights.len() < FLIGHTS_MAX => match command {
                    None => break,
                    Some(Command::Stop { reply }) => {
                        self.stop().await;
                        let _ = reply.send(());
                        return;
                    }
                    Some(command) => self.gather(Some(command)).await,
                },
            }
            if self.log.broken {
                self.recover().await;
                if !self.stopping {
                    self.take_up_owed().await;
                }
            }
            if self.stopping {
                return;
            }
        }
        self.stop().await;
    }

    /// Notes that a token was shown.
    pub(crate) fn token_shown(&mut self, sha256: Option<&[u8; 32]>, now: Clock) {
        sha256.into_iter().for_each(|sha256| self.engine.token_shown(sha256, now));
    }

    fn other(&mut self, command: Command, now: Clock) {
        if let Command::Page { caller, .. } | Command::Latest { caller, .. } = &command {
            self.token_shown(caller.bearer.as_ref(), now);
        }
        match command {
            Command::Emit { .. } | Command::Stop { .. } => {}
            Command::EmitKeyed { caller, key, frame, reply } => {
                let frame = self.keyed(&caller, &key, frame, now);
                let caller = Arc::new(Caller { keyed: true, ..caller.as_ref().clone() });
                self.emit(0, &caller, Texts::one(frame), Reply::Once(reply), now);
            }
            Command::AckThese { caller, request, reply } => {
                let result = self.member_of(&caller, now).map(|member| self.ack(member, &request, now));
                self.count(reply, result);
            }
            Command::ModPort { name, asks } => self.mod_calls.connect(name, asks),
            Command::ModSaid { ticket, outcome } => {
                self.process_said(ticket, outcome, now);
                self.resume_deferred(now);
            }
            Command::Page { caller, view, filter, position, max, wanted, asks, reply } => {
                let answer = self.page(&caller, view, &filter, position, (max, wanted), asks, now);
                self.answer_read(Then::Page(reply, answer), now);
            }
            Command::Latest { caller, filter, after, reply } => {
                let through = self.committed;
                let latest = self.viewer_of(&caller, now);
                let latest = latest.and_then(|v| self.engine.state.latest_per_channel(v, &filter, after, through));
                self.answer_read(Then::Latest(reply, latest), now);
            }
            Command::Shown { member, seqs } => self.sessions.show(member, seqs),
            Command::Admitted { caller, reply } => {
                let _ = reply.send(self.viewer_of(&caller, now).map(drop));
            }
            Command::Locate { member, ids, reply } => {
                let may = member.map_or(Ok(()), |caller| self.member_of(&caller, now).map(drop));
                let _ = reply.send(may.map(|()| Located {
                    places: ids.iter().map(|id| self.whereabouts(id)).collect(),
                    committed: self.committed,
                    purged: self.engine.state.book.purged,
                }));
            }
            Command::Watch { connection, caller, outbox } => {
                if let Ok(viewer) = self.viewer_of(&caller, now) {
                    let member = match viewer {
                        Viewer::Member(id) => Some(id),
                        Viewer::Operator | Viewer::Reader { .. } => None,
                    };
                    self.sessions.watch(connection, member, outbox);
                }
            }
            Command::CloseStream { connection } => self.close_stream(connection, now),
            Command::Carry { face, connection, out, reply } => {
                self.sessions.carried.attach(face, connection, out, &self.engine.state);
                let _ = reply.send(Ok(()));
            }
            Command::Fact { face, key, reply } => {
                let fact = self.engine.state.fact(&face, &key).map(Into::into);
                self.answer_read(Then::Fact(reply, fact), now);
            }
            Command::Facts { face, prefix, after, limit, reply } => {
                let limit = limit.min(limits::LIST_ROWS_MAX);
                let page = self.engine.state.facts(&face, &prefix, after.as_deref(), limit);
                self.answer_read(Then::Facts(reply, page), now);
            }
            Command::ChangeFact { change, reply } => {
                let result = self.engine.change_fact(&change, &mut self.fx);
                match self.decided(result) {
                    Ok(changed) => self.then.push(Then::Changed(reply, changed)),
                    Err(fault) => drop(reply.send(Err(fault))),
                }
            }
            Command::Admin { by, op, reply } => {
                let result = match &by {
                    Some((caller, from)) => {
                        let by = AuditActor { caller, from: from.as_deref() };
                        self.engine.admin_by(&op, by, now, &mut self.fx)
                    }
                    None => self.engine.admin(&op, now, &mut self.fx),
                };
                let result = self.decided(result);
                self.urgent = true;
                self.then.push(Then::Pending(PendingAnswer::new(reply, result)));
            }
            Command::Read(read) => self.answer_task_read(read, now),
            Command::OpenRoom { caller, peer, channel, reply } => {
                self.open_room(&caller, &peer, channel.as_deref(), reply, now);
            }
            Command::Own { caller, wishes, reply } => self.change_own(&caller, &wishes, reply, now),
            Command::Hash { reply } => {
                self.open.hashes.push(reply);
            }
            Command::Save { reply } => self.open.saves.push(reply),
            Command::Contents { address, reply } => {
                let resource = self.engine.state.resource_named(&address);
                let _ = reply.send(resource.into_iter().flat_map(|(_, resource)| resource.blobs()).collect());
            }
            Command::Forget { seq } => self.forget_copy(seq),
            Command::Snapshot { reply } => {
                let _ = reply.send(self.state_to_save());
            }
            Command::Horizon { reply } => {
                let _ = reply.send((self.log.class, self.engine.state.horizon(now)));
            }
        }
    }

    /// Answers a read. What it saw may have been decided a moment ago: then it is answered when that is committed, so
    /// that nobody is shown what a power cut could take back. (Plain acks may be lost with a power cut, and do not count.)
    fn answer_read(&mut self, answer: Then, now: Clock) {
        let committed = self.log.flights.is_empty() && !self.urgent;
        if committed || rialto_engine::bugs::on("read of what is not committed") {
            self.then(answer, now);
        } else {
            self.then.push(answer);
        }
    }

    fn count(&mut self, reply: oneshot::Sender<Result<u64, Fault>>, result: Result<u64, Fault>) {
        match result {
            Ok(n) => self.then.push(Then::Count(reply, n)),
            Err(fault) => {
                let _ = reply.send(Err(fault));
            }
        }
    }

    /// Applies what was just decided, or forgets it if it was refused.
    fn decided<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        self.decided_of(result, None)
    }

    /// The same for what follows from an event whose payload is known to hold nothing to search for.
    fn decided_of<T>(&mut self, result: Result<T, Fault>, textless: Option<&str>) -> Result<T, Fault> {
        let mut records = std::mem::take(&mut self.walk.spare);
        self.fx.swap_records(&mut records);
        if result.is_err() {
            self.fx.after.truncate(self.walk.decided_after);
            records.clear();
            self.walk.spare = records;
            return result;
        }
        for record in records.drain(..) {
            // Notices name events by position; clients know them by id.
            let record = record.with_ids(&|seq| self.record_at(seq).ok()?.map(|r| r.event.id().to_owned()));
            self.note_blobs(&record);
            self.engine.apply(&record);
            if let Record::Event(event) = &record {
                self.urgent = true;
                let payload = event.event.payload();
                if event.stored && textless != Some(payload) && crate::search::may_hold_text(payload.as_bytes()) {
                    // Before anybody hears of it, and of its commit.
                    self.shared.last_text.store(event.event.seq, Ordering::Release);
                }
                self.recent.remember(event.clone(), self.committed);
                let tracked = self.engine.state.is_tracked();
                self.open.events.push(Outgoing { record: event.clone(), tracked, book: self.book_changes.count });
            }
            if let Record::Change(change) = &record {
                // Also what an event changes that is not kept itself is there when its sender is answered.
                self.urgent = true;
                self.heed(change);
                self.book_changes.unpublished = true;
                self.book_changes.count += 1;
            }
            self.encode(&record);
        }
        self.walk.spare = records;
        self.walk.decided_after = self.fx.after.len();
        result
    }

    /// The member behind a caller; its call counts as presence.
    fn member_of(&mut self, caller: &Caller, now: Clock) -> Result<u32, Fault> {
        match self.engine.state.principal(caller, None, now)? {
            Principal::Member(id) => {
                self.engine.live.touch(id, now);
                Ok(id)
            }
            Principal::Operator | Principal::Holder { .. } => Err(Fault::new(
                ErrorCode::NotAMember,
                "only members may do this: join, then show the session id as Bearer",
            )),
        }
    }

    fn viewer_of(&mut self, caller: &Caller, now: Clock) -> Result<Viewer, Fault> {
        match self.engine.state.principal(caller, None, now)? {
            Principal::Operator => Ok(Viewer::Operator),
            Principal::Member(id) => {
                self.engine.live.touch(id, now);
                Ok(Viewer::Member(id))
            }
            Principal::Holder { .. } if self.engine.state.book.settings.bare_reads => {
                Ok(Viewer::Reader { manages: self.engine.state.may_manage(caller, now) })
            }
            Principal::Holder { .. } => Err(Fault::new(
                ErrorCode::Unauthenticated,
                "only members may read here: join, then show the session id as Bearer",
            )),
        }
    }

    fn close_stream(&mut self, connection: u64, now: Clock) {
        self.joined.remove(&connection);
        self.deferred.forget_connection(connection);
        if let Some(session) = self.sessions.close(connection) {
            self.engine.live.stream(session.member, false, now);
        }
        self.tell();
    }

    /// Tells connections that there is something in their outboxes.
    fn tell(&mut self) {
        Outbox::tell_all(self.sessions.take_news());
    }

    /// How long until a question is given up or a deadline passes.
    fn next_due(&self) -> Option<Duration> {
        if !self.deferred.is_quiet() {
            // Answers came and wait for the next batch.
            return Some(Duration::ZERO);
        }
        // While a batch is on its way, its end is what hands mail over.
        if self.log.flights.is_empty() && self.sessions.carried.has_work() {
            return Some(Duration::ZERO);
        }
        let deadline = self.engine.next_deadline(self.last_tick.at);
        let due = self.deferred.next_deadline().into_iter().chain(deadline).min()?;
        Some(Duration::from_millis(due.saturating_sub(self.clock.now().steady)))
    }

    /// Once a second, and when a deadline passes: expiry, redelivery, and acks that waited.
    async fn tick(&mut self) {
        if self.log.flights.len() >= FLIGHTS_MAX {
            return;
        }
        let now = self.clock.now();
        self.last_tick.at = now.steady;
        self.give_up_overdue(now);
        self.forget_shown(now);
        self.probe_silent(now);
        self.share_recent();
        self.engine.tick(now, &mut self.fx);
        let _ = self.decided(Ok(()));
        let (repeated, given_up) = self.sessions.retry(&self.engine.state, now.steady);
        Counters::add(&self.shared.counters.redelivered, repeated);
        self.sessions.forget_rings(&self.engine.state);
        for (member, seq, _) in given_up {
            self.engine.give_up(member, &[seq], "max_attempts", now, &mut self.fx);
            let _ = self.decided(Ok(()));
            self.sessions.acked(&self.engine.state, member, self.committed, now.steady);
        }
        self.urgent = !self.open.records.is_empty();
        self.submit().await;
        self.rest_batches();
        self.gauge();
        self.compare_clocks(now);
    }

    /// Makes what others may know without asking current.
    fn publish(&self) {
        let book = &self.engine.state.book;
        let poisoned = PoisonError::into_inner;
        {
            let mut settings = self.shared.settings.write().unwrap_or_else(poisoned);
            if *settings != book.settings {
                *settings = book.settings.clone();
            }
        }
        let tokens: Vec<[u8; 32]> = book.tokens.iter().map(|t| t.sha256).collect();
        {
            let mut shared = self.shared.tokens.write().unwrap_or_else(PoisonError::into_inner);
            if *shared != tokens {
                *shared = tokens;
            }
        }
        {
            let mut sessions = self.shared.sessions.write().unwrap_or_else(PoisonError::into_inner);
            match self.shared.is_listed() {
                true if sessions.is_empty() => {}
                true => sessions.clear(),
                false => *sessions = self.engine.state.session_hashes().collect(),
            }
        }
        self.shared.has_owed.store(book.next_owed > 0, Ordering::Release);
        self.shared.counted.store(self.engine.state.has_mod("analytics"), Ordering::Release);
        self.shared.ready.store(!self.log.broken, Ordering::Release);
    }

    /// Warns, once each time, of a wall clock that is far behind the last stamp: stamps stand still until it has caught up.
    fn compare_clocks(&mut self, now: Clock) {
        let behind = self.engine.state.book.last_stamp.saturating_sub(now.wall);
        Counters::set(&self.shared.counters.clock_behind_ms, behind);
        let far = behind > CLOCK_BEHIND_MS;
        if far && !self.last_tick.clock_is_behind {
            tracing::warn!(
                network = %self.shared.id,
                behind_s = behind / 1000,
                "the wall clock is behind the last event: new events keep its time stamp until the clock has caught up; \
                 deadlines are not affected"
            );
        }
        self.last_tick.clock_is_behind = far;
    }

    /// Gauges for `/metrics`: once a second, because they count members.
    fn gauge(&self) {
        let book = &self.engine.state.book;
        let counters = &self.shared.counters;
        Counters::set(&counters.streams, self.sessions.len() as u64);
        Counters::set(&counters.members, self.engine.state.roster().count() as u64);
        let now = self.clock.now();
        let online = self.engine.live.online(now);
        Counters::set(&counters.online, online as u64);
        Counters::set(&counters.dead, book.dead_letters.iter().filter(|d| d.is_open()).count() as u64);
    }
}
