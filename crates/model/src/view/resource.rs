//! Resources as members see them.

use crate::Millis;
use crate::access::{Operation, RuleView};
use crate::address::ResourceKind;
use crate::view::Presence;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Who keeps a resource's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// The network.
    Network,
    /// Its owner, who is asked for it.
    Owner,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResourceView {
    /// Its address.
    pub address: Box<str>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ResourceKind,
    /// Address of its owner; `core` for the network's own.
    pub owner: Box<str>,
    /// Whether its owner is there.
    pub owner_status: Presence,
    /// What it is good for.
    pub description: String,
    /// It grows by one with every change.
    pub version: u64,
    /// Who keeps its content.
    pub backing: Backing,
    /// When it last changed.
    pub updated_at: Millis,
    /// What the viewer may do with it.
    pub your_permissions: Vec<Operation>,
    /// Of a tool: its input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What kind of content it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Bytes of its content, if the network keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What its owner says of it besides.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Who may do what, for those who may change that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<BTreeMap<Operation, RuleView>>,
}

/// A page of resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResourceList {
    /// By address.
    pub resources: Vec<ResourceView>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A resource in a line of the roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResourceSummary {
    /// Its address.
    pub address: Box<str>,
    /// Address of its owner; `core` for the network's own.
    pub owner: Option<Box<str>>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: ResourceKind,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_resource_in_full() {
        let rules = [
            (Operation::Read, RuleView::One("network".to_owned())),
            (Operation::Admin, RuleView::Any(vec!["agent:ann".to_owned(), "group/ops".to_owned()])),
        ];
        let resource = ResourceView {
            address: "resource/file/plan".into(),
            kind: ResourceKind::File,
            owner: "agent:ann".into(),
            owner_status: Presence::Online,
            description: "the plan".to_owned(),
            version: 2,
            backing: Backing::Network,
            updated_at: 3,
            your_permissions: vec![Operation::Read, Operation::Admin],
            schema: Some(json!({ "input": { "q": "string" } })),
            content_type: Some("text/plain".to_owned()),
            size: Some(4),
            metadata: Map::from_iter([("k".to_owned(), json!(1))]),
            permissions: Some(rules.into_iter().collect()),
        };
        let json = r#"{
            "address":"resource/file/plan","type":"file","owner":"agent:ann","owner_status":"online",
            "description":"the plan","version":2,"backing":"network","updated_at":3,"your_permissions":["read","admin"],
            "schema":{"input":{"q":"string"}},"content_type":"text/plain","size":4,"metadata":{"k":1},
            "permissions":{"read":"network","admin":["agent:ann","group/ops"]}}"#;
        check(&resource, json);
        let page = ResourceList { resources: vec![resource], next: Some("resource/file/plan".to_owned()) };
        check(&page, &format!(r#"{{"resources":[{json}],"next":"resource/file/plan"}}"#));
    }

    #[test]
    fn a_tool_of_a_stranger_in_short() {
        let tool = ResourceView {
            address: "resource/tool/sum".into(),
            kind: ResourceKind::Tool,
            owner: "core".into(),
            owner_status: Presence::Offline,
            description: String::new(),
            version: 1,
            backing: Backing::Owner,
            updated_at: 3,
            your_permissions: Vec::new(),
            schema: None,
            content_type: None,
            size: None,
            metadata: Map::new(),
            permissions: None,
        };
        let json = r#"{
            "address":"resource/tool/sum","type":"tool","owner":"core","owner_status":"offline","description":"",
            "version":1,"backing":"owner","updated_at":3,"your_permissions":[]}"#;
        check(&tool, json);
        check(&ResourceList::default(), r#"{"resources":[]}"#);
    }
}
