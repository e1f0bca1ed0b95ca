//! `rialto channel …`: rooms of the network. Changes are events to `core`, so members learn of them.

use crate::context::{Context, Voice, address, channel};
use crate::exit::CliError;
use crate::render::table::table;
use crate::render::value;
use clap::{Args, Subcommand};
use rialto_client::Draft;
use serde_json::{Value, json};

/// Verbs of `channel`.
#[derive(Debug, Subcommand)]
pub(crate) enum Channel {
    /// Make a channel and take a seat in it
    Create(Create),
    /// List channels
    List,
    /// Show one channel
    Show(ChannelArg),
    /// Take a seat, or seat somebody
    Join(Seat),
    /// Give up a seat, or unseat somebody
    Leave(Seat),
    /// Keep your seat, but get no mail from a channel
    Mute(ChannelArg),
    /// Get mail from a channel again
    Unmute(ChannelArg),
    /// Delete a channel; its history is kept
    Delete(ChannelArg),
    /// List who is seated
    Members(ChannelArg),
    /// Change title, status, starred or master_agent, as the operator
    Set(Set),
}

/// Arguments of `channel create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Name; made up by the node when absent
    name: Option<String>,
    /// Title for people
    #[arg(long)]
    title: Option<String>,
    /// Only seated members see it
    #[arg(long)]
    private: bool,
    /// Members to seat from the start
    #[arg(long = "with", value_name = "ADDRESS", value_delimiter = ',')]
    participants: Vec<String>,
}

/// A channel.
#[derive(Debug, Args)]
pub(crate) struct ChannelArg {
    /// Channel name
    channel: String,
}

/// A channel and who is to sit in it.
#[derive(Debug, Args)]
pub(crate) struct Seat {
    /// Channel name
    channel: String,
    /// Somebody else than you
    #[arg(long, value_name = "ADDRESS")]
    agent: Option<String>,
}

/// Arguments of `channel set`.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Channel name
    channel: String,
    /// Such as title=Plans, starred=true or status=archived
    #[arg(value_name = "KEY=VALUE", required = true)]
    changes: Vec<String>,
}

impl Channel {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Channel::Create(create) => {
                let payload = create.payload()?;
                let result = change(cx, "network.channel.create", payload).await?;
                let zone = cx.zone.clone();
                cx.out.show(&result, |result, _| value::text_of(result, "channel", &zone))
            }
            Channel::List => list(cx).await,
            Channel::Show(which) => which.show(cx).await,
            Channel::Members(which) => which.members(cx).await,
            Channel::Join(seat) => seat.change(cx, "network.channel.join", "seated in").await,
            Channel::Leave(seat) => seat.change(cx, "network.channel.leave", "gone from").await,
            Channel::Set(set) => set.run(cx).await,
            Channel::Mute(which) => which.mute(cx, "mute", "muted").await,
            Channel::Unmute(which) => which.mute(cx, "unmute", "heard again").await,
            Channel::Delete(which) => {
                let channel = channel(&which.channel)?;
                let result = change(cx, "network.channel.delete", json!({ "channel": channel })).await?;
                cx.out.show(&result, |_, _| format!("{channel} is deleted"))
            }
        }
    }
}

impl Create {
    fn payload(self) -> Result<Value, CliError> {
        let mut payload = json!({});
        if let Some(map) = payload.as_object_mut() {
            if let Some(name) = &self.name {
                let address = channel(name)?;
                let bare = address.strip_prefix("channel/").unwrap_or(&address);
                map.insert("name".to_owned(), json!(bare));
            }
            if let Some(title) = self.title {
                map.insert("title".to_owned(), json!(title));
            }
            if self.private {
                map.insert("private".to_owned(), json!(true));
            }
            if !self.participants.is_empty() {
                let seated: Result<Vec<String>, CliError> =
                    self.participants.iter().map(|text| address(text).map(|a| a.to_string())).collect();
                map.insert("participants".to_owned(), json!(seated?));
            }
        }
        Ok(payload)
    }
}

impl Set {
    async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let address = channel(&self.channel)?;
        let name = address.strip_prefix("channel/").unwrap_or(&address);
        let changes = Value::Object(super::mods::settings(&self.changes)?);
        let (http, network) = cx.operator_of_network().await?;
        let changed = http.set_channel(&network, name, &changes).await?;
        cx.out.show(&changed, |_, _| format!("{address} is changed"))
    }
}

