//! The tokens of the address grammar: one check per token, full match, case-sensitive.
//! Written out by hand rather than as regular expressions: they run on every event, and the rules are short.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::AddressError;

/// Longest address, canonical or as received.
pub const ADDRESS_BYTES_MAX: usize = 1100;
/// Longest network id.
pub const NETWORK_ID_BYTES_MAX: usize = 64;
/// Longest name of an agent, group, tool, context, mod, or of a registered agent before its `@org`.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest `org` of a registered agent written `name@org`.
pub const REGISTRAR_ORG_BYTES_MAX: usize = 64;
/// Longest registrar prefix.
pub const REGISTRAR_PREFIX_BYTES_MAX: usize = 32;
/// Longest name after `web:`.
pub const WEB_NAME_BYTES_MAX: usize = 253;
/// Longest id after `human:`.
pub const HUMAN_ID_BYTES_MAX: usize = 254;
/// Longest channel name, a character with the colon before it being one unit.
pub const CHANNEL_UNITS_MAX: usize = 128;
/// Longest segment of a file path, after normalisation.
pub const FILE_SEGMENT_BYTES_MAX: usize = 255;
/// Longest file path, after normalisation.
pub const FILE_PATH_BYTES_MAX: usize = 1024;

/// Prefixes that can never be a registrar: other kinds, and words that must stay errors.
const NO_REGISTRAR: [&str; 13] = [
    "agent", "human", "core", "channel", "mod", "group", "resource", "local", "did", "http", "https", "agents", "role",
];

/// `[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?`, and not `local`.
/// `_` is legal inside, so `net_1` is an id although names of hosts would not allow it.
pub(super) fn network_id(text: &str) -> Result<(), AddressError> {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| edge(byte) || matches!(byte, b'.' | b'_' | b'-');
    if text == "local" {
        return Err(AddressError::ReservedNetworkId);
    }
    let holds = text.len() <= NETWORK_ID_BYTES_MAX
        && text.bytes().all(inner)
        && text.bytes().next().is_some_and(edge)
        && text.bytes().last().is_some_and(edge);
    if holds { Ok(()) } else { Err(AddressError::BadNetworkId) }
}

/// `[A-Za-z0-9_][A-Za-z0-9._-]{0,127}`.
pub(super) fn name<'a>(what: &'static str, text: &'a str) -> Result<&'a str, AddressError> {
    checked(what, text, NAME_BYTES_MAX, is_word_start, is_word)
}

/// `[a-z][a-z0-9._-]{0,127}`.
pub(super) fn mod_name(text: &str) -> Result<&str, AddressError> {
    let inner = |byte: u8| is_word(byte) && !byte.is_ascii_uppercase();
    let start = |byte: u8| byte.is_ascii_lowercase();
    checked("mod name", text, NAME_BYTES_MAX, start, inner)
}

/// A name, optionally followed by `@` and `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`.
pub(super) fn registered_name(text: &str) -> Result<&str, AddressError> {
    const WHAT: &str = "registered name";
    let (before, org) = match text.split_once('@') {
        None => (text, None),
        Some((before, org)) => (before, Some(org)),
    };
    name(WHAT, before)?;
    if let Some(org) = org {
        let start = |byte: u8| byte.is_ascii_alphanumeric();
        let inner = |byte: u8| start(byte) || matches!(byte, b'_' | b'-');
        checked(WHAT, org, REGISTRAR_ORG_BYTES_MAX, start, inner)?;
    }
    Ok(text)
}

/// `[a-z][a-z0-9-]{1,31}` except the words of [`NO_REGISTRAR`].
pub(super) fn registrar_prefix(text: &str) -> Result<&str, AddressError> {
    let start = |byte: u8| byte.is_ascii_lowercase();
    let inner = |byte: u8| start(byte) || byte.is_ascii_digit() || byte == b'-';
    if text.len() < 2 || NO_REGISTRAR.contains(&text) {
        return Err(AddressError::BadPrefix);
    }
    checked("registrar", text, REGISTRAR_PREFIX_BYTES_MAX, start, inner).map_err(|_| AddressError::BadPrefix)
}

/// `[A-Za-z0-9](?:[A-Za-z0-9.-]|%3A)*(?::[A-Za-z0-9._%-]+)*`: a host, its port behind `%3A`, then a path with `:`.
pub(super) fn web_name(text: &str) -> Result<&str, AddressError> {
    const BAD: AddressError = AddressError::BadName("web name");
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    let mut parts = text.split(':');
    let host = parts.next().unwrap_or_default();
    let host_starts = host.starts_with(|first: char| first.is_ascii_alphanumeric());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let host_holds = host.split("%3A").all(|piece| piece.bytes().all(plain));
    let path_holds = parts.all(|part| {
        let inner = |byte: u8| plain(byte) || matches!(byte, b'_' | b'%');
        !part.is_empty() && part.bytes().all(inner)
    });
    if text.len() <= WEB_NAME_BYTES_MAX && host_starts && host_holds && path_holds { Ok(text) } else { Err(BAD) }
}

/// Up to 254 characters that may occur in the local part of an e-mail address, plus `@`; what looks like e-mail is
/// lower-cased, since people type it either way.
pub(super) fn human_id(text: &str) -> Result<Cow<'_, str>, AddressError> {
    let inner = |byte: u8| is_word(byte) || b"!#$%&'*+=?^`{|}~@".contains(&byte);
    let text = checked("human id", text, HUMAN_ID_BYTES_MAX, is_word_start, inner)?;
    if text.contains('@') && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Ok(Cow::Owned(text.to_ascii_lowercase()))
    } else {
        Ok(Cow::Borrowed(text))
    }
}

/// `[A-Za-z0-9_](?::?[A-Za-z0-9._-]){0,127}`: single colons inside, for names such as `routines:bot`.
pub(super) fn channel(text: &str) -> Result<&str, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    let units = text.bytes().filter(|byte| *byte != b':').count();
    let holds = text.bytes().all(|byte| is_word(byte) || byte == b':')
        && text.bytes().next().is_some_and(is_word_start)
        && !text.ends_with(':')
        && !text.contains("::")
        && units <= CHANNEL_UNITS_MAX;
    if holds { Ok(text) } else { Err(AddressError::BadName("channel name")) }
}

/// Segments of any characters but controls, `/` and `\`, in NFC. The limits hold for the normalised path, since
/// that is what is kept and parsed again.
pub(super) fn file_path(text: &str) -> Result<Cow<'_, str>, AddressError> {
    if text.is_empty() {
        return Err(AddressError::Empty);
    }
    let path = if is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect::<String>()) };
    if path.len() <= FILE_PATH_BYTES_MAX && path.split('/').all(is_segment) {
        Ok(path)
    } else {
        Err(AddressError::BadPath)
    }
}

fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && segment.len() <= FILE_SEGMENT_BYTES_MAX
        && !segment.contains(|c: char| c.is_control() || c == '\\')
        && !segment.starts_with(char::is_whitespace)
        && !segment.ends_with(char::is_whitespace)
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || matches!(byte, b'.' | b'-')
}

fn checked<'a>(
    what: &'static str,
    text: &'a str,
    max: usize,
    start: impl Fn(u8) -> bool,
    inner: impl Fn(u8) -> bool,
) -> Result<&'a str, AddressError> {
    match text.as_bytes() {
        [] => Err(AddressError::Empty),
        [first, rest @ ..] if text.len() <= max && start(*first) && rest.iter().copied().all(inner) => Ok(text),
        _ => Err(AddressError::BadName(what)),
    }
}
