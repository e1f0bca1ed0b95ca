//! Key pairs: what an agent, a person or a registrar signs with.
//!
//! Invariant: the private half leaves only as PEM by [`KeyPair::to_pem`], for the one file that its owner keeps it in, and never prints.

use crate::algorithm::Algorithm;
use crate::key::{KEY_BYTES_MAX, KeyError, PublicKey};
use crate::secret::{NoEntropy, Secret};
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Encode, SecretDocument};
use pkcs8::spki::AlgorithmIdentifier;
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use std::fmt;

const OID_ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const OID_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const OID_EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// A private key with its public half.
pub struct KeyPair {
    pkcs8: SecretDocument,
    public: PublicKey,
}

impl KeyPair {
    /// A new key. RSA keys are not made here; those that exist can be read.
    pub fn generate(algorithm: Algorithm) -> Result<KeyPair, KeyPairError> {
        match algorithm {
            Algorithm::Ed25519 => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|_| NoEntropy)?;
                KeyPair::from_ed25519_seed(&seed)
            }
            Algorithm::Es256 => {
                let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
                KeyPair::from_pkcs8(made.map_err(|_| NoEntropy)?.as_ref())
            }
            Algorithm::Rs256 => Err(KeyPairError::NotMade),
        }
    }

    /// The Ed25519 key of a seed.
    pub fn from_ed25519_seed(seed: &[u8; 32]) -> Result<KeyPair, KeyPairError> {
        let inner = OctetStringRef::new(seed).and_then(|seed| seed.to_der()).map_err(|_| KeyError::Unreadable)?;
        let private_key = OctetStringRef::new(&inner).map_err(|_| KeyError::Unreadable)?;
        let info = PrivateKeyInfoRef::new(AlgorithmIdentifier { oid: OID_ED25519, parameters: None }, private_key);
        let pkcs8 = SecretDocument::encode_msg(&info).map_err(|_| KeyError::Unreadable)?;
        KeyPair::from_pkcs8(pkcs8.as_bytes())
    }

    /// Reads `-----BEGIN PRIVATE KEY-----` (PKCS #8, not encrypted).
    pub fn from_pem(pem: &str) -> Result<KeyPair, KeyPairError> {
        if pem.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong.into());
        }
        match SecretDocument::from_pem(pem.trim()) {
            Ok(("PRIVATE KEY", document)) => KeyPair::from_pkcs8(document.as_bytes()),
            Ok(_) | Err(_) => Err(KeyPairError::Unreadable),
        }
    }

    /// Reads DER (PKCS #8).
    pub fn from_pkcs8(der: &[u8]) -> Result<KeyPair, KeyPairError> {
        let info = PrivateKeyInfoRef::from_der(der).map_err(|_| KeyPairError::Unreadable)?;
        let public = match info.algorithm.oid {
            OID_ED25519 => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(|_| KeyPairError::Unreadable)?;
                PublicKey::Ed25519(pair.public_key().as_ref().try_into().map_err(|_| KeyPairError::Unreadable)?)
            }
            OID_EC => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new());
                let pair = pair.map_err(|_| KeyPairError::Unreadable)?;
                PublicKey::P256(pair.public_key().as_ref().try_into().map_err(|_| KeyPairError::Unreadable)?)
            }
            OID_RSA => {
                let pair = RsaKeyPair::from_pkcs8(der).map_err(|_| KeyPairError::Unreadable)?;
                PublicKey::from_pkcs1(pair.public_key().as_ref())?
            }
            _ => return Err(KeyPairError::Unreadable),
        };
        let pkcs8 = SecretDocument::try_from(der).map_err(|_| KeyPairError::Unreadable)?;
        Ok(KeyPair { pkcs8, public })
    }

    /// The private key as PEM: for the file that its owner keeps it in.
    pub fn to_pem(&self) -> Result<Secret, KeyPairError> {
        let pem = self.pkcs8.to_pem("PRIVATE KEY", LineEnding::LF).map_err(|_| KeyPairError::Unreadable)?;
        Ok(Secret::presented(pem.as_str()))
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        self.pkcs8.as_bytes()
    }

    /// Signs bytes; P-256 signatures are 64 bytes r‖s.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyPairError> {
        sign(self.public.algorithm(), self.pkcs8(), message)
    }
}

/// Signs with a key in PKCS #8.
pub(crate) fn sign(algorithm: Algorithm, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, KeyPairError> {
    let chance = SystemRandom::new();
    match algorithm {
        Algorithm::Ed25519 => {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map_err(|_| KeyPairError::Unreadable)?;
            Ok(pair.sign(message).as_ref().to_vec())
        }
        Algorithm::Es256 => {
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &chance);
            let pair = pair.map_err(|_| KeyPairError::Unreadable)?;
            Ok(pair.sign(&chance, message).map_err(|_| NoEntropy)?.as_ref().to_vec())
        }
        Algorithm::Rs256 => {
            let pair = RsaKeyPair::from_pkcs8(pkcs8).map_err(|_| KeyPairError::Unreadable)?;
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &chance, message, &mut signature).map_err(|_| NoEntropy)?;
            Ok(signature)
        }
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Why there is no key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyPairError {
    /// Not a private key that is read here.
    #[error(
        "this is no private key that is read here: Ed25519, RSA (2048 to 4096 bits) or P-256, as PEM (PKCS #8), without a password"
    )]
    Unreadable,
    /// RSA keys are read, not made.
    #[error("RSA keys are not made here: make one with openssl and import it, or choose ed25519 or p256")]
    NotMade,
    /// Its public half is not one that is taken.
    #[error(transparent)]
    Public(#[from] KeyError),
    /// The system has no randomness.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
}
