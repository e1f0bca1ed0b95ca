//! HTTP/2 by hand, for clients that no library would be.

use std::net::SocketAddr;

/// How a client begins.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Kinds of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
/// The flag of headers that are whole.
pub(crate) const END_HEADERS: u8 = 4;
/// The flag of the last frame of a stream.
pub(crate) const END_STREAM: u8 = 1;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// What frames there are in these bytes: what each is, and what it says.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let Some((payload, behind)) = rest.split_at_checked(length) else { break };
        out.push((head[3], payload));
        bytes = behind;
    }
    out
}

/// Settings that allow so many bytes of each answer before the client asks for more.
pub(crate) fn settings_with_window(bytes: u32) -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    frame(SETTINGS, 0, 0, &[&INITIAL_WINDOW_SIZE[..], &bytes.to_be_bytes()].concat())
}

/// A header whose name is in the static table, by its index, without compression.
fn header(out: &mut Vec<u8>, index: u8, value: &str) {
    out.push(index);
    // A length of seven bits goes on in a second byte.
    match u8::try_from(value.len()).unwrap().checked_sub(127) {
        None => out.push(u8::try_from(value.len()).unwrap()),
        Some(rest) => out.extend_from_slice(&[127, rest]),
    }
    out.extend_from_slice(value.as_bytes());
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;
const SCHEME_HTTP: u8 = 0x86;
const AUTHORITY: u8 = 0x41;
const PATH: u8 = 0x44;
const CONTENT_TYPE: u8 = 0x5f;
const AUTHORIZATION: u8 = 0x57;

/// The headers of a call of `Connect`.
pub(crate) fn connect_headers(address: SocketAddr) -> Vec<u8> {
    let mut block = vec![POST, SCHEME_HTTP];
    header(&mut block, PATH, "/rialto.v1.Network/Connect");
    header(&mut block, AUTHORITY, &address.to_string());
    header(&mut block, CONTENT_TYPE, "application/grpc");
    block
}

/// The headers of a GET.
pub(crate) fn get_headers(address: SocketAddr, path: &str, bearer: &str) -> Vec<u8> {
    let mut block = vec![GET, SCHEME_HTTP];
    header(&mut block, PATH, path);
    header(&mut block, AUTHORITY, &address.to_string());
    header(&mut block, AUTHORIZATION, &format!("Bearer {bearer}"));
    block
}
