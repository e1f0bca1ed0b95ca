//! Tool input against JSON Schema 2020-12 (OpenAgents sheet, section 10), safe with strangers' schemas and payloads.
//!
//! The validator is the crate `jsonschema`; it counts no steps and cannot be stopped. So nothing reaches it before it was
//! looked at here: a schema is walked once (`graph`) and refused when one value could cost too much, and from then on
//! it is known what a value at each depth costs at most (`cost`), which times the values of a payload bounds the work.
//! Invariant: a [`Schema`] was checked; validating takes at most [`limits::SCHEMA_PAYLOAD_STEPS_MAX`] steps and
//! [`limits::SCHEMA_STACK_MAX`] nested schemas, whatever the payload.
//! Not here: who may invoke, and what happens to a payload that fits.

mod cost;
mod graph;
pub mod limits;
mod pattern;
mod shorthand;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rialto_model::limits::PAYLOAD_DEPTH_MAX;
use rialto_model::{ErrorCode, Fault, json};
use serde_json::Value;

use cost::{Costs, Tally};
use limits::{
    SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_ERROR_CHARS_MAX, SCHEMA_ERRORS_MAX, SCHEMA_PAYLOAD_STEPS_MAX,
    SCHEMA_STACK_MAX, SCHEMAS_CACHED_MAX,
};

/// Compiling recurses along `$ref`s: on a stack of its own, however the caller's is. Untouched pages cost nothing.
const COMPILE_STACK_BYTES: usize = 64 << 20;
/// Steps up to which every error is looked for. Beyond, the first part that fails is not worth the memory of all.
const ERROR_STEPS_MAX: u64 = 50_000;
/// What all compiled schemas of a network may take, about.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// What a compiled schema takes: per node, and per pattern with its table of states.
const NODE_BYTES: usize = 1 << 10;
const PATTERN_BYTES: usize = 128 << 10;

/// A schema that is safe to use, compiled.
pub struct Schema {
    validator: jsonschema::Validator,
    costs: Costs,
    bytes: usize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Schema {
    /// Whether this text is a schema that can be used: asked before a tool is registered.
    pub fn check(text: &str) -> Result<(), Fault> {
        Self::compile(text).map(drop)
    }

    /// Checks and compiles a schema, in the short form `{"query": "string"}` or in full.
    pub fn compile(text: &str) -> Result<Schema, Fault> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(refused("", format!("a schema has at most {SCHEMA_BYTES_MAX} bytes")));
        }
        if json::scan(text).depth > SCHEMA_DEPTH_MAX {
            return Err(refused("", format!("a schema is nested at most {SCHEMA_DEPTH_MAX} deep")));
        }
        let written: Value = serde_json::from_str(text).map_err(|e| refused("", format!("not JSON: {e}")))?;
        let mut schema = shorthand::expanded(written)?;
        graph::check_dialect(&mut schema)?;
        let graph = graph::Graph::of(&schema)?;
        let costs = Costs::of(&graph)?;
        let bytes = graph.nodes.len() * NODE_BYTES + graph.patterns * PATTERN_BYTES;
        let validator = built(&schema)?;
        Ok(Schema { validator, costs, bytes })
    }

    /// Whether a payload fits.
    pub fn validate(&self, payload: &str) -> Result<(), Fault> {
        if !json::is_simple(payload, PAYLOAD_DEPTH_MAX) && json::scan(payload).depth > PAYLOAD_DEPTH_MAX {
            let text = format!("the payload is nested more than {PAYLOAD_DEPTH_MAX} deep");
            return Err(Fault::new(ErrorCode::InvalidPayload, text).field("payload"));
        }
        let payload: Value = serde_json::from_str(payload)
            .map_err(|e| Fault::new(ErrorCode::InvalidPayload, format!("payload: {e}")).field("payload"))?;
        let tally = Tally::of(&payload);
        let steps = self.costs.steps(&tally);
        if steps > SCHEMA_PAYLOAD_STEPS_MAX || self.costs.stack(&tally) > SCHEMA_STACK_MAX {
            let text = "the payload is too large or too deeply nested for the tool's schema to be checked";
            return Err(Fault::new(ErrorCode::TooLarge, text).field("payload"));
        }
        if self.validator.is_valid(&payload) {
            return Ok(());
        }
        let errors: Vec<Value> = if self.costs.error_steps(&tally) <= ERROR_STEPS_MAX {
            self.validator.iter_errors(&payload).take(SCHEMA_ERRORS_MAX).map(|e| told(&e)).collect()
        } else {
            vec![serde_json::json!({"path": "", "message": "does not fit the schema; too large to say where"})]
        };
        let text = "the payload does not fit the tool's input schema";
        Err(Fault::new(ErrorCode::InvalidPayload, text)
            .details(serde_json::json!({"field": "payload", "errors": errors})))
    }
}

