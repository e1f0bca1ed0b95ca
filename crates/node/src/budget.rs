//! Bytes that are held for clients who have not read them yet, charged from one place: to the connection, to whoever is behind
//! it, and to the node.
//!
//! Invariant: a charge counts in its account and in every account above it until it is dropped. Over the bound the producer
//! waits, and is refused after a while; an account that holds nothing takes any one charge, so that no answer is too large for ever.
//!
//! Those who do not read cannot shut out those who do: the last quarter of the node's bound is for clients that hold nothing, and while the
//! node is that full, connections that have read nothing for a second are ended, the one that holds most first. They find everything
//! again when they come back.

use rialto_model::{ErrorCode, Fault, limits};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Accounts of clients are looked through for those that nobody holds any more when there are this many of them.
const SWEEP_AT: usize = 1024;

/// A request waits this long for earlier answers to be read.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that a page takes while it is made: its events as they are read, its text, and what both are made with.
pub const PAGE_IN_THE_MAKING_BYTES: usize = 3 * limits::PAGE_BYTES_MAX;

/// On a crowded node a connection that has read nothing for this long is ended.
const STALLED: Duration = Duration::from_secs(1);
/// Connections are ended at most this often.
const BETWEEN_ENDS: Duration = Duration::from_millis(10);

/// Whose bytes an account counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One connection.
    Connection,
    /// Everything with the same credential.
    Member,
    /// One network.
    Network,
    /// The node.
    Node,
}

impl Scope {
    fn as_str(self) -> &'static str {
        match self {
            Scope::Connection => "connection",
            Scope::Member => "member",
            Scope::Network => "network",
            Scope::Node => "node",
        }
    }
}

/// What an account counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// What waits for clients to read it.
    Answers,
    /// What clients sent and waits for a network.
    Inputs,
}

/// Bytes held on somebody's behalf.
#[derive(Debug)]
pub struct Account {
    above: Option<Arc<Account>>,
    of: Of,
    scope: Scope,
    used: AtomicUsize,
    bytes_max: usize,
    freed: Notify,
    /// When the first account of the node was opened.
    began: Instant,
    /// Milliseconds from then to when something was read last, or charged after nothing was held.
    moved_at: AtomicU64,
    /// The connections whose answers it counts, if they can be ended.
    connections: Mutex<Vec<(u64, ConnectionCloser)>>,
    /// On the account of the node: accounts whose connections can be ended. Boxed: the many accounts below it have none.
    evictable: OnceLock<Box<Mutex<Evictable>>>,
}

/// Ends a connection.
#[derive(Clone)]
struct ConnectionCloser(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for ConnectionCloser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("End")
    }
}

#[derive(Debug, Default)]
struct Evictable {
    accounts: Vec<Weak<Account>>,
    sweep_at: usize,
    numbers: u64,
    ended_at: Option<Instant>,
}

/// A connection that is ended when it holds most of what nobody reads; until this is dropped.
#[derive(Debug)]
pub struct EndsWhenCrowded {
    account: Arc<Account>,
    number: u64,
}

impl Drop for EndsWhenCrowded {
    fn drop(&mut self) {
        self.account.connections().retain(|(number, _)| *number != self.number);
    }
}

impl Account {
    fn new(scope: Scope, bytes_max: usize, above: Option<Arc<Account>>) -> Arc<Account> {
        let of = above.as_ref().map_or(Of::Answers, |above| above.of);
        Account::counting(of, scope, bytes_max, above)
    }

