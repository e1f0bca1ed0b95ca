//! Tokens and documents that must be refused, each for its reason.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use rialto_identity::did::document::{METHODS_MAX, SERVICE_TYPE};
use rialto_identity::did::{DidDocument, DocumentError};
use rialto_identity::jwt::{self, JwtError, LIFETIME_SECONDS_MAX, SKEW_SECONDS};
use rialto_identity::{Algorithm, KeyPair, KeySet, PublicKey};
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://id.example";

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token with any header, signed as it should be.
fn signed(pair: &KeyPair, header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(message.as_bytes()).unwrap());
    format!("{message}.{signature}")
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "openagents:ann", "iat": NOW, "exp": NOW + 3600 })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn verify(token: &str, keys: &KeySet) -> Result<jwt::Claims, JwtError> {
    jwt::verify(token, keys, ISSUER, NOW * 1000)
}

fn pairs() -> Vec<KeyPair> {
    let vectors: Value = serde_json::from_str(include_str!("../../../vectors/identity.json")).unwrap();
    let keys = vectors["openssl"]["keys"].as_array().unwrap().clone();
    keys.iter().map(|key| KeyPair::from_pem(key["private"].as_str().unwrap()).unwrap()).collect()
}

fn header(pair: &KeyPair) -> Value {
    json!({ "alg": pair.public().algorithm().jws_name(), "kid": pair.public().thumbprint(), "typ": "JWT" })
}

fn set(pairs: &[KeyPair]) -> KeySet {
    KeySet::of(pairs.iter().map(|pair| pair.public().clone()))
}

#[test]
fn tokens_of_the_three_algorithms_verify() {
    let pairs = pairs();
    let keys = set(&pairs);
    for pair in &pairs {
        let claims = verify(&signed(pair, &header(pair), &claims()), &keys).unwrap();
        assert_eq!((claims.subject.as_str(), claims.level), ("openagents:ann", 2));
        assert_eq!(claims.signed_by, pair.public().thumbprint());
    }
    // Without a kid only where one key fits.
    let one = signed(&pairs[0], &json!({ "alg": "EdDSA" }), &claims());
    assert!(verify(&one, &keys).is_ok());
    let other = KeyPair::generate(Algorithm::Ed25519).unwrap();
    let two = KeySet::of([pairs[0].public().clone(), other.public().clone()]);
    assert_eq!(verify(&one, &two).unwrap_err(), JwtError::UnknownKey);
    // The other name of EdDSA.
    let alias = json!({ "alg": "Ed25519", "kid": pairs[0].public().thumbprint() });
    assert!(verify(&signed(&pairs[0], &alias, &claims()), &keys).is_ok());
    let forged = signed(&other, &alias, &claims());
    assert_eq!(verify(&forged, &keys).unwrap_err(), JwtError::Signature);
    for (level, expected) in [(json!(1), 1), (json!(2), 2), (json!(3), 2), (json!(0), 0)] {
        let token = signed(&pairs[0], &header(&pairs[0]), &with("verificationLevel", level));
        assert_eq!(verify(&token, &keys).unwrap().level, expected);
    }
}

#[test]
fn what_our_registrar_issues_verifies() {
    let pair = KeyPair::generate(Algorithm::Ed25519).unwrap();
    let issued = jwt::Issued {
        iss: ISSUER,
        sub: "openagents:ann",
        agent_name: "ann",
        level: 2,
        aud: Some("a1b2c3d4"),
        iat: NOW,
        exp: NOW + 3600,
        jti: "1",
        key_thumbprint: "t",
    };
    let token = jwt::issue(&issued, &pair).unwrap();
    let claims = verify(&token, &KeySet::of([pair.public().clone()])).unwrap();
    assert_eq!(claims.key_thumbprint.as_deref(), Some("t"));
    assert_eq!(jwt::peek(&token).unwrap().kid, Some(pair.public().thumbprint()));
}

