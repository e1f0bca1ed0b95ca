//! Messages encoded before the measurement begins, all of one length, sent over and over.

/// Encoded messages in a row.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    length: usize,
}

impl Ring {
    /// Joins messages of one length; nothing if they differ or there are none.
    pub(crate) fn new(messages: impl IntoIterator<Item = Vec<u8>>) -> Option<Ring> {
        let mut ring = Ring { bytes: Vec::new(), length: 0 };
        for message in messages {
            if ring.length != 0 && ring.length != message.len() {
                return None;
            }
            ring.length = message.len();
            ring.bytes.extend_from_slice(&message);
        }
        (ring.length > 0).then_some(ring)
    }

    /// One message, often enough for large writes.
    pub(crate) fn of(message: &[u8]) -> Option<Ring> {
        let times = ((1 << 20) / message.len().max(1)).max(1);
        Ring::new(std::iter::repeat_n(message.to_vec(), times))
    }

    /// Bytes of one message.
    pub(crate) fn length(&self) -> u64 {
        self.length as u64
    }

    /// What comes after `sent` bytes, at most `most` of it.
    pub(crate) fn after(&self, sent: u64, most: u64) -> &[u8] {
        let at = usize::try_from(sent % self.bytes.len() as u64).unwrap_or(0);
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_round() {
        let ring = Ring::new([b"abc".to_vec(), b"def".to_vec()]).unwrap();
        assert_eq!(ring.length(), 3);
        assert_eq!(ring.after(0, 4), b"abcd");
        assert_eq!(ring.after(4, 100), b"ef");
        assert_eq!(ring.after(6, 2), b"ab");
        assert_eq!(ring.after(600, 0), b"");
    }

    #[test]
    fn only_messages_of_one_length() {
        assert!(Ring::new([b"a".to_vec(), b"bc".to_vec()]).is_none());
        assert!(Ring::new([]).is_none());
        assert!(Ring::of(b"").is_none());
        assert!(Ring::of(&[7; 256]).unwrap().after(0, u64::MAX).len() >= 1 << 19);
    }
}
