//! A JSON object whose `content_base64` may be large: its value is decoded as it comes, the rest is kept.
//!
//! Invariant: memory is bounded by the rest, at most [`REST_BYTES_MAX`], and by the piece at hand. Whether the rest is JSON
//! at all is for the JSON reader, which sees it with the content left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rialto_model::{ErrorCode, Fault};
use serde_json::{Map, Value};

/// Bytes of the object besides the content.
const REST_BYTES_MAX: usize = 64 << 10;
const KEY: &[u8] = b"\"content_base64\"";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between strings.
    Plain,
    /// In a string, maybe behind a backslash.
    Text { escaped: bool },
    /// In the content, maybe behind a backslash.
    Content { escaped: bool },
}

/// Separates the content from the rest.
#[derive(Debug)]
pub(super) struct Sieve {
    rest: Vec<u8>,
    place: Place,
    depth: usize,
    /// Where the string begins that ended last, or that is being read.
    text_from: usize,
    /// The string that ended last is the key of the content, and its colon came, or is to come.
    armed: bool,
    begun: bool,
    /// Characters that are not decoded yet.
    waiting: Vec<u8>,
    decoded: Vec<u8>,
}

impl Default for Sieve {
    fn default() -> Sieve {
        Sieve {
            rest: Vec::new(),
            place: Place::Plain,
            depth: 0,
            text_from: 0,
            armed: false,
            begun: false,
            waiting: Vec::new(),
            decoded: Vec::new(),
        }
    }
}

fn bad(what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("content_base64: {what}")).field("content_base64")
}

