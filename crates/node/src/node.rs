//! The node: its store, its networks, its operator.

mod transfer;
mod upkeep;

pub use transfer::Imported;

use crate::blobs::Blobs;
use crate::budget::Accounts;
use crate::clock::NetworkClock;
use crate::command::Command;
use crate::directory::Directory;
use crate::host::Host;
use crate::metrics::Counters;
use crate::network::{Handle, Network, Shared};
use crate::profile;
use crate::redaction;
use crate::task::load::{self, LoadError, Readable};
use crate::task::{LogPlace, Task};
use rialto_engine::mods::{self, ModConfig};
use rialto_engine::profile::{PLAIN_MODS, WORKSPACE_MODS};
use rialto_engine::record::{Change, KIND_CHANGE, Record, VERSION};
use rialto_engine::{AdminOp, Engine, State};
use rialto_identity::{Secret, same};
use rialto_model::error::Scope;
use rialto_model::network::{Delivery, Durability, Policy, Preset, Settings, Token};
use rialto_model::{ErrorCode, Fault, Millis, NetworkId, Role, limits};
use rialto_store::search::SearchIndex;
use rialto_store::{Batch, Class, Flush, LocalOptions, LocalStore, MemoryStore, Store, StoreError};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How a node is opened.
#[derive(Debug, Clone, Default)]
pub struct NodeConfig {
    /// Data directory; none keeps everything in memory.
    pub data: Option<PathBuf>,
    /// Free space below which writes are refused.
    pub free_floor_bytes: Option<u64>,
    /// Bytes the data may take.
    pub budget_bytes: Option<u64>,
    /// Full-text search off.
    pub no_search: bool,
}

/// Bytes of log after which a network's snapshot is taken.
const SNAPSHOT_BYTES: usize = 48 << 20;
/// Workspaces made without a credential are counted over this long.
const OPEN_WINDOW_MS: Millis = 60_000;

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeParts {
    /// Where its records go.
    pub store: Arc<dyn Store>,
    /// Data directory, if it has one.
    pub data: Option<PathBuf>,
    /// Full-text search, if it is on.
    pub index: Option<Arc<SearchIndex>>,
    /// The machine below.
    pub host: Host,
    /// Bytes of log after which a network's snapshot is taken.
    pub snapshot_bytes: usize,
}

impl NodeParts {
    /// A store on this machine, without a data directory and search.
    pub fn over(store: Arc<dyn Store>) -> NodeParts {
        NodeParts { store, data: None, index: None, host: Host::default(), snapshot_bytes: SNAPSHOT_BYTES }
    }
}

