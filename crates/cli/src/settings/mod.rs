//! Settings of a node: configuration file < environment < flags, merged before anything starts.
//!
//! Invariant: every key is a row of [`keys::KEYS`]; the parser, `rialto config` and the documentation read that table.
//! All faults of one run are told together.

pub(crate) mod doc;
pub(crate) mod elsewhere;
pub(crate) mod identity;
pub(crate) mod keys;
pub(crate) mod mods;

use crate::env::{self, Env};
use crate::exit::CliError;
use elsewhere::ConfiguredNetwork;
use keys::{KEYS, Key, Raw};
use mods::{ModSection, Mods};
use rialto_client::Secret;
use rialto_model::limits;
use rialto_outbound::{Outbound, OutboundSettings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where a node listens unless told otherwise.
pub(crate) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8700);
/// The shortest network token an operator may choose.
pub(crate) const TOKEN_CHARS_MIN: usize = 16;

/// Everything `rialto up` needs to know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) server: Server,
    pub(crate) store: Store,
    pub(crate) network: Network,
    pub(crate) workspaces: Workspaces,
    pub(crate) log: Log,
    pub(crate) search: Search,
    pub(crate) limits: Limits,
    pub(crate) outbound: Outward,
    pub(crate) identity: identity::Identity,
    pub(crate) mods: Mods,
    pub(crate) agents: Vec<Agent>,
    pub(crate) networks: Vec<ConfiguredNetwork>,
}

/// `[agents.NAME]`: an agent the node starts itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) address: String,
    pub(crate) network: Option<String>,
    pub(crate) restart: bool,
}

impl Agent {
    const KEYS: [&str; 4] = ["command", "address", "network", "restart"];

    /// Reads one section; what is wrong is told with the rest.
    fn from_toml(name: &str, value: &toml::Value) -> Result<Agent, String> {
        let table = value.as_table().ok_or("is not a section")?;
        if let Some(unknown) = table.keys().find(|key| !Agent::KEYS.contains(&key.as_str())) {
            return Err(format!("there is no key {unknown}{}", suggestion(unknown, Agent::KEYS)));
        }
        let text =
            |key: &str| table.get(key).map(|v| v.as_str().map(str::to_owned).ok_or(format!("{key}: expected text")));
        let command = match table.get("command") {
            Some(toml::Value::Array(words)) => {
                words.iter().map(|w| w.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            }
            _ => None,
        };
        let command = command
            .filter(|c| !c.is_empty())
            .ok_or("command: expected a list of words, such as [\"python3\", \"agent.py\"]")?;
        let address = text("address").transpose()?.unwrap_or_else(|| format!("agent:{name}"));
        let principal = rialto_model::Address::parse(&address).is_ok_and(|a| a.is_principal() && !a.is_foreign());
        if !principal {
            return Err(format!("address: nobody can join as {address:?}"));
        }
        let restart =
            table.get("restart").map_or(Some(true), toml::Value::as_bool).ok_or("restart: expected true or false")?;
        Ok(Agent { name: name.to_owned(), command, address, network: text("network").transpose()?, restart })
    }
}

/// `[server]`: the listener.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Server {
    pub(crate) listen: SocketAddr,
    pub(crate) public_url: Option<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) trusted_proxies: Vec<rialto_carrier::Subnet>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) insecure: bool,
}

/// `[store]`: the data directory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Store {
    pub(crate) data: PathBuf,
    /// 0: no budget.
    pub(crate) disk_budget_bytes: u64,
    pub(crate) free_space_floor_bytes: u64,
}

/// `[network]`: the default network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Network {
    pub(crate) name: String,
    pub(crate) open: bool,
    /// From `--token` alone: a secret has no place in a file of settings.
    pub(crate) token: Option<Secret>,
}

/// `[workspaces]`: networks that clients make.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workspaces {
    pub(crate) open_creation: Option<bool>,
}

/// `[log]`: the node's own log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    pub(crate) level: String,
    pub(crate) json: bool,
}

/// `[search]`: full text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Search {
    pub(crate) enabled: bool,
}

/// `[limits]`: bounds an operator may move.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) members_max: usize,
    /// Peers are slowed down that ask for challenges or show credentials that are not good.
    pub(crate) paces: bool,
}

