//! `rialto thread …`: threads inside channels.

use crate::commands::history;
use crate::context::{Context, Voice, channel};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use rialto_client::{Draft, EventQuery, Http, fresh_id};
use rialto_model::limits;
use serde_json::{Value, json};

/// Verbs of `thread`.
#[derive(Debug, Subcommand)]
pub(crate) enum Thread {
    /// Begin a thread with a first message
    New {
        /// Channel name
        channel: String,
        /// What to say
        text: String,
        /// What the thread is called; else the first line of the text
        #[arg(long)]
        title: Option<String>,
    },
    /// List threads, the liveliest first
    List {
        /// Channel name; else of every channel
        channel: Option<String>,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
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
    /// Say something in a thread
    Post {
        /// Channel name
        channel: String,
        /// Thread id
        thread: String,
        /// What to say
        text: String,
    },
}

/// What helps when there is no such thread.
const MISSING: &str = "`rialto thread list` shows what there is; `rialto thread new` begins one";

impl Thread {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Thread::New { channel, text, title } => new(cx, &channel, &text, title.as_deref()).await,
            Thread::List { channel, limit } => list(cx, channel.as_deref(), limit).await,
            Thread::Show { channel, thread, limit } => show(cx, &channel, thread, limit).await,
            Thread::Post { channel, thread, text } => post(cx, &channel, &thread, &text).await,
        }
    }
}

/// A channel's name without its prefix.
fn bare(text: &str) -> Result<String, CliError> {
    Ok(channel(text)?.trim_start_matches("channel/").to_owned())
}

async fn new(cx: &mut Context, place: &str, text: &str, title: Option<&str>) -> Result<(), CliError> {
    let target = channel(place)?;
    let thread = format!("thread_{}", fresh_id().to_ascii_lowercase());
    let mut payload = json!({ "content": text });
    if let (Some(title), Some(map)) = (title, payload.as_object_mut()) {
        map.insert("title".to_owned(), json!(title));
    }
    let draft = Draft::new("workspace.message.posted", &target, payload).with("thread", thread.as_str());
    let mut voice = cx.member().await?;
    let emitted = voice.call(async |http| http.emit(&draft, None).await).await?;
    cx.out.show(&json!({ "thread": thread, "channel": target, "id": emitted.id }), |_, _| thread.clone())
}

async fn post(cx: &mut Context, place: &str, thread: &str, text: &str) -> Result<(), CliError> {
    let (target, name) = (channel(place)?, bare(place)?);
    let mut voice = cx.member().await?;
    // A mistyped name would begin a thread of its own.
    voice.call(async |http| http.thread(&name, thread).await).await.map_err(|e| e.if_missing(MISSING))?;
    let draft = Draft::message(target, text).with("thread", thread);
    let emitted = voice.call(async |http| http.emit(&draft, None).await).await?;
    cx.out.show(&emitted.raw, |_, _| emitted.id.clone())
}

async fn list(cx: &mut Context, place: Option<&str>, limit: u32) -> Result<(), CliError> {
    let name = place.map(bare).transpose()?;
    let mut voice = cx.reader().await?;
    let page =
        async |http: &Http, before: Option<&str>, limit| http.threads(name.as_deref(), before, Some(limit)).await;
    let threads = pages(&mut voice, "threads", limit, page).await?;
    let zone = cx.zone.clone();
    cx.out.show(&threads, |threads, _| {
        let names = ["thread", "channel", "title", "message_count", "unread", "last_activity_at", "last_sender"];
        let row = |thread: &Value| names.iter().map(|name| short(&value::text_of(thread, name, &zone))).collect();
        let rows: Vec<Vec<String>> = value::list(threads, "threads").iter().map(row).collect();
        table(&["thread", "channel", "title", "messages", "unread", "last", "by"], &rows)
    })?;
    if value::list(&threads, "threads").is_empty() {
        cx.out.hint("no threads");
    }
    Ok(())
}

/// Text in a table.
pub(crate) fn short(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let cut: String = text.chars().take(CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// Up to `limit` entries of a listing that goes on with `before`, over as many pages as it takes.
pub(crate) async fn pages(
    voice: &mut Voice,
    name: &str,
    limit: u32,
    page: impl AsyncFn(&Http, Option<&str>, u32) -> Result<Value, rialto_client::ClientError>,
) -> Result<Value, CliError> {
    let page_size = u32::try_from(limits::PAGE_EVENTS_MAX).unwrap_or(500);
    let mut all: Vec<Value> = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let left = limit.saturating_sub(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let answer = voice.call(async |http| page(http, before.as_deref(), left.clamp(1, page_size)).await).await?;
        all.extend(value::list(&answer, name).iter().cloned());
        let next = match answer.get("next") {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(_) | None => None,
        };
        let more = answer.get("has_more").and_then(Value::as_bool).unwrap_or(false);
        let enough = all.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        if enough || !more || next.is_none() || next == before {
            return Ok(json!({ name: all, "has_more": more, "next": next }));
        }
        before = next;
    }
}

async fn show(cx: &mut Context, place: &str, thread: String, limit: u32) -> Result<(), CliError> {
    let name = bare(place)?;
    let mut voice = cx.reader().await?;
    let summary =
        voice.call(async |http| http.thread(&name, &thread).await).await.map_err(|e| e.if_missing(MISSING))?;
    let query = EventQuery { channel: Some(name), thread: Some(thread), newest_first: true, ..EventQuery::log() };
    let page = history::read(&mut voice, query, limit).await?;
    let zone = cx.zone.clone();
    let text = |field: &str| value::text_of(&summary, field, &zone);
    let head = format!("{}: {} messages, {} unread", text("title"), text("message_count"), text("unread"));
    cx.out.hint(&head);
    history::show(cx, &page)
}
