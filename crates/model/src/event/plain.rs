//! Events as most are written, read in one pass: members by their names, header texts without escapes, each name once.
//!
//! Invariant: what this accepts, the full parser accepts with the same result; whatever is unusual, wrong or doubtful is
//! left to it. Reading the envelope was a third of what a published event cost the server. An event that begins with the
//! very bytes of one that was read before is read from its payload on.

use super::{TEXT_MEMBERS, Visibility};
use crate::event_type::is_event_type;
use crate::{EventId, limits};

/// Nesting beyond this is left to the full parser.
const DEPTH_MAX: usize = 32;
/// Longer beginnings are not remembered.
const BEGINNING_BYTES_MAX: usize = 512;

/// A stretch of a text; nothing lies at its very beginning, so that one there stands for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span(u32, u32);

impl Span {
    pub(super) fn of(self, text: &str) -> Option<&str> {
        if self.is_none() { None } else { text.get(self.0 as usize..self.1 as usize) }
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Where the members of a plain event are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plain {
    pub(super) id: Span,
    pub(super) kind: Span,
    pub(super) source: Span,
    pub(super) target: Span,
    pub(super) payload: Span,
    pub(super) metadata: Span,
    pub(super) network: Span,
    pub(super) visibility: Option<Visibility>,
    /// The payload has one of [`TEXT_MEMBERS`].
    pub(super) may_hold_text: bool,
}

impl Plain {
    /// Whether events that begin like this one can be expected: an id is another one each time, metadata often is.
    fn is_common(&self) -> bool {
        !self.kind.is_none() && self.id.is_none() && self.metadata.is_none() && self.payload.is_none()
    }
}

/// How an event began that was read before: events of one sender mostly begin alike, up to the payload or the target.
#[derive(Debug, Default)]
pub struct Beginning {
    /// Up to the payload, and what is in it.
    text: String,
    plain: Plain,
    /// Where the target is in it, and what is before that.
    target: Mark,
}

/// A place in an event, and what was read before it.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at: usize,
    plain: Plain,
}

/// Reads a plain event; none if it is anything else, or its type or id is no legal one.
pub(super) fn read(text: &str, beginning: &mut Beginning) -> Option<Plain> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, texts: false };
    if !scan.begins_with(&beginning.text) {
        return read_anew(text, scan, beginning);
    }
    let mut out = beginning.plain;
    scan.at = beginning.text.len();
    scan.skip_space();
    scan.take(Member::Payload, text, &mut out)?;
    while scan.goes_on()? {
        let member = scan.member()?;
        scan.take(member, text, &mut out)?;
    }
    scan.is_whole(text, &out).then_some(out)
}

