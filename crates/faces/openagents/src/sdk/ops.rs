//! What agents of the SDK do: register, send, poll, go. HTTP and gRPC call the same functions.

use super::SdkState;
use super::map::{self, SdkFrame};
use super::wire::{
    SdkAgent, SdkEvent, SdkHealth, SdkMod, SdkNetwork, SdkPolled, SdkRegisterBody, SdkSent, SdkTransport, told,
};
use super::{commands, threads};
use crate::auth::unknown_network;
use axum::http::HeaderMap;
use rialto_carrier::handover::Handover;
use rialto_carrier::{credentials, unread};
use rialto_model::view::{MemberView, Presence};
use rialto_model::{Address, ErrorCode, EventType, Fault, NetworkId, hex, limits};
use rialto_node::identity::sha256;
use rialto_node::{Answered, Caller, Network, Query, RosterFilter, Session, View};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The group of who is in no other.
pub(super) const GUESTS: &str = "guest";
/// Where the registered address of an agent is said in a refusal.
const AGENT_ID: &str = "agent_id";

/// An agent that registered.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) network: Network,
    pub(super) secret: String,
}

/// An event that was taken.
#[derive(Debug, Default)]
pub(super) struct SdkTaken {
    pub(super) id: Option<String>,
    pub(super) data: Option<Value>,
    /// What the answer tells of was mail.
    pub(super) handover: Option<Handover>,
}

/// What came for an agent, and how it is known that it arrived.
#[derive(Debug)]
pub(super) struct SdkMail {
    pub(super) messages: Vec<Box<RawValue>>,
    pub(super) handover: Handover,
}

/// Emits one event and waits for what becomes of it.
pub(super) async fn emit(session: &Session, frame: &SdkFrame<'_>) -> Result<Answered, Fault> {
    let answers = session.emit(frame.text()?.into()).await?;
    answers.into_iter().next().ok_or_else(|| ErrorCode::Internal.into())
}

/// Emits an event of the network's own types to the network itself.
pub(super) async fn tell_core(session: &Session, kind: EventType<'_>, payload: &Value) -> Result<Answered, Fault> {
    let frame = json!({ "type": kind.as_str(), "target": "core", "payload": payload });
    let answers = session.emit(frame.to_string().into()).await?;
    answers.into_iter().next().ok_or_else(|| ErrorCode::Internal.into())
}

impl SdkState {
    /// The network of the dialect. Whoever must not learn of it hears that there is none.
    fn network(&self, caller: &Caller) -> Result<Network, Fault> {
        let network = self.face.node.default_network().filter(|network| !network.is_hidden_from(caller));
        network.ok_or_else(unknown_network)
    }

    /// The session of whoever shows this secret and says that it is this agent.
    pub(super) fn session(&self, name: &str, secret: Option<&str>) -> Result<Session, Fault> {
        let bearer = secret.filter(|secret| !secret.is_empty()).map(sha256);
        let caller = Caller { bearer, ..Caller::default() };
        let network = self.network(&caller)?;
        let claimed = if name.is_empty() { None } else { Some(address_in(&network, name)?) };
        Ok(network.session(&Arc::new(Caller { claimed, ..caller })))
    }

    /// The session of whoever calls by its headers alone: nobody, mostly.
    fn looker(&self, headers: &HeaderMap) -> Result<Session, Fault> {
        let bearer = credentials::bearer(headers)?;
        let operator = bearer.as_ref().is_some_and(|bearer| self.face.node.is_operator(bearer));
        let caller = Caller { operator, bearer: bearer.filter(|_| !operator), ..Caller::default() };
        Ok(self.network(&caller)?.session(&Arc::new(caller)))
    }

    /// Makes an agent a member. Who has been one before goes on as it; its old secret ends.
    pub(super) async fn register(&self, wish: &SdkRegisterBody) -> Result<Registered, Fault> {
        let password = wish.password_hash.as_deref().unwrap_or_default();
        let hash = hex::hash(&password.to_ascii_lowercase());
        let network = self.face.node.default_network().ok_or_else(unknown_network)?;
        let bearer = hash.filter(|hash| network.has_token(hash));
        let caller = Caller { bearer, ..Caller::default() };
        if network.is_hidden_from(&caller) {
            return Err(unknown_network());
        }
        if bearer.is_none() && !network.is_open() {
            return Err(if password.is_empty() {
                Fault::new(
                    ErrorCode::TokenRequired,
                    "this network takes a password: the SHA-256 of its token, in hexadecimal",
                )
            } else {
                Fault::new(ErrorCode::InvalidToken, "the password is not the SHA-256 of a token of this network")
            });
        }
        let address = address_in(&network, &wish.agent_id)?;
        let said = wish.metadata.as_ref();
        let text = |name: &str| said.and_then(|said| said.get(name)).and_then(Value::as_str);
        let capabilities = said.and_then(|said| said.get("capabilities")).filter(|list| list.is_array());
        let mut payload = json!({ "agent_id": address });
        if let Some(payload) = payload.as_object_mut() {
            payload.extend(text("description").map(|text| ("description".to_owned(), text.into())));
            payload.extend(text("agent_type").map(|text| ("agent_type".to_owned(), text.into())));
            payload.extend(capabilities.map(|list| ("capabilities".to_owned(), list.clone())));
        }
        let session = network.session(&Arc::new(Caller { claimed: Some(address), ..caller }));
        let answered = tell_core(&session, EventType::AgentJoin, &payload).await?;
        answered.result?;
        let secret = answered.session_id.as_deref().map(str::to_owned).ok_or(ErrorCode::Internal)?;
        Ok(Registered { network, secret })
    }

