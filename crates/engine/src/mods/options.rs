//! The settings each standard mod knows (OpenAgents sheet, section 9.3): one table for checks, listings and documents.
//!
//! Invariant: what the operator sets is known and of its kind; a typing mistake is refused, not ignored.
//! Not here: what the settings do (each mod), and settings stored before they were checked, which mods read leniently.

use rialto_model::access::{Operation, Rule};
use rialto_model::{ErrorCode, Fault, limits};
use serde_json::{Map, Value};

/// What a setting holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionKind {
    /// True or false.
    Flag,
    /// A number, at least and at most.
    Number(f64, f64),
    /// A whole number, at least and at most.
    Whole(u64, u64),
    /// A list of globs.
    Globs,
    /// Verification levels by glob.
    Levels,
    /// {rate, burst}.
    Limit,
    /// {rate, burst} by glob.
    Limits,
    /// Access rules by operation.
    Rules,
    /// Any JSON object.
    Object,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One setting of a mod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Its name in `config`.
    pub name: &'static str,
    /// What it holds.
    pub kind: OptionKind,
    /// The value it has when it is not set, as JSON.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

const fn setting(name: &'static str, kind: OptionKind, default: &'static str, doc: &'static str) -> Setting {
    Setting { name, kind, default, doc }
}

const RATE_MAX: f64 = 1e6;
const DAYS_MAX: f64 = 36_500.0;

const AUTH: &[Setting] = &[
    setting("recheck", OptionKind::Flag, "true", "Look with every event whether the credential still holds."),
    setting("require_level", OptionKind::Levels, "{}", "Verification level an event type needs, by glob."),
    setting("allow", OptionKind::Globs, "[]", "Addresses that may send; empty is everybody."),
    setting("deny", OptionKind::Globs, "[]", "Addresses that may not send."),
];
const RATE_LIMITER: &[Setting] = &[
    setting("rate", OptionKind::Number(0.001, RATE_MAX), "20", "Events a second per source."),
    setting("burst", OptionKind::Number(1.0, RATE_MAX), "60", "Events at once after a rest."),
    setting("per_type", OptionKind::Limits, "{}", "Further buckets by glob of the type."),
    setting("broadcast", OptionKind::Limit, r#"{"rate":2,"burst":10}"#, "A further bucket for events to everybody."),
    setting(
        "exempt",
        OptionKind::Globs,
        r#"["network.ping","network.event.ack","network.agent.leave"]"#,
        "Types that cost nothing.",
    ),
];
const ACCESS_CONTROL: &[Setting] = &[
    setting(
        "default_permissions",
        OptionKind::Rules,
        r#"{"read":"network","write":"owner","invoke":"network","admin":"owner"}"#,
        "Rules of resources that do not say.",
    ),
    setting("hide", OptionKind::Flag, "true", "What one may not read does not exist, instead of being denied."),
];
const ENRICHMENT: &[Setting] = &[
    setting("agent_info", OptionKind::Flag, "true", "Adds role, level and kind of the source."),
    setting("timestamps", OptionKind::Flag, "true", "Adds when the event came in."),
    setting("trace", OptionKind::Flag, "true", "Adds a traceparent where there is none."),
    setting("static", OptionKind::Object, "{}", "Metadata added to every event that does not say otherwise."),
];
const PERSISTENCE: &[Setting] = &[
    setting("retention_days", OptionKind::Number(0.0, DAYS_MAX), "30", "Days history keeps an event; 0 is for ever."),
    setting("max_events", OptionKind::Whole(0, u64::MAX), "0", "Events history keeps; 0 is all."),
    setting(
        "max_bytes",
        OptionKind::Whole(0, u64::MAX),
        "0",
        "Bytes of events history keeps, counted from when it is set; 0 is all.",
    ),
    setting("skip", OptionKind::Globs, "[]", "Types history does not keep."),
    setting("purge_interval_s", OptionKind::Number(0.0, DAYS_MAX * 86_400.0), "3600", "Seconds between purges."),
];
const WORKSPACE: &[Setting] = &[
    setting("mention_routing", OptionKind::Flag, "true", "Writes into each message in a channel who should answer it."),
    setting(
        "agent_default",
        OptionKind::Word(&["master", "none"]),
        r#""master""#,
        "Who answers an agent that mentions nobody: the channel's master, or none.",
    ),
    setting(
        "loop_limit",
        OptionKind::Whole(1, 1_000_000),
        "20",
        "Agent messages in a row after which nobody should answer.",
    ),
    setting("auto_title", OptionKind::Flag, "true", "Titles a session after its first message of a human."),
    setting(
        "auto_archive_days",
        OptionKind::Whole(0, 36_500),
        "30",
        "Days a session may rest before it is archived; 0 is for ever.",
    ),
    setting(
        "status_ttl_s",
        OptionKind::Whole(1, 36_500 * 86_400),
        "86400",
        "Seconds messages of kind status and thinking are kept.",
    ),
];
const ANALYTICS: &[Setting] = &[
    setting("window_s", OptionKind::Whole(1, 86_400), "60", "Seconds of the moving window."),
    setting(
        "top_n",
        OptionKind::Whole(1, limits::ANALYTICS_TOP_MAX as u64),
        "20",
        "Names shown by type and by source; the rest is `other`.",
    ),
    setting("per_agent", OptionKind::Flag, "true", "Counts by source too."),
];

/// The settings of a standard mod; none for names this build does not have.
pub fn of(name: &str) -> Option<&'static [Setting]> {
    match name {
        "auth" => Some(AUTH),
        "rate-limiter" => Some(RATE_LIMITER),
        "access-control" => Some(ACCESS_CONTROL),
        "enrichment" => Some(ENRICHMENT),
        "workspace" => Some(WORKSPACE),
        "persistence" => Some(PERSISTENCE),
        "analytics" => Some(ANALYTICS),
        _ => None,
    }
}

