//! `rialto dead …`: deliveries that ended undelivered; the operator sends them again or puts them away.

use crate::context::{Context, address};
use crate::exit::CliError;
use crate::render;
use crate::render::table::table;
use crate::render::value;
use clap::{Args, Subcommand};
use rialto_client::{ApiError, ClientError};
use serde_json::{Value, json};

/// Verbs of `dead`.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List dead letters, the newest first
    List {
        /// Only those for this member
        #[arg(long, value_name = "ADDRESS")]
        to: Option<String>,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Show the dead letters of one event, and the event
    Show {
        /// Event id
        id: String,
    },
    /// Send dead letters again, as new events to their recipients
    Retry(DeadLetterSelection),
    /// Put dead letters away: they are no longer listed
    Drop(DeadLetterSelection),
}

/// Which dead letters to act on.
#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = true)]
pub(crate) struct DeadLetterSelection {
    /// Event id
    #[arg(group = "which")]
    id: Option<String>,
    /// Only the one for this member
    #[arg(long, value_name = "ADDRESS", group = "which")]
    to: Option<String>,
    /// Every dead letter of the network
    #[arg(long, group = "which", conflicts_with_all = ["id", "to"])]
    all: bool,
}

impl DeadLetterSelection {
    fn wish(&self) -> Result<Value, CliError> {
        let recipient = self.to.as_ref().map(|to| address(to).map(|a| a.to_string())).transpose()?;
        Ok(json!({ "event_id": self.id, "recipient": recipient, "all": self.all }))
    }
}

impl Dead {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let (http, network) = cx.operator_of_network().await?;
        let zone = cx.zone.clone();
        match self {
            Dead::List { to, limit } => {
                let to = to.map(|to| address(&to).map(|a| a.to_string())).transpose()?;
                let page = http.dead_letters(&network, None, to.as_deref(), Some(limit)).await?;
                cx.out.show(&page, |page, _| {
                    let names = ["event_id", "type", "source", "recipient", "reason", "at"];
                    let row = |letter: &Value| names.map(|name| value::text_of(letter, name, &zone)).to_vec();
                    let rows: Vec<Vec<String>> = value::list(page, "dead_letters").iter().map(row).collect();
                    table(&["event", "type", "from", "to", "reason", "at"], &rows)
                })?;
                if page.get("has_more") == Some(&Value::Bool(true)) {
                    cx.out.hint("there are more: ask for more with --limit");
                }
                Ok(())
            }
            Dead::Show { id } => {
                let mut page = http.dead_letters(&network, Some(&id), None, None).await.map_err(missing)?;
                if value::list(&page, "dead_letters").is_empty() {
                    return Err(CliError::not_found(format!("{id} has no dead letter")).next(LIST));
                }
                let explained = http.explain(&id).await?;
                if let Some(map) = page.as_object_mut() {
                    map.insert("event".to_owned(), explained);
                }
                cx.out.show(&page, |page, _| value::lines(page, &zone))
            }
            Dead::Retry(choice) => {
                let wish = choice.wish()?;
                let mut retried = Vec::new();
                let refused = loop {
                    let answer = http.retry_dead_letters(&network, &wish).await.map_err(missing)?;
                    let sent = value::list(&answer, "retried").len();
                    retried.extend(value::list(&answer, "retried").iter().cloned());
                    // What is refused stays in the list: a call that sent nothing will not get further.
                    if answer.get("has_more") != Some(&Value::Bool(true)) || sent == 0 {
                        break value::list(&answer, "refused").to_vec();
                    }
                };
                let whole = json!({ "retried": retried, "refused": refused });
                cx.out.show(&whole, |whole, _| told(whole, &zone))?;
                match refused.first().and_then(|first| first.get("error")) {
                    Some(error) => Err(refusal(error)),
                    None => Ok(()),
                }
            }
            Dead::Drop(choice) => {
                let wish = choice.wish()?;
                let mut dropped = 0;
                loop {
                    let answer = http.drop_dead_letters(&network, &wish).await.map_err(missing)?;
                    dropped += answer.get("dropped").and_then(Value::as_u64).unwrap_or(0);
                    if answer.get("has_more") != Some(&Value::Bool(true)) {
                        break;
                    }
                }
                let count = render::count(usize::try_from(dropped).unwrap_or(usize::MAX), "dead letter");
                cx.out.show(&json!({ "dropped": dropped }), |_, _| format!("{count} put away"))
            }
        }
    }
}

const LIST: &str = "`rialto dead list` shows what there is";

fn missing(error: ClientError) -> CliError {
    CliError::from(error).if_missing(LIST)
}

fn refusal(error: &Value) -> CliError {
    match ApiError::from_payload(&error.to_string()) {
        Some(error) => ClientError::from(error).into(),
        None => CliError::internal(error.to_string()),
    }
}

/// One line per letter: what it was sent again as, or why not.
fn told(whole: &Value, zone: &jiff::tz::TimeZone) -> String {
    let text = |value: &Value, name: &str| value::text_of(value, name, zone);
    let mut lines: Vec<String> = Vec::new();
    for letter in value::list(whole, "retried") {
        let (id, to) = (text(letter, "event_id"), text(letter, "recipient"));
        lines.push(format!("{id} is sent to {to} again as {}", text(letter, "retried_as")));
    }
    for letter in value::list(whole, "refused") {
        let (id, to) = (text(letter, "event_id"), text(letter, "recipient"));
        let why = letter.get("error").map(|error| text(error, "message")).unwrap_or_default();
        lines.push(format!("{id} is not sent to {to}: {why}"));
    }
    lines.join("\n")
}
