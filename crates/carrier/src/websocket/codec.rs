//! WebSocket frames (RFC 6455) as this server reads and writes them: masked texts in, plain texts out.
//!
//! Own code, because what a burst costs lies here: all texts of one read stay in the block they were read into, and a
//! run of deliveries is framed once for all its recipients (docs/adr/0004-websocket-frames.md).
//! Not here: the handshake (`handshake`) and what the texts mean.

use bytes::{Bytes, BytesMut};
use rialto_node::{Framing, Texts};

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Payload of a control frame at most.
const CONTROL_BYTES_MAX: usize = 125;
/// Bytes asked of the socket while little comes, and while much comes.
const READ_BYTES: (usize, usize) = (1 << 10, 64 << 10);

/// What came in.
#[derive(Debug)]
pub enum WsItem {
    /// Whole texts.
    Texts(Texts),
    /// A ping, to be answered with the same bytes.
    Ping(Bytes),
    /// The peer says goodbye.
    Close,
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Against the protocol.
    Protocol(&'static str),
    /// Only texts are spoken here.
    Binary,
    /// A text is not UTF-8.
    NotText,
    /// Larger than the limit.
    TooLarge,
}

impl Broken {
    /// The close code and what is said with it.
    pub fn close(self) -> (u16, &'static str) {
        match self {
            Broken::Protocol(what) => (1002, what),
            Broken::Binary => (1003, "text frames only"),
            Broken::NotText => (1007, "text frames are UTF-8"),
            Broken::TooLarge => (1009, "too_large"),
        }
    }
}

#[derive(Debug)]
struct FrameHeader {
    fin: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Where the payload begins and ends, counted from the head.
    from: usize,
    to: usize,
}

/// Reads the head of a frame; none if more has to come first.
fn head(bytes: &[u8], max: usize) -> Result<Option<FrameHeader>, Broken> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    let (fin, opcode, short) = (first & 0x80 != 0, first & 0x0F, second & 0x7F);
    if first & 0x70 != 0 {
        return Err(Broken::Protocol("reserved bits are set"));
    }
    if second & 0x80 == 0 {
        return Err(Broken::Protocol("a client's frames are masked"));
    }
    if opcode >= CLOSE && (!fin || usize::from(short) > CONTROL_BYTES_MAX) {
        return Err(Broken::Protocol("control frames are short and whole"));
    }
    let wide = |n: usize| bytes.get(2..2 + n).map(|b| b.iter().fold(0u64, |v, b| v << 8 | u64::from(*b)));
    let (len, at) = match short {
        126 => (wide(2), 4),
        127 => (wide(8), 10),
        short => (Some(u64::from(short)), 2),
    };
    let Some(len) = len else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| *len <= max).ok_or(Broken::TooLarge)?;
    let Some(mask) = bytes.get(at..at + 4).and_then(|m| m.try_into().ok()) else { return Ok(None) };
    Ok(Some(FrameHeader { fin, opcode, mask, from: at + 4, to: at + 4 + len }))
}

/// Takes the mask off. Gives whether all that comes out is ASCII, and so text.
fn unmask(data: &mut [u8], mask: [u8; 4]) -> bool {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (eights, rest) = data.as_chunks_mut::<8>();
    let mut seen = 0;
    for eight in eights {
        let plain = u64::from_ne_bytes(*eight) ^ wide;
        *eight = plain.to_ne_bytes();
        seen |= plain;
    }
    let mut ascii = seen & u64::from_ne_bytes([0x80; 8]) == 0;
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
        ascii &= byte.is_ascii();
    }
    ascii
}

/// Takes frames out of what is read. Its buffer grows while much comes and shrinks when little does.
#[derive(Debug)]
pub struct Decoder {
    buf: BytesMut,
    /// A text that comes in several frames.
    message: Option<BytesMut>,
    /// Largest text.
    max: usize,
    /// Bytes to ask for, and bytes that came last.
    want: usize,
    came: usize,
    /// Texts that came last.
    texts: usize,
}

