//! Any JSON for people: names and values, lists of objects as tables, times as local times.

use super::{local_time, safe_line, table::table};
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

/// A value as indented lines.
pub(crate) fn lines(value: &Value, zone: &TimeZone) -> String {
    let mut out = String::new();
    block(value, 0, zone, &mut out);
    out
}

/// One value in the space of a table cell.
pub(crate) fn cell(value: &Value, zone: &TimeZone, name: &str) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(ms) if is_time(name) && ms > 0 => local_time(ms, zone),
            Some(_) | None => number.to_string(),
        },
        Value::String(text) => safe_line(text),
        Value::Array(items) => {
            let cells: Vec<String> = items.iter().map(|item| cell(item, zone, "")).collect();
            if cells.is_empty() { "-".to_owned() } else { cells.join(", ") }
        }
        Value::Object(_) => safe_line(&value.to_string()),
    }
}

/// A text member of an object; `-` when it is missing.
pub(crate) fn text_of(value: &Value, name: &str, zone: &TimeZone) -> String {
    value.get(name).map_or_else(|| "-".to_owned(), |value| cell(value, zone, name))
}

/// The list under `name`, or the value itself when it is a list.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value.get(name).unwrap_or(value);
    list.as_array().map_or(&[], Vec::as_slice)
}

fn is_time(name: &str) -> bool {
    name.ends_with("_at")
        || name.ends_with("_until")
        || name == "since"
        || name == "at"
        || name == "timestamp"
        || name == "server_time"
}

fn block(value: &Value, depth: usize, zone: &TimeZone, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => object(map, depth, zone, out),
        Value::Array(items) => {
            if let Some(text) = objects(items, zone) {
                out.extend(text.lines().map(|line| format!("{indent}{line}\n")));
            } else {
                for item in items {
                    out.push_str(&format!("{indent}{}\n", cell(item, zone, "")));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&format!("{indent}{}\n", cell(value, zone, "")));
        }
    }
}

fn object(map: &Map<String, Value>, depth: usize, zone: &TimeZone, out: &mut String) {
    let indent = "  ".repeat(depth);
    let flat = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => !items.iter().any(Value::is_object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    let width = map.iter().filter(|(_, v)| flat(v)).map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in map {
        let shown = safe_line(name);
        if flat(value) {
            let padding = " ".repeat(width.saturating_sub(name.chars().count()));
            out.push_str(&format!("{indent}{shown}{padding}  {}\n", cell(value, zone, name)));
        } else {
            out.push_str(&format!("{indent}{shown}\n"));
            block(value, depth + 1, zone, out);
        }
    }
}

/// A list of objects as a table over all their members.
fn objects(items: &[Value], zone: &TimeZone) -> Option<String> {
    if items.is_empty() || !items.iter().all(Value::is_object) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in items.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let row = |item: &Value| names.iter().map(|name| text_of(item, name, zone)).collect();
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    Some(table(&names, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn nested_values() {
        let value = json!({
            "event_id": "e1",
            "committed_at": 1_767_225_600_000_u64,
            "tags": ["a", "b"],
            "empty": {},
            "mods": {"revision": 3},
            "recipients": [{"address": "agent:a", "rung": "acked"}, {"address": "agent:bob", "attempts": 2}],
        });
        expect![[r#"
            committed_at  2026-01-01 00:00:00
            empty         {}
            event_id      e1
            mods
              revision  3
            recipients
              address    rung   attempts
              agent:a    acked  -
              agent:bob  -      2
            tags          a, b
        "#]]
        .assert_eq(&lines(&value, &TimeZone::UTC));
    }

    #[test]
    fn lists_are_found_by_name_or_bare() {
        assert_eq!(list(&json!({"networks": [1, 2]}), "networks").len(), 2);
        assert_eq!(list(&json!([1]), "networks").len(), 1);
        assert_eq!(list(&json!({}), "networks").len(), 0);
        assert_eq!(lines(&json!("x\u{1b}"), &TimeZone::UTC), "x\u{fffd}\n");
    }
}
