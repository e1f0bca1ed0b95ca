//! The OpenAPI document of a listener, put together from the parts of its faces.

use crate::operations::{Access, Op, scoped_path};
use crate::status::{grpc_status, http_status};
use rialto_model::ErrorCode;
use serde_json::{Map, Value, json};

/// What a face has to say in the document.
#[derive(Debug, Clone, Default)]
pub struct ApiPart {
    /// Path items, by path.
    pub paths: Map<String, Value>,
    /// Schemas, by the names that the paths refer to them by.
    pub schemas: Map<String, Value>,
}

impl ApiPart {
    /// The operations of a table.
    pub fn of(ops: &[Op]) -> ApiPart {
        let mut part = ApiPart::default();
        for op in ops {
            part.add(op, op.path, op.id);
            if let Some(path) = scoped_path(op) {
                part.add(op, &path, &format!("{}_in_network", op.id));
            }
        }
        part
    }

    /// The same with one more schema.
    #[must_use]
    pub fn with_schema(mut self, name: &str, schema: Value) -> ApiPart {
        self.schemas.insert(name.to_owned(), schema);
        self
    }

    fn add(&mut self, op: &Op, path: &str, id: &str) {
        // The router's word for "all that follows" is none of OpenAPI's.
        let path = path.replace("{*", "{");
        let item = operation(op, &path, id);
        self.insert(path, op.method, item);
    }

    fn insert(&mut self, path: String, method: &str, operation: Value) {
        if let Some(item) = self.paths.entry(path).or_insert_with(|| json!({})).as_object_mut() {
            item.insert(method.to_owned(), operation);
        }
    }

    /// The same with all paths below a prefix, but for those that have a fixed place.
    #[must_use]
    pub fn below(self, prefix: &str) -> ApiPart {
        let placed = |path: String| if path.starts_with("/.well-known/") { path } else { format!("{prefix}{path}") };
        let paths = self.paths.into_iter().map(|(path, item)| (placed(path), item)).collect();
        ApiPart { paths, schemas: self.schemas }
    }
}

fn parameters(op: &Op, path: &str) -> Vec<Value> {
    let mut list = Vec::new();
    let mut rest = path;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        list.push(json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
        rest = tail;
    }
    list.extend(
        op.query
            .iter()
            .map(|name| json!({ "name": name, "in": "query", "required": false, "schema": { "type": "string" } })),
    );
    list
}

fn operation(op: &Op, path: &str, id: &str) -> Value {
    let mut out = json!({
        "operationId": id, "summary": op.summary, "parameters": parameters(op, path),
        "responses": {
            "200": { "description": "ok", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Wrapper" } } } },
            "default": { "description": "refused", "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } },
        },
        "security": match op.access { Access::Public => json!([]), Access::Network | Access::Operator => json!([{ "bearer": [] }]) },
        "x-access": op.access.as_str(),
    });
    if !op.body.is_empty() {
        let members: Map<String, Value> = op.body.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let schema = json!({ "type": "object", "properties": members });
        if let Some(map) = out.as_object_mut() {
            map.insert("requestBody".into(), json!({ "content": { "application/json": { "schema": schema } } }));
        }
    }
    out
}

/// The schemas of our own answers (`answer`).
fn answer_schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    schemas.insert(
        "Wrapper".into(),
        json!({
            "type": "object", "required": ["code", "message", "data"],
            "properties": { "code": { "type": "integer" }, "message": { "type": "string" }, "data": {} },
        }),
    );
    schemas.insert(
        "Error".into(),
        json!({ "type": "object", "required": ["code", "message", "error"], "properties": {
        "code": { "type": "integer" }, "message": { "type": "string" }, "data": { "type": "null" },
        "error": { "type": "object", "required": ["code", "message", "retryable"], "properties": {
            "code": { "type": "string" }, "message": { "type": "string" }, "event_id": { "type": ["string", "null"] },
            "mod": { "type": "string" }, "retryable": { "type": "boolean" }, "details": { "type": "object" },
        } },
    } }),
    );
    schemas
}

/// The OpenAPI 3.1 document of all parts.
pub fn document(parts: impl IntoIterator<Item = ApiPart>) -> Value {
    let mut whole = ApiPart { paths: Map::new(), schemas: answer_schemas() };
    for part in parts {
        for (path, item) in part.paths {
            let Value::Object(operations) = item else { continue };
            for (method, operation) in operations {
                whole.insert(path.clone(), &method, operation);
            }
        }
        whole.schemas.extend(part.schemas);
    }
    let codes: Vec<Value> = ErrorCode::ALL
        .iter()
        .map(|c| json!({ "code": c.as_str(), "http": http_status(*c), "grpc": grpc_status(*c), "retryable": c.retryable() }))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Rialto", "version": env!("CARGO_PKG_VERSION"), "summary": "One network for every agent" },
        "paths": whole.paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer", "description": "session id, network token or admin secret" } },
            "schemas": whole.schemas,
        },
        "x-error-codes": codes,
    })
}
