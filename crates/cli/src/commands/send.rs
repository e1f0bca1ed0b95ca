//! `rialto send`: emit one event, and wait for its answer if asked to.

use crate::context::{Context, Voice, address};
use crate::crossing::{self, OtherNetwork};
use crate::exit::CliError;
use crate::render::event;
use clap::Args;
use rialto_client::{Draft, Emitted, Event, EventQuery, Secret};
use rialto_model::{EventId, limits};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io::Read;
use std::time::{Duration, Instant};

const MESSAGE: &str = "workspace.message.posted";

/// Arguments of `send`.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Where to: agent:NAME, human:NAME, channel/NAME, group/NAME, agent:broadcast, …; NETWORK::… in another network
    target: String,
    /// What to say; `-` or nothing reads standard input
    text: Option<String>,
    /// Event type
    #[arg(long = "type", value_name = "TYPE", default_value = MESSAGE)]
    kind: String,
    /// Payload, a JSON object; `-` reads standard input
    #[arg(long, value_name = "JSON", conflicts_with = "text")]
    payload: Option<String>,
    /// The event this one answers
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
    /// Thread inside the channel
    #[arg(long)]
    thread: Option<String>,
    /// Id of the event: sending it again changes nothing
    #[arg(long)]
    id: Option<String>,
    /// Wait for the first answer and print it; exit 7 when none comes
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "30")]
    wait: Option<u64>,
    /// Ask to be told when recipients ack it
    #[arg(long)]
    receipt: bool,
    /// Never store it; only who is there now gets it
    #[arg(long)]
    ephemeral: bool,
    /// Where the other network is, for a target in one that is not configured
    #[arg(long, value_name = "URL")]
    to_url: Option<String>,
    /// Token of the other network (RIALTO_TO_TOKEN)
    #[arg(long, value_name = "TOKEN")]
    to_token: Option<Secret>,
}

impl Send {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let wait = self.wait.map(Duration::from_secs);
        let target = address(&self.target)?;
        let elsewhere = OtherNetwork { url: self.to_url.clone(), token: self.to_token.clone() };
        let draft = self.draft(read_stdin)?;
        let started = Instant::now();
        let (mut voice, emitted) = if target.is_foreign() {
            crossing::send(cx, &target, &draft, &elsewhere, wait).await?
        } else {
            let mut voice = cx.member().await?;
            let emitted = voice.call(async |http| http.emit(&draft, wait).await).await?;
            (voice, emitted)
        };
        let Some(wait) = wait else { return sent(cx, &emitted) };
        let answer = match emitted.response.clone() {
            Some(answer) => Some(answer),
            None => later_answer(&mut voice, &emitted.id, wait.saturating_sub(started.elapsed())).await?,
        };
        answered(cx, &emitted, answer, wait)
    }

    fn draft(self, stdin: impl FnOnce() -> Result<String, CliError>) -> Result<Draft, CliError> {
        let target = address(&self.target)?.to_string();
        let said = |text: &str| Draft::raw(&json!({ "content": text.trim_end_matches('\n') }));
        let mut draft = Draft { id: self.id, ..Draft::new(self.kind, target, json!({})) };
        match (self.payload.as_deref(), self.text.as_deref()) {
            (Some("-"), _) => draft.payload = object(&stdin()?)?,
            (Some(json), _) => draft.payload = object(json)?,
            (None, Some("-")) => draft.payload = said(&stdin()?),
            (None, Some(text)) => draft.payload = Draft::raw(&json!({ "content": text })),
            (None, None) if draft.kind == MESSAGE => draft.payload = said(&stdin()?),
            (None, None) => {}
        }
        for id in [&draft.id, &self.reply_to].into_iter().flatten() {
            if !EventId::is_legal(id) {
                return Err(CliError::usage(format!("{id:?} is no event id")));
            }
        }
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                draft.metadata.insert(key.to_owned(), value);
            }
        };
        put("in_reply_to", self.reply_to.map(Value::from));
        put("thread", self.thread.map(Value::from));
        put("receipt", self.receipt.then_some(Value::Bool(true)));
        put("ephemeral", self.ephemeral.then_some(Value::Bool(true)));
        Ok(draft)
    }
}

/// The object as it was written: numbers and spaces are the sender's.
fn object(text: &str) -> Result<Box<RawValue>, CliError> {
    match serde_json::from_str::<Box<RawValue>>(text) {
        Ok(raw) if raw.get().starts_with('{') => Ok(raw),
        Ok(_) => Err(CliError::usage("the payload is not a JSON object").next("write it as --payload '{\"key\": 1}'")),
        Err(error) => Err(CliError::usage(format!("the payload is not JSON: {error}"))),
    }
}

fn read_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    let limit = u64::try_from(limits::EVENT_BYTES_MAX).unwrap_or(u64::MAX);
    std::io::stdin()
        .take(limit.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(|e| CliError::usage(format!("standard input cannot be read as text: {e}")))?;
    if text.len() > limits::EVENT_BYTES_MAX {
        return Err(CliError::usage("an event is at most 1 MiB").next("put large things into a file"));
    }
    Ok(text)
}