/// `[outbound]`: what this node fetches from others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outward {
    pub(crate) allow_private_hosts: bool,
    pub(crate) extra_ca_file: Option<PathBuf>,
}

impl Outward {
    /// The one client for what is fetched from others.
    pub(crate) fn client(&self) -> Result<Outbound, CliError> {
        let settings = OutboundSettings {
            allow_private_hosts: self.allow_private_hosts,
            extra_ca_files: self.extra_ca_file.iter().cloned().collect(),
        };
        Outbound::new(&settings).map_err(|error| CliError::usage(format!("outbound.extra_ca_file: {error}")))
    }
}

/// What the command line of `up` says; it wins over everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// (key, value) pairs in the settings' own words.
    pub(crate) values: Vec<(&'static str, String)>,
    pub(crate) token: Option<Secret>,
}

impl Settings {
    /// The defaults, with this data directory.
    pub(crate) fn defaults(data: PathBuf) -> Settings {
        Settings {
            server: Server {
                listen: LISTEN,
                public_url: None,
                allowed_origins: Vec::new(),
                allowed_hosts: Vec::new(),
                trusted_proxies: Vec::new(),
                tls_cert: None,
                tls_key: None,
                insecure: false,
            },
            store: Store { data, disk_budget_bytes: 0, free_space_floor_bytes: 512 * 1024 * 1024 },
            network: Network { name: "main".to_owned(), open: false, token: None },
            workspaces: Workspaces { open_creation: None },
            log: Log { level: "info".to_owned(), json: false },
            search: Search { enabled: true },
            limits: Limits { connections_max: limits::CONNECTIONS_MAX, members_max: limits::MEMBERS_MAX, paces: true },
            outbound: Outward { allow_private_hosts: false, extra_ca_file: None },
            identity: identity::Identity::default(),
            mods: Mods::default(),
            agents: Vec::new(),
            networks: Vec::new(),
        }
    }

    /// Merges file, environment and flags over the defaults.
    pub(crate) fn merge(
        data: PathBuf,
        file: Option<(&Path, &str)>,
        env: &Env,
        flags: &Flags,
    ) -> Result<Settings, CliError> {
        let mut settings = Settings::defaults(data.clone());
        let mut faults = Faults::default();
        if let Some((path, text)) = file {
            settings.apply_file(path, text, &mut faults);
        }
        settings.apply_env(env, &mut faults);
        for (name, value) in &flags.values {
            match keys::find(name) {
                Some(key) => settings.apply(key, Raw::from_text(key, value), &flag_of(name), &mut faults),
                None => faults.add(format!("{name} is no setting")),
            }
        }
        settings.store.data = data; // found before the rest, by the same precedence
        settings.network.token = flags.token.clone();
        settings.check(&mut faults);
        faults.none_or(settings)
    }

