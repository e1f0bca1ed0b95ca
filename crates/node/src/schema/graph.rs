//! A schema taken apart: every schema in it, and which others it applies to the same value or to what is inside.
//!
//! Refuses what cannot be bounded or must not be followed: references that leave the document, dynamic ones, embedded
//! documents, other dialects, too many of anything.

use std::collections::BTreeMap;

use rialto_model::Fault;
use serde_json::{Map, Value};

use super::limits::{SCHEMA_NODES_MAX, SCHEMA_PATTERNS_MAX, SCHEMA_REFS_MAX};
use super::{pattern, refused};

/// Dialects that may be named. All are read as 2020-12, so what changed its meaning since is refused.
const DIALECTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/schema",
];
/// What would not be understood the way it was meant, and why it is not taken.
const REFUSED: [(&str, &str); 6] = [
    ("$dynamicRef", "is not supported; use $ref"),
    ("$recursiveRef", "is not supported; use $ref"),
    ("$schema", "stands at the top only"),
    ("$id", "stands at the top only: a schema is one document"),
    ("dependencies", "is not in 2020-12; use dependentRequired or dependentSchemas"),
    ("additionalItems", "is not in 2020-12; use items beside prefixItems"),
];
/// Keywords with one schema for the value itself.
const HERE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords with a list of schemas for the value itself.
const HERE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Everything else that a schema may say.
const OTHERS: [&str; 44] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$ref",
    "$vocabulary",
    "additionalProperties",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "title",
    "type",
];
const OTHERS_MORE: [&str; 4] = ["unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly"];

/// Steps for a name of `required`.
const REQUIRED_STEPS: u64 = 3;
/// Steps for `multipleOf`, and where it is so small or large that the arithmetic is done with long numbers.
const MULTIPLE_STEPS: (u64, u64) = (8, 50);
/// Steps for every value inside of one whose items must be unique: arrays of up to 15 are compared pair by pair.
const UNIQUE_STEPS: u64 = 16;
/// Cost of one byte is counted in parts of a step.
pub(super) const BYTE_PARTS: u64 = 32;
/// Parts for a byte whose characters are counted, for one that is compared or hashed, and per state of a pattern.
const LENGTH_PARTS: u64 = 4;
const UNIQUE_PARTS: u64 = 16;
const STATE_PARTS: u64 = 10;
/// Bytes of an enumeration's text that are compared in one step.
const ENUM_BYTES: usize = 32;

/// One schema. Numbers are those of other nodes.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// JSON Pointer, for refusals.
    pub(super) path: String,
    /// Steps on the value itself.
    pub(super) steps: u64,
    /// Parts of a step per byte of the value, if it is a string.
    pub(super) byte_parts: u64,
    /// Parts of a step per byte of each key of the value.
    pub(super) key_parts: u64,
    /// Steps, and parts per byte, on each value inside, however deep.
    pub(super) inside: (u64, u64),
    /// Applied to the value itself.
    pub(super) here: Vec<usize>,
    /// At most one of them is applied to a member.
    pub(super) member_one: Vec<usize>,
    /// All of them may be applied to a member, or to its key, which is counted as a value.
    pub(super) member_all: Vec<usize>,
    /// At most one of them is applied to an item.
    pub(super) item_one: Vec<usize>,
    /// All of them may be applied to an item.
    pub(super) item_all: Vec<usize>,
    /// Looks at the schemas for the value itself once more, to learn what they have covered.
    pub(super) looks_back: bool,
    /// Decides by trying others, so that telling errors tries them again.
    pub(super) tries: bool,
}

/// All schemas of a document; the first is the document.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) patterns: usize,
}

/// Takes the dialect's name away: from here on it is 2020-12.
pub(super) fn check_dialect(schema: &mut Value) -> Result<(), Fault> {
    let members = match schema {
        Value::Object(members) => members,
        Value::Bool(_) => return Ok(()),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(refused("", "a schema is an object, true or false"));
        }
    };
    members.remove("$id"); // a name; nothing may point to it
    match members.remove("$schema") {
        None => Ok(()),
        Some(Value::String(name)) if DIALECTS.contains(&name.trim_end_matches('#')) => Ok(()),
        Some(_) => Err(refused("/$schema", "schemas are JSON Schema 2020-12")),
    }
}

/// Whether a schema may say this.
pub(super) fn is_keyword(name: &str) -> bool {
    let refused = REFUSED.iter().map(|(name, _)| *name);
    HERE.iter().chain(&HERE_LISTS).chain(&OTHERS).chain(&OTHERS_MORE).copied().chain(refused).any(|k| k == name)
}

/// A name as part of a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    let name: String = name.chars().take(64).collect();
    name.replace('~', "~0").replace('/', "~1")
}