fn sent(cx: &mut Context, emitted: &Emitted) -> Result<(), CliError> {
    if emitted.duplicate {
        cx.out.hint("sent before; nothing changed");
    }
    cx.out.show(&emitted.raw, |_, _| emitted.id.clone())
}

fn answered(cx: &mut Context, emitted: &Emitted, answer: Option<Event>, wait: Duration) -> Result<(), CliError> {
    let Some(answer) = answer else {
        sent(cx, emitted)?;
        let message = format!("no answer to {} within {} s", emitted.id, wait.as_secs());
        return Err(
            CliError::timeout(message).next("it is sent all the same; `rialto explain ID` says how far it came")
        );
    };
    if cx.out.json {
        let mut whole: Value = serde_json::from_str(emitted.raw.get()).unwrap_or_default();
        if let Some(map) = whole.as_object_mut() {
            map.insert("response".to_owned(), json!(answer));
        }
        return cx.out.line(&whole);
    }
    let text = event::line(&answer, &cx.zone, cx.out.paint);
    cx.out.text(&text)
}

/// The node waits at most 60 s inside the send itself; after that we ask again.
async fn later_answer(voice: &mut Voice, id: &str, mut left: Duration) -> Result<Option<Event>, CliError> {
    while left >= Duration::from_secs(1) {
        let asked = Instant::now();
        let query = EventQuery {
            in_reply_to: Some(id.to_owned()),
            limit: Some(50),
            wait_s: Some(left.as_secs().clamp(1, limits::WAIT_SECONDS_MAX)),
            ..EventQuery::log()
        };
        let page = voice.call(async |http| http.events(&query).await).await?;
        // A receipt is no answer.
        if let Some(answer) = page.events.into_iter().find(|event| event.kind != "network.event.ack") {
            return Ok(Some(answer));
        }
        // A node that answers at once with nothing must not be asked in a tight loop.
        tokio::time::sleep(Duration::from_millis(100)).await;
        left = left.saturating_sub(asked.elapsed());
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::exit::Exit;
    use clap::Parser;

    fn parse(words: &[&str]) -> Send {
        let mut line = vec!["rialto", "send"];
        line.extend(words);
        let Command::Send(send) = Cli::try_parse_from(line).unwrap().command else { panic!("not send") };
        send
    }

    fn draft(words: &[&str], stdin: &str) -> Result<String, CliError> {
        let draft = parse(words).draft(|| Ok(stdin.to_owned()))?;
        Ok(serde_json::to_string(&draft).unwrap())
    }

    #[test]
    fn text_becomes_a_message() {
        assert_eq!(
            draft(&["channel/general", "hi"], "").unwrap(),
            r#"{"type":"workspace.message.posted","target":"channel/general","payload":{"content":"hi"}}"#
        );
        let from_stdin = r#"{"type":"workspace.message.posted","target":"agent:bob","payload":{"content":"a\nb"}}"#;
        assert_eq!(draft(&["bob", "-"], "a\nb\n").unwrap(), from_stdin);
        assert_eq!(draft(&["bob"], "a\nb\n").unwrap(), from_stdin);
    }

    #[test]
    fn payload_and_metadata() {
        let words = [
            "agent:bob",
            "--type",
            "myapp.task.assigned",
            "--payload",
            r#"{"n":1}"#,
            "--reply-to",
            "e1",
            "--thread",
            "t",
            "--receipt",
            "--ephemeral",
            "--id",
            "m1",
        ];
        assert_eq!(
            draft(&words, "").unwrap(),
            r#"{"id":"m1","type":"myapp.task.assigned","target":"agent:bob","payload":{"n":1},"metadata":{"ephemeral":true,"in_reply_to":"e1","receipt":true,"thread":"t"}}"#
        );
        assert!(draft(&["core", "--type", "a.b"], "not read").unwrap().contains(r#""payload":{}"#));
        assert!(draft(&["core", "--payload", "-"], r#"{"a":2}"#).unwrap().contains(r#""payload":{"a":2}"#));
    }

    #[test]
    fn wait_with_and_without_seconds() {
        assert_eq!(parse(&["bob", "hi"]).wait, None);
        assert_eq!(parse(&["bob", "hi", "--wait"]).wait, Some(30));
        assert_eq!(parse(&["bob", "hi", "--wait=90"]).wait, Some(90));
        assert_eq!(parse(&["--wait", "bob", "hi"]).text.as_deref(), Some("hi"));
    }

    #[test]
    fn what_cannot_be_sent_is_a_usage_error() {
        for words in
            [["agent:", "hi"], ["foo/bar", "hi"], ["bob", "--payload=[]"], ["bob", "--payload={"], ["bob", "--id=-x"]]
        {
            assert_eq!(draft(&words, "").unwrap_err().exit, Exit::Usage, "{words:?}");
        }
    }
}
