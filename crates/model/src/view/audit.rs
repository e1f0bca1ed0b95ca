//! Who managed the network.

use crate::Millis;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One act.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AuditEntry {
    /// When.
    pub at: Millis,
    /// Who: `operator`, `operator as` a member, a member's address, or `token:` and a label.
    pub actor: Box<str>,
    /// From where, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<str>>,
    /// What was done.
    pub act: Box<str>,
    /// To whom or what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Box<str>>,
    /// What it was before.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub before: Value,
    /// What it is since.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub after: Value,
}

/// Acts, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AuditList {
    /// Them.
    pub entries: Vec<AuditEntry>,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn entries_in_full_and_in_short() {
        let full = AuditEntry {
            at: 1,
            actor: "operator".into(),
            from: Some("127.0.0.1".into()),
            act: "member.role".into(),
            about: Some("agent:bob".into()),
            before: "member".into(),
            after: "master".into(),
        };
        let short = AuditEntry { from: None, about: None, before: Value::Null, after: Value::Null, ..full.clone() };
        let json = r#"{"entries":[
            {"at":1,"actor":"operator","from":"127.0.0.1","act":"member.role","about":"agent:bob","before":"member",
             "after":"master"},
            {"at":1,"actor":"operator","act":"member.role"}]}"#;
        check(&full, &serde_json::from_str::<Value>(json).unwrap()["entries"][0].to_string());
        check(&AuditList { entries: vec![full, short] }, json);
    }
}
