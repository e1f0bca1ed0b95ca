//! Event ids: what clients may send, and the ids the server makes.
//!
//! A server-made id has ULID shape: 48-bit milliseconds, 64-bit seq, 16-bit salt from the engine's seed.
//! It carries its own position, so it needs no index.

use crate::{Millis, Seq, limits};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The value of each byte as a digit; 255 for what is none.
#[allow(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const DIGITS: [u8; 256] = {
    let mut digits = [255; 256];
    let mut i = 0;
    while i < ALPHABET.len() {
        digits[ALPHABET[i] as usize] = i as u8;
        i += 1;
    }
    digits
};

/// Checks and makes event ids; the id itself travels as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// When the event was committed.
    pub at: Millis,
    /// Its position.
    pub seq: Seq,
    /// The network's salt, so that ids of two networks differ.
    pub salt: u16,
}

impl EventId {
    /// Whether `text` is a legal event id: `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`.
    pub fn is_legal(text: &str) -> bool {
        let bytes = text.as_bytes();
        bytes.len() <= limits::EVENT_ID_CHARS_MAX
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
    }

    /// The 26 characters of this id.
    pub fn to_text(self) -> String {
        self.to_ascii().iter().copied().map(char::from).collect()
    }

    /// The 26 characters of this id, without an allocation.
    pub fn to_ascii(self) -> [u8; 26] {
        let mut value =
            (u128::from(self.at & 0xFFFF_FFFF_FFFF) << 80) | (u128::from(self.seq) << 16) | u128::from(self.salt);
        let mut text = [b'0'; 26];
        for place in text.iter_mut().rev() {
            *place = ALPHABET.get((value & 31) as usize).copied().unwrap_or(b'0');
            value >>= 5;
        }
        text
    }

    /// Reads an id of ours back; other ids give nothing.
    pub fn from_text(text: &str) -> Option<EventId> {
        if text.len() != 26 {
            return None;
        }
        let mut value: u128 = 0;
        for (i, byte) in text.bytes().enumerate() {
            let digit = DIGITS.get(usize::from(byte)).copied().filter(|d| *d < 32)?;
            if i == 0 && digit > 7 {
                return None;
            }
            value = (value << 5) | u128::from(digit);
        }
        let low = |v: u128| u64::try_from(v & u128::from(u64::MAX)).unwrap_or(0);
        Some(EventId { at: low(value >> 80), seq: low(value >> 16), salt: u16::try_from(value & 0xFFFF).unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(at in 0u64..(1 << 48), seq: u64, salt: u16) {
            let id = EventId { at, seq, salt };
            let text = id.to_text();
            prop_assert!(EventId::is_legal(&text));
            prop_assert_eq!(EventId::from_text(&text), Some(id));
        }

        #[test]
        fn never_panics(text: String) {
            let _ = EventId::from_text(&text);
            let _ = EventId::is_legal(&text);
        }
    }

    #[test]
    fn ids_sort_by_time_then_seq() {
        let at = |at, seq| EventId { at, seq, salt: 9 }.to_text();
        assert!(at(1, 2) < at(1, 3));
        assert!(at(1, 9) < at(2, 1));
    }

    #[test]
    fn event_id_chars_max_is_the_limit() {
        assert!(EventId::is_legal(&"a".repeat(limits::EVENT_ID_CHARS_MAX)));
        assert!(!EventId::is_legal(&"a".repeat(limits::EVENT_ID_CHARS_MAX + 1)));
        for bad in ["", "-a", "a b", "a/b", "é", "a\u{0}"] {
            assert!(!EventId::is_legal(bad), "{bad:?}");
        }
    }
}