    /// An agent goes: nothing more is queued for it, and its subscriptions end.
    pub(super) async fn unregister(&self, name: &str, secret: Option<&str>) -> Result<(), Fault> {
        let session = self.session(name, secret)?;
        let me = session.me().await?;
        commands::forget_subscriptions(&session, &me.member.address).await?;
        tell_core(&session, EventType::AgentLeave, &json!({})).await?.result.map(drop)
    }

    /// Takes an event, or does what it asks for.
    pub(super) async fn take(&self, event: &SdkEvent, place: Option<&str>) -> Result<SdkTaken, Fault> {
        let name = event.source_id.as_deref().unwrap_or_default();
        let session = self.session(name, event.secret.as_deref())?;
        if let Some(command) = event.event_name.strip_prefix("system.") {
            return self.command(&session, command, event, place).await;
        }
        if let Some(word) = event.event_name.strip_prefix("thread.")
            && let Some(taken) = threads::take(&session, word, event).await?
        {
            return Ok(taken);
        }
        taken(&session, emit(&session, &event.plain_frame()?).await?).await
    }

    /// What is answered to an event, whatever became of it.
    pub(super) async fn sent(&self, event: &SdkEvent, place: Option<&str>) -> (SdkSent, Option<Handover>) {
        let event_name = event.event_name.clone();
        let event_id = event.id().map(str::to_owned);
        match self.take(event, place).await {
            Ok(SdkTaken { id, data, handover }) => {
                let message = format!("{event_name} was taken");
                (SdkSent { success: true, message, event_id: id.or(event_id), data, event_name }, handover)
            }
            Err(fault) => {
                // The same for programs: whether it may go well another time is among it.
                let data = Some(json!({ "error": fault.payload(event_id.as_deref()) }));
                (SdkSent { success: false, message: told(&fault), event_id, data, event_name }, None)
            }
        }
    }

    /// Gives an agent what came for it, and acks what the poll before gave it.
    pub(super) async fn mail(&self, session: &Session) -> Result<SdkMail, Fault> {
        let hash = session.caller().bearer.ok_or_else(|| {
            Fault::new(ErrorCode::Unauthenticated, "mail belongs to a member: show the secret that registering gave")
        })?;
        let arrived = self.polls.arrived(&hash);
        if !arrived.is_empty() {
            session.ack_seqs(arrived).await?;
        }
        let me = session.me().await?;
        let subscriptions = commands::subscriptions(session, &me.member.address).await?;
        let limit = i64::try_from(limits::SDK_POLL_EVENTS_MAX).ok();
        let query = Query { view: Some(View::Inbox), limit, ..Query::default() };
        let page = unread::page(session.query(&query)).await?;
        let mut messages = Vec::with_capacity(page.events.len());
        for record in &page.events {
            let message = map::outward(&record.event, me.member.name())?;
            if subscriptions.is_empty() || subscriptions.iter().any(|s| s.wants(&record.event, &message)) {
                messages.push(message);
            }
        }
        let seqs = if page.tracked { page.events.iter().map(|record| record.event.seq).collect() } else { Vec::new() };
        Ok(SdkMail { messages, handover: self.polls.note(hash, seqs) })
    }

    /// The answer to a poll over HTTP, whatever became of it.
    pub(super) async fn polled(&self, name: &str, secret: Option<&str>) -> (SdkPolled, Option<Handover>) {
        let mail = match self.session(name, secret) {
            Ok(session) => self.mail(&session).await,
            Err(fault) => Err(fault),
        };
        let agent_id = name.to_owned();
        match mail {
            Ok(SdkMail { messages, handover }) => {
                (SdkPolled { success: true, messages, agent_id, error_message: None }, Some(handover))
            }
            Err(fault) => {
                let error_message = Some(told(&fault));
                (SdkPolled { success: false, messages: Vec::new(), agent_id, error_message }, None)
            }
        }
    }

