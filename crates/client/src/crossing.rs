//! Sending to `{network}::{entity}`: finding the other network, joining it as ourselves, and sending there with a local address
//! (sheet section 11.4). The sender crosses, never the network.
//!
//! Invariants: what another party said (a refusal, a DID, a well-known file) is followed through the guarded client only;
//! a credential goes to the place it was configured for, or to a host that proved the network's own name, and nowhere else.
//! Not here: where the settings come from.

use crate::endpoint::Endpoint;
use crate::error::{ApiError, ClientError};
use crate::event::Draft;
use crate::http::{Emitted, Http, refused};
use crate::join::JoinOptions;
use crate::secret::Secret;
use rialto_model::{Address, ErrorCode};
use rialto_outbound::{Fetch, Outbound};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A session in another network is kept for this long after it was last used.
const SESSION_IDLE: Duration = Duration::from_secs(5 * 60);
/// Networks with a session at a time; the one that rested longest makes room.
const SESSIONS_MAX: usize = 64;

/// A network that was configured.
#[derive(Debug, Clone)]
pub struct KnownNetwork {
    /// Its node, or its own endpoint.
    pub url: String,
    /// What it admits us by.
    pub credential: Option<Secret>,
}

/// Where a DID document says that its subject is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkService {
    /// The network's id.
    pub network: String,
    /// The subject's address there.
    pub address: Option<String>,
    /// An endpoint, or the URL of a profile.
    pub transport: String,
}

/// Looks up the networks that the subject of a DID says it is in.
pub trait DidServices: Send + Sync {
    /// Its services of type `OpenAgentsNetwork`.
    fn services<'a>(
        &'a self,
        did: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<NetworkService>, ClientError>> + Send + 'a>>;
}

/// How a network was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// It was configured.
    Map,
    /// The entity's DID document names it.
    Did,
    /// Our own network's refusal said where it is.
    Hint,
    /// Its id is the name of a host that answers for it.
    WellKnown,
}

/// Where a network is.
#[derive(Debug, Clone)]
pub struct FoundNetwork {
    /// Its id, as its profile says it.
    pub id: String,
    /// The endpoint that was chosen from its transports.
    pub endpoint: String,
    /// How it was found.
    pub by: FoundBy,
    http: Http,
    credential: Option<Secret>,
}

/// A client that crosses networks.
#[derive(Clone)]
pub struct Crossing {
    outbound: Outbound,
    known: BTreeMap<String, KnownNetwork>,
    dids: Option<Arc<dyn DidServices>>,
    home: Option<Http>,
    /// Shown to a host that proves the network's own name.
    credential: Option<Secret>,
    sessions: Arc<Mutex<BTreeMap<String, CrossingSession>>>,
}

struct CrossingSession {
    http: Http,
    used: Instant,
}

impl std::fmt::Debug for Crossing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crossing").field("known", &self.known.keys()).finish_non_exhaustive()
    }
}

/// What a profile says of itself, as far as we need it.
#[derive(Deserialize)]
struct FoundProfile {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    transports: Vec<FoundTransport>,
}

#[derive(Deserialize)]
struct FoundTransport {
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "url")]
    endpoint: String,
}

#[derive(Deserialize)]
struct WellKnownFile {
    #[serde(default)]
    networks: Vec<WellKnownNetwork>,
}

#[derive(Deserialize)]
struct WellKnownNetwork {
    id: String,
    #[serde(default)]
    name: String,
    profile: String,
}

/// An answer in the wrapper of our calls, or bare as others give it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wrapped<T> {
    Wrapped { data: T },
    Bare(T),
}

impl Crossing {
    /// A client that finds networks through this guarded client.
    pub fn new(outbound: Outbound) -> Crossing {
        let sessions = Arc::default();
        Crossing { outbound, known: BTreeMap::new(), dids: None, home: None, credential: None, sessions }
    }

    /// The same client knowing where this network is.
    pub fn with_known(mut self, network: impl Into<String>, known: KnownNetwork) -> Crossing {
        self.known.insert(network.into(), known);
        self
    }

    /// The same client asking DID documents.
    pub fn with_dids(mut self, dids: Arc<dyn DidServices>) -> Crossing {
        self.dids = Some(dids);
        self
    }

    /// The same client at home on this node: networks on it are reached as the node itself is, with the credential of this client.
    pub fn with_home(mut self, home: Http) -> Crossing {
        self.home = Some(home);
        self
    }

