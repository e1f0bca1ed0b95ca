//! `rialto backup`: the archive of a running node, written aside and renamed when it is whole.

use crate::context::Context;
use crate::exit::CliError;
use crate::progress::{ProgressLine, ProgressStep};
use crate::render;
use clap::Args;
use rialto_client::{Body, ClientError};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Arguments of `backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// Where to write the archive; must not exist
    file: PathBuf,
}

impl Backup {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let path = self.file;
        let http = cx.operator()?;
        let done = save_as(cx, &path, http.backup()).await?;
        cx.out.show(&json!({ "file": path, "bytes": done }), |_, _| {
            format!("{} ({})", path.display(), render::bytes(done))
        })
    }
}

/// Writes what the node sends to a file that does not exist yet; gives how many bytes there were.
pub(crate) async fn save_as(
    cx: &Context,
    path: &Path,
    sent: impl Future<Output = Result<Body, ClientError>>,
) -> Result<u64, CliError> {
    if path.exists() {
        let message = format!("{} exists already", path.display());
        return Err(CliError::conflict(message).next("choose another name, or remove it first"));
    }
    let mut body = sent.await?;
    let aside = Aside::create(path)?;
    let progress = ProgressLine::new(cx.out.live, true);
    let (mut done, total) = (0, body.length());
    while let Some(bytes) = body.chunk().await? {
        aside.write(&bytes)?;
        done += u64::try_from(bytes.len()).unwrap_or(0);
        progress.show(&ProgressStep { done, total, what: String::new() });
    }
    drop(progress);
    if total.is_some_and(|total| total != done) {
        return Err(CliError::unavailable("the node stopped in the middle of the archive").next("try again"));
    }
    aside.finish(path)?;
    Ok(done)
}

/// A file that is removed unless it is finished. It holds everything the node knows, so only its owner may read it.
#[derive(Debug)]
struct Aside {
    file: File,
    path: PathBuf,
}

impl Aside {
    fn create(target: &Path) -> Result<Aside, CliError> {
        let mut name = target.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let file = file.map_err(|e| CliError::file("write", &path, &e))?;
        Ok(Aside { file, path })
    }

    fn write(&self, bytes: &[u8]) -> Result<(), CliError> {
        (&self.file).write_all(bytes).map_err(|e| CliError::file("write", &self.path, &e))
    }

    fn finish(self, target: &Path) -> Result<(), CliError> {
        self.file.sync_all().map_err(|e| CliError::file("flush", &self.path, &e))?;
        std::fs::rename(&self.path, target).map_err(|e| CliError::file("write", target, &e))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After a rename there is nothing here any more; otherwise half an archive is worth nothing.
        std::fs::remove_file(&self.path).ok();
    }
}
