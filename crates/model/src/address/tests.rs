use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Vectors {
    own_network: NetworkId,
    valid: Vec<Valid>,
    invalid: Vec<String>,
    did: Vec<Did>,
    no_did: Vec<String>,
    uri: Vec<Uri>,
    uri_accepted: Vec<Uri>,
    uri_refused: Vec<String>,
}

#[derive(Deserialize)]
struct Valid {
    input: String,
    canonical: String,
    network: Option<String>,
    path: Option<String>,
    registrar: Option<String>,
    special: Option<String>,
}

#[derive(Deserialize)]
struct Did {
    address: String,
    did: String,
}

#[derive(Deserialize)]
struct Uri {
    address: String,
    uri: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../../vectors/addresses.json")).unwrap()
}

#[test]
fn valid_vectors_parse_to_their_canonical_form() {
    let vectors = vectors();
    assert_eq!(vectors.valid.len(), 32);
    for case in &vectors.valid {
        let address = Address::parse_in(&case.input, &vectors.own_network)
            .unwrap_or_else(|error| panic!("{:?}: {error}", case.input));
        assert_eq!(address.as_str(), case.canonical, "{:?}", case.input);
        assert_eq!(address.to_string(), case.canonical);
        assert_eq!(address.network(), case.network.as_deref(), "{:?}", case.input);
        assert_eq!(address.is_foreign(), case.network.is_some());
        let special = case.special.as_deref();
        assert_eq!(address.is_core(), special == Some("core"));
        assert_eq!(address.is_broadcast(), special == Some("broadcast"));
        if let Some(path) = &case.path {
            let kind = ResourceKind::File;
            assert_eq!(address.entity(), Entity::Resource { kind, path });
        }
        if let Some(prefix) = &case.registrar {
            assert!(matches!(address.entity(), Entity::Registered { prefix: p, .. } if p == prefix));
        }
    }
}

#[test]
fn invalid_vectors_are_refused() {
    let vectors = vectors();
    assert_eq!(vectors.invalid.len(), 35);
    for text in &vectors.invalid {
        let parsed = Address::parse_in(text, &vectors.own_network);
        let error = parsed.expect_err(text);
        assert!(!error.to_string().is_empty());
        assert_eq!(error.code(), ErrorCode::InvalidAddress);
    }
}

#[test]
fn did_vectors_map_both_ways() {
    let vectors = vectors();
    for case in &vectors.did {
        let address = Address::parse(&case.address).unwrap();
        assert_eq!(address.to_did().unwrap(), case.did);
        assert_eq!(Address::from_did(&case.did).unwrap(), address);
    }
    for text in &vectors.no_did {
        let address = Address::parse(text).unwrap();
        assert_eq!(address.to_did(), Err(AddressError::NoDidForm), "{text}");
        assert_eq!(AddressError::NoDidForm.code(), ErrorCode::NoDidForm);
        assert_eq!(Address::from_did(text), Err(AddressError::BadDid), "{text}");
    }
}

#[test]
fn uri_vectors_map_both_ways() {
    let vectors = vectors();
    for case in &vectors.uri {
        let address = Address::parse(&case.address).unwrap();
        assert_eq!(address.to_uri(), case.uri);
        assert_eq!(Address::from_uri(&case.uri).unwrap(), address);
    }
    for case in &vectors.uri_accepted {
        assert_eq!(Address::from_uri(&case.uri).unwrap(), case.address.as_str());
    }
    for uri in &vectors.uri_refused {
        Address::from_uri(uri).expect_err(uri);
    }
}

