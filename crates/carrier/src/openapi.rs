//! The OpenAPI document of a listener, put together from the parts of its faces. Its schemas come from types (`describe`).

use crate::answer::RefusalBody;
use crate::describe::{OpTypes, Parameter, Schemas};
use crate::operations::{Access, Op, scoped_path};
use crate::status::{grpc_status, http_status};
use rialto_model::ErrorCode;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What any request is refused with, whatever it asks for: it cannot be read, its host or origin is not allowed, its sender
/// does not read what was answered before, the node stops or has a fault.
const ALWAYS: &[ErrorCode] = &[
    ErrorCode::InvalidArgument,
    ErrorCode::OriginForbidden,
    ErrorCode::RateLimited,
    ErrorCode::Internal,
    ErrorCode::ShuttingDown,
];
/// What a request is refused with that needs a credential.
const WITH_CREDENTIAL: &[ErrorCode] = &[ErrorCode::Unauthenticated, ErrorCode::Forbidden, ErrorCode::Unsupported];
/// The same where the credential is one of a network.
const IN_NETWORK: &[ErrorCode] = &[
    ErrorCode::InvalidAddress,
    ErrorCode::TokenRequired,
    ErrorCode::InvalidToken,
    ErrorCode::SessionRevoked,
    ErrorCode::SessionExpired,
    ErrorCode::NotAMember,
    ErrorCode::NetworkNotFound,
    ErrorCode::NetworkArchived,
    ErrorCode::NetworkPaused,
    ErrorCode::StorageUnavailable,
    ErrorCode::Timeout,
];
/// What a request is refused with for its body.
const WITH_BODY: &[ErrorCode] = &[ErrorCode::InvalidJson, ErrorCode::TooLarge, ErrorCode::Unauthenticated];
/// Statuses of refusals that no code has for itself, with what they mean.
const OTHER_STATUSES: &[(u16, &str)] = &[
    (408, "The body came too slowly (`timeout`)."),
    (416, "No byte of the content is in the range that was asked for (`invalid_argument`)."),
    (426, "This takes a WebSocket handshake (`unsupported`)."),
];

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
        let (mut part, mut schemas) = (ApiPart::default(), Schemas::default());
        for op in ops {
            let types = (op.types)(&mut schemas);
            part.add(op, &types, op.path, op.id);
            if let Some(path) = scoped_path(op) {
                part.add(op, &types, &path, &format!("{}_in_network", op.id));
            }
        }
        part.schemas = schemas.into_definitions();
        part
    }

    fn add(&mut self, op: &Op, types: &OpTypes, path: &str, id: &str) {
        // The router's word for "all that follows" is none of OpenAPI's.
        let path = path.replace("{*", "{");
        let item = operation(op, types, &path, id);
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

/// The names in a path.
fn names_in(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
}

fn parameters(types: &OpTypes, path: &str) -> Vec<Value> {
    let names = names_in(path);
    let plain = |name: &str| Parameter {
        name: name.to_owned(),
        place: "path".to_owned(),
        required: true,
        description: (name == "network").then(|| "The id of a network, or its name.".to_owned()),
        schema: json!({ "type": "string", "minLength": 1 }),
    };
    let described = |name: &str| types.parameters.iter().find(|p| p.place == "path" && p.name == name).cloned();
    let in_path = names.iter().map(|name| described(name).unwrap_or_else(|| plain(name)));
    // Where the path names the network, the query cannot.
    let elsewhere = types.parameters.iter().filter(|p| p.place != "path" && !names.contains(&p.name.as_str()));
    in_path.chain(elsewhere.cloned()).map(|parameter| parameter.to_json()).collect()
}

/// Everything that an operation is refused with.
fn refusals(op: &Op, types: &OpTypes) -> BTreeSet<ErrorCode> {
    let with_credential = if op.access == Access::Public { &[] } else { WITH_CREDENTIAL };
    let in_network = if op.access == Access::Network { IN_NETWORK } else { &[] };
    let with_body = if types.body.is_some() { WITH_BODY } else { &[] };
    [ALWAYS, with_credential, in_network, with_body, op.refusals].into_iter().flatten().copied().collect()
}

fn refused(status: u16) -> Value {
    json!({ "$ref": format!("#/components/responses/Refused{status}") })
}

fn operation(op: &Op, types: &OpTypes, path: &str, id: &str) -> Value {
    let codes = refusals(op, types);
    let mut answers = types.answers.clone();
    for code in &codes {
        answers.entry(http_status(*code)).or_insert_with(|| refused(http_status(*code)));
    }
    if types.body.is_some() {
        answers.insert(408, refused(408));
    }
    let answers: Map<String, Value> =
        answers.into_iter().map(|(status, answer)| (status.to_string(), answer)).collect();
    let mut out = json!({
        "operationId": id, "summary": op.summary, "parameters": parameters(types, path), "responses": answers,
        "security": match op.access { Access::Public => json!([]), Access::Network | Access::Operator => json!([{ "bearer": [] }]) },
        "x-access": op.access.as_str(),
        "x-refusals": codes.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
    });
    if let (Some(body), Some(map)) = (&types.body, out.as_object_mut()) {
        map.insert("requestBody".into(), body.clone());
    }
    out
}

/// Refusals by status, each with the codes that have it.
fn refusal_responses(schema: &Value) -> Map<String, Value> {
    let mut texts: BTreeMap<u16, String> =
        OTHER_STATUSES.iter().map(|(status, text)| (*status, (*text).to_owned())).collect();
    for code in ErrorCode::ALL {
        let text = texts.entry(http_status(*code)).or_default();
        text.push_str(if text.is_empty() { "One of these codes: " } else { ", " });
        text.push_str(&format!("`{}`", code.as_str()));
    }
    let response = |(status, text): (u16, String)| {
        let mut response = json!({ "description": text, "content": { "application/json": { "schema": schema } } });
        if let (429 | 503, Some(map)) = (status, response.as_object_mut()) {
            let after = json!({ "description": "Seconds to wait.", "schema": { "type": "integer", "minimum": 1 } });
            map.insert("headers".into(), json!({ "Retry-After": after }));
        }
        (format!("Refused{status}"), response)
    };
    texts.into_iter().map(response).collect()
}

/// The OpenAPI 3.1 document of all parts.
pub fn document(parts: impl IntoIterator<Item = ApiPart>) -> Value {
    let mut schemas = Schemas::default();
    let refusal = schemas.written::<RefusalBody>();
    let mut whole = ApiPart { paths: Map::new(), schemas: schemas.into_definitions() };
    for part in parts {
        for (path, item) in part.paths {
            let Value::Object(operations) = item else { continue };
            for (method, operation) in operations {
                whole.insert(path.clone(), &method, operation);
            }
        }
        for (name, schema) in part.schemas {
            let known = whole.schemas.insert(name.clone(), schema.clone());
            debug_assert!(known.is_none_or(|known| known == schema), "two schemas are called {name}");
        }
    }
    let codes: Vec<Value> = ErrorCode::ALL
        .iter()
        .map(|c| json!({ "code": c.as_str(), "http": http_status(*c), "grpc": grpc_status(*c), "retryable": c.retryable() }))
        .collect();
    let bearer = "The id of a session, a token of a network, or the operator's secret. X-Session-Id and X-Workspace-Token say \
                  the first two for clients that know no Authorization.";
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Rialto", "version": env!("CARGO_PKG_VERSION"), "summary": "One network for every agent" },
        "paths": whole.paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer", "description": bearer } },
            "responses": refusal_responses(&refusal),
            "schemas": whole.schemas,
        },
        "x-error-codes": codes,
    })
}
