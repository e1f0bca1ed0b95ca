//! Whether a value is as a document says.

use serde_json::Value;

/// What in a value is not as its schema says it, and what the schema does not mention. A schema may refer to the document.
pub fn faults(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let draft = if document.get("asyncapi").is_some() { "draft-07/schema#" } else { "draft/2020-12/schema" };
    schema["$schema"] =
        format!("{}://json-schema.org/{draft}", if draft.contains("07") { "http" } else { "https" }).into();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong = validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path()));
    // What no schema mentions is an error here, though clients have to live with it.
    let unknown = unknown_members(&schema, &schema, value);
    wrong.chain(unknown.into_iter().map(|member| format!("no schema mentions {member}"))).collect()
}

/// Members of a value that no part of its schema mentions.
fn unknown_members(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    collect(root, schema, &mut parts);
    let mut unknown = Vec::new();
    match value {
        Value::Object(map) => {
            // A schema without members takes any.
            let open = parts.iter().all(|part| part.get("properties").is_none());
            let extra = parts.iter().find_map(|part| part.get("additionalProperties").filter(|s| s.is_object()));
            for (name, inner) in map {
                let members: Vec<&Value> = parts.iter().filter_map(|part| part.get("properties")?.get(name)).collect();
                if members.is_empty() && !open && extra.is_none() {
                    unknown.push(name.clone());
                }
                // One of the choices has to know all that is inside.
                let inside = members.iter().copied().chain(extra.filter(|_| members.is_empty()));
                let found = inside.map(|member| unknown_members(root, member, inner)).min_by_key(Vec::len);
                unknown.extend(found.into_iter().flatten().map(|inside| format!("{name}.{inside}")));
            }
        }
        Value::Array(list) => {
            for item in list {
                let inside = parts.iter().filter_map(|part| part.get("items"));
                let found = inside.map(|items| unknown_members(root, items, item)).min_by_key(Vec::len);
                unknown.extend(found.into_iter().flatten().map(|inside| format!("[].{inside}")));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    unknown
}

/// A schema with everything it refers to and every choice it gives.
fn collect<'s>(root: &'s Value, schema: &'s Value, parts: &mut Vec<&'s Value>) {
    parts.push(schema);
    if let Some(referred) = schema["$ref"].as_str().and_then(|to| root.pointer(to.trim_start_matches('#'))) {
        collect(root, referred, parts);
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        for part in schema[choice].as_array().into_iter().flatten() {
            collect(root, part, parts);
        }
    }
}
