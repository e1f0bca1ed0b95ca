//! `rialto mod …`: what stands between a sender and a network, kept by the operator.

use crate::context::{Context, address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::{Args, Subcommand};
use rialto_client::ClientError;
use serde_json::{Map, Value, json};

/// Verbs of `mod`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mod {
    /// List the loaded mods in the order they run
    List,
    /// Show one mod with its settings
    Show {
        /// Name of the mod
        name: String,
    },
    /// Load a mod
    Load(Load),
    /// Unload a mod
    Unload {
        /// Name of the mod
        name: String,
    },
    /// Change settings of a loaded mod
    Set(Set),
    /// Let a mod work again
    Enable {
        /// Name of the mod
        name: String,
    },
    /// Let a mod rest without unloading it
    Disable {
        /// Name of the mod
        name: String,
    },
    /// Let an agent serve a mod
    Approve {
        /// Name of the mod
        name: String,
        /// The agent
        agent: String,
        /// Take the approval back
        #[arg(long)]
        not: bool,
    },
    /// Put the mods of one mode in order; those not named come after
    Order {
        /// Which of the three stages
        #[arg(value_parser = ["guard", "transform", "observe"])]
        mode: String,
        /// Names, the first to run first
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

/// Arguments of `mod load`.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Name of the mod
    name: String,
    /// Settings: the value is JSON or text
    #[arg(value_name = "KEY=VALUE")]
    each: Vec<String>,
    /// Settings as one JSON object
    #[arg(long, value_name = "JSON")]
    settings: Option<String>,
    #[command(flatten)]
    place: ModPlacement,
}

/// Arguments of `mod set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name of the mod
    name: String,
    /// Settings: the value is JSON or text; without a value it is the default again
    #[arg(value_name = "KEY=VALUE", required_unless_present_any = ["priority", "intercepts", "deadline", "on_error"])]
    settings: Vec<String>,
    #[command(flatten)]
    place: ModPlacement,
    /// How long a mod that runs elsewhere may take, in milliseconds
    #[arg(long, value_name = "MS")]
    deadline: Option<u64>,
    /// What becomes of an event when a transform that runs elsewhere fails
    #[arg(long, value_name = "POLICY", value_parser = ["skip", "reject"])]
    on_error: Option<String>,
}

/// Where a mod stands and what it looks at.
#[derive(Debug, Args)]
pub(crate) struct ModPlacement {
    /// Place within its mode: lower runs earlier
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Event types it looks at, as patterns with commas between; all if empty
    #[arg(long, value_name = "PATTERNS")]
    intercepts: Option<String>,
}

impl Mod {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let zone = cx.zone.clone();
        match self {
            Mod::List => {
                let mods = http.mods(&network).await?;
                cx.out.show(&mods, |mods, _| {
                    let names = ["name", "mode", "priority", "enabled", "intercepts", "config"];
                    let row = |one: &Value| names.iter().map(|name| value::text_of(one, name, &zone)).collect();
                    let rows: Vec<Vec<String>> = value::list(mods, "mods").iter().map(row).collect();
                    table(&names, &rows)
                })?;
                if value::list(&mods, "mods").is_empty() {
                    let known = mods.get("available").unwrap_or(&Value::Null);
                    cx.out.hint(&format!("no mod is loaded; there are {}", value::cell(known, &cx.zone, "")));
                }
                Ok(())
            }
            Mod::Show { name } => {
                let shown = http.show_mod(&network, &mod_name(&name)?).await.map_err(missing)?;
                cx.out.show(&shown, |shown, _| {
                    let mut shown = shown.clone();
                    // `settings` says it again, with defaults.
                    shown.as_object_mut().map(|map| map.remove("config"));
                    value::lines(&shown, &zone)
                })
            }
            Mod::Load(load) => {
                let (name, body) = load.request()?;
                let shown = http.load_mod(&network, &body).await.map_err(loaded)?;
                cx.out.show(&shown, |_, _| format!("mod/{name} is loaded"))
            }
            Mod::Unload { name } => {
                let name = mod_name(&name)?;
                let answer = http.unload_mod(&network, &name).await.map_err(missing)?;
                cx.out.show(&answer, |_, _| format!("mod/{name} is unloaded"))
            }
            Mod::Set(set) => {
                let (name, body) = set.request()?;
                let shown = http.change_mod(&network, &name, &body).await.map_err(missing)?;
                cx.out.show(&shown, |_, _| format!("mod/{name} is changed"))
            }
            Mod::Enable { name } => switch(cx, &http, &network, &name, true).await,
            Mod::Disable { name } => switch(cx, &http, &network, &name, false).await,
            Mod::Approve { name, agent, not } => {
                let name = mod_name(&name)?;
                let answer = http.approve_mod(&network, &name, address(&agent)?.as_str(), !not).await?;
                let may = if not { "may no longer" } else { "may" };
                cx.out.show(&answer, |answer, _| {
                    format!("{} {may} serve mod/{name}", value::text_of(answer, "address", &zone))
                })
            }
            Mod::Order { mode, names } => {
                let names: Vec<String> = names.iter().map(|name| mod_name(name)).collect::<Result<_, _>>()?;
                let answer = http.order_mods(&network, &mode, &names).await.map_err(missing)?;
                cx.out.show(&answer, |answer, _| value::text_of(answer, "mods", &zone))
            }
        }
    }
}