impl Graph {
    pub(super) fn of(schema: &Value) -> Result<Graph, Fault> {
        let mut walk = GraphWalk {
            root: schema,
            found: Vec::new(),
            nodes: Vec::new(),
            numbers: BTreeMap::new(),
            anchors: BTreeMap::new(),
            names: Vec::new(),
            refs: 0,
            patterns: 0,
        };
        walk.number(schema, String::new())?;
        let mut at = 0;
        loop {
            while let Some(value) = walk.found.get(at).copied() {
                walk.visit(at, value)?;
                at += 1;
            }
            // Anchors are known when all is walked; what they name may hold more to walk.
            let names = std::mem::take(&mut walk.names);
            if names.is_empty() {
                return Ok(Graph { nodes: walk.nodes, patterns: walk.patterns });
            }
            for (from, name) in names {
                let Some(to) = walk.anchors.get(&*name).copied() else {
                    return Err(walk.bad(from, "$ref", "names an anchor that is not there"));
                };
                walk.node(from)?.here.push(to);
            }
        }
    }
}

struct GraphWalk<'a> {
    root: &'a Value,
    /// The value of each node.
    found: Vec<&'a Value>,
    nodes: Vec<SchemaNode>,
    /// Nodes by the place of their value in memory: a part that is reached twice is one node.
    numbers: BTreeMap<usize, usize>,
    anchors: BTreeMap<&'a str, usize>,
    /// References by anchor that wait until all is walked: the node, and the name.
    names: Vec<(usize, String)>,
    refs: usize,
    patterns: usize,
}

impl<'a> GraphWalk<'a> {
    fn number(&mut self, value: &'a Value, path: String) -> Result<usize, Fault> {
        if !value.is_object() && !value.is_boolean() {
            return Err(refused(&path, "a schema is an object, true or false"));
        }
        let place = std::ptr::from_ref(value).addr();
        if let Some(number) = self.numbers.get(&place) {
            return Ok(*number);
        }
        let number = self.nodes.len();
        if number >= SCHEMA_NODES_MAX {
            return Err(refused(&path, format!("more than {SCHEMA_NODES_MAX} schemas in one")));
        }
        self.numbers.insert(place, number);
        self.found.push(value);
        self.nodes.push(SchemaNode { path, steps: 1, ..SchemaNode::default() });
        Ok(number)
    }

    fn node(&mut self, number: usize) -> Result<&mut SchemaNode, Fault> {
        self.nodes.get_mut(number).ok_or_else(|| refused("", "no such part"))
    }

    fn bad(&self, number: usize, keyword: &str, text: &str) -> Fault {
        let path = self.nodes.get(number).map_or("", |node| &node.path);
        refused(&format!("{path}/{}", escaped(keyword)), format!("{keyword} {text}"))
    }

    /// The schemas below a keyword: one, a list or a map of them.
    fn below(&mut self, number: usize, keyword: &str, value: &'a Value) -> Result<Vec<usize>, Fault> {
        let path = format!("{}/{}", self.node(number)?.path, escaped(keyword));
        let path = path.as_str();
        let list = HERE_LISTS.contains(&keyword) || keyword == "prefixItems";
        let map = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"].contains(&keyword);
        if list {
            let items = value.as_array().ok_or_else(|| refused(path, format!("{keyword} is a list of schemas")))?;
            let items = items.iter().enumerate();
            return items.map(|(nth, item)| self.number(item, format!("{path}/{nth}"))).collect();
        }
        if map {
            let members =
                value.as_object().ok_or_else(|| refused(path, format!("{keyword} is an object of schemas")))?;
            return members.iter().map(|(name, item)| self.number(item, format!("{path}/{}", escaped(name)))).collect();
        }
        Ok(vec![self.number(value, path.to_owned())?])
    }

    fn visit(&mut self, number: usize, value: &'a Value) -> Result<(), Fault> {
        let Value::Object(members) = value else { return Ok(()) };
        for (keyword, why) in REFUSED {
            if members.contains_key(keyword) {
                return Err(self.bad(number, keyword, why));
            }
        }
        for (keyword, value) in members {
            self.keyword(number, keyword, value)?;
        }
        Ok(())
    }