    /// The members that whoever shows these headers may know of; nobody where it may not know.
    pub(super) async fn agents(&self, headers: &HeaderMap) -> Result<Vec<SdkAgent>, Fault> {
        Ok(self.looker(headers)?.members().await?.iter().filter_map(agent).collect())
    }

    /// A sign of life of the member that these headers show.
    pub(super) async fn alive(&self, headers: &HeaderMap) -> Result<(), Fault> {
        self.looker(headers)?.heartbeat().await.map(drop)
    }

    /// What anybody may know of the network, and what this caller may know besides.
    pub(super) async fn health(&self, headers: &HeaderMap) -> Result<SdkHealth, Fault> {
        let session = self.looker(headers)?;
        let network = session.network();
        let profile = session.profile().await?;
        let filter =
            RosterFilter { include: Some(vec!["agents".to_owned(), "mods".to_owned()]), ..RosterFilter::default() };
        let roster = session.discover(filter).await.unwrap_or_default();
        let agents = roster.agents.unwrap_or_default();
        let agents: Map<String, Value> =
            agents.iter().filter_map(agent).map(|agent| (agent.agent_id.clone(), json!(agent))).collect();
        let mods = roster.mods.unwrap_or_default();
        let mods = mods.iter().map(|address| SdkMod {
            name: address.trim_start_matches("mod/").to_owned(),
            enabled: true,
            config: Map::new(),
        });
        let settings = network.settings();
        let data = SdkNetwork {
            network_id: network.id().to_owned(),
            network_uuid: network.id().to_owned(),
            network_name: settings.name,
            initialized: true,
            is_running: network.is_ready(),
            uptime_seconds: self.face.node.uptime().as_secs(),
            agent_count: profile.agents_online,
            agents,
            groups: Map::new(),
            group_config: Map::new(),
            default_agent_group: GUESTS,
            requires_password: !network.is_open(),
            mods: mods.collect(),
            topology_mode: "centralized",
            transports: self.transports(headers),
            manifest_transport: "http",
            recommended_transport: "grpc",
            max_connections: settings.max_members,
            readme: profile.description.clone(),
        };
        Ok(SdkHealth { success: true, status: "healthy", data })
    }

    /// The host is left out where the node has no public URL: the SDK would prefer it to the one that it was given.
    fn transports(&self, headers: &HeaderMap) -> Vec<SdkTransport> {
        let base = self.face.base_url(headers);
        let (scheme, rest) = base.split_once("://").unwrap_or(("http", &base));
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                (host, port.parse().ok())
            }
            _ => (authority, None),
        };
        let port: u16 = port.unwrap_or(if scheme == "https" { 443 } else { 80 });
        let mut config = Map::new();
        if self.face.settings.public_url.is_some() {
            config.insert("host".into(), host.into());
        }
        config.insert("port".into(), port.into());
        ["http", "grpc"].into_iter().map(|kind| SdkTransport { kind, config: config.clone() }).collect()
    }
}

/// The canonical address of an agent's name.
fn address_in(network: &Network, name: &str) -> Result<Box<str>, Fault> {
    let text = map::agent(name);
    let own = NetworkId::parse(network.id()).map_err(|_| unknown_network())?;
    match Address::parse_in(&text, &own) {
        Ok(address) => Ok(address.as_str().into()),
        Err(error) => Err(Fault::new(ErrorCode::InvalidAddress, format!("{name:?}: {error}")).field(AGENT_ID)),
    }
}

/// An agent of the roster, as the SDK has it; nothing of a person.
pub(super) fn agent(member: &MemberView) -> Option<SdkAgent> {
    if member.address.starts_with("human:") {
        return None;
    }
    Some(SdkAgent {
        agent_id: map::shown(&member.address),
        capabilities: member.profile.capabilities.clone(),
        last_seen: last_seen(member),
        transport_type: "http",
        address: member.address.to_string(),
        description: member.profile.description.clone(),
    })
}

fn last_seen(member: &MemberView) -> u64 {
    let now = || crate::wire::now_ms();
    let at = if member.status == Presence::Online { now() } else { member.last_seen_at.unwrap_or(member.joined_at) };
    at / 1000
}

/// What became of an event, in the words of the dialect.
async fn taken(session: &Session, answered: Answered) -> Result<SdkTaken, Fault> {
    let accepted = answered.result?;
    let id = Some(accepted.event_id().to_owned()).filter(|id| !id.is_empty());
    let data = match (&answered.query, &accepted.response) {
        (Some(query), _) => {
            let page = unread::page(session.query(query)).await?;
            serde_json::from_str(&crate::wire::page_json(&page, false)).ok()
        }
        (None, Some(response)) => serde_json::from_str(response.payload()).ok(),
        (None, None) => match accepted.result {
            Some(result) => Some(*result),
            None => accepted.seq.map(|seq| json!({ "seq": seq, "duplicate": accepted.duplicate })),
        },
    };
    Ok(SdkTaken { id, data, handover: None })
}
