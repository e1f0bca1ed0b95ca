//! Public keys: Ed25519, RSA and P-256, in the forms that records, key sets and DID documents have them.
//!
//! Invariant: a [`PublicKey`] is one that can verify: the point is on the curve, the modulus has a size that is taken.
//! Not here: private keys (`signing`).

use crate::algorithm::Algorithm;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::elliptic_curve::sec1::ToSec1Point;
use pkcs8::der::asn1::{Any, AnyRef, BitStringRef, ObjectIdentifier, UintRef};
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Document, Encode};
use pkcs8::spki::{AlgorithmIdentifier, SubjectPublicKeyInfo, SubjectPublicKeyInfoRef};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Longest text of a key that is looked at: an RSA key of 8192 bits as PEM, and some room.
pub const KEY_BYTES_MAX: usize = 8 << 10;
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;
const MULTICODEC_ED25519: [u8; 2] = [0xed, 0x01];
const MULTICODEC_P256: [u8; 2] = [0x80, 0x24];
const OID_ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const OID_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const OID_EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const OID_P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");

/// A key that verifies signatures.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum PublicKey {
    /// 32 bytes.
    Ed25519([u8; 32]),
    /// Modulus and exponent, big-endian without leading zeros.
    Rsa {
        /// Modulus.
        n: Box<[u8]>,
        /// Public exponent.
        e: Box<[u8]>,
    },
    /// A point, uncompressed: 4, x, y.
    P256([u8; 65]),
}

/// Why a key is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Neither PEM nor JWK nor multikey of a kind that is known.
    #[error("this is no public key that is read here: Ed25519, RSA or P-256, as PEM (SPKI), JWK or multikey")]
    Unreadable,
    /// The private half was sent.
    #[error("this is a private key: keep it, and show the public one")]
    Private,
    /// An RSA modulus outside of the sizes that are taken.
    #[error("an RSA key has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")]
    RsaSize,
    /// Coordinates that are no point of the curve.
    #[error("the point is not on the curve P-256")]
    NotOnCurve,
    /// The text is longer than [`KEY_BYTES_MAX`].
    #[error("a key is at most {KEY_BYTES_MAX} bytes")]
    TooLong,
}

/// A public key as JSON (RFC 7517). Private members are read so that they can be refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jwk {
    /// Kind of key: `OKP`, `RSA`, `EC`.
    pub kty: String,
    /// Curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// First coordinate, or the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Second coordinate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// Modulus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// Exponent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// What it signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// What it is for.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub key_use: Option<String>,
    /// Its name in its set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// There is a private half.
    #[serde(default, skip_serializing)]
    d: Option<PrivateMember>,
}

/// Stands for a private member of a key, whatever it says: its text is not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PrivateMember;

impl<'de> Deserialize<'de> for PrivateMember {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(d).map(|_| PrivateMember)
    }
}

