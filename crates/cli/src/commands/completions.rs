//! `rialto completions`: completions for a shell.

use crate::args::Cli;
use crate::context::Context;
use crate::exit::CliError;
use clap::{Args, CommandFactory};

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "rialto", &mut script);
        let text = String::from_utf8_lossy(&script).into_owned();
        cx.out.show(&serde_json::json!({ "script": text }), |_, _| text.clone())
    }
}
