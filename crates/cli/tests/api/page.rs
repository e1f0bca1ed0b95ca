//! The page `docs/api.md`, from the document and from what the examples gave.

use super::Tried;
use super::examples::{Body, EXAMPLES, Example};
use rialto_carrier::operations::{Access, Op, scoped_path};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const HEAD: &str = "# The HTTP API

Made by `UPDATE_EXPECT=1 cargo test -p rialto-cli --test api`, which types every example against a node; not to be edited by
hand. The same for programs, with every schema, is served as `/openapi.json`; what goes over WebSockets and server-sent events
is in `/asyncapi.json`.

Answers are `{\"code\":0,\"message\":\"ok\",\"data\":…}` unless something else is shown, refusals are

```json
{\"code\":404,\"message\":\"network_not_found: no such network here\",\"data\":null,
 \"error\":{\"code\":\"network_not_found\",\"message\":\"no such network here\",\"event_id\":null,\"retryable\":false}}
```

with the status of `code`, and `details.field` where one member of the request is at fault. An operation that has two paths
names its network in the second; in the first it is the one of the query's `network`, else the one that the credential is for,
else the default one. Any operation may be refused with 400 (it cannot be read), 403 (its host or origin is not allowed), 429
(come back after `Retry-After` seconds), 500 and 503; those that take a credential with 401, 403 and 404; those that take a body
with 408 and 413.

In the examples `$URL` is where the node listens, `$TOKEN` the network's token, `$ADMIN` the operator's secret (`rialto up`
prints the one and keeps the other in `run.json`), `$SESSION` the `session_id` that joining gave, and other names what
an answer before has under such a name. `…` stands for what is long, secret or different each time.
";

/// Whose an operation is.
fn access(op: &Op) -> &'static str {
    match op.access {
        Access::Public => "anybody",
        Access::Network => "members, and holders of the network's credential",
        Access::Operator => "the operator",
    }
}

/// The page.
pub fn page(document: &Value, ops: &[&'static Op], tried: &BTreeMap<&str, Tried>) -> String {
    let mut out = HEAD.to_owned();
    for op in ops {
        let Some((example, came)) = EXAMPLES.iter().find(|e| e.id == op.id).zip(tried.get(op.id)) else { continue };
        let _ = write!(out, "\n## {}\n\n", op.summary);
        for path in std::iter::once(op.path.to_owned()).chain(scoped_path(op)) {
            let _ = writeln!(out, "`{} {}`  ", op.method.to_uppercase(), path.replace("{*", "{"));
        }
        let _ = writeln!(out, "For {}; `{}` in the document.", access(op), op.id);
        let described = &document["paths"][op.path.replace("{*", "{")][op.method];
        write_parameters(&mut out, document, described);
        let _ = write!(out, "\n```console\n$ {}\n```\n", command(op, example));
        let _ = write!(out, "\n{}", answer(came));
    }
    out
}

fn write_parameters(out: &mut String, document: &Value, described: &Value) {
    let mut rows: Vec<(String, &str, String)> = Vec::new();
    for parameter in described["parameters"].as_array().into_iter().flatten() {
        let place = parameter["in"].as_str().unwrap_or_default();
        let text = parameter["description"].as_str().unwrap_or_default();
        if place != "path" {
            rows.push((parameter["name"].as_str().unwrap_or_default().to_owned(), place, text.to_owned()));
        }
    }
    let content = described["requestBody"]["content"].as_object().into_iter().flatten().next();
    if let Some((_, content)) = content {
        let schema = &content["schema"];
        let schema = schema["anyOf"].get(0).unwrap_or(schema);
        let schema = resolved(document, schema);
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let text = member["description"].as_str().unwrap_or_default();
            let needed = schema["required"].as_array().is_some_and(|list| list.contains(&Value::from(name.as_str())));
            rows.push((name.clone(), if needed { "body, required" } else { "body" }, text.to_owned()));
        }
    }
    if rows.is_empty() {
        return;
    }
    out.push_str("\n| name | in | |\n|---|---|---|\n");
    for (name, place, text) in rows {
        let _ = writeln!(out, "| `{name}` | {place} | {} |", text.replace('\n', " ").replace('|', "\\|"));
    }
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    }
}

/// The example as it is typed.
fn command(op: &Op, example: &Example) -> String {
    let mut out = "curl".to_owned();
    let method = op.method.to_uppercase();
    let is_usual =
        matches!((method.as_str(), example.body), ("GET", _) | ("POST", Body::Text(_) | Body::Form(_) | Body::File));
    if !is_usual {
        let _ = write!(out, " -X {method}");
    }
    let _ = write!(out, " \"$URL{}\"", example.path);
    if !example.who.is_empty() {
        let _ = write!(out, " -H \"Authorization: Bearer ${}\"", example.who);
    }
    for (name, value) in example.headers {
        let _ = write!(out, " -H '{name}: {value}'");
    }
    match example.body {
        Body::None => {}
        // A shell puts what a name stands for only between double quotes.
        Body::Text(text) if text.contains('$') => {
            let _ = write!(out, " \\\n    -d \"{}\"", text.replace('"', "\\\""));
        }
        Body::Text(text) => {
            let _ = write!(out, " \\\n    -d '{text}'");
        }
        Body::Form(_) => out.push_str(" -F file=@notes.txt"),
        Body::File => out.push_str(" --data-binary @lab.export"),
    }
    out
}

