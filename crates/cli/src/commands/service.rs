//! `rialto service …`: the node as a systemd user service.

use crate::context::Context;
use crate::env;
use crate::exit::CliError;
use clap::{Args, Subcommand};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Verbs of `service`.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Write the unit file
    Install(ServiceUnit),
    /// Remove the unit file
    Uninstall,
    /// Print the unit file
    Print(ServiceUnit),
}

/// What the service runs: `rialto up` with these options, and with `--data` and `--config` if they are given.
#[derive(Debug, Args)]
pub(crate) struct ServiceUnit {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

impl Service {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Service::Print(unit) => {
                let text = unit.text(cx)?;
                cx.out.show(&serde_json::json!({ "unit": text }), |_, _| text.clone())
            }
            Service::Install(unit) => install(cx, &unit),
            Service::Uninstall => uninstall(cx),
        }
    }
}

impl ServiceUnit {
    fn text(&self, cx: &Context) -> Result<String, CliError> {
        let program = std::env::current_exe()
            .map_err(|e| CliError::internal(format!("the path of this program cannot be read: {e}")))?;
        let mut words = vec![program.display().to_string(), "up".to_owned()];
        let mut put =
            |flag: &str, value: Option<String>| words.extend(value.into_iter().flat_map(|v| [flag.to_owned(), v]));
        let absolute = |path: &Option<PathBuf>| -> Option<String> {
            let path = path.as_ref()?;
            Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string())
        };
        // What this shell's environment says is said to the service too: it will not have this environment.
        let or_env = |flag: &Option<PathBuf>, name: &str| flag.clone().or_else(|| cx.env.get(name).map(PathBuf::from));
        put("--data", absolute(&or_env(&cx.global.data, env::DATA)));
        put("--config", absolute(&or_env(&cx.global.config, env::CONFIG)));
        put("--network", cx.global.network.clone());
        put("--listen", self.listen.clone());
        Ok(unit(&words))
    }
}

/// The unit file for this command line.
fn unit(words: &[String]) -> String {
    let command: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!(
        "[Unit]\n\
         Description=Rialto: one network for every agent\n\
         After=network-online.target\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         TimeoutStopSec=30\n\
         NoNewPrivileges=yes\n\
         UMask=0077\n\
         LimitNOFILE=65536\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        command.join(" ")
    )
}

/// One word of `ExecStart=`: specifiers and variables are not expanded, spaces do not split.
fn quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let plain = !escaped.is_empty() && escaped.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@%$=+,".contains(c));
    if plain { escaped } else { format!("\"{escaped}\"") }
}

fn unit_path(cx: &Context) -> Result<PathBuf, CliError> {
    let base = crate::place::config_home(&cx.env).and_then(|dir| dir.parent().map(Path::to_owned));
    match base {
        Some(base) => Ok(base.join("systemd/user/rialto.service")),
        None => Err(CliError::usage("there is no home directory to install into").next("set HOME")),
    }
}

fn install(cx: &mut Context, unit: &ServiceUnit) -> Result<(), CliError> {
    let path = unit_path(cx)?;
    let text = unit.text(cx)?;
    let fail = |e: std::io::Error| CliError::file("write", &path, &e);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(fail)?;
    }
    std::fs::write(&path, text).map_err(fail)?;
    cx.out.show(&serde_json::json!({ "file": path }), |_, _| path.display().to_string())?;
    cx.out.hint("start it with: systemctl --user daemon-reload && systemctl --user enable --now rialto");
    cx.out.hint("keep it running after logout with: loginctl enable-linger");
    Ok(())
}

fn uninstall(cx: &mut Context) -> Result<(), CliError> {
    let path = unit_path(cx)?;
    match std::fs::remove_file(&path) {
        Ok(()) => {
            cx.out.show(&serde_json::json!({ "file": path }), |_, _| format!("removed {}", path.display()))?;
            cx.out.hint("stop it with: systemctl --user disable --now rialto; the data stays");
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(CliError::not_found(format!("{} is not installed", path.display())))
        }
        Err(error) => Err(CliError::file("remove", &path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_unit_file() {
        let words = ["/usr/bin/rialto", "up", "--data", "/home/ana/my data/100%"].map(str::to_owned);
        expect![[r#"
            [Unit]
            Description=Rialto: one network for every agent
            After=network-online.target

            [Service]
            ExecStart=/usr/bin/rialto up --data "/home/ana/my data/100%%"
            Restart=on-failure
            RestartSec=2
            TimeoutStopSec=30
            NoNewPrivileges=yes
            UMask=0077
            LimitNOFILE=65536

            [Install]
            WantedBy=default.target
        "#]]
        .assert_eq(&unit(&words));
    }

    #[test]
    fn the_service_uses_the_data_of_this_shell() {
        let (out, _, _) = crate::out::testing::out(false);
        let env = crate::env::Env::from([("RIALTO_DATA", "/srv/rialto")]);
        let cx = Context { global: crate::args::Global::default(), env, out, zone: jiff::tz::TimeZone::UTC };
        let text = ServiceUnit { listen: Some("127.0.0.1:9000".into()) }.text(&cx).unwrap();
        assert!(text.contains(" up --data /srv/rialto --listen 127.0.0.1:9000\n"), "{text}");
    }

    #[test]
    fn words_are_not_expanded() {
        assert_eq!(quote("a$b"), "a$$b");
        assert_eq!(quote("a\"b"), "\"a\\\"b\"");
        assert_eq!(quote(""), "\"\"");
    }
}
