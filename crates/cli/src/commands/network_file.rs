//! `rialto network export` and `import`: one network out of a node into a file, and into another.

use crate::commands::backup::save_as;
use crate::context::Context;
use crate::exit::CliError;
use crate::render;
use crate::render::value;
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;

/// Arguments of `network export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Where to write it; must not exist
    file: PathBuf,
    /// Id or name; the chosen or default network when absent
    #[arg(value_name = "ID|NAME")]
    network: Option<String>,
}

/// Arguments of `network import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// File written by `rialto network export`
    file: PathBuf,
    /// Name it has here; its own when absent
    #[arg(long)]
    name: Option<String>,
}

impl Export {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = match self.network {
            Some(network) => (cx.operator()?, network),
            None => cx.operator_of_network().await?,
        };
        let path = self.file;
        let bytes = save_as(cx, &path, http.export_network(&network)).await?;
        cx.out.show(&json!({ "file": path, "network": network, "bytes": bytes }), |_, _| {
            format!("{network} is in {} ({})", path.display(), render::bytes(bytes))
        })
    }
}

impl Import {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let path = &self.file;
        if !path.is_file() {
            return Err(CliError::not_found(format!("there is no file {}", path.display())));
        }
        let file = File::open(path).map_err(|e| CliError::file("read", path, &e))?;
        let length = file.metadata().map(|m| m.len()).ok();
        let made = cx.operator()?.import_network(self.name.as_deref(), length, file).await?;
        let zone = cx.zone.clone();
        cx.out.show(&made, |made, _| value::lines(made, &zone))?;
        if made.get("token").is_some() {
            cx.out.hint("it is a copy with a token of its own, which is shown this once");
        } else {
            cx.out.hint("its tokens are those of before; every session of before is over");
        }
        Ok(())
    }
}
