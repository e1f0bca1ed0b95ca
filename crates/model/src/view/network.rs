//! A network: its public profile, and its settings, tokens and groups as the operator sees them.

use crate::network::{Delivery, Durability, Policy, Preset, Settings, Status};
use crate::{Millis, Role, Seq};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What a join takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AccessView {
    /// What has to be shown.
    pub policy: Policy,
    /// How well a member has to prove who it is, 0 to 3.
    pub min_verification: u8,
}

/// What anybody may know of a network that is listed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProfileView {
    /// Its id.
    pub id: Box<str>,
    /// Its id again, as part of URLs.
    pub slug: Box<str>,
    /// Its name.
    pub name: String,
    /// What its operator says of it; empty where nothing is said.
    pub description: String,
    /// What a join takes.
    pub access: AccessView,
    /// Namespaces of events that it handles.
    pub capabilities: Vec<String>,
    /// Members that are there.
    pub agents_online: usize,
    /// Whether it takes part.
    pub status: Status,
    /// What happens to an event nobody has acked.
    pub delivery: Delivery,
    /// When an ack is given.
    pub durability: Durability,
    /// Preset it was made from.
    pub profile: Preset,
    /// Version of the network model.
    pub onm_version: String,
    /// Whether anybody may know of it. Who may not know asks in vain, so nobody is told.
    #[serde(skip)]
    pub listed: bool,
}

/// A network as its operator sees it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NetworkView {
    /// Its id.
    pub id: Box<str>,
    /// Its settings.
    #[serde(flatten)]
    pub settings: Settings,
    /// When it was made.
    pub created_at: Millis,
    /// Who made it, if that is known.
    pub created_by: Option<String>,
    /// How many members it has.
    pub members: usize,
    /// How many channels it has.
    pub channels: usize,
    /// Position of its last event.
    pub head: Seq,
    /// History at or below is purged.
    pub purged: Seq,
    /// Its mods as they are stored, in the order of the pipeline.
    pub mods: Vec<Value>,
}

/// A network token: never its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenView {
    /// What people call it.
    pub label: String,
    /// Highest role it may give.
    pub role: Option<Role>,
    /// The one agent it speaks for.
    pub agent: Option<String>,
    /// When it ends.
    pub expires_at: Option<Millis>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last shown.
    pub last_used_at: Option<Millis>,
}

/// The tokens of a network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenList {
    /// The oldest first.
    pub tokens: Vec<TokenView>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupView {
    /// Its address.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Addresses of its members.
    pub members: Vec<Box<str>>,
}

/// The groups of a network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupList {
    /// By name.
    pub groups: Vec<GroupView>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn a_profile_in_full() {
        let profile = ProfileView {
            id: "a1".into(),
            slug: "a1".into(),
            name: "Home".to_owned(),
            description: "where we work".into(),
            access: AccessView { policy: Policy::DidVerify, min_verification: 2 },
            capabilities: vec!["network.agent".to_owned()],
            agents_online: 2,
            status: Status::Active,
            delivery: Delivery::AtLeastOnce,
            durability: Durability::Sync,
            profile: Preset::Plain,
            onm_version: "1.0".to_owned(),
            listed: false,
        };
        let json = r#"{
            "id":"a1","slug":"a1","name":"Home","description":"where we work",
            "access":{"policy":"did-verify","min_verification":2},"capabilities":["network.agent"],"agents_online":2,
            "status":"active","delivery":"at-least-once","durability":"sync","profile":"plain","onm_version":"1.0"}"#;
        check(&profile, json);
    }

    #[test]
    fn a_network_is_its_settings_and_what_is_in_it() {
        let settings = Settings::preset("Home", Preset::Plain);
        let mut wanted = serde_json::to_value(&settings).unwrap();
        let more = r#"{"id":"a1","created_at":1,"created_by":"operator","members":2,"channels":3,"head":9,"purged":4,
            "mods":[{"name":"auth"}]}"#;
        let more: serde_json::Map<String, Value> = serde_json::from_str(more).unwrap();
        wanted.as_object_mut().unwrap().extend(more);
        let network = NetworkView {
            id: "a1".into(),
            settings,
            created_at: 1,
            created_by: Some("operator".to_owned()),
            members: 2,
            channels: 3,
            head: 9,
            purged: 4,
            mods: vec![serde_json::json!({ "name": "auth" })],
        };
        check(&network, &wanted.to_string());
    }

    #[test]
    fn tokens_and_groups_in_full() {
        let token = TokenView {
            label: "ci".to_owned(),
            role: Some(Role::Observer),
            agent: Some("bob".to_owned()),
            expires_at: Some(9),
            created_at: 1,
            last_used_at: None,
        };
        let json = r#"{"tokens":[{"label":"ci","role":"observer","agent":"bob","expires_at":9,"created_at":1,
            "last_used_at":null}]}"#;
        check(&TokenList { tokens: vec![token] }, json);
        let group =
            GroupView { group: "group/ops".to_owned(), name: "ops".to_owned(), members: vec!["agent:ann".into()] };
        let json = r#"{"groups":[{"group":"group/ops","name":"ops","members":["agent:ann"]}]}"#;
        check(&GroupList { groups: vec![group] }, json);
    }
}
