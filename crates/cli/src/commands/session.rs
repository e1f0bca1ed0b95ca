//! `rialto session …`: the sessions of members, and ending them.

use crate::context::{Context, speaker_address};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::Subcommand;
use serde_json::Value;

/// Verbs of `session`.
#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// List sessions: whose, since when, and what each was made with
    List {
        /// Only this member's
        name: Option<String>,
    },
    /// End a member's sessions: it has to join again
    End {
        /// Name or address
        name: String,
        /// Only the session with this number
        #[arg(long, value_name = "NUMBER")]
        session: Option<u64>,
    },
}

impl Session {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let zone = cx.zone.clone();
        match self {
            Session::List { name } => {
                let only = name.as_deref().map(speaker_address).transpose()?;
                let members = http.members(&network).await?;
                let mut sessions = Vec::new();
                for member in value::list(&members, "members") {
                    let address = member.get("address").cloned().unwrap_or_default();
                    if only.as_deref().is_some_and(|only| address.as_str() != Some(only)) {
                        continue;
                    }
                    for session in value::list(member, "sessions") {
                        let mut shown = session.as_object().cloned().unwrap_or_default();
                        shown.insert("address".to_owned(), address.clone());
                        shown
                            .insert("last_seen_at".to_owned(), member.get("last_seen_at").cloned().unwrap_or_default());
                        sessions.push(Value::Object(shown));
                    }
                }
                let answer = serde_json::json!({ "sessions": sessions });
                cx.out.show(&answer, |answer, _| {
                    let names = ["address", "session", "role", "created_at", "last_seen_at", "token", "invitation"];
                    let row = |session: &Value| names.iter().map(|name| value::text_of(session, name, &zone)).collect();
                    let rows: Vec<Vec<String>> = value::list(answer, "sessions").iter().map(row).collect();
                    table(&["address", "session", "role", "since", "last seen", "token", "invitation"], &rows)
                })
            }
            Session::End { name, session } => {
                let address = speaker_address(&name)?;
                let ended = http
                    .end_sessions(&network, &address, session)
                    .await
                    .map_err(|error| CliError::from(error).if_missing("`rialto session list` shows what there is"))?;
                cx.out.show(&ended, |ended, _| {
                    let count = value::list(ended, "ended").len();
                    format!("{} of {address} ended", crate::render::count(count, "session"))
                })
            }
        }
    }
}
