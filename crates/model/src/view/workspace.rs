//! A network as a workspace: what is shown of it in one piece.

use super::{MemberView, is_off};
use crate::Millis;
use crate::network::Status;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// A workspace, and what the viewer may do to it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkspaceView {
    /// Id of the network.
    pub id: Box<str>,
    /// Its name.
    pub name: String,
    /// What its operator says of it.
    pub metadata: Map<String, Value>,
    /// Whether it takes part.
    pub status: Status,
    /// When it was made.
    pub created_at: Millis,
    /// When something last happened.
    pub last_activity_at: Millis,
    /// Its agents, if they were asked for.
    pub agents: Vec<MemberView>,
    /// There are more agents.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
    /// The viewer may change its settings, tokens and members.
    pub manages: bool,
    /// The viewer may arrange its conversations.
    pub arranges: bool,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn a_workspace_in_full() {
        let workspace = WorkspaceView {
            id: "home".into(),
            name: "Home".to_owned(),
            metadata: Map::from_iter([("creator_email".to_owned(), "a@b".into())]),
            status: Status::Paused,
            created_at: 1,
            last_activity_at: 2,
            agents: Vec::new(),
            has_more: true,
            manages: true,
            arranges: false,
        };
        let json = r#"{"id":"home","name":"Home","metadata":{"creator_email":"a@b"},"status":"paused","created_at":1,
            "last_activity_at":2,"agents":[],"has_more":true,"manages":true,"arranges":false}"#;
        check(&workspace, json);
    }
}
