//! The messages of the SDK's workspace, `thread.*`, and those of the network, `workspace.message.posted`, in one another's words.

use super::map;
use rialto_model::view::bare_name;
use rialto_model::{Event, EventType};
use serde_json::{Map, Value, json};

/// A reaction to a message, as it is stored and as it goes out: the network has no type of its own for it.
pub(super) const REACTION: &str = "thread.reaction.notification";

/// Members of a message's payload that the network says elsewhere, or differently.
const ELSEWHERE: [&str; 12] = [
    "action",
    "channel",
    "content",
    "mentioned_agent_id",
    "message_type",
    "metadata",
    "original_event_id",
    "relevant_agent_id",
    "reply_to_id",
    "sender_id",
    "source_id",
    "target_agent_id",
];

/// The text of an SDK message, and what its content says besides.
fn said(content: Option<&Value>) -> (String, Map<String, Value>) {
    match content {
        Some(Value::String(text)) => (text.clone(), Map::new()),
        Some(Value::Object(content)) => {
            let mut rest = content.clone();
            let text = rest.remove("text").and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
            (text, rest)
        }
        Some(_) | None => (String::new(), Map::new()),
    }
}

/// The payload of a `workspace.message.posted` that says what an SDK message says.
pub(super) fn message(payload: &Value) -> Value {
    let (text, data) = said(payload.get("content").or_else(|| payload.get("text")));
    let mut out: Map<String, Value> = payload.as_object().cloned().unwrap_or_default();
    out.retain(|name, value| !ELSEWHERE.contains(&name.as_str()) && name != "text" && !value.is_null());
    out.insert("content".into(), text.into());
    if !data.is_empty() {
        out.insert("data".into(), data.into());
    }
    let mentioned = payload.get("mentioned_agent_id").and_then(Value::as_str).filter(|name| !name.is_empty());
    if let Some(name) = mentioned {
        out.insert("mentions".into(), json!([name]));
    }
    out.into()
}

/// The content of a message of the network, as the SDK has it.
pub(super) fn content(payload: &Map<String, Value>) -> Value {
    let mut content = payload.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = match payload.get("content") {
        Some(Value::String(text)) => text.as_str(),
        _ => "",
    };
    content.insert("text".into(), text.into());
    content.into()
}

/// Whom a message mentions; `me` first, so that the SDK sees that it is meant.
fn mentioned<'p>(payload: &'p Map<String, Value>, me: &'p str) -> Option<&'p str> {
    let names = || payload.get("mentions").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let means_me = names().any(|name| bare_name(name) == me);
    if means_me { Some(me) } else { names().next().map(bare_name) }
}

/// What `me` is told of an event that is a message; nothing where it is none.
pub(super) fn notification(event: &Event, metadata: &Map<String, Value>, me: &str) -> Option<(&'static str, Value)> {
    if event.event_type() != EventType::MessagePosted {
        return None;
    }
    let payload: Map<String, Value> = serde_json::from_str(event.payload()).ok()?;
    let reply_to = metadata.get("in_reply_to").and_then(Value::as_str);
    let mut out = payload.clone();
    out.remove("data");
    out.insert("content".into(), content(&payload));
    out.insert("sender_id".into(), map::shown(event.source()).into());
    out.insert("message_id".into(), event.id().into());
    out.insert("original_event_id".into(), event.id().into());
    out.insert("timestamp".into(), (event.timestamp / 1000).into());
    if let Some(reply_to) = reply_to {
        out.insert("reply_to_id".into(), reply_to.into());
        out.insert("original_message_id".into(), reply_to.into());
        out.insert("thread_level".into(), 1.into());
    }
    let Some(channel) = event.target().strip_prefix("channel/") else {
        out.insert("message_type".into(), "direct_message".into());
        out.insert("target_agent_id".into(), map::shown(event.target()).into());
        return Some(("thread.direct_message.notification", out.into()));
    };
    out.insert("channel".into(), channel.into());
    if let Some(name) = mentioned(&payload, me) {
        out.insert("mentioned_agent_id".into(), name.into());
    }
    if reply_to.is_some() {
        out.insert("message_type".into(), "reply_message".into());
        return Some(("thread.reply.notification", out.into()));
    }
    out.insert("message_type".into(), "channel_message".into());
    Some(("thread.channel_message.notification", out.into()))
}

/// A message as the SDK reads it in a history.
pub(super) fn recalled(event: &Event, reactions: Value) -> Value {
    let payload: Map<String, Value> = serde_json::from_str(event.payload()).unwrap_or_default();
    let metadata: Map<String, Value> = serde_json::from_str(event.metadata()).unwrap_or_default();
    let reply_to = metadata.get("in_reply_to").filter(|id| id.is_string());
    let channel = event.target().strip_prefix("channel/");
    let sort = match (channel, reply_to) {
        (None, _) => "direct_message",
        (Some(_), Some(_)) => "reply_message",
        (Some(_), None) => "channel_message",
    };
    let content = content(&payload);
    json!({
        "message_id": event.id(), "event_id": event.id(), "sender_id": map::shown(event.source()),
        "source_id": map::shown(event.source()), "timestamp": event.timestamp / 1000,
        "payload": { "content": content }, "content": content, "channel": channel,
        "target_agent_id": if channel.is_none() { json!(map::shown(event.target())) } else { Value::Null },
        "message_type": sort, "reply_to_id": reply_to, "thread_level": u8::from(reply_to.is_some()),
        "quoted_message_id": payload.get("quoted_message_id"), "quoted_text": payload.get("quoted_text"),
        "thread_info": null, "reactions": reactions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_text_whom_it_mentions_and_what_else_it_says() {
        let sent = json!({
            "message_type": "channel_message", "channel": "general", "content": { "text": "hi", "mood": "good" },
            "mentioned_agent_id": "echo", "reply_to_id": "e0", "quoted_text": "what", "attachment_file_id": null,
        });
        let stored = message(&sent);
        assert_eq!(
            stored,
            json!({ "content": "hi", "data": { "mood": "good" }, "mentions": ["echo"], "quoted_text": "what" })
        );
        assert_eq!(content(stored.as_object().unwrap()), json!({ "text": "hi", "mood": "good" }));
        assert_eq!(message(&json!({ "text": "hi" })), json!({ "content": "hi" }));
    }
}
