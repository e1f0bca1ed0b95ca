//! `rialto man`: the manual pages.

use crate::args::Cli;
use crate::context::Context;
use crate::exit::CliError;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page per command into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self.out {
            Some(dir) => {
                let fail = |e: std::io::Error| CliError::file("write", &dir, &e);
                std::fs::create_dir_all(&dir).map_err(fail)?;
                clap_mangen::generate_to(Cli::command(), &dir).map_err(fail)
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page)?;
                cx.out.bytes(&page)
            }
        }
    }
}
