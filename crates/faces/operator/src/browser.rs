//! The browser link: a one-time code that gives the operator's browser a session of its own.

use crate::request::OperatorRequest;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use rialto_carrier::answer::{self, json_object};
use rialto_carrier::{FaceState, Refusal};
use rialto_model::{ErrorCode, Fault, Role};
use rialto_node::identity::{Secret, same, sha256};
use rialto_node::{AdminOp, Caller};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A code of the browser link works this long.
const CODE_LIFE: Duration = Duration::from_secs(600);
/// Codes that were made and not used; the oldest goes first.
const CODES_MAX: usize = 16;

/// A code that was made and not used.
#[derive(Debug)]
struct UnusedCode {
    hash: [u8; 32],
    made: Instant,
}

/// All codes that were made and not used. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct BrowserCodes(Arc<Mutex<Vec<UnusedCode>>>);

impl BrowserCodes {
    fn unused(&self) -> MutexGuard<'_, Vec<UnusedCode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a code.
    fn make(&self) -> Option<Secret> {
        let secret = Secret::generate().ok()?;
        let mut codes = self.unused();
        codes.retain(|code| code.made.elapsed() < CODE_LIFE);
        if codes.len() >= CODES_MAX {
            codes.remove(0);
        }
        codes.push(UnusedCode { hash: secret.sha256(), made: Instant::now() });
        Some(secret)
    }

    /// Makes a code, as a link: the secret stands in the fragment.
    pub(crate) fn link(&self, url: &str) -> Option<String> {
        self.make().map(|code| format!("{}/#code={}", url.trim_end_matches('/'), code.expose()))
    }

    /// Takes a code. Returns false unless it was made, is not used yet and is young enough.
    fn take(&self, hash: &[u8; 32]) -> bool {
        let mut codes = self.unused();
        let at = codes.iter().position(|code| same(&code.hash, hash));
        at.map(|at| codes.remove(at)).is_some_and(|code| code.made.elapsed() < CODE_LIFE)
    }
}

/// `POST /v1/admin/browser`: another link.
pub(crate) async fn another_link(
    request: OperatorRequest,
    State(codes): State<BrowserCodes>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let link = codes.link(&request.state.base_url(&headers)).ok_or(ErrorCode::Internal)?;
    if let Some(network) = request.state.node.default_network().filter(|network| network.damage().is_none()) {
        network.session(&request.caller).act(request.client.place(), AdminOp::Noted("browser.link", None)).await?;
    }
    Ok(answer::ok(&json!({ "url": link, "expires_in_s": CODE_LIFE.as_secs() })))
}

/// `POST /v1/browser` {code}: the code works once, and yields the operator's own session in the default network.
pub(crate) async fn session(
    State(state): State<FaceState>,
    State(codes): State<BrowserCodes>,
    body: Bytes,
) -> Result<Response, Refusal> {
    let body = json_object(&body)?;
    let hash = body.get("code").and_then(Value::as_str).map(sha256).unwrap_or_default();
    if !codes.take(&hash) {
        let text = "this link was used, is older than ten minutes or was never made; `rialto browser` makes another";
        return Err(Fault::new(ErrorCode::InvalidToken, text).into());
    }
    let network = state.node.default_network().ok_or(ErrorCode::NetworkNotFound)?;
    let caller = Arc::new(Caller { operator: true, claimed: Some("human:operator".into()), ..Caller::default() });
    let payload = json!({ "agent_id": "human:operator" });
    let event = json!({ "type": "network.agent.join", "target": "core", "payload": payload });
    let answers = network.session(&caller).emit(event.to_string().into()).await?;
    let answered = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
    let accepted = answered.result.map_err(Refusal::from)?;
    network.admin(AdminOp::Role("human:operator".to_owned(), Role::Master)).await?;
    let mut data = accepted.result.unwrap_or_default();
    if let Some(map) = data.as_object_mut() {
        map.insert("role".into(), json!("master"));
        map.extend(answered.session_id.map(|session| ("session_id".to_owned(), json!(session))));
    }
    Ok(answer::ok(&data))
}
