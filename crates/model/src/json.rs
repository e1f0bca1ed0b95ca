//! Checks on raw JSON text that a syntax pass does not make, in one scan and without building a tree.

use crate::{ErrorCode, Fault};
use std::borrow::Cow;

/// What the scan found about a syntactically valid JSON text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Deepest nesting of arrays and objects.
    pub depth: usize,
    /// A line break stands between tokens, so the text does not fit on one line.
    pub multi_line: bool,
    /// A `\u` escape names half of a surrogate pair.
    pub lone_surrogate: bool,
}

/// Whether [`scan`] has nothing to find: no escape, no line break, and no more brackets than may nest. Most texts are
/// so, and a pass without branches over the bytes is far cheaper than a walk over the tokens.
pub fn is_simple(text: &str, depth_max: usize) -> bool {
    let mut brackets = 0usize;
    for chunk in text.as_bytes().chunks(128) {
        let (mut opened, mut odd) = (0u8, 0u8);
        for byte in chunk {
            opened += u8::from(*byte == b'{') + u8::from(*byte == b'[');
            odd |= u8::from(*byte == b'\\') | u8::from(*byte == b'\n') | u8::from(*byte == b'\r');
        }
        if odd != 0 {
            return false;
        }
        brackets += usize::from(opened);
    }
    brackets <= depth_max
}

/// Appends a number in decimal.
pub fn push_number(out: &mut String, n: u64) {
    out.push_str(itoa::Buffer::new().format(n));
}

/// Scans valid JSON text once.
pub fn scan(text: &str) -> Shape {
    let bytes = text.as_bytes();
    let mut shape = Shape::default();
    let (mut depth, mut at, mut in_string) = (0usize, 0usize, false);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if in_string {
            match byte {
                b'"' => in_string = false,
                b'\\' => at += escape_len(bytes.get(at..).unwrap_or_default(), &mut shape.lone_surrogate),
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                shape.depth = shape.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'\n' | b'\r' => shape.multi_line = true,
            _ => {}
        }
    }
    shape
}

/// Bytes taken by the escape whose backslash was just passed.
fn escape_len(rest: &[u8], lone: &mut bool) -> usize {
    if rest.first() != Some(&b'u') {
        return 1;
    }
    let unit = |from: usize| {
        rest.get(from..from + 4).and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u16::from_str_radix(h, 16).ok())
    };
    match unit(1) {
        Some(0xD800..=0xDBFF) => {
            let low = rest.get(5..7) == Some(b"\\u") && matches!(unit(7), Some(0xDC00..=0xDFFF));
            if low {
                return 11;
            }
            *lone = true;
        }
        Some(0xDC00..=0xDFFF) => *lone = true,
        _ => {}
    }
    5
}

/// The same JSON on one line: line breaks between tokens become spaces (inside strings they cannot stand).
pub fn one_line(text: &str, shape: Shape) -> Cow<'_, str> {
    if shape.multi_line { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(text) }
}

/// The text of a raw JSON string, unescaped; `None` if it is no string.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') { serde_json::from_str(raw).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inner)) }
}

fn needs_escapes(text: &[u8]) -> bool {
    // Without an early end the look is a few instructions for many bytes.
    let odd = |b: &u8| u8::from(*b == b'"') | u8::from(*b == b'\\') | u8::from(*b < 0x20);
    text.iter().fold(0, |found, b| found | odd(b)) != 0
}

/// The inside of `text` as a JSON string, if it needs escapes there.
pub(crate) fn escaped(text: &str) -> Option<String> {
    if !needs_escapes(text.as_bytes()) {
        return None;
    }
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).map(str::to_owned)
}

/// Appends `text` as a JSON string with its quotes.
pub fn push_string(out: &mut String, text: &str) {
    let escaped = escaped(text);
    out.push('"');
    out.push_str(escaped.as_deref().unwrap_or(text));
    out.push('"');
}

