//! What moves a unit: events to `core`, which passes them on to the other side.

use super::{WorkArg, explained};
use crate::context::{Context, Voice};
use crate::exit::CliError;
use crate::render::value;
use clap::Args;
use rialto_client::Draft;
use serde_json::{Map, Value, json};

/// Arguments of `work answer`.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    #[command(flatten)]
    which: WorkArg,
    /// What to answer
    text: String,
}

/// Arguments of `work cancel`.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: WorkArg,
    /// Why
    reason: Option<String>,
}

/// Arguments of `work update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    #[command(flatten)]
    which: WorkArg,
    /// working, input_required, auth_required, completed, failed, canceled or rejected
    state: String,
    /// What to say about it
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// How much is done: 0.5 or 50%
    #[arg(long, value_parser = progress)]
    progress: Option<f64>,
}

/// Arguments of `work complete`, `fail` and `reject`.
#[derive(Debug, Args)]
pub(crate) struct Closing {
    #[command(flatten)]
    which: WorkArg,
    /// What came out of it, or why not
    text: Option<String>,
}

/// A share of the whole.
fn progress(text: &str) -> Result<f64, String> {
    let parsed = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|n| n / 100.0),
        None => text.parse(),
    };
    parsed.ok().filter(|n| (0.0..=1.0).contains(n)).ok_or_else(|| "0 to 1, or 0% to 100%".to_owned())
}

impl Answer {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        act(cx, "work.answer", &self.which.id, [("message", Some(json!(self.text)))]).await
    }
}

impl Cancel {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        act(cx, "work.cancel", &self.which.id, [("reason", self.reason.map(Value::from))]).await
    }
}

impl Update {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let more = [
            ("state", Some(json!(self.state))),
            ("message", self.message.map(Value::from)),
            ("progress", self.progress.map(Value::from)),
        ];
        act(cx, "work.update", &self.which.id, more).await
    }
}

impl Closing {
    pub(crate) async fn run(self, cx: &mut Context, state: &str) -> Result<(), CliError> {
        let error = (state == "failed").then(|| json!({ "code": "failed", "message": self.text }));
        let more = [("state", Some(json!(state))), ("message", self.text.map(Value::from)), ("error", error)];
        act(cx, "work.update", &self.which.id, more).await
    }
}

/// The first to say that it works on a unit has it.
pub(super) async fn take(cx: &mut Context, id: &str) -> Result<(), CliError> {
    act(cx, "work.update", id, [("state", Some(json!("working")))]).await
}

/// Emits what moves a unit; gives the unit's id and state after it.
pub(super) async fn emit(
    voice: &mut Voice,
    kind: &str,
    id: &str,
    more: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Result<Value, CliError> {
    let mut payload = Map::new();
    payload.insert("work".to_owned(), json!(id));
    payload.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    let draft = Draft::new(kind, "core", Value::Object(payload));
    let emitted = voice.call(async |http| http.emit(&draft, None).await).await.map_err(explained)?;
    Ok(emitted.result.as_ref().and_then(|result| result.get("work")).cloned().unwrap_or_default())
}

async fn act(
    cx: &mut Context,
    kind: &str,
    id: &str,
    more: impl IntoIterator<Item = (&'static str, Option<Value>)>,
) -> Result<(), CliError> {
    let mut voice = cx.member().await?;
    let unit = emit(&mut voice, kind, id, more).await?;
    let zone = cx.zone.clone();
    cx.out.show(&unit, |unit, _| {
        format!("{} is {}", value::text_of(unit, "id", &zone), value::text_of(unit, "state", &zone))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_whole() {
        assert_eq!((progress("0.5"), progress("50%"), progress("1")), (Ok(0.5), Ok(0.5), Ok(1.0)));
        for bad in ["", "%", "101%", "-0.1", "NaN", "half"] {
            assert!(progress(bad).is_err(), "{bad}");
        }
    }
}
