//! `rialto work artifact` and `rialto work fetch`: hands a file over, and takes one. What fits into an event goes with it;
//! what is larger is uploaded as content that the event names.

use super::{WorkArg, act, explained};
use crate::commands::resource::guess;
use crate::context::{Context, Voice};
use crate::exit::CliError;
use crate::render;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rialto_client::StagedBlob;
use serde_json::{Map, Value, json};
use std::io::{Cursor, Read, Write};
use std::path::PathBuf;

/// Bytes of a file that goes with its event.
const EVENT_BYTES_MAX: usize = 256 << 10;
/// JSON of a text part is at most this long; text of many escapes is sent as base64.
const TEXT_BYTES_MAX: usize = 512 << 10;
/// Events of a unit in one page.
const PAGE: u32 = 100;

/// Arguments of `work artifact`.
#[derive(Debug, Args)]
pub(crate) struct Artifact {
    #[command(flatten)]
    which: WorkArg,
    /// The file; `-` reads standard input
    file: PathBuf,
    /// What it is called; the same name again replaces it
    #[arg(long)]
    name: Option<String>,
}

/// Arguments of `work fetch`.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    #[command(flatten)]
    which: WorkArg,
    /// WorkArg artifact; not needed if there is one
    artifact: Option<String>,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A short file as a part: text if it is text.
fn part(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).ok().map(|text| json!({ "text": text }));
    match text.filter(|part| part.to_string().len() <= TEXT_BYTES_MAX) {
        Some(part) => part,
        None => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// What parts say, as bytes; nothing for a part of another kind.
fn said(parts: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for part in parts.as_array()? {
        match (part.get("text").and_then(Value::as_str), part.get("base64").and_then(Value::as_str)) {
            (Some(text), None) => out.extend_from_slice(text.as_bytes()),
            (None, Some(text)) => out.extend(STANDARD.decode(text).ok()?),
            _ => return None,
        }
    }
    Some(out)
}

impl Artifact {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let fail = |error: std::io::Error| CliError::file("read", &self.file, &error);
        let stdin = self.file.as_os_str() == "-";
        let (mut from, length): (Box<dyn Read + Send>, Option<u64>) = if stdin {
            (Box::new(std::io::stdin()), None)
        } else {
            let file = std::fs::File::open(&self.file).map_err(fail)?;
            let length = file.metadata().map_err(fail)?.len();
            (Box::new(file.take(length)), Some(length))
        };
        let own = self.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = self.name.clone().or(own.filter(|_| !stdin)).unwrap_or_else(|| "stdin".to_owned());
        let mut first = Vec::new();
        let most = u64::try_from(EVENT_BYTES_MAX).unwrap_or(u64::MAX);
        from.by_ref().take(most + 1).read_to_end(&mut first).map_err(fail)?;
        let mut voice = cx.member().await?;
        let mut artifact = Map::from_iter([("id".to_owned(), json!(name)), ("name".to_owned(), json!(name))]);
        let bytes;
        if first.len() <= EVENT_BYTES_MAX {
            bytes = u64::try_from(first.len()).unwrap_or(u64::MAX);
            artifact.insert("parts".to_owned(), json!([part(&first)]));
        } else {
            // Whose unit it is, and whether the session lives, is found out before the bytes are sent.
            voice.call(async |http| http.work(&self.which.id).await).await.map_err(explained)?;
            let blob: StagedBlob = voice.http.stage(length, Cursor::new(first).chain(from)).await?;
            bytes = blob.size;
            let kind = guess(&self.file).filter(|_| !stdin);
            let mut named = json!({ "sha256": blob.sha256, "size": blob.size });
            if let (Some(kind), Some(map)) = (kind, named.as_object_mut()) {
                map.insert("content_type".to_owned(), json!(kind));
            }
            artifact.insert("blob".to_owned(), named);
        }
        let more = [("artifact", Some(Value::Object(artifact))), ("last", Some(Value::Bool(true)))];
        let mut unit = act::emit(&mut voice, "work.artifact", &self.which.id, more).await?;
        if let Some(map) = unit.as_object_mut() {
            map.insert("artifact".to_owned(), json!({ "id": name, "chunks": 1, "bytes": bytes }));
        }
        cx.out.show(&unit, |_, _| format!("{name}: {} in 1 chunk", render::bytes(bytes)))
    }
}