/// Why a node does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A network cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The system has no randomness.
    #[error(transparent)]
    Entropy(#[from] rialto_identity::NoEntropy),
    /// The system has no thread for the search index.
    #[error("no thread for the search index: {0}")]
    Thread(#[source] std::io::Error),
}

/// A network to be made.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names of the admin API")]
pub struct CreateNetwork {
    pub name: String,
    pub policy: Policy,
    pub profile: Preset,
    pub delivery: Delivery,
    pub durability: Durability,
    pub min_verification: u8,
    /// Kept for ever.
    pub keep_for_ever: bool,
    /// How many days mod/persistence keeps events, if it is loaded; its own default if none.
    pub keep_days: Option<f64>,
    /// Loaded mods by name; the profile's if none.
    pub mods: Option<Vec<String>>,
    /// The first token; made if none and the policy wants one.
    pub token: Option<Secret>,
    /// Whoever holds its token manages it, as clients of workspace servers expect.
    pub token_manages: bool,
    /// Somebody makes it without a credential: there are few of them.
    pub made_openly: bool,
    pub created_by: Option<String>,
}

impl CreateNetwork {
    /// A network with the defaults of its profile.
    pub fn named(name: &str, profile: Preset) -> CreateNetwork {
        CreateNetwork {
            name: name.to_owned(),
            policy: Policy::Token,
            profile,
            delivery: Delivery::AtLeastOnce,
            durability: Durability::Sync,
            min_verification: 0,
            keep_for_ever: false,
            keep_days: None,
            mods: None,
            token: None,
            token_manages: false,
            made_openly: false,
            created_by: None,
        }
    }
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    data: Option<PathBuf>,
    networks: RwLock<Vec<Network>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    admin: Secret,
    admin_sha256: [u8; 32],
    next_number: AtomicU64,
    stopping: AtomicBool,
    started: Instant,
    /// Bytes the store took when the node was opened.
    used_at_start: u64,
    /// One at a time; when networks were made without a credential lately, steady time.
    creating: tokio::sync::Mutex<VecDeque<Millis>>,
    index: Option<Arc<SearchIndex>>,
    follower: Mutex<Option<crate::search::Follower>>,
    stop: CancellationToken,
    host: Host,
    snapshot_bytes: usize,
    blobs: Arc<Blobs>,
    /// The epoch it writes under: a restored node has another one than the node it was saved from.
    epoch: u64,
    directory: Arc<Directory>,
    /// Imports that came to nothing: their records may be freed.
    unfinished: Mutex<BTreeSet<(Class, u32)>>,
    lost: RwLock<Vec<LostNetwork>>,
}

/// A network of which nothing can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostNetwork {
    /// Its number in the store: its name is lost with it.
    pub number: u32,
    /// Why. Names files: for the operator's eyes.
    pub damage: String,
}

/// One node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

/// A node that somebody else keeps.
#[derive(Debug)]
pub(crate) struct WeakNode(std::sync::Weak<Inner>);

impl WeakNode {
    /// The node, while it is there.
    pub(crate) fn upgrade(&self) -> Option<Node> {
        self.0.upgrade().map(|inner| Node { inner })
    }
}

impl Node {
    pub(crate) fn downgrade(&self) -> WeakNode {
        WeakNode(Arc::downgrade(&self.inner))
    }

    /// Opens the store and brings every network in it back.
    pub async fn open(config: NodeConfig) -> Result<Node, OpenError> {
        let data = config.data.clone();
        let search = !config.no_search;
        let opened = Host::default().blocking(move || open_store(&config)).await;
        Node::over(opened.map_err(|_| StoreError::Closed)??, data, search).await
    }

    /// A node over any store, on this machine.
    pub async fn over(store: Arc<dyn Store>, data: Option<PathBuf>, search: bool) -> Result<Node, OpenError> {
        let index = match data.as_ref().filter(|_| search) {
            Some(dir) => Some(Arc::new(SearchIndex::open(dir.join("search.db"))?)),
            None => None,
        };
        Node::open_with(NodeParts { data, index, ..NodeParts::over(store) }).await
    }

