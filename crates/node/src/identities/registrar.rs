//! The node's own registrar: names with their public keys, tokens for those who prove them, DID documents (OpenAgents sheet, section 3.6).
//!
//! Invariant: what is answered is on the disk. A name that was given out is never given to anybody else, revoked or not.
//! Not here: challenges, which live in memory (`challenges`), and wire forms.

use rialto_identity::did::document::{NetworkService, SERVICE_TYPE};
use rialto_identity::{Algorithm, Did, KeyPair, KeySet, NoEntropy, PublicKey, Secret, jwt, same};
use rialto_model::error::Scope;
use rialto_model::{ErrorCode, Fault, Millis, limits};
use rialto_store::{AdminChange, AdminDb, AdminEntry, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A token of the registrar lives so long.
pub const TOKEN_SECONDS: u64 = 3600;
/// A key that was replaced verifies for so long.
const RETIRED_KEY_MS: Millis = 24 * 3_600_000;
const NAME: &str = "registrar.name";
const KEY: &str = "registrar.key";
const ACCOUNT: &str = "registrar.account";
/// How API keys begin.
const API_KEY: &str = "oa_agentid_";

/// Whether a name is still its owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameStatus {
    /// It is.
    Active,
    /// It was given up or taken away; nobody gets it again.
    Revoked,
}

/// A registered name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRecord {
    /// As it was registered.
    pub name: String,
    /// Whether it can be proved.
    pub status: NameStatus,
    /// Its public key as PEM, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Number of its registration.
    pub serial: String,
    /// When it was registered.
    pub created_at: Millis,
    /// Where from, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bio: Option<String>,
    /// Words for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// SHA-256 of its API key, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<[u8; 32]>,
    /// Networks where it can be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<NetworkService>,
    /// The account it was registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl NameRecord {
    /// Its public key.
    pub fn public_key(&self) -> Option<PublicKey> {
        PublicKey::from_pem(self.key.as_deref()?).ok()
    }

    /// How it signs.
    pub fn algorithm(&self) -> Option<Algorithm> {
        self.public_key().map(|key| key.algorithm())
    }

    fn is_active(&self) -> bool {
        self.status == NameStatus::Active
    }
}

/// What somebody wants to register.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the names of the record")]
pub struct NewName {
    pub name: String,
    pub key: Option<String>,
    pub origin: Option<String>,
    pub display_name: Option<String>,
    pub bio: Option<String>,
    pub tags: Vec<String>,
}

/// An account that may register names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// SHA-256 of its key.
    pub sha256: [u8; 32],
    /// When it was made.
    pub created_at: Millis,
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    pem: String,
    created_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retired_at: Option<Millis>,
}

struct SigningKey {
    pair: KeyPair,
    created_at: Millis,
    retired_at: Option<Millis>,
}

#[derive(Default)]
struct Known {
    /// By their names in lower case: names that differ in case only are one.
    names: BTreeMap<String, Arc<NameRecord>>,
    keys: BTreeMap<String, Arc<SigningKey>>,
    accounts: BTreeMap<String, Account>,
    /// Why there is nothing to be had of it.
    damage: Option<String>,
}

/// The registrar.
pub(crate) struct Registrar {
    db: AdminDb,
    known: RwLock<Known>,
    /// One change at a time.
    changing: Mutex<()>,
}

impl std::fmt::Debug for Registrar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registrar").finish_non_exhaustive()
    }
}

fn taken(name: &str) -> Fault {
    let text = format!("the name {name} is taken, in this or another case of its letters: choose another");
    Fault::new(ErrorCode::AlreadyExists, text).field("agent_name")
}

fn unknown(name: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no agent {name} is registered here"))
}

fn unstored(error: &StoreError) -> Fault {
    tracing::error!(%error, "the registrar's records cannot be written");
    ErrorCode::StorageUnavailable.into()
}

fn no_entropy(_: NoEntropy) -> Fault {
    ErrorCode::Internal.into()
}

impl Registrar {
    /// The registrar over its records. What cannot be read makes it unavailable, and is never replaced.
    pub(crate) fn over(db: Result<AdminDb, StoreError>) -> Registrar {
        let (db, loaded) = match db {
            Ok(db) => {
                let loaded = load(&db);
                (db, loaded)
            }
            Err(error) => (AdminDb::in_memory(), Err(error)),
        };
        let known = loaded.unwrap_or_else(|error| {
            tracing::error!(%error, "the registrar's records cannot be read: names are neither registered nor proved");
            Known { damage: Some(error.to_string()), ..Known::default() }
        });
        Registrar { db, known: RwLock::new(known), changing: Mutex::default() }
    }

