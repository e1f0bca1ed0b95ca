//! `rialto verify`: check everything that is stored, by a running node or in a directory nobody has open.

use crate::context::{Context, running};
use crate::exit::CliError;
use crate::offline;
use crate::progress::{ProgressLine, ProgressStep};
use crate::render;
use crate::render::value;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;

/// Arguments of `verify`; `--data DIR` names a directory.
#[derive(Debug, Args)]
pub(crate) struct Verify {}

impl Verify {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let remote = cx.global.url.is_some() || cx.env.get(crate::env::URL).is_some();
        let data = cx.data_dir()?;
        let ask = cx.global.data.is_none() && remote;
        let report = if ask || running(&data)?.is_some() {
            by_node(cx).await?
        } else if data.is_dir() {
            let progress = ProgressLine::new(cx.out.live, false);
            offline::verify_directory(&data, &mut |step| progress.show(&step))?
        } else {
            return Err(CliError::not_found(format!("there is no data directory {}", data.display())));
        };
        let zone = cx.zone.clone();
        cx.out.show(&report, |report, _| value::lines(report, &zone))?;
        judge(&report)
    }
}

async fn by_node(cx: &mut Context) -> Result<Value, CliError> {
    let mut body = cx.operator()?.verify().await?;
    let progress = ProgressLine::new(cx.out.live, false);
    while let Some(line) = body.line().await? {
        match ReportLine::parse(&line)? {
            Some(ReportLine::Report(report)) => return Ok(report),
            Some(ReportLine::Step(step)) => progress.show(&step),
            None => {}
        }
    }
    Err(CliError::unavailable("the node stopped before the report").next("its log has the cause"))
}

/// One line of the node's answer: `{"progress": {done, total?, what?}}`, at last `{"report": {ok, …}}`.
#[derive(Debug, PartialEq)]
enum ReportLine {
    Step(ProgressStep),
    Report(Value),
}

impl ReportLine {
    fn parse(text: &str) -> Result<Option<ReportLine>, CliError> {
        #[derive(Deserialize)]
        struct Wire {
            progress: Option<ProgressStep>,
            report: Option<Value>,
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        let wire: Wire = serde_json::from_str(text)
            .map_err(|e| CliError::internal(format!("a line of the node's answer cannot be read: {e}")))?;
        Ok(wire.report.map(ReportLine::Report).or(wire.progress.map(ReportLine::Step)))
    }
}

/// Damage found is a failed command, so that a script notices.
fn judge(report: &Value) -> Result<(), CliError> {
    if report.get("ok").and_then(Value::as_bool).unwrap_or(false) {
        return Ok(());
    }
    let problems = render::count(value::list(report, "problems").len(), "problem");
    Err(CliError::internal(format!("{problems} found")).next("restore from a backup what cannot be read any more"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_of_the_answer() {
        let step = ProgressStep { done: 1, total: Some(4), what: "segment 1".into() };
        assert_eq!(
            ReportLine::parse(r#"{"progress":{"done":1,"total":4,"what":"segment 1"}}"#).unwrap(),
            Some(ReportLine::Step(step))
        );
        assert_eq!(
            ReportLine::parse(r#"{"report":{"ok":true}}"#).unwrap(),
            Some(ReportLine::Report(json!({"ok": true})))
        );
        assert_eq!(ReportLine::parse(" ").unwrap(), None);
        assert_eq!(ReportLine::parse("{}").unwrap(), None);
        assert!(ReportLine::parse("oops").is_err());
    }

    #[test]
    fn damage_fails_the_command() {
        assert!(judge(&json!({"ok": true, "problems": []})).is_ok());
        let error = judge(&json!({"ok": false, "problems": [{"file": "log/1"}]})).unwrap_err();
        assert_eq!(error.message, "1 problem found");
        assert!(judge(&json!({})).is_err());
    }
}
