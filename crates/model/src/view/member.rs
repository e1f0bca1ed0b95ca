//! Members: as the roster shows them, as they see themselves, and as the operator sees their sessions.

use super::is_off;
use crate::Millis;
use crate::member::{Profile, Role};
use crate::network::SessionBinding;
use schemars::JsonSchema;
use serde::Serialize;

/// Whether a member is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It has a stream or called a moment ago.
    Online,
    /// It is away or has left.
    Offline,
}

impl Presence {
    /// Whether it is there.
    pub fn of(online: bool) -> Presence {
        if online { Presence::Online } else { Presence::Offline }
    }

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Presence::Online => "online",
            Presence::Offline => "offline",
        }
    }
}

/// A member as the roster shows it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemberView {
    /// Its address.
    pub address: Box<str>,
    /// What it may do.
    pub role: Role,
    /// Whether it is there.
    pub status: Presence,
    /// How well it proved who it is, 0 to 3.
    pub verification: u8,
    /// What it says of itself.
    #[serde(flatten)]
    pub profile: Profile,
    /// When it joined.
    pub joined_at: Millis,
    /// The face that carries it, if it lives elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Box<str>>,
    /// Whether its calls need its session.
    pub binding: SessionBinding,
    /// Whether its mail waits. The roster says so only where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnd: Option<bool>,
    /// Until when its mail waits, if there is an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dnd_until: Option<Millis>,
    /// When it was last there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Millis>,
}

impl MemberView {
    /// The address without its prefix.
    pub fn name(&self) -> &str {
        bare_name(&self.address)
    }
}

/// A member's address without its prefix.
pub fn bare_name(address: &str) -> &str {
    address.split_once(':').map_or(address, |(_, name)| name)
}

/// A member as it sees itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeView {
    /// What everybody sees; here it is always said whether mail waits.
    #[serde(flatten)]
    pub member: MemberView,
    /// Its address without the prefix.
    pub name: Box<str>,
    /// Addresses it had before.
    pub former: Vec<Box<str>>,
    /// Channels it sits in.
    pub channels: Vec<String>,
    /// Channels it does not want to hear.
    pub muted: Vec<String>,
    /// It has left.
    #[serde(skip_serializing_if = "is_off")]
    pub left: bool,
    /// Events that wait for its ack.
    pub pending: u64,
}

/// A session as the operator sees it: never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionView {
    /// Its number.
    pub session: u64,
    /// When it was made.
    pub created_at: Millis,
    /// Label of the token it was made with.
    pub token: Option<String>,
    /// What its member may do in it.
    pub role: Role,
    /// Who invited its member, if it came that way.
    pub invitation: Option<Box<str>>,
}

/// A member with its sessions, as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemberSessions {
    /// Its address.
    pub address: Box<str>,
    /// The role it was granted.
    pub role: Role,
    /// A network token alone does not take the name over.
    pub owned: bool,
    /// It has left.
    pub left: bool,
    /// It is there.
    pub online: bool,
    /// When it was last there, if ever.
    pub last_seen_at: Option<Millis>,
    /// Addresses it had before.
    pub former: Vec<Box<str>>,
    /// How well it proved who it is, 0 to 3.
    pub verification: u8,
    /// Its sessions.
    pub sessions: Vec<SessionView>,
}

/// All members with their sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MembersList {
    /// In the order of joining.
    pub members: Vec<MemberSessions>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    fn ann() -> MemberView {
        MemberView {
            address: "agent:ann".into(),
            role: Role::Master,
            status: Presence::Online,
            verification: 2,
            profile: Profile {
                agent_type: Some("writer".to_owned()),
                description: Some("writes".to_owned()),
                capabilities: vec!["write".to_owned()],
                server_host: Some("host".to_owned()),
                working_dir: Some("/w".to_owned()),
            },
            joined_at: 1,
            via: Some("agh".into()),
            binding: SessionBinding::Strict,
            dnd: Some(true),
            dnd_until: Some(9),
            last_seen_at: Some(5),
        }
    }

    #[test]
    fn a_member_in_full() {
        let json = r#"{
            "address":"agent:ann","role":"master","status":"online","verification":2,"agent_type":"writer",
            "description":"writes","capabilities":["write"],"server_host":"host","working_dir":"/w","joined_at":1,
            "via":"agh","binding":"strict","dnd":true,"dnd_until":9,"last_seen_at":5}"#;
        check(&ann(), json);
        assert_eq!((ann().name(), bare_name("core")), ("ann", "core"));
    }

    #[test]
    fn what_is_not_known_of_a_member_is_left_out() {
        let bob = MemberView {
            address: "human:bob".into(),
            role: Role::Observer,
            status: Presence::of(false),
            verification: 0,
            profile: Profile::default(),
            joined_at: 1,
            via: None,
            binding: SessionBinding::Lax,
            dnd: None,
            dnd_until: None,
            last_seen_at: None,
        };
        let json = r#"{
            "address":"human:bob","role":"observer","status":"offline","verification":0,"joined_at":1,"binding":"lax"}"#;
        check(&bob, json);
    }

    #[test]
    fn a_member_as_it_sees_itself() {
        let member = MemberView { profile: Profile::default(), via: None, dnd: Some(false), dnd_until: None, ..ann() };
        let me = MeView {
            member,
            name: "ann".into(),
            former: vec!["agent:anna".into()],
            channels: vec!["channel/general".to_owned()],
            muted: vec!["channel/noise".to_owned()],
            left: true,
            pending: 3,
        };
        let json = r#"{
            "address":"agent:ann","role":"master","status":"online","verification":2,"joined_at":1,"binding":"strict",
            "dnd":false,"last_seen_at":5,"name":"ann","former":["agent:anna"],"channels":["channel/general"],
            "muted":["channel/noise"],"left":true,"pending":3}"#;
        check(&me, json);
    }

    #[test]
    fn members_with_their_sessions() {
        let session = SessionView {
            session: 7,
            created_at: 1,
            token: Some("ci".to_owned()),
            role: Role::Member,
            invitation: Some("agent:ann".into()),
        };
        let member = MemberSessions {
            address: "agent:bob".into(),
            role: Role::Member,
            owned: true,
            left: false,
            online: true,
            last_seen_at: None,
            former: vec!["agent:bobby".into()],
            verification: 1,
            sessions: vec![session],
        };
        let json = r#"{"members":[{
            "address":"agent:bob","role":"member","owned":true,"left":false,"online":true,"last_seen_at":null,
            "former":["agent:bobby"],"verification":1,
            "sessions":[{"session":7,"created_at":1,"token":"ci","role":"member","invitation":"agent:ann"}]}]}"#;
        check(&MembersList { members: vec![member] }, json);
    }
}
