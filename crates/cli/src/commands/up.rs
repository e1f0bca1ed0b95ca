//! `rialto up`: run a node.

use crate::commands::now_ms;
use crate::context::Context;
use crate::exit::CliError;
use crate::node::{NodeSummary, RunningNode, log_to_stderr};
use crate::out::Out;
use crate::place::RunFile;
use crate::render::start::{Start, TokenLine, screen};
use crate::runtime;
use crate::settings::{Flags, Settings};
use clap::Args;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Arguments of `up`. `--network` names the default network and `--token` sets its token.
#[derive(Debug, Args)]
#[command(after_help = "--network NAME names the network made at the first start, --token T sets its token.\n\
    `rialto config` prints every setting that a file or the environment can give.")]
pub(crate) struct Up {
    /// Address and port to listen on [default: 127.0.0.1:8700]; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Let anybody in without a token; loopback only
    #[arg(long)]
    open: bool,
    /// Certificate chain in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Private key in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Listen beyond loopback without TLS
    #[arg(long)]
    insecure: bool,
    /// URL that others reach this node by
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
}

impl Up {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let settings = self.settings(cx)?;
        run(&settings, &mut cx.out)
    }

    /// File, environment and flags, merged and checked.
    fn settings(self, cx: &Context) -> Result<Settings, CliError> {
        let mut values = Vec::new();
        let mut put = |key, value: Option<String>| values.extend(value.map(|value| (key, value)));
        put("server.listen", self.listen);
        put("server.tls_cert", self.tls_cert);
        put("server.tls_key", self.tls_key);
        put("server.public_url", self.public_url);
        put("server.insecure", self.insecure.then(|| "true".to_owned()));
        put("network.open", self.open.then(|| "true".to_owned()));
        put("network.name", cx.global.network.clone());
        // Only the flag: RIALTO_TOKEN is the credential for some node, not necessarily for this one.
        let flags = Flags { values, token: cx.global.token.clone() };
        let file = cx.config_file()?;
        let file = file.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
        Settings::merge(cx.data_dir()?, file, &cx.env, &flags)
    }
}

/// Runs a node with these settings until it is told to stop: run file, start screen, and a clean end.
pub(crate) fn run(settings: &Settings, out: &mut Out) -> Result<(), CliError> {
    runtime::of_node()?.block_on(async {
        let log = log_to_stderr(settings);
        let started = RunningNode::start(settings).await;
        let shown = match &started {
            Ok(running) => running.about.run_file(settings).write(&settings.store.data),
            Err(_) => Ok(()),
        }
        .and_then(|()| started.as_ref().map_or(Ok(()), |running| running.about.show(settings, out)));
        log.release();
        let running = started?;
        let end = match shown {
            Ok(()) => running.until_stopped().await,
            Err(error) => Err(error),
        };
        RunFile::remove(&settings.store.data);
        end
    })
}

impl NodeSummary {
    fn run_file(&self, settings: &Settings) -> RunFile {
        RunFile {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            url: self.local_url(settings),
            listen: self.listen.to_string(),
            admin_secret: self.admin_secret.clone(),
            network: self.network.clone(),
            started_at: now_ms(),
        }
    }

    /// How commands on this machine reach the node: straight, not by way of a proxy. With TLS it is the URL that the
    /// certificate is made for.
    fn local_url(&self, settings: &Settings) -> String {
        if settings.server.tls_cert.is_some() {
            return self.url.clone();
        }
        let mut at = self.listen;
        match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
        format!("http://{at}")
    }

    fn show(&self, settings: &Settings, out: &mut Out) -> Result<(), CliError> {
        let token = match &self.fresh_token {
            _ if self.open => TokenLine::Open,
            Some(token) => TokenLine::Fresh(token.expose()),
            None if settings.network.token.is_some() => TokenLine::Given,
            None => TokenLine::Kept,
        };
        let start = Start {
            version: env!("CARGO_PKG_VERSION"),
            url: &self.url,
            network_id: &self.network.id,
            network_name: &self.network.name,
            data: &settings.store.data,
            token,
            browser_link: self.browser_link.as_deref(),
            plain: self.plain,
        };
        let told = json!({
            "url": self.url, "network": self.network, "data": settings.store.data,
            "token": self.fresh_token, "browser": self.browser_link, "plain": self.plain,
        });
        out.show(&told, |_, _| screen(&start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::env::Env;
    use crate::place::RunNetwork;
    use clap::Parser;

    fn settings(line: &str, env: Env) -> Result<Settings, CliError> {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Up(up) = cli.command else { panic!("not up") };
        let (out, _, _) = crate::out::testing::out(false);
        let cx = Context { global: cli.global, env, out, zone: jiff::tz::TimeZone::UTC };
        up.settings(&cx)
    }

    #[test]
    fn flags_reach_the_settings() {
        let line = "rialto up --listen 127.0.0.1:0 --data /d --network lab --token 0123456789abcdef --public-url https://x.example/";
        let settings = settings(line, Env::default()).unwrap();
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:0");
        assert_eq!(settings.store.data.to_str(), Some("/d"));
        assert_eq!(settings.network.name, "lab");
        assert_eq!(settings.network.token.unwrap().expose(), "0123456789abcdef");
        assert_eq!(settings.server.public_url.as_deref(), Some("https://x.example"));
    }

    #[test]
    fn the_client_variables_are_not_settings_of_a_node() {
        let env = Env::from([("RIALTO_TOKEN", "short"), ("RIALTO_NETWORK", "other"), ("RIALTO_DATA", "/e")]);
        let settings = settings("rialto up --open", env).unwrap();
        assert_eq!(settings.network.token, None);
        assert_eq!(settings.network.name, "main");
        assert!(settings.network.open);
        assert_eq!(settings.store.data.to_str(), Some("/e"));
    }

    #[test]
    fn the_screen_and_its_json() {
        let running = NodeSummary {
            open: false,
            listen: "127.0.0.1:8700".parse().unwrap(),
            url: "http://127.0.0.1:8700".into(),
            network: RunNetwork { id: "a1b2c3d4".into(), name: "main".into() },
            admin_secret: "ADMIN".into(),
            fresh_token: Some("TOKEN".into()),
            browser_link: None,
            plain: false,
        };
        let settings = Settings::defaults("/d".into());
        let (mut out, data, _) = crate::out::testing::out(true);
        running.show(&settings, &mut out).unwrap();
        let told: serde_json::Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&told["token"], &told["network"]["id"]), (&json!("TOKEN"), &json!("a1b2c3d4")));
        let (mut out, data, _) = crate::out::testing::out(false);
        running.show(&settings, &mut out).unwrap();
        assert!(data.text().contains("token    TOKEN") && !data.text().contains("ADMIN"));
        assert_eq!(running.run_file(&settings).admin_secret.expose(), "ADMIN");
        let behind_a_proxy =
            NodeSummary { listen: "0.0.0.0:8700".parse().unwrap(), url: "https://rialto.example".into(), ..running };
        assert_eq!(behind_a_proxy.run_file(&settings).url, "http://127.0.0.1:8700");
    }

    #[test]
    fn open_beyond_loopback_is_refused() {
        let error = settings("rialto up --open --listen 0.0.0.0:1 --insecure --data /d", Env::default()).unwrap_err();
        assert_eq!(error.exit, crate::exit::Exit::Usage);
    }
}
