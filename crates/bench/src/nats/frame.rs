//! The NATS client protocol, as much of it as a load needs.

use crate::error::BenchError;

/// One thing a server said, and how many bytes it took.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// A message; `reply` is empty where none is expected.
    Message {
        subject: &'a [u8],
        reply: &'a [u8],
        headers: bool,
        payload: &'a [u8],
    },
    Ping,
    Pong,
    /// `INFO`, `+OK`.
    Other,
}

/// Reads the first thing in `bytes`; nothing while it is not all there.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<(Said<'_>, usize)>, BenchError> {
    let Some(end) = bytes.iter().position(|b| *b == b'\n') else { return Ok(None) };
    let line = bytes.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let rest = bytes.get(end + 1..).unwrap_or_default();
    let said = match line.first() {
        Some(b'M') => return message(line.strip_prefix(b"MSG ").unwrap_or_default(), rest, end + 1, false),
        Some(b'H') => return message(line.strip_prefix(b"HMSG ").unwrap_or_default(), rest, end + 1, true),
        _ if line == b"PING" => Said::Ping,
        _ if line == b"PONG" => Said::Pong,
        Some(b'-') => return Err(BenchError::answer(format!("nats-server: {}", String::from_utf8_lossy(line)))),
        _ => Said::Other,
    };
    Ok(Some((said, end + 1)))
}

/// `subject sid [reply] length`, or `subject sid [reply] header-length length`.
fn message<'a>(
    line: &'a [u8],
    rest: &'a [u8],
    head: usize,
    headers: bool,
) -> Result<Option<(Said<'a>, usize)>, BenchError> {
    let strange = || BenchError::answer(format!("nats-server sent {:?}", String::from_utf8_lossy(line)));
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let plain = if headers { 4 } else { 3 };
    let (subject, reply) = match words.len() {
        n if n == plain => (words.first(), &[][..]),
        n if n == plain + 1 => (words.first(), words.get(2).copied().unwrap_or_default()),
        _ => return Err(strange()),
    };
    let length = words.last().and_then(|w| std::str::from_utf8(w).ok()?.parse::<usize>().ok()).ok_or_else(strange)?;
    let Some(payload) = rest.get(..length).filter(|_| rest.len() >= length + 2) else { return Ok(None) };
    let subject = subject.copied().unwrap_or_default();
    Ok(Some((Said::Message { subject, reply, headers, payload }, head + length + 2)))
}

/// A publish, with a subject to answer to where one is given.
pub(crate) fn publish(subject: &str, reply: &str, payload: &[u8]) -> Vec<u8> {
    let space = if reply.is_empty() { "" } else { " " };
    let mut out = format!("PUB {subject} {reply}{space}{}\r\n", payload.len()).into_bytes();
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_with_and_without_a_reply() {
        let text = b"MSG a.b 1 5\r\nhello\r\nMSG a.b 1 _R.1 2\r\nhi\r\nPING\r\n";
        let (said, n) = decode(text).unwrap().unwrap();
        assert_eq!(said, Said::Message { subject: b"a.b", reply: b"", headers: false, payload: b"hello" });
        let rest = &text[n..];
        let (said, n) = decode(rest).unwrap().unwrap();
        assert_eq!(said, Said::Message { subject: b"a.b", reply: b"_R.1", headers: false, payload: b"hi" });
        assert_eq!(decode(&rest[n..]).unwrap(), Some((Said::Ping, 6)));
    }

    #[test]
    fn headers_are_told_apart() {
        let text = b"HMSG s 9 12 12\r\nNATS/1.0\r\n\r\n\r\n";
        let (said, n) = decode(text).unwrap().unwrap();
        assert_eq!(said, Said::Message { subject: b"s", reply: b"", headers: true, payload: b"NATS/1.0\r\n\r\n" });
        assert_eq!(n, text.len());
    }

    #[test]
    fn nothing_until_all_is_there() {
        let text = b"MSG a 1 5\r\nhello\r\n";
        for n in 0..text.len() {
            assert_eq!(decode(&text[..n]).unwrap(), None, "{n} bytes");
        }
    }

    #[test]
    fn errors_are_errors() {
        assert!(decode(b"-ERR 'Authorization Violation'\r\n").is_err());
        assert!(decode(b"MSG a\r\n").is_err());
        assert!(decode(b"MSG a 1 x\r\n").is_err());
        assert_eq!(decode(b"INFO {}\r\n").unwrap(), Some((Said::Other, 9)));
    }

    #[test]
    fn publishes() {
        assert_eq!(publish("a", "", b"xy"), b"PUB a 2\r\nxy\r\n");
        assert_eq!(publish("a", "r", b""), b"PUB a r 0\r\n\r\n");
    }
}
