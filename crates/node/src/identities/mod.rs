//! Who is who: challenges, proofs and the registrars they are held against (OpenAgents sheet, section 3).
//!
//! Invariant: each prefix is verified by its own registrar alone, and a proof that cannot be verified refuses what it was shown for.
//! Not here: what a proof allows (`rialto-engine`), connections to others (`fetch`) and wire forms.

mod challenges;
pub mod fetch;
mod registrar;
mod service;
mod sources;
#[cfg(test)]
mod tests;

pub use fetch::{Fetch, FetchError, Fetching, NoFetch};
pub use registrar::{Account, NameRecord, NameStatus, NewName, TOKEN_SECONDS};
pub use service::{NameProof, VerifiedToken};
pub use sources::KeySource;

use crate::host::Host;
use challenges::{Challenge, Challenges, Purpose};
use registrar::Registrar;
use rialto_engine::Clock;
use rialto_engine::credential::ProvedBy;
use rialto_engine::input::ProvedName;
use rialto_identity::did::document::METHODS_MAX;
use rialto_identity::jwt::{self, Audience, JwtError};
use rialto_identity::key::decode_base64;
use rialto_identity::{Algorithm, Did, Proof, PublicKey, Secret};
use rialto_model::address::{Address, Entity};
use rialto_model::view::ChallengeView;
use rialto_model::{ErrorCode, Fault, Millis, NetworkId, limits};
use rialto_store::{AdminDb, StoreError};
use serde_json::json;
use sources::Sources;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A session by a token goes on for so long after the token's end.
const AFTER_EXP_MS: Millis = 60_000;

/// Who may register names at the node's own registrar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// Whoever asks.
    #[default]
    Open,
    /// Who shows the key of an account, and the operator.
    Account,
}

/// Where the names of a prefix are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrarPlace {
    /// At this node.
    Local,
    /// Elsewhere.
    Remote {
        /// Where its records and DID documents are; without one nobody proves a key of it.
        base_url: Option<String>,
        /// Where its keys are.
        keys: KeySource,
    },
}

/// A registrar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrarSettings {
    /// The prefix of its names.
    pub prefix: String,
    /// Where it is.
    pub place: RegistrarPlace,
    /// What its tokens say as `iss`; the node's own URL where it is this node.
    pub issuer: Option<String>,
    /// Its names are DIDs of this method.
    pub did_method: Option<String>,
}

/// How names are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentitySettings {
    /// Registrars by prefix.
    pub registrars: Vec<RegistrarSettings>,
    /// Who may register names here.
    pub registration: Registration,
}

impl Default for IdentitySettings {
    fn default() -> IdentitySettings {
        let own = RegistrarSettings {
            prefix: "openagents".to_owned(),
            place: RegistrarPlace::Local,
            issuer: None,
            did_method: Some("openagents".to_owned()),
        };
        IdentitySettings { registrars: vec![own], registration: Registration::default() }
    }
}

impl From<&Challenge> for ChallengeView {
    fn from(challenge: &Challenge) -> ChallengeView {
        ChallengeView {
            nonce: challenge.nonce.to_string(),
            challenge: challenge.text().to_base64(),
            algorithm: challenge.algorithm.name().to_owned(),
            expires_in: rialto_identity::challenge::CHALLENGE_SECONDS,
            expires_at: challenge.expires_at,
        }
    }
}

/// A registrar's token that was verified.
#[derive(Debug, Clone)]
struct Passport {
    proved: Arc<ProvedName>,
    audience: Option<Audience>,
}

/// Who is who on this node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Identities(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    base_url: RwLock<Option<String>>,
    settings: RwLock<Arc<IdentitySettings>>,
    prefixes: RwLock<Arc<BTreeSet<Box<str>>>>,
    challenges: Mutex<Challenges>,
    registrar: Registrar,
    sources: Sources,
    /// Tokens that were verified, and those that were not: by the SHA-256 of their text.
    tokens: RwLock<HashMap<[u8; 32], Result<Passport, Fault>>>,
    serial: AtomicU64,
}

