//! Events as most are written, read in one pass: members by their names, header texts without escapes, each name once.
//!
//! Invariant: what this accepts, the full parser accepts with the same result; whatever is unusual, wrong or doubtful is
//! left to it. Reading the envelope was a third of what a published event cost the server. An event that begins with the
//! very bytes of one that was read before is read from its payload on.

use super::{TEXT_MEMBERS, Visibility, is_event_type};
use crate::{EventId, limits};

/// Nesting beyond this is left to the full parser.
const DEPTH_MAX: usize = 32;
/// Longer beginnings are not remembered.
const BEGINNING_BYTES_MAX: usize = 512;

/// A stretch of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(usize, usize);

impl Span {
    pub(super) fn of(self, text: &str) -> Option<&str> {
        text.get(self.0..self.1)
    }
}

/// Where the members of a plain event are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) id: Option<Span>,
    pub(super) kind: Option<Span>,
    pub(super) source: Option<Span>,
    pub(super) target: Option<Span>,
    pub(super) payload: Option<Span>,
    pub(super) metadata: Option<Span>,
    pub(super) network: Option<Span>,
    pub(super) visibility: Option<Visibility>,
    /// The payload has one of [`TEXT_MEMBERS`].
    pub(super) may_hold_text: bool,
}

/// How an event began that was read before, up to its payload: events of one sender mostly begin alike.
#[derive(Debug, Default)]
pub struct Beginning {
    text: String,
    plain: Plain,
}

impl Beginning {
    fn remember(&mut self, text: &str, plain: Plain) {
        self.text.clear();
        self.text.push_str(text);
        self.plain = plain;
    }
}

/// Reads a plain event; none if it is anything else, or its type or id is no legal one.
pub(super) fn read(text: &str, beginning: &mut Beginning) -> Option<Plain> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, texts: false };
    let mut out = Plain::default();
    let mut begun = None;
    let known = !beginning.text.is_empty() && scan.bytes.starts_with(beginning.text.as_bytes());
    let mut member = if known {
        out = beginning.plain;
        scan.at = beginning.text.len();
        Member::Payload
    } else {
        scan.skip_space();
        scan.expect(b'{')?;
        scan.skip_space();
        scan.member()?
    };
    loop {
        match member {
            Member::Payload => {
                begun = Some((scan.at, out)).filter(|_| !known);
                scan.texts = false;
                once(&mut out.payload, scan.object()?)?;
                out.may_hold_text = scan.texts;
            }
            Member::Metadata => once(&mut out.metadata, scan.object()?)?,
            Member::Id => once(&mut out.id, scan.plain_string()?)?,
            Member::Type => once(&mut out.kind, scan.plain_string()?)?,
            Member::Source => once(&mut out.source, scan.plain_string()?)?,
            Member::Target => once(&mut out.target, scan.plain_string()?)?,
            Member::Network => once(&mut out.network, scan.plain_string()?)?,
            Member::Visibility => once(&mut out.visibility, Visibility::from_wire(scan.plain_string()?.of(text)?)?)?,
        }
        scan.skip_space();
        match scan.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
        scan.skip_space();
        member = scan.member()?;
    }
    scan.skip_space();
    if scan.at != scan.bytes.len() || out.id.is_some_and(|id| !id.of(text).is_some_and(EventId::is_legal)) {
        return None;
    }
    if !known {
        if !out.kind?.of(text).is_some_and(is_event_type) {
            return None;
        }
        // An id is another one each time, and metadata often is.
        if let Some((at, plain)) = begun
            && (plain.kind.is_some(), plain.id, plain.metadata) == (true, None, None)
            && at <= BEGINNING_BYTES_MAX
            && let Some(text) = text.get(..at)
        {
            beginning.remember(text, plain);
        }
    }
    Some(out)
}

/// A member of an event.
#[derive(Clone, Copy)]
enum Member {
    Id,
    Type,
    Source,
    Target,
    Payload,
    Metadata,
    Network,
    Visibility,
}

/// Members as they stand in most events, by what tells their names apart.
const MEMBERS: [(&[u8], Member); 8] = [
    (b"\"type\":", Member::Type),
    (b"\"source\":", Member::Source),
    (b"\"target\":", Member::Target),
    (b"\"payload\":", Member::Payload),
    (b"\"metadata\":", Member::Metadata),
    (b"\"id\":", Member::Id),
    (b"\"network\":", Member::Network),
    (b"\"visibility\":", Member::Visibility),
];

fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The object that was read last has a member that holds text.
    texts: bool,
}