    /// The same client with a credential for networks whose host proves their name.
    pub fn with_credential(mut self, credential: Option<Secret>) -> Crossing {
        self.credential = credential;
        self
    }

    /// Finds a network: as configured, by the DID of the entity, by the hint of a refusal, by its well-known file, in this order.
    pub async fn find(&self, target: &Address, hint: Option<&str>) -> Result<FoundNetwork, ClientError> {
        let Some(network) = target.network() else {
            let text = format!("{target} names no network");
            return Err(ApiError::of(ErrorCode::InvalidAddress, text).into());
        };
        // What was configured is meant: nothing else is asked when it fails.
        if let Some(known) = self.known.get(network) {
            return self.configured(network, known).await;
        }
        let mut last = None;
        match self.by_did(network, target).await {
            Some(Ok(found)) => return Ok(found),
            Some(Err(error)) => last = Some(error),
            None => {}
        }
        if let Some(url) = hint {
            match self.by_profile(network, url, FoundBy::Hint).await {
                Ok(found) => return Ok(found),
                Err(error) => last = Some(error),
            }
        }
        if network.contains('.') {
            match self.by_well_known(network).await {
                Ok(found) => return Ok(found),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| {
            let text = format!(
                "nobody says where the network {network} is: configure it, or use an id that is the name of its host"
            );
            ApiError::of(ErrorCode::NetworkNotFound, text).into()
        }))
    }

    /// Sends an event to an entity of another network, joining there first unless we are there already.
    pub async fn send(
        &self,
        target: &Address,
        hint: Option<&str>,
        draft: &Draft,
        options: &JoinOptions,
        wait: Option<Duration>,
    ) -> Result<Emitted, ClientError> {
        let network = target.network().unwrap_or_default().to_owned();
        let draft = Draft { target: target.entity_text().to_owned(), ..draft.clone() };
        let key = format!("{network} {}", options.address);
        if let Some(http) = self.kept(&key) {
            match http.emit(&draft, wait).await {
                Err(error) if is_over(&error) => self.forget(&key),
                answered => return answered,
            }
        }
        let found = self.find(target, hint).await?;
        let http = found.join(options).await?;
        let answered = http.emit(&draft, wait).await;
        if answered.is_ok() {
            self.keep(key, http);
        }
        answered
    }

    async fn configured(&self, network: &str, known: &KnownNetwork) -> Result<FoundNetwork, ClientError> {
        let http = Http::new(&known.url)?;
        // The URL of a node leaves open which of its networks is meant: the one that is called so there.
        let http = if http.network().is_none() { http.with_network(Some(network.to_owned())) } else { http };
        let profile: FoundProfile = read_value(http.profile().await?)?;
        let at_home = http.endpoint().base();
        let http = http.with_network(Some(profile.id.clone()));
        Ok(FoundNetwork {
            id: profile.id,
            endpoint: at_home,
            by: FoundBy::Map,
            http,
            credential: known.credential.clone(),
        })
    }

    async fn by_did(&self, network: &str, target: &Address) -> Option<Result<FoundNetwork, ClientError>> {
        let did = Address::parse(target.entity_text()).ok()?.to_did().ok()?;
        let services = match self.dids.as_ref()?.services(&did).await {
            Ok(services) => services,
            Err(error) => return Some(Err(error)),
        };
        let service = services.into_iter().find(|service| service.network == network)?;
        Some(self.by_profile(network, &profile_of(&service.transport), FoundBy::Did).await)
    }

    async fn by_well_known(&self, network: &str) -> Result<FoundNetwork, ClientError> {
        self.by_file(network, &format!("https://{network}/.well-known/openagents.json")).await
    }

    async fn by_file(&self, network: &str, url: &str) -> Result<FoundNetwork, ClientError> {
        let file: WellKnownFile = self.fetch(url).await?;
        let mut named = file.networks.iter().filter(|one| one.id == network || one.name == network);
        let found = match (named.next(), file.networks.as_slice()) {
            (Some(found), _) => found,
            (None, [only]) => only,
            (None, _) => {
                let text = format!("the node at {network} lists no network of that name");
                return Err(ApiError::of(ErrorCode::NetworkNotFound, text).into());
            }
        };
        let mut reached = self.by_profile(&found.id, &found.profile, FoundBy::WellKnown).await?;
        // TLS has proved the host's name, which is the network's: what is kept for it may be shown there, and only there.
        let host = Endpoint::parse(&reached.endpoint)?;
        if host.is_tls() && host.host() == network {
            reached.credential.clone_from(&self.credential);
        }
        Ok(reached)
    }

