//! The registrar's calls and challenges to join (sheet sections 3.2 and 3.6), as `agentid` clients speak them.

use crate::api::registrar::*;
use crate::request::ApiRequest;
use crate::workspaces::iso;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_carrier::answer::{self, fields, json_object};
use rialto_carrier::credentials::{bearer, header_text, operator};
use rialto_carrier::describe::{Data, Json, NoBody, NoQuery, Plain};
use rialto_carrier::{FaceState, Refusal};
use rialto_model::{ErrorCode, Fault};
use rialto_node::identities::{NameProof, NameRecord, NameStatus, NewName, TOKEN_SECONDS};
use rialto_node::identity::did::document::{NetworkService, SERVICE_TYPE};
use rialto_node::identity::{PublicKey, Secret};
use serde_json::{Value, json};

/// Refusals of who acts on a name.
const NAME: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::VerificationFailed,
    ErrorCode::ChallengeExpired,
    ErrorCode::Forbidden,
    ErrorCode::UnknownTarget,
    ErrorCode::AlreadyExists,
    ErrorCode::NetworkFull,
    ErrorCode::RegistrarUnavailable,
    ErrorCode::StorageUnavailable,
];

rialto_carrier::operations! {
    for FaceState;
    post "/v1/agentid/register" "register_name" Public plain (NoQuery, Json<RegisterNameBody>) -> Data<RegisteredName>, NAME, register, "Register a name at this node's registrar; its API key is shown this once";
    post "/v1/agent-ids/create" "claim_name" Public plain (NoQuery, Json<ClaimNameBody>) -> Data<ClaimedName>, NAME, claim, "Register a name with its public key";
    get "/v1/agent-ids/{name}" "name" Public plain (NoQuery, NoBody) -> Data<NameInfo>, NAME, show, "A registered name with its public key";
    post "/v1/agentid/challenge" "name_challenge" Public plain (NoQuery, Json<NameChallengeBody>) -> Data<NameChallenge>, NAME, challenge, "A challenge to prove a registered name";
    post "/v1/agentid/token" "name_token" Public plain (NoQuery, Json<NameTokenBody>) -> Data<NameToken>, NAME, token, "A token for who answers a challenge";
    post "/v1/agentid/verify-token" "verify_token" Public plain (NoQuery, Json<VerifyTokenBody>) -> Data<TokenVerdict>, &[], verify_token, "What a token is worth";
    post "/v1/agentid/verify-key" "verify_key" Public plain (NoQuery, Json<VerifyKeyBody>) -> Data<KeyVerdict>, &[], verify_key, "Whether an API key is one";
    post "/v1/agentid/rotate" "rotate_name" Public plain (NoQuery, Json<NameActBody>) -> Data<NameInfo>, NAME, rotate, "Replace the key of a name: whoever came in with the old one is out";
    post "/v1/agentid/revoke" "revoke_name" Public plain (NoQuery, Json<NameActBody>) -> Data<NameInfo>, NAME, revoke, "Revoke a name: nobody proves it any more, and nobody gets it again";
    get "/v1/agentid/did/{did}" "did" Public plain (NoQuery, NoBody) -> Data<DidDocumentBody>, NAME, did, "The DID document of a name";
    put "/v1/agentid/did/{did}/services" "did_services" Public plain (NoQuery, Json<ServicesBody>) -> Data<DidDocumentBody>, NAME, services, "Say where a DID can be met";
    get "/1.0/identifiers/{did}" "identifier" Public plain (NoQuery, NoBody) -> Plain<DidDocumentBody>, NAME, identifier, "The DID document of a name, with endpoints as objects";
    get "/v1/admin/registrar/accounts" "registrar_accounts" Operator plain (NoQuery, NoBody) -> Data<AccountList>, &[], accounts, "Accounts that may register names";
    post "/v1/admin/registrar/accounts" "add_registrar_account" Operator plain (NoQuery, Json<AccountBody>) -> Data<MadeAccount>, NAME, add_account, "Make an account that may register names; its key is shown this once";
    delete "/v1/admin/registrar/accounts/{name}" "remove_registrar_account" Operator plain (NoQuery, NoBody) -> Data<AccountView>, NAME, remove_account, "Take an account away; names that it registered stay";
    post "/v1/admin/registrar/rotate-key" "rotate_registrar_key" Operator plain (NoQuery, NoBody) -> Data<RotatedKey>, NAME, rotate_key, "Sign tokens with another key; the one before verifies for another day";
    put "/v1/admin/networks/{id}/members/{address}/key" "pin_key" Operator plain (NoQuery, Json<PinKeyBody>) -> Data<PinnedKey>, NAME, pin, "Pin a public key to an agent's name: it is proved with it, or not at all";
    delete "/v1/admin/networks/{id}/members/{address}/key" "unpin_key" Operator plain (NoQuery, NoBody) -> Data<PinnedKey>, NAME, unpin, "Take the pinned key of a name away";
    get "/.well-known/jwks.json" "jwks" Public plain (NoQuery, NoBody) -> Plain<KeySetBody>, NAME, jwks, "The keys that this registrar's tokens verify with";
}