#[test]
fn forged_tokens_are_refused() {
    let pairs = pairs();
    let keys = set(&pairs);
    let (ed, rsa, p256) = (&pairs[0], &pairs[1], &pairs[2]);
    let good = signed(ed, &header(ed), &claims());
    let thief = KeyPair::generate(Algorithm::Ed25519).unwrap();
    let named = |alg: &str, pair: &KeyPair| json!({ "alg": alg, "kid": pair.public().thumbprint() });
    let hmac = |alg: &str, secret: &[u8]| {
        let message = format!("{}.{}", part(&named(alg, rsa)), part(&claims()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let tag = ring::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let unsigned = |alg: &str| format!("{}.{}.", part(&json!({ "alg": alg })), part(&claims()));
    let pem = rsa.public().to_pem().unwrap();
    let mut der_signed = signed(p256, &header(p256), &claims());
    let raw = p256.sign(b"something else").unwrap();
    der_signed.truncate(der_signed.rfind('.').unwrap() + 1);
    der_signed.push_str(&URL_SAFE_NO_PAD.encode(raw));
    let thief_jwk = json!(thief.public().to_jwk());
    let cut = &good[..good.len() - 4];
    let table: Vec<(&str, String, JwtError)> = vec![
        ("none", unsigned("none"), JwtError::Algorithm),
        ("None", unsigned("None"), JwtError::Algorithm),
        ("no signature", unsigned("EdDSA"), JwtError::Signature),
        ("HS256 with the public key", hmac("HS256", pem.as_bytes()), JwtError::Algorithm),
        ("HS256 with the thumbprint", hmac("HS256", rsa.public().thumbprint().as_bytes()), JwtError::Algorithm),
        ("HMAC that says RS256", hmac("RS256", pem.as_bytes()), JwtError::Signature),
        ("PS256", signed(rsa, &named("PS256", rsa), &claims()), JwtError::Algorithm),
        ("RS384", signed(rsa, &named("RS384", rsa), &claims()), JwtError::Algorithm),
        ("ES384", signed(p256, &named("ES384", p256), &claims()), JwtError::Algorithm),
        ("ES256K", signed(p256, &named("ES256K", p256), &claims()), JwtError::Algorithm),
        ("lower case", signed(rsa, &named("rs256", rsa), &claims()), JwtError::Algorithm),
        ("RS256 with an Ed25519 key", signed(rsa, &named("RS256", ed), &claims()), JwtError::UnknownKey),
        ("EdDSA with an RSA key", signed(ed, &named("EdDSA", rsa), &claims()), JwtError::UnknownKey),
        ("unknown kid", signed(ed, &json!({ "alg": "EdDSA", "kid": "x" }), &claims()), JwtError::UnknownKey),
        ("another's signature", signed(&thief, &header(ed), &claims()), JwtError::Signature),
        ("truncated signature", cut.to_owned(), JwtError::Signature),
        ("P-256 signature of something else", der_signed, JwtError::Signature),
        (
            "jwk in the header",
            signed(&thief, &json!({ "alg": "EdDSA", "jwk": thief_jwk }), &claims()),
            JwtError::Signature,
        ),
        (
            "jku in the header",
            signed(
                &thief,
                &json!({ "alg": "EdDSA", "kid": thief.public().thumbprint(), "jku": "https://thief.example/jwks.json" }),
                &claims(),
            ),
            JwtError::UnknownKey,
        ),
        (
            "x5u in the header",
            signed(&thief, &json!({ "alg": "EdDSA", "x5u": "https://thief.example" }), &claims()),
            JwtError::Signature,
        ),
        (
            "x5c in the header",
            signed(&thief, &json!({ "alg": "EdDSA", "x5c": ["AAAA"] }), &claims()),
            JwtError::Signature,
        ),
        (
            "crit",
            signed(
                ed,
                &json!({ "alg": "EdDSA", "kid": ed.public().thumbprint(), "crit": ["b64"], "b64": false }),
                &claims(),
            ),
            JwtError::Critical,
        ),
        (
            "empty crit",
            signed(ed, &json!({ "alg": "EdDSA", "kid": ed.public().thumbprint(), "crit": [] }), &claims()),
            JwtError::Critical,
        ),
        ("foreign issuer", signed(ed, &header(ed), &with("iss", json!("https://other.example"))), JwtError::Issuer),
        ("no issuer", signed(ed, &header(ed), &with("iss", Value::Null)), JwtError::Issuer),
        ("no subject", signed(ed, &header(ed), &with("sub", Value::Null)), JwtError::Missing("sub")),
        ("no exp", signed(ed, &header(ed), &with("exp", Value::Null)), JwtError::Missing("exp")),
        ("no iat", signed(ed, &header(ed), &with("iat", Value::Null)), JwtError::Missing("iat")),
        ("exp as a text", signed(ed, &header(ed), &with("exp", json!("soon"))), JwtError::Unreadable),
        ("negative exp", signed(ed, &header(ed), &with("exp", json!(-1))), JwtError::Missing("exp")),
        ("huge exp", signed(ed, &header(ed), &with("exp", json!(1e300))), JwtError::Missing("exp")),
        ("expired", signed(ed, &header(ed), &with("exp", json!(NOW - SKEW_SECONDS))), JwtError::Expired),
        ("from the future", signed(ed, &header(ed), &with("iat", json!(NOW + SKEW_SECONDS + 1))), JwtError::NotYet),
        ("not before", signed(ed, &header(ed), &with("nbf", json!(NOW + SKEW_SECONDS + 1))), JwtError::NotYet),
        (
            "too long a life",
            signed(ed, &header(ed), &with("exp", json!(NOW + LIFETIME_SECONDS_MAX + 1))),
            JwtError::Lifetime,
        ),
        ("two parts", "aa.bb".to_owned(), JwtError::Unreadable),
        ("four parts", format!("{good}.aa"), JwtError::Unreadable),
        ("padding", format!("{good}="), JwtError::Unreadable),
        ("claims that are a list", signed(ed, &header(ed), &json!([])), JwtError::Unreadable),
        ("too long", format!("{}.bb.cc", "a".repeat(jwt::JWT_BYTES_MAX)), JwtError::Unreadable),
    ];
    assert!(verify(&good, &keys).is_ok());
    // The set has one key of each kind, so a token without a kid meets the registrar's key, never its own.
    for (what, token, why) in table {
        assert_eq!(verify(&token, &keys).unwrap_err(), why, "{what}");
    }
}

#[test]
fn key_sets_leave_out_what_cannot_verify() {
    let ed = KeyPair::generate(Algorithm::Ed25519).unwrap();
    let jwk = json!(ed.public().to_jwk());
    let with = |name: &str, value: Value| {
        let mut key = jwk.clone();
        key[name] = value;
        json!({ "keys": [key] }).to_string()
    };
    let good = |text: &str| KeySet::parse(text.as_bytes()).unwrap().choose(None, Algorithm::Ed25519).is_some();
    assert!(
        good(&with("use", json!("sig"))) && good(&with("alg", json!("EdDSA"))) && good(&with("alg", json!("Ed25519")))
    );
    assert!(!good(&with("use", json!("enc"))));
    assert!(!good(&with("alg", json!("RS256"))));
    assert!(!good(&with("kty", json!("oct"))));
    for bad in ["", "[]", "{}", r#"{"keys":5}"#] {
        assert!(KeySet::parse(bad.as_bytes()).is_err(), "{bad}");
    }
    let many = json!({ "keys": vec![json!({}); rialto_identity::jwks::KEYS_MAX + 1] }).to_string();
    assert!(KeySet::parse(many.as_bytes()).is_err());
}

const DID: &str = "did:web:example.com";

fn document(change: impl Fn(&mut Value)) -> Result<DidDocument, DocumentError> {
    let key = PublicKey::parse("z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw").unwrap();
    let mut document = json!({
        "@context": ["https://www.w3.org/ns/did/v1"],
        "id": DID,
        "verificationMethod": [{ "id": format!("{DID}#key-1"), "type": "JsonWebKey2020", "controller": DID, "publicKeyJwk": key.to_jwk() }],
        "authentication": [format!("{DID}#key-1")],
    });
    change(&mut document);
    DidDocument::parse(document.to_string().as_bytes(), DID)
}

fn keys_of(change: impl Fn(&mut Value)) -> usize {
    document(change).unwrap().authentication.len()
}

#[test]
fn only_keys_for_authentication_count() {
    let multikey = "z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw";
    assert_eq!(keys_of(|_| ()), 1);
    assert_eq!(keys_of(|d| d["authentication"] = json!(["#key-1"])), 1);
    let embedded = json!({ "id": "#k", "type": "Multikey", "controller": DID, "publicKeyMultibase": multikey });
    assert_eq!(keys_of(|d| d["authentication"] = json!([embedded])), 1);
    assert_eq!(keys_of(|d| d["authentication"] = json!([])), 0);
    let assertion_only = |d: &mut Value| {
        d["assertionMethod"] = d["authentication"].clone();
        d["authentication"] = json!([]);
    };
    assert_eq!(keys_of(assertion_only), 0);
    assert_eq!(keys_of(|d| d["verificationMethod"][0]["controller"] = json!("did:web:other.example")), 0);
    assert_eq!(keys_of(|d| d["verificationMethod"][0]["controller"] = Value::Null), 0);
    assert_eq!(keys_of(|d| d["verificationMethod"][0]["type"] = json!("EcdsaSecp256k1VerificationKey2019")), 0);
    assert_eq!(keys_of(|d| d["authentication"] = json!(["did:web:other.example#key-1"])), 0);
    let pem = PublicKey::parse(multikey).unwrap().to_pem().unwrap();
    let kinds = [
        json!({ "type": "JsonWebKey2020", "publicKeyPem": pem }),
        json!({ "type": "Multikey", "publicKeyMultibase": multikey }),
        json!({ "type": "Ed25519VerificationKey2020", "publicKeyMultibase": multikey }),
        json!({ "type": "Ed25519VerificationKey2018", "publicKeyBase58": "FVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z" }),
        json!({ "type": "RsaVerificationKey2018", "publicKeyPem": pem }),
    ];
    for mut kind in kinds {
        kind["id"] = json!("#key-1");
        kind["controller"] = json!(DID);
        let found = document(|d| d["verificationMethod"] = json!([kind])).unwrap().authentication;
        assert_eq!(found.len(), 1, "{kind}");
        assert_eq!(found[0].key.to_multikey().as_deref(), Some(multikey), "{kind}");
    }
}

#[test]
fn documents_of_others_give_nothing() {
    assert_eq!(document(|d| d["id"] = json!("did:web:other.example")).unwrap_err(), DocumentError::OtherId);
    assert_eq!(document(|d| d["deactivated"] = json!(true)).unwrap_err(), DocumentError::Deactivated);
    let many = |d: &mut Value| d["authentication"] = json!(vec!["#key-1"; METHODS_MAX + 1]);
    assert_eq!(document(many).unwrap_err(), DocumentError::TooManyMethods);
    assert_eq!(DidDocument::parse(b"nothing", DID).unwrap_err(), DocumentError::Unreadable);
    let wrapped = json!({ "code": 0, "data": { "id": DID, "authentication": [] } }).to_string();
    assert!(DidDocument::parse(wrapped.as_bytes(), DID).is_ok());
    let resolved = json!({ "didDocument": { "id": DID }, "didDocumentMetadata": { "deactivated": true } }).to_string();
    assert_eq!(DidDocument::parse(resolved.as_bytes(), DID).unwrap_err(), DocumentError::Deactivated);
}

#[test]
fn networks_are_read_in_both_forms() {
    let services = json!([
        { "id": format!("{DID}#network-1"), "type": SERVICE_TYPE, "serviceEndpoint": { "network": "a1b2c3d4", "address": "openagents:ann", "transport": "https://one.example" } },
        { "id": format!("{DID}#network-2"), "type": SERVICE_TYPE, "serviceEndpoint": "https://two.example", "network": "b2", "address": "openagents:ann", "transport": "http" },
        { "id": format!("{DID}#other"), "type": "LinkedDomains", "serviceEndpoint": "https://x.example" },
        { "id": format!("{DID}#bad"), "type": SERVICE_TYPE, "serviceEndpoint": [] },
    ]);
    let networks = document(|d| d["service"] = services.clone()).unwrap().networks;
    let said: Vec<_> =
        networks.iter().map(|n| (n.network.as_str(), n.endpoint.as_str(), n.address.as_deref())).collect();
    let ann = Some("openagents:ann");
    assert_eq!(said, [("a1b2c3d4", "https://one.example", ann), ("b2", "https://two.example", ann)]);
}

proptest! {
    #[test]
    fn parsers_never_panic(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = jwt::peek(&text);
        let _ = verify(&format!("{}.{}.{}", URL_SAFE_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&bytes)), &KeySet::default());
        let _ = KeySet::parse(&bytes);
        let _ = DidDocument::parse(&bytes, DID);
        let _ = PublicKey::parse(&text);
        let _ = PublicKey::parse(&format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----"));
        let _ = PublicKey::from_spki(&bytes);
        let _ = KeyPair::from_pkcs8(&bytes);
        let _ = KeyPair::from_pem(&text);
    }
}
