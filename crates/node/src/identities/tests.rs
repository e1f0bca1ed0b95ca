//! What the registrar and the sources keep to, by a driven clock and without a connection.

use super::registrar::Registrar;
use super::sources::{KeySource, Sources};
use super::*;
use crate::clock::DrivenClock;
use rialto_identity::KeyPair;
use std::sync::atomic::AtomicUsize;

const NOW: u64 = 1_800_000_000_000;

fn named(name: &str) -> NewName {
    NewName { name: name.to_owned(), ..NewName::default() }
}

#[test]
fn names_are_given_out_once_in_any_case() {
    let registrar = Registrar::over(Ok(AdminDb::in_memory()));
    let (record, key) = registrar.register(named("Ann-1"), None, NOW).unwrap();
    assert_eq!(registrar.by_api_key(&key.sha256()).unwrap().name, "Ann-1");
    for taken in ["Ann-1", "ann-1", "ANN-1"] {
        assert_eq!(registrar.register(named(taken), None, NOW).unwrap_err().code, ErrorCode::AlreadyExists);
    }
    assert!(registrar.record("ann-1").is_err(), "a name is written one way");
    for bad in ["an", "-ann", "a nn", "ann.x", "ann@org", "名前前", &"a".repeat(65)] {
        assert_eq!(registrar.register(named(bad), None, NOW).unwrap_err().code, ErrorCode::InvalidArgument, "{bad}");
    }
    registrar.revoke("Ann-1").unwrap();
    assert_eq!(registrar.register(named("ann-1"), None, NOW).unwrap_err().code, ErrorCode::AlreadyExists);
    assert!(registrar.by_api_key(&key.sha256()).is_none());
    assert_eq!(registrar.document("Ann-1", false).unwrap()["deactivated"], true);
    assert_eq!(record.serial, "00000001");
}

#[test]
fn what_a_name_says_of_itself_is_bounded() {
    let registrar = Registrar::over(Ok(AdminDb::in_memory()));
    let long = "x".repeat(limits::REGISTRAR_TEXT_CHARS_MAX + 1);
    let refused = registrar.register(NewName { bio: Some(long), ..named("ann") }, None, NOW);
    assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidArgument);
    let tags = vec!["t".to_owned(); limits::REGISTRAR_SERVICES_MAX + 1];
    assert!(registrar.register(NewName { tags, ..named("ann") }, None, NOW).is_err());
    registrar.register(named("ann"), None, NOW).unwrap();
    let service = rialto_identity::did::document::NetworkService {
        id: "did:openagents:ann#network-1".to_owned(),
        endpoint: "https://x.example".to_owned(),
        network: "x1".to_owned(),
        address: None,
        transport: None,
    };
    let services = vec![service; limits::REGISTRAR_SERVICES_MAX + 1];
    assert_eq!(registrar.set_services("ann", services).unwrap_err().code, ErrorCode::InvalidArgument);
}

#[test]
fn names_and_accounts_have_an_end() {
    let registrar = Registrar::over(Ok(AdminDb::in_memory()));
    for n in 0..limits::REGISTRAR_ACCOUNTS_MAX {
        registrar.add_account(&format!("account-{n}"), NOW).unwrap();
    }
    assert_eq!(registrar.add_account("more", NOW).unwrap_err().code, ErrorCode::NetworkFull);
    for n in 0..limits::REGISTRAR_NAMES_MAX {
        registrar.register(named(&format!("name-{n}")), None, NOW).unwrap();
    }
    assert_eq!(registrar.register(named("one-more"), None, NOW).unwrap_err().code, ErrorCode::NetworkFull);
}

#[test]
fn a_retired_key_verifies_for_a_day() {
    let registrar = Registrar::over(Ok(AdminDb::in_memory()));
    let day = 24 * 3_600_000;
    let keys = |now: u64| registrar.keys(now).unwrap().to_json()["keys"].as_array().unwrap().len();
    assert_eq!(keys(NOW), 1);
    let kid = registrar.rotate_signing_key(NOW).unwrap();
    assert_eq!((keys(NOW), keys(NOW + day - 1), keys(NOW + day)), (2, 2, 1));
    assert!(registrar.keys(NOW + day).unwrap().has(&kid));
}

#[test]
fn records_that_cannot_be_read_give_nothing_out() {
    let registrar = Registrar::over(Err(StoreError::Closed));
    assert!(registrar.damage().is_some());
    assert!(registrar.has_key("anybody"), "a name may be somebody's");
    assert_eq!(registrar.record("ann").unwrap_err().code, ErrorCode::RegistrarUnavailable);
    assert_eq!(registrar.register(named("ann"), None, NOW).unwrap_err().code, ErrorCode::StorageUnavailable);
}

/// Answers from a list, and counts how often it is asked.
#[derive(Debug, Default)]
struct Shelf {
    says: Mutex<Option<Result<Vec<u8>, FetchError>>>,
    asked: AtomicUsize,
}

