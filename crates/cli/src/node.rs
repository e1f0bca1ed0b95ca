//! Running a node: store, networks, listener, run file, and an orderly stop.

use crate::exit::CliError;
use crate::files;
use crate::heldlog::HeldLog;
use crate::place::{RunFile, RunNetwork};
use crate::render;
use crate::settings::Settings;
use rialto_carrier::state::listen_is_plain;
use rialto_carrier::{Face, FaceState, HttpService, ListenerSettings};
use rialto_model::ErrorCode;
use rialto_model::network::Preset;
use rialto_model::view::ModKind;
use rialto_node::identity::Secret;
use rialto_node::{AdminOp, Caller, CreateNetwork, Network, Node, NodeConfig, OpenError};
use rialto_openagents::OpenAgents;
use rialto_openagents::stdio::Spawned;
use rialto_operator::Operator;
use rialto_serve::modprocess::ModProcess;
use rialto_serve::{Listener, tls};
use rialto_store::StoreError;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Streams have said goodbye after this long, or never will.
const GOODBYES_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

/// What the command line tells of a started node.
#[derive(Debug)]
pub(crate) struct NodeSummary {
    /// The address it really listens on.
    pub(crate) listen: SocketAddr,
    /// The URL for commands and for the screen.
    pub(crate) url: String,
    /// The default network.
    pub(crate) network: RunNetwork,
    /// Nobody needs a token.
    pub(crate) open: bool,
    /// This run's secret for the command line.
    pub(crate) admin_secret: rialto_client::Secret,
    /// The network token, if it was made just now.
    pub(crate) fresh_token: Option<rialto_client::Secret>,
    /// Opens the browser as the operator, once.
    pub(crate) browser_link: Option<String>,
    /// The listener is reached from outside and does not encrypt.
    pub(crate) plain: bool,
}

/// A started node.
#[derive(Debug)]
pub(crate) struct RunningNode {
    pub(crate) about: NodeSummary,
    node: Node,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    agents: TaskTracker,
    streams: TaskTracker,
    signals: Signals,
}

/// Starts the log. Lines are held back until the start screen is shown, or the start has failed.
pub(crate) fn log_to_stderr(settings: &Settings) -> HeldLog {
    let level: tracing::Level = settings.log.level.parse().unwrap_or(tracing::Level::INFO);
    let held = HeldLog::default();
    let writer = held.clone();
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(move || writer.line());
    // A second subscriber in one process (tests) is refused; the first one stays.
    let _ = if settings.log.json { builder.json().try_init() } else { builder.with_ansi(false).try_init() };
    held
}