/// One error as callers see it. What it was about is left out: it may be secret, and it is the caller's own anyway.
fn told(error: &jsonschema::ValidationError<'_>) -> Value {
    serde_json::json!({"path": cut(error.instance_path()), "message": cut(&error.masked())})
}

/// The beginning of a text.
fn cut(what: &dyn fmt::Display) -> String {
    let mut text = Cut { text: String::new(), left: SCHEMA_ERROR_CHARS_MAX };
    let _ = write!(text, "{what}"); // an error means that it is full
    text.text
}

/// Text that takes only so much, so that a long value is not even written out.
struct Cut {
    text: String,
    left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for char in more.chars() {
            let Some(left) = self.left.checked_sub(1) else { return Err(fmt::Error) };
            self.left = left;
            self.text.push(if left == 0 { '…' } else { char });
        }
        Ok(())
    }
}

/// A refusal of a schema, naming the part of it by its JSON Pointer.
fn refused(path: &str, text: impl Into<String>) -> Fault {
    let text = text.into();
    let text = if path.is_empty() { format!("schema: {text}") } else { format!("schema at {path}: {text}") };
    Fault::new(ErrorCode::InvalidArgument, text).details(serde_json::json!({"field": "schema", "path": path}))
}

/// Compiles what was checked. A panic in there is the validator's fault, not the end of the node.
fn built(schema: &Value) -> Result<jsonschema::Validator, Fault> {
    let compile = || {
        // Patterns in time linear in the text; `regex-syntax` has counted their states, this is the second fence.
        let patterns = jsonschema::PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(PATTERN_BYTES);
        jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .offline()
            .build(schema)
            .map_err(|e| refused(&cut(e.instance_path()), cut(&e.masked())))
    };
    let internal = || Fault::new(ErrorCode::Internal, "the schema could not be compiled");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(COMPILE_STACK_BYTES);
        let thread = thread.spawn_scoped(scope, compile).map_err(|_| internal())?;
        thread.join().map_err(|_| internal())?
    })
}

/// Compiled schemas by resource and version, the last used ones.
#[derive(Debug, Default)]
pub struct Validators(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    entries: BTreeMap<(u32, u64), (Arc<Schema>, u64)>,
    bytes: usize,
    clock: u64,
}

impl Validators {
    /// An empty cache.
    pub fn new() -> Validators {
        Validators::default()
    }

    /// Whether a payload fits the schema of this version of this resource, which is compiled if it is not at hand.
    pub fn validate(&self, key: (u32, u64), schema: &str, payload: &str) -> Result<(), Fault> {
        let known = self.lock().get(key);
        let schema = match known {
            Some(schema) => schema,
            None => {
                // Not under the lock: others validate meanwhile. Two may compile the same, one of them stays.
                let made = Arc::new(Schema::compile(schema)?);
                let old = self.lock().put(key, made.clone());
                drop(old);
                made
            }
        };
        schema.validate(payload)
    }

    /// How many are at hand.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether none is at hand.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn get(&mut self, key: (u32, u64)) -> Option<Arc<Schema>> {
        self.clock += 1;
        let (schema, used) = self.entries.get_mut(&key)?;
        *used = self.clock;
        Some(schema.clone())
    }

    /// Puts one in and gives back what had to go, to be dropped outside of the lock.
    fn put(&mut self, key: (u32, u64), schema: Arc<Schema>) -> Vec<Arc<Schema>> {
        let mut gone = Vec::new();
        self.clock += 1;
        self.bytes += schema.bytes;
        gone.extend(self.entries.insert(key, (schema, self.clock)).map(|(schema, _)| schema));
        self.bytes -= gone.iter().map(|s| s.bytes).sum::<usize>();
        while self.entries.len() > SCHEMAS_CACHED_MAX || (self.bytes > CACHE_BYTES_MAX && self.entries.len() > 1) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            let Some((schema, _)) = oldest.and_then(|key| self.entries.remove(&key)) else { break };
            self.bytes -= schema.bytes;
            gone.push(schema);
        }
        gone
    }
}