#[test]
fn every_kind_is_seen_as_itself() {
    let entity = |text: &str| format!("{:?}", Address::parse(text).unwrap().entity());
    assert_eq!(entity("net1::core"), "Core");
    assert_eq!(entity("net1::x"), r#"Agent("x")"#);
    assert_eq!(entity("human:ana"), r#"Human("ana")"#);
    assert_eq!(entity("net1::did:key:z6Mk"), r#"Registered { prefix: "key", name: "z6Mk" }"#);
    assert_eq!(entity("channel/a:b"), r#"Channel("a:b")"#);
    assert_eq!(entity("mod/auth"), r#"Mod("auth")"#);
    assert_eq!(entity("group/g"), r#"Group("g")"#);
    assert_eq!(entity("resource/context/c"), r#"Resource { kind: Context, path: "c" }"#);
}

#[test]
fn constructors_validate() {
    assert_eq!(Address::agent("x").unwrap(), "agent:x");
    assert_eq!(Address::human("A@B.c").unwrap(), "human:a@b.c");
    assert_eq!(Address::channel("general").unwrap(), "channel/general");
    assert_eq!(Address::group("g").unwrap(), "group/g");
    assert_eq!(Address::core(), Address::parse("core").unwrap());
    let broadcast = Address::parse("broadcast").unwrap();
    assert_eq!(Address::broadcast(), broadcast);
    assert_eq!(Address::broadcast().entity(), broadcast.entity());
    for bad in ["", "a b", "a::b", "a/b", "-x", "x\n"] {
        Address::agent(bad).expect_err(bad);
        Address::channel(bad).expect_err(bad);
    }
}

#[test]
fn who_can_be_a_member() {
    let member = |text: &str| Address::parse(text).unwrap().is_principal();
    assert!(member("agent:x") && member("human:x") && member("key:z6Mk"));
    assert!(!member("broadcast") && !member("core") && !member("channel/general"));
}

#[test]
fn own_id_means_here_and_any_other_id_stays() {
    let own = NetworkId::parse("a1b2c3d4").unwrap();
    let here = Address::parse_in("a1b2c3d4::acme:x", &own).unwrap();
    assert_eq!(here, Address::parse("acme:x").unwrap());
    assert_eq!(here.entity(), Address::parse("acme:x").unwrap().entity());
    let there = Address::parse_in("a1b2c3d5::acme:x", &own).unwrap();
    assert_eq!(there.network(), Some("a1b2c3d5"));
    assert!(!Address::parse("net1::core").unwrap().is_core());
    assert!(!Address::parse("net1::broadcast").unwrap().is_broadcast());
}

#[test]
fn network_ids() {
    let longest = "a".repeat(NETWORK_ID_BYTES_MAX);
    for good in ["a", "7", "a1b2c3d4", "net_1", "a.b-c", longest.as_str()] {
        assert_eq!(NetworkId::parse(good).unwrap(), good);
    }
    let over = "a".repeat(NETWORK_ID_BYTES_MAX + 1);
    for bad in ["", "A", "_a", "a_", "-a", "a-", "a.", "a b", "é", over.as_str()] {
        assert_eq!(NetworkId::parse(bad), Err(AddressError::BadNetworkId), "{bad}");
    }
    assert_eq!(NetworkId::parse("local"), Err(AddressError::ReservedNetworkId));
}

#[test]
fn limits_hold_to_the_byte() {
    let check = |prefix: &str, max: usize| {
        let fits = format!("{prefix}{}", "a".repeat(max));
        assert_eq!(Address::parse(&fits).unwrap(), fits.as_str());
        Address::parse(&format!("{fits}a")).expect_err(prefix);
    };
    check("agent:", NAME_BYTES_MAX);
    check("group/", NAME_BYTES_MAX);
    check("mod/", NAME_BYTES_MAX);
    check("resource/tool/", NAME_BYTES_MAX);
    check("openagents:", NAME_BYTES_MAX);
    check("openagents:n@", REGISTRAR_ORG_BYTES_MAX);
    check("human:", HUMAN_ID_BYTES_MAX);
    check("web:", WEB_NAME_BYTES_MAX);
    check("channel/", CHANNEL_UNITS_MAX);
    check("resource/file/", FILE_SEGMENT_BYTES_MAX);

    let prefix = "p".repeat(REGISTRAR_PREFIX_BYTES_MAX);
    assert!(Address::parse(&format!("{prefix}:x")).is_ok());
    assert!(Address::parse(&format!("{prefix}p:x")).is_err());

    let colons = format!("channel/a{}", ":a".repeat(CHANNEL_UNITS_MAX - 1));
    assert!(Address::parse(&colons).is_ok());

    let segment = "s".repeat(FILE_SEGMENT_BYTES_MAX);
    let path = format!("{segment}/{segment}/{segment}/{segment}");
    assert_eq!(path.len() + 1, FILE_PATH_BYTES_MAX);
    let fits = format!("resource/file/{path}");
    assert!(Address::parse(&fits).is_ok());
    assert_eq!(Address::parse(&format!("{fits}/s")), Err(AddressError::BadPath));
    let network = "n".repeat(NETWORK_ID_BYTES_MAX);
    let over = Address::parse(&format!("{network}::{fits}"));
    assert_eq!(over, Err(AddressError::TooLong { limit: ADDRESS_BYTES_MAX }));
    let over = Address::from_uri(&"u".repeat(URI_BYTES_MAX + 1));
    assert_eq!(over, Err(AddressError::TooLong { limit: URI_BYTES_MAX }));
}

#[test]
fn file_paths_are_normalised_before_they_are_measured() {
    let decomposed = "resource/file/re\u{301}sume\u{301}.md";
    assert_eq!(Address::parse(decomposed).unwrap(), "resource/file/résumé.md");
    // U+1D160 is four bytes and becomes twelve.
    let grows = format!("resource/file/{}", "\u{1d160}".repeat(60));
    assert!(grows.len() < FILE_SEGMENT_BYTES_MAX + 14);
    assert_eq!(Address::parse(&grows), Err(AddressError::BadPath));
    for bad in [" a", "a ", "a/ b", "\u{3000}a", ".", "a/.", "a\u{7}", "a\0", "/a", "a/", "a\u{85}b"] {
        assert_eq!(Address::parse(&format!("resource/file/{bad}")), Err(AddressError::BadPath), "{bad:?}");
    }
    assert!(Address::parse("resource/file/.hidden/a: b").is_ok());
    // Otherwise the canonical form would read as an address on network `resource/file/a`.
    let nested = Address::parse("local::resource/file/a::b");
    assert_eq!(nested, Err(AddressError::NestedNetwork));
}

#[test]
fn web_names() {
    for good in ["example.com", "e", "e%3A80", "a.b%3A80:x:y_z", "h:%41"] {
        assert!(Address::parse(&format!("web:{good}")).is_ok(), "{good}");
    }
    for bad in ["", ".a", "a_b", "a%3a80", "a%2F", "a:", "a:b/c", "a%3"] {
        assert!(Address::parse(&format!("web:{bad}")).is_err(), "{bad}");
    }
}

#[test]
fn serde_is_a_string_and_refuses_bad_ones() {
    let address: Address = serde_json::from_str(r#""local::charlie""#).unwrap();
    assert_eq!(serde_json::to_string(&address).unwrap(), r#""agent:charlie""#);
    let error = serde_json::from_str::<Address>(r#""x:y""#).unwrap_err();
    assert!(error.to_string().contains("prefix"), "{error}");
    serde_json::from_str::<NetworkId>(r#""local""#).unwrap_err();
    serde_json::from_str::<Address>("7").unwrap_err();
}

#[test]
fn a_map_by_address_is_asked_by_text() {
    let map = BTreeMap::from([(Address::core(), 1), (Address::broadcast(), 2)]);
    assert_eq!(map.get("agent:broadcast"), Some(&2));
    assert_eq!(map.get("agent:x"), None);
}

/// Text made of pieces that mean something to the grammar, so that much of it parses.
fn addresslike() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("agent:"),
        Just("human:"),
        Just("did:"),
        Just("openagents:"),
        Just("web:"),
        Just("channel/"),
        Just("mod/"),
        Just("group/"),
        Just("resource/file/"),
        Just("resource/tool/"),
        Just("local"),
        Just("core"),
        Just("::"),
        Just(":"),
        Just("/"),
        Just("@"),
        Just("%3A"),
        Just("A"),
        Just("b1"),
        Just("."),
        Just(" "),
        Just("报"),
        Just("e\u{301}"),
        Just("\u{1d160}"),
        Just("\u{212b}"),
        Just("+"),
        Just("a1b2c3d4"),
    ];
    prop::collection::vec(piece, 0..7).prop_map(|pieces| pieces.concat())
}

/// An address of some kind, its text not yet canonical.
fn valid() -> impl Strategy<Value = String> {
    let network = prop_oneof![Just(String::new()), Just("local::".into()), "[a-z0-9]{1,9}::"];
    let name = "[A-Za-z0-9_][A-Za-z0-9._-]{0,12}";
    let entity = prop_oneof![
        name.prop_map(|n| n),
        name.prop_map(|n| format!("agent:{n}")),
        "[A-Za-z0-9_][A-Za-z0-9!#$%&'*+=?^_`{|}~.@-]{0,20}".prop_map(|n| format!("human:{n}")),
        "[a-z]{6,9}:[A-Za-z0-9_]{1,5}(@[A-Za-z0-9]{1,4})?".prop_map(|n| format!("x{n}")),
        "[A-Za-z0-9]([A-Za-z0-9.-]|%3A){0,9}(:[a-z._%-]{1,4}){0,2}".prop_map(|n| format!("web:{n}")),
        "[A-Za-z0-9_](:?[A-Za-z0-9._-]){0,12}".prop_map(|n| format!("channel/{n}")),
        "[a-z][a-z0-9._-]{0,9}".prop_map(|n| format!("mod/{n}")),
        r"[^\p{Cc}/\\\s:.]([^\p{Cc}/\\:]{0,6}[^\p{Cc}/\\\s:])?".prop_map(|n| format!("resource/file/a/{n}")),
    ];
    (network, entity).prop_map(|(network, entity)| network + &entity)
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = Address::parse(&text);
        let _ = Address::from_uri(&text);
        let _ = Address::from_uri(&format!("openagents://local/{text}"));
        let _ = Address::from_did(&text);
        let _ = NetworkId::parse(&text);
        let _ = Address::parse(&format!("resource/file/{text}"));
    }

    #[test]
    fn canonical_text_is_a_fixed_point(text in prop_oneof![addresslike(), valid(), any::<String>()]) {
        if let Ok(address) = Address::parse(&text) {
            let again = Address::parse(address.as_str()).unwrap();
            prop_assert_eq!(again.as_str(), address.as_str());
            prop_assert_eq!(again.entity(), address.entity());
            prop_assert_eq!(again.network(), address.network());
        }
    }

    #[test]
    fn uri_round_trip(text in valid()) {
        let address = Address::parse(&text).unwrap();
        let uri = address.to_uri();
        prop_assert!(uri.is_ascii() && uri.len() <= URI_BYTES_MAX);
        prop_assert_eq!(&Address::from_uri(&uri).unwrap(), &address);
        if let Ok(did) = address.to_did() {
            let local = Address::parse(address.entity_text()).unwrap();
            prop_assert_eq!(Address::from_did(&did).unwrap(), local);
        }
    }
}
