//! Bodies and answers of the registrar's calls (sheet section 3.6), in the words that its clients use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who wants a challenge to join.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ChallengeBody {
    /// The network to join, by id or name.
    #[serde(default)]
    pub network: Option<String>,
    /// The address to join under.
    #[schemars(example = &"openagents:cleo")]
    pub agent_id: String,
    /// How the key signs, where no registrar says it: `Ed25519`, `RS256` or `ES256`.
    #[serde(default)]
    pub algorithm: Option<String>,
}

/// A name to register.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct RegisterNameBody {
    /// The name: 3 to 64 letters, digits, `_` and `-`.
    pub agent_name: String,
    /// Where it comes from.
    #[serde(default)]
    pub origin: Option<String>,
    /// What it is called.
    #[serde(default)]
    pub display_name: Option<String>,
    /// What it says of itself.
    #[serde(default)]
    pub bio: Option<String>,
    /// Words for it.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Its public key: PEM, JWK or multikey.
    #[serde(default)]
    pub public_key_pem: Option<String>,
}

/// A name that was registered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RegisteredName {
    /// The name.
    pub agent_name: String,
    /// Its address.
    pub agent_id: String,
    /// Its API key, shown this once.
    pub api_key: String,
    /// Number of its registration.
    pub cert_serial: String,
    /// Where its DID document is.
    pub public_profile_url: String,
    /// Where it comes from, as it says.
    pub origin: Option<String>,
    /// When it was registered, ISO 8601.
    pub created_at: String,
}

/// A name to claim with its key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimNameBody {
    /// The name.
    pub agent_name: String,
    /// Its public key.
    pub public_key_pem: String,
    /// `global`; nothing else is offered.
    #[serde(default)]
    pub namespace_type: Option<String>,
    /// Names of organisations are not given out.
    #[serde(default)]
    pub org: Option<String>,
}

/// A name that was claimed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedName {
    /// The name.
    pub agent_name: String,
    /// None.
    pub org: Option<String>,
    /// None: there are no certificates.
    pub cert_pem: Option<String>,
    /// Number of its registration.
    pub serial: String,
    /// `active`.
    pub status: String,
}

/// A name as it was registered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameInfo {
    /// The name.
    pub agent_name: String,
    /// None.
    pub org: Option<String>,
    /// `active`, or `revoked`.
    pub status: String,
    /// Its public key.
    pub public_key_pem: Option<String>,
    /// Number of its registration.
    pub serial: String,
    /// How its key signs.
    pub algorithm: Option<String>,
}

/// Who wants a challenge of the registrar.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameChallengeBody {
    /// The name.
    pub agent_name: String,
    /// How its key signs.
    pub algorithm: String,
    /// Names of organisations are not given out.
    #[serde(default)]
    pub org: Option<String>,
}

/// A challenge of the registrar.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameChallenge {
    /// What is signed, in base64.
    pub challenge: String,
    /// Names the challenge; it works once.
    pub nonce: String,
    /// How it is signed.
    pub algorithm: String,
    /// Seconds that it is good for.
    pub expires_in: u64,
}

/// An answer to a challenge of the registrar, for a token.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameTokenBody {
    /// The name.
    pub agent_name: String,
    /// The challenge.
    pub nonce: String,
    /// Its bytes, signed.
    pub signature: String,
    /// Names of organisations are not given out.
    #[serde(default)]
    pub org: Option<String>,
    /// For whom the token is: the id of a network.
    #[serde(default)]
    pub audience: Option<String>,
}

/// A token.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameToken {
    /// The token.
    pub access_token: String,
    /// `bearer`.
    pub token_type: String,
    /// Seconds that it is good for.
    pub expires_in: u64,
    /// 2.
    pub verification_level: u8,
}

/// A token to look at.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct VerifyTokenBody {
    /// The token.
    pub token: String,
}

/// What a token is worth.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenVerdict {
    /// Whether it holds.
    pub valid: bool,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// None.
    pub org: Option<String>,
    /// Until when, ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The level it proves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_level: Option<u8>,
    /// Why it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An API key to look at.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct VerifyKeyBody {
    /// The key.
    pub api_key: String,
}

/// What an API key is worth.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KeyVerdict {
    /// Whether it is one.
    pub valid: bool,
    /// Of which name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
}

/// Who acts on a name, where no Bearer shows it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NameActBody {
    /// The name.
    pub agent_name: String,
    /// The new public key, where the key is replaced.
    #[serde(default)]
    pub public_key_pem: Option<String>,
    /// A challenge of the registrar, answered with the key in use.
    #[serde(default)]
    pub nonce: Option<String>,
    /// Its bytes, signed.
    #[serde(default)]
    pub signature: Option<String>,
}

/// Where a DID can be met.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ServicesBody {
    /// Entries of a DID document, of type `OpenAgentsNetwork`.
    pub service: Vec<Map<String, Value>>,
}

/// A DID document (W3C).
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DidDocumentBody {
    /// Contexts.
    #[serde(rename = "@context")]
    pub context: Vec<String>,
    /// The DID.
    pub id: String,
    /// Its keys.
    #[serde(rename = "verificationMethod")]
    pub methods: Vec<Map<String, Value>>,
    /// The keys that prove it.
    pub authentication: Vec<String>,
    /// The keys that sign for it.
    #[serde(rename = "assertionMethod")]
    pub assertion: Vec<String>,
    /// Where it can be met.
    pub service: Vec<Map<String, Value>>,
    /// It was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deactivated: Option<bool>,
}

/// Keys (RFC 7517).
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KeySetBody {
    /// The keys.
    pub keys: Vec<Map<String, Value>>,
}

/// An account that may register names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "RegistrarAccount")]
pub struct AccountView {
    /// Its name.
    pub name: String,
}

/// Accounts that may register names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "RegistrarAccounts")]
pub struct AccountList {
    /// The accounts.
    pub accounts: Vec<AccountView>,
}

/// An account to make.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct AccountBody {
    /// Its name.
    pub name: String,
}

/// An account that was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MadeAccount {
    /// Its name.
    pub name: String,
    /// Its key, shown this once.
    pub key: String,
}

/// The key that tokens are signed with from here on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RotatedKey {
    /// Its name in the key set.
    pub kid: String,
}

/// A key to pin.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct PinKeyBody {
    /// The public key: PEM, JWK or multikey.
    pub public_key: String,
}

/// A name whose key was pinned, or is not any more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PinnedKey {
    /// The name.
    pub address: String,
    /// Whether a key is pinned to it.
    pub pinned: bool,
}