impl PublicKey {
    /// How it signs.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::Ed25519,
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
        }
    }

    /// Reads a key in any text form: PEM, JWK, multikey.
    pub fn parse(text: &str) -> Result<PublicKey, KeyError> {
        if text.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong);
        }
        let text = text.trim();
        if text.starts_with("-----BEGIN") {
            PublicKey::from_pem(text)
        } else if text.starts_with('{') {
            let jwk: Jwk = serde_json::from_str(text).map_err(|_| KeyError::Unreadable)?;
            PublicKey::from_jwk(&jwk)
        } else {
            PublicKey::from_multikey(text)
        }
    }

    /// Reads `-----BEGIN PUBLIC KEY-----` (SPKI) or `-----BEGIN RSA PUBLIC KEY-----`.
    pub fn from_pem(pem: &str) -> Result<PublicKey, KeyError> {
        if pem.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong);
        }
        if pem.contains("PRIVATE KEY") {
            return Err(KeyError::Private);
        }
        let (label, document) = Document::from_pem(pem.trim()).map_err(|_| KeyError::Unreadable)?;
        match label {
            "PUBLIC KEY" => PublicKey::from_spki(document.as_bytes()),
            "RSA PUBLIC KEY" => PublicKey::from_pkcs1(document.as_bytes()),
            _ => Err(KeyError::Unreadable),
        }
    }

    /// Reads DER (SPKI).
    pub fn from_spki(der: &[u8]) -> Result<PublicKey, KeyError> {
        let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| KeyError::Unreadable)?;
        let bits = info.subject_public_key.as_bytes().ok_or(KeyError::Unreadable)?;
        match info.algorithm.oid {
            OID_ED25519 => bits.try_into().map(Self::Ed25519).map_err(|_| KeyError::Unreadable),
            OID_RSA => PublicKey::from_pkcs1(bits),
            OID_EC if info.algorithm.parameters_oid() == Ok(OID_P256) => PublicKey::from_point(bits),
            _ => Err(KeyError::Unreadable),
        }
    }

    pub(crate) fn from_pkcs1(der: &[u8]) -> Result<PublicKey, KeyError> {
        let key = pkcs1::RsaPublicKey::<UintRef<'_>>::from_der(der).map_err(|_| KeyError::Unreadable)?;
        PublicKey::rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes())
    }

    fn rsa(n: &[u8], e: &[u8]) -> Result<PublicKey, KeyError> {
        let trimmed = |bytes: &[u8]| -> Box<[u8]> { bytes.iter().copied().skip_while(|b| *b == 0).collect() };
        let (n, e) = (trimmed(n), trimmed(e));
        let leading = n.first().map_or(0, |first| first.leading_zeros() as usize);
        let bits = (n.len() * 8).saturating_sub(leading);
        let odd = |bytes: &[u8]| bytes.last().is_some_and(|last| last & 1 == 1);
        if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
            return Err(KeyError::RsaSize);
        }
        // The exponent 1 would verify anything.
        if !odd(&n) || !odd(&e) || e.len() > 5 || *e == [1] {
            return Err(KeyError::Unreadable);
        }
        Ok(Self::Rsa { n, e })
    }

    /// A point, compressed or not.
    fn from_point(bytes: &[u8]) -> Result<PublicKey, KeyError> {
        let key = p256::PublicKey::from_sec1_bytes(bytes).map_err(|_| KeyError::NotOnCurve)?;
        key.to_sec1_point(false).as_bytes().try_into().map(Self::P256).map_err(|_| KeyError::NotOnCurve)
    }

    /// Reads a JWK. Its `alg`, if it has one, must be the one its kind of key signs with.
    pub fn from_jwk(jwk: &Jwk) -> Result<PublicKey, KeyError> {
        if jwk.d.is_some() {
            return Err(KeyError::Private);
        }
        let part = |text: &Option<String>| -> Result<Vec<u8>, KeyError> {
            let text = text.as_deref().filter(|text| text.len() <= KEY_BYTES_MAX).ok_or(KeyError::Unreadable)?;
            decode_base64(text).ok_or(KeyError::Unreadable)
        };
        let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => {
                Self::Ed25519(part(&jwk.x)?.as_slice().try_into().map_err(|_| KeyError::Unreadable)?)
            }
            ("RSA", None) => PublicKey::rsa(&part(&jwk.n)?, &part(&jwk.e)?)?,
            ("EC", Some("P-256")) => {
                let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
                if x.len() != 32 || y.len() != 32 {
                    return Err(KeyError::Unreadable);
                }
                PublicKey::from_point(&[&[4][..], &x, &y].concat())?
            }
            _ => return Err(KeyError::Unreadable),
        };
        match jwk.alg.as_deref().map(Algorithm::from_name) {
            None => Ok(key),
            Some(algorithm) if algorithm == Some(key.algorithm()) => Ok(key),
            Some(_) => Err(KeyError::Unreadable),
        }
    }

    /// As a JWK without names.
    pub fn to_jwk(&self) -> Jwk {
        let text = |bytes: &[u8]| Some(URL_SAFE_NO_PAD.encode(bytes));
        let half = |range: std::ops::Range<usize>, point: &[u8; 65]| text(point.get(range).unwrap_or_default());
        match self {
            Self::Ed25519(x) => {
                Jwk { kty: "OKP".to_owned(), crv: Some("Ed25519".to_owned()), x: text(x), ..Jwk::default() }
            }
            Self::Rsa { n, e } => Jwk { kty: "RSA".to_owned(), n: text(n), e: text(e), ..Jwk::default() },
            Self::P256(point) => Jwk {
                kty: "EC".to_owned(),
                crv: Some("P-256".to_owned()),
                x: half(1..33, point),
                y: half(33..65, point),
                ..Jwk::default()
            },
        }
    }

    /// As PEM (SPKI).
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let info = |oid, parameters, bits: &[u8]| {
            let subject_public_key = BitStringRef::from_bytes(bits).map_err(|_| KeyError::Unreadable)?;
            let info: SubjectPublicKeyInfo<Any, BitStringRef<'_>> =
                SubjectPublicKeyInfo { algorithm: AlgorithmIdentifier { oid, parameters }, subject_public_key };
            Document::encode_msg(&info).map_err(|_| KeyError::Unreadable)
        };
        let document = match self {
            Self::Ed25519(key) => info(OID_ED25519, None, key)?,
            Self::P256(point) => info(OID_EC, Some(Any::from(OID_P256)), point)?,
            Self::Rsa { .. } => info(OID_RSA, Some(AnyRef::NULL.into()), &self.pkcs1()?)?,
        };
        document.to_pem("PUBLIC KEY", LineEnding::LF).map_err(|_| KeyError::Unreadable)
    }

    fn pkcs1(&self) -> Result<Vec<u8>, KeyError> {
        let Self::Rsa { n, e } = self else { return Err(KeyError::Unreadable) };
        let part = |bytes| UintRef::new(bytes).map_err(|_| KeyError::Unreadable);
        let key = pkcs1::RsaPublicKey { modulus: part(n)?, public_exponent: part(e)? };
        key.to_der().map_err(|_| KeyError::Unreadable)
    }

    /// Reads `z6Mk…` (Ed25519) or `zDn…` (P-256): multibase base58btc of a multicodec.
    pub fn from_multikey(text: &str) -> Result<PublicKey, KeyError> {
        let text = text.strip_prefix('z').filter(|text| text.len() <= 128).ok_or(KeyError::Unreadable)?;
        let bytes = bs58::decode(text).into_vec().map_err(|_| KeyError::Unreadable)?;
        let (codec, key) = bytes.split_first_chunk().ok_or(KeyError::Unreadable)?;
        match *codec {
            MULTICODEC_ED25519 => key.try_into().map(Self::Ed25519).map_err(|_| KeyError::Unreadable),
            MULTICODEC_P256 if key.len() == 33 => PublicKey::from_point(key),
            _ => Err(KeyError::Unreadable),
        }
    }

    /// As a multikey; RSA keys have none here.
    pub fn to_multikey(&self) -> Option<String> {
        let text =
            |codec: [u8; 2], key: &[u8]| Some(format!("z{}", bs58::encode([&codec[..], key].concat()).into_string()));
        match self {
            Self::Ed25519(key) => text(MULTICODEC_ED25519, key),
            Self::P256(point) => {
                let (x, y) = point.split_first().map(|(_, xy)| xy.split_at(32))?;
                let sign = 2 + (y.last()? & 1);
                text(MULTICODEC_P256, &[&[sign][..], x].concat())
            }
            Self::Rsa { .. } => None,
        }
    }

    /// RFC 7638: SHA-256 over the members that make the key, in base64url.
    pub fn thumbprint(&self) -> String {
        let jwk = self.to_jwk();
        // The members stand in the order of their names, without spaces; none of their texts needs an escape.
        let text = match (&jwk.crv, &jwk.x, &jwk.y, &jwk.n, &jwk.e) {
            (Some(crv), Some(x), None, ..) => format!(r#"{{"crv":"{crv}","kty":"{}","x":"{x}"}}"#, jwk.kty),
            (Some(crv), Some(x), Some(y), ..) => {
                format!(r#"{{"crv":"{crv}","kty":"{}","x":"{x}","y":"{y}"}}"#, jwk.kty)
            }
            (.., n, e) => {
                let (n, e) = (n.as_deref().unwrap_or_default(), e.as_deref().unwrap_or_default());
                format!(r#"{{"e":"{e}","kty":"{}","n":"{n}"}}"#, jwk.kty)
            }
        };
        URL_SAFE_NO_PAD.encode(Sha256::digest(text))
    }

    /// Whether the bytes were signed with its private half. P-256 signatures are 64 bytes r‖s, or DER.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::P256(point) if signature.len() != 64 => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
            }
            Self::P256(_) | Self::Ed25519(_) | Self::Rsa { .. } => self.verifies_jws(message, signature),
        }
    }

    /// The same for a JWT, where P-256 signatures are 64 bytes.
    pub(crate) fn verifies_jws(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature),
            Self::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Self::P256(point) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
        }
        .is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.thumbprint())
    }
}

/// Base64 or base64url, padded or not.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text: String = text
        .trim_end_matches('=')
        .chars()
        .map(|c| match c {
            '+' => '-',
            '/' => '_',
            c => c,
        })
        .collect();
    URL_SAFE_NO_PAD.decode(text).ok()
}
