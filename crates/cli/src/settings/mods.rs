//! `mods.load` and `[mod.NAME]`: the mods of the default network as the configuration file wants them.
//!
//! Invariant: every name and setting is one of this build's, so a typing mistake is found before anything starts.

use super::suggestion;
use rialto_node::mods::manage::ModPatch;
use rialto_node::mods::options::{self, Setting};
use rialto_node::mods::{ModConfig, Mode, OnError, STANDARD};

/// What the file says of mods.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Mods {
    /// Loaded at the start if they are not.
    pub(crate) load: Vec<String>,
    /// Changed at the start, if they are loaded.
    pub(crate) set: Vec<(String, ModPatch)>,
    /// Run as processes.
    pub(crate) processes: Vec<Process>,
}

/// A mod that runs as a process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Process {
    pub(crate) config: ModConfig,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
}

/// What one section says.
#[derive(Debug)]
pub(crate) enum ModSection {
    /// Settings of a standard mod.
    Standard(ModPatch),
    /// A mod of its own.
    Process(Box<Process>),
}

impl Mods {
    /// What the file says of one mod.
    pub(crate) fn patch(&self, name: &str) -> ModPatch {
        self.set.iter().find(|(known, _)| known == name).map(|(_, patch)| patch.clone()).unwrap_or_default()
    }
}

/// Keys of every `[mod.NAME]`; all others are settings of the mod.
pub(crate) const KEYS: [(&str, &str); 3] = [
    ("priority", "Place within its mode: lower runs earlier."),
    ("intercepts", "Patterns on event types it looks at; an empty list is all."),
    ("enabled", "Whether it works."),
];

/// Keys of a mod that runs as a process.
pub(crate) const PROCESS_KEYS: [(&str, &str, &str); 7] = [
    ("command", "none", "Program and arguments, as a list of words. Only this file can name one."),
    ("mode", "`guard`", "`guard`, `transform` or `observe`."),
    ("priority", "by its mode", "Place within its mode: lower runs earlier."),
    ("intercepts", "`[]`", "Patterns on event types it looks at; an empty list is all."),
    ("deadline_ms", "`1000`", "How long it may take for one event."),
    ("on_error", "`skip`", "What becomes of an event when a transform fails: `skip` or `reject`."),
    ("enabled", "`true`", "Whether it works."),
];

/// The name of a mod this build has.
pub(crate) fn known(name: &str) -> Result<&'static [Setting], String> {
    options::of(name).ok_or_else(|| format!("there is no mod {name}{}", suggestion(name, STANDARD.iter().copied())))
}

/// Reads one `[mod.NAME]`.
pub(crate) fn from_toml(name: &str, value: &toml::Value) -> Result<ModSection, String> {
    let table = value.as_table();
    if let Some(table) = table.filter(|table| table.contains_key("command") && !STANDARD.contains(&name)) {
        return process(name, table).map(|process| ModSection::Process(Box::new(process)));
    }
    let settings = known(name)?;
    let table = table.ok_or("is not a section")?;
    standard(settings, table).map(ModSection::Standard)
}

fn process(name: &str, table: &toml::Table) -> Result<Process, String> {
    let words = |value: &toml::Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let mode = match table.get("mode") {
        None => Mode::Guard,
        Some(value) => value.as_str().and_then(Mode::from_wire).ok_or("mode: expected guard, transform or observe")?,
    };
    let mut process = Process { config: ModConfig::process(name, mode), command: Vec::new() };
    let config = &mut process.config;
    for (key, value) in table {
        let wrong = |expected: &str| format!("{key}: expected {expected}");
        match key.as_str() {
            "mode" => {}
            "command" => {
                let command = words(value).filter(|words| !words.is_empty());
                process.command = command.ok_or_else(|| wrong("a list of words"))?;
            }
            "priority" => {
                let number = value.as_integer().and_then(|n| i32::try_from(n).ok());
                config.priority = number.ok_or_else(|| wrong("a whole number"))?;
            }
            "intercepts" => config.intercepts = words(value).ok_or_else(|| wrong("a list of patterns"))?,
            "enabled" => config.enabled = value.as_bool().ok_or_else(|| wrong("true or false"))?,
            "deadline_ms" => {
                let number = value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
                config.deadline_ms = Some(number.ok_or_else(|| wrong("a number of milliseconds"))?);
            }
            "on_error" => {
                let policy = value.as_str().and_then(OnError::from_wire);
                config.on_error = policy.ok_or_else(|| wrong("skip or reject"))?;
            }
            _ => {
                let near = suggestion(key, PROCESS_KEYS.iter().map(|(key, ..)| *key));
                return Err(format!("there is no key {key}{near}"));
            }
        }
    }
    Ok(process)
}