    async fn by_profile(&self, network: &str, url: &str, by: FoundBy) -> Result<FoundNetwork, ClientError> {
        let endpoint = Endpoint::parse(url.split(['?', '#']).next().unwrap_or_default())?;
        let home = self.home.as_ref().filter(|home| home.endpoint().same_host(&endpoint));
        let profile: FoundProfile = match home {
            Some(home) => read_wrapped(&home.get_url(url).await?)?,
            None => self.fetch(url).await?,
        };
        if profile.id != network && profile.name != network {
            let text = format!("what says that it is {network} calls itself {}", profile.id);
            return Err(ApiError::of(ErrorCode::NetworkNotFound, text).into());
        }
        let chosen = choose(&profile.transports).ok_or_else(|| {
            let listed: Vec<&str> = profile.transports.iter().map(|transport| transport.kind.as_str()).collect();
            ClientError::Protocol(format!("{network} offers {}, and this client crosses over http", listed.join(", ")))
        })?;
        let endpoint = Endpoint::parse(chosen)?;
        let (http, credential) = match self.home.as_ref().filter(|home| home.endpoint().same_host(&endpoint)) {
            Some(home) => (Http::new(&endpoint.base())?, home.bearer().cloned()),
            None => (Http::guarded(&endpoint.base(), &self.outbound)?, None),
        };
        let http = http.with_network(Some(profile.id.clone()));
        Ok(FoundNetwork { id: profile.id, endpoint: endpoint.base(), by, http, credential })
    }

    async fn fetch<T: DeserializeOwned>(&self, url: &str) -> Result<T, ClientError> {
        let plain = || url.split(['?', '#']).next().unwrap_or_default().to_owned();
        let call = Fetch::get(url).with_header("accept", "application/json");
        let call = call.map_err(|error| ClientError::Protocol(error.to_string()))?;
        let answer = match self.outbound.fetch(call).await {
            Ok(answer) => answer,
            Err(error) => match Endpoint::parse(&plain()) {
                Ok(endpoint) => return Err(refused(&endpoint, &error)),
                Err(bad) => return Err(bad),
            },
        };
        if !answer.is_success() {
            return Err(ApiError::from_http(answer.status, &answer.body).into());
        }
        read_wrapped(&answer.body)
    }

    fn kept(&self, key: &str) -> Option<Http> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.used.elapsed() < SESSION_IDLE);
        let session = sessions.get_mut(key)?;
        session.used = Instant::now();
        Some(session.http.clone())
    }

    fn keep(&self, key: String, http: Http) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        while sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used).map(|(key, _)| key.clone());
            if oldest.is_none_or(|oldest| sessions.remove(&oldest).is_none()) {
                break;
            }
        }
        sessions.insert(key, CrossingSession { http, used: Instant::now() });
    }

    fn forget(&self, key: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl FoundNetwork {
    /// Joins as these options say, with what the network admits us by.
    pub async fn join(&self, options: &JoinOptions) -> Result<Http, ClientError> {
        let door = match &self.credential {
            Some(credential) => self.http.clone().with_bearer(credential.expose()),
            None => self.http.clone(),
        };
        let joined = door.join(options).await?;
        Ok(self.http.clone().with_bearer(joined.session_id.expose()))
    }

    /// The network's HTTP door, without a credential.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// Whether there is a credential for it.
    pub fn has_credential(&self) -> bool {
        self.credential.is_some()
    }
}

/// The first transport we cross over. A network that can be sent to by one call needs no conversation for it.
fn choose(transports: &[FoundTransport]) -> Option<&str> {
    let http = transports.iter().find(|transport| transport.kind == "http");
    http.map(|transport| transport.endpoint.as_str())
}

/// The profile that belongs to an endpoint of a DID service.
fn profile_of(transport: &str) -> String {
    let web = match transport.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(_) | None => transport.to_owned(),
    };
    if web.ends_with("/profile") {
        return web;
    }
    match Endpoint::parse(&web).ok().and_then(|endpoint| Some((endpoint.base(), endpoint.network()?.to_owned()))) {
        Some((base, network)) => format!("{base}/v1/ws/{network}/profile"),
        None => web,
    }
}

