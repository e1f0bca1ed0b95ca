//! Mods as the operator sees them.

use crate::Millis;
use crate::mods::{Mode, OnError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Where a mod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModKind {
    /// In the node.
    Builtin,
    /// As a process beside it.
    Process,
    /// At a member.
    Served,
}

/// A setting that a mod knows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModSetting {
    /// Its name.
    pub name: String,
    /// What it is set to.
    pub value: Value,
    /// What it is unless it is set.
    pub default: Value,
    /// What it does.
    pub does: String,
}

/// A loaded mod.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModView {
    /// Its address.
    #[serde(rename = "mod")]
    pub address: String,
    /// Its name.
    pub name: Box<str>,
    /// Where it runs.
    pub kind: ModKind,
    /// What it may do.
    pub mode: Mode,
    /// Lower runs earlier within its mode.
    pub priority: i32,
    /// Patterns on types; none means all.
    pub intercepts: Vec<String>,
    /// Its settings as they were given.
    pub config: Map<String, Value>,
    /// Whether it runs.
    pub enabled: bool,
    /// What becomes of an event when it fails. Always said of those that run elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// How long it may take. Always said of those that run elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<Millis>,
    /// Of one that is served: by whom, if that is still a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<Option<Box<str>>>,
    /// Every setting it knows, in listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Vec<ModSetting>>,
}

/// Members that may serve a mod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ApprovedMod {
    /// Address of the mod.
    #[serde(rename = "mod")]
    pub address: String,
    /// Their addresses.
    pub agents: Vec<Box<str>>,
}

/// The pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModList {
    /// In the order they run.
    pub mods: Vec<ModView>,
    /// It grows by one with every change.
    pub revision: u64,
    /// Names of the mods of this build.
    pub available: Vec<String>,
    /// Who may serve which mod.
    pub approved: Vec<ApprovedMod>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pipeline_in_full() {
        let setting = ModSetting {
            name: "rate".to_owned(),
            value: json!(5),
            default: json!(20),
            does: "Tokens a second.".to_owned(),
        };
        let limiter = ModView {
            address: "mod/rate-limiter".to_owned(),
            name: "rate-limiter".into(),
            kind: ModKind::Builtin,
            mode: Mode::Guard,
            priority: 10,
            intercepts: vec!["workspace.*".to_owned()],
            config: Map::from_iter([("rate".to_owned(), json!(5))]),
            enabled: true,
            on_error: None,
            deadline_ms: None,
            served_by: None,
            settings: Some(vec![setting]),
        };
        let lint = ModView {
            address: "mod/lint".to_owned(),
            name: "lint".into(),
            kind: ModKind::Served,
            mode: Mode::Transform,
            priority: 40,
            intercepts: Vec::new(),
            config: Map::new(),
            enabled: false,
            on_error: Some(OnError::Reject),
            deadline_ms: Some(1000),
            served_by: Some(None),
            settings: None,
        };
        let list = ModList {
            mods: vec![limiter, lint],
            revision: 3,
            available: vec!["auth".to_owned()],
            approved: vec![ApprovedMod { address: "mod/lint".to_owned(), agents: vec!["agent:bob".into()] }],
        };
        let json = r#"{"mods":[
            {"mod":"mod/rate-limiter","name":"rate-limiter","kind":"builtin","mode":"guard","priority":10,
             "intercepts":["workspace.*"],"config":{"rate":5},"enabled":true,
             "settings":[{"name":"rate","value":5,"default":20,"does":"Tokens a second."}]},
            {"mod":"mod/lint","name":"lint","kind":"served","mode":"transform","priority":40,"intercepts":[],"config":{},
             "enabled":false,"on_error":"reject","deadline_ms":1000,"served_by":null}],
            "revision":3,"available":["auth"],"approved":[{"mod":"mod/lint","agents":["agent:bob"]}]}"#;
        check(&list, json);
    }
}
