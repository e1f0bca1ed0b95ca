//! `rialto repair`: what damage has cost each network of a stopped node, and the way on.

use crate::context::{Context, running};
use crate::exit::CliError;
use crate::offline;
use crate::render;
use crate::render::value;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Arguments of `repair`; `--data DIR` names the data directory.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// Do it; without this nothing is changed
    #[arg(long)]
    apply: bool,
}

impl Repair {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let data = cx.data_dir()?;
        if running(&data)?.is_some() {
            let message = format!("a node is running on {}", data.display());
            return Err(CliError::conflict(message).next("stop it first: repair needs the data for itself"));
        }
        if !data.is_dir() {
            return Err(CliError::not_found(format!("there is no data directory {}", data.display())));
        }
        let kept = self.apply.then(|| free_path(&data));
        let report = offline::repair_directory(&data, kept.as_deref())?;
        let zone = cx.zone.clone();
        cx.out.show(&report, |report, _| text(report, &zone))?;
        let whole = report.get("ok") == Some(&Value::Bool(true));
        match kept {
            _ if whole => cx.out.hint("nothing is damaged"),
            Some(kept) => {
                cx.out.hint(&format!("repaired; the events that went are in {}", kept.display()));
                cx.out.hint("copies of the damaged files are in `damaged` beside them; the search index is built anew");
            }
            None => cx.out.hint("nothing was changed; `rialto repair --apply` does it (make a copy of the data first)"),
        }
        Ok(())
    }
}

/// A name for the events that go, that nothing has yet.
fn free_path(data: &Path) -> PathBuf {
    let dir = data.join("damaged");
    let mut names = (1_u32..).map(|n| dir.join(format!("lost-events-{n}.jsonl")));
    names.find(|path| !path.exists()).unwrap_or(dir)
}

fn text(report: &Value, zone: &jiff::tz::TimeZone) -> String {
    let mut out = String::new();
    for place in value::list(report, "damage") {
        let text = |name: &str| place.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| place.get(name).and_then(Value::as_u64);
        let records = render::count(usize::try_from(number("records").unwrap_or(0)).unwrap_or(usize::MAX), "record");
        let whose = number("network").map_or("nobody can tell whose".to_owned(), |n| format!("network number {n}"));
        let offset = number("offset").unwrap_or(0);
        out.push_str(&format!("{} at {offset}: {} ({records}, {whose})\n", text("file"), text("what")));
    }
    for network in value::list(report, "networks") {
        out.push('\n');
        out.push_str(&value::lines(network, zone));
    }
    out
}
