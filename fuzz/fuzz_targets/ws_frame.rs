//! WebSocket frames of clients: however the bytes are cut, the same texts come out, with the same verdict.
//! The decoder is taken in by its sources, as it is.
#![no_main]

#[allow(dead_code, unused_imports, reason = "only the decoder is fuzzed")]
#[path = "../../crates/carrier/src/websocket/codec.rs"]
mod codec;

use codec::{Broken, Decoder, WsItem};

/// Largest text: small, so that the bound is met.
const TEXT_BYTES_MAX: usize = 4096;

#[derive(Debug, Default, PartialEq)]
struct Seen {
    texts: Vec<Vec<u8>>,
    pings: Vec<Vec<u8>>,
    closes: usize,
    broken: Option<Broken>,
}

/// Feeds the bytes in pieces, the first of them shorter.
fn feed(data: &[u8], first: usize, step: usize) -> Seen {
    let mut decoder = Decoder::new(TEXT_BYTES_MAX);
    let mut seen = Seen::default();
    let (head, tail) = data.split_at(first.min(data.len()));
    for piece in std::iter::once(head).chain(tail.chunks(step)).filter(|piece| !piece.is_empty()) {
        decoder.room().extend_from_slice(piece);
        let (items, broken) = decoder.take(piece.len());
        for item in items {
            match item {
                WsItem::Texts(texts) => seen.texts.extend(texts.iter().map(<[u8]>::to_vec)),
                WsItem::Ping(data) => seen.pings.push(data.to_vec()),
                WsItem::Close => seen.closes += 1,
            }
        }
        decoder.rest();
        seen.broken = broken;
        if broken.is_some() {
            break;
        }
    }
    seen
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The first two bytes say where to cut.
    let [first, step, data @ ..] = data else { return };
    let whole = feed(data, data.len(), 1);
    for text in &whole.texts {
        assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
        assert!(std::str::from_utf8(text).is_ok(), "{text:?}");
    }
    assert!(whole.pings.iter().all(|ping| ping.len() <= 125));
    assert_eq!(feed(data, usize::from(*first), usize::from(*step) + 1), whole);
    // The smallest pieces only for short inputs: they take long.
    if data.len() < 512 {
        assert_eq!(feed(data, 1, 1), whole);
    }
});
