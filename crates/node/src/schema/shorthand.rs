//! The short form of schemas: `{"query": "string", "limit": "integer?"}`.

use rialto_model::Fault;
use serde_json::{Map, Value, json};

use super::{graph, refused};

const WORDS: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "any"];
/// Keywords of schemas that could be taken for arguments: `{"type": "object", "title": "string"}` is a schema that says
/// little, not a tool with two arguments; `{"title": "string"}` is a tool with one.
const TEXT_KEYWORDS: [&str; 5] = ["type", "title", "description", "format", "$comment"];

/// A schema in full: the short form written out, everything else as it is.
pub(super) fn expanded(value: Value) -> Result<Value, Fault> {
    let Value::Object(members) = &value else { return Ok(value) };
    let typed = members.get("type").is_some_and(|t| !t.is_string() || t.as_str().is_some_and(is_type));
    let short: Option<Vec<_>> = members.iter().map(|(name, value)| Some((name, word(value)?))).collect();
    let Some(short) = short.filter(|short| !short.is_empty()) else {
        // A schema. But a slip of the pen in the short form would make one that checks nothing.
        let stray = members.iter().find(|(name, value)| !graph::is_keyword(name) && word(value).is_some());
        let Some((name, _)) = stray.filter(|_| !typed) else { return Ok(value) };
        let text = "mixes a JSON Schema and the short form, whose values are string, number, integer, boolean, array, \
                    object or any, with ? for what may be left out";
        return Err(refused(&format!("/{}", graph::escaped(name)), text));
    };
    if typed && members.keys().all(|name| TEXT_KEYWORDS.contains(&name.as_str())) {
        return Ok(value);
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, (kind, optional)) in short {
        properties.insert(name.clone(), if kind == "any" { json!({}) } else { json!({ "type": kind }) });
        if !optional {
            required.push(name.clone());
        }
    }
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

fn is_type(text: &str) -> bool {
    text == "null" || (text != "any" && WORDS.contains(&text))
}

/// A word of the short form, and whether it is optional.
fn word(value: &Value) -> Option<(&str, bool)> {
    let text = value.as_str()?;
    let (kind, optional) = text.strip_suffix('?').map_or((text, false), |kind| (kind, true));
    WORDS.contains(&kind).then_some((kind, optional))
}