    /// Why its records cannot be read, for the operator's eyes.
    pub(crate) fn damage(&self) -> Option<String> {
        self.read(|known| known.damage.clone())
    }

    /// Its records, for backups.
    pub(crate) fn db(&self) -> &AdminDb {
        &self.db
    }

    fn read<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes, then shows.
    fn change(&self, changes: &[AdminChange], show: impl FnOnce(&mut Known)) -> Result<(), Fault> {
        if self.damage().is_some() {
            return Err(Fault::new(ErrorCode::StorageUnavailable, "the registrar's records cannot be read"));
        }
        self.db.change(changes).map_err(|error| unstored(&error))?;
        show(&mut self.known.write().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn put(&self, record: NameRecord) -> Result<Arc<NameRecord>, Fault> {
        let name = record.name.to_ascii_lowercase();
        let change = entry(NAME, &name, &record)?;
        let record = Arc::new(record);
        self.change(&[change], |known| drop(known.names.insert(name, record.clone())))?;
        Ok(record)
    }

    /// A name as it was registered.
    pub(crate) fn record(&self, name: &str) -> Result<Arc<NameRecord>, Fault> {
        if self.damage().is_some() {
            return Err(ErrorCode::RegistrarUnavailable.into());
        }
        let found = self.read(|known| known.names.get(&name.to_ascii_lowercase()).cloned());
        found.filter(|record| record.name == name).ok_or_else(|| unknown(name))
    }

    /// Whether a name has a key here that it must be proved with, in whatever case its letters are.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        self.read(|known| {
            // Whoever cannot look up whether a name is somebody's treats it as if it were.
            known.damage.is_some()
                || known.names.get(&name.to_ascii_lowercase()).is_some_and(|record| record.key.is_some())
        })
    }

    /// The active record of a name that has a key.
    pub(crate) fn key_of(&self, name: &str) -> Result<(Arc<NameRecord>, PublicKey), Fault> {
        let record = self.record(name)?;
        let failed = |text: &str| Fault::new(ErrorCode::VerificationFailed, format!("{name} {text}"));
        if !record.is_active() {
            return Err(failed("was revoked at its registrar"));
        }
        let key = record.public_key().ok_or_else(|| failed("has no public key at its registrar"))?;
        Ok((record, key))
    }

    /// Whether it has ever given a name out.
    pub(crate) fn has_names(&self) -> bool {
        self.read(|known| !known.names.is_empty())
    }

    /// All names.
    pub(crate) fn names(&self) -> Vec<Arc<NameRecord>> {
        self.read(|known| known.names.values().cloned().collect())
    }

    /// Registers a name; gives its API key, which is known nowhere else.
    pub(crate) fn register(
        &self,
        new: NewName,
        account: Option<&str>,
        now: Millis,
    ) -> Result<(Arc<NameRecord>, Secret), Fault> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        let starts = new.name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if !(3..=64).contains(&new.name.len()) || !starts || !new.name.bytes().all(legal) {
            let text = "a registered name is 3 to 64 letters, digits, _ and -, and begins with a letter or a digit";
            return Err(Fault::new(ErrorCode::InvalidArgument, text).field("agent_name"));
        }
        let texts = [&new.origin, &new.display_name, &new.bio].into_iter().flatten().chain(&new.tags);
        for text in texts {
            if text.chars().count() > limits::REGISTRAR_TEXT_CHARS_MAX {
                let most = limits::REGISTRAR_TEXT_CHARS_MAX;
                return Err(Fault::new(
                    ErrorCode::InvalidArgument,
                    format!("what a name says of itself is at most {most} characters each"),
                ));
            }
        }
        if new.tags.len() > limits::REGISTRAR_SERVICES_MAX {
            let most = limits::REGISTRAR_SERVICES_MAX;
            return Err(Fault::new(ErrorCode::InvalidArgument, format!("a name has at most {most} tags")).field("tags"));
        }
        let key = new.key.as_deref().map(checked_key).transpose()?;
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, count) =
            self.read(|known| (known.names.contains_key(&new.name.to_ascii_lowercase()), known.names.len()));
        if known {
            return Err(taken(&new.name));
        }
        if count >= limits::REGISTRAR_NAMES_MAX {
            let most = limits::REGISTRAR_NAMES_MAX;
            return Err(Fault::full(
                Scope::Node,
                most,
                format!("the registrar has given out {most} names, which is its limit"),
            ));
        }
        let secret = Secret::generate().map_err(no_entropy)?;
        let api_key = Secret::presented(format!("{API_KEY}{}", secret.expose()));
        let record = NameRecord {
            serial: format!("{:08x}", count + 1),
            name: new.name,
            status: NameStatus::Active,
            key,
            created_at: now,
            origin: new.origin,
            display_name: new.display_name,
            bio: new.bio,
            tags: new.tags,
            api_key: Some(api_key.sha256()),
            services: Vec::new(),
            account: account.map(str::to_owned),
        };
        Ok((self.put(record)?, api_key))
    }

    /// The name that an API key is of.
    pub(crate) fn by_api_key(&self, sha256: &[u8; 32]) -> Option<Arc<NameRecord>> {
        let shown = |record: &&Arc<NameRecord>| record.api_key.as_ref().is_some_and(|known| same(known, sha256));
        self.read(|known| known.names.values().find(shown).cloned()).filter(|record| record.is_active())
    }

    /// Replaces the key of a name.
    pub(crate) fn rotate(&self, name: &str, key: &str) -> Result<Arc<NameRecord>, Fault> {
        let key = checked_key(key)?;
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.record(name)?;
        if !record.is_active() {
            return Err(Fault::new(ErrorCode::Forbidden, format!("{name} was revoked, and stays so")));
        }
        self.put(NameRecord { key: Some(key), ..record.as_ref().clone() })
    }

    /// Revokes a name: nobody proves it any more, and nobody gets it again.
    pub(crate) fn revoke(&self, name: &str) -> Result<Arc<NameRecord>, Fault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.record(name)?;
        self.put(NameRecord {
            status: NameStatus::Revoked,
            api_key: None,
            services: Vec::new(),
            ..record.as_ref().clone()
        })
    }

    /// Says where a name can be met.
    pub(crate) fn set_services(&self, name: &str, services: Vec<NetworkService>) -> Result<Arc<NameRecord>, Fault> {
        if services.len() > limits::REGISTRAR_SERVICES_MAX {
            let most = limits::REGISTRAR_SERVICES_MAX;
            return Err(
                Fault::new(ErrorCode::InvalidArgument, format!("a DID has at most {most} services")).field("service")
            );
        }
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.record(name)?;
        self.put(NameRecord { services, ..record.as_ref().clone() })
    }

    /// Adds a network to where a name can be met, or takes it away.
    pub(crate) fn publish(
        &self,
        name: &str,
        network: &str,
        address: &str,
        endpoint: Option<&str>,
    ) -> Result<(), Fault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.record(name)?;
        if !record.is_active() {
            return Ok(());
        }
        let is_it = |s: &&NetworkService| s.network == network && s.address.as_deref() == Some(address);
        let known = record.services.iter().find(is_it);
        let mut services = record.services.clone();
        match (endpoint, known) {
            (None, None) => return Ok(()),
            (Some(endpoint), Some(known)) if known.endpoint == endpoint => return Ok(()),
            (Some(_), None) if services.len() >= limits::REGISTRAR_SERVICES_MAX => {
                tracing::warn!(name, network, "not published: its DID has as many services as one may have");
                return Ok(());
            }
            (None, Some(_)) => services.retain(|s| !is_it(&s)),
            (Some(endpoint), _) => {
                services.retain(|s| !is_it(&s));
                let did = format!("did:openagents:{name}");
                let free = (1..).map(|n| format!("{did}#network-{n}")).find(|id| services.iter().all(|s| s.id != *id));
                services.push(NetworkService {
                    id: free.unwrap_or_default(),
                    endpoint: endpoint.to_owned(),
                    network: network.to_owned(),
                    address: Some(address.to_owned()),
                    transport: Some("http".to_owned()),
                });
            }
        }
        self.put(NameRecord { services, ..record.as_ref().clone() }).map(drop)
    }

    /// The DID document of a name, with endpoints as texts or, as the seed has them, as objects.
    pub(crate) fn document(&self, name: &str, objects: bool) -> Result<Value, Fault> {
        let record = self.record(name)?;
        let did = format!("did:openagents:{name}");
        let key_id = format!("{did}#key-1");
        let mut document = json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"],
            "id": did, "verificationMethod": [], "authentication": [], "assertionMethod": [], "service": [],
        });
        let Some(map) = document.as_object_mut() else { return Ok(document) };
        if !record.is_active() {
            map.insert("deactivated".into(), true.into());
            return Ok(document);
        }
        if let Some(key) = record.public_key() {
            let method = json!({
                "id": key_id, "type": "JsonWebKey2020", "controller": did, "publicKeyJwk": key.to_jwk(), "publicKeyPem": record.key,
            });
            map.insert("verificationMethod".into(), json!([method]));
            map.insert("authentication".into(), json!([key_id]));
            map.insert("assertionMethod".into(), json!([key_id]));
        }
        let service = |s: &NetworkService| {
            if objects {
                let endpoint = json!({ "network": s.network, "address": s.address, "transport": s.endpoint });
                json!({ "id": s.id, "type": SERVICE_TYPE, "serviceEndpoint": endpoint })
            } else {
                json!({ "id": s.id, "type": SERVICE_TYPE, "serviceEndpoint": s.endpoint, "network": s.network,
                    "address": s.address, "transport": s.transport })
            }
        };
        map.insert("service".into(), record.services.iter().map(service).collect());
        Ok(document)
    }

    /// The keys that its tokens verify with: the one in use, and what it replaced within a day.
    pub(crate) fn keys(&self, now: Millis) -> Result<KeySet, Fault> {
        self.signing_key(now)?;
        let good = |key: &&Arc<SigningKey>| key.retired_at.is_none_or(|at| now < at.saturating_add(RETIRED_KEY_MS));
        Ok(self.read(|known| KeySet::of(known.keys.values().filter(good).map(|key| key.pair.public().clone()))))
    }

    /// The key in use; the first is made when it is first needed.
    fn signing_key(&self, now: Millis) -> Result<Arc<SigningKey>, Fault> {
        let in_use = || self.read(|known| known.keys.values().find(|key| key.retired_at.is_none()).cloned());
        match in_use() {
            Some(key) => Ok(key),
            None => {
                let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
                in_use().map_or_else(|| self.new_signing_key(now), Ok)
            }
        }
    }

    /// Makes a key, retires the one in use, and forgets those that nobody needs any more.
    fn new_signing_key(&self, now: Millis) -> Result<Arc<SigningKey>, Fault> {
        let internal = |_| Fault::from(ErrorCode::Internal);
        let pair = KeyPair::generate(Algorithm::Ed25519).map_err(internal)?;
        let stored = |key: &SigningKey| -> Result<StoredKey, Fault> {
            let pem = key.pair.to_pem().map_err(internal)?.expose().to_owned();
            Ok(StoredKey { pem, created_at: key.created_at, retired_at: key.retired_at })
        };
        let name = pair.public().thumbprint();
        let key = Arc::new(SigningKey { pair, created_at: now, retired_at: None });
        let mut changes = vec![entry(KEY, &name, &stored(&key)?)?];
        let (mut retired, mut gone) = (Vec::new(), Vec::new());
        for (name, old) in self.read(|known| known.keys.clone()) {
            match old.retired_at {
                None => {
                    let pem = old.pair.to_pem().map_err(internal)?;
                    let pair = KeyPair::from_pem(pem.expose()).map_err(internal)?;
                    let old = Arc::new(SigningKey { pair, created_at: old.created_at, retired_at: Some(now) });
                    changes.push(entry(KEY, &name, &stored(&old)?)?);
                    retired.push((name, old));
                }
                Some(at) if now >= at.saturating_add(RETIRED_KEY_MS) => {
                    changes.push(AdminChange::Remove { kind: KEY.to_owned(), name: name.clone() });
                    gone.push(name);
                }
                Some(_) => {}
            }
        }
        self.change(&changes, |known| {
            gone.iter().for_each(|name| drop(known.keys.remove(name)));
            known.keys.extend(retired);
            known.keys.insert(name, key.clone());
        })?;
        Ok(key)
    }

    /// Replaces the key that tokens are signed with; gives the thumbprint of the new one.
    pub(crate) fn rotate_signing_key(&self, now: Millis) -> Result<String, Fault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.new_signing_key(now)?.pair.public().thumbprint())
    }

    /// A token for a name that was just proved with this key.
    pub(crate) fn token(
        &self,
        name: &str,
        key: &PublicKey,
        (issuer, audience): (&str, Option<&str>),
        now: Millis,
    ) -> Result<String, Fault> {
        let signing = self.signing_key(now)?;
        let id = Secret::generate().map_err(no_entropy)?;
        let claims = jwt::Issued {
            iss: issuer,
            sub: &format!("openagents:{name}"),
            agent_name: name,
            level: 2,
            aud: audience,
            iat: now / 1000,
            exp: now / 1000 + TOKEN_SECONDS,
            jti: id.expose(),
            key_thumbprint: &key.thumbprint(),
        };
        jwt::issue(&claims, &signing.pair).map_err(|_| ErrorCode::Internal.into())
    }

    /// Makes an account; gives its key.
    pub(crate) fn add_account(&self, name: &str, now: Millis) -> Result<(Account, Secret), Fault> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@');
        if name.is_empty() || name.len() > 128 || !name.bytes().all(legal) {
            let text = "the name of an account is 1 to 128 letters, digits, _ - . and @";
            return Err(Fault::new(ErrorCode::InvalidArgument, text).field("name"));
        }
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, count) = self.read(|known| (known.accounts.contains_key(name), known.accounts.len()));
        if known {
            return Err(Fault::new(
                ErrorCode::AlreadyExists,
                format!("there is an account {name}: choose another name"),
            ));
        }
        if count >= limits::REGISTRAR_ACCOUNTS_MAX {
            let most = limits::REGISTRAR_ACCOUNTS_MAX;
            return Err(Fault::full(
                Scope::Node,
                most,
                format!("the registrar has {most} accounts, which is its limit: remove some"),
            ));
        }
        let key = Secret::generate().map_err(no_entropy)?;
        let account = Account { name: name.to_owned(), sha256: key.sha256(), created_at: now };
        let change = entry(ACCOUNT, name, &account)?;
        self.change(&[change], |known| drop(known.accounts.insert(name.to_owned(), account.clone())))?;
        Ok((account, key))
    }

    /// Takes an account away; names that it registered stay.
    pub(crate) fn remove_account(&self, name: &str) -> Result<(), Fault> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.read(|known| known.accounts.contains_key(name)) {
            return Err(Fault::new(ErrorCode::UnknownTarget, format!("there is no account {name}")));
        }
        let change = AdminChange::Remove { kind: ACCOUNT.to_owned(), name: name.to_owned() };
        self.change(&[change], |known| drop(known.accounts.remove(name)))
    }

    /// All accounts.
    pub(crate) fn accounts(&self) -> Vec<Account> {
        self.read(|known| known.accounts.values().cloned().collect())
    }

    /// The account that a key is of.
    pub(crate) fn account_of(&self, sha256: &[u8; 32]) -> Option<String> {
        let account = |account: &&Account| same(&account.sha256, sha256);
        self.read(|known| known.accounts.values().find(account).map(|account| account.name.clone()))
    }
}

