//! Conversations: threads inside channels, direct rooms of two members, and with whom a member speaks.

use super::is_off;
use crate::{Millis, Seq};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What threads and rooms have in common: how much there is, and how much of it is news.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConversationCounts {
    /// Position of the first event that is still there.
    pub first_seq: Option<Seq>,
    /// Position of the last event.
    pub last_seq: Option<Seq>,
    /// Events that are still there.
    pub message_count: u64,
    /// How many wrote; not said where nobody counted.
    pub participant_count: Option<usize>,
    /// Work in it that has not ended.
    pub open_work_count: usize,
    /// Events the viewer has not acked, up to a bound.
    pub unread: u64,
    /// Those among them that mention the viewer.
    pub mentions: u64,
}

/// The event a thread began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadRoot {
    /// Its id.
    pub root_id: String,
    /// What the thread is called.
    pub title: Option<String>,
    /// Who began it.
    pub opened_by: String,
    /// When.
    pub opened_at: Millis,
}

/// The last event of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LatestEvent {
    /// Its id.
    pub last_id: String,
    /// The beginning of what it says.
    pub last_message_preview: Option<String>,
    /// Who sent it.
    pub last_sender: String,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadView {
    /// Its id within the channel.
    pub thread: Box<str>,
    /// Address of its channel.
    pub channel: Option<String>,
    /// How much there is.
    #[serde(flatten)]
    pub counts: ConversationCounts,
    /// How it began, if that can still be read.
    #[serde(flatten)]
    pub root: Option<ThreadRoot>,
    /// How it ended so far, if that could be read.
    #[serde(flatten)]
    pub latest: Option<LatestEvent>,
    /// When its last event was committed, if that could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Millis>,
    /// Tells apart what stands at the same place of a listing; part of cursors only.
    #[serde(skip)]
    pub number: u32,
}

/// A direct room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RoomView {
    /// Its id.
    pub room: Box<str>,
    /// Address of the channel that scopes it.
    pub channel: String,
    /// Its two members.
    pub members: [Option<Box<str>>; 2],
    /// When it was opened.
    pub opened_at: Millis,
    /// How much there is.
    #[serde(flatten)]
    pub counts: ConversationCounts,
    /// Its last event, if that could be read.
    #[serde(flatten)]
    pub latest: Option<LatestEvent>,
    /// When its last event was committed; when it was opened, if there is none.
    pub last_activity_at: Millis,
    /// Tells apart what stands at the same place of a listing; part of cursors only.
    #[serde(skip)]
    pub number: u32,
}

/// A page of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadList {
    /// Newest activity first.
    pub threads: Vec<ThreadView>,
    /// There are more.
    pub has_more: bool,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of rooms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RoomList {
    /// Newest activity first.
    pub rooms: Vec<RoomView>,
    /// There are more.
    pub has_more: bool,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The last message of a direct conversation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LastMessage {
    /// `content` of its payload, whatever that is.
    pub content: Value,
    /// Who sent it.
    pub sender: String,
    /// When it was committed.
    pub timestamp: Millis,
}

/// Everything two members sent each other, in whichever room.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConversationView {
    /// The viewer and the other.
    pub agents: [Box<str>; 2],
    /// Direct events between them.
    pub message_count: u64,
    /// The last of them.
    pub last_message: LastMessage,
}

/// Direct conversations of a member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ConversationList {
    /// The liveliest first.
    pub conversations: Vec<ConversationView>,
    /// There are more.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    fn counts() -> ConversationCounts {
        ConversationCounts {
            first_seq: Some(1),
            last_seq: Some(9),
            message_count: 3,
            participant_count: Some(2),
            open_work_count: 1,
            unread: 2,
            mentions: 1,
        }
    }

    fn latest() -> LatestEvent {
        LatestEvent {
            last_id: "e9".to_owned(),
            last_message_preview: Some("done".to_owned()),
            last_sender: "agent:bob".to_owned(),
        }
    }

    #[test]
    fn a_thread_in_full() {
        let root = ThreadRoot {
            root_id: "e1".to_owned(),
            title: Some("Plan".to_owned()),
            opened_by: "agent:ann".to_owned(),
            opened_at: 1,
        };
        let thread = ThreadView {
            thread: "thread_plan".into(),
            channel: Some("channel/general".to_owned()),
            counts: counts(),
            root: Some(root),
            latest: Some(latest()),
            last_activity_at: Some(9),
            number: 5,
        };
        let json = r#"{
            "thread":"thread_plan","channel":"channel/general","first_seq":1,"last_seq":9,"message_count":3,
            "participant_count":2,"open_work_count":1,"unread":2,"mentions":1,"root_id":"e1","title":"Plan",
            "opened_by":"agent:ann","opened_at":1,"last_id":"e9","last_message_preview":"done","last_sender":"agent:bob",
            "last_activity_at":9}"#;
        check(&thread, json);
        let page = format!(r#"{{"threads":[{json}],"has_more":true,"next":"9.5"}}"#);
        check(&ThreadList { threads: vec![thread], has_more: true, next: Some("9.5".to_owned()) }, &page);
    }

    #[test]
    fn a_room_without_an_event() {
        let room = RoomView {
            room: "direct_1".into(),
            channel: "channel/general".to_owned(),
            members: [Some("agent:ann".into()), None],
            opened_at: 4,
            counts: ConversationCounts { first_seq: None, last_seq: None, ..counts() },
            latest: None,
            last_activity_at: 4,
            number: 0,
        };
        let json = r#"{
            "room":"direct_1","channel":"channel/general","members":["agent:ann",null],"opened_at":4,"first_seq":null,
            "last_seq":null,"message_count":3,"participant_count":2,"open_work_count":1,"unread":2,"mentions":1,
            "last_activity_at":4}"#;
        check(&room, json);
        check(
            &RoomView { latest: Some(latest()), ..room.clone() },
            &json.replacen('{', r#"{"last_id":"e9","last_message_preview":"done","last_sender":"agent:bob","#, 1),
        );
        check(
            &RoomList { rooms: vec![room], ..RoomList::default() },
            &format!(r#"{{"rooms":[{json}],"has_more":false}}"#),
        );
    }

    #[test]
    fn direct_conversations() {
        let last_message = LastMessage { content: "hi".into(), sender: "agent:bob".to_owned(), timestamp: 7 };
        let view =
            ConversationView { agents: ["agent:ann".into(), "agent:bob".into()], message_count: 2, last_message };
        let json = r#"{"conversations":[{"agents":["agent:ann","agent:bob"],"message_count":2,
            "last_message":{"content":"hi","sender":"agent:bob","timestamp":7}}],"has_more":true}"#;
        check(&ConversationList { conversations: vec![view], has_more: true }, json);
        check(&ConversationList::default(), r#"{"conversations":[]}"#);
    }
}