/// Each byte of the result has its top bit set where the byte of `word` is below `n` (n at most 128, bytes below 128).
const fn below(word: u64, n: u8) -> u64 {
    word.wrapping_sub(ONES * n as u64) & !word & TOPS
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);

/// Texts of more words than this are passed over in blocks.
const SHORT_WORDS: usize = 3;
/// Bytes in a block.
const BLOCK: usize = 16;

/// Whether a run of plain text ends here: at a quote, a backslash or a control character.
const fn ends_run(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn is_text_member(name: &[u8]) -> bool {
    TEXT_MEMBERS.iter().any(|known| known.as_bytes() == name)
}

/// How many of eight bytes come before one that ends a run of plain text: a quote, a backslash or a control character.
const fn plain_bytes(word: u64) -> usize {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    // Only the lowest mark is sure: what is taken off below it may borrow from the bytes above.
    let marks = below(word, 0x20) | below(quote, 1) | below(backslash, 1);
    (marks.trailing_zeros() / 8) as usize
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Passes over text up to a quote, a backslash or a control character. Most texts are short.
    #[inline]
    fn skip_plain(&mut self) {
        for _ in 0..SHORT_WORDS {
            let Some(eight) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>) else { break };
            let plain = plain_bytes(u64::from_le_bytes(*eight));
            self.at += plain;
            if plain < 8 {
                return;
            }
        }
        self.skip_long();
    }

    /// Passes over the rest of a long text: whole blocks first, then bytes one by one.
    #[inline(never)]
    fn skip_long(&mut self) {
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        while let Some((block, behind)) = rest.split_first_chunk::<BLOCK>() {
            // Without a branch per byte, so that it is done for many at once.
            let ends = block.iter().fold(0, |ends, byte| ends | u8::from(ends_run(*byte)));
            if ends != 0 {
                break;
            }
            rest = behind;
        }
        let plain = rest.iter().position(|byte| ends_run(*byte)).unwrap_or(rest.len());
        self.at = self.bytes.len() - rest.len() + plain;
    }

    /// The name of a member, up to its value.
    fn member(&mut self) -> Option<Member> {
        let rest = self.bytes.get(self.at..)?;
        let first = rest.get(1)?;
        let of_first = |(name, _): &&(&[u8], Member)| name.get(1) == Some(first) && rest.starts_with(name);
        let (name, member) = MEMBERS.iter().find(of_first)?;
        self.at += name.len();
        self.skip_space();
        Some(*member)
    }

    /// A string without escapes.
    fn plain_string(&mut self) -> Option<Span> {
        self.expect(b'"')?;
        let start = self.at;
        self.skip_plain();
        let end = self.at;
        self.expect(b'"')?;
        Some(Span(start, end))
    }

    /// A string; escapes by number are left to the full parser, which looks for halves of surrogate pairs.
    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.skip_plain();
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => {
                    if !matches!(self.next()?, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') {
                        return None;
                    }
                }
                _ => return None,
            }
        }
    }

    /// A whole object on one line.
    fn object(&mut self) -> Option<Span> {
        let start = self.at;
        if self.peek()? != b'{' {
            return None;
        }
        self.value(1)?;
        Some(Span(start, self.at))
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.peek()? {
            b'"' => self.string(),
            b'{' => self.members(depth, b'}'),
            b'[' => self.members(depth, b']'),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    /// The members of an object, or the items of an array.
    fn members(&mut self, depth: usize, end: u8) -> Option<()> {
        self.at += 1;
        self.skip_space();
        if self.peek()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            if end == b'}' {
                let start = self.at + 1;
                self.string()?;
                self.texts |= depth == 1 && self.bytes.get(start..self.at - 1).is_some_and(is_text_member);
                self.skip_space();
                self.expect(b':')?;
                self.skip_space();
            }
            self.value(depth + 1)?;
            self.skip_space();
            match self.next()? {
                b',' => self.skip_space(),
                byte if byte == end => return Some(()),
                _ => return None,
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        self.next()?.is_ascii_digit().then(|| self.skip_digits())
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

const _: () = assert!(DEPTH_MAX <= limits::PAYLOAD_DEPTH_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_at_quotes_backslashes_and_control_characters_only() {
        for byte in 0..=255u8 {
            let ends = ends_run(byte);
            assert_eq!(ends, byte < 0x20 || byte == b'"' || byte == b'\\');
            for place in 0..8 {
                for others in [b'x', b' ', b'#', b'[', 0x21, 0x7F, 0x80, 0xFF] {
                    let mut eight = [others; 8];
                    eight[place] = byte;
                    let expected = if ends { place } else { 8 };
                    assert_eq!(plain_bytes(u64::from_le_bytes(eight)), expected, "{byte} at {place} in {others}");
                }
            }
        }
    }

    #[test]
    fn long_runs_end_where_short_ones_do() {
        for len in 0..200 {
            for byte in [b'"', b'\\', b'\n', 0, 0x1F] {
                let mut text = vec![b'x'; 200];
                text[len] = byte;
                let text = String::from_utf8(text).unwrap();
                let mut scan = Scan { bytes: text.as_bytes(), at: 0, texts: false };
                scan.skip_plain();
                assert_eq!(scan.at, len, "{byte}");
            }
        }
    }

    fn alone(text: &str) -> Option<Plain> {
        read(text, &mut Beginning::default())
    }

    #[test]
    fn an_event_that_begins_like_one_before_is_read_from_its_payload_on() {
        let mut beginning = Beginning::default();
        let head = r#"{"type":"a.b","source":"agent:a","target":"channel/é","payload":"#;
        for rest in [r#"{"a":1}}"#, r#"{"text":"x"},"metadata":{"b":2}}"#, "{}}", r#"{},"id":"e1"}"#] {
            let text = format!("{head}{rest}");
            assert_eq!(read(&text, &mut beginning), alone(&text), "{text}");
            assert!(alone(&text).is_some());
            assert_eq!(beginning.text, head);
        }
        for rest in ["1}", "{}", r#"{},"type":"a.c"}"#, r#"{},"payload":{}}"#, r#"{},"id":"-"}"#, ""] {
            assert_eq!(read(&format!("{head}{rest}"), &mut beginning), None, "{rest}");
        }
        assert!(read(r#"{"id":"e1","type":"a.b","target":"core","payload":{}}"#, &mut beginning).is_some());
        assert!(read(r#"{"type":"A.b","target":"core","payload":{}}"#, &mut beginning).is_none());
        assert_eq!(beginning.text, head, "what has an id, or is refused, is not remembered");
        let long = format!(r#"{{"type":"a.b","target":"{}","payload":{{}}}}"#, "x".repeat(BEGINNING_BYTES_MAX));
        assert!(read(&long, &mut beginning).is_some());
        assert_eq!(beginning.text, head);
    }

    #[test]
    fn the_plain_form_is_read() {
        let text =
            r#" {"type":"a.b", "source":"agent:a","target":"channel/é","id":"e1","network":"n","visibility":"direct",
            "payload":{},"metadata":{}}"#
                .replace('\n', " ");
        let plain = alone(&text).unwrap();
        let part = |span: Option<Span>| span.unwrap().of(&text).unwrap();
        assert_eq!((part(plain.kind), part(plain.target), part(plain.payload)), ("a.b", "channel/é", "{}"));
        assert_eq!(plain.visibility, Some(Visibility::Direct));
        let payload = r#"{"a":[1,-0.5e+3,"x\n\"",{"b":null}],"c": true ,"d":[] }"#;
        let text = format!(r#"{{"payload":{payload},"type":"a.b"}}"#);
        assert_eq!(alone(&text).unwrap().payload.unwrap().of(&text), Some(payload));
    }

    #[test]
    fn what_is_unusual_is_left_to_the_full_parser() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            r#"{"x":1}"#,
            r#"{"id":"a","id":"b"}"#,
            r#"{"id":"\u0041"}"#,
            r#"{"id":null}"#,
            r#"{"payload":{"a":"\ud800"}}"#,
            r#"{"payload":{"a":01}}"#,
            r#"{"payload":{"a":1.}}"#,
            r#"{"payload":[]}"#,
            r#"{"payload":{"a":tru}}"#,
            r#"{"payload":{"a":"\x"}}"#,
            r#"{"payload":{,}}"#,
            r#"{"payload":{"a":[1,]}}"#,
            r#"{"payload":{"a" 1}}"#,
            r#"{"payload":{}}x"#,
            "{\"payload\":{\n}}",
            "{\"id\":\"\u{1}\"}",
            r#"{"id":"a",}"#,
            r#"{"visibility":"secret"}"#,
            r#"{"timestamp":5}"#,
            r#"{"payload":{"a":-}}"#,
            r#"{"payload":{"a":1e}}"#,
        ] {
            assert_eq!(alone(text), None, "{text}");
        }
        let deep = format!(r#"{{"payload":{{"a":{}1{}}}}}"#, "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert_eq!(alone(&deep), None);
    }
}
