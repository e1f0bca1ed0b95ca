//! A network's own properties: access policy, delivery, status, durability (sheet section 1.1).

use crate::{Millis, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }
        impl $name {
            /// The name on the wire.
            pub fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)* } }
            /// The value of this wire name.
            pub fn from_wire(text: &str) -> Option<Self> { match text { $($text => Some(Self::$variant),)* _ => None } }
        }
    };
}

words! {
    /// What a join must bring.
    Policy {
        /// A network token.
        Token = "token",
        /// Nothing.
        Open = "open",
        /// An invitation.
        Invite = "invite",
        /// A proven DID.
        DidVerify = "did-verify",
    }
}
words! {
    /// What happens to an event nobody has acked.
    Delivery {
        /// Kept and sent again until acked.
        AtLeastOnce = "at-least-once",
        /// Sent once to who is there.
        AtMostOnce = "at-most-once",
    }
}
words! {
    /// Whether the network takes part.
    Status {
        /// Yes.
        Active = "active",
        /// Reads and acks only.
        Paused = "paused",
        /// Reads only, sessions closed.
        Archived = "archived",
    }
}
words! {
    /// When an ack is given.
    Durability {
        /// After the flush to disk.
        Sync = "sync",
        /// After the write to the operating system.
        Os = "os",
        /// At once, nothing is promised (at-most-once networks only).
        Memory = "memory",
    }
}
words! {
    /// Preset the network was made from.
    Preset {
        /// The model alone.
        Plain = "plain",
        /// The workspace preset.
        Workspace = "workspace",
    }
}
words! {
    /// Whether a call of a member needs its session.
    SessionBinding {
        /// Every call needs the current session.
        Strict = "strict",
        /// Compat members at level 0 may be claimed by the network's token.
        Lax = "lax",
    }
}
words! {
    /// Who wins when a live name is joined again.
    Takeover {
        /// The last to join.
        Last = "last",
        /// Only who knows the last session.
        Secret = "secret",
    }
}

words! {
    /// When a name belongs to who has it, so that a network token alone does not take it over.
    Names {
        /// Once it was taken with more than the network's token.
        Proved = "proved",
        /// Always.
        Owned = "owned",
    }
}

impl Names {
    fn is_proved(&self) -> bool {
        *self == Names::Proved
    }
}

#[allow(clippy::derivable_impls, reason = "the macro makes all words alike, without a default")]
impl Default for Names {
    fn default() -> Names {
        Names::Proved
    }
}

/// Settings of a network that an operator may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the sheet's own names, section 1.1")]
pub struct Settings {
    pub name: String,
    pub policy: Policy,
    pub min_verification: u8,
    pub session_binding: SessionBinding,
    pub takeover: Takeover,
    pub require_audience: bool,
    pub delivery: Delivery,
    pub durability: Durability,
    pub status: Status,
    pub profile: Preset,
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Whoever posts to a channel is seated in it.
    pub channel_post_open: bool,
    /// `openagents:` names join unproved while no key is registered for them.
    pub unverified_openagents: bool,
    /// A bare network token reads public events and open channels.
    pub bare_reads: bool,
    /// A token holder's first event joins it, where its session joins by speaking.
    pub implicit_join: bool,
    pub max_members: usize,
    pub max_attempts: Option<u32>,
    /// Pending events per member, at most [`crate::limits::PENDING_EVENTS_MAX`].
    #[serde(default = "max_pending")]
    pub max_pending: u64,
    /// Bytes of pending events per member, at most [`crate::limits::PENDING_BYTES_MAX`]. 0 in networks of before it was
    /// known, until their first tick: their states keep their bytes.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub max_pending_bytes: u64,
    pub ttl_ms: Millis,
    /// Kept for ever: its log class is never recycled.
    pub keep_for_ever: bool,
    /// Whoever holds a network token that is not narrowed manages the network, as clients of workspace servers expect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub token_manages: bool,
    /// Percent of what the network may hold of a kind that one member may make. Written only when it was set.
    #[serde(default = "member_share", skip_serializing_if = "is_member_share")]
    pub member_share_percent: u8,
    /// Somebody made it without a credential.
    #[serde(default, skip_serializing_if = "is_false")]
    pub made_openly: bool,
    /// When a name is owned.
    #[serde(default, skip_serializing_if = "Names::is_proved")]
    pub names: Names,
    /// Bytes of content all resources may have together. Written only when it was set, so that states of before it was
    /// known have the same bytes.
    #[serde(default = "blob_bytes_max", skip_serializing_if = "is_blob_bytes_max")]
    pub blob_bytes_max: u64,
}

