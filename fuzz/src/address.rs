//! Addresses: what parses has one form, which parses to itself and is within its bounds.

use rialto_model::Address;
use rialto_model::address::NetworkId;

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(address) = Address::parse(text) else { return };
    let canonical = address.as_str();
    assert!(canonical.len() <= 1100, "{} bytes", canonical.len());
    assert!(!canonical.chars().any(char::is_control), "{canonical:?}");
    let again = Address::parse(canonical).unwrap_or_else(|e| panic!("{canonical:?} from {text:?}: {e}"));
    assert_eq!(again, address);
    assert_eq!(again.as_str(), canonical);
    assert_eq!(again.entity(), address.entity());
    assert_eq!(address.is_foreign(), address.network().is_some());
    assert!(canonical.ends_with(address.entity_text()));
    if let Some(network) = address.network() {
        // Seen from its own network an address is local, and the same entity.
        let own = NetworkId::parse(network).unwrap();
        let local = Address::parse_in(text, &own).unwrap();
        assert!(!local.is_foreign(), "{local:?}");
        assert_eq!(local.entity_text(), address.entity_text());
    }
}
