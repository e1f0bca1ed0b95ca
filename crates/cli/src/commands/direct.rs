//! `rialto direct …`: direct rooms, conversations of two.

use crate::commands::history;
use crate::commands::thread::{pages, short};
use crate::context::{Context, Voice, channel, speaker_address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use rialto_client::{Draft, EventQuery, Http};
use serde_json::Value;

/// Verbs of `direct`.
#[derive(Debug, Subcommand)]
pub(crate) enum Direct {
    /// Open the room with somebody; the same room every time
    Open {
        /// The other side
        peer: String,
        /// The channel that scopes the room; else the default channel
        #[arg(long)]
        channel: Option<String>,
    },
    /// List your rooms, the liveliest first
    List {
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Read the conversation with somebody, or one room
    Show {
        /// The other side, or a room id
        #[arg(value_name = "PEER|ROOM")]
        peer: String,
        /// At most this many, the newest ones
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Say something to somebody, or in a room
    Send {
        /// The other side, or a room id
        #[arg(value_name = "PEER|ROOM")]
        peer: String,
        /// What to say
        text: String,
        /// The channel that scopes the room; else the default channel
        #[arg(long)]
        channel: Option<String>,
    },
}

/// What helps when there is no such room.
const MISSING: &str = "`rialto direct list` shows your rooms; `rialto who` shows who is there";

/// Whether this names a room: `direct_` and 32 hex digits.
fn is_room(text: &str) -> bool {
    text.strip_prefix("direct_").is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

impl Direct {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Direct::Open { peer, channel: place } => {
                let (peer, place) = (speaker_address(&peer)?, place.as_deref().map(channel).transpose()?);
                let mut voice = cx.member().await?;
                let opened = voice.call(async |http| http.open_room(&peer, place.as_deref()).await).await;
                let room = opened.map_err(|e| e.if_missing(MISSING))?;
                let zone = cx.zone.clone();
                cx.out.show(&room, |room, _| value::text_of(room, "room", &zone))
            }
            Direct::List { limit } => list(cx, limit).await,
            Direct::Show { peer, limit } => show(cx, peer, limit).await,
            Direct::Send { peer, text, channel } => send(cx, &peer, &text, channel.as_deref()).await,
        }
    }
}

async fn show(cx: &mut Context, peer: String, limit: u32) -> Result<(), CliError> {
    let mut query = EventQuery { newest_first: true, ..EventQuery::log() };
    let mut voice = if is_room(&peer) {
        query.room = Some(peer);
        cx.reader().await?
    } else {
        query.conversation = Some((cx.speaker_address()?, speaker_address(&peer)?));
        cx.member().await?
    };
    let page = history::read(&mut voice, query, limit).await.map_err(|e| e.if_missing(MISSING))?;
    history::show(cx, &page)
}

async fn send(cx: &mut Context, peer: &str, text: &str, place: Option<&str>) -> Result<(), CliError> {
    let mut voice = cx.member().await?;
    let place = place.map(channel).transpose()?;
    let (peer, place) = if is_room(peer) {
        let me = cx.speaker_address()?;
        let (other, own) = other_side(&mut voice, peer, &me).await?;
        (other, Some(own))
    } else {
        (speaker_address(peer)?, place)
    };
    let mut draft = Draft::message(peer, text);
    if let Some(place) = place {
        draft = draft.with("room_channel", place);
    }
    let emitted = voice.call(async |http| http.emit(&draft, None).await).await?;
    cx.out.show(&emitted.raw, |_, _| emitted.id.clone())
}

/// Who else is in a room, and the channel that scopes it.
async fn other_side(voice: &mut Voice, id: &str, me: &str) -> Result<(String, String), CliError> {
    let room = voice.call(async |http| http.room(id).await).await.map_err(|e| e.if_missing(MISSING))?;
    let mut members = value::list(&room, "members").iter().filter_map(Value::as_str);
    let other = members.find(|member| *member != me).map(str::to_owned);
    let place = room.get("channel").and_then(Value::as_str).map(str::to_owned);
    other.zip(place).ok_or_else(|| CliError::not_found(format!("nobody else is in {id}")))
}

async fn list(cx: &mut Context, limit: u32) -> Result<(), CliError> {
    let mut voice = cx.member().await?;
    let page = async |http: &Http, before: Option<&str>, limit| http.rooms(before, Some(limit)).await;
    let rooms = pages(&mut voice, "rooms", limit, page).await?;
    let zone = cx.zone.clone();
    cx.out.show(&rooms, |rooms, _| {
        let names = ["room", "members", "message_count", "unread", "last_activity_at", "last_sender"];
        let row = |room: &Value| {
            let mut cells: Vec<String> = names.iter().map(|name| value::text_of(room, name, &zone)).collect();
            cells.push(short(&value::text_of(room, "last_message_preview", &zone)));
            cells
        };
        let rows: Vec<Vec<String>> = value::list(rooms, "rooms").iter().map(row).collect();
        table(&["room", "between", "messages", "unread", "last", "by", "said"], &rows)
    })?;
    if value::list(&rooms, "rooms").is_empty() {
        cx.out.hint("no rooms");
    }
    Ok(())
}
