//! `rialto search`: find text in past events.

use crate::commands::history::{self, EventSelection};
use crate::context::Context;
use crate::exit::CliError;
use crate::render;
use crate::since::Since;
use clap::Args;

/// Arguments of `search`.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// What to look for
    text: String,
    #[command(flatten)]
    choice: EventSelection,
    /// At most this many, the newest ones
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

impl Search {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut query = self.choice.query()?;
        query.search = Some(self.text);
        query.newest_first = true;
        match self.choice.since(cx)? {
            Some(Since::After(id)) => query.after = Some(id),
            Some(Since::At(ms)) => query.since = Some(ms),
            None => {}
        }
        let mut voice = cx.reader().await?;
        let page = history::read(&mut voice, query, self.limit).await?;
        history::show(cx, &page)?;
        let found = render::count(page.events.len(), "event");
        cx.out.hint(&format!("{found} found"));
        if let (Some(through), Some(head)) = (page.indexed_through, page.head)
            && through < head
        {
            let behind = render::count(usize::try_from(head - through).unwrap_or(usize::MAX), "event");
            cx.out.hint(&format!("the search index is {behind} behind; those were read from the log"));
        }
        if page.has_more {
            cx.out.hint("there may be more: ask for more with --limit");
        }
        Ok(())
    }
}