/// Reads an event that does not begin like the one before, or only up to its target, and remembers how it does.
fn read_anew(text: &str, mut scan: Scan<'_>, beginning: &mut Beginning) -> Option<Plain> {
    let mut out = Plain::default();
    let (mut target, mut payload) = (Mark::default(), None);
    let head = beginning.text.get(..beginning.target.at).unwrap_or_default();
    let same = if scan.begins_with(head) { head.len() } else { 0 };
    let mut more = if same > 0 {
        target = beginning.target;
        (scan.at, out) = (same, target.plain);
        scan.skip_space();
        scan.take(Member::Target, text, &mut out)?;
        scan.goes_on()?
    } else {
        scan.skip_space();
        scan.expect(b'{')?;
        scan.skip_space();
        true
    };
    while more {
        let member = scan.member()?;
        if out.is_common() && matches!(member, Member::Target) {
            target = Mark { at: scan.at, plain: out };
        } else if out.is_common() && matches!(member, Member::Payload) {
            payload = Some(Mark { at: scan.at, plain: out });
        }
        scan.take(member, text, &mut out)?;
        more = scan.goes_on()?;
    }
    // A type that was read before was looked at then.
    if !scan.is_whole(text, &out) || same == 0 && !out.kind.of(text).is_some_and(is_event_type) {
        return None;
    }
    if let Some(Mark { at, plain }) = payload.filter(|mark| mark.at <= BEGINNING_BYTES_MAX)
        && let Some(rest) = text.get(same..at)
    {
        beginning.text.truncate(same);
        beginning.text.push_str(rest);
        (beginning.plain, beginning.target) = (plain, target);
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

fn once(slot: &mut Span, span: Span) -> Option<()> {
    std::mem::replace(slot, span).is_none().then_some(())
}

/// An event is at most a few MiB.
fn span(start: usize, end: usize) -> Option<Span> {
    Some(Span(u32::try_from(start).ok()?, u32::try_from(end).ok()?))
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

    fn begins_with(&self, text: &str) -> bool {
        !text.is_empty() && self.bytes.starts_with(text.as_bytes())
    }

    /// Takes the value of a member.
    #[inline]
    fn take(&mut self, member: Member, text: &str, out: &mut Plain) -> Option<()> {
        match member {
            Member::Payload => {
                self.texts = false;
                once(&mut out.payload, self.object()?)?;
                out.may_hold_text = self.texts;
                Some(())
            }
            Member::Metadata => once(&mut out.metadata, self.object()?),
            Member::Id => once(&mut out.id, self.plain_string()?),
            Member::Type => once(&mut out.kind, self.plain_string()?),
            Member::Source => once(&mut out.source, self.plain_string()?),
            Member::Target => once(&mut out.target, self.plain_string()?),
            Member::Network => once(&mut out.network, self.plain_string()?),
            Member::Visibility => {
                let said = Visibility::from_wire(self.plain_string()?.of(text)?)?;
                out.visibility.replace(said).is_none().then_some(())
            }
        }
    }

    /// Whether another member follows.
    #[inline]
    fn goes_on(&mut self) -> Option<bool> {
        self.skip_space();
        match self.next()? {
            b',' => {
                self.skip_space();
                Some(true)
            }
            b'}' => Some(false),
            _ => None,
        }
    }

    /// Whether nothing follows, and the id, if there is one, is legal.
    fn is_whole(&mut self, text: &str, out: &Plain) -> bool {
        self.skip_space();
        self.at == self.bytes.len() && out.id.of(text).is_none_or(EventId::is_legal)
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
        span(start, end)
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
        span(start, self.at)
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
    fn an_event_that_begins_like_one_before_is_read_from_there_on() {
        let mut beginning = Beginning::default();
        let head = r#"{"type":"a.b","source":"agent:a","target":"channel/é","payload":"#;
        for rest in [r#"{"a":1}}"#, r#"{"text":"x"},"metadata":{"b":2}}"#, "{}}", " {} }", r#"{},"id":"e1"}"#] {
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
    fn another_target_is_read_from_the_target_on() {
        let mut beginning = Beginning::default();
        let event = |target: &str, between: &str| {
            format!(r#"{{"type":"a.b","source":"agent:a","target":"{target}"{between},"payload":{{"a":1}}}}"#)
        };
        for (target, between) in [
            ("channel/a", ""),
            ("channel/b", ""),
            ("", ""),
            ("channel/abc", r#","network":"n","visibility":"direct""#),
            ("agent:b", r#","network":"n""#),
            ("agent:b", ""),
        ] {
            let text = event(target, between);
            assert!(alone(&text).is_some());
            assert_eq!(read(&text, &mut beginning), alone(&text), "{text}");
            assert!(text.starts_with(&beginning.text) && beginning.text.ends_with("\"payload\":"), "{beginning:?}");
            let spaced = text.replace("\"target\":", "\"target\":  ");
            assert_eq!(read(&spaced, &mut beginning), alone(&spaced), "{spaced}");
            assert!(alone(&spaced).is_some());
        }
        let twice = event("core", r#","type":"a.c""#);
        assert_eq!((read(&twice, &mut beginning), alone(&twice)), (None, None));
        let (escaped, early) = (event("a\\u0041", ""), event("core", r#","metadata":{}"#));
        assert_eq!(read(&escaped, &mut beginning), None);
        assert_eq!(read(&early, &mut beginning), alone(&early));
        assert!(!beginning.text.contains("metadata"));
    }

    #[test]
    fn the_plain_form_is_read() {
        let text =
            r#" {"type":"a.b", "source":"agent:a","target":"channel/é","id":"e1","network":"n","visibility":"direct",
            "payload":{},"metadata":{}}"#
                .replace('\n', " ");
        let plain = alone(&text).unwrap();
        let part = |span: Span| span.of(&text).unwrap();
        assert_eq!((part(plain.kind), part(plain.target), part(plain.payload)), ("a.b", "channel/é", "{}"));
        assert_eq!(plain.visibility, Some(Visibility::Direct));
        let payload = r#"{"a":[1,-0.5e+3,"x\n\"",{"b":null}],"c": true ,"d":[] }"#;
        let text = format!(r#"{{"payload":{payload},"type":"a.b"}}"#);
        assert_eq!(alone(&text).unwrap().payload.of(&text), Some(payload));
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
