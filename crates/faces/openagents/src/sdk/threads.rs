//! `thread.*`: the workspace of the SDK, on which its worker agents and framework runners stand. What is posted becomes messages of the
//! network; what is asked for is answered at once from its history.

use super::map;
use super::ops::{SdkTaken, emit};
use super::wire::SdkEvent;
use super::words::{self, REACTION};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rialto_carrier::unread;
use rialto_model::view::bare_name;
use rialto_model::{ErrorCode, EventType, Fault, limits};
use rialto_node::{EventRecord, Filter, NewFile, Query, Session, View};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Messages that a history is asked for if it is not said how many.
const HISTORY_DEFAULT: usize = 50;

/// Does what a `thread.*` event asks for; nothing where it is a plain event of somebody's own.
pub(super) async fn take(session: &Session, word: &str, event: &SdkEvent) -> Result<Option<SdkTaken>, Fault> {
    let said = ThreadWish::of(event);
    let taken = match word {
        "channel_message.post" | "channel_message.send" => post(session, event, &said, None).await?,
        "reply.post" | "reply.sent" => {
            let answers = said.text("reply_to_id")?.to_owned();
            post(session, event, &said, Some(answers)).await?
        }
        "direct_message.send" => direct(session, event, &said).await?,
        "reaction.add" => react(session, event, &said, "add").await?,
        "reaction.remove" => react(session, event, &said, "remove").await?,
        "reaction.toggle" => react(session, event, &said, "toggle").await?,
        "reaction" => react(session, event, &said, said.maybe("action").unwrap_or("add")).await?,
        "channel_messages.retrieve" => answered(channel_history(session, event, &said).await?),
        "direct_messages.retrieve" => answered(direct_history(session, &said).await?),
        "channels.list" | "channels.info" | "channel_info" => answered(channels(session).await?),
        "file.upload" | "file_upload" => answered(upload(session, &said).await?),
        _ => return Ok(None),
    };
    Ok(Some(taken))
}

fn answered(data: Value) -> SdkTaken {
    SdkTaken { data: Some(data), ..SdkTaken::default() }
}

/// What an event asks for. Some clients put the whole of an inner event into the payload.
struct ThreadWish(Value);

impl ThreadWish {
    fn of(event: &SdkEvent) -> ThreadWish {
        let mut payload = event.payload();
        let inner =
            payload.get("payload").filter(|inner| inner.is_object() && payload.get("event_name").is_some()).cloned();
        ThreadWish(inner.unwrap_or_else(|| payload.take()))
    }

    fn maybe(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn text(&self, name: &str) -> Result<&str, Fault> {
        let missing = || Fault::new(ErrorCode::InvalidPayload, format!("payload.{name} is required"));
        self.maybe(name).ok_or_else(|| missing().field(&format!("payload.{name}")))
    }

    /// How many, within what one answer holds.
    fn number(&self, name: &str, default: usize) -> Result<usize, Fault> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else { return Ok(default) };
        let whole = |float: f64| (float.fract() == 0.0 && (0.0..1e6).contains(&float)).then_some(float);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and within its bounds")]
        let number = value.as_f64().and_then(whole).map(|float| float as usize);
        number.filter(|n| *n <= limits::PAGE_EVENTS_MAX).ok_or_else(|| {
            let text = format!("{name} is 0 to {}", limits::PAGE_EVENTS_MAX);
            Fault::new(ErrorCode::InvalidArgument, text).field(&format!("payload.{name}"))
        })
    }

    /// The channel that is meant, by the payload or else by the event's target.
    fn channel(&self, event: &SdkEvent) -> Result<String, Fault> {
        let target = event.target_agent_id.as_deref().and_then(|target| target.strip_prefix("channel:"));
        match self.maybe("channel").or(target) {
            Some(name) => Ok(map::channel(name)),
            None => self.text("channel").map(map::channel),
        }
    }
}

/// Says something, and tells its sender what it is known by.
async fn say(
    session: &Session,
    event: &SdkEvent,
    target: String,
    said: &ThreadWish,
    answers: Option<String>,
) -> Result<SdkTaken, Fault> {
    let payload = map::raw(&words::message(&said.0))?;
    let more = answers.map(|id| ("in_reply_to".to_owned(), Value::String(id)));
    let mut frame = event.frame(EventType::MessagePosted.as_str(), target, payload, more)?;
    // A message goes to its channel or its addressee, whatever the client's default says.
    frame.visibility = None;
    let accepted = emit(session, &frame).await?.result?;
    let id = accepted.event_id().to_owned();
    let data = json!({ "event_name": event.event_name, "event_id": id, "message_id": id });
    Ok(SdkTaken { id: Some(id), data: Some(data), handover: None })
}

