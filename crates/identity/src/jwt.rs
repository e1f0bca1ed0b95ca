//! JWTs: what is verified of one, and how our registrar makes them (OpenAgents sheet, section 3.3).
//!
//! The signature is checked by the JOSE crate; the key comes from the registrar's set and from nowhere else: `jku`, `jwk`, `x5u` and `x5c` of
//! a header are not looked at. Time comes in.
//! Not here: which registrar a token is of, and what its audience has to be.

use crate::algorithm::Algorithm;
use crate::jose;
use crate::jwks::KeySet;
use crate::key::{PublicKey, decode_base64};
use crate::signing::{KeyPair, KeyPairError};
use jsonwebtoken::{EncodingKey, Header, Validation, crypto, dangerous};
use serde::{Deserialize, Serialize};

/// Longest token that is looked at.
pub const JWT_BYTES_MAX: usize = crate::bearer::BEARER_BYTES_MAX;
/// Clocks may differ by so much.
pub const SKEW_SECONDS: u64 = 60;
/// A token lives at most so long.
pub const LIFETIME_SECONDS_MAX: u64 = 24 * 3600;

/// What a header says that counts here.
#[derive(Debug, Deserialize)]
struct JoseHeader {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

/// One audience, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Audience {
    /// Whether this is one of them.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::One(one) => one == name,
            Self::Many(many) => many.iter().any(|one| one == name),
        }
    }
}

/// A number of seconds, whole or not: some issuers write fractions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Seconds(f64);

impl Seconds {
    /// None for what is no time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    fn whole(self) -> Option<u64> {
        (0.0..=9e15).contains(&self.0).then_some(self.0 as u64)
    }
}

#[derive(Debug, Clone, Deserialize)]
struct RawClaims {
    iss: Option<String>,
    sub: Option<String>,
    exp: Option<Seconds>,
    iat: Option<Seconds>,
    nbf: Option<Seconds>,
    aud: Option<Audience>,
    jti: Option<String>,
    #[serde(rename = "agentName")]
    agent_name: Option<String>,
    #[serde(rename = "verificationLevel")]
    level: Option<u64>,
    #[serde(rename = "verification_level")]
    level_too: Option<u64>,
    #[serde(rename = "keyThumbprint")]
    key_thumbprint: Option<String>,
}

/// What a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whose it is, as it says: an address or a bare name.
    pub subject: String,
    /// The name it says besides.
    pub agent_name: Option<String>,
    /// Until when, seconds.
    pub expires_at: u64,
    /// Since when, seconds.
    pub issued_at: u64,
    /// For whom.
    pub audience: Option<Audience>,
    /// Its id.
    pub id: Option<String>,
    /// The level it speaks of; never more than 2.
    pub level: u8,
    /// Of our registrar's: the key that its subject proved.
    pub key_thumbprint: Option<String>,
    /// The key that signed it.
    pub signed_by: String,
}

/// Why a token is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwtError {
    /// Not three parts with a header and claims that can be read.
    #[error("it cannot be read: a JWT is three parts of base64url, with a header and claims that are JSON objects")]
    Unreadable,
    /// Signed in a way that is not taken.
    #[error("its algorithm is none of RS256, ES256 and EdDSA")]
    Algorithm,
    /// Its header names extensions.
    #[error("its header has `crit`, and no extension is known here")]
    Critical,
    /// No key of the set fits.
    #[error("its key is unknown: no key of the registrar fits its kid and algorithm")]
    UnknownKey,
    /// The signature does not hold.
    #[error("its signature does not hold")]
    Signature,
    /// Made by somebody else.
    #[error("its issuer is not the registrar of that prefix")]
    Issuer,
    /// A claim that has to be there is not.
    #[error("it lacks the claim {0}")]
    Missing(&'static str),
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// It is of the future.
    #[error("it is not valid yet")]
    NotYet,
    /// It lives too long.
    #[error("it lives longer than {LIFETIME_SECONDS_MAX} seconds")]
    Lifetime,
}

/// What of a token may be read before it is verified: only to find out which keys to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unverified {
    /// Whose it says it is.
    pub subject: String,
    /// By whom it says it was made.
    pub issuer: Option<String>,
    /// The key it names.
    pub kid: Option<String>,
}

/// Reads what a token claims, believing none of it.
pub fn peek(token: &str) -> Result<Unverified, JwtError> {
    let header = header(token)?;
    let claims: RawClaims = dangerous::insecure_decode_claims(token).map_err(|_| JwtError::Unreadable)?;
    let subject = claims.sub.ok_or(JwtError::Missing("sub"))?;
    Ok(Unverified { subject, issuer: claims.iss, kid: header.kid })
}

fn header(token: &str) -> Result<JoseHeader, JwtError> {
    if token.len() > JWT_BYTES_MAX || !crate::bearer::is_jwt(token) {
        return Err(JwtError::Unreadable);
    }
    let text = token.split('.').next().and_then(decode_base64).ok_or(JwtError::Unreadable)?;
    serde_json::from_slice(&text).map_err(|_| JwtError::Unreadable)
}