/// `POST /v1/challenge`: a challenge to join a network under an address.
pub(crate) async fn join_challenge(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_to_join(&payload)?;
    let wish: ChallengeBody = fields(&payload).map_err(|refusal| call.refusal(refusal))?;
    request.state.paces.challenge(&request.client)?;
    let (node, network) = (&request.state.node, call.session.network());
    let made = node.join_challenge(network, &wish.agent_id, wish.algorithm.as_deref()).await;
    Ok(answer::ok(&made.map_err(|fault| call.refusal(fault))?))
}

fn info(record: &NameRecord) -> NameInfo {
    NameInfo {
        agent_name: record.name.clone(),
        org: None,
        status: status(record).to_owned(),
        public_key_pem: record.key.clone(),
        serial: record.serial.clone(),
        algorithm: record.algorithm().map(|algorithm| algorithm.name().to_owned()),
    }
}

fn status(record: &NameRecord) -> &'static str {
    match record.status {
        NameStatus::Active => "active",
        NameStatus::Revoked => "revoked",
    }
}

/// Names of organisations are a form of before; none is registered here.
fn without_org(name: &str, org: Option<&str>) -> Result<(), Fault> {
    match org.filter(|org| !org.is_empty()) {
        None => Ok(()),
        Some(org) => Err(Fault::new(ErrorCode::UnknownTarget, format!("no agent {name}@{org} is registered here"))),
    }
}

async fn registered(request: &ApiRequest, new: NewName) -> Result<(std::sync::Arc<NameRecord>, Secret), Refusal> {
    request.state.paces.challenge(&request.client)?;
    let hash = bearer(&request.headers)?;
    let operator = hash.as_ref().is_some_and(|hash| request.state.node.is_operator(hash));
    Ok(request.state.node.identities().register(operator, hash, new).await?)
}

async fn register(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: RegisterNameBody = fields(&json_object(&body)?)?;
    let new = NewName {
        name: body.agent_name,
        key: body.public_key_pem,
        origin: body.origin,
        display_name: body.display_name,
        bio: body.bio,
        tags: body.tags,
    };
    let (record, api_key) = registered(&request, new).await?;
    let base = request.state.base_url(&request.headers);
    Ok(answer::ok(&RegisteredName {
        agent_id: format!("openagents:{}", record.name),
        api_key: api_key.expose().to_owned(),
        cert_serial: record.serial.clone(),
        public_profile_url: format!("{base}/v1/agentid/did/did:openagents:{}", record.name),
        origin: record.origin.clone(),
        created_at: iso(record.created_at),
        agent_name: record.name.clone(),
    }))
}

async fn claim(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: ClaimNameBody = fields(&json_object(&body)?)?;
    if body.org.as_deref().is_some_and(|org| !org.is_empty()) {
        let text = "names of organisations are not given out: leave org out";
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field("org").into());
    }
    let new = NewName { name: body.agent_name, key: Some(body.public_key_pem), ..NewName::default() };
    let (record, _) = registered(&request, new).await?;
    Ok(answer::ok(&ClaimedName {
        agent_name: record.name.clone(),
        org: None,
        cert_pem: None,
        serial: record.serial.clone(),
        status: status(&record).to_owned(),
    }))
}

