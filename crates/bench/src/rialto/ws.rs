//! WebSocket frames (RFC 6455), written once before a measurement and read without copying.

use crate::error::BenchError;

/// The mask of every frame; a client must have one, and no server may make use of a choice of ours.
const MASK: [u8; 4] = [0x5b, 0xe1, 0x0d, 0x94];

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Close,
    Ping,
    Other,
}

/// A text of a client.
pub(crate) fn text(body: &[u8]) -> Vec<u8> {
    frame(0x1, body)
}

/// The answer to a ping.
pub(crate) fn pong(body: &[u8]) -> Vec<u8> {
    frame(0xa, body)
}

fn frame(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match (u8::try_from(body.len()), u16::try_from(body.len())) {
        (Ok(n), _) if n < 126 => out.push(0x80 | n),
        (_, Ok(n)) => {
            out.push(0x80 | 126);
            out.extend_from_slice(&n.to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(body.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// The first frame of a server in some bytes: kind, where its body begins and ends. Nothing while it is not all there.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Kind, usize, usize)>, BenchError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if second & 0x80 != 0 {
        return Err(BenchError::answer("the server masked a frame"));
    }
    let (length, from) = match second & 0x7f {
        126 => match rest {
            [a, b, ..] => (u64::from(u16::from_be_bytes([*a, *b])), 4),
            _ => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(long) => (u64::from_be_bytes(*long), 10),
            None => return Ok(None),
        },
        n => (u64::from(n), 2),
    };
    let kind = match first & 0x0f {
        0x1 => Kind::Text,
        0x8 => Kind::Close,
        0x9 => Kind::Ping,
        _ => Kind::Other,
    };
    let to = usize::try_from(length).ok().and_then(|length| length.checked_add(from));
    let to = to.ok_or_else(|| BenchError::answer("the server sent an endless frame"))?;
    Ok((bytes.len() >= to).then_some((kind, from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a server would send it.
    fn unmasked(client: &[u8], body: usize) -> Vec<u8> {
        let at = client.len() - body;
        let mut out = client[..at - 4].to_vec();
        out[1] &= 0x7f;
        out.extend(client[at..].iter().zip(MASK.iter().cycle()).map(|(b, m)| b ^ m));
        out
    }

    #[test]
    fn frames_of_every_length() {
        for n in [0, 1, 125, 126, 300, 65_535, 65_536, 70_000] {
            let body = vec![b'x'; n];
            let sent = unmasked(&text(&body), n);
            let (kind, from, to) = decode(&sent).unwrap().unwrap();
            assert_eq!((kind, &sent[from..to], to), (Kind::Text, &body[..], sent.len()), "{n} bytes");
            for cut in [0, 1, 2, from - 1, to - 1].into_iter().filter(|cut| *cut < to) {
                assert_eq!(decode(&sent[..cut]).unwrap(), None, "{cut} of {n} bytes");
            }
        }
    }

    #[test]
    fn masks_are_applied_and_refused() {
        let sent = text(b"abcdef");
        assert_eq!(sent[1], 0x80 | 6);
        assert_ne!(&sent[6..], b"abcdef");
        assert!(decode(&sent).is_err());
        assert_eq!(decode(&[0x88, 0]).unwrap(), Some((Kind::Close, 2, 2)));
        assert_eq!(decode(&unmasked(&pong(b"p"), 1)).unwrap().unwrap().0, Kind::Other);
    }
}