    fn counting(of: Of, scope: Scope, bytes_max: usize, above: Option<Arc<Account>>) -> Arc<Account> {
        let began = above.as_ref().map_or_else(Instant::now, |above| above.began);
        Arc::new(Account {
            above,
            of,
            scope,
            used: AtomicUsize::new(0),
            bytes_max,
            freed: Notify::new(),
            began,
            moved_at: AtomicU64::new(0),
            connections: Mutex::default(),
            evictable: OnceLock::new(),
        })
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<(u64, ConnectionCloser)>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evictable(&self) -> std::sync::MutexGuard<'_, Evictable> {
        self.evictable.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of the node.
    fn top(self: &Arc<Self>) -> &Arc<Account> {
        self.chain().last().unwrap_or(self)
    }

    /// Has a connection ended, whose answers this account counts, when the node is crowded and nobody who reads nothing holds more.
    pub fn ends_when_crowded(self: &Arc<Self>, end: impl Fn() + Send + Sync + 'static) -> EndsWhenCrowded {
        let mut evictable = self.top().evictable();
        evictable.numbers += 1;
        let number = evictable.numbers;
        if evictable.accounts.len() >= evictable.sweep_at {
            evictable.accounts.retain(|account| account.strong_count() > 0);
            evictable.sweep_at = SWEEP_AT.max(evictable.accounts.len() * 2);
        }
        let mut connections = self.connections();
        if connections.is_empty() {
            evictable.accounts.push(Arc::downgrade(self));
        }
        connections.reserve_exact(1);
        connections.push((number, ConnectionCloser(Arc::new(end))));
        drop((connections, evictable));
        EndsWhenCrowded { account: self.clone(), number }
    }

    /// Notes that somebody reads.
    fn moved(&self) {
        if self.scope != Scope::Node {
            let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.moved_at.store(ms, Ordering::Release);
        }
    }

    fn is_stalled(&self) -> bool {
        let moved = self.began + Duration::from_millis(self.moved_at.load(Ordering::Acquire));
        self.used() > 0 && moved.elapsed() >= STALLED
    }

    /// Ends the connections of the account that holds most of those that have read nothing for a while. Not often: what was ended has to
    /// give back what it held first.
    fn end_stalled(&self) {
        let mut evictable = self.evictable();
        if evictable.ended_at.is_some_and(|at| at.elapsed() < BETWEEN_ENDS) {
            return;
        }
        let stalled = evictable.accounts.iter().filter_map(Weak::upgrade);
        let stalled = stalled.filter(|account| account.is_stalled() && !account.connections().is_empty());
        let Some(worst) = stalled.max_by_key(|account| account.used()) else { return };
        evictable.ended_at = Some(Instant::now());
        drop(evictable);
        tracing::debug!(
            bytes = worst.used(),
            "a connection that reads nothing is ended: the node holds too much for others"
        );
        let ends: Vec<ConnectionCloser> = worst.connections().iter().map(|(_, end)| end.clone()).collect();
        ends.into_iter().for_each(|end| (end.0)());
    }

    /// An account that counts for `self` too.
    pub fn below(self: &Arc<Self>, scope: Scope, bytes_max: usize) -> Arc<Account> {
        Account::new(scope, bytes_max, Some(self.clone()))
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    fn chain(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Account>> {
        std::iter::successors(Some(self), |account| account.above.as_ref())
    }

    fn add(&self, bytes: usize) {
        if self.used.fetch_add(bytes, Ordering::AcqRel) == 0 {
            self.moved();
        }
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        self.moved();
        self.freed.notify_waiters();
    }

    /// Adds bytes if there is room for them; gives what was held before. Whoever `holds` something leaves the last quarter of the node to
    /// those who hold nothing.
    fn try_add(&self, bytes: usize, holds: bool) -> Option<usize> {
        let bytes_max = if holds && self.scope == Scope::Node { self.crowded_at() } else { self.bytes_max };
        let fits = |used: usize| (used == 0 || used.saturating_add(bytes) <= bytes_max).then_some(used + bytes);
        let before = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        if before == 0 {
            self.moved();
        }
        Some(before)
    }

    fn crowded_at(&self) -> usize {
        self.bytes_max / 4 * 3
    }

    /// Charges bytes to this account and all above it, or says which of them is full.
    fn try_charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, Arc<Account>> {
        let mut holds = false;
        for (at, account) in self.chain().enumerate() {
            let added = account.try_add(bytes, holds);
            if account.scope == Scope::Node && account.used() > account.crowded_at() {
                account.end_stalled();
            }
            let Some(before) = added else {
                self.chain().take(at).for_each(|below| below.give_back(bytes));
                if account.scope == Scope::Node {
                    account.end_stalled();
                }
                return Err(account.clone());
            };
            holds = before > 0;
        }
        Ok(Charge { account: self.clone(), bytes })
    }

    /// Charges bytes if there is room for them now.
    pub fn charge_now(self: &Arc<Self>, bytes: usize) -> Result<Charge, Fault> {
        self.try_charge(bytes).map_err(|full| full.refusal(Duration::ZERO))
    }

    /// Charges bytes, waiting for room for a while. Dropped while it waits, it charges nothing.
    pub async fn charge(self: &Arc<Self>, bytes: usize, patience: Duration) -> Result<Charge, Fault> {
        let deadline = Instant::now() + patience;
        loop {
            let full = match self.try_charge(bytes) {
                Ok(charge) => return Ok(charge),
                Err(full) => full,
            };
            let freed = full.freed.notified();
            tokio::pin!(freed);
            // Whoever gives back between the look and the wait is heard too.
            freed.as_mut().enable();
            if let Ok(charge) = self.try_charge(bytes) {
                return Ok(charge);
            }
            // Where the node is full it is looked again soon who has not read for long enough.
            let next = if full.scope == Scope::Node { deadline.min(Instant::now() + STALLED / 4) } else { deadline };
            if tokio::time::timeout_at(next, freed).await.is_err() && Instant::now() >= deadline {
                return Err(full.refusal(patience));
            }
        }
    }

    /// A charge of nothing yet, for bytes that are there whether or not there is room for them.
    pub fn owe(self: &Arc<Self>) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }

    fn refusal(&self, patience: Duration) -> Fault {
        let (scope, bytes_max, used) = (self.scope.as_str(), self.bytes_max, self.used());
        let waited = if patience.is_zero() {
            String::new()
        } else {
            format!(" and no room was made in {} s", patience.as_secs())
        };
        let text = match self.of {
            Of::Answers => format!(
                "{used} bytes of answers to this {scope} wait to be read (limit {bytes_max}){waited}; read them, or ask for less at once"
            ),
            Of::Inputs => format!(
                "{used} bytes of events wait to be taken in by this {scope} (limit {bytes_max}){waited}; send them again later, or fewer at once"
            ),
        };
        let details = json!({ "scope": scope, "limit": bytes_max, "retry_after_ms": 1000 });
        Fault::new(ErrorCode::RateLimited, text).details(details)
    }
}

/// Bytes of an account; given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Charge {
    /// Charges what was really needed instead of what was thought to be. Never waits: the bytes are there already.
    pub fn resize(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        for account in self.account.chain() {
            if bytes >= before { account.add(bytes - before) } else { account.give_back(before - bytes) }
        }
    }

    /// Bytes charged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.chain().for_each(|account| account.give_back(self.bytes));
    }
}

