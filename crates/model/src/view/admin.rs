//! What acts of the operator, and of who else manages a network, give.

use super::{DroppedLetters, ModView, RetriedLetter};
use crate::mods::Mode;
use crate::network::Settings;
use crate::{Millis, Role, Seq};
use schemars::JsonSchema;
use serde::Serialize;

/// What was done, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Done {
    Changed,
    Deleted,
    Redacted,
    Rejected,
    Released,
    Removed,
    Revoked,
    Unloaded,
    Unregistered,
}

/// A redaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RedactionView {
    /// Position of the event.
    pub seq: Seq,
    /// That it was redacted.
    pub status: Done,
    /// Positions of events with the same content that were redacted with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Seq>,
}

/// What an act gave. Each is shown as its members, without the name of the act.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the members say it all")]
pub enum AdminOutcome {
    /// The settings as they are now.
    Settings(Box<Settings>),
    /// A token that was added.
    TokenAdded { label: String },
    /// A token that was revoked.
    TokenRevoked { label: String, status: Done },
    /// A member and its role from now on.
    Role { address: Option<Box<str>>, role: Role },
    /// A member that was changed or released.
    Member { address: Box<str>, status: Done },
    /// A member that was removed, and who is master in its place.
    Removed { status: Done, new_master: Option<Box<str>> },
    /// Sessions that were ended.
    SessionsEnded { address: Option<Box<str>>, ended: Vec<u64> },
    /// A group as it is now.
    Group { group: String, members: Vec<Box<str>> },
    /// A group that was deleted.
    GroupDeleted { group: String, status: Done },
    /// A mod as it is now.
    Mod(Box<ModView>),
    /// A mod that was unloaded.
    ModUnloaded {
        #[serde(rename = "mod")]
        address: String,
        status: Done,
    },
    /// Mods of one mode in their order.
    ModsOrdered { mode: Mode, mods: Vec<String> },
    /// Whether a member may serve a mod.
    ModApproved {
        #[serde(rename = "mod")]
        served: String,
        address: Option<Box<str>>,
        approved: bool,
    },
    /// An event that was redacted.
    Redacted(RedactionView),
    /// A dead letter that was sent again.
    Retried(RetriedLetter),
    /// Dead letters that were put away.
    Dropped(DroppedLetters),
    /// A channel that was made or changed; one that was made for a conversation with its name.
    Channel {
        channel: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An invitation that was made.
    Invited { invitation_id: Box<str>, expires_at: Millis },
    /// An invitation that ended.
    InvitationEnded { invitation_id: Box<str>, status: Done },
    /// A resource that was taken away.
    Unregistered { address: Box<str>, status: Done },
    /// The revision of the profile that the network has now.
    ProfileRevised { revision: u32 },
    /// Nothing but the record that it was done.
    Noted,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use crate::network::Preset;

    #[test]
    fn outcomes_are_shown_as_their_members() {
        use AdminOutcome::{
            Channel, Dropped, Group, GroupDeleted, InvitationEnded, Invited, Member, ModApproved, ModUnloaded,
            ModsOrdered, Noted, ProfileRevised, Redacted, Removed, Role, SessionsEnded, TokenAdded, TokenRevoked,
            Unregistered,
        };
        let ann = || Some(Box::<str>::from("agent:ann"));
        let cases = [
            (TokenAdded { label: "ci".to_owned() }, r#"{"label":"ci"}"#),
            (TokenRevoked { label: "ci".to_owned(), status: Done::Revoked }, r#"{"label":"ci","status":"revoked"}"#),
            (Role { address: ann(), role: crate::Role::Master }, r#"{"address":"agent:ann","role":"master"}"#),
            (
                Member { address: "agent:ann".into(), status: Done::Released },
                r#"{"address":"agent:ann","status":"released"}"#,
            ),
            (Removed { status: Done::Removed, new_master: None }, r#"{"status":"removed","new_master":null}"#),
            (SessionsEnded { address: ann(), ended: vec![1] }, r#"{"address":"agent:ann","ended":[1]}"#),
            (
                Group { group: "group/ops".to_owned(), members: vec!["agent:ann".into()] },
                r#"{"group":"group/ops","members":["agent:ann"]}"#,
            ),
            (
                GroupDeleted { group: "group/ops".to_owned(), status: Done::Deleted },
                r#"{"group":"group/ops","status":"deleted"}"#,
            ),
            (
                ModUnloaded { address: "mod/lint".to_owned(), status: Done::Unloaded },
                r#"{"mod":"mod/lint","status":"unloaded"}"#,
            ),
            (
                ModsOrdered { mode: Mode::Guard, mods: vec!["mod/auth".to_owned()] },
                r#"{"mode":"guard","mods":["mod/auth"]}"#,
            ),
            (
                ModApproved { served: "mod/lint".to_owned(), address: ann(), approved: true },
                r#"{"mod":"mod/lint","address":"agent:ann","approved":true}"#,
            ),
            (
                Redacted(RedactionView { seq: 1, status: Done::Redacted, copies: vec![2] }),
                r#"{"seq":1,"status":"redacted","copies":[2]}"#,
            ),
            (Dropped(DroppedLetters { dropped: 1, has_more: true }), r#"{"dropped":1,"has_more":true}"#),
            (Channel { channel: "channel/a".to_owned(), name: None }, r#"{"channel":"channel/a"}"#),
            (
                Channel { channel: "channel/a".to_owned(), name: Some("a".to_owned()) },
                r#"{"channel":"channel/a","name":"a"}"#,
            ),
            (Invited { invitation_id: "i".into(), expires_at: 2 }, r#"{"invitation_id":"i","expires_at":2}"#),
            (
                InvitationEnded { invitation_id: "i".into(), status: Done::Rejected },
                r#"{"invitation_id":"i","status":"rejected"}"#,
            ),
            (
                Unregistered { address: "resource/file/a".into(), status: Done::Unregistered },
                r#"{"address":"resource/file/a","status":"unregistered"}"#,
            ),
            (ProfileRevised { revision: 2 }, r#"{"revision":2}"#),
            (Noted, "null"),
        ];
        for (outcome, json) in cases {
            check(&outcome, json);
        }
        let settings = Settings::preset("Home", Preset::Plain);
        let json = serde_json::to_string(&settings).unwrap();
        check(&AdminOutcome::Settings(Box::new(settings)), &json);
    }
}