/// Checks the settings of a standard mod: known, and of their kind.
pub fn check(name: &str, config: &Map<String, Value>) -> Result<(), Fault> {
    let known = of(name).unwrap_or_default();
    for (key, value) in config {
        let wrong = |text: String| {
            Err(Fault::new(ErrorCode::InvalidArgument, format!("config.{key}: {text}")).field(&format!("config.{key}")))
        };
        match known.iter().find(|setting| setting.name == key) {
            None => {
                let names: Vec<&str> = known.iter().map(|setting| setting.name).collect();
                return wrong(format!("mod/{name} has no such setting; it has {}", names.join(", ")));
            }
            Some(setting) if !setting.kind.takes(value) => return wrong(format!("expected {}", setting.kind)),
            Some(_) => {}
        }
    }
    Ok(())
}

impl OptionKind {
    /// Whether a value is of this kind.
    pub fn takes(self, value: &Value) -> bool {
        match self {
            OptionKind::Flag => value.is_boolean(),
            OptionKind::Number(least, most) => value.as_f64().is_some_and(|n| (least..=most).contains(&n)),
            OptionKind::Whole(least, most) => value.as_u64().is_some_and(|n| (least..=most).contains(&n)),
            OptionKind::Globs => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            OptionKind::Levels => {
                value.as_object().is_some_and(|map| map.values().all(|level| OptionKind::Whole(0, 3).takes(level)))
            }
            OptionKind::Limit => {
                value.as_object().is_some_and(|map| map.iter().all(|(key, value)| is_limit(key, value)))
            }
            OptionKind::Limits => {
                value.as_object().is_some_and(|map| map.values().all(|limit| OptionKind::Limit.takes(limit)))
            }
            OptionKind::Rules => value.as_object().is_some_and(|map| map.iter().all(|(key, rule)| is_rule(key, rule))),
            OptionKind::Object => value.is_object(),
            OptionKind::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        }
    }
}

fn is_rule(operation: &str, rule: &Value) -> bool {
    Operation::ALL.iter().any(|op| op.as_str() == operation) && Rule::from_json(rule).is_ok()
}