/// The accounts of a node.
#[derive(Debug)]
pub struct Accounts {
    node: Arc<Account>,
    /// Mail on its way to streams, whoever it is for: nobody waits for room, it waits in the log.
    mail: Arc<Account>,
    /// Newest events that networks keep at hand.
    recent: Arc<Account>,
    /// Large inputs that wait to be decided.
    inputs: Arc<Account>,
    member_bytes_max: usize,
    members: Mutex<BTreeMap<[u8; 32], Weak<Account>>>,
}

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts::new(limits::UNREAD_BYTES_MAX, limits::UNREAD_PER_MEMBER_BYTES_MAX)
    }
}

impl Accounts {
    /// Accounts with these bounds for the node and for each credential.
    pub fn new(node_bytes_max: usize, member_bytes_max: usize) -> Accounts {
        let node = Account::new(Scope::Node, node_bytes_max, None);
        let mail = Account::new(Scope::Node, limits::UNREAD_MAIL_BYTES_MAX, None);
        let recent = Account::new(Scope::Node, limits::RECENT_ALL_BYTES_MAX, None);
        let inputs = Account::counting(Of::Inputs, Scope::Node, limits::INPUT_ALL_BYTES_MAX, None);
        Accounts { node, mail, recent, inputs, member_bytes_max, members: Mutex::default() }
    }

    /// The account of the node.
    pub fn node(&self) -> &Arc<Account> {
        &self.node
    }

    /// What mail on its way to streams is charged to.
    pub(crate) fn mail(&self) -> &Arc<Account> {
        &self.mail
    }

    /// What newest events that a network keeps at hand are charged to.
    pub(crate) fn recent(&self) -> &Arc<Account> {
        &self.recent
    }

    /// What large inputs of one network are charged to.
    pub fn inputs_of_network(&self) -> Arc<Account> {
        self.inputs.below(Scope::Network, limits::INPUT_BYTES_MAX)
    }

    /// Bytes of large inputs that wait.
    pub fn input_bytes(&self) -> usize {
        self.inputs.used()
    }

    /// Bytes of newest events that all networks keep at hand.
    pub fn recent_bytes(&self) -> usize {
        self.recent.used()
    }

    /// Whether networks keep more at hand than all of them may.
    pub(crate) fn has_too_many_recent(&self) -> bool {
        self.recent.used() > self.recent.bytes_max
    }

    /// Whether little waits to be read, of all that may.
    pub(crate) fn is_roomy(&self) -> bool {
        self.node.used() <= self.node.bytes_max / 4
    }

    /// Bytes of mail that one stream may hold unread as things are: little while the node holds much, and none when it is full.
    pub(crate) fn mail_per_stream(&self) -> usize {
        match self.mail.used() {
            used if used >= limits::UNREAD_MAIL_BYTES_MAX => 0,
            used if used >= limits::UNREAD_MAIL_BYTES_MAX / 2 => limits::OUTBOX_BYTES_MAX / 16,
            _ => limits::OUTBOX_BYTES_MAX,
        }
    }

    /// The account of a member of a network, on every stream it has there.
    pub(crate) fn member_of(&self, network: u32, member: u32) -> Arc<Account> {
        let mut key = [0; 32];
        key.iter_mut()
            .zip(network.to_le_bytes().into_iter().chain(member.to_le_bytes()))
            .for_each(|(k, byte)| *k = byte);
        // No hash of a credential ends in so many zeros.
        self.member(&key)
    }

