//! HTTP/1.1, as much of it as a measurement needs: whole answers with a stated length.

use crate::drive::Socket;
use crate::error::BenchError;
use bytes::{Buf, Bytes};
use serde_json::Value;
use std::net::SocketAddr;

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body of a good answer.
    pub(crate) fn json(&self) -> Result<Value, BenchError> {
        let text = || String::from_utf8_lossy(&self.body).into_owned();
        if self.status / 100 != 2 {
            return Err(BenchError::answer(format!("HTTP {}: {}", self.status, text())));
        }
        serde_json::from_slice(&self.body).map_err(|_| BenchError::answer(format!("no JSON: {}", text())))
    }
}

/// A request up to its body.
fn head(address: SocketAddr, method: &str, path: &str, bearer: Option<&str>, body: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n");
    if let Some(bearer) = bearer {
        out.push_str(&format!("authorization: Bearer {bearer}\r\n"));
    }
    if let Some(body) = body {
        out.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    out.push_str("\r\n");
    out.into_bytes()
}

/// A request with everything in it.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    bearer: Option<&str>,
    body: Option<&[u8]>,
) -> Vec<u8> {
    let mut out = head(address, method, path, bearer, body);
    out.extend_from_slice(body.unwrap_or_default());
    out
}

/// The first answer in some bytes, as soon as its head is there: status, where its body begins and will end.
fn promised(bytes: &[u8]) -> Result<Option<(u16, usize, usize)>, BenchError> {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let strange = || BenchError::answer(format!("no HTTP answer: {head}"));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(strange)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = end + 4;
    let length = match length {
        Some(length) => length,
        None if status == 101 || status == 204 => 0,
        None => return Err(BenchError::answer(format!("an answer without a length: {head}"))),
    };
    Ok(Some((status, body, body + length)))
}

/// Reads one answer from a connection that stays open. Room for a long one is made once.
pub(crate) async fn answer(socket: &mut Socket) -> Result<Answer, BenchError> {
    let mut known = None;
    loop {
        if known.is_none() {
            known = promised(&socket.input)?;
            let more = known.map_or(0, |(_, _, to)| to.saturating_sub(socket.input.len()));
            socket.input.reserve(more);
        }
        if let Some((status, from, to)) = known.filter(|(_, _, to)| socket.input.len() >= *to) {
            socket.input.advance(from);
            return Ok(Answer { status, body: socket.input.split_to(to - from).freeze() });
        }
        socket.read().await?;
    }
}

/// One request on a connection of its own.
pub(crate) async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    bearer: Option<&str>,
    body: Option<&[u8]>,
) -> Result<Answer, BenchError> {
    let mut socket = Socket::connect(address).await?;
    socket.write(&head(address, method, path, bearer, body)).await?;
    socket.write(body.unwrap_or_default()).await?;
    answer(&mut socket).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1";
        let (status, from, to) = promised(text).unwrap().unwrap();
        assert_eq!((status, &text[from..to]), (200, &b"ok"[..]));
        assert_eq!(promised(&text[..from]).unwrap(), Some((status, from, to)));
        assert_eq!(promised(&text[..from - 1]).unwrap(), None);
        assert!(promised(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(promised(b"what\r\n\r\n").is_err());
        let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n";
        assert_eq!(promised(upgrade).unwrap(), Some((101, upgrade.len(), upgrade.len())));
    }

    #[test]
    fn requests() {
        let text = request("127.0.0.1:1".parse().unwrap(), "POST", "/x", Some("t"), Some(b"{}"));
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("POST /x HTTP/1.1\r\nhost: 127.0.0.1:1\r\nauthorization: Bearer t\r\n"));
        assert!(text.ends_with("content-length: 2\r\n\r\n{}"));
    }
}