impl Decoder {
    pub fn new(max: usize) -> Decoder {
        Decoder { buf: BytesMut::new(), message: None, max, want: READ_BYTES.0, came: 0, texts: 0 }
    }

    /// Where the next read goes. Every read is followed by [`Decoder::take`].
    pub fn room(&mut self) -> &mut BytesMut {
        self.want = match self.came {
            came if came >= self.want => (self.want * 2).min(READ_BYTES.1),
            came if came < self.want / 4 => (self.want / 2).max(READ_BYTES.0),
            _ => self.want,
        };
        if self.buf.is_empty() && self.buf.capacity() > 4 * self.want {
            self.buf = BytesMut::new();
        }
        // A large text is not believed before it comes: the buffer at most doubles.
        self.buf.reserve(self.want.max(self.buf.len().min(self.max)));
        &mut self.buf
    }

    /// Nothing comes for now: a small empty buffer is given back. A large one waits for more of a burst.
    pub fn rest(&mut self) {
        if self.buf.is_empty() && self.buf.capacity() <= 4 * READ_BYTES.0 {
            self.buf = BytesMut::new();
        }
    }

    /// Nothing came for long: an empty buffer is given back, however large.
    pub fn sleep(&mut self) {
        if self.buf.is_empty() {
            (self.buf, self.want, self.came) = (BytesMut::new(), READ_BYTES.0, 0);
        }
    }

    /// Takes everything that is complete, after `came` bytes were read; what came before a mistake is good.
    pub fn take(&mut self, came: usize) -> (Vec<WsItem>, Option<Broken>) {
        self.came = came;
        let mut items = Vec::new();
        loop {
            let (mut at, mut spans) = (0, Vec::with_capacity(self.texts));
            let end = loop {
                match self.frame(&mut at, &mut spans, &mut items) {
                    Ok(true) => {}
                    Ok(false) => break Ok(None),
                    Err(CodecStop::Whole(message)) => break Ok(Some(message)),
                    Err(CodecStop::Broken(broken)) => break Err(broken),
                }
            };
            if !spans.is_empty() {
                // As many as that come again, mostly.
                self.texts = spans.len();
                items.push(WsItem::Texts(Texts::marked(self.buf.split_to(at).freeze(), spans)));
            } else {
                bytes::Buf::advance(&mut self.buf, at);
            }
            match end {
                Ok(Some(message)) => items.push(WsItem::Texts(Texts::one(message))),
                Ok(None) => return (items, None),
                Err(broken) => return (items, Some(broken)),
            }
        }
    }

    /// Takes one frame; false if it is not complete yet.
    fn frame(
        &mut self,
        at: &mut usize,
        spans: &mut Vec<std::ops::Range<usize>>,
        items: &mut Vec<WsItem>,
    ) -> Result<bool, CodecStop> {
        let Some(head) = head(self.buf.get(*at..).unwrap_or_default(), self.max)? else { return Ok(false) };
        let (from, to) = (*at + head.from, *at + head.to);
        let Some(data) = self.buf.get_mut(from..to) else { return Ok(false) };
        let ascii = unmask(data, head.mask);
        *at = to;
        match (head.opcode, head.fin, &mut self.message) {
            (TEXT, true, None) => {
                if !ascii {
                    std::str::from_utf8(data).map_err(|_| Broken::NotText)?;
                }
                spans.push(from..to);
            }
            (TEXT, false, None) => self.message = Some(BytesMut::from(&*data)),
            (CONTINUATION, fin, Some(message)) => {
                if message.len() + data.len() > self.max {
                    return Err(Broken::TooLarge.into());
                }
                message.extend_from_slice(data);
                if fin {
                    let message = self.message.take().unwrap_or_default().freeze();
                    std::str::from_utf8(&message).map_err(|_| Broken::NotText)?;
                    return Err(CodecStop::Whole(message));
                }
            }
            (TEXT | CONTINUATION, _, _) => return Err(Broken::Protocol("a text and its rest do not fit").into()),
            (BINARY, ..) => return Err(Broken::Binary.into()),
            (PING, ..) => items.push(WsItem::Ping(Bytes::copy_from_slice(data))),
            (PONG, ..) => {}
            (CLOSE, ..) if data.len() == 1 => return Err(Broken::Protocol("half a close code").into()),
            (CLOSE, ..) => items.push(WsItem::Close),
            _ => return Err(Broken::Protocol("unknown kind of frame").into()),
        }
        Ok(true)
    }
}

