//! `rialto config`: every setting, as a commented rialto.toml.

use crate::context::Context;
use crate::exit::CliError;
use crate::settings::{doc, keys};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `config`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The page for the documentation instead
    #[arg(long, hide = true)]
    markdown: bool,
}

impl Config {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        if self.markdown {
            return cx.out.text(&doc::markdown());
        }
        let default = |key: &keys::Key| (!key.default.is_empty()).then_some(key.default);
        let row = |key: &keys::Key| json!({"key": key.name, "env": key.env(), "default": default(key), "doc": key.doc});
        let rows: Vec<Value> = keys::KEYS.iter().map(row).collect();
        cx.out.show(&json!({ "keys": rows }), |_, _| doc::commented_toml())
    }
}
