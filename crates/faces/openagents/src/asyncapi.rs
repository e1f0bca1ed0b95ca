//! The AsyncAPI document of a network: what goes over its WebSockets, server-sent events and long polls, described by the
//! types of the payloads.
//!
//! It is seen from the node: what it receives members send, what it sends members receive.

use crate::api::answers::{EventBody, EventPage, WorkEntry};
use crate::api::frames::*;
use crate::api::queries::HistoryFilter;
use crate::api::requests::{AckPayload, EventDraft, JoinPayload, LeavePayload, ToolInput};
use rialto_carrier::describe::Schemas;
use rialto_model::EventType;
use rialto_model::error::ErrorView;
use rialto_model::payload::{
    Announcement, ChannelSeat, ModAnswer, NewChannel, NewResource, Removal, ResourceChanges, ResourceFilter,
    ResourceName, ResourceRange, RosterFilter, ServedMod, WorkAnswer, WorkArtifact, WorkCancel, WorkUpdate,
};
use rialto_model::view::{ResourceList, Roster, WorkView};
use serde_json::{Map, Value, json};

/// Gives the schema of a payload.
type Payload = fn(&mut Schemas) -> Value;

/// Events that members send to the network, with what their payloads hold. Other types are theirs to invent.
const RECEIVED: &[(EventType<'static>, Payload)] = &[
    (EventType::AgentJoin, Schemas::read::<JoinPayload>),
    (EventType::AgentLeave, Schemas::read::<LeavePayload>),
    (EventType::AgentDiscover, Schemas::read::<RosterFilter>),
    (EventType::AgentAnnounce, Schemas::read::<Announcement>),
    (EventType::AgentRemove, Schemas::read::<Removal>),
    (EventType::ChannelCreate, Schemas::read::<NewChannel>),
    (EventType::ChannelDelete, Schemas::read::<ChannelSeat>),
    (EventType::ChannelJoin, Schemas::read::<ChannelSeat>),
    (EventType::ChannelLeave, Schemas::read::<ChannelSeat>),
    (EventType::ResourceRegister, Schemas::read::<NewResource>),
    (EventType::ResourceUnregister, Schemas::read::<ResourceName>),
    (EventType::ResourceDiscover, Schemas::read::<ResourceFilter>),
    (EventType::ResourceRead, Schemas::read::<ResourceRange>),
    (EventType::ResourceUpdate, Schemas::read::<ResourceChanges>),
    (EventType::ResourceInvoke, Schemas::read::<ToolInput>),
    (EventType::ResourceInvokeResult, Schemas::read::<ToolInput>),
    (EventType::ModServe, Schemas::read::<ServedMod>),
    (EventType::ModVerdict, Schemas::read::<ModAnswer>),
    (EventType::WorkUpdate, Schemas::read::<WorkUpdate>),
    (EventType::WorkArtifact, Schemas::read::<WorkArtifact>),
    (EventType::WorkAnswer, Schemas::read::<WorkAnswer>),
    (EventType::WorkCancel, Schemas::read::<WorkCancel>),
    (EventType::Ping, Schemas::read::<PingPayload>),
    (EventType::EventAck, Schemas::read::<AckPayload>),
    (EventType::EventsQuery, Schemas::read::<HistoryFilter>),
];

/// Events that the network itself sends.
const SENT: &[(EventType<'static>, Payload)] = &[
    (EventType::AgentDiscoverResponse, Schemas::written::<Roster>),
    (EventType::ResourceDiscoverResponse, Schemas::written::<ResourceList>),
    (EventType::ResourceReadResponse, Schemas::written::<ReadResponse>),
    (EventType::Pong, Schemas::written::<PongPayload>),
    (EventType::EventAck, Schemas::written::<AckedFrame>),
    (EventType::EventError, Schemas::written::<ErrorView>),
    (EventType::EventsResponse, Schemas::written::<EventPage>),
    (EventType::MemberStatus, Schemas::written::<MemberStatusSignal>),
    (EventType::NetworkStatus, Schemas::written::<NetworkStatusNews>),
    (EventType::ModCheck, Schemas::written::<CheckPayload>),
    (EventType::ResourceChanged, Schemas::written::<ResourceChangedNews>),
    (EventType::ModChanged, Schemas::written::<ModChangedNews>),
    (EventType::DeliveryDead, Schemas::written::<DeadDeliveryNews>),
];

/// The messages of a document, by name, and the schemas that they refer to.
#[derive(Debug)]
struct Messages {
    schemas: Schemas,
    all: Map<String, Value>,
}

impl Messages {
    /// Adds a message; gives its name.
    fn add(&mut self, name: String, title: &str, payload: Value) -> String {
        let message = json!({ "name": name, "title": title, "contentType": "application/json", "payload": payload });
        self.all.insert(name.clone(), message);
        name
    }

    /// Adds an event of a type: the frame around it, and its payload.
    fn event(&mut self, prefix: &str, frame: &Value, (kind, payload): (EventType<'_>, Payload)) -> String {
        let payload = payload(&mut self.schemas);
        let inside =
            json!({ "type": "object", "properties": { "type": { "const": kind.as_str() }, "payload": payload } });
        self.add(format!("{prefix}.{}", kind.as_str()), kind.as_str(), json!({ "allOf": [frame, inside] }))
    }
}

/// Messages of a channel, by the names they have in the document.
fn messages(names: &[String]) -> Value {
    let reference = |name: &String| (name.clone(), json!({ "$ref": format!("#/components/messages/{name}") }));
    Value::Object(names.iter().map(reference).collect())
}

/// An operation on a channel, with some of its messages.
fn operation(action: &str, channel: &str, names: &[String], summary: &str) -> Value {
    let list: Vec<Value> =
        names.iter().map(|name| json!({ "$ref": format!("#/channels/{channel}/messages/{name}") })).collect();
    json!({ "action": action, "channel": { "$ref": format!("#/channels/{channel}") }, "messages": list, "summary": summary })
}

/// The document of a network, for clients that reach the node by this URL.
pub(crate) fn document(base: &str, network: &str) -> Value {
    let (scheme, host) = base.split_once("://").unwrap_or(("http", base));
    let ws = if scheme == "https" { "wss" } else { "ws" };
    let mut out = Messages { schemas: Schemas::draft07(), all: Map::new() };
    let draft = out.schemas.read::<EventDraft>();
    let event = out.schemas.written::<EventBody>();

    let mut received: Vec<String> = RECEIVED.iter().map(|row| out.event("from-member", &draft, *row)).collect();
    received.push(out.add("from-member.any".to_owned(), "An event of any other type", draft));
    let mut sent: Vec<String> = SENT.iter().map(|row| out.event("from-node", &event, *row)).collect();
    sent.push(out.add("from-node.delivery".to_owned(), "An event that somebody sent", event.clone()));

    let delivery = out.add("sse.message".to_owned(), "event: message (or the type, with ?events=typed)", event);
    let control = out.schemas.written::<StreamControl>();
    let control =
        out.add("sse.control".to_owned(), "event: control, the last one of a stream that is given up", control);
    let unit = out.schemas.written::<WorkView>();
    let snapshot = out.add("work.snapshot".to_owned(), "event: snapshot, the unit as it is, first", unit);
    let entry = out.schemas.written::<WorkEntry>();
    let entry = out.add("work.event".to_owned(), "event: work, one event of the unit", entry);
    let page = out.schemas.written::<EventPage>();
    let page = out.add("poll.page".to_owned(), "A page of events, in `data` of the answer", page);

    let frames = [received.clone(), sent.clone()].concat();
    let follow = [delivery, control.clone()];
    let work = [snapshot, entry, control];
    let poll = [page];
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": format!("Rialto network {network}"), "version": env!("CARGO_PKG_VERSION"),
            "description": "What goes over the streams of a network, seen from the node: it receives what members send.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "websocket": { "host": host, "protocol": ws, "description": "The stream conversation, one event in each text frame" },
            "http": { "host": host, "protocol": scheme, "description": "Server-sent events and long polls" },
            "grpc": { "host": host, "protocol": "grpc", "description": "The same conversation; its messages are described by reflection" },
        },
        "channels": {
            "websocket": {
                "address": format!("/ws/{network}"), "messages": messages(&frames), "servers": [{ "$ref": "#/servers/websocket" }],
                "description": "A join is the first event, unless the connection shows a session. The same events, one on each line, are what an agent says and hears that the node starts itself.",
            },
            "events": {
                "address": format!("/v1/ws/{network}/events/stream"), "messages": messages(&follow), "servers": [{ "$ref": "#/servers/http" }],
                "description": "Server-sent events; `Last-Event-ID` goes on after an event.",
            },
            "work": {
                "address": format!("/v1/ws/{network}/work/{{work}}/stream"), "messages": messages(&work), "servers": [{ "$ref": "#/servers/http" }],
                "parameters": { "work": { "description": "The id of a work unit, or the caller's own name for it" } },
                "description": "Server-sent events of one work unit, to its end.",
            },
            "poll": {
                "address": format!("/v1/ws/{network}/events"), "messages": messages(&poll), "servers": [{ "$ref": "#/servers/http" }],
                "description": "A long poll: `?after=…&wait=60` answers as soon as there is something.",
            },
        },
        "operations": {
            "receiveFrames": operation("receive", "websocket", &received, "Takes what a member sends"),
            "sendFrames": operation("send", "websocket", &sent, "Answers, and delivers what others send"),
            "sendEvents": operation("send", "events", &follow, "Follows an inbox or the history"),
            "sendWork": operation("send", "work", &work, "Follows a work unit"),
            "sendPage": operation("send", "poll", &poll, "Gives what has come"),
        },
        "components": { "messages": out.all, "schemas": out.schemas.into_definitions() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_messages_and_every_message_a_payload() {
        let document = document("https://node.example", "n1");
        assert_eq!(document["servers"]["websocket"]["protocol"], "wss");
        assert_eq!(document["channels"]["websocket"]["address"], "/ws/n1");
        let messages = document["components"]["messages"].as_object().unwrap();
        assert_eq!(messages.len(), RECEIVED.len() + SENT.len() + 7);
        assert!(messages.values().all(|message| message["payload"].is_object()));
        for (_, channel) in document["channels"].as_object().unwrap() {
            for name in channel["messages"].as_object().unwrap().keys() {
                assert!(messages.contains_key(name), "{name}");
            }
        }
    }
}
