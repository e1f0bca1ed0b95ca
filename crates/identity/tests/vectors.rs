//! The examples of the specification, as data in `vectors/identity.json`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

use rialto_identity::key::decode_base64;
use rialto_identity::{Algorithm, ChallengeText, Jwk, KeyPair, KeySet, PublicKey, challenge, jwt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../vectors/identity.json")).unwrap()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn the_challenge_of_the_sheet() {
    let all = vectors();
    let v = &all["challenge"];
    let pair = KeyPair::from_ed25519_seed(&bytes(text(v, "seed")).try_into().unwrap()).unwrap();
    assert_eq!(pair.public().to_jwk().x.as_deref(), v["x"].as_str());
    assert_eq!(pair.public().to_multikey().as_deref(), v["multikey"].as_str());
    let nonce = challenge::nonce(&bytes(text(v, "nonce_bytes")).try_into().unwrap());
    let at = v["expires_at"].as_u64().unwrap();
    let challenge = ChallengeText::of_join(text(v, "network"), text(v, "address"), &nonce, at);
    assert_eq!(challenge.bytes().len() as u64, v["bytes"].as_u64().unwrap());
    assert_eq!(Sha256::digest(challenge.bytes()).as_slice(), bytes(text(v, "sha256")));
    let signature = decode_base64(text(v, "signature")).unwrap();
    assert_eq!(pair.sign(challenge.bytes()).unwrap(), signature);
    assert!(pair.public().verifies(challenge.bytes(), &signature));
    assert_eq!(decode_base64(&challenge.to_base64()).unwrap(), challenge.bytes());
    for other in [
        ChallengeText::of_join("a1b2c3d5", text(v, "address"), &nonce, at),
        ChallengeText::of_join(text(v, "network"), "openagents:charlie124", &nonce, at),
        ChallengeText::of_join(text(v, "network"), text(v, "address"), &nonce, at + 1),
        ChallengeText::of_registrar("openagents", "charlie123", &nonce, at),
    ] {
        assert!(!pair.public().verifies(other.bytes(), &signature));
    }
    for cut in 0..signature.len() {
        assert!(!pair.public().verifies(challenge.bytes(), &signature[..cut]), "cut to {cut}");
    }
}

#[test]
fn the_jwt_of_the_sheet_verifies_inside_its_validity() {
    let all = vectors();
    let v = &all["jwt"];
    let keys = KeySet::parse(
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": all["challenge"]["x"], "kid": v["kid"] }] })
            .to_string()
            .as_bytes(),
    );
    let keys = keys.unwrap();
    let at = |seconds: u64| jwt::verify(text(v, "token"), &keys, text(v, "issuer"), seconds * 1000);
    let (from, until) = (v["not_before"].as_u64().unwrap(), v["expires_at"].as_u64().unwrap());
    let claims = at(from).unwrap();
    assert_eq!(claims.subject, text(v, "subject"));
    assert_eq!((claims.level, claims.expires_at), (2, until));
    assert!(claims.audience.unwrap().contains(text(v, "audience")));
    assert!(at(from - jwt::SKEW_SECONDS).is_ok() && at(until + jwt::SKEW_SECONDS - 1).is_ok());
    assert_eq!(at(from - jwt::SKEW_SECONDS - 1).unwrap_err(), jwt::JwtError::NotYet);
    assert_eq!(at(until + jwt::SKEW_SECONDS).unwrap_err(), jwt::JwtError::Expired);
    assert_eq!(
        jwt::verify(text(v, "token"), &keys, "https://other.example", from * 1000).unwrap_err(),
        jwt::JwtError::Issuer
    );
}

#[test]
fn thumbprints_are_those_of_the_rfcs() {
    let all = vectors();
    let v = &all["thumbprint"];
    let rsa = json!({ "kty": "RSA", "n": v["rsa_n"], "e": v["rsa_e"] });
    let rsa: Jwk = serde_json::from_value(rsa).unwrap();
    assert_eq!(PublicKey::from_jwk(&rsa).unwrap().thumbprint(), text(v, "rsa"));
    let ed = json!({ "kty": "OKP", "crv": "Ed25519", "x": all["challenge"]["x"] });
    assert_eq!(PublicKey::parse(&ed.to_string()).unwrap().thumbprint(), text(v, "ed25519"));
}

#[test]
fn keys_of_openssl_are_read_sign_and_verify() {
    let all = vectors();
    let message = text(&all["openssl"], "message").as_bytes();
    for v in all["openssl"]["keys"].as_array().unwrap() {
        let name = text(v, "algorithm");
        let public = PublicKey::parse(text(v, "public")).unwrap();
        assert_eq!(public.algorithm(), Algorithm::from_name(name).unwrap());
        let signature = decode_base64(text(v, "signature")).unwrap();
        assert!(public.verifies(message, &signature), "{name}");
        assert!(!public.verifies(b"massage", &signature), "{name}");
        assert!(!public.verifies(message, &signature[..signature.len() - 1]), "{name}");
        let pair = KeyPair::from_pem(text(v, "private")).unwrap();
        assert_eq!(*pair.public(), public, "{name}");
        assert!(public.verifies(message, &pair.sign(message).unwrap()), "{name}");
        assert_eq!(public.to_pem().unwrap(), text(v, "public"), "{name}");
        assert_eq!(PublicKey::from_jwk(&public.to_jwk()).unwrap(), public, "{name}");
        assert_eq!(public.to_multikey().map(|text| PublicKey::parse(&text).unwrap()).unwrap_or(public.clone()), public);
        let again = KeyPair::from_pem(pair.to_pem().unwrap().expose()).unwrap();
        assert_eq!(again.public(), &public, "{name}");
        assert!(!format!("{pair:?}").contains("PRIVATE"), "{name}");
    }
    for v in all["openssl"]["refused"].as_array().unwrap() {
        assert!(PublicKey::parse(text(v, "public")).is_err(), "{}", text(v, "why"));
    }
}

#[test]
fn made_keys_work() {
    for algorithm in [Algorithm::Ed25519, Algorithm::Es256] {
        let pair = KeyPair::generate(algorithm).unwrap();
        let signature = pair.sign(b"x").unwrap();
        assert_eq!(signature.len(), 64);
        assert!(pair.public().verifies(b"x", &signature));
        assert!(!KeyPair::generate(algorithm).unwrap().public().verifies(b"x", &signature));
    }
    assert!(KeyPair::generate(Algorithm::Rs256).is_err());
}
