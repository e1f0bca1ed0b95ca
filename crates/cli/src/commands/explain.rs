//! `rialto explain`: how far an event came on the ladder of receipts, and why not further.

use crate::context::Context;
use crate::exit::CliError;
use crate::render::value;
use clap::Args;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Event id
    id: String,
}

impl Explain {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.reader().await?;
        let missing = "it may be a typing mistake, an event that was purged, or one you may not ask about";
        let answer = voice.call(async |http| http.explain(&self.id).await).await.map_err(|e| e.if_missing(missing))?;
        let zone = cx.zone.clone();
        cx.out.show(&answer, |answer, _| value::lines(answer, &zone))
    }
}
