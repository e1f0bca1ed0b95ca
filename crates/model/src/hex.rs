//! Hashes as the wire, the store and people write them: lower-case hex digits. Capitals are read too.

/// The lower-case hex digits of some bytes.
pub fn text(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The 32 bytes that 64 hex digits stand for.
pub fn hash(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut hash = [0; 32];
    if pairs.len() != hash.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_read_back_and_nothing_else_does() {
        let bytes: [u8; 32] = std::array::from_fn(|n| (n * 9) as u8);
        let digits = text(&bytes);
        assert!(digits.starts_with("0009121b"), "{digits}");
        assert_eq!((hash(&digits), hash(&digits.to_uppercase())), (Some(bytes), Some(bytes)));
        for bad in [digits.chars().skip(1).collect(), format!("{digits}0"), digits.replace('0', "g"), "é".repeat(32)] {
            assert_eq!(hash(&bad), None, "{bad}");
        }
    }
}
