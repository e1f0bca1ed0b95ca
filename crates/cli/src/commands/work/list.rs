//! `rialto work list` and `rialto work show`.

use super::{WorkArg, explained};
use crate::commands::thread::pages;
use crate::context::{Context, channel};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::{value, work};
use clap::Args;
use rialto_client::{Http, WorkQuery};
use serde_json::{Value, json};

/// Arguments of `work list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What you asked for
    #[arg(long)]
    mine: bool,
    /// What you have to do
    #[arg(long)]
    for_me: bool,
    /// What you may take
    #[arg(long)]
    open_to_me: bool,
    /// Everybody's, as the operator sees it
    #[arg(long, conflicts_with_all = ["mine", "for_me", "open_to_me", "speak_as"])]
    all: bool,
    /// Only in these states: working,input_required
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only what was asked for in this channel
    #[arg(long)]
    channel: Option<String>,
    /// Only with this context
    #[arg(long)]
    context: Option<String>,
    /// Only parts of this unit
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

/// Arguments of `work show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    which: WorkArg,
    /// At most this many of its events, the first ones
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

impl List {
    fn query(&self) -> Result<WorkQuery, CliError> {
        let roles = [(self.mine, "requester"), (self.for_me, "executor"), (self.open_to_me, "untaken")];
        let roles: Vec<&str> = roles.iter().filter(|(asked, _)| *asked).map(|(_, role)| *role).collect();
        Ok(WorkQuery {
            role: (!roles.is_empty()).then(|| roles.join(",")),
            state: self.state.clone(),
            channel: self.channel.as_deref().map(channel).transpose()?,
            context: self.context.clone(),
            parent: self.parent.clone(),
            ..WorkQuery::default()
        })
    }

    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let query = self.query()?;
        // Work is seen by who asked for it, does it or may take it; all of it by the operator.
        let mut voice = if self.all { cx.reader().await? } else { cx.member().await? };
        let page = async |http: &Http, before: Option<&str>, limit| {
            let before = before.and_then(|text| text.parse().ok());
            http.works(&WorkQuery { before, limit: Some(limit), ..query.clone() }).await
        };
        let works = pages(&mut voice, "works", self.limit, page).await?;
        let zone = cx.zone.clone();
        cx.out.show(&works, |works, _| {
            let row = |unit: &Value| {
                let text = |name: &str| value::text_of(unit, name, &zone);
                let whom = if unit.get("executor").is_some_and(Value::is_string) { "executor" } else { "target" };
                vec![text("id"), text("state"), text("requester"), text(whom), text("updated_at"), text("aliases")]
            };
            let rows: Vec<Vec<String>> = value::list(works, "works").iter().map(row).collect();
            table(&["id", "state", "from", "to", "updated", "called"], &rows)
        })?;
        if value::list(&works, "works").is_empty() {
            cx.out.hint("no work");
        }
        Ok(())
    }
}

impl Show {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.member().await?;
        let id = &self.which.id;
        let mut unit = voice.call(async |http| http.work(id).await).await.map_err(explained)?;
        let page = voice.call(async |http| http.work_events(id, None, Some(self.limit), None).await).await?;
        let zone = cx.zone.clone();
        if cx.out.json {
            if let Some(map) = unit.as_object_mut() {
                map.insert("events".to_owned(), json!(page.events));
            }
            return cx.out.line(&unit);
        }
        let mut text = value::lines(&unit, &zone);
        text.push('\n');
        text.extend(page.events.iter().map(|event| work::line(event, &zone, cx.out.paint) + "\n"));
        cx.out.text(&text)
    }
}