impl Default for Identities {
    fn default() -> Identities {
        Identities::over(Host::default(), Ok(AdminDb::in_memory()))
    }
}

fn failed(text: impl Into<String>) -> Fault {
    Fault::new(ErrorCode::VerificationFailed, text)
}

/// The prefix and the name of an address that can be proved at a registrar.
fn registered(address: &Address) -> Option<(&str, &str)> {
    match address.entity() {
        Entity::Registered { prefix, name } => Some((prefix, name)),
        Entity::Core
        | Entity::Agent(_)
        | Entity::Human(_)
        | Entity::Channel(_)
        | Entity::Mod(_)
        | Entity::Group(_)
        | Entity::Resource { .. } => None,
    }
}

impl Identities {
    /// Over the records of the node's own registrar.
    pub(crate) fn over(host: Host, db: Result<AdminDb, StoreError>) -> Identities {
        let identities = Identities(Arc::new(Inner {
            host,
            base_url: RwLock::default(),
            settings: RwLock::default(),
            prefixes: RwLock::default(),
            challenges: Mutex::default(),
            registrar: Registrar::over(db),
            sources: Sources::default(),
            tokens: RwLock::default(),
            serial: AtomicU64::new(1),
        }));
        identities.configure(IdentitySettings::default());
        identities
    }

    /// Says how names are verified from here on.
    pub fn configure(&self, settings: IdentitySettings) {
        let prefixes = settings.registrars.iter().map(|registrar| registrar.prefix.as_str().into()).collect();
        *self.0.prefixes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(prefixes);
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.forget_tokens();
    }

    /// Says who fetches what others publish.
    pub fn fetch_through(&self, fetch: Arc<dyn Fetch>) {
        self.0.sources.fetch_through(fetch);
    }