impl Settings {
    /// The preset of this profile (sheet sections 1.1 and 15).
    pub fn preset(name: &str, profile: Preset) -> Settings {
        let workspace = profile == Preset::Workspace;
        Settings {
            name: name.to_owned(),
            policy: Policy::Token,
            min_verification: 0,
            session_binding: if workspace { SessionBinding::Lax } else { SessionBinding::Strict },
            takeover: Takeover::Last,
            require_audience: false,
            delivery: Delivery::AtLeastOnce,
            durability: Durability::Sync,
            status: Status::Active,
            profile,
            metadata: serde_json::Map::new(),
            channel_post_open: workspace,
            unverified_openagents: workspace,
            bare_reads: true,
            implicit_join: workspace,
            max_members: crate::limits::MEMBERS_MAX,
            max_attempts: None,
            max_pending: max_pending(),
            max_pending_bytes: crate::limits::PENDING_BYTES_MAX,
            ttl_ms: 7 * 24 * 3600 * 1000,
            keep_for_ever: false,
            token_manages: false,
            member_share_percent: member_share(),
            made_openly: false,
            names: Names::Proved,
            blob_bytes_max: blob_bytes_max(),
        }
    }
}

fn blob_bytes_max() -> u64 {
    crate::limits::BLOB_BYTES_DEFAULT
}

fn is_blob_bytes_max(bytes: &u64) -> bool {
    *bytes == blob_bytes_max()
}

fn member_share() -> u8 {
    crate::limits::MEMBER_SHARE_PERCENT_DEFAULT
}

fn is_member_share(percent: &u8) -> bool {
    *percent == member_share()
}

fn is_false(on: &bool) -> bool {
    !on
}

fn is_unset(limit: &u64) -> bool {
    *limit == 0
}

fn max_pending() -> u64 {
    crate::limits::PENDING_EVENTS_MAX
}

/// A network access token: only its hash is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// What people call it.
    pub label: String,
    /// SHA-256 of the token's text.
    pub sha256: [u8; 32],
    /// Highest role it may give.
    pub role: Option<Role>,
    /// The one agent it speaks for: a bare name (also under its `openagents:` name), or another member's address.
    pub agent: Option<String>,
    /// Wall-clock end.
    pub expires_at: Option<Millis>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last shown, to the hour; when a session was last made with it, to the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Millis>,
}

impl Token {
    /// A token that is good for everything, and without an end.
    pub fn whole(label: &str, sha256: [u8; 32], created_at: Millis) -> Token {
        let label = label.to_owned();
        Token { label, sha256, role: None, agent: None, expires_at: None, created_at, last_used_at: None }
    }

    /// Whether the holder may speak as this canonical address.
    pub fn speaks_for(&self, address: &str) -> bool {
        match self.agent.as_deref() {
            None => true,
            Some(other) if other.contains(':') => other == address,
            Some(name) => matches!(address.split_once(':'), Some(("agent" | "openagents", bare)) if bare == name),
        }
    }

    /// The address of the one it speaks for.
    pub fn address(&self) -> Option<String> {
        self.agent.as_ref().map(|name| if name.contains(':') { name.clone() } else { format!("agent:{name}") })
    }
}
