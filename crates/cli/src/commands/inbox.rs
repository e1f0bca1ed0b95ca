//! `rialto inbox`: the mail that waits for a name. Reading acks nothing; `rialto ack` does.

use crate::commands::history;
use crate::context::Context;
use crate::exit::CliError;
use clap::Args;
use rialto_client::{EventQuery, Page};
use rialto_model::limits;
use std::time::{Duration, Instant};

/// Arguments of `inbox`.
#[derive(Debug, Args)]
pub(crate) struct Inbox {
    /// Wait this long for mail when there is none
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
    /// At most this many, oldest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

impl Inbox {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.member().await?;
        let started = Instant::now();
        let wait = Duration::from_secs(self.wait.unwrap_or(0));
        let mut query = EventQuery { limit: Some(self.limit), ..EventQuery::inbox() };
        let page: Page = loop {
            let left = wait.saturating_sub(started.elapsed());
            query.wait_s = (left.as_secs() > 0).then(|| left.as_secs().min(limits::WAIT_SECONDS_MAX));
            let page = voice.call(async |http| http.events(&query).await).await?;
            if !page.events.is_empty() || left.as_secs() == 0 {
                break page;
            }
            // A node that answers at once with nothing must not be asked in a tight loop.
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        history::show(cx, &page)?;
        match page.events.last() {
            Some(last) => cx.out.hint(&format!("when done: rialto ack --up-to {}", last.id)),
            None => cx.out.hint("no mail"),
        }
        Ok(())
    }
}