async fn post(
    session: &Session,
    event: &SdkEvent,
    said: &ThreadWish,
    answers: Option<String>,
) -> Result<SdkTaken, Fault> {
    let answers = answers.or_else(|| said.maybe("reply_to_id").map(str::to_owned));
    // An answer goes where the question stood, also where only that is said.
    let target = match (said.channel(event), &answers) {
        (Ok(channel), _) => channel,
        (Err(fault), None) => return Err(fault),
        (Err(_), Some(id)) => counterpart(session, message(session, id).await?.as_ref()).await?,
    };
    say(session, event, target, said, answers).await
}

async fn direct(session: &Session, event: &SdkEvent, said: &ThreadWish) -> Result<SdkTaken, Fault> {
    let target = match (said.maybe("target_agent_id"), event.target_agent_id.as_deref()) {
        (Some(name), _) | (None, Some(name)) if !name.is_empty() => map::target(name),
        _ => return said.text("target_agent_id").map(|_| SdkTaken::default()),
    };
    say(session, event, target, said, said.maybe("reply_to_id").map(str::to_owned)).await
}

/// A message by its id, if the caller may see it.
async fn message(session: &Session, id: &str) -> Result<Arc<EventRecord>, Fault> {
    // Who may not read learns nothing of what there is.
    session.me().await?;
    let unknown = || Fault::new(ErrorCode::UnknownTarget, format!("there is no message {id:?}"));
    let seq = match session.cursor(id, true).await? {
        Some(seq) if seq > 0 => seq,
        Some(_) | None => return Err(unknown()),
    };
    let query =
        Query { after: Some(format!("seq:{}", seq - 1)), limit: Some(1), view: Some(View::Log), ..Query::default() };
    let page = unread::page(session.query(&query)).await?;
    page.events.into_iter().next().filter(|record| record.event.id() == id).ok_or_else(unknown)
}

/// Where an answer to a message goes: to its channel, or to the other one of the two.
async fn counterpart(session: &Session, message: &EventRecord) -> Result<String, Fault> {
    let (source, target) = (message.event.source(), message.event.target());
    if target.starts_with("channel/") {
        return Ok(target.to_owned());
    }
    let me = session.me().await?.member.address;
    Ok(if *source == *me { target } else { source }.to_owned())
}

/// Puts a reaction to a message, or takes it back.
async fn react(session: &Session, event: &SdkEvent, said: &ThreadWish, action: &str) -> Result<SdkTaken, Fault> {
    let (id, kind) = (said.text("target_message_id")?, said.text("reaction_type")?);
    if kind.chars().count() > limits::SDK_REACTION_CHARS_MAX {
        let text = format!("a reaction is at most {} characters", limits::SDK_REACTION_CHARS_MAX);
        return Err(Fault::new(ErrorCode::InvalidPayload, text).field("payload.reaction_type"));
    }
    let about = message(session, id).await?;
    let target = counterpart(session, &about).await?;
    let me = session.me().await?.member.address;
    let before = reactions(session, &about.event).await?.remove(id).unwrap_or_default();
    let mine = before.get(kind).is_some_and(|who| who.contains(me.as_ref()));
    let action = match action {
        "add" => "add",
        "remove" => "remove",
        "toggle" if mine => "remove",
        "toggle" => "add",
        other => {
            return Err(Fault::new(
                ErrorCode::InvalidPayload,
                format!("a reaction is added or removed, not {other:?}"),
            ));
        }
    };
    let changes = (action == "add") != mine;
    let total = before.get(kind).map_or(0, BTreeSet::len);
    let total = if !changes {
        total
    } else if action == "add" {
        total + 1
    } else {
        total.saturating_sub(1)
    };
    let mut taken = SdkTaken::default();
    if changes {
        let name = bare_name(&me);
        let payload = json!({
            "target_message_id": id, "reaction_type": kind, "reacting_agent": name, "total_reactions": total,
            "action": if action == "add" { "added" } else { "removed" },
            "reaction": { "target_message_id": id, "sender_id": name, "reaction_type": kind, "action": action },
        });
        let more = [("in_reply_to".to_owned(), Value::String(id.to_owned()))];
        let mut frame = event.frame(REACTION, target, map::raw(&payload)?, more)?;
        frame.visibility = None;
        taken.id = Some(emit(session, &frame).await?.result?.event_id().to_owned());
    }
    taken.data = Some(json!({
        "success": changes, "target_message_id": id, "reaction_type": kind, "action_taken": action,
        "total_reactions": total,
    }));
    Ok(taken)
}

/// Who reacted, by message and reaction.
type Reactions = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The reactions in the conversation that an event is in, as far as the newest of them go that fit into one page.
async fn reactions(session: &Session, about: &rialto_model::Event) -> Result<Reactions, Fault> {
    let mut filter = Filter { kind: Some(REACTION.to_owned()), descending: true, ..Filter::default() };
    match about.target().strip_prefix("channel/") {
        Some(channel) => filter.channel = Some(channel.to_owned()),
        None => filter.conversation = Some((about.source().to_owned(), about.target().to_owned())),
    }
    collected(session, filter).await
}

