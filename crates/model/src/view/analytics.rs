//! What mod/analytics counted: never the text of an event.

use crate::Millis;
use schemars::JsonSchema;
use serde::Serialize;

/// Events of one type, or of all other types together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TypeCount {
    /// The type, or `other`.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// How many.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Events of one source, or of all others together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceCount {
    /// Its address, or `other`.
    pub source: Box<str>,
    /// How many.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Events to one kind of target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TargetCount {
    /// The kind.
    pub target: String,
    /// How many.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Events that one mod, or the core, refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RefusalCount {
    /// Who refused.
    #[serde(rename = "mod")]
    pub by: Box<str>,
    /// How many.
    pub events: u64,
}

/// Everything counted in one stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountsView {
    /// Events.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Events that were refused.
    pub rejections: u64,
    /// The busiest types first.
    pub by_type: Vec<TypeCount>,
    /// The busiest sources first, where they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_source: Option<Vec<SourceCount>>,
    /// By kind of target.
    pub by_target: Vec<TargetCount>,
    /// Who refused.
    pub by_mod: Vec<RefusalCount>,
}

/// What was counted, in the window and in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnalyticsView {
    /// Since when all is counted.
    pub since: Millis,
    /// Length of the window, in seconds.
    pub window_s: u64,
    /// How much of the window has been counted.
    pub window_ms: Millis,
    /// In the window.
    pub window: CountsView,
    /// In all.
    pub total: CountsView,
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn counts_in_full() {
        let window = CountsView {
            events: 2,
            bytes: 20,
            rejections: 1,
            by_type: vec![TypeCount { kind: "a.b".into(), events: 2, bytes: 20 }],
            by_source: Some(vec![SourceCount { source: "agent:ann".into(), events: 2, bytes: 20 }]),
            by_target: vec![TargetCount { target: "channel".to_owned(), events: 2, bytes: 20 }],
            by_mod: vec![RefusalCount { by: "core".into(), events: 1 }],
        };
        let view = AnalyticsView { since: 1, window_s: 60, window_ms: 5, window, total: CountsView::default() };
        let json = r#"{"since":1,"window_s":60,"window_ms":5,
            "window":{"events":2,"bytes":20,"rejections":1,"by_type":[{"type":"a.b","events":2,"bytes":20}],
                "by_source":[{"source":"agent:ann","events":2,"bytes":20}],
                "by_target":[{"target":"channel","events":2,"bytes":20}],"by_mod":[{"mod":"core","events":1}]},
            "total":{"events":0,"bytes":0,"rejections":0,"by_type":[],"by_target":[],"by_mod":[]}}"#;
        check(&view, json);
    }
}