/// What came, without what is different each time.
fn answer(came: &Tried) -> String {
    let Some(body) = &came.body else {
        return format!("{}, and the connection stays open.\n", came.status);
    };
    let kind = came.content_type.split(';').next().unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    match kind {
        "application/json" => {
            let value: Value = serde_json::from_str(&text).unwrap();
            let shown = value.get("data").filter(|_| value.get("code").is_some()).unwrap_or(&value);
            let shown = if value.get("openapi").or(value.get("asyncapi")).is_some() {
                outline(&value)
            } else {
                steady(shown, "", &came.names)
            };
            let what = if value.get("data").is_some() { "`data` is" } else { "the answer is" };
            format!("{}, {what}\n\n```json\n{}\n```\n", came.status, serde_json::to_string_pretty(&shown).unwrap())
        }
        "application/x-ndjson" => {
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let keys: Vec<String> = lines.filter_map(|line| line.as_object()?.keys().next().cloned()).collect();
            format!("{}, lines of JSON; the last one has `{}`.\n", came.status, keys.last().map_or("", String::as_str))
        }
        "text/event-stream" => format!("{}, `{kind}` that ends with the unit.\n", came.status),
        "text/plain" if text.starts_with('#') => {
            let first: Vec<&str> = text.lines().take(1).collect();
            format!("{}\n\n```text\n{}\n…\n```\n", came.status, first.join("\n"))
        }
        "application/octet-stream" => format!("{}, a file.\n", came.status),
        _ => format!("{}, `{kind}`:\n\n```text\n{text}\n```\n", came.status),
    }
}

/// A document by its members alone.
fn outline(document: &Value) -> Value {
    let members = document.as_object().into_iter().flatten();
    let short = |value: &Value| if value.is_string() { value.clone() } else { "…".into() };
    Value::Object(members.map(|(name, value)| (name.clone(), short(value))).collect())
}

/// Members whose numbers are different each time.
const UNSTEADY: [&str; 23] = [
    "seq",
    "last_seq",
    "first_seq",
    "head",
    "purged",
    "bytes",
    "uptime_s",
    "uptime_seconds",
    "bytes_used",
    "events",
    "number",
    "session",
    "pending",
    "revision",
    "indexed_through",
    "agents_online",
    "event_count",
    "message_count",
    "port",
    "window_ms",
    "queue",
    "min",
    "next",
];

/// A value without what is different each time; of a list the first only.
fn steady(value: &Value, key: &str, names: &BTreeMap<String, String>) -> Value {
    match value {
        Value::Number(n) if n.as_u64().is_some_and(|n| n > 1_000_000_000_000) => 1_767_225_600_000_u64.into(),
        Value::Number(_) if UNSTEADY.contains(&key) => 7.into(),
        Value::String(text) if key == "detail" || key == "next_cursor" || key == "version" => {
            if text.len() > 40 || key == "next_cursor" { "…".into() } else { text.clone().into() }
        }
        Value::String(text) => plain(text, names).into(),
        Value::Array(list) => {
            let simple = list.iter().all(|item| !item.is_object() && !item.is_array());
            let most = if simple && list.len() <= 12 { list.len() } else { 1 };
            let mut shown: Vec<Value> = list.iter().take(most).map(|item| steady(item, key, names)).collect();
            if list.len() > most {
                shown.push("…".into());
            }
            shown.into()
        }
        Value::Object(map) => {
            let each = map.iter().map(|(name, value)| (plain(name, names), steady(value, name, names)));
            Value::Object(each.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A text with names for what has one, and without what is made at random.
fn plain(text: &str, names: &BTreeMap<String, String>) -> String {
    if text.len() == 24 && text.ends_with('Z') && text.chars().nth(10) == Some('T') {
        return "2026-01-01T00:00:00.000Z".to_owned();
    }
    let named = names
        .iter()
        .rev()
        .fold(text.to_owned(), |text, (name, value)| text.replace(value.as_str(), &format!("${name}")));
    let mut out = String::new();
    for word in named.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-' && c != '$') {
        let (body, end) = match word.char_indices().last() {
            Some((at, c)) if !c.is_ascii_alphanumeric() && c != '_' && c != '-' && c != '$' => word.split_at(at),
            _ => (word, ""),
        };
        let random = body.len() >= 40 || body.len() >= 20 && body.chars().any(|c| c.is_ascii_digit());
        if random && !body.contains('$') {
            let prefix = ["work_", "inv_", "direct_", "session-"].into_iter().find(|prefix| body.starts_with(prefix));
            out.push_str(prefix.unwrap_or_default());
            out.push('…');
        } else {
            out.push_str(body);
        }
        out.push_str(end);
    }
    out
}