fn standard(settings: &[Setting], table: &toml::Table) -> Result<ModPatch, String> {
    let mut patch = ModPatch::default();
    for (key, value) in table {
        let wrong = |expected: &str| format!("{key}: expected {expected}");
        match key.as_str() {
            "priority" => {
                let number = value.as_integer().and_then(|n| i32::try_from(n).ok());
                patch.priority = Some(number.ok_or_else(|| wrong("a whole number"))?);
            }
            "intercepts" => {
                let list = value.as_array().and_then(|l| l.iter().map(|v| v.as_str().map(str::to_owned)).collect());
                patch.intercepts = Some(list.ok_or_else(|| wrong("a list of patterns"))?);
            }
            "enabled" => patch.enabled = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?),
            _ => {
                let names = settings.iter().map(|s| s.name).chain(KEYS.iter().map(|(key, _)| *key));
                let setting = settings.iter().find(|s| s.name == key);
                let setting = setting.ok_or_else(|| format!("there is no key {key}{}", suggestion(key, names)))?;
                let value = serde_json::to_value(value).map_err(|e| format!("{key}: {e}"))?;
                if !setting.kind.takes(&value) {
                    return Err(wrong(&setting.kind.to_string()));
                }
                patch.config.insert(key.clone(), value);
            }
        }
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::exit::CliError;
    use crate::settings::{Flags, Settings};
    use serde_json::json;
    use std::path::Path;

    fn read(text: &str) -> Result<Mods, CliError> {
        let file = Some((Path::new("rialto.toml"), text));
        Settings::merge("/d".into(), file, &Env::default(), &Flags::default()).map(|s| s.mods)
    }

    #[test]
    fn mods_are_read() {
        let text = "[mods]\nload = [\"rate-limiter\", \"analytics\"]\n\
            [mod.rate-limiter]\nrate = 5\npriority = -1\nbroadcast = { rate = 1.5 }\n\
            [mod.auth]\nenabled = false\nintercepts = [\"x.*\"]\n";
        let mods = read(text).unwrap();
        assert_eq!(mods.load, ["rate-limiter", "analytics"]);
        let limiter = mods.patch("rate-limiter");
        assert_eq!(json!(limiter.config), json!({ "rate": 5, "broadcast": { "rate": 1.5 } }));
        assert_eq!((limiter.priority, limiter.enabled), (Some(-1), None));
        let auth = mods.patch("auth");
        assert_eq!((auth.enabled, auth.intercepts), (Some(false), Some(vec!["x.*".to_owned()])));
        assert_eq!(mods.patch("analytics"), ModPatch::default());
    }

    #[test]
    fn processes_are_read() {
        let text = "[mod.words]\ncommand = [\"python3\", \"guard.py\"]\nintercepts = [\"chat.*\"]\ndeadline_ms = 250\n\
            [mod.loud]\ncommand = [\"loud\"]\nmode = \"transform\"\non_error = \"reject\"\npriority = 5\n";
        let mods = read(text).unwrap();
        let [loud, words] = mods.processes.as_slice() else { panic!("{mods:?}") };
        assert_eq!((words.command.join(" ").as_str(), words.config.mode), ("python3 guard.py", Mode::Guard));
        assert_eq!(
            (words.config.deadline(), words.config.intercepts.as_slice()),
            (250, ["chat.*".to_owned()].as_slice())
        );
        let at = (loud.config.mode, loud.config.on_error, loud.config.priority);
        assert_eq!(at, (Mode::Transform, OnError::Reject, 5));
    }

    #[test]
    fn every_mistake_is_told() {
        for (text, fault) in [
            ("[mods]\nload = [\"analytic\"]\n", "mods.load: there is no mod analytic; did you mean analytics?"),
            ("[mods]\nlaod = []\n", "there is no key mods.laod; did you mean mods.load?"),
            ("[mod.atuh]\n", "mod.atuh: there is no mod atuh; did you mean auth?"),
            ("[mod]\nauth = 5\n", "mod.auth: is not a section"),
            ("[mod.rate-limiter]\nbrust = 5\n", "mod.rate-limiter: there is no key brust; did you mean burst?"),
            ("[mod.rate-limiter]\nrate = \"fast\"\n", "mod.rate-limiter: rate: expected a number from 0.001"),
            ("[mod.auth]\npriority = 1.5\n", "mod.auth: priority: expected a whole number"),
            ("[mod.auth]\nintercepts = \"x\"\n", "mod.auth: intercepts: expected a list of patterns"),
            ("[mod.auth]\nenabled = 1\n", "mod.auth: enabled: expected true or false"),
            ("[mod.auth]\ncommand = [\"sh\"]\n", "mod.auth: there is no key command"),
            ("[mod.own]\ncommand = \"sh\"\n", "mod.own: command: expected a list of words"),
            ("[mod.own]\ncommand = []\n", "mod.own: command: expected a list of words"),
            (
                "[mod.own]\ncommand = [\"sh\"]\nmode = \"judge\"\n",
                "mod.own: mode: expected guard, transform or observe",
            ),
            ("[mod.own]\ncommand = [\"sh\"]\nrate = 5\n", "mod.own: there is no key rate"),
            ("[mod.own]\ncommand = [\"sh\"]\non_error = \"stop\"\n", "mod.own: on_error: expected skip or reject"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(fault), "{text}: {}", error.message);
        }
    }
}
