//! `rialto redact`: overwrite what an event said for good, wherever it was copied to.

use crate::context::Context;
use crate::exit::CliError;
use clap::Args;

/// Arguments of `redact`.
#[derive(Debug, Args)]
pub(crate) struct Redact {
    /// Event id
    id: String,
}

impl Redact {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let answer = http.redact(&network, &self.id).await?;
        cx.out.show(&answer, |_, _| format!("{} is redacted", self.id))
    }
}