async fn show(request: ApiRequest) -> Result<Response, Refusal> {
    let name = request.named("name");
    without_org(name, request.params.get("org").map(String::as_str))?;
    Ok(answer::ok(&info(request.state.node.identities().name_record(name)?.as_ref())))
}

async fn challenge(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: NameChallengeBody = fields(&json_object(&body)?)?;
    request.state.paces.challenge(&request.client)?;
    without_org(&body.agent_name, body.org.as_deref())?;
    let made = request.state.node.identities().name_challenge(&body.agent_name, &body.algorithm)?;
    Ok(answer::ok(&NameChallenge {
        challenge: made.challenge,
        nonce: made.nonce,
        algorithm: body.algorithm,
        expires_in: made.expires_in,
    }))
}

async fn token(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: NameTokenBody = fields(&json_object(&body)?)?;
    without_org(&body.agent_name, body.org.as_deref())?;
    let identities = request.state.node.identities();
    let made = identities.name_token(body.agent_name, &body.nonce, &body.signature, body.audience).await?;
    Ok(answer::ok(&NameToken {
        access_token: made,
        token_type: "bearer".to_owned(),
        expires_in: TOKEN_SECONDS,
        verification_level: 2,
    }))
}

async fn verify_token(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: VerifyTokenBody = fields(&json_object(&body)?)?;
    let verdict = request.state.node.identities().verify_token(&Secret::presented(body.token)).await;
    Ok(answer::ok(&match verdict {
        Ok(good) => TokenVerdict {
            valid: true,
            agent_name: good.address.split_once(':').map(|(_, name)| name.to_owned()),
            expires_at: Some(iso(good.expires_at)),
            verification_level: Some(good.level),
            ..TokenVerdict::default()
        },
        Err(fault) => TokenVerdict { reason: Some(fault.message), ..TokenVerdict::default() },
    }))
}

async fn verify_key(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: VerifyKeyBody = fields(&json_object(&body)?)?;
    let agent_name = request.state.node.identities().verify_key(&rialto_node::identity::sha256(&body.api_key));
    Ok(answer::ok(&KeyVerdict { valid: agent_name.is_some(), agent_name }))
}

/// What a request shows to act on a name.
fn proof(request: &ApiRequest, nonce: Option<String>, signature: Option<String>) -> Result<NameProof, Fault> {
    if let (Some(nonce), Some(signature)) = (nonce, signature) {
        return Ok(NameProof::Signed { nonce, signature });
    }
    if bearer(&request.headers)?.is_some_and(|hash| request.state.node.is_operator(&hash)) {
        return Ok(NameProof::Operator);
    }
    let shown = header_text(&request.headers, axum::http::header::AUTHORIZATION)
        .and_then(|value| value.split_once(' '))
        .map(|(_, secret)| NameProof::Bearer(Secret::presented(secret.trim())));
    shown.ok_or_else(|| {
        Fault::new(ErrorCode::Unauthenticated, "show the name's API key as Bearer, or sign a challenge with its key")
    })
}

async fn rotate(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: NameActBody = fields(&json_object(&body)?)?;
    let key = body.public_key_pem.ok_or_else(|| {
        Fault::new(ErrorCode::InvalidArgument, "publicKeyPem is the new public key").field("publicKeyPem")
    })?;
    let proof = proof(&request, body.nonce, body.signature)?;
    Ok(answer::ok(&info(request.state.node.rotate_name(&body.agent_name, &proof, key).await?.as_ref())))
}

async fn revoke(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: NameActBody = fields(&json_object(&body)?)?;
    let proof = proof(&request, body.nonce, body.signature)?;
    Ok(answer::ok(&info(request.state.node.revoke_name(&body.agent_name, &proof).await?.as_ref())))
}

async fn did(request: ApiRequest) -> Result<Response, Refusal> {
    Ok(answer::ok(&request.state.node.identities().document(request.named("did"), false)?))
}

async fn identifier(State(state): State<FaceState>, Path(did): Path<String>) -> Result<Response, Refusal> {
    Ok(axum::Json(state.node.identities().document(&did, true)?).into_response())
}

