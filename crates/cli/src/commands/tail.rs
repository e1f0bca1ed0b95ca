//! `rialto tail`: watch events as they happen, over reconnects.

use crate::commands::history::EventSelection;
use crate::context::{Context, Voice};
use crate::exit::CliError;
use crate::render::event;
use crate::since::Since;
use clap::Args;
use rialto_client::{Event, EventQuery};
use rialto_model::{ErrorCode, limits};

/// Arguments of `tail`.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    choice: EventSelection,
}

impl Tail {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let since = self.choice.since(cx)?;
        let mut query = self.choice.query()?;
        let mut voice = cx.reader().await?;
        match since {
            Some(Since::After(id)) => query.after = Some(id),
            Some(Since::At(ms)) => query.after = past(cx, &mut voice, &query, ms).await?,
            None => query.after = head(&mut voice).await?,
        }
        follow(cx, voice, query).await
    }
}

/// The newest event: following from it, a lost connection leaves no gap.
async fn head(voice: &mut Voice) -> Result<Option<String>, CliError> {
    let query = EventQuery { newest_first: true, limit: Some(1), ..EventQuery::log() };
    let page = voice.call(async |http| http.events(&query).await).await?;
    Ok(page.newest_id.or_else(|| Some("seq:0".to_owned())))
}

/// Prints what happened since then; gives the cursor from which nothing is missed.
async fn past(cx: &mut Context, voice: &mut Voice, query: &EventQuery, since: u64) -> Result<Option<String>, CliError> {
    let page_size = u32::try_from(limits::PAGE_EVENTS_MAX).unwrap_or(500);
    let mut query = EventQuery { since: Some(since), limit: Some(page_size), ..query.clone() };
    loop {
        let page = voice.call(async |http| http.events(&query).await).await?;
        for event in &page.events {
            show(cx, event)?;
        }
        let cursor = page.next_cursor.or(page.newest_id);
        if !page.has_more || cursor.is_none() || cursor == query.after {
            return Ok(cursor.or(query.after));
        }
        query.after = cursor;
    }
}

/// Watches over restarts of the node. A name that somebody else took is not fought over.
async fn follow(cx: &mut Context, mut voice: Voice, mut query: EventQuery) -> Result<(), CliError> {
    loop {
        let mut tail = rialto_client::Tail::new(voice.http.clone(), query.clone());
        if let Err(error) = tail.open().await {
            voice.after(error).await?;
            tail = rialto_client::Tail::new(voice.http.clone(), query.clone());
            tail.open().await?;
        }
        let error = loop {
            match tail.next().await {
                Ok(event) => show(cx, &event)?,
                Err(error) => break error,
            }
        };
        if error.is(ErrorCode::SessionRevoked) {
            return Err(error.into());
        }
        query.after = tail.cursor().map(str::to_owned);
        voice.after(error).await?;
    }
}

fn show(cx: &mut Context, event: &Event) -> Result<(), CliError> {
    let zone = cx.zone.clone();
    cx.out.show(event, |event, paint| event::line(event, &zone, paint))
}
