//! `rialto browser`: a link that opens the node in the operator's browser.

use crate::context::Context;
use crate::exit::CliError;
use crate::render::value;
use clap::Args;

/// Arguments of `browser`.
#[derive(Debug, Args)]
pub(crate) struct Browser {}

impl Browser {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let made = cx.operator()?.browser_link().await?;
        let zone = cx.zone.clone();
        cx.out.show(&made, |made, _| value::text_of(made, "url", &zone))?;
        cx.out.hint("the link works once, for ten minutes, and makes its reader the operator");
        Ok(())
    }
}