    /// The account of whoever shows this credential, by its hash; the same one on every connection.
    pub fn member(&self, credential: &[u8; 32]) -> Arc<Account> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = members.get(credential).and_then(Weak::upgrade) {
            return account;
        }
        if members.len() >= SWEEP_AT {
            members.retain(|_, account| account.strong_count() > 0);
        }
        let account = self.node.below(Scope::Member, self.member_bytes_max);
        members.insert(*credential, Arc::downgrade(&account));
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn a_charge_counts_above_and_is_given_back_when_it_is_dropped() {
        let accounts = Accounts::new(100, 60);
        let (a, b) = (accounts.member(&[1; 32]), accounts.member(&[2; 32]));
        assert!(Arc::ptr_eq(&a, &accounts.member(&[1; 32])));
        let mut first = a.charge(50, SOON).await.unwrap();
        let refused = a.charge(20, SOON).await.unwrap_err();
        assert_eq!(
            (refused.code, refused.payload(None)["details"]["scope"].as_str()),
            (ErrorCode::RateLimited, Some("member"))
        );
        let second = b.charge(50, SOON).await.unwrap();
        let c = accounts.member(&[3; 32]);
        let refused = c.charge(1, SOON).await.unwrap_err();
        assert_eq!(refused.payload(None)["details"]["scope"], "node");
        first.resize(10);
        assert_eq!((a.used(), accounts.node().used()), (10, 60));
        let third = c.charge(40, SOON).await.unwrap();
        drop((first, second, third));
        assert_eq!(accounts.node().used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_goes_on_when_there_is_room_and_one_large_answer_is_never_too_large() {
        let accounts = Accounts::new(100, 100);
        let account = accounts.member(&[1; 32]);
        let large = account.charge(1000, SOON).await.unwrap();
        let waits = tokio::spawn({
            let account = account.clone();
            async move { account.charge(10, Duration::from_secs(5)).await.map(|charge| charge.bytes()) }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waits.is_finished());
        drop(large);
        assert_eq!(waits.await.unwrap().unwrap(), 10);
        assert_eq!(account.used(), 0);
    }

    /// A quarter is left to those who hold nothing, and who does not read is ended, the one that holds most first.
    #[tokio::test(start_paused = true)]
    async fn those_who_do_not_read_make_room_for_those_who_do() {
        let accounts = Accounts::new(100, 60);
        let ended = Arc::new(Mutex::new(Vec::new()));
        let client = |n: u8| {
            let (account, ended) = (accounts.member(&[n; 32]), ended.clone());
            let guard = account.ends_when_crowded(move || ended.lock().unwrap().push(n));
            (account, guard)
        };
        let all: Vec<_> = (1..=4).map(client).collect();
        let first = all[0].0.charge(40, SOON).await.unwrap();
        let second = all[1].0.charge(35, SOON).await.unwrap();
        assert_eq!(all[1].0.charge(10, SOON).await.unwrap_err().code, ErrorCode::RateLimited, "it holds something");
        let third = all[2].0.charge(10, SOON).await.unwrap();
        assert!(ended.lock().unwrap().is_empty(), "they may still be about to read");
        tokio::time::sleep(STALLED).await;
        // The third reads, the first has gone without a trace.
        let mut third = third;
        third.resize(9);
        drop(first);
        let fourth = all[3].0.charge(50, SOON).await.unwrap();
        assert_eq!(*ended.lock().unwrap(), [2], "of those that hold something and read nothing");
        tokio::time::sleep(STALLED).await;
        drop((second, third));
        let waits = all[0].0.charge(60, Duration::from_secs(5));
        assert_eq!(waits.await.unwrap_err().code, ErrorCode::RateLimited, "nobody gives back what the fourth holds");
        assert!(ended.lock().unwrap().contains(&4));
        drop((all, fourth));
        assert_eq!(accounts.node().used(), 0);
    }

    #[test]
    fn unread_mail_bytes_max() {
        let accounts = Accounts::default();
        let mut held = accounts.mail().owe();
        assert_eq!(accounts.mail_per_stream(), limits::OUTBOX_BYTES_MAX);
        held.resize(limits::UNREAD_MAIL_BYTES_MAX / 2);
        assert_eq!(accounts.mail_per_stream(), limits::OUTBOX_BYTES_MAX / 16);
        held.resize(limits::UNREAD_MAIL_BYTES_MAX);
        assert_eq!(accounts.mail_per_stream(), 0);
        drop(held);
        assert_eq!(accounts.mail_per_stream(), limits::OUTBOX_BYTES_MAX);
    }

    #[test]
    fn accounts_that_nobody_holds_are_forgotten() {
        let accounts = Accounts::new(100, 100);
        for n in 0..SWEEP_AT * 2 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&n.to_le_bytes());
            accounts.member(&hash);
        }
        assert!(accounts.members.lock().unwrap().len() <= SWEEP_AT);
    }
}