async fn services(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: ServicesBody = fields(&json_object(&body)?)?;
    let did = request.named("did").to_owned();
    let proof = proof(&request, None, None)?;
    let read = body.service.into_iter().enumerate().map(|(at, entry)| {
        let entry = Value::Object(entry);
        let bad = || {
            let text =
                format!("service {at} is {{type: {SERVICE_TYPE:?}, serviceEndpoint, network, address?, transport?}}");
            Fault::new(ErrorCode::InvalidArgument, text).field("service")
        };
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        let endpoint =
            text("serviceEndpoint").filter(|url| url.contains("://") && url.len() <= 1024).ok_or_else(bad)?;
        if text("type").as_deref() != Some(SERVICE_TYPE) {
            return Err(bad());
        }
        let id = text("id").filter(|id| id.starts_with(&format!("{did}#")) && id.len() <= 512);
        let id = id.unwrap_or_else(|| format!("{did}#network-{}", at + 1));
        let network = text("network").filter(|network| network.len() <= 64).ok_or_else(bad)?;
        Ok(NetworkService { id, endpoint, network, address: text("address"), transport: text("transport") })
    });
    let services = read.collect::<Result<Vec<_>, Fault>>()?;
    Ok(answer::ok(&request.state.node.identities().set_services(&did, &proof, services).await?))
}

async fn accounts(request: ApiRequest) -> Result<Response, Refusal> {
    operator(&request.state.node, &request.headers)?;
    let accounts = request.state.node.identities().accounts();
    let view = |account: rialto_node::identities::Account| AccountView { name: account.name };
    Ok(answer::ok(&AccountList { accounts: accounts.into_iter().map(view).collect() }))
}

async fn add_account(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    operator(&request.state.node, &request.headers)?;
    let body: AccountBody = fields(&json_object(&body)?)?;
    let (account, key) = request.state.node.identities().add_account(body.name).await?;
    Ok(answer::ok(&MadeAccount { name: account.name, key: key.expose().to_owned() }))
}

async fn remove_account(request: ApiRequest) -> Result<Response, Refusal> {
    operator(&request.state.node, &request.headers)?;
    let name = request.named("name").to_owned();
    request.state.node.identities().remove_account(name.clone()).await?;
    Ok(answer::ok(&AccountView { name }))
}

async fn rotate_key(request: ApiRequest) -> Result<Response, Refusal> {
    operator(&request.state.node, &request.headers)?;
    Ok(answer::ok(&RotatedKey { kid: request.state.node.identities().rotate_signing_key().await? }))
}

/// Pins a key, or takes it away, and records that the operator did.
async fn pinned(request: &ApiRequest, key: Option<&str>) -> Result<Response, Refusal> {
    let caller = operator(&request.state.node, &request.headers)?;
    let id = request.named("id");
    let missing = || Fault::new(ErrorCode::NetworkNotFound, format!("no network {id:?} here"));
    let network = request.state.node.network(id).ok_or_else(missing)?;
    let parsed = key.map(|text| {
        PublicKey::parse(text)
            .map_err(|error| Fault::new(ErrorCode::InvalidArgument, error.to_string()).field("public_key"))
    });
    let jwk = match parsed.transpose()? {
        None => None,
        Some(key) => Some(serde_json::to_string(&key.to_jwk()).map_err(|_| Fault::from(ErrorCode::Internal))?),
    };
    let address = request.named("address").to_owned();
    let op = rialto_node::AdminOp::PinKey(address.clone(), jwk.map(Into::into));
    network.session(&caller).act(request.client.place(), op).await?;
    Ok(answer::ok(&PinnedKey { address, pinned: key.is_some() }))
}

async fn pin(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let body: PinKeyBody = fields(&json_object(&body)?)?;
    pinned(&request, Some(&body.public_key)).await
}

async fn unpin(request: ApiRequest) -> Result<Response, Refusal> {
    pinned(&request, None).await
}

async fn jwks(State(state): State<FaceState>, _: HeaderMap) -> Result<Response, Refusal> {
    Ok(axum::Json(state.node.identities().keys().await?.to_json()).into_response())
}

/// What the profile of a network says of its registrar.
pub(crate) fn of_profile(state: &FaceState, base: &str) -> Value {
    json!({ "issuer": state.node.identities().issuer(), "jwks": format!("{base}/.well-known/jwks.json") })
}