async fn collected(session: &Session, filter: Filter) -> Result<Reactions, Fault> {
    let limit = i64::try_from(limits::PAGE_EVENTS_MAX).ok();
    let query = Query { view: Some(View::Log), limit, filter, ..Query::default() };
    let page = unread::page(session.query(&query)).await?;
    let mut all = Reactions::new();
    for record in page.events.iter().rev() {
        let said: Map<String, Value> = serde_json::from_str(record.event.payload()).unwrap_or_default();
        let text = |name: &str| said.get(name).and_then(Value::as_str);
        let (Some(id), Some(kind)) = (text("target_message_id"), text("reaction_type")) else { continue };
        let who = all.entry(id.to_owned()).or_default().entry(kind.to_owned()).or_default();
        match text("action") {
            Some("removed") => who.remove(record.event.source()),
            _ => who.insert(record.event.source().to_owned()),
        };
    }
    Ok(all)
}

/// The newest messages of a conversation behind an offset, the newest first, and whether there are more.
async fn history(session: &Session, filter: Filter, said: &ThreadWish) -> Result<(Vec<Value>, Value), Fault> {
    let (limit, offset) = (said.number("limit", HISTORY_DEFAULT)?, said.number("offset", 0)?);
    let wanted = limit.saturating_add(offset).clamp(1, limits::PAGE_EVENTS_MAX);
    let reacted = Filter { kind: Some(REACTION.to_owned()), descending: true, ..filter.clone() };
    let filter = Filter { kind: Some(EventType::MessagePosted.as_str().to_owned()), descending: true, ..filter };
    let query = Query { view: Some(View::Log), limit: i64::try_from(wanted).ok(), filter, ..Query::default() };
    let page = unread::page(session.query(&query)).await?;
    let reactions = collected(session, reacted).await?;
    let messages: Vec<Value> = page
        .events
        .iter()
        .skip(offset)
        .take(limit)
        .map(|record| {
            let counts: Map<String, Value> = reactions
                .get(record.event.id())
                .into_iter()
                .flatten()
                .filter(|(_, who)| !who.is_empty())
                .map(|(kind, who)| (kind.clone(), who.len().into()))
                .collect();
            words::recalled(&record.event, counts.into())
        })
        .collect();
    let counted = json!({
        "success": true, "total_count": page.events.len(), "offset": offset, "limit": limit, "has_more": page.has_more,
    });
    Ok((messages, counted))
}

fn with(counted: Value, more: Value) -> Value {
    let (Value::Object(mut whole), Value::Object(more)) = (counted, more) else { return Value::Null };
    whole.extend(more);
    whole.into()
}

async fn channel_history(session: &Session, event: &SdkEvent, said: &ThreadWish) -> Result<Value, Fault> {
    let address = said.channel(event)?;
    let name = address.trim_start_matches("channel/");
    // A channel that is not there, or is not to be seen, is no empty one.
    session.channel(name).await?;
    let filter = Filter { channel: Some(name.to_owned()), ..Filter::default() };
    let (messages, counted) = history(session, filter, said).await?;
    Ok(with(counted, json!({ "channel": name, "messages": messages })))
}

async fn direct_history(session: &Session, said: &ThreadWish) -> Result<Value, Fault> {
    let name = said.text("target_agent_id")?;
    let me = session.me().await?.member.address;
    let filter = Filter { conversation: Some((me.to_string(), map::target(name))), ..Filter::default() };
    let (mut messages, counted) = history(session, filter, said).await?;
    messages.reverse();
    Ok(with(counted, json!({ "target_agent_id": name, "messages": messages })))
}

async fn channels(session: &Session) -> Result<Value, Fault> {
    let list = session.channels(None, limits::LIST_ROWS_MAX).await?;
    let entry = |channel: &rialto_model::view::ChannelView| {
        json!({
            "name": channel.name, "description": channel.title, "message_count": channel.event_count,
            "agents": map::names(&channel.participants), "agent_count": channel.participants.len(),
        })
    };
    let channels: Vec<Value> = list.channels.iter().map(entry).collect();
    Ok(json!({ "success": true, "channels": channels, "has_more": list.has_more }))
}

async fn upload(session: &Session, said: &ThreadWish) -> Result<Value, Fault> {
    let filename = said.text("filename")?;
    let not_base64 =
        |_| Fault::new(ErrorCode::InvalidPayload, "payload.file_content is base64").field("payload.file_content");
    let bytes = STANDARD.decode(said.text("file_content")?).map_err(not_base64)?;
    let mut upload = session.begin_file().await?;
    upload.write(&bytes).await.map_err(Fault::from)?;
    let file = NewFile {
        name: filename.to_owned(),
        content_type: said.maybe("mime_type").map(str::to_owned),
        channel: said.maybe("channel").map(|name| name.trim_start_matches('#').to_owned()),
    };
    let kept = session.keep_file(upload, &file).await?;
    Ok(
        json!({ "success": true, "file_id": kept.id, "file_uuid": kept.id, "filename": kept.filename, "size": kept.size }),
    )
}
