//! The URI form of an address: `openagents://{network}/{entity}`, `local` standing for the reader's own network.

use super::{ADDRESS_BYTES_MAX, Address, AddressError, LOCAL, grammar};

const SCHEME: &str = "openagents:";
/// Longest URI form: every byte of the longest address percent-encoded, the scheme and `local/` before it.
pub const URI_BYTES_MAX: usize = 3 * ADDRESS_BYTES_MAX + 24;

impl Address {
    /// The URI form. Only unreserved characters, `:` and `/` stay as they are, so that it survives any context.
    pub fn to_uri(&self) -> String {
        let network = self.network().unwrap_or(LOCAL);
        let entity = self.entity_text();
        let mut uri = String::with_capacity(entity.len().saturating_add(80));
        uri.push_str(SCHEME);
        uri.push_str("//");
        uri.push_str(network);
        uri.push('/');
        for byte in entity.bytes() {
            if is_unreserved(byte) || matches!(byte, b':' | b'/') {
                uri.push(char::from(byte));
            } else {
                uri.push('%');
                uri.push(hex_digit(byte >> 4));
                uri.push(hex_digit(byte & 0xf));
            }
        }
        uri
    }

    /// Reads the URI form: the scheme in any case, characters of a path raw or percent-encoded.
    pub fn from_uri(uri: &str) -> Result<Self, AddressError> {
        if uri.len() > URI_BYTES_MAX {
            return Err(AddressError::TooLong { limit: URI_BYTES_MAX });
        }
        let rest = uri
            .split_at_checked(SCHEME.len())
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME))
            .and_then(|(_, rest)| rest.strip_prefix("//"))
            .ok_or(AddressError::BadUri("it does not start with openagents://"))?;
        if rest.contains(['?', '#']) {
            return Err(AddressError::BadUri("it has a query or a fragment"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains(['@', ':']) {
            return Err(AddressError::BadUri("it has user info or a port"));
        }
        if path.is_empty() {
            return Err(AddressError::BadUri("it names no entity"));
        }
        let entity = decode(path)?;
        match decode(authority)?.as_str() {
            LOCAL => Self::build(None, &entity),
            network => {
                grammar::network_id(network)?;
                Self::build(Some(network), &entity)
            }
        }
    }
}

/// Undoes percent-encoding. An encoded `/` is refused: it would turn one path segment into two.
fn decode(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (*first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let byte = hex_byte(*high, *low).ok_or(BAD_PERCENT)?;
                if byte == b'/' {
                    return Err(AddressError::BadUri("it has an encoded slash"));
                }
                bytes.push(byte);
                rest = after;
            }
            (b'%', _) => return Err(BAD_PERCENT),
            (raw, _) if is_path_byte(raw) => bytes.push(raw),
            _ => {
                return Err(AddressError::BadUri("it has a character that must be percent-encoded"));
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| AddressError::BadUri("it does not decode to UTF-8"))
}

const BAD_PERCENT: AddressError = AddressError::BadUri("it has a % without two hexadecimal digits");

/// `pchar` of RFC 3986 without the percent sign, and `/`.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0').to_ascii_uppercase()
}

fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
