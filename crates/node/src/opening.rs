//! Opening a session: credentials in, a session out.
//!
//! Invariant: whoever must not learn that a network exists is refused with the words for one that does not.
//! Not here: what a credential is worth, whose name it is and who is taken over; that is decided in the network
//! (`rialto_engine::membership`).

use crate::network::Network;
use crate::node::Node;
use crate::session::Session;
use rialto_engine::Caller;
use rialto_identity::{Bearer, Proof, Secret};
use rialto_model::{Address, ErrorCode, Fault, NetworkId, Role, TraceContext};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The network that somebody wants to enter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkRef {
    /// The one that the shown token is of; the node's first if it is of none.
    ByCredential,
    /// By id or name.
    Named(Box<str>),
}

/// What somebody shows to be let in.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// A network's token, a session id, or the operator's secret.
    pub bearer: Option<Secret>,
    /// The session that goes on; a bearer that is a session id goes on too.
    pub session: Option<Secret>,
    /// The secret of an invitation.
    pub invitation: Option<Secret>,
    /// What proves its name.
    pub proofs: Vec<Proof>,
}

impl Credentials {
    /// As the `credentials` of a join have them.
    fn to_json(&self) -> Option<Value> {
        let mut map = serde_json::Map::new();
        if let Some(secret) = &self.invitation {
            map.insert("invite".into(), secret.expose().into());
        }
        for proof in &self.proofs {
            let said = match proof {
                Proof::Key { nonce, signature } => json!({ "nonce": nonce, "signature": signature }),
                Proof::Jwt(token) => token.expose().into(),
                Proof::Did { did, verification_method, nonce, signature } => {
                    json!({ "did": did, "verification_method": verification_method, "nonce": nonce, "signature": signature })
                }
            };
            map.insert(proof.kind().into(), said);
        }
        (!map.is_empty()).then_some(Value::Object(map))
    }
}

/// What somebody says of itself who joins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Hello {
    /// Its address; `agent:` is put before a bare name.
    #[serde(rename = "agent_id")]
    pub address: String,
    /// `observer` asks for less than the credential brings, for this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What kind of agent it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// Channels that it wants a seat in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// A live session of the name may be ended, unless this says no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<bool>,
}

impl Hello {
    /// Of an agent that says no more than its name.
    pub fn agent(name: &str) -> Hello {
        Hello { address: name.to_owned(), ..Hello::default() }
    }
}

fn unknown_network() -> Fault {
    Fault::new(ErrorCode::NetworkNotFound, "no such network here")
}

impl Node {
    /// Lets somebody into a network as a member, and returns the session that it acts through from then on.
    ///
    /// Levels, invitations, ownership of names, takeover and roles are decided in the network, in one step with the join.
    pub async fn open_session(
        &self,
        network: &NetworkRef,
        credentials: &Credentials,
        hello: &Hello,
        trace: Option<TraceContext>,
    ) -> Result<Session, Fault> {
        let bearer = credentials.bearer.as_ref().map(Secret::sha256);
        let network = self.network_of(network, bearer.as_ref()).ok_or_else(unknown_network)?;
        let operator = bearer.as_ref().is_some_and(|bearer| self.is_operator(bearer));
        let token = credentials.bearer.as_ref().filter(|b| matches!(Bearer::classify(b.expose()), Ok(Bearer::Jwt(_))));
        let proved = match token {
            None => None,
            Some(token) => {
                self.identities().see_bearer(token).await;
                self.identities().bearer(&token.sha256(), network.id()).transpose()?
            }
        };
        let caller = Caller {
            operator,
            bearer: bearer.filter(|_| !operator && proved.is_none()),
            proved,
            session: credentials.session.as_ref().map(Secret::sha256),
            trace: trace.map(Box::new),
            ..Caller::default()
        };
        // An invitation proves itself; whether it is of this network is found out by the join.
        let hidden = network.is_hidden_from(&caller);
        let seen = |fault: Fault| if hidden { unknown_network() } else { fault };
        let own = NetworkId::parse(network.id()).map_err(|_| unknown_network())?;
        let address =
            if hello.address.contains(':') { hello.address.clone() } else { format!("agent:{}", hello.address) };
        let address = Address::parse_in(&address, &own).map_err(|error| {
            seen(Fault::new(ErrorCode::InvalidAddress, format!("{address:?}: {error}")).field("agent_id"))
        })?;
        let caller = Caller { claimed: Some(address.as_str().into()), ..caller };
        network
            .join(caller, credentials, &Hello { address: address.as_str().to_owned(), ..hello.clone() })
            .await
            .map_err(seen)
    }

    fn network_of(&self, network: &NetworkRef, bearer: Option<&[u8; 32]>) -> Option<Network> {
        match network {
            NetworkRef::Named(name) => self.network(name),
            NetworkRef::ByCredential => {
                bearer.and_then(|b| self.network_by_token(b)).or_else(|| self.default_network())
            }
        }
    }
}

impl Network {
    async fn join(&self, caller: Caller, credentials: &Credentials, hello: &Hello) -> Result<Session, Fault> {
        let mut payload = serde_json::to_value(hello).map_err(|_| Fault::from(ErrorCode::Internal))?;
        if let (Some(credentials), Some(map)) = (credentials.to_json(), payload.as_object_mut()) {
            map.insert("credentials".into(), credentials);
        }
        let frame =
            json!({ "type": "network.agent.join", "source": hello.address, "target": "core", "payload": payload });
        let trace = caller.trace.clone();
        let answers = self.session(&Arc::new(caller)).emit(frame.to_string().into()).await?;
        let answered = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let accepted = answered.result?;
        let address = accepted.result.as_ref().and_then(|result| result.get("address")).and_then(Value::as_str);
        let address = address.unwrap_or(&hello.address).into();
        // A session that goes on keeps the secret it was shown with.
        let issued = answered.session_id.as_deref().map(Secret::presented);
        let secret = issued.or_else(|| credentials.session.clone()).or_else(|| credentials.bearer.clone());
        let secret = secret.ok_or(ErrorCode::Internal)?;
        let caller = Caller { bearer: Some(secret.sha256()), trace, ..Caller::default() };
        Ok(self.session(&Arc::new(caller)).opened(address, secret))
    }
}
