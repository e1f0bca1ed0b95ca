//! Invitations: never their secrets, but to who makes one.

use super::is_off;
use crate::{Millis, Role};
use schemars::JsonSchema;
use serde::Serialize;

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvitationView {
    /// Its id.
    pub invitation_id: Box<str>,
    /// Id of the network.
    pub network: Box<str>,
    /// Address of who invites, if that is a member.
    pub inviter: Option<Box<str>>,
    /// The one address it is for.
    pub invitee: Option<Box<str>>,
    /// Highest role it gives.
    pub role: Role,
    /// A word to the invitee.
    pub message: Option<String>,
    /// Address of the channel where it seats.
    pub channel: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// When it ends.
    pub expires_at: Millis,
    /// How often it can still be used.
    pub uses_left: u32,
}

/// Invitations a viewer may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvitationList {
    /// By id.
    pub invitations: Vec<InvitationView>,
    /// There are more.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
}

/// A fresh invitation: its code is known nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InvitationIssued {
    /// Its id.
    pub invitation_id: Box<str>,
    /// When it ends.
    pub expires_at: Millis,
    /// What the invitee shows.
    pub code: String,
    /// Where it is taken, below the node's address.
    pub url: String,
}

impl std::fmt::Debug for InvitationIssued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InvitationIssued").field("invitation_id", &self.invitation_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn invitations_in_full() {
        let view = InvitationView {
            invitation_id: "i1".into(),
            network: "a1".into(),
            inviter: Some("agent:ann".into()),
            invitee: Some("human:bob".into()),
            role: Role::Member,
            message: Some("come".to_owned()),
            channel: Some("channel/general".to_owned()),
            created_at: 1,
            expires_at: 2,
            uses_left: 3,
        };
        let json = r#"{"invitations":[{
            "invitation_id":"i1","network":"a1","inviter":"agent:ann","invitee":"human:bob","role":"member",
            "message":"come","channel":"channel/general","created_at":1,"expires_at":2,"uses_left":3}],"has_more":true}"#;
        check(&InvitationList { invitations: vec![view], has_more: true }, json);
        check(&InvitationList::default(), r#"{"invitations":[]}"#);
    }

    #[test]
    fn a_fresh_one_does_not_print_its_code() {
        let issued = InvitationIssued {
            invitation_id: "i1".into(),
            expires_at: 2,
            code: "secret".to_owned(),
            url: "/?invite=secret".to_owned(),
        };
        check(&issued, r#"{"invitation_id":"i1","expires_at":2,"code":"secret","url":"/?invite=secret"}"#);
        assert!(!format!("{issued:?}").contains("secret"));
    }
}