impl Seat {
    async fn change(self, cx: &mut Context, kind: &str, done: &str) -> Result<(), CliError> {
        let channel = channel(&self.channel)?;
        let mut payload = json!({ "channel": channel });
        let who = match &self.agent {
            Some(agent) => address(agent)?.to_string(),
            None => cx.speaker_address()?,
        };
        if let (Some(map), true) = (payload.as_object_mut(), self.agent.is_some()) {
            map.insert("agent".to_owned(), json!(who));
        }
        let result = change(cx, kind, payload).await?;
        cx.out.show(&result, |_, _| format!("{who} is {done} {channel}"))
    }
}

/// Emits a request to `core`; its result, or an empty object.
async fn change(cx: &mut Context, kind: &str, payload: Value) -> Result<Value, CliError> {
    let draft = Draft::new(kind, "core", payload);
    let mut voice = cx.member().await?;
    let emitted = voice.call(async |http| http.emit(&draft, None).await).await?;
    Ok(emitted.result.unwrap_or_else(|| json!({})))
}

/// Every channel the reader may know of.
async fn channels(voice: &mut Voice) -> Result<Vec<Value>, CliError> {
    let answer = voice.call(async |http| http.channels().await).await?;
    Ok(value::list(&answer, "channels").to_vec())
}

async fn list(cx: &mut Context) -> Result<(), CliError> {
    let mut voice = cx.reader().await?;
    let channels = channels(&mut voice).await?;
    let zone = cx.zone.clone();
    cx.out.show(&json!({ "channels": channels }), |_, _| {
        let row = |channel: &Value| {
            let seats = channel
                .get("participants")
                .and_then(Value::as_array)
                .map_or_else(|| "-".to_owned(), |p| p.len().to_string());
            let text = |name: &str| value::text_of(channel, name, &zone);
            vec![text("address"), text("title"), seats, text("status"), text("last_event_at")]
        };
        let rows: Vec<Vec<String>> = channels.iter().map(row).collect();
        table(&["address", "title", "seats", "status", "last event"], &rows)
    })
}

impl ChannelArg {
    async fn find(&self, cx: &mut Context) -> Result<Value, CliError> {
        let wanted = channel(&self.channel)?;
        let mut voice = cx.reader().await?;
        let found =
            channels(&mut voice).await?.into_iter().find(|channel| channel.get("address") == Some(&json!(wanted)));
        let missing =
            || CliError::not_found(format!("there is no {wanted}")).next("`rialto channel list` shows what there is");
        found.ok_or_else(missing)
    }

    async fn show(self, cx: &mut Context) -> Result<(), CliError> {
        let channel = self.find(cx).await?;
        let zone = cx.zone.clone();
        cx.out.show(&channel, |channel, _| value::lines(channel, &zone))
    }

    async fn mute(self, cx: &mut Context, verb: &str, done: &str) -> Result<(), CliError> {
        let channel = channel(&self.channel)?;
        let mut voice = cx.member().await?;
        let change = json!({ verb: channel });
        let me = voice.call(async |http| http.change_me(&change).await).await?;
        cx.out.show(&me, |_, _| format!("{channel} is {done}"))
    }

    async fn members(self, cx: &mut Context) -> Result<(), CliError> {
        let channel = self.find(cx).await?;
        let seated = channel.get("participants").cloned().unwrap_or_else(|| json!([]));
        cx.out.show(&json!({ "participants": seated }), |_, _| {
            let names: Vec<&str> = value::list(&seated, "").iter().filter_map(Value::as_str).collect();
            names.join("\n")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_to_create() {
        let create = Create {
            name: Some("channel/dev".into()),
            title: Some("Dev".into()),
            private: true,
            participants: vec!["bob".into(), "human:ana".into()],
        };
        assert_eq!(
            create.payload().unwrap(),
            json!({"name":"dev","title":"Dev","private":true,"participants":["agent:bob","human:ana"]})
        );
        let none = Create { name: None, title: None, private: false, participants: Vec::new() };
        assert_eq!(none.payload().unwrap(), json!({}));
        let bad = Create { name: Some("a/b".into()), title: None, private: false, participants: Vec::new() };
        assert_eq!(bad.payload().unwrap_err().exit, crate::exit::Exit::Usage);
    }
}
