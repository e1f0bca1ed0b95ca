//! The report of `rialto bench` for people.

use super::table as columns;
use crate::out::Paint;
use rialto_bench::{Change, Compared, Comparison, Host, Report, Row, RowId, Verdict};

/// The host in a line, goals and rows in a table, and what is to be known about them.
pub(crate) fn table(report: &Report, paint: Paint) -> String {
    let peer = report.host.nats.as_deref().unwrap_or("none");
    let mut out = format!("{}, nats-server {peer}\n\n", host_line(&report.host));
    let head = ["goal", "what", "size", "measured", "unit", "peer", "ratio", "gate", "stretch", "verdict"];
    let rows: Vec<Vec<String>> = report.goals.iter().chain(&report.rows).map(cells).collect();
    out.push_str(&columns::table(&head, &rows));
    let notes: Vec<String> = report.goals.iter().chain(&report.rows).filter_map(note).collect();
    if !notes.is_empty() {
        out.push('\n');
        out.push_str(&paint.dim(&notes.join("\n")));
        out.push('\n');
    }
    out
}

fn host_line(host: &Host) -> String {
    format!(
        "{}, {} cores, {}, {} on {}, load {}, rialto {}",
        host.cpu,
        host.cores,
        super::bytes(host.memory_bytes),
        host.system,
        host.file_system,
        host.load,
        host.rialto,
    )
}

/// Two builds side by side.
pub(crate) fn comparison_table(comparison: &Comparison, paint: Paint) -> String {
    let mut out = format!("{}, against {}\n\n", host_line(&comparison.host), comparison.against.display());
    let head = ["what", "size", "new", "old", "unit", "ratio", "noise", "verdict"];
    let cells = |row: &Compared| {
        vec![
            row.name.clone(),
            row.size.map(|size| size.to_string()).unwrap_or_default(),
            value(row.new),
            value(row.old),
            row.unit.to_owned(),
            value(row.ratio),
            row.noise.map(|noise| format!("±{noise:.2}")).unwrap_or_default(),
            match row.change {
                Change::Worse => "WORSE".to_owned(),
                Change::Same => "same".to_owned(),
                Change::Better => "better".to_owned(),
                Change::Failed => "FAILED".to_owned(),
            },
        ]
    };
    out.push_str(&columns::table(&head, &comparison.rows.iter().map(cells).collect::<Vec<_>>()));
    out.push('\n');
    out.push_str(
        &paint.dim("above 1 the new build is better; a row is worse or better when it is so by 5 % beyond its noise"),
    );
    out.push('\n');
    out
}

/// The rows that got worse or could not be measured, a line each.
pub(crate) fn got_worse(comparison: &Comparison) -> String {
    let line = |row: &Compared| {
        let size = row.size.map(|size| format!(", {size} B")).unwrap_or_default();
        let why = match &row.note {
            Some(note) => note.clone(),
            None => format!("{} of what it was, ±{}", value(row.ratio), value(row.noise)),
        };
        format!("{}{size}: {why}", row.name)
    };
    let bad = comparison.rows.iter().filter(|row| matches!(row.change, Change::Worse | Change::Failed));
    bad.map(line).collect::<Vec<_>>().join("\n")
}

/// The rows that do not hold, a line each.
pub(crate) fn wrong(report: &Report) -> String {
    let line = |row: &Row| {
        let why = match row.verdict {
            Some(Verdict::Skip) => format!("not measured: {}", row.note.as_deref().unwrap_or("no reason given")),
            _ if row.measured.is_none() => row.note.clone().unwrap_or_default(),
            _ => format!("{} where {} is wanted", value(row.ratio.or(row.measured)), value(row.gate)),
        };
        format!("{} {}: {why}", label(row), row.name)
    };
    report.wrong().map(line).collect::<Vec<_>>().join("\n")
}

fn label(row: &Row) -> String {
    match &row.id {
        RowId::Goal(number) => number.to_string(),
        RowId::Row(_) => "-".to_owned(),
    }
}

fn cells(row: &Row) -> Vec<String> {
    let verdict = match row.verdict {
        None => "",
        Some(Verdict::Pass) => "pass",
        Some(Verdict::Stretch) => "stretch",
        Some(Verdict::Fail) => "FAIL",
        Some(Verdict::Skip) => "skip",
    };
    vec![
        label(row),
        row.name.clone(),
        row.size.map(|size| size.to_string()).unwrap_or_default(),
        value(row.measured),
        row.unit.to_owned(),
        value(row.peer),
        value(row.ratio),
        value(row.gate),
        value(row.stretch),
        verdict.to_owned(),
    ]
}

fn note(row: &Row) -> Option<String> {
    let size = row.size.map(|size| format!(", {size} B")).unwrap_or_default();
    row.note.as_ref().map(|note| format!("{} {}{size}: {note}", label(row), row.name))
}

/// Three digits or so: more would only pretend.
fn value(number: Option<f64>) -> String {
    let Some(number) = number else { return String::new() };
    match number.abs() {
        n if n >= 1e6 => format!("{:.2}M", number / 1e6),
        n if n >= 1e4 => format!("{:.1}k", number / 1e3),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let all = [0.123, 1.5, 12.34, 150.7, 12_345.0, 2_345_678.0].map(|n| value(Some(n)));
        assert_eq!(all, ["0.12", "1.50", "12.3", "151", "12.3k", "2.35M"]);
        assert_eq!(value(None), "");
    }
}
