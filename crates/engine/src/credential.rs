//! What members show: sessions, what each was made with, what holds a name, and why a session is none any more.
//!
//! Not here: what any of it allows (`rights`), and who calls (`principal`).

use crate::state::MemberId;
use rialto_model::{Millis, Role};
use serde::{Deserialize, Serialize};

/// A session of a member: only the hash of its secret is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// SHA-256 of the session id.
    pub sha256: [u8; 32],
    /// Number within the network, never used again.
    pub number: u64,
    /// When it was made.
    pub created_at: Millis,
    /// When it was made, monotonic time; not known of sessions of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Millis>,
    /// Label of the token it was made with: it ends with that token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
    /// The invitation it was made with: it ends with that invitation's maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invited: Option<Invited>,
    /// It may do no more than this role, whatever its member may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Role>,
}

/// The invitation behind a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invited {
    /// Its id.
    pub by: Box<str>,
    /// Who made it; none is the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inviter: Option<MemberId>,
    /// Label of the token that its maker came with, by however many invitations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
}

/// What a name was taken with, from the weakest to the strongest. A weaker credential never takes it over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NameHold {
    /// Nothing: the network is open.
    Nothing,
    /// A token for a lesser role.
    Narrowed,
    /// The network's token.
    #[default]
    Token,
    /// Proof that it is this member's: a token for the name, a key, an invitation, the operator's word. Nobody else takes it.
    Owned,
}

impl NameHold {
    /// It is what an older release knew.
    pub(crate) fn is_token(&self) -> bool {
        *self == NameHold::Token
    }
}

/// Who shows no credential.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strangers {
    /// Is refused, whatever the network's policy.
    Refused,
    /// Is admitted where the network is open.
    #[default]
    ByPolicy,
    /// Is admitted.
    Welcome,
}

/// Why a session is not one any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Another join took it over, or its member left.
    Taken,
    /// It was not used for too long, or is too old.
    Expired,
    /// What it was made with, or its membership, was taken away.
    Voided,
}
