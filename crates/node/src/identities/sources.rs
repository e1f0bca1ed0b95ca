//! What other registrars and DIDs publish: key sets, records and documents, fetched through the seam and kept for a while.
//!
//! Invariant: what cannot be had makes a proof unavailable, never weaker; what is kept is used beyond its time for key sets alone, and for
//! an hour at most.

use super::fetch::{Fetch, FetchError};
use rialto_engine::Clock;
use rialto_identity::{DidDocument, KeySet, PublicKey};
use rialto_model::{ErrorCode, Fault, Millis, limits};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A key set is good for so long.
const KEYS_FRESH_MS: Millis = 600_000;
/// It is fetched again for an unknown key once in so long.
const KEYS_AGAIN_MS: Millis = 60_000;
/// It is used for so long when it cannot be had anew.
const KEYS_STALE_MS: Millis = 3_600_000;
/// Documents and records are kept for so long.
const DOCUMENT_MS: Millis = 300_000;

/// Where a registrar's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// At a URL.
    Url(String),
    /// In a file, which is read again when its time is over.
    File(PathBuf),
}

#[derive(Debug, Clone)]
struct KeptKeys {
    keys: Arc<KeySet>,
    /// When they were had, monotonic time.
    at: Millis,
    /// When they were last asked for.
    asked: Millis,
}

/// What was fetched.
#[derive(Debug)]
pub(crate) struct Sources {
    fetch: RwLock<Arc<dyn Fetch>>,
    keys: Mutex<HashMap<String, KeptKeys>>,
    documents: Mutex<HashMap<String, (Millis, Arc<DidDocument>)>>,
}

impl Default for Sources {
    fn default() -> Sources {
        let fetch: Arc<dyn Fetch> = Arc::new(super::fetch::NoFetch);
        Sources { fetch: RwLock::new(fetch), keys: Mutex::default(), documents: Mutex::default() }
    }
}

/// What becomes of a proof when something of it cannot be fetched.
fn refused(what: &str, error: &FetchError) -> Fault {
    match error {
        FetchError::Unreachable(_) => {
            Fault::new(ErrorCode::RegistrarUnavailable, format!("{what} cannot be had now: {error}; try again later"))
        }
        FetchError::NotThere(_) | FetchError::Refused(_) => {
            Fault::new(ErrorCode::VerificationFailed, format!("{what} gives nothing: {error}"))
        }
    }
}

