//! The seed's short way to write a tool's input: `{"query": "string", "limit": "integer?"}` (sheet, section 10).

use serde_json::{Map, Value, json};

const NAMES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "any"];

/// The type of a shorthand member, and whether it must be there.
fn member(value: &Value) -> Option<(&str, bool)> {
    let text = value.as_str()?;
    let (name, required) = text.strip_suffix('?').map_or((text, true), |name| (name, false));
    NAMES.contains(&name).then_some((name, required))
}

/// A schema as it is checked: shorthand becomes an object schema with its required members, anything else stays.
pub(super) fn expanded(schema: &Value) -> Value {
    // A member called `type` is the keyword: a schema of its own is likelier than a tool with such an input.
    let short = |map: &&Map<String, Value>| !map.is_empty() && !map.contains_key("type");
    let Some(members) = schema.as_object().filter(short) else { return schema.clone() };
    let Some(known) = members.iter().map(|(key, value)| Some((key, member(value)?))).collect::<Option<Vec<_>>>() else {
        return schema.clone();
    };
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, (name, must)) in known {
        let schema = if name == "any" { json!({}) } else { json!({ "type": name }) };
        properties.insert(key.clone(), schema);
        if must {
            required.push(json!(key));
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorthand_is_expanded_and_schemas_are_left_alone() {
        let short = json!({ "query": "string", "limit": "integer?", "more": "any?" });
        let long = json!({ "type": "object", "required": ["query"],
            "properties": { "query": { "type": "string" }, "limit": { "type": "integer" }, "more": {} } });
        assert_eq!(expanded(&short), long);
        for schema in [
            json!({}),
            json!(true),
            json!({ "type": "object" }),
            json!({ "query": "text" }),
            json!({ "a": "string", "b": 5 }),
        ] {
            assert_eq!(expanded(&schema), schema);
        }
    }
}
