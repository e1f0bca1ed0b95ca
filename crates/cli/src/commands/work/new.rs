//! `rialto work new`: asks for work, and waits for its end if told to.

use super::{explained, watch};
use crate::context::{Context, address};
use crate::exit::CliError;
use crate::render::value;
use crate::since;
use clap::Args;
use rialto_client::Draft;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Arguments of `work new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Who: agent:NAME, channel/NAME (whoever takes it first), or core with --skill
    target: String,
    /// What is to be done
    text: String,
    /// Give it to somebody who has this skill
    #[arg(long)]
    skill: Option<String>,
    /// The unit you are doing that this is a part of
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Fail when nothing is heard for this long: 90s, 10m, 2h
    #[arg(long, value_name = "SPAN", value_parser = deadline)]
    deadline: Option<u64>,
    /// What it belongs to
    #[arg(long)]
    context: Option<String>,
    /// Thread inside the channel
    #[arg(long)]
    thread: Option<String>,
    /// What you call it
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Wait for the end; exit 7 when it has not come by then
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60")]
    wait: Option<u64>,
}

fn deadline(text: &str) -> Result<u64, String> {
    since::span(text).ok_or_else(|| "a span such as 90s, 10m or 2h".to_owned())
}

impl New {
    fn draft(&self) -> Result<Draft, CliError> {
        let target = address(&self.target)?.to_string();
        let said = [
            ("id", self.id.as_deref().map(Value::from)),
            ("skill", self.skill.as_deref().map(Value::from)),
            ("parent", self.parent.as_deref().map(Value::from)),
            ("context", self.context.as_deref().map(Value::from)),
            ("deadline_ms", self.deadline.map(Value::from)),
        ];
        let work: Map<String, Value> =
            said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        let mut draft = Draft::message(target, &self.text).with("work", work);
        if let Some(thread) = &self.thread {
            draft = draft.with("thread", thread.as_str());
        }
        Ok(draft)
    }

    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let draft = self.draft()?;
        let mut voice = cx.member().await?;
        if let Some(name) = &self.id {
            // With the name of a unit that is there, this would be a message inside it.
            let known = voice.call(async |http| http.work(name).await).await;
            if known.is_ok() {
                return Err(CliError::conflict(format!("you already call another work unit {name:?}"))
                    .next("`rialto work show NAME` shows it; leave --id out to have none"));
            }
        }
        let emitted = voice.call(async |http| http.emit(&draft, None).await).await.map_err(|error| {
            // Of a target nobody knows the usual line helps more.
            if self.parent.is_some() { explained(error) } else { error }
        })?;
        let opened = emitted.result.as_ref().and_then(|result| result.get("work"));
        let id = opened.and_then(|work| work.get("id")).and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(seconds) = self.wait else {
            let unit = voice.call(async |http| http.work(&id).await).await?;
            return cx.out.show(&unit, |_, _| id);
        };
        cx.out.hint(&id);
        let mut last = None;
        let end = watch::follow(&mut voice, &id, Some(Duration::from_secs(seconds)), true, |event| {
            last = Some(event.clone());
            Ok(())
        })
        .await;
        let mut unit = voice.call(async |http| http.work(&id).await).await?;
        let zone = cx.zone.clone();
        if let (Some(map), Some(last)) = (unit.as_object_mut(), &last) {
            map.insert("last".to_owned(), json!(last));
        }
        cx.out.show(&unit, |unit, paint| match &last {
            Some(last) => crate::render::work::line(last, &zone, paint),
            None => value::text_of(unit, "state", &zone),
        })?;
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::work::Work;
    use clap::Parser;

    fn draft(words: &[&str]) -> String {
        let mut line = vec!["rialto", "work", "new"];
        line.extend(words);
        let Command::Work(Work::New(new)) = Cli::try_parse_from(line).unwrap().command else { panic!("not new") };
        serde_json::to_string(&new.draft().unwrap()).unwrap()
    }

    #[test]
    fn a_wish_becomes_a_message_with_work() {
        assert_eq!(
            draft(&["bob", "please"]),
            r#"{"type":"workspace.message.posted","target":"agent:bob","payload":{"content":"please"},"metadata":{"work":{}}}"#
        );
        let all = draft(&[
            "core",
            "x",
            "--skill",
            "sum",
            "--parent",
            "w1",
            "--deadline",
            "10m",
            "--context",
            "c",
            "--id",
            "mine",
        ]);
        assert!(
            all.ends_with(
                r#""metadata":{"work":{"context":"c","deadline_ms":600000,"id":"mine","parent":"w1","skill":"sum"}}}"#
            ),
            "{all}"
        );
    }

    #[test]
    fn a_deadline_is_a_span() {
        assert_eq!(deadline("1h30m"), Ok(5_400_000));
        assert!(deadline("soon").is_err());
    }
}
