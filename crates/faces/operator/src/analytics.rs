//! What mod/analytics counted, as lines of `/metrics`.
//!
//! Counters have few labels. Types and sources come and go, so they are gauges of the window, and they are shown to the
//! operator alone: `/metrics` is public, and who is there is not.

use rialto_node::command::Look;
use rialto_node::{Caller, Network};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// A network that does not answer soon is left out: metrics matter most when something is stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// A family of lines: its name and kind, and where its values are: part, list, label, value.
struct Family {
    name: &'static str,
    kind: &'static str,
    operator: bool,
    part: &'static str,
    list: &'static str,
    label: &'static str,
    value: &'static str,
}

const FAMILIES: [Family; 5] = [
    family("events_total", "counter", "total", "by_target", "target", "events"),
    family("bytes_total", "counter", "total", "by_target", "target", "bytes"),
    family("rejections_total", "counter", "total", "by_mod", "mod", "events"),
    window("type_events", "by_type", "type"),
    window("source_events", "by_source", "source"),
];

const fn family(
    name: &'static str,
    kind: &'static str,
    part: &'static str,
    list: &'static str,
    label: &'static str,
    value: &'static str,
) -> Family {
    Family { name, kind, operator: false, part, list, label, value }
}

const fn window(name: &'static str, list: &'static str, label: &'static str) -> Family {
    Family { operator: true, ..family(name, "gauge", "window", list, label, "events") }
}

/// Writes the lines of every network that counts.
pub(crate) async fn lines(networks: &[Network], operator: bool, out: &mut String) {
    let caller = Arc::new(Caller { operator: true, ..Caller::default() });
    let mut reports: Vec<(&str, Value)> = Vec::new();
    for network in networks.iter().filter(|n| n.is_counted()) {
        if let Ok(Ok(report)) = tokio::time::timeout(PATIENCE, network.session(&caller).look(Look::Analytics)).await {
            reports.push((network.id(), report));
        }
    }
    if reports.is_empty() {
        return;
    }
    for family in FAMILIES.iter().filter(|f| operator || !f.operator) {
        let _ = writeln!(out, "# TYPE rialto_analytics_{} {}", family.name, family.kind);
        for (network, report) in &reports {
            write(family, network, report, out);
        }
    }
}

fn write(family: &Family, network: &str, report: &Value, out: &mut String) {
    let list = report.get(family.part).and_then(|part| part.get(family.list)).and_then(Value::as_array);
    for row in list.into_iter().flatten() {
        let name = row.get(family.label).and_then(Value::as_str).unwrap_or_default();
        let value = row.get(family.value).and_then(Value::as_u64).unwrap_or_default();
        let Family { name: of, label, .. } = family;
        let _ = writeln!(out, "rialto_analytics_{of}{{network=\"{network}\",{label}=\"{}\"}} {value}", escaped(name));
    }
}

/// A label's value as Prometheus wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_family_finds_its_values() {
        let counts = json!({
            "by_target": [{ "target": "channel", "events": 3, "bytes": 99 }], "by_mod": [{ "mod": "mod/auth", "events": 2 }],
            "by_type": [{ "type": "a.b", "events": 3 }], "by_source": [{ "source": "a\"\\b", "events": 1 }],
        });
        let report = json!({ "window": counts, "total": counts });
        let mut out = String::new();
        for family in &FAMILIES {
            write(family, "n1", &report, &mut out);
        }
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines,
            [
                r#"rialto_analytics_events_total{network="n1",target="channel"} 3"#,
                r#"rialto_analytics_bytes_total{network="n1",target="channel"} 99"#,
                r#"rialto_analytics_rejections_total{network="n1",mod="mod/auth"} 2"#,
                r#"rialto_analytics_type_events{network="n1",type="a.b"} 3"#,
                r#"rialto_analytics_source_events{network="n1",source="a\"\\b"} 1"#,
            ]
        );
    }
}
