//! `rialto work new`: asks for work, and waits for its end if told to.

use super::{explained, watch};
use crate::context::{Context, address};
use crate::exit::CliError;
use crate::render::value;
use crate::since;
use clap::Args;
use rialto_client::WorkOrder;
use serde_json::json;
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
    /// What you call it: the same again by the same name is the same unit
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
    fn order(&self) -> Result<WorkOrder, CliError> {
        Ok(WorkOrder {
            target: address(&self.target)?.to_string(),
            content: self.text.clone(),
            name: self.id.clone(),
            thread: self.thread.clone(),
            skill: self.skill.clone(),
            parent: self.parent.clone(),
            context: self.context.clone(),
            deadline_ms: self.deadline,
        })
    }

    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let order = self.order()?;
        let mut voice = cx.member().await?;
        let opened = voice.call(async |http| http.open_work(&order).await).await.map_err(|error| {
            // Of a target nobody knows the usual line helps more.
            match error.code.as_deref() {
                Some("already_exists") => error.next("`rialto work show NAME` shows it; leave --id out to have none"),
                Some(_) | None if self.parent.is_some() => explained(error),
                Some(_) | None => error,
            }
        })?;
        if let (true, Some(name)) = (opened.duplicate, &self.id) {
            cx.out.hint(&format!(
                "you asked for {name:?} before, it is {}; take another --id for new work",
                opened.state
            ));
        }
        let id = opened.id;
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

    fn order(words: &[&str]) -> String {
        let mut line = vec!["rialto", "work", "new"];
        line.extend(words);
        let Command::Work(Work::New(new)) = Cli::try_parse_from(line).unwrap().command else { panic!("not new") };
        serde_json::to_string(&new.order().unwrap()).unwrap()
    }

    #[test]
    fn what_is_asked_for_becomes_an_order() {
        assert_eq!(order(&["bob", "please"]), r#"{"target":"agent:bob","content":"please"}"#);
        let words = "core x --skill sum --parent w1 --deadline 10m --context c --id mine --thread t";
        assert_eq!(
            order(&words.split(' ').collect::<Vec<_>>()),
            r#"{"target":"core","content":"x","name":"mine","thread":"t","skill":"sum","parent":"w1","context":"c","deadline_ms":600000}"#
        );
    }

    #[test]
    fn a_deadline_is_a_span() {
        assert_eq!(deadline("1h30m"), Ok(5_400_000));
        assert!(deadline("soon").is_err());
    }
}
