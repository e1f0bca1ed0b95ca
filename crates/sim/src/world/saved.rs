//! Saved scripts: a script that once contradicted the specification, kept as a JSON file that is replayed for ever.
//!
//! A seed means another world as soon as the generator of scripts changes; a saved script does not. The files are in
//! `vectors/simulator`, one step per line, so that a person can read them and a diff shows what changed.

use super::{Script, run};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One file of `vectors/simulator`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedScript {
    /// The check that failed.
    pub check: String,
    /// The seed that found it, in the generator of that day.
    pub seed: u64,
    /// What the check said.
    pub what: String,
    /// The script, made short.
    pub script: Script,
}

impl SavedScript {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<SavedScript, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text of its file: JSON with one network and one step per line.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let mut out = String::from("{\n");
        for (name, value) in [("check", json!(self.check)), ("seed", json!(self.seed)), ("what", json!(self.what))] {
            let _ = writeln!(out, "  \"{name}\": {value},");
        }
        let script = &self.script;
        let sizes = [("seed", script.seed), ("segment_bytes", script.segment_bytes)];
        out.push_str("  \"script\": {\n");
        for (name, value) in sizes {
            let _ = writeln!(out, "    \"{name}\": {value},");
        }
        let _ = writeln!(out, "    \"snapshot_bytes\": {},", script.snapshot_bytes);
        if script.search {
            out.push_str("    \"search\": true,\n");
        }
        if script.direct {
            out.push_str("    \"direct\": true,\n");
        }
        let _ = writeln!(out, "    \"nets\": {},", lines(&script.nets)?);
        let _ = writeln!(out, "    \"steps\": {}", lines(&script.steps)?);
        out.push_str("  }\n}\n");
        Ok(out)
    }

    /// The name of its file: the check and the seed.
    pub fn file_name(&self) -> String {
        format!("{}-{}.json", self.check.replace([' ', ','], "-"), self.seed)
    }

    /// Writes its file into a folder. Returns the path of it.
    pub fn save(&self, folder: &Path) -> std::io::Result<PathBuf> {
        let path = folder.join(self.file_name());
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, self.to_text()?)?;
        Ok(path)
    }

    /// Replays the script. Returns what is wrong, with the script as a person reads it, or nothing if it holds.
    pub fn replay(&self) -> Option<String> {
        let (step, wrong) = run(&self.script).wrong?;
        Some(format!("{}: {} (after step {step} of)\n{}", wrong.check, wrong.what, self.script))
    }
}

/// A JSON list with one item per line.
fn lines<T: Serialize>(items: &[T]) -> Result<String, serde_json::Error> {
    let items = items.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("[\n      {}\n    ]", items.join(",\n      ")))
}
