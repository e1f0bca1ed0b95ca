//! DID documents: which methods may prove the DID, and where its networks are.

use crate::key::{Jwk, PublicKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Methods tried when a proof does not say which; a document that lists more is refused.
pub const METHODS_MAX: usize = 8;
/// Service entries that are read; more are refused.
pub const SERVICES_MAX: usize = 64;
/// What names a network in a DID document.
pub const SERVICE_TYPE: &str = "OpenAgentsNetwork";

/// A key that proves the DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Its id, absolute.
    pub id: String,
    /// The key.
    pub key: PublicKey,
}

/// Where a DID can be met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkService {
    /// Id of the entry, absolute.
    pub id: String,
    /// Where: the URL of the network.
    pub endpoint: String,
    /// The network's id.
    pub network: String,
    /// The member's address there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What the endpoint speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
}

/// What a DID document says that counts here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DidDocument {
    /// Whose it is.
    pub id: String,
    /// Keys under `authentication`.
    pub authentication: Vec<Method>,
    /// Networks it says it is in.
    pub networks: Vec<NetworkService>,
}

/// Why a document gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Not a DID document.
    #[error("it is no DID document")]
    Unreadable,
    /// It is somebody else's.
    #[error("its id is not the DID that was asked for")]
    OtherId,
    /// It was deactivated.
    #[error("the DID is deactivated")]
    Deactivated,
    /// Too many keys under `authentication`.
    #[error("it lists more than {METHODS_MAX} methods under authentication")]
    TooManyMethods,
}

impl DidDocument {
    /// Reads the document of a DID; also one in the wrapper of a registrar, or in the answer of a resolver.
    pub fn parse(text: &[u8], did: &str) -> Result<DidDocument, DocumentError> {
        let mut value: Value = serde_json::from_slice(text).map_err(|_| DocumentError::Unreadable)?;
        let deactivated = |value: &Value| value.get("deactivated").and_then(Value::as_bool) == Some(true);
        if value.get("didDocumentMetadata").is_some_and(deactivated) {
            return Err(DocumentError::Deactivated);
        }
        if value.get("id").is_none() {
            let inner = ["data", "didDocument"].into_iter().find_map(|name| value.get_mut(name).map(Value::take));
            value = inner.ok_or(DocumentError::Unreadable)?;
        }
        if deactivated(&value) {
            return Err(DocumentError::Deactivated);
        }
        let id = value.get("id").and_then(Value::as_str).ok_or(DocumentError::Unreadable)?;
        if id != did {
            return Err(DocumentError::OtherId);
        }
        let list = |name: &str| value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let listed = list("authentication");
        if listed.len() > METHODS_MAX {
            return Err(DocumentError::TooManyMethods);
        }
        let absolute = |id: &str| if id.starts_with('#') { format!("{did}{id}") } else { id.to_owned() };
        let known = list("verificationMethod");
        let authentication = listed.iter().filter_map(|entry| {
            let method = match entry.as_str() {
                Some(reference) => {
                    let named =
                        |m: &&Value| m.get("id").and_then(Value::as_str).map(absolute) == Some(absolute(reference));
                    known.iter().take(SERVICES_MAX).find(named)?
                }
                // A key of its own.
                None => entry,
            };
            let method = method.as_object()?;
            let text = |name: &str| method.get(name).and_then(Value::as_str);
            let key = (text("controller") == Some(did)).then(|| method_key(method)).flatten()?;
            Some(Method { id: absolute(text("id")?), key })
        });
        let networks = list("service").iter().take(SERVICES_MAX).filter_map(network_service);
        Ok(DidDocument { id: did.to_owned(), authentication: authentication.collect(), networks: networks.collect() })
    }
}

/// The key of a method, by its type.
fn method_key(method: &Map<String, Value>) -> Option<PublicKey> {
    let text = |name: &str| method.get(name).and_then(Value::as_str);
    let kind = text("type")?;
    let ed25519 = |key: &PublicKey| matches!(key, PublicKey::Ed25519(_));
    match kind {
        "JsonWebKey" | "JsonWebKey2020" => {
            let jwk = method.get("publicKeyJwk").map(|jwk| serde_json::from_value::<Jwk>(jwk.clone()));
            match jwk {
                Some(jwk) => PublicKey::from_jwk(&jwk.ok()?).ok(),
                None => PublicKey::from_pem(text("publicKeyPem")?).ok(),
            }
        }
        "Multikey" => PublicKey::from_multikey(text("publicKeyMultibase")?).ok(),
        "Ed25519VerificationKey2020" => PublicKey::from_multikey(text("publicKeyMultibase")?).ok().filter(ed25519),
        "Ed25519VerificationKey2018" => {
            let bytes = bs58::decode(text("publicKeyBase58").filter(|text| text.len() <= 64)?).into_vec().ok()?;
            bytes.as_slice().try_into().ok().map(PublicKey::Ed25519)
        }
        _ => PublicKey::from_pem(text("publicKeyPem")?).ok(),
    }
}

/// A service entry that names a network, in the seed's form (the endpoint is an object) or the registrar's (it is a string).
fn network_service(entry: &Value) -> Option<NetworkService> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    if entry.get("type").and_then(Value::as_str) != Some(SERVICE_TYPE) {
        return None;
    }
    let id = text(entry, "id")?;
    match entry.get("serviceEndpoint")? {
        Value::String(endpoint) => Some(NetworkService {
            id,
            endpoint: endpoint.clone(),
            network: text(entry, "network")?,
            address: text(entry, "address"),
            transport: text(entry, "transport"),
        }),
        Value::Object(fields) => {
            let fields = Value::Object(fields.clone());
            // In the seed's example the transport is the URL.
            let is_url = |text: &String| text.contains("://");
            let named = |name: &str| text(&fields, name);
            Some(NetworkService {
                id,
                endpoint: ["uri", "transport", "address"].into_iter().filter_map(named).find(is_url)?,
                network: named("network")?,
                address: named("address").filter(|address| !is_url(address)),
                transport: named("transport").filter(|transport| !is_url(transport)),
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}