/// What interrupts the walk over frames.
enum CodecStop {
    /// A text of several frames is complete.
    Whole(Bytes),
    Broken(Broken),
}

impl From<Broken> for CodecStop {
    fn from(broken: Broken) -> CodecStop {
        CodecStop::Broken(broken)
    }
}

/// Text frames of a server: unmasked and whole.
#[derive(Debug)]
pub enum TextFrames {}

impl Framing for TextFrames {
    fn push_head(text_bytes: usize, out: &mut Vec<u8>) {
        text_head(text_bytes, out);
    }
}

/// Appends the head of a text of this length.
#[inline]
pub fn text_head(len: usize, out: &mut Vec<u8>) {
    out.push(0x80 | TEXT);
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short), _) if short < 126 => out.push(short),
        (_, Ok(len)) => {
            out.push(126);
            out.extend_from_slice(&len.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

/// Appends a ping.
pub fn ping(out: &mut Vec<u8>) {
    control(PING, &[], out);
}

/// Appends the answer to a ping.
pub fn pong(data: &[u8], out: &mut Vec<u8>) {
    control(PONG, data, out);
}

/// Appends a goodbye.
pub fn close(code: u16, reason: &str, out: &mut Vec<u8>) {
    let mut data = code.to_be_bytes().to_vec();
    data.extend(reason.bytes().take(CONTROL_BYTES_MAX - 2));
    control(CLOSE, &data, out);
}

fn control(opcode: u8, data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x80 | opcode, u8::try_from(data.len()).unwrap_or(0)]);
    out.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's frame.
    fn client(first: u8, data: &[u8], mask: [u8; 4]) -> Vec<u8> {
        let mut out = Vec::new();
        text_head(data.len(), &mut out);
        out[0] = first;
        out[1] |= 0x80;
        out.extend_from_slice(&mask);
        out.extend(data.iter().zip(mask.into_iter().cycle()).map(|(b, m)| b ^ m));
        out
    }

    fn feed(decoder: &mut Decoder, bytes: &[u8]) -> (Vec<String>, Option<Broken>) {
        decoder.room().extend_from_slice(bytes);
        let (items, broken) = decoder.take(bytes.len());
        let mut seen = Vec::new();
        for item in items {
            match item {
                WsItem::Texts(texts) => seen.extend(texts.iter().map(|t| String::from_utf8(t.to_vec()).unwrap())),
                WsItem::Ping(data) => seen.push(format!("ping {}", data.len())),
                WsItem::Close => seen.push("close".into()),
            }
        }
        (seen, broken)
    }

    #[test]
    fn frames_come_out_whole_wherever_the_bytes_are_cut() {
        let mask = [1, 2, 3, 4];
        let long = "é".repeat(40_000);
        let mut stream = Vec::new();
        stream.extend(client(0x81, b"one", mask));
        stream.extend(client(0x81, long.as_bytes(), [9, 8, 7, 6]));
        stream.extend(client(0x01, b"fi", mask));
        stream.extend(client(0x89, b"are you there", mask));
        stream.extend(client(0x00, b"n", mask));
        stream.extend(client(0x80, b"e", mask));
        stream.extend(client(0x81, b"", mask));
        stream.extend(client(0x8A, b"", mask));
        stream.extend(client(0x88, &[3, 232], mask));
        let expected: Vec<String> = ["one", &long, "ping 13", "fine", "", "close"].map(String::from).into();
        for step in [1, 2, 7, 1000, stream.len()] {
            let mut decoder = Decoder::new(1 << 20);
            let mut seen = Vec::new();
            for piece in stream.chunks(step) {
                let (items, broken) = feed(&mut decoder, piece);
                assert_eq!(broken, None);
                seen.extend(items);
            }
            // Control frames may overtake the texts of the same read, texts never overtake each other.
            seen.sort_by_key(|s| expected.iter().position(|e| e == s));
            assert_eq!(seen, expected, "in steps of {step}");
        }
    }

    #[test]
    fn mistakes_have_their_close_code_and_leave_what_came_before() {
        let mask = [1, 2, 3, 4];
        let mut unmasked = Vec::new();
        text_head(1, &mut unmasked);
        unmasked.push(b'x');
        let cases = [
            (unmasked, 1002),
            (client(0xC1, b"x", mask), 1002),
            (client(0x80, b"x", mask), 1002),
            (client(0x83, b"x", mask), 1002),
            (client(0x09, b"x", mask), 1002),
            (client(0x89, &[b'x'; 126], mask), 1002),
            (client(0x88, b"x", mask), 1002),
            ([client(0x01, b"x", mask), client(0x81, b"y", mask)].concat(), 1002),
            (client(0x82, b"x", mask), 1003),
            (client(0x81, &[0xFF], mask), 1007),
            ([client(0x01, &[0xC3], mask), client(0x80, b"x", mask)].concat(), 1007),
            (client(0x81, &[b'x'; 101], mask), 1009),
            ([client(0x01, &[b'x'; 60], mask), client(0x80, &[b'x'; 60], mask)].concat(), 1009),
        ];
        for (bytes, code) in cases {
            let mut decoder = Decoder::new(100);
            let (seen, broken) = feed(&mut decoder, &[client(0x81, b"good", mask), bytes.clone()].concat());
            assert_eq!(seen, ["good"], "{bytes:?}");
            assert_eq!(broken.map(|b| b.close().0), Some(code), "{bytes:?}");
        }
    }

    #[test]
    fn a_text_of_several_frames_at_its_end_and_half_a_character_between_frames() {
        let mask = [5, 5, 5, 5];
        let mut decoder = Decoder::new(100);
        let bytes = [client(0x01, &[0xC3], mask), client(0x80, &[0xA9], mask)].concat();
        assert_eq!(feed(&mut decoder, &bytes), (vec!["é".to_owned()], None));
    }

    #[test]
    fn the_buffer_follows_the_traffic() {
        let mut decoder = Decoder::new(1 << 20);
        let burst = client(0x81, &[b'x'; 200], [0; 4]).repeat(1000);
        for piece in burst.chunks(60_000) {
            feed(&mut decoder, piece);
        }
        assert!(decoder.want > 4096);
        for _ in 0..20 {
            feed(&mut decoder, &client(0x89, b"", [0; 4]));
        }
        decoder.room();
        assert_eq!(decoder.want, READ_BYTES.0);
        assert!(decoder.buf.capacity() <= 4 * READ_BYTES.0);
    }

    #[test]
    fn heads_of_every_length() {
        for (len, size) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            let mut out = Vec::new();
            text_head(len, &mut out);
            assert_eq!(out.len(), size, "{len}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            feed_any(&bytes);
        }

        #[test]
        fn unmasking_is_its_own_inverse(data: Vec<u8>, mask: [u8; 4]) {
            let mut twice = data.clone();
            let ascii = unmask(&mut twice, mask);
            let one_by_one: Vec<u8> = data.iter().zip(mask.into_iter().cycle()).map(|(b, m)| b ^ m).collect();
            proptest::prop_assert_eq!(&twice, &one_by_one);
            proptest::prop_assert_eq!(ascii, one_by_one.is_ascii());
            unmask(&mut twice, mask);
            proptest::prop_assert_eq!(twice, data);
        }
    }

    fn feed_any(bytes: &[u8]) {
        let mut decoder = Decoder::new(1000);
        decoder.room().extend_from_slice(bytes);
        let _ = decoder.take(bytes.len());
    }
}