impl Sources {
    pub(crate) fn fetch_through(&self, fetch: Arc<dyn Fetch>) {
        *self.fetch.write().unwrap_or_else(PoisonError::into_inner) = fetch;
    }

    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let fetch = self.fetch.read().unwrap_or_else(PoisonError::into_inner).clone();
        fetch.get(url, limits::IDENTITY_DOCUMENT_BYTES_MAX).await
    }

    /// The keys of a registrar; asked again where the key of a token is not among them.
    pub(crate) async fn keys(&self, source: &KeySource, kid: Option<&str>, now: Clock) -> Result<Arc<KeySet>, Fault> {
        let name = match source {
            KeySource::Url(url) => url.clone(),
            KeySource::File(path) => path.display().to_string(),
        };
        let kept = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some(kept) = &kept {
            let is_fresh = now.steady < kept.at.saturating_add(KEYS_FRESH_MS);
            let lacks = kid.is_some_and(|kid| !kept.keys.has(kid));
            let may_ask = now.steady >= kept.asked.saturating_add(KEYS_AGAIN_MS);
            if is_fresh && !lacks || !may_ask && now.steady < kept.at.saturating_add(KEYS_STALE_MS) {
                return Ok(kept.keys.clone());
            }
        }
        let got = match source {
            KeySource::Url(url) => self.get(url).await,
            KeySource::File(path) => read_file(path.clone()).await,
        };
        let parsed =
            got.and_then(|text| KeySet::parse(&text).map_err(|error| FetchError::Unreachable(error.to_string())));
        let mut all = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match (parsed, kept) {
            (Ok(keys), _) => {
                let keys = Arc::new(keys);
                all.insert(name, KeptKeys { keys: keys.clone(), at: now.steady, asked: now.steady });
                Ok(keys)
            }
            (Err(error), Some(kept)) if now.steady < kept.at.saturating_add(KEYS_STALE_MS) => {
                tracing::warn!(%error, source = name, "a registrar's keys cannot be had: those of before are used");
                let keys = kept.keys.clone();
                all.insert(name, KeptKeys { asked: now.steady, ..kept });
                Ok(keys)
            }
            (Err(error), _) => {
                tracing::warn!(%error, source = name, "a registrar's keys cannot be had");
                // Whatever its own answer says: without keys nothing can be verified, and nothing is.
                let text = format!("the registrar's keys cannot be had now: {error}; try again later");
                Err(Fault::new(ErrorCode::RegistrarUnavailable, text))
            }
        }
    }

    /// The document of a DID.
    pub(crate) async fn document(&self, did: &str, url: &str, now: Clock) -> Result<Arc<DidDocument>, Fault> {
        let kept = self.documents.lock().unwrap_or_else(PoisonError::into_inner).get(did).cloned();
        if let Some((_, document)) = kept.filter(|(at, _)| now.steady < at.saturating_add(DOCUMENT_MS)) {
            return Ok(document);
        }
        let text = self.get(url).await.map_err(|error| refused("the DID's document", &error))?;
        let document = DidDocument::parse(&text, did).map_err(|error| {
            Fault::new(ErrorCode::VerificationFailed, format!("the DID's document gives nothing: {error}"))
        })?;
        let document = Arc::new(document);
        let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        if documents.len() >= limits::RESOLVED_KEPT_MAX {
            documents.clear();
        }
        documents.insert(did.to_owned(), (now.steady, document.clone()));
        Ok(document)
    }

    /// The key of a name at another registrar. It is asked for with every proof: what is revoked there counts at once.
    pub(crate) async fn record(&self, base_url: &str, name: &str) -> Result<PublicKey, Fault> {
        #[derive(Deserialize)]
        struct Record {
            status: Option<String>,
            #[serde(rename = "publicKeyPem")]
            key: Option<String>,
            algorithm: Option<String>,
        }
        let url = format!("{}/v1/agent-ids/{name}", base_url.trim_end_matches('/'));
        let text = self.get(&url).await.map_err(|error| refused("the registrar's record", &error))?;
        let failed = |what: &str| Fault::new(ErrorCode::VerificationFailed, format!("the registrar's record {what}"));
        let mut answer: Value = serde_json::from_slice(&text).map_err(|_| failed("cannot be read"))?;
        let answer = answer.get_mut("data").map(Value::take).unwrap_or(answer);
        let record: Record = serde_json::from_value(answer).map_err(|_| failed("cannot be read"))?;
        if record.status.as_deref() != Some("active") {
            return Err(failed("is not active"));
        }
        let key = PublicKey::from_pem(record.key.as_deref().ok_or_else(|| failed("has no public key"))?)
            .map_err(|error| failed(&format!("has no key that can be read: {error}")))?;
        match record.algorithm.as_deref().map(rialto_identity::Algorithm::from_name) {
            None => Ok(key),
            Some(algorithm) if algorithm == Some(key.algorithm()) => Ok(key),
            Some(_) => Err(failed("names another algorithm than its key signs with")),
        }
    }
}

async fn read_file(path: PathBuf) -> Result<Vec<u8>, FetchError> {
    let read = tokio::task::spawn_blocking(move || {
        let size = std::fs::metadata(&path)?.len();
        if size > limits::IDENTITY_DOCUMENT_BYTES_MAX as u64 {
            return Err(std::io::Error::other("the file is too large"));
        }
        std::fs::read(&path)
    });
    let read = read.await.map_err(|error| FetchError::Unreachable(error.to_string()))?;
    read.map_err(|error| FetchError::Unreachable(error.to_string()))
}
