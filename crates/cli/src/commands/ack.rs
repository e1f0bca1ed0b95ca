//! `rialto ack`: say that mail was received.

use crate::context::Context;
use crate::exit::CliError;
use crate::render;
use clap::Args;
use rialto_client::AckSelection;
use serde_json::json;

/// Arguments of `ack`.
#[derive(Debug, Args)]
pub(crate) struct Ack {
    /// Events that were received
    #[arg(value_name = "ID", required_unless_present = "up_to")]
    ids: Vec<String>,
    /// Everything up to and including this event
    #[arg(long, value_name = "ID", conflicts_with = "ids")]
    up_to: Option<String>,
}

impl Ack {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let acked = match self.up_to {
            Some(id) => AckSelection::UpTo(id),
            None => AckSelection::Ids(self.ids),
        };
        let mut voice = cx.member().await?;
        let n = voice.call(async |http| http.ack(&acked).await).await?;
        cx.out.show(&json!({ "acked": n }), |_, _| {
            format!("acked {}", render::count(usize::try_from(n).unwrap_or(usize::MAX), "event"))
        })
    }
}
