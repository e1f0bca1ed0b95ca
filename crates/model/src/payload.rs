//! What events say that change a network, and what operations of the same meaning ask for: read once, by `read`.
//!
//! Members that no type names are left as they are: whoever sends may say more. Not here: payloads of `workspace.message.posted` and of
//! extension types, which the network passes on unread, and payloads that the network makes (`view`).

mod bounded;
mod mods;
mod resources;
mod work;

pub use bounded::{BoundedText, ContentHash, ContentName, ShortText};
pub use mods::{EventChanges, ModAnswer, ServedMod};
pub use resources::{
    ContentTypeText, DescriptionText, Encoding, NewResource, ResourceChanges, ResourceFilter, ResourceName,
    ResourceRange,
};
pub use work::{ArtifactChunk, UnitName, WorkAnswer, WorkArtifact, WorkCancel, WorkDeadline, WorkMetadata, WorkUpdate};

use crate::channel::ChannelStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// `network.agent.leave`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Leaving {
    /// The membership is deleted, not only ended for now.
    pub forget: Option<bool>,
}

/// `network.agent.remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Removal {
    /// Who goes.
    pub address: Option<String>,
    /// The same as a bare name.
    pub agent_name: Option<String>,
}

/// `network.agent.announce`: what a member says of itself from now on. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Announcement {
    /// In a sentence.
    pub description: Option<String>,
    /// What it can do.
    pub capabilities: Option<Vec<String>>,
}

/// `network.channel.create`, `workspace.session.created` and a session that is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewChannel {
    /// Its name; one is made if none is said.
    pub name: Option<String>,
    /// Its title; its name if none is said.
    pub title: Option<String>,
    /// Who coordinates it; the first agent in it if nobody is named.
    pub master: Option<String>,
    /// Who sits in it besides its maker.
    pub participants: Option<Vec<String>>,
    /// People who sit in it.
    pub human_participants: Option<Vec<String>>,
    /// Only those who sit in it know of it.
    pub private: Option<bool>,
    /// The channel whose talk goes on here.
    pub resume_from: Option<String>,
}

/// `network.channel.delete`, `network.channel.join` and `network.channel.leave`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ChannelSeat {
    /// The channel.
    pub channel: Option<String>,
    /// The same, to delete or to leave it.
    pub name: Option<String>,
    /// Whose seat it is; the sender's if nobody is named.
    pub agent: Option<String>,
    /// The same as a bare name.
    pub agent_name: Option<String>,
}

/// `network.agent.discover`: who and what is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct RosterFilter {
    /// Names of the sections: agents, channels, mods, resources, groups; all if none.
    pub include: Option<Vec<String>>,
    /// A cursor that an answer gave; `include` names its section alone.
    pub after: Option<String>,
    /// At most so many rows of each section.
    pub limit: Option<u64>,
    /// Members of this role.
    pub role: Option<String>,
    /// Members that are there, or are not.
    pub status: Option<String>,
    /// Members with this capability.
    pub capability: Option<String>,
    /// Members whose address or description has this in it.
    pub query: Option<String>,
    /// Channels in full instead of their addresses.
    #[serde(skip)]
    pub full_channels: bool,
}

/// What is to change about a channel. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelChanges {
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it stands above others in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starred: Option<bool>,
    /// In use, closed or gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ChannelStatus>,
    /// Who coordinates it; null for nobody.
    #[serde(default, deserialize_with = "said", skip_serializing_if = "Option::is_none")]
    pub master_agent: Option<Option<String>>,
}

/// `workspace.session.updated`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SessionUpdate {
    /// What changes.
    pub changes: ChannelChanges,
    /// A program thought of the title: it gives way to one that a person chose.
    pub auto_title: Option<bool>,
}

/// `workspace.invitation.created`, and an invitation that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NewInvitation {
    /// The one address that it is for; whoever knows its code if nobody is named.
    pub invitee: Option<String>,
    /// `member` or `observer`.
    pub role: Option<String>,
    /// The channel that it seats in.
    pub channel: Option<String>,
    /// A word to whom it is for.
    pub message: Option<String>,
    /// How long it can be used; a week if nothing is said.
    pub expires_in_s: Option<u64>,
    /// How often it can be used; once if nothing is said.
    pub max_uses: Option<u64>,
}

/// `workspace.invitation.accepted` and `workspace.invitation.rejected`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct InvitationAnswer {
    /// The invitation.
    pub invitation_id: String,
}

/// A member that is there, with null among its values.
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    #[test]
    fn null_for_nobody_is_told_from_nothing_said() {
        let changes = |text| read::text::<ChannelChanges>(text, read::PAYLOAD).unwrap().master_agent;
        assert_eq!(changes("{}"), None);
        assert_eq!(changes(r#"{"master_agent":null}"#), Some(None));
        assert_eq!(changes(r#"{"master_agent":"bob","title":null}"#), Some(Some("bob".to_owned())));
        for text in ["{}", r#"{"master_agent":null}"#, r#"{"title":"a","status":"archived"}"#] {
            let read: ChannelChanges = read::text(text, read::PAYLOAD).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }

    #[test]
    fn what_a_type_does_not_name_is_no_fault() {
        let read: Leaving = read::text(r#"{"agent_id":"agent:a","forget":true}"#, read::PAYLOAD).unwrap();
        assert_eq!(read.forget, Some(true));
        let fault = read::text::<NewChannel>(r#"{"participants":["a",7]}"#, read::PAYLOAD).unwrap_err();
        assert!(fault.message.starts_with("payload.participants[1]: invalid type: integer `7`"), "{}", fault.message);
        let fault = read::text::<SessionUpdate>(r#"{"changes":{"titel":"x"}}"#, read::PAYLOAD).unwrap_err();
        assert_eq!(fault.details.unwrap()["field"], "payload.changes.titel");
    }
}