    fn apply_file(&mut self, path: &Path, text: &str, faults: &mut Faults) {
        let shown = path.display();
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return faults.add(format!("{shown}: {}", error.to_string().trim_end())),
        };
        for (section, value) in &table {
            let Some(entries) = value.as_table() else {
                faults.add(format!("{shown}: {section} is not a section; keys belong under [server], [store], …"));
                continue;
            };
            if section == "agents" {
                for (name, value) in entries {
                    match Agent::from_toml(name, value) {
                        Ok(agent) => self.agents.push(agent),
                        Err(fault) => faults.add(format!("{shown}: agents.{name}: {fault}")),
                    }
                }
                continue;
            }
            if section == "networks" {
                for (name, value) in entries {
                    match ConfiguredNetwork::from_toml(name, value) {
                        Ok(network) => self.networks.push(network),
                        Err(fault) => faults.add(format!("{shown}: networks.{name}: {fault}")),
                    }
                }
                continue;
            }
            if section == "registrars" {
                for (prefix, value) in entries {
                    if let Err(fault) = self.identity.add(prefix, value) {
                        faults.add(format!("{shown}: registrars.{prefix}: {fault}"));
                    }
                }
                continue;
            }
            if section == "mod" {
                for (name, value) in entries {
                    match mods::from_toml(name, value) {
                        Ok(ModSection::Standard(patch)) => self.mods.set.push((name.clone(), patch)),
                        Ok(ModSection::Process(process)) => self.mods.processes.push(*process),
                        Err(fault) => faults.add(format!("{shown}: mod.{name}: {fault}")),
                    }
                }
                continue;
            }
            if !keys::sections().contains(&section.as_str()) {
                let near = suggestion(section, keys::sections());
                faults.add(format!("{shown}: there is no section [{section}]{near}"));
                continue;
            }
            for (name, value) in entries {
                let full = format!("{section}.{name}");
                match keys::find(&full) {
                    Some(key) => self.apply(key, Raw::from_toml(key, value), &format!("{shown}: {full}"), faults),
                    None => {
                        let near = suggestion(&full, KEYS.iter().map(|key| key.name));
                        faults.add(format!("{shown}: there is no key {full}{near}"));
                    }
                }
            }
        }
    }

    fn apply_env(&mut self, env: &Env, faults: &mut Faults) {
        for (name, value) in env.starting("RIALTO_") {
            if env::NAMED.contains(&name) {
                continue;
            }
            match KEYS.iter().find(|key| key.env() == name) {
                Some(key) => self.apply(key, Raw::from_text(key, value), name, faults),
                None if keys::sections().iter().any(|s| name.starts_with(&format!("RIALTO_{}_", s.to_uppercase()))) => {
                    let known: Vec<String> = KEYS.iter().map(Key::env).collect();
                    let near = suggestion(name, known.iter().map(String::as_str));
                    faults.add(format!("{name} is no setting{near}"));
                }
                None => {} // somebody else's variable
            }
        }
    }

    fn apply(&mut self, key: &Key, raw: Result<Raw, String>, place: &str, faults: &mut Faults) {
        if let Err(fault) = raw.and_then(|raw| (key.set)(self, raw)) {
            faults.add(format!("{place}: {fault}"));
        }
    }

    /// What no single key can tell.
    fn check(&self, faults: &mut Faults) {
        let server = &self.server;
        let loopback = server.listen.ip().is_loopback();
        let tls = server.tls_cert.is_some() && server.tls_key.is_some();
        if server.tls_cert.is_some() != server.tls_key.is_some() {
            faults.add("tls_cert and tls_key go together".to_owned());
        }
        if !loopback && !tls && !server.insecure {
            let listen = server.listen;
            faults.add(format!("{listen} can be reached from outside: give --tls-cert and --tls-key, or --insecure"));
        }
        if self.network.open && !loopback {
            faults
                .add("an open network needs a loopback listener: leave out --open, or listen on 127.0.0.1".to_owned());
        }
        if self.network.open && self.network.token.is_some() {
            faults.add("--open and --token contradict each other".to_owned());
        }
        if self.network.token.as_ref().is_some_and(|token| token.expose().chars().count() < TOKEN_CHARS_MIN) {
            faults
                .add(format!("a token has at least {TOKEN_CHARS_MIN} characters; leave out --token to get a good one"));
        }
    }
}

/// Everything that is wrong, told together.
#[derive(Debug, Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, fault: String) {
        self.0.push(fault);
    }

    fn none_or<T>(self, value: T) -> Result<T, CliError> {
        if self.0.is_empty() {
            return Ok(value);
        }
        Err(CliError::usage(self.0.join("\n")).next("`rialto config` prints every setting with its default"))
    }
}