impl RunningNode {
    /// Opens the data directory, binds the listener and starts serving.
    ///
    /// A data directory held by another node is `CliError::conflict`, a port in use `CliError::unavailable`.
    pub(crate) async fn start(settings: &Settings) -> Result<RunningNode, CliError> {
        let acceptor = match (&settings.server.tls_cert, &settings.server.tls_key) {
            (Some(cert), Some(key)) => {
                Some(tls::Acceptor::from_pem(cert, key).map_err(|e| CliError::usage(e.to_string()))?)
            }
            _ => None,
        };
        // What cannot be trusted as told is said now, not at the first fetch.
        settings.outbound.client()?;
        crate::place::private_dir(&settings.store.data)?;
        let node = Node::open(NodeConfig {
            data: Some(settings.store.data.clone()),
            free_floor_bytes: Some(settings.store.free_space_floor_bytes),
            budget_bytes: Some(settings.store.disk_budget_bytes).filter(|b| *b > 0),
            no_search: !settings.search.enabled,
        })
        .await
        .map_err(|e| open_error(settings, e))?;
        let (network, made) = default_network(&node, settings).await?;
        // Open is what this run is, not what is stored.
        if settings.network.open {
            network.open_for_this_run();
        } else {
            node.refuse_strangers();
        }
        if network.damage().is_none() {
            set_mods(&network, settings).await?;
        }
        let tls = acceptor.is_some();
        let connections_max = files::connections(settings.limits.connections_max);
        let listener = Listener::bind(settings.server.listen, acceptor, connections_max).await.map_err(|e| {
            let message = format!("cannot listen on {}: {e}", settings.server.listen);
            CliError::unavailable(message).next("choose another with --listen")
        })?;
        let listen = listener.local_addr().map_err(|e| CliError::internal(e.to_string()))?;
        let scheme = if tls { "https" } else { "http" };
        let url = settings.server.public_url.clone().unwrap_or_else(|| format!("{scheme}://{listen}"));
        node.set_base_url(&url);
        let stop = CancellationToken::new();
        let listener_settings = ListenerSettings {
            public_url: settings.server.public_url.clone(),
            allowed_origins: settings.server.allowed_origins.clone(),
            allowed_hosts: settings.server.allowed_hosts.clone(),
            open_creation: settings.workspaces.open_creation,
            trusted_proxies: settings.server.trusted_proxies.clone(),
            tls,
            listen: listen.to_string(),
        };
        let state = FaceState::new(node.clone(), listener_settings, stop.clone());
        let streams = state.streams.clone();
        let operator = Operator::new(state.clone());
        let browser_link = operator.browser_link(&url);
        let faces: Vec<Box<dyn Face>> = vec![Box::new(OpenAgents::new(state.clone())), Box::new(operator)];
        let serving = tokio::spawn(listener.serve(HttpService::new(state, faces), stop.clone()));
        let agents = start_agents(&node, &network, settings, &stop)?;
        start_mods(&network, settings, &stop, &agents);
        let now = network.settings();
        let fresh_token = made.filter(|_| settings.network.token.is_none() && !network.is_open());
        let about = NodeSummary {
            listen,
            url,
            network: RunNetwork { id: network.id().to_owned(), name: now.name },
            open: network.is_open(),
            admin_secret: node.admin_secret().expose().into(),
            fresh_token: fresh_token.map(|t| t.expose().into()),
            browser_link,
            plain: listen_is_plain(&listen.to_string(), tls),
        };
        if about.plain {
            tracing::warn!(%listen, "others reach this node without TLS: tokens and mail can be read on the way");
        }
        // Before anybody is told that the node is up: from then on it may be told to stop.
        let signals =
            Signals::new().map_err(|e| CliError::internal(format!("signal handlers cannot be set up: {e}")))?;
        Ok(RunningNode { about, node, stop, serving, agents, streams, signals })
    }

    /// Serves until SIGINT or SIGTERM, then closes in order.
    pub(crate) async fn until_stopped(mut self) -> Result<(), CliError> {
        self.signals.next().await;
        tracing::info!("stopping");
        // Networks say goodbye first, so that streams hear `shutting_down` before their carrier closes.
        self.node.stop().await;
        self.stop.cancel();
        self.agents.close();
        self.agents.wait().await;
        self.streams.close();
        let _ = tokio::time::timeout(GOODBYES_WITHIN, self.streams.wait()).await;
        self.serving.await.map_err(|e| CliError::internal(format!("the listener failed: {e}")))
    }
}

fn open_error(settings: &Settings, error: OpenError) -> CliError {
    let data = settings.store.data.display();
    match error {
        OpenError::Store(StoreError::Locked { holder, .. }) => {
            let who = match RunFile::read(&settings.store.data) {
                Ok(Some(run)) => format!("pid {}, {}", run.pid, run.url),
                _ => holder,
            };
            CliError::conflict(format!("{data} is in use by another node ({who})"))
                .next("use that node, stop it, or choose another --data")
        }
        OpenError::Store(error @ StoreError::NewerFormat { .. }) => {
            CliError::unavailable(error.to_string()).next("start it with the newer rialto")
        }
        OpenError::Store(error @ StoreError::ReadOnly { .. }) => {
            CliError::unavailable(error.to_string()).next("make it writable, or choose another --data")
        }
        error @ (OpenError::Store(_) | OpenError::Load(_) | OpenError::Entropy(_) | OpenError::Thread(_)) => {
            CliError::unavailable(format!("{data}: {error}")).next("`rialto verify` names what is damaged")
        }
    }
}