async fn switch(
    cx: &mut Context,
    http: &rialto_client::Http,
    network: &str,
    name: &str,
    on: bool,
) -> Result<(), CliError> {
    let name = mod_name(name)?;
    let shown = http.change_mod(network, &name, &json!({ "enabled": on })).await.map_err(missing)?;
    cx.out.show(&shown, |_, _| format!("mod/{name} is {}", if on { "enabled" } else { "disabled" }))
}

impl Load {
    fn request(&self) -> Result<(String, Value), CliError> {
        let name = mod_name(&self.name)?;
        let mut body = self.place.members();
        body.insert("name".into(), json!(name));
        let mut config = match &self.settings {
            None => Map::new(),
            Some(text) => serde_json::from_str(text).map_err(|e| {
                CliError::usage(format!("--settings takes a JSON object, such as '{{\"rate\": 5}}': {e}"))
            })?,
        };
        config.extend(settings(&self.each)?);
        if !config.is_empty() {
            body.insert("config".into(), config.into());
        }
        Ok((name, body.into()))
    }
}

impl Set {
    fn request(&self) -> Result<(String, Value), CliError> {
        let config = settings(&self.settings)?;
        let mut body = self.place.members();
        body.extend(self.deadline.map(|ms| ("deadline_ms".to_owned(), json!(ms))));
        body.extend(self.on_error.as_ref().map(|policy| ("on_error".to_owned(), json!(policy))));
        if !config.is_empty() {
            body.insert("config".into(), config.into());
        }
        Ok((mod_name(&self.name)?, body.into()))
    }
}

impl ModPlacement {
    fn members(&self) -> Map<String, Value> {
        let mut out = Map::new();
        if let Some(priority) = self.priority {
            out.insert("priority".into(), json!(priority));
        }
        if let Some(patterns) = &self.intercepts {
            let list: Vec<&str> = patterns.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
            out.insert("intercepts".into(), json!(list));
        }
        out
    }
}

/// `KEY=VALUE` words.
pub(crate) fn settings(words: &[String]) -> Result<Map<String, Value>, CliError> {
    let one = |word: &String| {
        let (key, text) = word
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| CliError::usage(format!("{word:?} is not KEY=VALUE")))?;
        // null is the default again, and so is nothing.
        let value = if text.is_empty() { Value::Null } else { json_or_text(text) };
        Ok((key.to_owned(), value))
    };
    words.iter().map(one).collect()
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// `auth` or `mod/auth`.
fn mod_name(text: &str) -> Result<String, CliError> {
    let name = text.strip_prefix("mod/").unwrap_or(text);
    address(&format!("mod/{name}"))?;
    Ok(name.to_owned())
}

fn missing(error: ClientError) -> CliError {
    CliError::from(error).if_missing("`rialto mod list` shows what is loaded")
}

fn loaded(error: ClientError) -> CliError {
    let error = CliError::from(error);
    match error.exit {
        crate::exit::Exit::Conflict => error.next("`rialto mod set` changes it"),
        crate::exit::Exit::NotFound => error.next(format!("there are {}", rialto_node::mods::STANDARD.join(", "))),
        crate::exit::Exit::Internal
        | crate::exit::Exit::Usage
        | crate::exit::Exit::Denied
        | crate::exit::Exit::Unavailable
        | crate::exit::Exit::Timeout => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parsed(line: &[&str]) -> Mod {
        let cli = Cli::try_parse_from(["rialto", "mod"].iter().chain(line)).unwrap();
        let Command::Mod(verb) = cli.command else { panic!("not mod") };
        verb
    }

    #[test]
    fn settings_are_json_or_text_or_the_default() {
        let Mod::Set(set) =
            parsed(&["set", "mod/x", "a=5", "b=[\"y.*\"]", "c=plain", "d=", "e=k=v", "--priority", "-3"])
        else {
            panic!("not set")
        };
        let (name, body) = set.request().unwrap();
        let config = json!({ "a": 5, "b": ["y.*"], "c": "plain", "d": null, "e": "k=v" });
        assert_eq!((name.as_str(), body), ("x", json!({ "config": config, "priority": -3 })));
        for wrong in ["a", "=5"] {
            let Mod::Set(set) = parsed(&["set", "x", wrong]) else { panic!("not set") };
            assert_eq!(set.request().unwrap_err().exit, crate::exit::Exit::Usage);
        }
    }

    #[test]
    fn loading_takes_an_object() {
        let load = |config: &str| {
            let line = ["load", "auth", "recheck=true", "--settings", config, "--intercepts", "a.*, b"];
            let Mod::Load(load) = parsed(&line) else { panic!("not load") };
            load.request()
        };
        // Words win over the object.
        let (_, body) = load("{\"recheck\": false, \"deny\": []}").unwrap();
        assert_eq!(
            body,
            json!({ "name": "auth", "config": { "recheck": true, "deny": [] }, "intercepts": ["a.*", "b"] })
        );
        for wrong in ["[]", "recheck=false"] {
            assert_eq!(load(wrong).unwrap_err().exit, crate::exit::Exit::Usage);
        }
    }

    #[test]
    fn wrong_lines() {
        for line in ["set x", "order guard", "order sometimes x", "load", "load x --priority y"] {
            let words = ["rialto", "mod"].into_iter().chain(line.split(' '));
            assert_eq!(Cli::try_parse_from(words).unwrap_err().exit_code(), 2, "{line}");
        }
        assert!(mod_name("mod/Auth").is_err() && mod_name("").is_err());
    }
}
