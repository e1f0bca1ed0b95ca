//! What mod/analytics counted, as lines of `/metrics`.
//!
//! Counters have few labels. Types and sources come and go, so they are gauges of the window, and they are shown to the
//! operator alone: `/metrics` is public, and who is there is not.

use rialto_model::view::AnalyticsView;
use rialto_node::{Caller, Network};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// A network that does not answer soon is left out: metrics matter most when something is stuck.
const PATIENCE: Duration = Duration::from_secs(1);

/// A family of lines: its name and kind, its label, and where its values are.
struct Family {
    name: &'static str,
    kind: &'static str,
    operator: bool,
    label: &'static str,
    values: fn(&AnalyticsView) -> Vec<(&str, u64)>,
}

const FAMILIES: [Family; 5] = [
    Family {
        name: "events_total",
        kind: "counter",
        operator: false,
        label: "target",
        values: |report| report.total.by_target.iter().map(|row| (row.target.as_str(), row.events)).collect(),
    },
    Family {
        name: "bytes_total",
        kind: "counter",
        operator: false,
        label: "target",
        values: |report| report.total.by_target.iter().map(|row| (row.target.as_str(), row.bytes)).collect(),
    },
    Family {
        name: "rejections_total",
        kind: "counter",
        operator: false,
        label: "mod",
        values: |report| report.total.by_mod.iter().map(|row| (row.by.as_ref(), row.events)).collect(),
    },
    Family {
        name: "type_events",
        kind: "gauge",
        operator: true,
        label: "type",
        values: |report| report.window.by_type.iter().map(|row| (row.kind.as_ref(), row.events)).collect(),
    },
    Family {
        name: "source_events",
        kind: "gauge",
        operator: true,
        label: "source",
        values: |report| {
            report.window.by_source.iter().flatten().map(|row| (row.source.as_ref(), row.events)).collect()
        },
    },
];

/// Writes the lines of every network that counts.
pub(crate) async fn lines(networks: &[Network], operator: bool, out: &mut String) {
    let caller = Arc::new(Caller { operator: true, ..Caller::default() });
    let mut reports: Vec<(&str, AnalyticsView)> = Vec::new();
    for network in networks.iter().filter(|n| n.is_counted()) {
        if let Ok(Ok(report)) = tokio::time::timeout(PATIENCE, network.session(&caller).analytics()).await {
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

fn write(family: &Family, network: &str, report: &AnalyticsView, out: &mut String) {
    let Family { name: of, label, values, .. } = family;
    for (name, value) in values(report) {
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
    use rialto_model::view::{CountsView, RefusalCount, SourceCount, TargetCount, TypeCount};

    #[test]
    fn each_family_finds_its_values() {
        let counts = CountsView {
            by_target: vec![TargetCount { target: "channel".to_owned(), events: 3, bytes: 99 }],
            by_mod: vec![RefusalCount { by: "mod/auth".into(), events: 2 }],
            by_type: vec![TypeCount { kind: "a.b".into(), events: 3, bytes: 0 }],
            by_source: Some(vec![SourceCount { source: "a\"\\b".into(), events: 1, bytes: 0 }]),
            ..CountsView::default()
        };
        let report = AnalyticsView { window: counts.clone(), total: counts, ..AnalyticsView::default() };
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