fn is_limit(key: &str, value: &Value) -> bool {
    RATE_LIMITER.iter().any(|s| s.name == key && matches!(s.kind, OptionKind::Number(..)) && s.kind.takes(value))
}

impl std::fmt::Display for OptionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionKind::Flag => f.write_str("true or false"),
            OptionKind::Number(least, most) => write!(f, "a number from {least} to {most}"),
            OptionKind::Whole(least, u64::MAX) => write!(f, "a whole number from {least}"),
            OptionKind::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            OptionKind::Globs => f.write_str("a list of patterns"),
            OptionKind::Levels => f.write_str("an object of levels from 0 to 3 by pattern"),
            OptionKind::Limit => f.write_str("an object of rate and burst"),
            OptionKind::Limits => f.write_str("an object of {rate, burst} by pattern"),
            OptionKind::Rules => f.write_str("an object of access rules for read, write, invoke and admin"),
            OptionKind::Object => f.write_str("an object"),
            OptionKind::Word(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_of_their_kind_and_documented() {
        for name in crate::mods::STANDARD {
            for setting in of(name).unwrap() {
                let default: Value = serde_json::from_str(setting.default).unwrap();
                assert!(setting.kind.takes(&default), "{name} {}", setting.name);
                assert!(setting.doc.ends_with('.'), "{name} {}", setting.name);
            }
        }
        assert_eq!(of("mystery"), None);
    }

    #[test]
    fn what_is_taken_and_what_is_refused() {
        let table = [
            ("auth", json!({ "recheck": false, "require_level": { "x.*": 3 }, "deny": ["agent:a"] }), ""),
            ("auth", json!({ "recheck": 1 }), "config.recheck: expected true or false"),
            ("auth", json!({ "require_level": { "x.*": 4 } }), "an object of levels from 0 to 3 by pattern"),
            ("auth", json!({ "deny": "agent:a" }), "config.deny: expected a list of patterns"),
            ("auth", json!({ "denied": [] }), "no such setting; it has recheck, require_level, allow, deny"),
            (
                "rate-limiter",
                json!({ "rate": 0.5, "broadcast": { "rate": 1 }, "per_type": { "a.*": { "burst": 2 } } }),
                "",
            ),
            ("rate-limiter", json!({ "rate": 0 }), "expected a number from 0.001 to 1000000"),
            ("rate-limiter", json!({ "broadcast": { "rate": 1, "exempt": [] } }), "an object of rate and burst"),
            ("rate-limiter", json!({ "per_type": { "a.*": 2 } }), "an object of {rate, burst} by pattern"),
            (
                "access-control",
                json!({ "hide": false, "default_permissions": { "write": ["group/g", "agent:b"] } }),
                "",
            ),
            ("access-control", json!({ "default_permissions": { "write": "role:boss" } }), "an object of access rules"),
            ("access-control", json!({ "default_permissions": { "own": "owner" } }), "an object of access rules"),
            ("enrichment", json!({ "static": { "team": "a" } }), ""),
            ("enrichment", json!({ "static": [] }), "expected an object"),
            ("workspace", json!({ "agent_default": "none", "loop_limit": 3 }), ""),
            ("workspace", json!({ "agent_default": "all" }), "expected one of master, none"),
            ("persistence", json!({ "retention_days": 0, "max_events": 10 }), ""),
            ("persistence", json!({ "max_events": 0.5 }), "expected a whole number from 0"),
            ("analytics", json!({ "top_n": limits::ANALYTICS_TOP_MAX }), ""),
            ("analytics", json!({ "top_n": limits::ANALYTICS_TOP_MAX + 1 }), "expected a whole number from 1 to 1000"),
        ];
        for (name, config, wrong) in table {
            let result = check(name, config.as_object().unwrap());
            match result {
                Ok(()) => assert_eq!(wrong, "", "{name} {config}"),
                Err(fault) => {
                    assert!(!wrong.is_empty() && fault.message.contains(wrong), "{name} {config}: {}", fault.message);
                    assert_eq!(fault.code, ErrorCode::InvalidArgument);
                }
            }
        }
    }
}
