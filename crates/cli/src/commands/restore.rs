//! `rialto restore`: a data directory from an archive.

use crate::context::{Context, running};
use crate::exit::CliError;
use crate::offline;
use crate::progress::ProgressLine;
use clap::Args;
use std::path::{Path, PathBuf};

/// Arguments of `restore`; `--data DIR` says where to.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Archive written by `rialto backup`
    file: PathBuf,
}

impl Restore {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let data = cx.data_dir()?;
        if !self.file.is_file() {
            return Err(CliError::not_found(format!("there is no archive {}", self.file.display())));
        }
        if running(&data)?.is_some() {
            let message = format!("a node is running on {}", data.display());
            return Err(CliError::conflict(message).next("stop it first, or restore somewhere else with --data DIR"));
        }
        if !is_empty(&data)? {
            let message = format!("{} is not empty", data.display());
            return Err(CliError::conflict(message).next("give an empty or new directory with --data DIR"));
        }
        let progress = ProgressLine::new(cx.out.live, true);
        let report = offline::restore_archive(&self.file, &data, &mut |step| progress.show(&step))?;
        drop(progress);
        cx.out.show(&report, |_, _| format!("restored to {}", data.display()))?;
        cx.out.hint(&format!("start it with: rialto up --data {}", data.display()));
        Ok(())
    }
}

fn is_empty(dir: &Path) -> Result<bool, CliError> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(CliError::file("read", dir, &error)),
    }
}
