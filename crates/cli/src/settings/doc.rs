//! The table of settings as text: a commented `rialto.toml`, and the page in `docs/`.

use super::keys::{KEYS, Key, sections};
use crate::env;
use rialto_node::mods::{STANDARD, options};

/// A configuration file that changes nothing: every key with its documentation, commented out.
pub(crate) fn commented_toml() -> String {
    let mut out = String::from(
        "# Settings of a Rialto node. Everything here is commented out and shows the default.\n\
         # Every key is also an environment variable, RIALTO_SECTION_KEY; flags of `rialto up` win over both.\n",
    );
    for section in sections() {
        out.push_str(&format!("\n[{section}]\n"));
        for key in KEYS.iter().filter(|key| key.section() == section) {
            for line in wrap(key.doc, 98) {
                out.push_str(&format!("# {line}\n"));
            }
            out.push_str(&format!("#{} = {}\n", key.key(), shown(key)));
        }
    }
    out
}

/// The page `docs/configuration.md`.
pub(crate) fn markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         A node needs no configuration. What can be set is set, in rising order of precedence, in a file\n\
         (`--config FILE`, `RIALTO_CONFIG`, else `rialto/rialto.toml` in the platform's configuration directory), in the\n\
         environment, and by flags of `rialto up`. Unknown keys are errors, so a typing mistake does not go unnoticed.\n\
         `rialto config` prints this table as a commented file to start from.\n",
    );
    for section in sections() {
        out.push_str(&format!(
            "\n## `[{section}]`\n\n| key | default | environment | what it does |\n|---|---|---|---|\n"
        ));
        for key in KEYS.iter().filter(|key| key.section() == section) {
            let default = if key.default.is_empty() { "none".to_owned() } else { format!("`{}`", key.default) };
            out.push_str(&format!("| `{}` | {default} | `{}` | {} |\n", key.key(), key.env(), key.doc));
        }
    }
    out.push_str(&mods());
    out.push_str(AGENTS);
    out.push_str(NETWORKS);
    for (key, default, doc) in super::elsewhere::KEYS {
        out.push_str(&format!("| `{key}` | {default} | {doc} |\n"));
    }
    out.push_str("\n## Variables for commands\n\n| variable | flag | what it does |\n|---|---|---|\n");
    for name in env::NAMED {
        let (flag, doc) = named(name);
        out.push_str(&format!("| `{name}` | `{flag}` | {doc} |\n"));
    }
    out.push_str("\n`NO_COLOR` switches colours off. `SSL_CERT_FILE` names the certificates to trust in\nplace of the platform's.\n");
    out
}

/// `[mod.NAME]`: what every mod takes, and each mod's own settings.
fn mods() -> String {
    let mut out = String::from(
        "\n## `[mod.NAME]`\n\n\
         Settings of a mod in the default network. They are applied at every start, over what was set while it ran, if the\n\
         mod is loaded: `mods.load` sees to that. [Mods](mods.md) says what they are for.\n\n\
         | mod | key | default | what it does |\n|---|---|---|---|\n",
    );
    for (key, doc) in super::mods::KEYS {
        out.push_str(&format!("| every | `{key}` | the mod's own | {doc} |\n"));
    }
    for name in STANDARD {
        for setting in options::of(name).unwrap_or_default() {
            out.push_str(&format!("| `{name}` | `{}` | `{}` | {} |\n", setting.name, setting.default, setting.doc));
        }
    }
    out.push_str(
        "\n## `[mod.NAME]` with a `command`\n\n\
         A mod of one's own, run as a process beside the node: it reads one JSON line per event and writes one JSON line in\n\
         answer. It is loaded into the default network at the start. [Mods](mods.md) has an example.\n\n\
         | key | default | what it does |\n|---|---|---|\n",
    );
    for (key, default, doc) in super::mods::PROCESS_KEYS {
        out.push_str(&format!("| `{key}` | {default} | {doc} |\n"));
    }
    out
}

/// Sections with names of their own do not fit the table.
const AGENTS: &str = "\n## `[agents.NAME]`\n\n\
    Agents that the node starts itself. They speak the stream conversation on stdin and stdout, one JSON event per line,\n\
    and join as their address without credentials.\n\n\
    | key | default | what it does |\n|---|---|---|\n\
    | `command` | none | Program and arguments, as a list of words. |\n\
    | `address` | `agent:NAME` | The one address it may join as. |\n\
    | `network` | the default network | Where it joins, by id or name. |\n\
    | `restart` | `true` | Whether it is started again when it ends. |\n";

const NETWORKS: &str = "\n## `[networks.NAME]`\n\n\
    Networks of other nodes, for `rialto send NAME::entity` and `rialto bridge`. [Bridges](bridges.md) says how they are found else.\n\n\
    | key | default | what it does |\n|---|---|---|\n";

fn named(name: &str) -> (&'static str, &'static str) {
    match name {
        env::URL => ("--url", "Where the node is. Without it the run file in the data directory says so."),
        env::TOKEN => ("--token", "The credential for it: a network token, a session or an admin secret."),
        env::AGENT => ("--as", "The name commands speak as."),
        env::INVITE => ("--invite", "The code of an invitation to join with."),
        env::DATA => ("--data", "The data directory, the same as `store.data`."),
        env::NETWORK => ("--network", "The network to speak to, by id or name. Without it the node's default one."),
        env::CONFIG => ("--config", "The configuration file."),
        env::FROM_TOKEN => ("--from-token", "The credential for the network that a bridge reads from."),
        env::TO_TOKEN => ("--to-token", "The credential for another network that is sent to."),
        _ => ("", ""),
    }
}

fn shown(key: &Key) -> &'static str {
    if key.default.is_empty() { key.example } else { key.default }
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_current() {
        // UPDATE_EXPECT=1 writes it anew.
        expect_test::expect_file!["../../../../docs/configuration.md"].assert_eq(&markdown());
    }

    #[test]
    fn the_commented_file_is_a_valid_one_either_way() {
        let commented = commented_toml();
        let table: toml::Table = commented.parse().unwrap();
        assert!(table.values().all(|section| section.as_table().unwrap().is_empty()));
        let lines = commented.lines().map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest,
            Some(_) | None => line,
        });
        let live: Vec<&str> = lines.collect();
        let table: toml::Table = live.join("\n").parse().unwrap();
        assert_eq!(table.values().map(|s| s.as_table().unwrap().len()).sum::<usize>(), KEYS.len());
    }

    #[test]
    fn every_named_variable_is_documented() {
        for name in env::NAMED {
            assert!(!named(name).1.is_empty(), "{name}");
        }
    }
}