    /// A node made of given parts.
    pub async fn open_with(parts: NodeParts) -> Result<Node, OpenError> {
        let NodeParts { store, data, index, host, snapshot_bytes } = parts;
        let admin = host.secret()?;
        let blobs = Blobs::over(store.clone(), host.clone())?;
        let node = Node {
            inner: Arc::new(Inner {
                store: store.clone(),
                data,
                networks: RwLock::new(Vec::new()),
                tasks: Mutex::new(Vec::new()),
                admin_sha256: admin.sha256(),
                admin,
                next_number: AtomicU64::new(1),
                stopping: AtomicBool::new(false),
                started: Instant::now(),
                used_at_start: store.health().used_bytes,
                creating: tokio::sync::Mutex::default(),
                index: index.clone(),
                follower: Mutex::new(None),
                stop: CancellationToken::new(),
                host: host.clone(),
                snapshot_bytes,
                blobs,
                epoch: store.epoch()?,
                directory: Arc::default(),
                unfinished: Mutex::default(),
                lost: RwLock::default(),
            }),
        };
        let highest = store.given_up().into_iter().max().unwrap_or(0);
        node.inner.next_number.fetch_max(u64::from(highest) + 1, Ordering::SeqCst);
        let (mut behind, mut cut_short) = (Vec::new(), Vec::new());
        for info in store.networks()? {
            let from = store.clone();
            let seed = host.seed();
            let loaded = host.blocking(move || load::load_readable(from.as_ref(), info.class, info.network, seed));
            node.inner.next_number.fetch_max(u64::from(info.network) + 1, Ordering::SeqCst);
            let Readable { engine, lsn, damage } = match loaded.await.map_err(|_| StoreError::Closed)? {
                Ok(readable) => readable,
                Err(LoadError::Unfinished { last, .. }) => {
                    node.leave_out(info.class, info.network, last).await;
                    continue;
                }
                Err(error) if error.is_damage() => {
                    node.lose(info.network, &error);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            // Its state may be whole all the same: then a repair costs it only what the history cannot show.
            let known = || store.known_loss(info.network).map(|damage| StoreError::Damaged(Box::new(damage)).into());
            if let Some(damage) = damage.or_else(known) {
                tracing::error!(network = %engine.state.book.id, %damage, "a network is damaged: it can be read, not written");
                node.start(engine, info.class, lsn, Some(damage.to_string()));
                continue;
            }
            let book = &engine.state.book;
            let (id, redacted) = (book.id.clone(), book.redacted.iter().copied().collect::<Vec<_>>());
            let (from, to) = (store.clone(), index.clone());
            let looked = host
                .blocking(move || redaction::cut_short(from.as_ref(), to.as_deref(), (info.network, &id), &redacted));
            let unfinished = looked.await.map_err(|_| StoreError::Closed)?.unwrap_or_else(|error| {
                tracing::error!(network = info.network, %error, "whether redactions were cut short cannot be read");
                Vec::new()
            });
            let is_behind = engine.state.is_behind_its_profile();
            let network = node.start(engine, info.class, lsn, None);
            cut_short.push((network.clone(), unfinished));
            behind.extend(is_behind.then_some(network));
        }
        for (network, events) in cut_short {
            redaction::finish(&network, &events).await;
        }
        for network in behind {
            profile::catch_up(&node.inner.blobs, &network).await;
        }
        node.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(tokio::spawn(upkeep::run(node.clone())));
        if let Some(index) = index.filter(|_| !node.inner.host.is_simulated()) {
            let follower = crate::search::Follower::start(&node, index).map_err(OpenError::Thread)?;
            *node.inner.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
        }
        Ok(node)
    }

    /// Its search index, if it has one.
    pub(crate) fn search_index(&self) -> Option<Arc<SearchIndex>> {
        self.inner.index.clone()
    }

    /// Takes note of a network of which nothing can be read.
    fn lose(&self, number: u32, error: &LoadError) {
        tracing::error!(network = number, %error, "nothing of a network can be read");
        let lost = LostNetwork { number, damage: error.to_string() };
        self.inner.lost.write().unwrap_or_else(PoisonError::into_inner).push(lost);
    }

    /// In this run nobody is admitted without a credential, whatever the policy of a network says.
    pub fn refuse_strangers(&self) {
        self.inner.directory.closed.store(true, Ordering::Release);
    }

    /// Networks of which nothing can be read.
    pub fn lost_networks(&self) -> Vec<LostNetwork> {
        self.inner.lost.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn start(&self, engine: Engine, class: Class, lsn: u64, damage: Option<String>) -> Network {
        let book = &engine.state.book;
        let shared = Arc::new(Shared {
            id: book.id.clone(),
            number: book.number,
            settings: RwLock::new(book.settings.clone()),
            tokens: RwLock::new(book.tokens.iter().map(|t| t.sha256).collect()),
            counters: Counters::default(),
            ready: AtomicBool::new(damage.is_none()),
            counted: AtomicBool::new(false),
            has_owed: AtomicBool::new(book.next_owed > 0),
            connections: AtomicU64::new(1),
            inputs: self.inner.directory.accounts.inputs_of_network(),
            last_text: AtomicU64::new(engine.state.book.head),
            mods: crate::metrics::ModCounters::default(),
            sessions: RwLock::default(),
            directory: self.inner.directory.clone(),
            damage: RwLock::new(damage),
            opened: AtomicBool::new(false),
        });
        self.inner.directory.add(&shared);
        self.inner.blobs.load(book.number, engine.state.blobs());
        if shared.is_damaged() {
            // What cannot be read may name content, too: none of it is removed.
            self.inner.blobs.doubt(book.number);
        }
        let (commands, inbox) = mpsc::channel::<Command>(limits::INPUT_QUEUE_MAX);
        let (head_tx, head) = watch::channel(book.head);
        let snapshot_bytes = self.inner.snapshot_bytes;
        let blobs = self.inner.blobs.clone();
        let log = LogPlace {
            store: self.inner.store.clone(),
            class,
            epoch: self.inner.epoch,
            last_lsn: lsn,
            snapshot_bytes,
            blobs,
        };
        let task = Task::new(self.inner.host.clone(), shared.clone(), engine, log, inbox, head_tx);
        let (store, index, host) = (self.inner.store.clone(), self.inner.index.clone(), self.inner.host.clone());
        let network = Network {
            handle: Arc::new(Handle { shared, commands, head, store, index, host, blobs: self.inner.blobs.clone() }),
        };
        self.inner.networks.write().unwrap_or_else(PoisonError::into_inner).push(network.clone());
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(tokio::spawn(task.run()));
        network
    }

    /// Whether another network may be made without a credential: few at a time, and few in all.
    fn may_make_openly(&self, made: &mut VecDeque<Millis>) -> Result<(), Fault> {
        let there = self.networks().iter().filter(|network| network.settings().made_openly).count();
        if there >= limits::OPEN_WORKSPACES_MAX {
            let text = format!(
                "this node has reached its limit of {} workspaces made without a credential: its operator makes more",
                limits::OPEN_WORKSPACES_MAX
            );
            return Err(Fault::full(Scope::Node, limits::OPEN_WORKSPACES_MAX, text));
        }
        let now = self.inner.host.clock().now().steady;
        while made.front().is_some_and(|at| at.saturating_add(OPEN_WINDOW_MS) <= now) {
            made.pop_front();
        }
        if made.len() >= limits::OPEN_WORKSPACES_PER_MINUTE_MAX {
            let wait = made.front().map_or(OPEN_WINDOW_MS, |at| at.saturating_add(OPEN_WINDOW_MS) - now);
            let text = format!(
                "at most {} workspaces are made without a credential in a minute; try again later",
                limits::OPEN_WORKSPACES_PER_MINUTE_MAX
            );
            return Err(Fault::new(ErrorCode::RateLimited, text).details(
                serde_json::json!({ "retry_after_ms": wait, "limit": limits::OPEN_WORKSPACES_PER_MINUTE_MAX }),
            ));
        }
        made.push_back(now);
        Ok(())
    }

    /// Makes a network; gives its first token if one was made.
    pub async fn create_network(&self, wish: CreateNetwork) -> Result<(Network, Option<Secret>), Fault> {
        let mut made = self.inner.creating.lock().await;
        if self.inner.stopping.load(Ordering::SeqCst) {
            return Err(ErrorCode::ShuttingDown.into());
        }
        if self.networks().len() >= limits::NETWORKS_MAX {
            let text = format!("this node has reached its limit of {} networks", limits::NETWORKS_MAX);
            return Err(Fault::full(Scope::Node, limits::NETWORKS_MAX, text));
        }
        let name = valid_name(&wish.name)?;
        if wish.made_openly {
            self.may_make_openly(&mut made)?;
        }
        // Clients make workspaces of one name again and again: their names are no aliases, and may repeat.
        if !wish.token_manages && self.network(name).is_some() {
            return Err(Fault::new(
                ErrorCode::AlreadyExists,
                format!("a network with the name {name:?} exists: choose another"),
            ));
        }
        if wish.durability == Durability::Memory && wish.delivery != Delivery::AtMostOnce {
            return Err(Fault::new(ErrorCode::InvalidArgument, "durability memory needs delivery at-most-once, because nothing survives a crash: set both, or choose durability os or sync")
                .field("durability"));
        }
        let internal = |_| Fault::from(ErrorCode::Internal);
        let id = self.free_id().map_err(internal)?;
        let token = match wish.policy {
            Policy::Open => wish.token.clone(),
            Policy::Token | Policy::Invite | Policy::DidVerify => match wish.token.clone() {
                Some(token) => Some(token),
                None => Some(self.inner.host.secret().map_err(internal)?),
            },
        };
        let created = self.created(&wish, name, &id).map_err(internal)?;
        let mut engine = State::created(&created, self.inner.host.seed())
            .map(Engine::new)
            .ok_or_else(|| Fault::from(ErrorCode::Internal))?;
        let now = NetworkClock::resume(self.inner.host.clock(), engine.state.monotonic()).now();
        let mut fx = rialto_engine::Effects::default();
        let mut records = vec![Record::from(created)];
        let mut act = |engine: &mut Engine, op: AdminOp| -> Result<(), Fault> {
            engine.admin(&op, now, &mut fx)?;
            for record in fx.take_records() {
                engine.apply(&record);
                records.push(record);
            }
            Ok(())
        };
        act(&mut engine, AdminOp::CreateChannel("general".to_owned()))?;
        if let Some(token) = &token {
            act(&mut engine, AdminOp::AddToken(Token::whole("first", token.sha256(), now.wall)))?;
        }
        if engine.state.is_behind_its_profile() {
            // The content is on the disk before the record that names it.
            let skill = profile::skill(&self.inner.blobs, engine.state.book.number).await?;
            act(&mut engine, AdminOp::ReviseProfile { skill, mods_chosen: wish.mods.is_some() })?;
        }
        let class = if wish.keep_for_ever { Class::EVER } else { Class::STD };
        let lsn = self.append(engine.state.book.number, class, &records).await?;
        Ok((self.start(engine, class, lsn, None), token))
    }

    fn created(&self, wish: &CreateNetwork, name: &str, id: &str) -> Result<Change, rialto_identity::NoEntropy> {
        let number = u32::try_from(self.inner.next_number.fetch_add(1, Ordering::SeqCst)).unwrap_or(u32::MAX);
        let chance = self.inner.host.secret()?.sha256();
        let ([a, b, ..], id_key) = (chance, chance.last_chunk().copied());
        let settings = Settings {
            policy: wish.policy,
            delivery: wish.delivery,
            durability: wish.durability,
            min_verification: wish.min_verification.min(3),
            keep_for_ever: wish.keep_for_ever,
            token_manages: wish.token_manages,
            made_openly: wish.made_openly,
            ..Settings::preset(name, wish.profile)
        };
        let usual: &[&str] = match wish.profile {
            Preset::Workspace => &WORKSPACE_MODS,
            Preset::Plain => &PLAIN_MODS,
        };
        let chosen = wish.mods.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let names: Vec<&str> = chosen.unwrap_or_else(|| usual.to_vec());
        let mut list: Vec<ModConfig> = names.iter().filter_map(|n| ModConfig::standard(n).ok()).collect();
        if let (Some(days), Some(history)) =
            (wish.keep_days, list.iter_mut().find(|m| m.name.as_ref() == "persistence"))
        {
            history.config.insert("retention_days".to_owned(), days.into());
        }
        mods::sort(&mut list);
        let created_at = self.inner.host.clock().now().wall;
        Ok(Change::Created {
            id: id.to_owned(),
            number,
            salt: u16::from_le_bytes([a, b]),
            id_key,
            created_at,
            created_by: wish.created_by.clone(),
            settings,
            mods: list,
        })
    }

    fn free_id(&self) -> Result<String, rialto_identity::NoEntropy> {
        loop {
            let [a, b, c, d, ..] = self.inner.host.secret()?.sha256();
            let id = format!("{a:02x}{b:02x}{c:02x}{d:02x}");
            if self.network(&id).is_none() && NetworkId::parse(&id).is_ok() {
                return Ok(id);
            }
        }
    }

    /// Appends the first records of a network and waits for the flush.
    async fn append(&self, number: u32, class: Class, records: &[Record]) -> Result<u64, Fault> {
        let unavailable = |error: String| {
            tracing::error!(%error, "a network could not be made");
            Fault::new(
                ErrorCode::StorageUnavailable,
                "the disk refuses writes: try again later, or see the log of the node",
            )
        };
        let mut batch = Batch::new(number);
        let mut body = Vec::new();
        for record in records {
            body.clear();
            record.encode(&mut body);
            batch.push(KIND_CHANGE, VERSION, 0, 0, &body).map_err(|e| unavailable(e.to_string()))?;
        }
        let (tx, rx) = oneshot::channel();
        let done = Box::new(move |result: Result<rialto_store::Committed, StoreError>| {
            let _ = tx.send(result.map(|c| c.last_lsn));
        });
        self.inner
            .store
            .append(class, self.inner.epoch, Flush::Sync, batch, done)
            .map_err(|r| unavailable(r.error.to_string()))?;
        match rx.await {
            Ok(Ok(lsn)) => Ok(lsn),
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable("the log went away".to_owned())),
        }
    }

    /// A network by id or name. Names of networks whose token manages them, which clients make, are none to find them by.
    pub fn network(&self, name: &str) -> Option<Network> {
        let networks = self.inner.networks.read().unwrap_or_else(PoisonError::into_inner);
        networks
            .iter()
            .find(|n| n.id() == name)
            .or_else(|| {
                networks.iter().find(|n| Some(n.settings()).is_some_and(|s| !s.token_manages && s.name == name))
            })
            .cloned()
    }

    /// The first network: the one meant when none is named. If nothing of it can be read no other is meant in its place.
    pub fn default_network(&self) -> Option<Network> {
        let first = self.inner.networks.read().unwrap_or_else(PoisonError::into_inner).first().cloned()?;
        let lost = self.lost_networks();
        (!lost.iter().any(|lost| lost.number < first.number())).then_some(first)
    }

    /// The network one of whose tokens has this hash.
    pub fn network_by_token(&self, sha256: &[u8; 32]) -> Option<Network> {
        self.inner.networks.read().unwrap_or_else(PoisonError::into_inner).iter().find(|n| n.has_token(sha256)).cloned()
    }

    /// Bytes the store took when the node was opened.
    pub fn used_bytes_at_start(&self) -> u64 {
        self.inner.used_at_start
    }

    /// Says by which URL this node is reached, for those who are told where another network of it is.
    pub fn set_base_url(&self, url: &str) {
        self.inner.directory.set_base_url(url);
    }

    /// All networks, in order of making.
    pub fn networks(&self) -> Vec<Network> {
        self.inner.networks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this hash is of a credential that somebody here has given out: the operator's secret, a network's token or a session.
    pub fn knows(&self, sha256: &[u8; 32]) -> bool {
        let networks = self.inner.networks.read().unwrap_or_else(PoisonError::into_inner);
        self.is_operator(sha256) || networks.iter().any(|n| n.has_token(sha256) || n.has_session(sha256))
    }

    /// Whether this is the operator's secret.
    pub fn is_operator(&self, sha256: &[u8; 32]) -> bool {
        same(&self.inner.admin_sha256, sha256)
    }

    /// The operator's secret of this run.
    pub fn admin_secret(&self) -> &Secret {
        &self.inner.admin
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Content that resources name.
    pub fn blobs(&self) -> &Arc<Blobs> {
        &self.inner.blobs
    }

    /// What is held for clients that have not read it yet.
    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.inner.directory.accounts
    }

    /// The data directory.
    pub fn data(&self) -> Option<&PathBuf> {
        self.inner.data.as_ref()
    }

    /// Whether everything takes writes that can. Damaged networks do not count, as long as there are others: those run.
    pub fn is_ready(&self) -> bool {
        let networks = self.networks();
        let mut whole = networks.iter().filter(|network| network.damage().is_none()).peekable();
        let damaged = networks.iter().any(|network| network.damage().is_some()) || !self.lost_networks().is_empty();
        let some_run = whole.peek().is_some() || !damaged;
        !self.inner.stopping.load(Ordering::Acquire) && some_run && whole.all(Network::is_ready)
    }

    /// Time since the start.
    pub fn uptime(&self) -> std::time::Duration {
        self.inner.started.elapsed()
    }

    /// A new token, in clear this once, and what is to be added to a network.
    pub fn make_token(
        &self,
        label: Option<String>,
        role: Option<Role>,
        agent: Option<String>,
        expires_at: Option<u64>,
    ) -> Result<(Secret, Token), Fault> {
        let secret = self.inner.host.secret().map_err(|_| Fault::from(ErrorCode::Internal))?;
        let whole = self.token_of(&secret);
        let label = label.unwrap_or_else(|| whole.label.clone());
        Ok((secret, Token { label, role, agent, expires_at, ..whole }))
    }

    /// The token that somebody chose this secret for, as it is to be added to a network.
    pub fn token_of(&self, secret: &Secret) -> Token {
        let sha256 = secret.sha256();
        let [a, b, c, ..] = sha256;
        let label = format!("token-{a:02x}{b:02x}{c:02x}");
        Token::whole(&label, sha256, self.inner.host.clock().now().wall)
    }

    /// Stops: every network commits what waits and says goodbye, then the log closes.
    pub async fn stop(&self) {
        if self.inner.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        // A network that is being made is stopped with the others.
        let _no_more = self.inner.creating.lock().await;
        for network in self.networks() {
            network.stop().await;
        }
        self.inner.stop.cancel();
        let tasks: Vec<JoinHandle<()>> =
            std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            let _ = task.await;
        }
        let follower = self.inner.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(index) = self.inner.index.clone() {
            let closed = self.inner.host.blocking(move || {
                if let Some(follower) = follower {
                    follower.end();
                }
                index.close()
            });
            if let Ok(Err(error)) = closed.await {
                tracing::warn!(%error, "the search index did not close cleanly");
            }
        }
        let store = self.inner.store.clone();
        let closed = self.inner.host.blocking(move || store.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::error!(%error, "the store did not close cleanly");
        }
    }
}

/// A network's name as it is kept.
fn valid_name(name: &str) -> Result<&str, Fault> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > limits::NETWORK_NAME_CHARS_MAX || name.contains(char::is_control) {
        return Err(Fault::new(ErrorCode::InvalidArgument, "a network's name is 1 to 128 characters").field("name"));
    }
    Ok(name)
}

fn open_store(config: &NodeConfig) -> Result<Arc<dyn Store>, StoreError> {
    let Some(dir) = &config.data else { return Ok(Arc::new(MemoryStore::default())) };
    let mut options = LocalOptions { budget_bytes: config.budget_bytes, ..LocalOptions::default() };
    if let Some(floor) = config.free_floor_bytes {
        options.free_floor_bytes = floor;
    }
    Ok(Arc::new(LocalStore::open(dir, options)?))
}
