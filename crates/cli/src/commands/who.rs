//! `rialto who`: the roster of the network.

use crate::context::Context;
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `who`.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Only who is online
    #[arg(long)]
    online: bool,
}

impl Who {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.reader().await?;
        let roster = voice.call(async |http| http.discover().await).await?;
        let there = |agent: &&Value| !self.online || agent.get("status").and_then(Value::as_str) == Some("online");
        let agents: Vec<Value> = value::list(&roster, "agents").iter().filter(there).cloned().collect();
        let zone = cx.zone.clone();
        cx.out.show(&json!({ "agents": agents }), |_, _| {
            let names = ["address", "role", "status", "verification", "agent_type", "description"];
            let row = |agent: &Value| names.iter().map(|name| value::text_of(agent, name, &zone)).collect();
            let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
            table(&["address", "role", "status", "level", "type", "description"], &rows)
        })?;
        if agents.is_empty() {
            cx.out.hint("nobody yet");
        }
        Ok(())
    }
}