    fn keyword(&mut self, number: usize, keyword: &str, value: &'a Value) -> Result<(), Fault> {
        let len = value.as_array().map(Vec::len).or_else(|| value.as_object().map(Map::len)).unwrap_or(1) as u64;
        let mut steps = 1u64;
        match keyword {
            "$ref" => self.reference(number, value)?,
            "$anchor" | "$dynamicAnchor" => {
                if let Value::String(name) = value
                    && self.anchors.insert(name, number).is_some_and(|other| other != number)
                {
                    return Err(self.bad(number, keyword, "is used twice"));
                }
            }
            "not" | "if" | "then" | "else" | "allOf" | "anyOf" | "oneOf" | "dependentSchemas" => {
                let below = self.below(number, keyword, value)?;
                let node = self.node(number)?;
                node.here.extend(below);
                node.tries |= keyword != "allOf";
                steps = len;
            }
            "properties" | "additionalProperties" => {
                let below = self.below(number, keyword, value)?;
                self.node(number)?.member_one.extend(below);
                steps = len;
            }
            "patternProperties" => {
                for pattern in value.as_object().into_iter().flat_map(Map::keys) {
                    let states = self.pattern(number, keyword, pattern)?;
                    let node = self.node(number)?;
                    node.key_parts = node.key_parts.saturating_add(states.saturating_mul(STATE_PARTS));
                }
                let below = self.below(number, keyword, value)?;
                self.node(number)?.member_all.extend(below);
                steps = len;
            }
            "propertyNames" => {
                let below = self.below(number, keyword, value)?;
                self.node(number)?.member_all.extend(below);
            }
            "items" | "prefixItems" => {
                let below = self.below(number, keyword, value)?;
                self.node(number)?.item_one.extend(below);
                steps = len;
            }
            "contains" => {
                let below = self.below(number, keyword, value)?;
                let node = self.node(number)?;
                node.item_all.extend(below);
                node.tries = true;
            }
            "unevaluatedProperties" | "unevaluatedItems" => {
                let below = self.below(number, keyword, value)?;
                let node = self.node(number)?;
                let all = if keyword == "unevaluatedItems" { &mut node.item_all } else { &mut node.member_all };
                all.extend(below);
                node.looks_back = true;
                node.tries = true;
            }
            // Walked like others, so that limits hold for what nobody refers to as well.
            "$defs" | "definitions" | "contentSchema" => drop(self.below(number, keyword, value)?),
            "pattern" => {
                let Value::String(pattern) = value else { return Err(self.bad(number, keyword, "is a string")) };
                let parts = self.pattern(number, keyword, pattern)?.saturating_mul(STATE_PARTS);
                let node = self.node(number)?;
                node.byte_parts = node.byte_parts.saturating_add(parts);
            }
            "minLength" | "maxLength" => {
                let node = self.node(number)?;
                node.byte_parts = node.byte_parts.saturating_add(LENGTH_PARTS);
            }
            "uniqueItems" => {
                let node = self.node(number)?;
                if *value != Value::Bool(false) {
                    node.inside = (UNIQUE_STEPS, UNIQUE_PARTS);
                }
            }
            "enum" | "const" => steps = weight(value),
            "type" => steps = len,
            "required" => steps = len.saturating_mul(REQUIRED_STEPS),
            "dependentRequired" => steps = weight(value).saturating_mul(REQUIRED_STEPS),
            "multipleOf" => steps = if is_extreme(value) { MULTIPLE_STEPS.1 } else { MULTIPLE_STEPS.0 },
            _ => {}
        }
        let node = self.node(number)?;
        node.steps = node.steps.saturating_add(steps);
        Ok(())
    }

    fn pattern(&mut self, number: usize, keyword: &str, pattern: &str) -> Result<u64, Fault> {
        self.patterns += 1;
        if self.patterns > SCHEMA_PATTERNS_MAX {
            return Err(self.bad(number, keyword, &format!("is one of more than {SCHEMA_PATTERNS_MAX} patterns")));
        }
        pattern::states(pattern).map_err(|why| self.bad(number, keyword, &why))
    }

    fn reference(&mut self, number: usize, value: &'a Value) -> Result<(), Fault> {
        self.refs += 1;
        if self.refs > SCHEMA_REFS_MAX {
            return Err(self.bad(number, "$ref", &format!("is one of more than {SCHEMA_REFS_MAX} references")));
        }
        let Some(fragment) = value.as_str().and_then(|text| text.strip_prefix('#')) else {
            return Err(self.bad(number, "$ref", "points into this schema, with # in front; others are not fetched"));
        };
        let Some(fragment) = unquoted(fragment) else {
            return Err(self.bad(number, "$ref", "has a % without two hexadecimal digits"));
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            self.names.push((number, fragment));
            return Ok(());
        }
        let Some(target) = self.root.pointer(&fragment) else {
            return Err(self.bad(number, "$ref", "points to nothing"));
        };
        let target = self.number(target, fragment)?;
        self.node(number)?.here.push(target);
        Ok(())
    }
}

/// Whether exact arithmetic with this number needs long numbers.
pub(super) fn is_extreme(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n != 0.0 && !(1e-15..=1e18).contains(&n.abs()))
}

/// Undoes the % escapes of a URI's fragment.
fn unquoted(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|d| u8::try_from(d).ok());
        out.push(digit()? * 16 + digit()?);
    }
    String::from_utf8(out).ok()
}

/// Steps to compare a value with this one: its parts, and its text.
fn weight(value: &Value) -> u64 {
    let mut todo = vec![value];
    let mut steps = 0u64;
    while let Some(value) = todo.pop() {
        steps += 1;
        match value {
            Value::String(text) => steps += (text.len() / ENUM_BYTES) as u64,
            Value::Array(items) => todo.extend(items),
            Value::Object(members) => {
                steps += members.keys().map(|key| 1 + (key.len() / ENUM_BYTES) as u64).sum::<u64>();
                todo.extend(members.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    steps
}