/// `; did you mean x?` when something known is near.
fn suggestion<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = known.into_iter().map(|name| (strsim::damerau_levenshtein(text, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 3.max(text.len() / 4) => format!("; did you mean {name}?"),
        Some(_) | None => String::new(),
    }
}

fn flag_of(key: &str) -> String {
    let name = key.split_once('.').map_or(key, |(_, name)| name);
    match key {
        "network.name" => "--network".to_owned(),
        _ => format!("--{}", name.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_read_and_their_faults_told() {
        let read = |text: &str| {
            Settings::merge("/d".into(), Some((Path::new("rialto.toml"), text)), &Env::default(), &Flags::default())
        };
        let agents = read("[agents.bot]\ncommand = [\"python3\", \"bot.py\"]\n").unwrap().agents;
        let bot = Agent {
            name: "bot".into(),
            command: vec!["python3".into(), "bot.py".into()],
            address: "agent:bot".into(),
            network: None,
            restart: true,
        };
        assert_eq!(agents, [bot]);
        for (text, fault) in [
            ("[agents.bot]\ncommand = \"x\"\n", "agents.bot: command: expected a list"),
            ("[agents.bot]\ncommand = [\"x\"]\nadress = \"agent:b\"\n", "did you mean address?"),
            ("[agents.bot]\ncommand = [\"x\"]\naddress = \"core\"\n", "nobody can join as"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(fault), "{}", error.message);
        }
    }
    use expect_test::expect;

    fn merge(file: &str, env: Env, flags: &[(&'static str, &str)]) -> Result<Settings, CliError> {
        let flags = Flags { values: flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect(), token: None };
        Settings::merge("/data".into(), Some((Path::new("rialto.toml"), file)), &env, &flags)
    }

    #[test]
    fn nothing_said_gives_the_defaults() {
        let settings = merge("", Env::default(), &[]).unwrap();
        assert_eq!(settings, Settings::defaults("/data".into()));
    }

    #[test]
    fn file_then_environment_then_flags() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\nallowed_hosts = [\"a\", \"b\"]\n[network]\nname = \"file\"\n[log]\nlevel = \"debug\"\n";
        let env = Env::from([("RIALTO_SERVER_LISTEN", "127.0.0.1:2"), ("RIALTO_NETWORK_NAME", "env")]);
        let settings = merge(file, env, &[("server.listen", "localhost:3")]).unwrap();
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:3");
        assert_eq!(settings.network.name, "env");
        assert_eq!(settings.log.level, "debug");
        assert_eq!(settings.server.allowed_hosts, ["a", "b"]);
    }

    #[test]
    fn every_fault_is_told_with_a_suggestion() {
        let file = "[server]\nlisen = \"x\"\ntls_cert = 5\n[serch]\nenabled = true\n[limits]\nmembers_max = \"many\"\n";
        let env = Env::from([("RIALTO_LOG_LEVL", "info"), ("RIALTO_SEARCH_ENABLED", "maybe"), ("RIALTO_BENCH_X", "1")]);
        let error = merge(file, env, &[("server.listen", "nowhere")]).unwrap_err();
        expect![[r#"
            rialto: rialto.toml: limits.members_max: expected a whole number
            rialto: rialto.toml: there is no section [serch]; did you mean search?
            rialto: rialto.toml: there is no key server.lisen; did you mean server.listen?
            rialto: rialto.toml: server.tls_cert: expected text
            rialto: RIALTO_LOG_LEVL is no setting; did you mean RIALTO_LOG_LEVEL?
            rialto: RIALTO_SEARCH_ENABLED: expected true or false
            rialto: --listen: expected an address such as 127.0.0.1:8700
              `rialto config` prints every setting with its default"#]]
        .assert_eq(&error.text());
        assert_eq!(error.exit, crate::exit::Exit::Usage);
    }

    #[test]
    fn toml_that_cannot_be_read_names_the_place() {
        let error = merge("[server\n", Env::default(), &[]).unwrap_err();
        assert!(error.text().contains("rialto.toml: TOML parse error at line 1"), "{}", error.text());
    }

    #[test]
    fn beyond_loopback_needs_tls_or_a_word() {
        let fault = |flags: &[(&'static str, &str)]| merge("", Env::default(), flags).map_err(|e| e.message);
        let outside = ("server.listen", "0.0.0.0:8700");
        assert!(fault(&[outside]).unwrap_err().contains("--insecure"));
        assert!(fault(&[outside, ("server.insecure", "true")]).is_ok());
        assert!(fault(&[outside, ("server.tls_cert", "c"), ("server.tls_key", "k")]).is_ok());
        assert!(fault(&[("server.tls_cert", "c")]).unwrap_err().contains("go together"));
        assert!(
            fault(&[outside, ("server.insecure", "true"), ("network.open", "true")]).unwrap_err().contains("loopback")
        );
    }

    #[test]
    fn token_chars_min_is_enforced() {
        let with = |token: &str| {
            let flags = Flags { token: Some(token.into()), ..Flags::default() };
            Settings::merge("/data".into(), None, &Env::default(), &flags)
        };
        assert!(with(&"t".repeat(TOKEN_CHARS_MIN)).is_ok());
        let error = with(&"t".repeat(TOKEN_CHARS_MIN - 1)).unwrap_err();
        assert!(!error.message.contains("ttt"), "the token is not repeated");
    }
}
