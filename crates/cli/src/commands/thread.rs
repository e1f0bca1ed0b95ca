//! `rialto thread …`: threads inside a channel.

use crate::commands::history;
use crate::context::{Context, channel};
use crate::exit::CliError;
use crate::render::value;
use clap::Subcommand;
use rialto_client::EventQuery;

/// Verbs of `thread`.
#[derive(Debug, Subcommand)]
pub(crate) enum Thread {
    /// List the threads of a channel
    List {
        /// Channel name
        channel: String,
    },
    /// Read a thread
    Show {
        /// Channel name
        channel: String,
        /// Thread id
        thread: String,
        /// At most this many, the newest ones
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
}

impl Thread {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let bare = |text: &str| channel(text).map(|address| address.trim_start_matches("channel/").to_owned());
        match self {
            Thread::List { channel } => {
                let name = bare(&channel)?;
                let mut voice = cx.reader().await?;
                let threads = voice.call(async |http| http.threads(&name).await).await?;
                let zone = cx.zone.clone();
                cx.out.show(&threads, |threads, _| {
                    value::lines(&serde_json::Value::from(value::list(threads, "threads").to_vec()), &zone)
                })
            }
            Thread::Show { channel, thread, limit } => {
                let query = EventQuery {
                    channel: Some(bare(&channel)?),
                    thread: Some(thread),
                    newest_first: true,
                    ..EventQuery::log()
                };
                let mut voice = cx.reader().await?;
                let page = history::read(&mut voice, query, limit).await?;
                history::show(cx, &page)
            }
        }
    }
}