    /// Prefixes that a registrar is configured for.
    pub(crate) fn prefixes(&self) -> Arc<BTreeSet<Box<str>>> {
        self.0.prefixes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_base_url(&self, url: &str) {
        *self.0.base_url.write().unwrap_or_else(PoisonError::into_inner) = Some(url.trim_end_matches('/').to_owned());
    }

    pub(crate) fn base_url(&self) -> Option<String> {
        self.0.base_url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn settings(&self) -> Arc<IdentitySettings> {
        self.0.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Clock {
        self.0.host.clock().now()
    }

    fn registrar_of(&self, prefix: &str) -> Result<RegistrarSettings, Fault> {
        let found = self.settings().registrars.iter().find(|registrar| registrar.prefix == prefix).cloned();
        found
            .ok_or_else(|| Fault::new(ErrorCode::UnknownRegistrar, format!("no registrar is configured for {prefix}:")))
    }

    /// What the tokens of the node's own registrar say as issuer.
    pub fn issuer(&self) -> String {
        let own = self.settings().registrars.iter().find(|r| r.place == RegistrarPlace::Local).cloned();
        self.issuer_of(own.and_then(|own| own.issuer).as_deref())
    }

    fn issuer_of(&self, configured: Option<&str>) -> String {
        configured.map(str::to_owned).or_else(|| self.base_url()).unwrap_or_else(|| "rialto".to_owned())
    }

    fn issue(&self, purpose: Purpose, algorithm: Algorithm) -> Result<Challenge, Fault> {
        let nonce = self.0.host.nonce().map_err(|_| Fault::from(ErrorCode::Internal))?;
        let mut challenges = self.0.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(challenges.issue(purpose, algorithm, &nonce, self.now()))
    }

    fn take(&self, nonce: &str, purpose: &Purpose) -> Result<Challenge, Fault> {
        self.0.challenges.lock().unwrap_or_else(PoisonError::into_inner).take(nonce, purpose, self.now())
    }

    /// A challenge to join a network under an address. How it is to be signed comes from the registrar's record, or the DID's key; a client
    /// may only choose where neither says it, as for `did:web`.
    pub(crate) async fn challenge(
        &self,
        network: &str,
        address: &Address,
        pinned: Option<&str>,
        wished: Option<&str>,
    ) -> Result<ChallengeView, Fault> {
        let wish = wished.map(|name| {
            Algorithm::from_name(name).ok_or_else(|| {
                Fault::new(ErrorCode::InvalidArgument, "algorithm is Ed25519, RS256 or ES256").field("algorithm")
            })
        });
        let wish = wish.transpose()?;
        let known = match (registered(address), pinned) {
            (_, Some(jwk)) => Some(pinned_key(jwk)?.algorithm()),
            (Some(("key", _)), None) => match Did::parse(&format!("did:{}", address.as_str())) {
                Ok(Did::Key(key)) => Some(key.algorithm()),
                Ok(_) | Err(_) => return Err(failed("the key in this address cannot be read")),
            },
            (Some(("web", _)), None) => None,
            (Some((prefix, name)), None) => match self.registrar_of(prefix)?.place {
                // Whether a name is registered is told to nobody who asks for a challenge.
                RegistrarPlace::Local => self.0.registrar.key_of(name).ok().map(|(_, key)| key.algorithm()),
                RegistrarPlace::Remote { base_url: Some(base_url), .. } => {
                    match self.0.sources.record(&base_url, name).await {
                        Ok(key) => Some(key.algorithm()),
                        Err(fault) if fault.code == ErrorCode::RegistrarUnavailable => return Err(fault),
                        Err(_) => None,
                    }
                }
                RegistrarPlace::Remote { base_url: None, .. } => None,
            },
            (None, None) => {
                let text = format!(
                    "{address} is proved by nothing: only registered names, key: and web: are, and names with a pinned key"
                );
                return Err(Fault::new(ErrorCode::InvalidArgument, text).field("agent_id"));
            }
        };
        if let (Some(known), Some(wish)) = (known, wish)
            && known != wish
        {
            let text = format!("the key of {address} signs with {known}");
            return Err(Fault::new(ErrorCode::InvalidArgument, text).field("algorithm"));
        }
        let algorithm = known.or(wish).unwrap_or(Algorithm::Ed25519);
        let purpose = Purpose::Join { network: network.into(), address: address.as_str().into() };
        Ok((&self.issue(purpose, algorithm)?).into())
    }

    /// What proofs are worth for an address in a network. One that fails refuses all of them.
    pub(crate) async fn prove(
        &self,
        network: &str,
        address: &Address,
        pinned: Option<&str>,
        proofs: &[Proof],
    ) -> Result<Arc<ProvedName>, Fault> {
        let mut best: Option<Arc<ProvedName>> = None;
        for proof in proofs {
            // Numbered before anything is looked up: what is revoked meanwhile counts.
            let serial = self.next_serial();
            let proved = match proof {
                Proof::Key { nonce, signature } => {
                    let key = self.by_key(network, address, pinned, (nonce, signature)).await?;
                    proved(serial, address, 1, "key", &key)
                }
                Proof::Jwt(token) => self.by_token(network, address, token).await?,
                Proof::Did { did, verification_method, nonce, signature } => {
                    let method = verification_method.as_deref();
                    let key = self.by_did(network, address, (did, method), (nonce, signature)).await?;
                    proved(serial, address, 3, "did", &key)
                }
            };
            if best.as_ref().is_none_or(|best| best.level < proved.level) {
                best = Some(proved);
            }
        }
        best.ok_or_else(|| failed("there is no proof among the credentials"))
    }

    fn next_serial(&self) -> u64 {
        self.0.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// Level 1: a signature that the registrar's record of the key verifies.
    async fn by_key(
        &self,
        network: &str,
        address: &Address,
        pinned: Option<&str>,
        (nonce, signature): (&str, &str),
    ) -> Result<PublicKey, Fault> {
        let challenge = self.take_for_join(network, address, nonce)?;
        let key = match (registered(address), pinned) {
            (_, Some(jwk)) => pinned_key(jwk)?,
            (None, None) => return Err(failed(format!("no key is pinned to {address}: it is proved by nothing"))),
            (Some(("key" | "web", _)), None) => {
                return Err(failed(format!("{address} is proved by its DID: show credentials.did")));
            }
            (Some((prefix, name)), None) => match self.registrar_of(prefix)?.place {
                RegistrarPlace::Local => self.0.registrar.key_of(name).map_err(not_told)?.1,
                RegistrarPlace::Remote { base_url: Some(base_url), .. } => {
                    self.0.sources.record(&base_url, name).await?
                }
                RegistrarPlace::Remote { base_url: None, .. } => {
                    return Err(failed(format!("the registrar of {prefix}: has no URL here: show its token instead")));
                }
            },
        };
        is_signed(&challenge, &key, signature)?;
        Ok(key)
    }

    fn take_for_join(&self, network: &str, address: &Address, nonce: &str) -> Result<Challenge, Fault> {
        self.take(nonce, &Purpose::Join { network: network.into(), address: address.as_str().into() })
    }

    /// Level 3: the DID is the address, and one of its `authentication` keys signed.
    async fn by_did(
        &self,
        network: &str,
        address: &Address,
        (did, method): (&str, Option<&str>),
        (nonce, signature): (&str, &str),
    ) -> Result<PublicKey, Fault> {
        let challenge = self.take_for_join(network, address, nonce)?;
        let Some((prefix, name)) = registered(address) else {
            return Err(failed(format!("{address} has no DID")));
        };
        let other = || failed(format!("{did} is not the DID of {address}"));
        let keys: Vec<(String, PublicKey)> = match prefix {
            "key" | "web" if did != format!("did:{prefix}:{name}") => return Err(other()),
            "key" => match Did::parse(did) {
                Ok(Did::Key(key)) => vec![(did.to_owned(), key)],
                Ok(_) | Err(_) => return Err(failed("the key in this DID cannot be read")),
            },
            "web" => match Did::parse(did) {
                Ok(Did::Web(url)) => self.document_keys(did, &url).await?,
                Ok(_) => return Err(other()),
                Err(error) => return Err(failed(error.to_string())),
            },
            prefix => {
                let registrar = self.registrar_of(prefix)?;
                let own = registrar.did_method.as_ref().map(|method| format!("did:{method}:{name}"));
                if own.as_deref() != Some(did) {
                    return Err(other());
                }
                match registrar.place {
                    RegistrarPlace::Local => {
                        vec![(format!("{did}#key-1"), self.0.registrar.key_of(name).map_err(not_told)?.1)]
                    }
                    RegistrarPlace::Remote { base_url: Some(base_url), .. } => {
                        let url = format!("{}/v1/agentid/did/{did}", base_url.trim_end_matches('/'));
                        self.document_keys(did, &url).await?
                    }
                    RegistrarPlace::Remote { base_url: None, .. } => {
                        return Err(failed(format!("the registrar of {prefix}: has no URL here: it resolves no DID")));
                    }
                }
            }
        };
        let named =
            method.map(|method| if method.starts_with('#') { format!("{did}{method}") } else { method.to_owned() });
        let fitting =
            keys.into_iter().filter(|(id, _)| named.as_ref().is_none_or(|named| named == id || prefix == "key"));
        let mut last = failed("the DID has no such key under authentication");
        for (_, key) in fitting.take(METHODS_MAX) {
            match is_signed(&challenge, &key, signature) {
                Ok(()) => return Ok(key),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    async fn document_keys(&self, did: &str, url: &str) -> Result<Vec<(String, PublicKey)>, Fault> {
        let document = self.0.sources.document(did, url, self.now()).await?;
        Ok(document.authentication.iter().map(|method| (method.id.clone(), method.key.clone())).collect())
    }

    /// Level 2: a token of the registrar of that prefix.
    async fn by_token(&self, network: &str, address: &Address, token: &Secret) -> Result<Arc<ProvedName>, Fault> {
        let passport = self.passport(token).await?;
        if *passport.proved.address != *address.as_str() {
            return Err(failed(format!("the token proves {}, not {address}", passport.proved.address)));
        }
        self.is_for(&passport, network)?;
        Ok(passport.proved)
    }

    /// Whether a token is for this network.
    fn is_for(&self, passport: &Passport, network: &str) -> Result<(), Fault> {
        let Some(audience) = &passport.audience else { return Ok(()) };
        let uri = format!("openagents://{network}");
        let own = self.base_url();
        let names = [Some(network), Some(uri.as_str()), own.as_deref()];
        if names.into_iter().flatten().any(|name| audience.contains(name)) {
            return Ok(());
        }
        Err(failed("the token is for another audience than this network"))
    }

    /// Verifies a token, whatever network it is for.
    async fn passport(&self, token: &Secret) -> Result<Passport, Fault> {
        let serial = self.next_serial();
        let text = token.expose();
        let unverified = jwt::peek(text).map_err(not_good)?;
        let settings = self.settings();
        let subject = unverified.subject.as_str();
        let no_address = || failed("its subject is no address that a registrar gives out");
        let own = NetworkId::parse("local-node").map_err(|_| no_address())?;
        let (registrar, address) = if subject.contains(':') {
            let address = Address::parse_in(subject, &own).map_err(|_| no_address())?;
            let prefix = registered(&address).map(|(prefix, _)| prefix.to_owned()).ok_or_else(no_address)?;
            (self.registrar_of(&prefix).map_err(|_| no_address())?, address)
        } else {
            // A bare name is of the registrar that says it made the token.
            let made = |r: &&RegistrarSettings| Some(self.issuer_of(r.issuer.as_deref())) == unverified.issuer;
            let mut of_issuer = settings.registrars.iter().filter(made);
            let registrar = of_issuer.next().filter(|_| of_issuer.next().is_none());
            let registrar = registrar.ok_or_else(|| failed("its issuer is no registrar that is known here"))?;
            let address = Address::parse_in(&format!("{}:{subject}", registrar.prefix), &own);
            (registrar.clone(), address.map_err(|_| no_address())?)
        };
        let now = self.now();
        let issuer = self.issuer_of(registrar.issuer.as_deref());
        let keys = match &registrar.place {
            RegistrarPlace::Local => Arc::new(self.0.registrar.keys(now.wall)?),
            RegistrarPlace::Remote { keys, .. } => self.0.sources.keys(keys, unverified.kid.as_deref(), now).await?,
        };
        let claims = jwt::verify(text, &keys, &issuer, now.wall).map_err(not_good)?;
        let (_, name) = registered(&address).ok_or_else(no_address)?;
        if let Some(agent) = &claims.agent_name
            && agent != name
            && agent != address.as_str()
        {
            return Err(failed("its agentName is not its subject"));
        }
        let mut key = claims.signed_by;
        if registrar.place == RegistrarPlace::Local {
            let (_, current) = self.0.registrar.key_of(name).map_err(not_told)?;
            key = current.thumbprint();
            if claims.key_thumbprint.as_deref() != Some(key.as_str()) {
                return Err(failed("the key that it was given for was replaced: get another token"));
            }
        }
        let proved = ProvedName {
            address: address.as_str().into(),
            level: claims.level,
            by: ProvedBy { method: "jwt".into(), key: key.into() },
            ends_at: Some(claims.expires_at.saturating_mul(1000).saturating_add(AFTER_EXP_MS)),
            for_anybody: claims.audience.is_none(),
            serial,
        };
        Ok(Passport { proved: Arc::new(proved), audience: claims.audience })
    }

    /// Verifies a token that is shown as a bearer, unless it is known; what came of it is in [`Identities::bearer`].
    pub async fn see_bearer(&self, token: &Secret) {
        let hash = token.sha256();
        let known = self.0.tokens.read().unwrap_or_else(PoisonError::into_inner).get(&hash).is_some_and(Result::is_ok);
        if known {
            return;
        }
        let passport = self.passport(token).await;
        let mut tokens = self.0.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= limits::PROVED_TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(hash, passport);
    }

    /// What a bearer of that hash proves in a network, if it is a registrar's token that was seen.
    pub fn bearer(&self, sha256: &[u8; 32], network: &str) -> Option<Result<Arc<ProvedName>, Fault>> {
        let tokens = self.0.tokens.read().unwrap_or_else(PoisonError::into_inner);
        Some(match tokens.get(sha256)? {
            Err(fault) => Err(fault.clone()),
            Ok(passport) => self.is_for(passport, network).map(|()| passport.proved.clone()),
        })
    }

    /// Whether a bearer of that hash is a good token of a registrar.
    pub(crate) fn knows(&self, sha256: &[u8; 32]) -> bool {
        let tokens = self.0.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(sha256).is_some_and(Result::is_ok)
    }

    fn forget_tokens(&self) {
        self.0.tokens.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether an address has a public key at the node's own registrar.
    pub(crate) fn has_key(&self, address: &str) -> bool {
        let Some((prefix, name)) = address.split_once(':') else { return false };
        let local = self.registrar_of(prefix).is_ok_and(|registrar| registrar.place == RegistrarPlace::Local);
        local && self.0.registrar.has_key(name)
    }

    /// What was verified so far is numbered up to here.
    pub(crate) fn serial(&self) -> u64 {
        self.0.serial.load(Ordering::Relaxed)
    }

    /// The key of an address that is good now, if the node's own registrar says it; nothing if another one does.
    pub(crate) fn good_key(&self, address: &str) -> Option<Option<String>> {
        let (prefix, name) = address.split_once(':')?;
        let registrar = self.registrar_of(prefix).ok()?;
        let key = || self.0.registrar.key_of(name).ok().map(|(_, key)| key.thumbprint());
        (registrar.place == RegistrarPlace::Local && self.0.registrar.damage().is_none()).then(key)
    }

    /// Its registrar.
    pub(crate) fn registrar(&self) -> &Registrar {
        &self.0.registrar
    }
}

fn proved(serial: u64, address: &Address, level: u8, method: &str, key: &PublicKey) -> Arc<ProvedName> {
    Arc::new(ProvedName {
        address: address.as_str().into(),
        level,
        by: ProvedBy { method: method.into(), key: key.thumbprint().into() },
        ends_at: None,
        for_anybody: false,
        serial,
    })
}

/// Whether a name is registered is not told to who does not prove it.
fn not_told(fault: Fault) -> Fault {
    if fault.code == ErrorCode::UnknownTarget { failed("no key of this name verifies the proof") } else { fault }
}

fn not_good(error: JwtError) -> Fault {
    failed(format!("the token is refused: {error}"))
}

fn pinned_key(jwk: &str) -> Result<PublicKey, Fault> {
    PublicKey::parse(jwk).map_err(|error| failed(format!("the pinned key cannot be read: {error}")))
}

fn is_signed(challenge: &Challenge, key: &PublicKey, signature: &str) -> Result<(), Fault> {
    if challenge.algorithm != key.algorithm() {
        let text =
            format!("the challenge was made for {} and the key signs with {}", challenge.algorithm, key.algorithm());
        return Err(failed(text));
    }
    let holds = decode_base64(signature).is_some_and(|bytes| key.verifies(challenge.text().bytes(), &bytes));
    if holds { Ok(()) } else { Err(failed("no key of this name verifies the proof")) }
}

/// What a refusal tells besides: a challenge to answer.
pub(crate) fn with_challenge(fault: Fault, challenge: &ChallengeView) -> Fault {
    let mut details = fault.details.as_deref().cloned().unwrap_or_else(|| json!({}));
    if let Some(map) = details.as_object_mut() {
        map.insert("challenge".to_owned(), json!(challenge));
    }
    fault.details(details)
}

/// Methods that answer a challenge are among those a refusal names.
pub(crate) fn wants_challenge(fault: &Fault) -> bool {
    let methods = fault.details.as_deref().and_then(|details| details.get("methods"));
    let listed = methods.and_then(serde_json::Value::as_array);
    fault.code == ErrorCode::VerificationRequired
        && listed.is_some_and(|methods| methods.iter().any(|m| matches!(m.as_str(), Some("key" | "did"))))
}