/// A key as it is stored: PEM, from PEM, a JWK or a multikey.
fn checked_key(text: &str) -> Result<String, Fault> {
    let key = PublicKey::parse(text).and_then(|key| key.to_pem());
    key.map_err(|error| {
        Fault::new(ErrorCode::InvalidArgument, format!("the public key: {error}")).field("public_key_pem")
    })
}

fn entry<T: Serialize>(kind: &str, name: &str, value: &T) -> Result<AdminChange, Fault> {
    let value = serde_json::to_vec(value).map_err(|_| Fault::from(ErrorCode::Internal))?;
    Ok(AdminChange::Put(AdminEntry { kind: kind.to_owned(), name: name.to_owned(), value }))
}

fn load(db: &AdminDb) -> Result<Known, StoreError> {
    let mut known = Known::default();
    for AdminEntry { kind, name, value } in db.entries()? {
        let bad = |what: &str| StoreError::damaged("admin.db".as_ref(), 0, format!("its {kind} {name:?} {what}"));
        match kind.as_str() {
            NAME => {
                let record = serde_json::from_slice(&value).map_err(|_| bad("cannot be read"))?;
                known.names.insert(name, Arc::new(record));
            }
            ACCOUNT => {
                let account = serde_json::from_slice(&value).map_err(|_| bad("cannot be read"))?;
                known.accounts.insert(name, account);
            }
            KEY => {
                let StoredKey { pem, created_at, retired_at } =
                    serde_json::from_slice(&value).map_err(|_| bad("cannot be read"))?;
                let pair = KeyPair::from_pem(&pem).map_err(|_| bad("is no key"))?;
                known.keys.insert(name, Arc::new(SigningKey { pair, created_at, retired_at }));
            }
            _ => return Err(bad("is of a kind that a newer version wrote")),
        }
    }
    Ok(known)
}

/// The name that a `did:openagents` is of.
pub(crate) fn name_of(did: &str) -> Result<String, Fault> {
    match Did::parse(did) {
        Ok(Did::Registered(method, name)) if method == "openagents" => Ok(name),
        Ok(_) | Err(_) => Err(Fault::new(ErrorCode::UnknownTarget, "no such DID is registered here")),
    }
}
