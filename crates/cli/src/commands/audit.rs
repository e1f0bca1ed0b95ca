//! `rialto audit`: who managed the network, when, what and from where.

use crate::commands::now_ms;
use crate::context::Context;
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use crate::since;
use clap::Args;
use serde_json::Value;

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only acts of the last span, such as 2h or 7d
    #[arg(long, value_name = "SPAN")]
    since: Option<String>,
    /// Only acts of this one: operator, a member's address, token:LABEL
    #[arg(long, value_name = "WHO")]
    actor: Option<String>,
}

impl Audit {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let since = match &self.since {
            None => None,
            Some(text) => {
                let span = since::span(text).ok_or_else(|| CliError::usage("--since takes a span such as 2h or 7d"))?;
                Some(now_ms().saturating_sub(span))
            }
        };
        let (http, network) = cx.operator_of_network().await?;
        let entries = http.audit(&network, since, self.actor.as_deref()).await?;
        let zone = cx.zone.clone();
        cx.out.show(&entries, |entries, _| {
            let names = ["at", "actor", "from", "act", "about", "before", "after"];
            let row = |entry: &Value| names.iter().map(|name| value::text_of(entry, name, &zone)).collect();
            let rows: Vec<Vec<String>> = value::list(entries, "entries").iter().map(row).collect();
            table(&["when", "who", "from", "act", "about", "before", "after"], &rows)
        })
    }
}