impl Sieve {
    /// Reads on; gives what is left of the piece where the content begins.
    pub(super) fn take<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], Fault> {
        let mut rest = piece;
        while let Some((byte, more)) = rest.split_first() {
            match self.place {
                Place::Content { escaped } => {
                    rest = more;
                    self.content(*byte, escaped)?;
                    continue;
                }
                Place::Text { escaped } => self.text(*byte, escaped),
                Place::Plain if *byte == b'"' && self.armed && self.ends_with_colon() => {
                    if std::mem::replace(&mut self.begun, true) {
                        return Err(bad("is said twice"));
                    }
                    self.armed = false;
                    self.place = Place::Content { escaped: false };
                    self.keep(*byte)?;
                    return Ok(more);
                }
                Place::Plain => self.plain(*byte),
            }
            self.keep(*byte)?;
            rest = more;
        }
        self.decode(false)?;
        Ok(rest)
    }

    fn keep(&mut self, byte: u8) -> Result<(), Fault> {
        if self.rest.len() >= REST_BYTES_MAX {
            let text = format!("besides its content the body is at most {REST_BYTES_MAX} bytes");
            return Err(Fault::new(ErrorCode::TooLarge, text));
        }
        self.rest.push(byte);
        Ok(())
    }

    fn ends_with_colon(&self) -> bool {
        self.rest.iter().rfind(|b| !b.is_ascii_whitespace()) == Some(&b':')
    }

    fn plain(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.text_from = self.rest.len();
                self.armed = false;
                self.place = Place::Text { escaped: false };
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.armed &= byte == b':' || byte.is_ascii_whitespace();
    }

    fn text(&mut self, byte: u8, escaped: bool) {
        self.place = match byte {
            b'"' if !escaped => {
                let text = self.rest.get(self.text_from..).unwrap_or_default();
                // A value of this text is not followed by a colon.
                self.armed = self.depth == 1 && KEY.strip_suffix(b"\"") == Some(text);
                Place::Plain
            }
            b'\\' => Place::Text { escaped: !escaped },
            _ => Place::Text { escaped: false },
        };
    }

    fn content(&mut self, byte: u8, escaped: bool) -> Result<(), Fault> {
        match (byte, escaped) {
            (b'"', false) => {
                self.decode(true)?;
                self.place = Place::Plain;
                return self.keep(byte);
            }
            (b'\\', false) => self.place = Place::Content { escaped: true },
            // Lines of encoders that break them; a slash may be written with a backslash.
            (b'n' | b'r', true) => self.place = Place::Content { escaped: false },
            (b'/', true) | (_, false) => {
                self.waiting.push(byte);
                self.place = Place::Content { escaped: false };
            }
            (_, true) => return Err(bad("not base64")),
        }
        Ok(())
    }

    /// Decodes whole groups; the last one, which may be padded, only at the end.
    fn decode(&mut self, end: bool) -> Result<(), Fault> {
        let ready = if end { self.waiting.len() } else { self.waiting.len().saturating_sub(1) / 4 * 4 };
        let group = self.waiting.get(..ready).unwrap_or_default();
        STANDARD.decode_vec(group, &mut self.decoded).map_err(|_| bad("not base64"))?;
        self.waiting.drain(..ready);
        Ok(())
    }

    /// Whether the content has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// What was decoded since the last time.
    pub(super) fn decoded(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.decoded)
    }

    /// The members before the content, when it has just begun.
    pub(super) fn said_so_far(&self) -> Map<String, Value> {
        let mut text = self.rest.clone();
        text.extend_from_slice(b"\"}");
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// All members of the object; the content is empty.
    pub(super) fn said(&self) -> Result<Map<String, Value>, Fault> {
        let fault = |e: serde_json::Error| Fault::new(ErrorCode::InvalidJson, format!("not a JSON object: {e}"));
        serde_json::from_slice(&self.rest).map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Members = Map<String, Value>;

    /// Content and members of a body that comes in pieces of this size: those before the content, and all.
    fn sifted(body: &str, size: usize) -> Result<(Vec<u8>, Members, Members), ErrorCode> {
        let mut sieve = Sieve::default();
        let (mut content, mut first) = (Vec::new(), None);
        for piece in body.as_bytes().chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = sieve.take(rest).map_err(|f| f.code)?;
                if sieve.has_begun() && first.is_none() {
                    first = Some(sieve.said_so_far());
                }
                content.extend(sieve.decoded());
            }
        }
        Ok((content, first.unwrap_or_default(), sieve.said().map_err(|f| f.code)?))
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn content_is_taken_out_wherever_the_pieces_end() {
        let table = [
            (r#"{"filename":"a","content_base64":"aGVsbG8=","network":"n"}"#, "hello"),
            ("{\"filename\" : \"a\",\n \"content_base64\"\t:\n\"aGVs\\nbG8=\\r\\n\" , \"network\":\"n\"}", "hello"),
            (r#"{"filename":"a","content_base64":"","network":"n"}"#, ""),
            (r#"{"filename":"a","content_base64":"Pz8\/Pz8\/","network":"n"}"#, "??????"),
            (r#"{"filename":"a","content_base64":"aGVsbG8h","network":"n"}"#, "hello!"),
        ];
        for (body, want) in table {
            for size in 1..=body.len() {
                let (content, first, said) = sifted(body, size).unwrap();
                assert_eq!(content, want.as_bytes(), "{body} by {size}");
                assert_eq!(first, map(json!({ "filename": "a", "content_base64": "" })), "{body} by {size}");
                assert_eq!(said, map(json!({ "filename": "a", "content_base64": "", "network": "n" })));
            }
        }
    }

    #[test]
    fn what_only_looks_like_the_content_is_not() {
        for body in [
            r#"{"x":"content_base64","y":"aGVsbG8="}"#,
            r#"{"x":{"content_base64":"aGVsbG8="}}"#,
            r#"{"x":["content_base64","aGVsbG8="]}"#,
            r#"{"\"content_base64":"aGVsbG8="}"#,
            r#"{"content_base64":["aGVsbG8="]}"#,
            r#"{"content_base64":null,"x":"y"}"#,
            r#"{"content_base64":5}"#,
        ] {
            for size in 1..=body.len() {
                let (content, first, said) = sifted(body, size).unwrap();
                assert!(content.is_empty() && first.is_empty(), "{body} by {size}");
                assert_eq!(Value::Object(said), serde_json::from_str::<Value>(body).unwrap(), "{body} by {size}");
            }
        }
    }

    #[test]
    fn what_is_neither_json_nor_base64_is_refused() {
        let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(REST_BYTES_MAX));
        for (body, code) in [
            (r#"{"content_base64":"aGVsbG8"}"#, ErrorCode::InvalidArgument),
            (r#"{"content_base64":"aGVs=bG8"}"#, ErrorCode::InvalidArgument),
            (r#"{"content_base64":"a b="}"#, ErrorCode::InvalidArgument),
            (r#"{"content_base64":"aGVs\u0062"}"#, ErrorCode::InvalidArgument),
            (r#"{"content_base64":"","content_base64":""}"#, ErrorCode::InvalidArgument),
            (r#"{"content_base64":"aGVs"#, ErrorCode::InvalidJson),
            (r#"["content_base64","aGVs"]"#, ErrorCode::InvalidJson),
            ("", ErrorCode::InvalidJson),
            (long.as_str(), ErrorCode::TooLarge),
        ] {
            for size in [1, 3, body.len().max(1)] {
                assert_eq!(sifted(body, size).unwrap_err(), code, "{} by {size}", body.get(..40).unwrap_or(body));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back_and_nothing_panics(bytes: Vec<u8>, noise: Vec<u8>, size in 1usize..40) {
            let body = json!({ "a": "b", "content_base64": STANDARD.encode(&bytes), "c": "d" }).to_string();
            assert_eq!(sifted(&body, size).unwrap().0, bytes);
            let mut sieve = Sieve::default();
            let mut rest = noise.as_slice();
            while let (false, Ok(more)) = (rest.is_empty(), sieve.take(rest)) {
                rest = more;
            }
            let _ = sieve.said();
        }
    }
}
