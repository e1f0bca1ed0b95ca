//! One file per noun or verb: its arguments, what it asks of the node, and how the answer is shown.

pub(crate) mod ack;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod bridge;
pub(crate) mod browser;
pub(crate) mod channel;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod direct;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod inbox;
pub(crate) mod invoke;
pub(crate) mod man;
pub(crate) mod me;
pub(crate) mod member;
pub(crate) mod mods;
pub(crate) mod network;
pub(crate) mod network_file;
pub(crate) mod redact;
pub(crate) mod repair;
pub(crate) mod resource;
pub(crate) mod restore;
pub(crate) mod search;
pub(crate) mod send;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod stdio;
pub(crate) mod tail;
pub(crate) mod thread;
pub(crate) mod tool;
pub(crate) mod up;
pub(crate) mod verify;
pub(crate) mod who;
pub(crate) mod work;

use crate::args::Command;
use crate::context::Context;
use crate::exit::CliError;

/// Runs one command to its end.
pub(crate) fn run(command: Command, mut cx: Context) -> Result<(), CliError> {
    let cx = &mut cx;
    match command {
        Command::Up(up) => up.run(cx),
        Command::Network(network) => wait(network.run(cx)),
        Command::Send(send) => wait(send.run(cx)),
        Command::Bridge(bridge) => wait(bridge.run(cx)),
        Command::Tail(tail) => wait(tail.run(cx)),
        Command::History(history) => wait(history.run(cx)),
        Command::Search(search) => wait(search.run(cx)),
        Command::Inbox(inbox) => wait(inbox.run(cx)),
        Command::Ack(ack) => wait(ack.run(cx)),
        Command::Who(who) => wait(who.run(cx)),
        Command::Member(member) => wait(member.run(cx)),
        Command::Session(session) => wait(session.run(cx)),
        Command::Token(token) => wait(token.run(cx)),
        Command::Audit(audit) => wait(audit.run(cx)),
        Command::Browser(browser) => wait(browser.run(cx)),
        Command::Me(me) => wait(me.run(cx)),
        Command::Channel(channel) => wait(channel.run(cx)),
        Command::Group(group) => wait(group.run(cx)),
        Command::Mod(verb) => wait(verb.run(cx)),
        Command::Thread(thread) => wait(thread.run(cx)),
        Command::Direct(direct) => wait(direct.run(cx)),
        Command::Work(work) => wait(work.run(cx)),
        Command::Resource(resource) => wait(resource.run(cx)),
        Command::Invoke(invoke) => wait(invoke.run(cx)),
        Command::Tool(tool) => wait(tool.run(cx)),
        Command::Explain(explain) => wait(explain.run(cx)),
        Command::Dead(dead) => wait(dead.run(cx)),
        Command::Backup(backup) => wait(backup.run(cx)),
        Command::Restore(restore) => restore.run(cx),
        Command::Verify(verify) => wait(verify.run(cx)),
        Command::Repair(repair) => repair.run(cx),
        Command::Redact(redact) => wait(redact.run(cx)),
        Command::Doctor(doctor) => wait(doctor.run(cx)),
        Command::Bench(bench) => bench.run(cx),
        Command::Stdio(stdio) => wait(stdio.run(cx)),
        Command::Service(service) => service.run(cx),
        Command::Completions(completions) => completions.run(cx),
        Command::Man(man) => man.run(cx),
        Command::Config(config) => config.run(cx),
    }
}

fn wait(work: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::internal(format!("the runtime does not start: {e}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_background(); // a read of standard input may still be waiting; nobody waits for it any more
    result
}

/// The time, in the model's unit.
fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
