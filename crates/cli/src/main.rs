//! The `rialto` binary: settings, commands, wiring.
//!
//! `args` reads the command line, `context` finds the node and the voice, `commands` has one file per noun, and
//! `render` turns values into text. Exit codes are decided in `exit` alone.

mod allocator;
mod args;
mod commands;
mod context;
mod crossing;
mod env;
mod exit;
mod files;
mod heldlog;
mod node;
mod offline;
mod out;
mod place;
mod progress;
mod render;
mod runtime;
mod session;
mod settings;
mod since;

use clap::Parser;
use jiff::tz::TimeZone;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output and faults to standard error; a closed stream is nobody's fault.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let env = env::Env::of_process();
    let json = cli.global.json;
    let out = out::Out::of_process(json, &env);
    let context = context::Context { global: cli.global, env, out, zone: TimeZone::system() };
    match commands::run(cli.command, context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.silent => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let text = if json { error.json() } else { error.text() };
            writeln!(std::io::stderr(), "{text}").ok();
            ExitCode::from(error.exit as u8)
        }
    }
}
