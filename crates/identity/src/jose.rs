//! The JOSE crate on this tree's cryptography (`ring`): three algorithms, public keys to verify and our own to sign. It is given no shared
//! secrets, so that a public key can never be used as one.

use crate::algorithm::Algorithm;
use crate::key::PublicKey;
use crate::signing;
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use std::sync::Once;

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| {
        let algorithm = Algorithm::from_jose(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
        if key.family() != algorithm.jose().family() {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        Ok(Box::new(Signing { algorithm, key: key.clone() }))
    },
    verifier_factory: |algorithm, key| {
        let algorithm = Algorithm::from_jose(*algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
        let key = public(key).filter(|key| key.algorithm() == algorithm).ok_or(ErrorKind::InvalidKeyFormat)?;
        Ok(Box::new(Verifying(key)))
    },
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(unsupported()),
        rsa_pub_components_from_public_key: |_| Err(unsupported()),
        ec_pub_components_from_private_key: |_, _| Err(unsupported()),
        ed_pub_components_from_private_key: |_, _| Err(unsupported()),
        compute_digest: |_, _| Err(unsupported()),
    },
};

fn unsupported() -> Error {
    ErrorKind::UnsupportedAlgorithm.into()
}

/// Makes the crate use it; whoever is first in the process does.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Only this crate uses the JOSE crate, so nobody else was first.
        let _ = PROVIDER.install_default();
    });
}

/// A key as the crate has it.
pub(crate) fn decoding_key(key: &PublicKey) -> DecodingKey {
    match key {
        PublicKey::Ed25519(bytes) => DecodingKey::from_ed_der(bytes),
        PublicKey::Rsa { n, e } => DecodingKey::from_rsa_raw_components(n, e),
        PublicKey::P256(point) => DecodingKey::from_ec_der(point),
    }
}

fn public(key: &DecodingKey) -> Option<PublicKey> {
    match (key.family(), key.kind()) {
        (AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(bytes)) => {
            bytes.as_slice().try_into().ok().map(PublicKey::Ed25519)
        }
        (AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(bytes)) => {
            bytes.as_slice().try_into().ok().map(PublicKey::P256)
        }
        (AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            Some(PublicKey::Rsa { n: n.as_slice().into(), e: e.as_slice().into() })
        }
        (AlgorithmFamily::Hmac | AlgorithmFamily::Ed | AlgorithmFamily::Ec | AlgorithmFamily::Rsa, _) => None,
    }
}

struct Verifying(PublicKey);

impl Verifier<Vec<u8>> for Verifying {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        if self.0.verifies_jws(message, signature) { Ok(()) } else { Err(signature::Error::new()) }
    }
}

impl JwtVerifier for Verifying {
    fn algorithm(&self) -> jsonwebtoken::Algorithm {
        self.0.algorithm().jose()
    }
}

struct Signing {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer<Vec<u8>> for Signing {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        signing::sign(self.algorithm, self.key.as_bytes(), message).map_err(|_| signature::Error::new())
    }
}

impl JwtSigner for Signing {
    fn algorithm(&self) -> jsonwebtoken::Algorithm {
        self.algorithm.jose()
    }
}
