//! Channels as listings show them.

use super::is_off;
use crate::Millis;
use crate::channel::ChannelStatus;
use schemars::JsonSchema;
use serde::Serialize;

/// A channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelView {
    /// Its address.
    pub address: String,
    /// Its name.
    pub name: Box<str>,
    /// What people call it.
    pub title: String,
    /// Whether only those who sit in it know of it.
    pub private: bool,
    /// Address of who coordinates it.
    pub master: Option<Box<str>>,
    /// Addresses of those who sit in it, in the order of seating.
    pub participants: Vec<Box<str>>,
    /// Address of who made it, if that was a member.
    pub created_by: Option<Box<str>>,
    /// When it was made.
    pub created_at: Millis,
    /// Whether it is in use.
    pub status: ChannelStatus,
    /// Whether it is marked.
    pub starred: bool,
    /// The channel whose history it goes on with.
    pub resume_from: Option<String>,
    /// When its last event was committed, to the second.
    pub last_event_at: Option<Millis>,
    /// Events that are still there.
    pub event_count: u64,
    /// Whether somebody gave it its title. Only some protocols tell.
    #[serde(skip)]
    pub title_manual: bool,
}

/// A piece of a listing of channels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChannelList {
    /// In the order of their making.
    pub channels: Vec<ChannelView>,
    /// There are more.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
    /// The cursor of the next piece, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn channels_in_full() {
        let channel = ChannelView {
            address: "channel/general".to_owned(),
            name: "general".into(),
            title: "General".to_owned(),
            private: false,
            master: Some("agent:ann".into()),
            participants: vec!["agent:ann".into(), "human:bob".into()],
            created_by: None,
            created_at: 1,
            status: ChannelStatus::Active,
            starred: true,
            resume_from: Some("old".to_owned()),
            last_event_at: Some(1000),
            event_count: 4,
            title_manual: true,
        };
        let json = r#"{"channels":[{
            "address":"channel/general","name":"general","title":"General","private":false,"master":"agent:ann",
            "participants":["agent:ann","human:bob"],"created_by":null,"created_at":1,"status":"active","starred":true,
            "resume_from":"old","last_event_at":1000,"event_count":4}],"has_more":true,"next":"0"}"#;
        check(&channel, &serde_json::from_str::<serde_json::Value>(json).unwrap()["channels"][0].to_string());
        check(&ChannelList { channels: vec![channel], has_more: true, next: Some("0".to_owned()) }, json);
        check(&ChannelList::default(), r#"{"channels":[]}"#);
    }
}