/// Appends `text` as a JSON string with its quotes to bytes. What is not UTF-8 is none afterwards either.
pub fn push_string_bytes(out: &mut Vec<u8>, text: &[u8]) {
    let escaped = if needs_escapes(text) { std::str::from_utf8(text).ok().and_then(escaped) } else { None };
    out.push(b'"');
    out.extend_from_slice(escaped.as_deref().map_or(text, str::as_bytes));
    out.push(b'"');
}

/// A member name, borrowed when it has no escapes.
pub(crate) struct Key<'a>(pub(crate) Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> serde::de::Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a member name")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
        }
        d.deserialize_str(Text)
    }
}

/// The refusal for text that is not JSON.
pub fn syntax_fault(error: &serde_json::Error) -> Fault {
    Fault::new(ErrorCode::InvalidJson, format!("not valid JSON: {error}"))
}

/// Sorted-key compact JSON, numbers as received: the canonical form behind body hashes.
pub fn canonical(raw: &str, out: &mut String) -> Result<(), Fault> {
    use serde_json::value::RawValue;
    let raw = raw.trim();
    match raw.as_bytes().first() {
        Some(b'{') => {
            let map: std::collections::BTreeMap<String, &RawValue> =
                serde_json::from_str(raw).map_err(|e| syntax_fault(&e))?;
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_string(out, key);
                out.push(':');
                canonical(value.get(), out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(|e| syntax_fault(&e))?;
            out.push('[');
            for (i, value) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(value.get(), out)?;
            }
            out.push(']');
        }
        Some(b'"') => push_string(out, &string(raw).ok_or_else(|| Fault::from(ErrorCode::InvalidJson))?),
        _ => out.push_str(raw),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_depth_lines_and_surrogates() {
        assert_eq!(scan(r#"{"a":[1,{"b":"}}]"}]}"#).depth, 3);
        assert!(scan("{\n}").multi_line);
        assert!(!scan(r#"{"a":"\n"}"#).multi_line);
        assert!(scan(r#"["\ud800"]"#).lone_surrogate);
        assert!(scan(r#"["\udc00x"]"#).lone_surrogate);
        assert!(scan(r#"["\ud83dx\ude00"]"#).lone_surrogate);
        assert!(!scan(r#"["\ud83d\ude00","\\ud800"]"#).lone_surrogate);
    }

    #[test]
    fn a_simple_text_needs_no_scan() {
        assert!(is_simple(r#"{"a":[1,{"b":2}]}"#, 3));
        assert!(!is_simple(r#"{"a":[1,{"b":2}]}"#, 2));
        assert!(!is_simple("{\n}", 9) && !is_simple("{\r}", 9) && !is_simple(r#"["\u0041"]"#, 9));
        assert!(!is_simple(&"[".repeat(300), 299));
    }

    #[test]
    fn canonical_sorts_and_keeps_numbers() {
        let mut out = String::new();
        canonical(r#"{"b": 1.50, "a":[ "x\u0041", {"z":null,"y":true} ]}"#, &mut out).unwrap();
        assert_eq!(out, r#"{"a":["xA",{"y":true,"z":null}],"b":1.50}"#);
    }

    proptest! {
        #[test]
        fn never_panics(text: String) {
            let _ = scan(&text);
            let mut out = String::new();
            let _ = canonical(&text, &mut out);
            let _ = string(&text);
        }

        #[test]
        fn what_is_simple_has_no_odd_shape(text in r#"[\[{}\]",:\\\n\ru0-9a-fdD ]{0,200}"#) {
            if is_simple(&text, 64) {
                let shape = scan(&text);
                prop_assert!(!shape.multi_line && !shape.lone_surrogate && shape.depth <= 64);
            }
        }

        #[test]
        fn numbers_are_decimal(n: u64) {
            let mut out = String::from("x");
            push_number(&mut out, n);
            prop_assert_eq!(out, format!("x{n}"));
        }

        #[test]
        fn strings_round_trip(text: String) {
            let mut out = String::new();
            push_string(&mut out, &text);
            prop_assert_eq!(string(&out).unwrap().into_owned(), text);
        }
    }
}