/// Brings the default network into the wished shape; gives its token if one was made now.
async fn default_network(node: &Node, settings: &Settings) -> Result<(Network, Option<Secret>), CliError> {
    let refused = |fault: rialto_model::Fault| CliError::unavailable(fault.to_string());
    let chosen = match &settings.network.token {
        None => None,
        Some(token) => Some(Secret::chosen_token(token.expose()).map_err(|e| CliError::usage(e.to_string()))?),
    };
    let lost = node.lost_networks();
    if !lost.is_empty() {
        tracing::error!("nothing of {} can be read: `rialto repair` says more", render::count(lost.len(), "network"));
    }
    let default = match node.default_network() {
        // It cannot be read: others are served, and none is made in its place.
        None if !lost.is_empty() => Some(node.networks().into_iter().next().ok_or_else(|| {
            let message = "no network of this node can be read";
            CliError::unavailable(message).next("`rialto repair` shows what is lost and goes on without it")
        })?),
        default => default,
    };
    let Some(network) = default else {
        let mut wish = CreateNetwork::named(&settings.network.name, Preset::Workspace);
        wish.token = chosen;
        let (network, token) = node.create_network(wish).await.map_err(refused)?;
        limit_members(&network, settings).await?;
        return Ok((network, token));
    };
    if let Some(damage) = network.damage() {
        tracing::error!(%damage, "the default network is damaged and read-only: its settings stay as they are");
        return Ok((network, None));
    }
    limit_members(&network, settings).await?;
    if let Some(token) = chosen.filter(|t| !network.has_token(&t.sha256())) {
        network.admin(AdminOp::AddToken(node.token_of(&token))).await.map_err(refused)?;
    }
    Ok((network, None))
}

/// Brings the mods of the default network to what the configuration says.
async fn set_mods(network: &Network, settings: &Settings) -> Result<(), CliError> {
    let refused = |fault: rialto_model::Fault| CliError::unavailable(format!("mods: {fault}"));
    for name in &settings.mods.load {
        let config = settings.mods.patch(name).apply(rialto_node::standard_mod(name).map_err(refused)?);
        match network.admin(AdminOp::LoadMod(config)).await {
            // Loaded already: below its settings are seen to.
            Err(fault) if fault.code == ErrorCode::AlreadyExists => {}
            answer => drop(answer.map_err(refused)?),
        }
    }
    for name in forgotten(network, settings).await {
        tracing::warn!(
            "mod/{name} ran as a process and the configuration no longer says how: `rialto mod unload {name}` takes it off"
        );
    }
    for process in &settings.mods.processes {
        network.admin(AdminOp::SetMod(process.config.clone())).await.map_err(refused)?;
    }
    for (name, patch) in &settings.mods.set {
        match network.admin(AdminOp::ChangeMod(name.clone(), patch.clone())).await {
            Err(fault) if fault.code == ErrorCode::ModNotFound => {
                tracing::warn!("mod.{name} is set, but the mod is not loaded: add it to mods.load");
            }
            answer => drop(answer.map_err(refused)?),
        }
    }
    Ok(())
}

/// Mods that ran as processes and have no command any more. They stay: a guard must not go by a line that is missing.
async fn forgotten(network: &Network, settings: &Settings) -> Vec<String> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let loaded = network.session(&operator).mods().await.map(|list| list.mods).unwrap_or_default();
    let known = |name: &str| settings.mods.processes.iter().any(|process| process.config.name.as_ref() == name);
    let processes = loaded.into_iter().filter(|one| one.kind == ModKind::Process);
    processes.map(|one| String::from(one.name)).filter(|name| !known(name)).collect()
}

/// Starts the mods that run as processes.
fn start_mods(network: &Network, settings: &Settings, stop: &CancellationToken, tasks: &TaskTracker) {
    for process in &settings.mods.processes {
        let running = ModProcess {
            name: process.config.name.to_string(),
            command: process.command.clone(),
            network: network.clone(),
        };
        tasks.spawn(running.run(stop.clone()));
    }
}

/// Starts the agents of the configuration.
fn start_agents(
    node: &Node,
    default: &Network,
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<tokio_util::task::TaskTracker, CliError> {
    let agents = tokio_util::task::TaskTracker::new();
    for agent in &settings.agents {
        let network = match &agent.network {
            None => default.clone(),
            Some(name) => node.network(name).ok_or_else(|| {
                CliError::usage(format!("agents.{}: there is no network {name:?}", agent.name))
                    .next("`rialto network list` shows them")
            })?,
        };
        let address = rialto_model::Address::parse(&agent.address).map_err(|e| CliError::usage(e.to_string()))?;
        let spawned = Spawned {
            name: agent.name.clone(),
            command: agent.command.clone(),
            address,
            network,
            restart: agent.restart,
        };
        agents.spawn(spawned.run(stop.clone()));
    }
    Ok(agents)
}

/// The configured bound holds for the default network.
async fn limit_members(network: &Network, settings: &Settings) -> Result<(), CliError> {
    let wanted = settings.limits.members_max;
    if network.settings().max_members != wanted {
        let change = AdminOp::Settings(serde_json::json!({ "max_members": wanted }));
        network.admin(change).await.map_err(|fault| CliError::unavailable(fault.to_string()))?;
    }
    Ok(())
}

/// What tells a running command to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
