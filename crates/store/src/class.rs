//! Log classes: networks with the same retention share one log, and so one flush.
//! Not here: what a retention is.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreError;

/// Bytes of a class name as stored.
pub(crate) const CLASS_BYTES: usize = 16;

/// Name of a log: lower-case letters, digits and `-`, up to 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class([u8; CLASS_BYTES]);

impl Class {
    /// Normal retention.
    pub const STD: Self = Self(*b"std\0\0\0\0\0\0\0\0\0\0\0\0\0");
    /// Kept for ever.
    pub const EVER: Self = Self(*b"ever\0\0\0\0\0\0\0\0\0\0\0\0");

    /// Its name.
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(CLASS_BYTES);
        self.0.get(..end).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    pub(crate) fn to_bytes(self) -> [u8; CLASS_BYTES] {
        self.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let class = Self(bytes.try_into().ok()?);
        let parsed: Self = class.name().parse().ok()?;
        (parsed == class).then_some(class)
    }
}

impl FromStr for Class {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self, StoreError> {
        let bytes = name.as_bytes();
        let legal = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        if bytes.is_empty() || bytes.len() >= CLASS_BYTES || !bytes.iter().all(legal) {
            return Err(StoreError::BadName { what: "log class", name: name.to_owned() });
        }
        let mut class = [0; CLASS_BYTES];
        for (to, from) in class.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(Self(class))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Class({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_bad_ones_are_refused() {
        assert_eq!("std".parse::<Class>().unwrap(), Class::STD);
        assert_eq!("ever".parse::<Class>().unwrap(), Class::EVER);
        for bad in ["", "../x", "Std", "0123456789abcdef", "a/b", "a b"] {
            assert!(bad.parse::<Class>().is_err(), "{bad}");
        }
        assert_eq!(Class::from_bytes(&Class::STD.to_bytes()), Some(Class::STD));
        assert_eq!(Class::from_bytes(&[b'a'; 16]), None);
        assert_eq!(Class::from_bytes(b"a\0b\0\0\0\0\0\0\0\0\0\0\0\0\0"), None);
    }
}
