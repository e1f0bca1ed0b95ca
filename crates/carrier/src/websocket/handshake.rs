//! The opening handshake of RFC 6455.

use crate::answer::Refusal;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use base64::Engine;
use hyper::upgrade::OnUpgrade;
use rialto_model::{ErrorCode, Fault};
use sha1::{Digest, Sha1};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Checks a client's request: the answer to it, and the connection that is there once the answer is sent. The answer names
/// `protocol` if the client offers it.
pub fn accept(request: &mut Request, protocol: &'static str) -> Result<(Response, OnUpgrade), Refusal> {
    let refuse = |what: &str| Refusal::from(Fault::new(ErrorCode::InvalidArgument, what.to_owned()));
    let headers = request.headers();
    let asks = request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && names(headers, header::CONNECTION, "upgrade")
        && names(headers, header::UPGRADE, "websocket");
    if !asks {
        return Err(refuse("this is a WebSocket address: open it with a WebSocket client"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|v| v.as_bytes() != b"13") {
        return Err(refuse("Sec-WebSocket-Version must be 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| refuse("Sec-WebSocket-Key is missing"))?;
    let mut response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept_key(key.as_bytes()));
    if names(headers, header::SEC_WEBSOCKET_PROTOCOL, protocol) {
        response = response.header(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    let response = response.body(Body::empty()).map_err(|_| Refusal::from(Fault::from(ErrorCode::Internal)))?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    Ok((response, upgrade.ok_or_else(|| refuse("this connection cannot be upgraded"))?))
}

/// Whether a list header names this.
fn names(headers: &HeaderMap, header: header::HeaderName, what: &str) -> bool {
    let lists = headers.get_all(header).into_iter().filter_map(|v| v.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| item.trim().eq_ignore_ascii_case(what))
}

fn accept_key(key: &[u8]) -> String {
    let mut sha1 = Sha1::new();
    sha1.update(key);
    sha1.update(GUID);
    base64::engine::general_purpose::STANDARD.encode(sha1.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_the_rfc() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
