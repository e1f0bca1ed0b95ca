//! Who calls and which network is meant, from headers, query and body. Credentials are hashed here and go no further.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName};
use rialto_carrier::credentials::{SESSION_ID, WORKSPACE_TOKEN, bearer, header_text, trace};
use rialto_carrier::{FaceState, Params, Refusal};
use rialto_model::{Address, ErrorCode, Fault, NetworkId};
use rialto_node::identity::sha256;
use rialto_node::{Caller, Capabilities, Session};
use serde_json::Value;
use std::sync::Arc;

/// What a call brings besides its own arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) session: Session,
    pub(crate) compat: bool,
    /// The caller must not learn that the network exists: it shows nothing that the network has given out.
    pub(crate) hidden: bool,
}

const AGENT_NAME: HeaderName = HeaderName::from_static("x-agent-name");
const NETWORK: HeaderName = HeaderName::from_static("x-network");

/// Compat's `agent_name` is an `openagents:` name unless it says otherwise.
pub(crate) fn compat_address(name: &str) -> String {
    if name.contains(':') { name.to_owned() } else { format!("openagents:{name}") }
}

/// Said of a network that does not exist, and of one that the caller must not learn of.
pub(crate) fn unknown_network() -> Fault {
    Fault::new(ErrorCode::NetworkNotFound, "no such network here")
}

fn no_network() -> Refusal {
    unknown_network().into()
}

/// Whether a request is one of clients of workspace servers, as far as its head says.
pub(crate) fn is_compat(headers: &HeaderMap, params: &Params) -> bool {
    headers.contains_key(WORKSPACE_TOKEN) || params.contains_key("agent_name")
}

impl Call {
    /// The refusal as this caller may see it: whoever must not learn that the network exists hears that there is none.
    pub(crate) fn refusal(&self, refusal: impl Into<Refusal>) -> Refusal {
        if self.hidden { no_network() } else { refusal.into() }
    }
}

/// What clients of workspace servers count on: they send without having joined, name themselves under the token, and read by cursor.
const WORKSPACE_CLIENT: Capabilities =
    Capabilities { joins_by_speaking: true, shares_name: true, resumes_anywhere: true, reads_history: true };

static NO_PARAMS: Params = Params::new();
static NO_BODY: Value = Value::Null;

/// What says who calls and which network is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallRequest<'a> {
    state: &'a FaceState,
    headers: &'a HeaderMap,
    params: &'a Params,
    path: Option<&'a str>,
    body: &'a Value,
    query_token: bool,
}

impl<'a> CallRequest<'a> {
    /// A request that says it in its headers.
    pub(crate) fn new(state: &'a FaceState, headers: &'a HeaderMap) -> CallRequest<'a> {
        CallRequest { state, headers, params: &NO_PARAMS, path: None, body: &NO_BODY, query_token: false }
    }

    /// Its query may say it too.
    pub(crate) fn params(self, params: &'a Params) -> CallRequest<'a> {
        CallRequest { params, ..self }
    }

    /// Its path may name the network, as `/v1/ws/{id}/…` does.
    pub(crate) fn path(self, path: Option<&'a str>) -> CallRequest<'a> {
        CallRequest { path, ..self }
    }

    /// Its body may say it too.
    pub(crate) fn body(self, body: &'a Value) -> CallRequest<'a> {
        CallRequest { body, ..self }
    }

    /// `?token=` counts.
    pub(crate) fn query_token(self) -> CallRequest<'a> {
        CallRequest { query_token: true, ..self }
    }

    /// Reads credentials, what the client can do and the network. A network that is not listed is unknown to a caller that shows no credential
    /// of it.
    pub(crate) fn call(self) -> Result<Call, Refusal> {
        let call = self.call_to_join()?;
        if call.hidden { Err(no_network()) } else { Ok(call) }
    }

    /// The same for a call whose credential is still to come. Its refusals must go through [`Call::refusal`].
    pub(crate) fn call_to_join(self) -> Result<Call, Refusal> {
        let CallRequest { state, headers, params, path, body, query_token } = self;
        let in_body = |key: &str| body.get(key).and_then(Value::as_str);
        let text = |key: &str| in_body(key).or_else(|| params.get(key).map(String::as_str));
        // Where both are shown, the workspace's token decides: these clients send their product's account beside it.
        let mut bearer = match header_text(headers, WORKSPACE_TOKEN).filter(|_| headers.contains_key(AUTHORIZATION)) {
            Some(token) => Some(sha256(token)),
            None => bearer(headers)?,
        };
        if bearer.is_none() && query_token {
            bearer = params.get("token").map(|t| sha256(t));
        }
        let agent_name = text("agent_name");
        let compat = headers.contains_key(WORKSPACE_TOKEN) || agent_name.is_some();
        // Secrets stand in headers and bodies; of a URL only where nothing else is possible.
        let body_token = in_body("token").filter(|_| compat).map(sha256);
        let bearer = bearer.or(body_token);
        let claimed = header_text(headers, AGENT_NAME)
            .or(agent_name)
            .map(|n| if compat { compat_address(n) } else { n.to_owned() });
        let claimed = claimed.or_else(|| text("agent_id").map(str::to_owned));
        let session = header_text(headers, SESSION_ID).or_else(|| in_body("session_id")).map(sha256);
        let operator = bearer.as_ref().is_some_and(|b| state.node.is_operator(b));
        let named = path.or_else(|| text("network")).or_else(|| header_text(headers, NETWORK));
        let network = match named {
            Some(name) => state.node.network(name).ok_or_else(no_network)?,
            None => match bearer.as_ref().and_then(|b| state.node.network_by_token(b)) {
                Some(network) => network,
                None => state.node.default_network().ok_or_else(no_network)?,
            },
        };
        let capabilities = if compat { WORKSPACE_CLIENT } else { Capabilities::default() };
        let bearer = bearer.filter(|_| !operator);
        let mut caller = Caller { operator, bearer, session, capabilities, trace: trace(headers), ..Caller::default() };
        // Who joins may show the network's token among its proofs.
        let proof = body.pointer("/credentials/token").and_then(Value::as_str).map(sha256);
        let hidden = network.is_hidden_from(&caller) && !proof.is_some_and(|hash| network.has_token(&hash));
        if let Some(text) = claimed {
            let address = NetworkId::parse(network.id()).and_then(|own| Address::parse_in(&text, &own));
            caller.claimed = match address {
                Ok(address) => Some(address.as_str().into()),
                // The refusal would tell that the network is there.
                Err(_) if hidden => return Err(no_network()),
                Err(e) => {
                    let what = format!(
                        "{text:?}: {e}; a name is up to 128 letters, digits, `_`, `.` and `-`, and begins with a letter, a digit or `_`"
                    );
                    return Err(Fault::new(ErrorCode::InvalidAddress, what).field("agent_id").into());
                }
            };
        }
        Ok(Call { session: network.session(&Arc::new(caller)), compat, hidden })
    }
}
