//! `rialto work artifact`: hands a file over in chunks, each small enough for an event.

use super::{Which, act};
use crate::context::Context;
use crate::exit::CliError;
use crate::render;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

/// Bytes of the file in one event.
const CHUNK_BYTES: usize = 256 << 10;
/// JSON of a text part is at most this long; text of many escapes is sent as base64.
const TEXT_BYTES_MAX: usize = 512 << 10;

/// Arguments of `work artifact`.
#[derive(Debug, Args)]
pub(crate) struct Artifact {
    #[command(flatten)]
    which: Which,
    /// The file; `-` reads standard input
    file: PathBuf,
    /// What it is called; the same name again replaces it
    #[arg(long)]
    name: Option<String>,
}

/// The chunks of what is read: as long as possible, text never cut inside a character.
struct Chunks<R> {
    from: R,
    rest: Vec<u8>,
}

impl<R: Read> Chunks<R> {
    fn new(from: R) -> Chunks<R> {
        Chunks { from, rest: Vec::new() }
    }

    /// The next chunk; empty at the end.
    fn next(&mut self) -> std::io::Result<Vec<u8>> {
        let mut chunk = std::mem::take(&mut self.rest);
        let wanted = CHUNK_BYTES.saturating_sub(chunk.len());
        self.from.by_ref().take(u64::try_from(wanted).unwrap_or(u64::MAX)).read_to_end(&mut chunk)?;
        if chunk.len() == CHUNK_BYTES
            && let Err(error) = std::str::from_utf8(&chunk)
            && error.error_len().is_none()
        {
            // A character is cut in two: the rest goes with the next chunk.
            self.rest = chunk.split_off(error.valid_up_to());
        }
        Ok(chunk)
    }
}

/// A chunk as a part: text if it is text.
fn part(chunk: &[u8]) -> Value {
    let text = std::str::from_utf8(chunk).ok().map(|text| json!({ "text": text }));
    match text.filter(|part| part.to_string().len() <= TEXT_BYTES_MAX) {
        Some(part) => part,
        None => json!({ "base64": STANDARD.encode(chunk) }),
    }
}

impl Artifact {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let fail = |error: std::io::Error| CliError::file("read", &self.file, &error);
        let stdin = self.file.as_os_str() == "-";
        let from: Box<dyn Read> =
            if stdin { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(&self.file).map_err(fail)?) };
        let own = self.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or(own.filter(|_| !stdin)).unwrap_or_else(|| "stdin".to_owned());
        let mut chunks = Chunks::new(from);
        let mut voice = cx.member().await?;
        let (mut bytes, mut count) = (0, 0);
        let mut chunk = chunks.next().map_err(fail)?;
        loop {
            let following = chunks.next().map_err(fail)?;
            let last = following.is_empty();
            let more = [
                ("artifact", Some(json!({ "id": name, "name": name, "parts": [part(&chunk)] }))),
                ("append", (count > 0).then_some(Value::Bool(true))),
                ("last", Some(Value::Bool(last))),
            ];
            let mut unit = act::emit(&mut voice, "work.artifact", &self.which.id, more).await?;
            bytes += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            count += 1;
            if !last {
                chunk = following;
                continue;
            }
            if let Some(map) = unit.as_object_mut() {
                map.insert("artifact".to_owned(), json!({ "id": name, "chunks": count, "bytes": bytes }));
            }
            let text = format!("{name}: {} in {}", render::bytes(bytes), render::count(count, "chunk"));
            return cx.out.show(&unit, |_, _| text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut chunks = Chunks::new(bytes);
        std::iter::from_fn(|| Some(chunks.next().unwrap()).filter(|chunk| !chunk.is_empty())).collect()
    }

    #[test]
    fn text_is_never_cut_inside_a_character() {
        let text = "é".repeat(CHUNK_BYTES / 2 + 10);
        for shift in ["", "x"] {
            let text = format!("{shift}{text}");
            let chunks = all(text.as_bytes());
            assert_eq!(chunks.concat(), text.as_bytes());
            assert!(chunks.len() == 2 && chunks.iter().all(|chunk| part(chunk).get("text").is_some()));
        }
    }

    #[test]
    fn what_is_no_text_is_base64() {
        let noise: Vec<u8> = (0..CHUNK_BYTES + 5).map(|n| u8::try_from(n % 251).unwrap() | 0x80).collect();
        let chunks = all(&noise);
        assert_eq!(chunks.concat(), noise);
        assert!(chunks.iter().all(|chunk| part(chunk).get("base64").is_some()));
        assert_eq!(part(b"\xff\x00"), json!({ "base64": "/wA=" }));
        // Text of escapes alone would be too long for an event.
        let escapes = vec![1; CHUNK_BYTES];
        assert!(part(&escapes).get("base64").is_some());
        assert_eq!(all(b""), Vec::<Vec<u8>>::new());
    }
}