/// Verifies a token with the keys of a registrar; `now` is in milliseconds.
pub fn verify(token: &str, keys: &KeySet, issuer: &str, now: u64) -> Result<Claims, JwtError> {
    jose::install();
    let header = header(token)?;
    let algorithm = match header.alg.as_str() {
        "RS256" => Algorithm::Rs256,
        "ES256" => Algorithm::Es256,
        "EdDSA" | "Ed25519" => Algorithm::Ed25519,
        _ => return Err(JwtError::Algorithm),
    };
    if header.crit.is_some() {
        return Err(JwtError::Critical);
    }
    let key = keys.choose(header.kid.as_deref(), algorithm).ok_or(JwtError::UnknownKey)?;
    let claims = signed_claims(token, key, algorithm, header.alg == "Ed25519")?;
    if claims.iss.as_deref() != Some(issuer) {
        return Err(JwtError::Issuer);
    }
    let time = |claim: Option<Seconds>, name| match claim {
        None => Ok(None),
        Some(seconds) => seconds.whole().map(Some).ok_or(JwtError::Missing(name)),
    };
    let now = now / 1000;
    let expires_at = time(claims.exp, "exp")?.ok_or(JwtError::Missing("exp"))?;
    let issued_at = time(claims.iat, "iat")?.ok_or(JwtError::Missing("iat"))?;
    if expires_at + SKEW_SECONDS <= now {
        return Err(JwtError::Expired);
    }
    if issued_at.max(time(claims.nbf, "nbf")?.unwrap_or(0)) > now + SKEW_SECONDS {
        return Err(JwtError::NotYet);
    }
    if expires_at.saturating_sub(issued_at) > LIFETIME_SECONDS_MAX {
        return Err(JwtError::Lifetime);
    }
    let level = claims.level.or(claims.level_too).unwrap_or(2);
    Ok(Claims {
        subject: claims.sub.ok_or(JwtError::Missing("sub"))?,
        agent_name: claims.agent_name,
        expires_at,
        issued_at,
        audience: claims.aud,
        id: claims.jti,
        level: u8::try_from(level.min(2)).unwrap_or(2),
        key_thumbprint: claims.key_thumbprint,
        signed_by: key.thumbprint(),
    })
}

/// The claims of a token whose signature holds.
fn signed_claims(token: &str, key: &PublicKey, algorithm: Algorithm, alias: bool) -> Result<RawClaims, JwtError> {
    let key = jose::decoding_key(key);
    if alias {
        // The crate has no name for `Ed25519` (RFC 9864): its verifier is asked itself.
        let (message, signature) = token.rsplit_once('.').ok_or(JwtError::Unreadable)?;
        let holds = crypto::verify(signature, message.as_bytes(), &key, algorithm.jose());
        return match holds {
            Ok(true) => dangerous::insecure_decode_claims(token).map_err(|_| JwtError::Unreadable),
            Ok(false) | Err(_) => Err(JwtError::Signature),
        };
    }
    // Times and audiences are judged here, by a clock that comes in.
    let mut validation = Validation::new(algorithm.jose());
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    jsonwebtoken::decode::<RawClaims>(token, &key, &validation).map(|data| data.claims).map_err(|error| {
        if matches!(error.kind(), jsonwebtoken::errors::ErrorKind::Json(_)) {
            JwtError::Unreadable
        } else {
            JwtError::Signature
        }
    })
}

/// What our registrar says in a token.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the names of the claims")]
pub struct Issued<'a> {
    pub iss: &'a str,
    pub sub: &'a str,
    #[serde(rename = "agentName")]
    pub agent_name: &'a str,
    #[serde(rename = "verificationLevel")]
    pub level: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<&'a str>,
    pub iat: u64,
    pub exp: u64,
    pub jti: &'a str,
    /// The key that was proved: a token ends with it.
    #[serde(rename = "keyThumbprint")]
    pub key_thumbprint: &'a str,
}

/// Makes a token; `kid` is the thumbprint of the key.
pub fn issue(claims: &Issued<'_>, key: &KeyPair) -> Result<String, KeyPairError> {
    jose::install();
    let algorithm = key.public().algorithm().jose();
    let header = Header { kid: Some(key.public().thumbprint()), ..Header::new(algorithm) };
    let signing = match key.public() {
        PublicKey::Ed25519(_) => EncodingKey::from_ed_der(key.pkcs8()),
        PublicKey::P256(_) => EncodingKey::from_ec_der(key.pkcs8()),
        PublicKey::Rsa { .. } => EncodingKey::from_rsa_der(key.pkcs8()),
    };
    jsonwebtoken::encode(&header, claims, &signing).map_err(|_| KeyPairError::Unreadable)
}
