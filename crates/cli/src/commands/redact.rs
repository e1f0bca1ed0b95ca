//! `rialto redact`: overwrite the payload of an event for good.

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
