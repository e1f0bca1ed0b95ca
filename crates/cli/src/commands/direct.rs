//! `rialto direct …`: conversations of two.

use crate::commands::history;
use crate::context::{Context, speaker_address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use rialto_client::EventQuery;
use serde_json::Value;

/// Verbs of `direct`.
#[derive(Debug, Subcommand)]
pub(crate) enum Direct {
    /// List direct conversations
    List,
    /// Read the conversation with somebody
    Show {
        /// The other side
        peer: String,
        /// At most this many, the newest ones
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
}

impl Direct {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Direct::List => list(cx).await,
            Direct::Show { peer, limit } => {
                let pair = (cx.speaker_address()?, speaker_address(&peer)?);
                let query = EventQuery { conversation: Some(pair), newest_first: true, ..EventQuery::log() };
                let mut voice = cx.member().await?;
                let page = history::read(&mut voice, query, limit).await?;
                history::show(cx, &page)
            }
        }
    }
}

async fn list(cx: &mut Context) -> Result<(), CliError> {
    let mut voice = cx.member().await?;
    let rooms = voice.call(async |http| http.conversations().await).await?;
    let zone = cx.zone.clone();
    cx.out.show(&rooms, |rooms, _| {
        let row = |room: &Value| {
            let last = |name: &str| {
                let value = room.pointer(&format!("/last_message/{name}")).unwrap_or(&Value::Null);
                value::cell(value, &zone, name)
            };
            let said: String = last("content").chars().take(60).collect();
            vec![
                value::text_of(room, "agents", &zone),
                value::text_of(room, "message_count", &zone),
                last("timestamp"),
                last("sender"),
                said,
            ]
        };
        let rows: Vec<Vec<String>> = value::list(rooms, "conversations").iter().map(row).collect();
        table(&["between", "messages", "last", "by", "said"], &rows)
    })
}