impl Fetch for Shelf {
    fn get<'f>(&'f self, _: &'f str, bytes_max: usize) -> Fetching<'f> {
        assert_eq!(bytes_max, limits::IDENTITY_DOCUMENT_BYTES_MAX);
        self.asked.fetch_add(1, Ordering::Relaxed);
        let said = self.says.lock().unwrap().clone();
        Box::pin(async move { said.unwrap_or(Err(FetchError::Unreachable("nobody".to_owned()))) })
    }
}

#[tokio::test]
async fn key_sets_are_kept_renewed_and_given_up() {
    let shelf = Arc::new(Shelf::default());
    let sources = Sources::default();
    sources.fetch_through(shelf.clone());
    let clock = DrivenClock::at(NOW);
    let source = KeySource::Url("https://id.example/jwks.json".to_owned());
    let pair = KeyPair::generate(Algorithm::Ed25519).unwrap();
    let kid = pair.public().thumbprint();
    let asked = || shelf.asked.load(Ordering::Relaxed);
    let unavailable = sources.keys(&source, None, clock.now()).await.unwrap_err();
    assert_eq!((unavailable.code, asked()), (ErrorCode::RegistrarUnavailable, 1));
    let set = rialto_identity::KeySet::of([pair.public().clone()]).to_json().to_string();
    *shelf.says.lock().unwrap() = Some(Ok(set.into_bytes()));
    for _ in 0..3 {
        assert!(sources.keys(&source, Some(&kid), clock.now()).await.unwrap().has(&kid));
    }
    assert_eq!(asked(), 2, "kept for ten minutes");
    // An unknown key has it asked for again, once a minute.
    for _ in 0..3 {
        sources.keys(&source, Some("other"), clock.now()).await.unwrap();
    }
    assert_eq!(asked(), 2);
    clock.pass(60_000);
    for _ in 0..3 {
        sources.keys(&source, Some("other"), clock.now()).await.unwrap();
    }
    assert_eq!(asked(), 3);
    // Setting the wall clock changes nothing.
    clock.leap(i64::try_from(NOW).unwrap());
    sources.keys(&source, Some(&kid), clock.now()).await.unwrap();
    assert_eq!(asked(), 3);
    *shelf.says.lock().unwrap() = Some(Err(FetchError::Unreachable("gone".to_owned())));
    clock.pass(600_000);
    assert!(sources.keys(&source, Some(&kid), clock.now()).await.is_ok(), "used while it cannot be had");
    assert_eq!(asked(), 4);
    clock.pass(3_600_000);
    let given_up = sources.keys(&source, Some(&kid), clock.now()).await.unwrap_err();
    assert_eq!(given_up.code, ErrorCode::RegistrarUnavailable);
}

#[tokio::test]
async fn documents_are_kept_for_a_while_and_what_is_wrong_is_refused() {
    let shelf = Arc::new(Shelf::default());
    let sources = Sources::default();
    sources.fetch_through(shelf.clone());
    let clock = DrivenClock::at(NOW);
    let did = "did:web:example.com";
    let get = async |did: &str| sources.document(did, "https://example.com", clock.now()).await.map(|_| ());
    let code = |result: Result<(), Fault>| result.err().map(|fault| fault.code);
    for (error, expected) in [
        (FetchError::Unreachable("x".to_owned()), ErrorCode::RegistrarUnavailable),
        (FetchError::NotThere(404), ErrorCode::VerificationFailed),
        (FetchError::Refused("a private host".to_owned()), ErrorCode::VerificationFailed),
    ] {
        *shelf.says.lock().unwrap() = Some(Err(error));
        assert_eq!(code(get(did).await), Some(expected));
    }
    *shelf.says.lock().unwrap() = Some(Ok(br#"{"id":"did:web:other.example"}"#.to_vec()));
    assert_eq!(code(get(did).await), Some(ErrorCode::VerificationFailed));
    *shelf.says.lock().unwrap() = Some(Ok(br#"{"id":"did:web:example.com"}"#.to_vec()));
    let before = shelf.asked.load(Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(code(get(did).await), None);
    }
    assert_eq!(shelf.asked.load(Ordering::Relaxed), before + 1);
    clock.pass(300_000);
    assert_eq!(code(get(did).await), None);
    assert_eq!(shelf.asked.load(Ordering::Relaxed), before + 2);
    // However many there are, only so many are kept.
    for n in 0..=limits::RESOLVED_KEPT_MAX {
        let did = format!("did:web:h{n}.example");
        *shelf.says.lock().unwrap() = Some(Ok(format!("{{\"id\":\"{did}\"}}").into_bytes()));
        assert_eq!(code(get(&did).await), None);
    }
}

#[tokio::test]
async fn only_so_many_tokens_are_remembered() {
    let identities = Identities::default();
    for n in 0..=limits::PROVED_TOKENS_MAX {
        identities.see_bearer(&Secret::presented(format!("aa.bb.c{n:09}"))).await;
    }
    assert!(identities.0.tokens.read().unwrap().len() <= limits::PROVED_TOKENS_MAX);
}