fn read_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, ClientError> {
    serde_json::from_value(value).map_err(|error| ClientError::Protocol(format!("no profile: {error}")))
}

fn read_wrapped<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    match serde_json::from_slice::<Wrapped<T>>(body) {
        Ok(Wrapped::Wrapped { data } | Wrapped::Bare(data)) => Ok(data),
        Err(error) => Err(ClientError::Protocol(format!("no profile: {error}"))),
    }
}

fn is_over(error: &ClientError) -> bool {
    matches!(error, ClientError::Api(api) if api.status == 401 || api.known() == Some(ErrorCode::NotAMember))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::HttpServer;
    use rialto_outbound::OutboundSettings;
    use serde_json::json;

    fn outbound(private: bool) -> Outbound {
        Outbound::new(&OutboundSettings { allow_private_hosts: private, ..OutboundSettings::default() }).unwrap()
    }

    fn crossing() -> Crossing {
        Crossing::new(outbound(true))
    }

    fn to(address: &str) -> Address {
        Address::parse(address).unwrap()
    }

    fn ok(data: serde_json::Value) -> (u16, String) {
        (200, json!({ "code": 0, "message": "ok", "data": data }).to_string())
    }

    fn profile(id: &str, endpoint: &str) -> (u16, String) {
        let transports = json!([
            { "type": "grpc", "endpoint": "grpc://x:1" }, { "type": "websocket", "endpoint": "ws://x/ws/n" },
            { "type": "http", "endpoint": endpoint },
        ]);
        ok(json!({ "id": id, "name": "beta", "transports": transports }))
    }

    fn joined() -> (u16, String) {
        ok(json!({ "network_id": "b1", "address": "agent:ana", "session_id": "S", "role": "member" }))
    }

    fn sent() -> (u16, String) {
        ok(json!({ "id": "e1", "duplicate": false }))
    }

    /// The server that the profile names, and where the profile itself is.
    async fn beta(more: Vec<(u16, String)>) -> (HttpServer, HttpServer) {
        let node = HttpServer::answering(more).await;
        let found = HttpServer::answering(vec![profile("b1", &format!("{}/v1/ws/b1", node.url))]).await;
        (node, found)
    }

    async fn cross(crossing: &Crossing, target: &str, hint: Option<&str>) -> Result<Emitted, ClientError> {
        let draft = Draft::message(target, "hi");
        crossing.send(&to(target), hint, &draft, &JoinOptions::new("agent:ana"), None).await
    }

    #[tokio::test]
    async fn a_hint_is_followed_joined_and_sent_to_once_joined() {
        let (node, found) = beta(vec![joined(), sent(), sent()]).await;
        let crossing = crossing();
        let hint = format!("{}/v1/ws/b1/profile", found.url);
        cross(&crossing, "b1::agent:bob", Some(&hint)).await.unwrap();
        cross(&crossing, "b1::channel/general", None).await.unwrap();
        let asked = node.requests().await;
        assert!(asked[0].starts_with("POST /v1/ws/b1/join ") && !asked[0].contains("authorization"), "{}", asked[0]);
        assert!(asked[1].contains(r#""target":"agent:bob""#) && asked[1].contains("Bearer S"), "{}", asked[1]);
        assert!(asked[2].contains(r#""target":"channel/general""#), "the session is kept: {}", asked[2]);
    }

    #[tokio::test]
    async fn a_configured_network_is_asked_and_nobody_else() {
        let node = HttpServer::answering(vec![profile("b1", "http://unused"), joined(), sent()]).await;
        let known = KnownNetwork { url: node.url.clone(), credential: Some("of-beta".into()) };
        let crossing = crossing().with_known("beta", known).with_credential(Some("another".into()));
        cross(&crossing, "beta::agent:bob", Some("http://127.0.0.1:1/v1/ws/b1/profile")).await.unwrap();
        let asked = node.requests().await;
        assert!(asked[0].starts_with("GET /v1/ws/beta/profile ") && !asked[0].contains("of-beta"), "{}", asked[0]);
        assert!(asked[1].contains("Bearer of-beta"), "{}", asked[1]);
        // What was configured and fails is not looked for elsewhere.
        drop(node);
        let error = cross(&crossing, "beta::agent:bob", None).await.err();
        assert!(error.is_some());
    }

    struct Said(NetworkService);

    impl DidServices for Said {
        fn services<'a>(
            &'a self,
            did: &'a str,
        ) -> Pin<Box<dyn Future<Output = Result<Vec<NetworkService>, ClientError>> + Send + 'a>> {
            let known = did == "did:openagents:bob";
            let found = if known { vec![self.0.clone()] } else { Vec::new() };
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    #[tokio::test]
    async fn the_did_of_the_entity_says_where_it_is() {
        let (node, found) = beta(vec![joined(), sent()]).await;
        let transport = format!("{}/v1/ws/b1", found.url);
        let service = NetworkService { network: "b1".to_owned(), address: None, transport };
        let crossing = crossing().with_dids(Arc::new(Said(service)));
        let found = crossing.find(&to("b1::openagents:bob"), None).await.unwrap();
        assert_eq!((found.by, found.endpoint.as_str()), (FoundBy::Did, node.url.as_str()));
        let nobody = crossing.find(&to("b1::openagents:eve"), None).await.unwrap_err();
        assert!(nobody.is(ErrorCode::NetworkNotFound), "{nobody}");
    }

    #[tokio::test]
    async fn a_well_known_file_leads_to_the_profile() {
        let (node, found) = beta(Vec::new()).await;
        let list = |id: &str, name: &str| json!({ "id": id, "name": name, "profile": format!("{}/v1/ws/b1/profile", found.url) });
        let file = json!({ "onm_version": "1.0", "networks": [list("zz", "other"), list("b1", "net.example")] });
        let host = HttpServer::answering(vec![(200, file.to_string())]).await;
        let crossing = crossing().with_credential(Some("secret".into()));
        let found =
            crossing.by_file("net.example", &format!("{}/.well-known/openagents.json", host.url)).await.unwrap();
        assert_eq!(
            (found.id.as_str(), found.by, found.endpoint.as_str()),
            ("b1", FoundBy::WellKnown, node.url.as_str())
        );
        // The endpoint is not the host that proved its name: nothing is shown there.
        assert!(!found.has_credential());
    }

    #[tokio::test]
    async fn what_others_say_leads_to_no_private_host() {
        let crossing = Crossing::new(outbound(false)).with_credential(Some("secret".into()));
        let trap = HttpServer::answering(vec![profile("b1", "http://127.0.0.1:1/v1/ws/b1")]).await;
        for hint in [trap.url.as_str(), "http://169.254.169.254/latest", "https://user:pw@host.example/"] {
            let error = crossing.find(&to("b1::agent:bob"), Some(hint)).await.unwrap_err();
            assert!(!error.to_string().contains("pw"), "{error}");
        }
        assert!(trap.requests().await.is_empty());
        for id in ["127.0.0.1", "localhost.localdomain", "10.0.0.1"] {
            assert!(crossing.find(&to(&format!("{id}::agent:bob")), None).await.is_err(), "{id}");
        }
    }

    #[tokio::test]
    async fn a_profile_that_is_somebody_elses_is_not_taken() {
        let found = HttpServer::answering(vec![profile("c9", "http://127.0.0.1:1/v1/ws/c9")]).await;
        let hint = format!("{}/v1/ws/b1/profile", found.url);
        let error = crossing().find(&to("b1::agent:bob"), Some(&hint)).await.unwrap_err();
        assert!(error.is(ErrorCode::NetworkNotFound) && error.to_string().contains("c9"), "{error}");
    }

    #[tokio::test]
    async fn a_network_of_ones_own_node_is_reached_as_the_node_is() {
        let home = HttpServer::answering(vec![]).await;
        let url = home.url.clone();
        drop(home);
        let both = HttpServer::answering(vec![profile("b1", "http://elsewhere.example/v1/ws/b1")]).await;
        assert_ne!(url, both.url);
        // Guarded all others; the own node needs no permission to be on this machine.
        let crossing = Crossing::new(outbound(false)).with_home(Http::new(&both.url).unwrap().with_bearer("of-home"));
        let hint = format!("{}/v1/ws/b1/profile", both.url);
        let error = crossing.find(&to("b1::agent:bob"), Some(&hint)).await.unwrap_err();
        assert!(error.to_string().contains("elsewhere.example"), "the endpoint is another's, and is guarded: {error}");
        assert_eq!(both.requests().await.len(), 1);
    }
}
