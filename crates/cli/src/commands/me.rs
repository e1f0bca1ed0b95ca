//! `rialto me …`: what a member decides about itself.

use crate::context::Context;
use crate::exit::CliError;
use crate::render::value;
use crate::since;
use clap::Subcommand;
use serde_json::{Value, json};

/// Verbs of `me`.
#[derive(Debug, Subcommand)]
pub(crate) enum Me {
    /// Show who you are, what you mute and what waits for you
    Show,
    /// Let your mail wait: on, off, or for a while
    Dnd {
        /// on, off, or a span such as 2h
        #[arg(value_name = "on|off|SPAN", value_parser = dnd)]
        how: Value,
    },
    /// Take another name; mail, seats and work stay yours
    Rename {
        /// The new name
        name: String,
    },
}

/// `on`, `off` or a span, as the call wants it.
fn dnd(text: &str) -> Result<Value, String> {
    match text {
        "on" => Ok(json!(true)),
        "off" => Ok(json!(false)),
        span => match since::span(span) {
            Some(ms) if ms > 0 => Ok(json!(ms)),
            Some(_) | None => Err(format!("{text:?} is neither on, off, nor a span (30m, 2h, 1d)")),
        },
    }
}

impl Me {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let zone = cx.zone.clone();
        let mut voice = cx.member().await?;
        match self {
            Me::Show => {
                let me = voice.call(async |http| http.me().await).await?;
                cx.out.show(&me, |me, _| value::lines(me, &zone))
            }
            Me::Dnd { how } => {
                let change = json!({ "dnd": how });
                let me = voice.call(async |http| http.change_me(&change).await).await?;
                cx.out.show(&me, |me, _| match (me.get("dnd"), me.get("dnd_until")) {
                    (Some(Value::Bool(true)), Some(_)) => {
                        format!("mail waits until {}", value::text_of(me, "dnd_until", &zone))
                    }
                    (Some(Value::Bool(true)), None) => "mail waits until `rialto me dnd off`".to_owned(),
                    (Some(_) | None, _) => "mail comes as it is sent".to_owned(),
                })
            }
            Me::Rename { name } => {
                let change = json!({ "name": name });
                let me = voice.call(async |http| http.change_me(&change).await).await?;
                if let Some(address) = me.get("address").and_then(Value::as_str) {
                    voice.renamed(address)?;
                }
                cx.out.show(&me, |me, _| format!("you are {}", value::text_of(me, "address", &zone)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_mail_waits() {
        for (text, value) in
            [("on", json!(true)), ("off", json!(false)), ("2h", json!(7_200_000)), ("1h30m", json!(5_400_000))]
        {
            assert_eq!(dnd(text), Ok(value), "{text}");
        }
        for text in ["", "maybe", "0s", "2 h"] {
            assert!(dnd(text).is_err(), "{text}");
        }
    }
}
