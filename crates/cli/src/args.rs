//! The command line as clap reads it.

use crate::commands::{
    ack, audit, backup, bench, bridge, browser, channel, completions, config, dead, direct, doctor, explain, group,
    history, inbox, invoke, man, me, member, mods, network, redact, repair, resource, restore, search, send, service,
    session, stdio, tail, thread, tool, up, verify, who, work,
};
use clap::{Args, Parser, Subcommand};
use rialto_client::Secret;
use std::path::PathBuf;

/// One network for every agent: run a node, and talk to one.
#[derive(Debug, Parser)]
#[command(name = "rialto", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "Exit codes: 0 ok, 1 internal, 2 usage, 3 not found, 4 denied, 5 conflict, 6 unavailable, 7 timeout."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Data directory (RIALTO_DATA; else the platform's, ~/.local/share/rialto)
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Where the node is (RIALTO_URL; else the node running on the data directory)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Network token, or another credential (RIALTO_TOKEN)
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<Secret>,
    /// Network to speak to, by id or name (RIALTO_NETWORK; else the node's default)
    #[arg(long, global = true, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Name to speak as (RIALTO_AGENT); joins by itself
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub(crate) speak_as: Option<String>,
    /// End the session of a live agent of that name; without it a command speaks beside it or is refused
    #[arg(long, global = true)]
    pub(crate) takeover: bool,
    /// Code of an invitation to join with (RIALTO_INVITE)
    #[arg(long, global = true, value_name = "CODE")]
    pub(crate) invite: Option<Secret>,
    /// JSON on standard output; one object per line where output goes on
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Configuration file (RIALTO_CONFIG)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node
    Up(up::Up),
    /// Make, list, pause and archive networks, and manage their tokens
    #[command(subcommand)]
    Network(network::Network),
    /// Send a message or any other event
    Send(send::Send),
    /// Carry chosen events from one network to another, as long as it runs
    Bridge(bridge::Bridge),
    /// Watch events as they happen
    Tail(tail::Tail),
    /// Read past events
    History(history::History),
    /// Find text in past events
    Search(search::Search),
    /// Read the mail that waits for you
    Inbox(inbox::Inbox),
    /// Say that mail was received
    Ack(ack::Ack),
    /// Who is there
    Who(who::Who),
    /// Members: roles, names, who belongs to the network
    #[command(subcommand)]
    Member(member::Member),
    /// Sessions of members
    #[command(subcommand)]
    Session(session::Session),
    /// Tokens of a network
    #[command(subcommand)]
    Token(network::Token),
    /// Who managed the network, when, what and from where
    Audit(audit::Audit),
    /// Print a link that opens the node in the operator's browser
    Browser(browser::Browser),
    /// You: what you mute, when your mail waits, what you are called
    #[command(subcommand)]
    Me(me::Me),
    /// Channels: rooms of the network
    #[command(subcommand)]
    Channel(channel::Channel),
    /// Groups: named lists of members
    #[command(subcommand)]
    Group(group::Group),
    /// Mods: what every event passes on its way
    #[command(subcommand)]
    Mod(mods::Mod),
    /// Threads inside a channel
    #[command(subcommand)]
    Thread(thread::Thread),
    /// Direct rooms: conversations of two
    #[command(subcommand)]
    Direct(direct::Direct),
    /// Work: ask for it, do it, follow it to its end
    #[command(subcommand)]
    Work(work::Work),
    /// Resources: tools, files and contexts
    #[command(subcommand)]
    Resource(resource::Resource),
    /// Call a tool
    Invoke(invoke::Invoke),
    /// Tools made of commands
    #[command(subcommand)]
    Tool(tool::Tool),
    /// How far an event came, and why not further
    Explain(explain::Explain),
    /// Dead letters: list them, send them again, put them away
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Write an archive of the running node
    Backup(backup::Backup),
    /// Make a data directory from an archive
    Restore(restore::Restore),
    /// Check everything that is stored
    Verify(verify::Verify),
    /// Say what damage has cost, and go on without it
    Repair(repair::Repair),
    /// Overwrite what an event said for good, wherever it was copied to
    Redact(redact::Redact),
    /// Look for what is wrong
    Doctor(doctor::Doctor),
    /// Measure this build on this machine beside NATS
    Bench(bench::Bench),
    /// Speak the stream protocol on standard input and output
    Stdio(stdio::Stdio),
    /// Run the node as a systemd user service
    #[command(subcommand)]
    Service(service::Service),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print or write the manual pages
    #[command(hide = true)]
    Man(man::Man),
    /// Print every setting as a commented rialto.toml
    Config(config::Config),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_go_anywhere() {
        for line in ["rialto --json --as a who", "rialto who --as a --json"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert!(cli.global.json && cli.global.speak_as.as_deref() == Some("a"), "{line}");
        }
    }

    #[test]
    fn every_command_has_help_that_fits_a_line() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name());
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(!about.is_empty() && about.len() < 80 && !about.ends_with('.'), "{path}: {about:?}");
                walk(sub, &path);
            }
        }
        walk(&Cli::command(), "rialto");
    }

    #[test]
    fn wrong_lines_are_usage_errors() {
        for line in
            ["rialto", "rialto sned x", "rialto send", "rialto ack", "rialto ack a --up-to b", "rialto inbox --limit 0"]
        {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
        assert_eq!(Cli::try_parse_from(["rialto", "--version"]).unwrap_err().exit_code(), 0);
    }

    #[test]
    fn a_token_is_not_shown_in_debug() {
        let cli = Cli::try_parse_from(["rialto", "who", "--token", "hush"]).unwrap();
        assert!(!format!("{cli:?}").contains("hush"));
    }
}
