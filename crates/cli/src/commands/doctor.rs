//! `rialto doctor`: what is wrong here, and what is wrong there.

use crate::context::Context;
use crate::exit::CliError;
use crate::place::RunFile;
use crate::render;
use crate::render::value;
use crate::settings::{Flags, Settings};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DoctorFinding {
    name: String,
    ok: bool,
    /// Nothing is broken, but somebody should know.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    detail: String,
}

impl Doctor {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut checks = here(cx);
        let mut report = match ask(cx).await {
            Ok(report) => {
                checks.push(check("node", true, "answers"));
                report
            }
            Err(error) => {
                checks.push(check("node", false, &error.message));
                json!({ "unavailable": error.is_unavailable() })
            }
        };
        let theirs = value::list(&report, "checks").to_vec();
        checks.extend(theirs.iter().map(of_node));
        let unavailable = report.get("unavailable") == Some(&Value::Bool(true));
        if let Some(map) = report.as_object_mut() {
            map.remove("unavailable");
            map.insert("checks".to_owned(), json!(checks));
        }
        let zone = cx.zone.clone();
        cx.out.show(&report, |report, _| text(report, &checks, &zone))?;
        judge(&checks, unavailable)
    }
}

async fn ask(cx: &Context) -> Result<Value, CliError> {
    Ok(cx.operator()?.doctor().await?)
}

/// What can be seen without the node.
fn here(cx: &Context) -> Vec<DoctorFinding> {
    let mut out = Vec::new();
    let config = match cx.config_file() {
        Ok(None) => check("configuration", true, "none, defaults hold"),
        Ok(Some((path, text))) => match Settings::merge("/".into(), Some((&path, &text)), &cx.env, &Flags::default()) {
            Ok(_) => check("configuration", true, &path.display().to_string()),
            Err(error) => check("configuration", false, &error.message),
        },
        Err(error) => check("configuration", false, &error.message),
    };
    out.push(config);
    match cx.data_dir() {
        Ok(data) => {
            out.push(data_directory(&data));
            out.extend(run_file(&data));
        }
        Err(error) => out.push(check("data directory", false, &error.message)),
    }
    out
}

fn data_directory(data: &Path) -> DoctorFinding {
    use std::os::unix::fs::PermissionsExt;
    let shown = data.display();
    match std::fs::metadata(data) {
        Ok(meta) if meta.is_dir() && meta.permissions().mode() & 0o077 != 0 => {
            check("data directory", false, &format!("{shown} can be entered by others; chmod 700 it"))
        }
        Ok(meta) if meta.is_dir() => check("data directory", true, &shown.to_string()),
        Ok(_) => check("data directory", false, &format!("{shown} is not a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            check("data directory", true, &format!("{shown} does not exist yet; `rialto up` makes it"))
        }
        Err(error) => check("data directory", false, &format!("{shown}: {error}")),
    }
}

fn run_file(data: &Path) -> Option<DoctorFinding> {
    match RunFile::read(data) {
        Ok(None) => None,
        Ok(Some(run)) if run.is_alive() => {
            Some(check("run file", true, &format!("process {} on {}, version {}", run.pid, run.url, run.version)))
        }
        Ok(Some(run)) => Some(check("run file", false, &format!("process {} is gone without a clean stop", run.pid))),
        Err(error) => Some(check("run file", false, &error.message)),
    }
}

fn check(name: &str, ok: bool, detail: &str) -> DoctorFinding {
    DoctorFinding { name: name.to_owned(), ok, warning: false, detail: detail.to_owned() }
}

fn of_node(value: &Value) -> DoctorFinding {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
    DoctorFinding { warning: is("warning"), ..check(text("name"), is("ok"), text("detail")) }
}

fn text(report: &Value, checks: &[DoctorFinding], zone: &jiff::tz::TimeZone) -> String {
    let mut out = String::new();
    for check in checks {
        let mark = match (check.ok, check.warning) {
            (true, false) => "ok   ",
            (true, true) => "warn ",
            (false, _) => "WRONG",
        };
        let detail = if check.detail.is_empty() { "nothing to say" } else { &check.detail };
        out.push_str(&format!("{mark}  {}: {}\n", render::safe_line(&check.name), render::safe_line(detail)));
    }
    if let Some(per_day) = report.pointer("/growth/bytes_per_day").and_then(Value::as_u64) {
        out.push_str(&format!("growth: {} a day\n", render::bytes(per_day)));
    }
    let mut rest = report.clone();
    if let Some(map) = rest.as_object_mut() {
        for told in ["ok", "checks", "growth"] {
            map.remove(told);
        }
        if !map.is_empty() {
            out.push_str(&value::lines(&rest, zone));
        }
    }
    out
}

fn judge(checks: &[DoctorFinding], unavailable: bool) -> Result<(), CliError> {
    let wrong = checks.iter().filter(|check| !check.ok).count();
    if wrong == 0 {
        return Ok(());
    }
    let message = format!("{} failed", render::count(wrong, "check"));
    if unavailable && wrong == 1 {
        return Err(CliError::unavailable(message).next("start the node with `rialto up`"));
    }
    Err(CliError::internal(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use expect_test::expect;

    #[test]
    fn the_report_as_text() {
        let report = json!({"checks": [], "growth": {"bytes_per_day": 2048}, "networks": 2});
        let warned = DoctorFinding { warning: true, ..check("listener", true, "no TLS") };
        let checks = [check("disk", true, "20 GiB free"), warned, check("clock", false, "jumped\x1b")];
        expect![[r#"
            ok     disk: 20 GiB free
            warn   listener: no TLS
            WRONG  clock: jumped�
            growth: 2.0 KiB a day
            networks  2
        "#]]
        .assert_eq(&text(&report, &checks, &jiff::tz::TimeZone::UTC));
    }

    #[test]
    fn how_it_ends() {
        assert!(judge(&[check("a", true, "")], false).is_ok());
        assert_eq!(judge(&[check("a", false, "")], false).unwrap_err().exit, Exit::Internal);
        assert_eq!(judge(&[check("node", false, "")], true).unwrap_err().exit, Exit::Unavailable);
    }

    #[test]
    fn a_data_directory_open_to_others_is_wrong() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!data_directory(dir.path()).ok);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(data_directory(dir.path()).ok);
        assert!(data_directory(&dir.path().join("none")).ok);
    }
}
