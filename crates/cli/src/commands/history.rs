//! `rialto history`: read past events. Also the choice of events that `tail` and `search` share.

use crate::commands::now_ms;
use crate::context::{Context, Voice, address};
use crate::exit::CliError;
use crate::render::event;
use crate::since::{self, Since};
use clap::Args;
use rialto_client::{EventQuery, Page};
use rialto_model::address::Entity;
use rialto_model::limits;

/// Which events.
#[derive(Debug, Args)]
pub(crate) struct EventSelection {
    /// Only what was sent there: channel/NAME, agent:NAME, …
    target: Option<String>,
    /// Only this type: a prefix, or a glob with `*`
    #[arg(long = "type", value_name = "GLOB")]
    kind: Option<String>,
    /// Begin there: a span (2h), a local date (2026-01-31), or an event id
    #[arg(long, value_name = "ID|2h")]
    since: Option<String>,
    /// Only this thread
    #[arg(long)]
    thread: Option<String>,
    /// Only this direct room
    #[arg(long, value_name = "ID")]
    room: Option<String>,
    /// Only what this member said
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
}

impl EventSelection {
    /// Where to begin.
    pub(crate) fn since(&self, cx: &Context) -> Result<Option<Since>, CliError> {
        let parse = |text: &String| since::parse(text, now_ms(), &cx.zone).map_err(CliError::usage);
        self.since.as_ref().map(parse).transpose()
    }

    /// The filters, without a beginning.
    pub(crate) fn query(&self) -> Result<EventQuery, CliError> {
        let (kind, thread, room) = (self.kind.clone(), self.thread.clone(), self.room.clone());
        let mut query = EventQuery { kind, thread, room, ..EventQuery::log() };
        if let Some(target) = &self.target {
            let target = address(target)?;
            match target.entity() {
                Entity::Channel(name) if !target.is_foreign() => query.channel = Some(name.to_owned()),
                Entity::Core
                | Entity::Agent(_)
                | Entity::Human(_)
                | Entity::Registered { .. }
                | Entity::Channel(_)
                | Entity::Mod(_)
                | Entity::Group(_)
                | Entity::Resource { .. } => query.target = Some(target.to_string()),
            }
        }
        if let Some(from) = &self.from {
            query.source = Some(address(from)?.to_string());
        }
        Ok(query)
    }
}

/// Arguments of `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    choice: EventSelection,
    /// At most this many; the newest ones unless a beginning is given
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Only what came before this event
    #[arg(long, value_name = "ID")]
    before: Option<String>,
    /// Only what came after this event
    #[arg(long, value_name = "ID", conflicts_with = "since")]
    after: Option<String>,
}

impl History {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut query = self.choice.query()?;
        query.before = self.before;
        query.after = self.after;
        match self.choice.since(cx)? {
            Some(Since::After(id)) => query.after = Some(id),
            Some(Since::At(ms)) => query.since = Some(ms),
            None => {}
        }
        query.newest_first = query.after.is_none() && query.since.is_none();
        let mut voice = cx.reader().await?;
        let page = read(&mut voice, query, self.limit).await?;
        show(cx, &page)
    }
}

/// Up to `limit` events in ascending order, over as many pages as it takes.
pub(crate) async fn read(voice: &mut Voice, mut query: EventQuery, limit: u32) -> Result<Page, CliError> {
    let page_size = u32::try_from(limits::PAGE_EVENTS_MAX).unwrap_or(500);
    let mut whole = Page {
        events: Vec::new(),
        has_more: false,
        oldest_id: None,
        newest_id: None,
        next_cursor: None,
        indexed_through: None,
        head: None,
    };
    loop {
        let left = limit.saturating_sub(u32::try_from(whole.events.len()).unwrap_or(u32::MAX));
        query.limit = Some(left.clamp(1, page_size));
        let page = voice.call(async |http| http.events(&query).await).await?;
        whole.events.extend(page.events);
        whole.has_more = page.has_more;
        // Those of the first page: what was there when the question was asked.
        whole.indexed_through = whole.indexed_through.or(page.indexed_through);
        whole.head = whole.head.or(page.head);
        let moved = page.next_cursor.is_some() && page.next_cursor != whole.next_cursor;
        whole.next_cursor = page.next_cursor;
        let enough = whole.events.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        if enough || !page.has_more || !moved {
            break;
        }
        if query.newest_first {
            query.before = whole.next_cursor.clone();
        } else {
            query.after = whole.next_cursor.clone();
        }
    }
    if query.newest_first {
        whole.events.reverse();
    }
    whole.oldest_id = whole.events.first().map(|event| event.id.clone());
    whole.newest_id = whole.events.last().map(|event| event.id.clone());
    Ok(whole)
}

/// A page as lines, or as the object it is.
pub(crate) fn show(cx: &mut Context, page: &Page) -> Result<(), CliError> {
    let zone = cx.zone.clone();
    cx.out.show(page, |page, paint| event::lines(&page.events, &zone, paint))
}