/// The one of a unit's artifacts that is meant.
fn chosen<'u>(unit: &'u Value, wish: Option<&str>) -> Result<&'u Value, CliError> {
    let all: Vec<&Value> = unit.get("artifacts").and_then(Value::as_array).into_iter().flatten().collect();
    let text = |artifact: &'u Value, key: &str| artifact.get(key).and_then(Value::as_str);
    let names = || all.iter().filter_map(|a| text(a, "id")).collect::<Vec<_>>().join(", ");
    let found = match (wish, all.as_slice()) {
        (Some(wish), all) => {
            let named = |key| all.iter().find(|artifact| text(artifact, key) == Some(wish)).copied();
            named("id").or_else(|| named("name"))
        }
        (None, [one]) => Some(*one),
        (None, _) => None,
    };
    found.ok_or_else(|| match all.is_empty() {
        true => CliError::not_found("the unit has no artifact yet".to_owned()),
        false => CliError::not_found("the artifact must be named, by its id or its name".to_owned())
            .next(format!("there are {}", names())),
    })
}

impl Fetch {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.member().await?;
        let unit = voice.call(async |http| http.work(&self.which.id).await).await.map_err(explained)?;
        let artifact = chosen(&unit, self.artifact.as_deref())?;
        let id = artifact.get("id").and_then(Value::as_str).unwrap_or_default();
        let mut file = match &self.output {
            Some(path) => Some(std::fs::File::create(path).map_err(|e| CliError::file("write", path, &e))?),
            None => None,
        };
        let mut write = |cx: &mut Context, piece: &[u8]| match (&mut file, &self.output) {
            (Some(file), Some(path)) => file.write_all(piece).map_err(|e| CliError::file("write", path, &e)),
            _ => cx.out.bytes(piece),
        };
        if artifact.get("content") == Some(&Value::Bool(true)) {
            let mut body = voice.call(async |http| http.work_artifact(&self.which.id, id, None).await).await?;
            while let Some(piece) = body.chunk().await? {
                write(cx, &piece)?;
            }
            return Ok(());
        }
        write(cx, &gathered(&mut voice, &self.which.id, id).await?)
    }
}

/// An artifact whose parts are in the events of its unit.
async fn gathered(voice: &mut Voice, unit: &str, artifact: &str) -> Result<Vec<u8>, CliError> {
    // Nothing, while a chunk is of another kind; what comes anew replaces it.
    let mut bytes = Some(Vec::new());
    let mut cursor: Option<String> = None;
    loop {
        let after = cursor.as_deref();
        let page = voice.call(async |http| http.work_events(unit, after, Some(PAGE), None).await).await?;
        for entry in page.events.iter().filter(|entry| entry.event.kind == "work.artifact") {
            let payload = entry.event.payload_value();
            let made = payload.get("artifact").filter(|made| made.get("id").and_then(Value::as_str) == Some(artifact));
            let Some(made) = made else { continue };
            if payload.get("append") != Some(&Value::Bool(true)) {
                bytes = Some(Vec::new());
            }
            bytes = bytes.zip(made.get("parts").and_then(said)).map(|(before, more)| [before, more].concat());
        }
        if !page.has_more {
            return bytes.ok_or_else(|| {
                CliError::usage(format!("{artifact} has parts that are neither text nor bytes"))
                    .next("`rialto work show ID --json` shows them")
            });
        }
        cursor = Some(page.next_cursor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_base64() {
        assert_eq!(part("né".as_bytes()), json!({ "text": "né" }));
        assert_eq!(part(b"\xff\x00"), json!({ "base64": "/wA=" }));
        // Text of escapes alone would be too long for an event.
        assert!(part(&vec![1; EVENT_BYTES_MAX]).get("base64").is_some());
        for bytes in [b"".as_slice(), b"text", b"\xff\x00", &vec![1; EVENT_BYTES_MAX]] {
            assert_eq!(said(&json!([part(bytes)])).unwrap(), bytes);
        }
        assert_eq!(said(&json!([{ "text": "a" }, { "url": "x" }])), None);
    }

    #[test]
    fn one_artifact_needs_no_name() {
        let unit =
            |names: &[&str]| json!({ "artifacts": names.iter().map(|n| json!({ "id": n })).collect::<Vec<_>>() });
        assert_eq!(chosen(&unit(&["a"]), None).unwrap()["id"], "a");
        assert_eq!(chosen(&unit(&["a", "b"]), Some("b")).unwrap()["id"], "b");
        for (unit, wish) in [(unit(&["a", "b"]), None), (unit(&[]), None), (unit(&["a"]), Some("b"))] {
            assert!(chosen(&unit, wish).is_err());
        }
    }
}
