//! What operations take and give, described by the types that they are read into and written from.
//!
//! Invariant: every schema comes from a type; a type that has a name stands once in `components/schemas` and is referred to
//! from everywhere else. What is read is described as it is read, what is written as it is written.
//! Not here: the document around it, and its statuses (`openapi`).

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// Where a document keeps its schemas.
pub const SCHEMAS: &str = "/components/schemas";

/// Collects the schemas of a document.
#[derive(Debug)]
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Schemas {
        Schemas::of(SchemaSettings::draft2020_12)
    }
}

impl Schemas {
    fn of(draft: fn() -> SchemaSettings) -> Schemas {
        let settings = || {
            draft().with(|settings| {
                settings.definitions_path = SCHEMAS.into();
                settings.meta_schema = None;
            })
        };
        Schemas {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
        }
    }

    /// Schemas in the draft that AsyncAPI documents are written in.
    pub fn draft07() -> Schemas {
        Schemas::of(SchemaSettings::draft07)
    }

    /// The schema of what is read into a `T`: a reference, if the type has a name.
    pub fn read<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// The schema of what is written from a `T`: a reference, if the type has a name.
    pub fn written<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    /// The members of a struct that is read, each with its schema, and the names of those that must be there.
    fn members<T: JsonSchema>(&mut self) -> (Map<String, Value>, Vec<String>) {
        let schema = T::json_schema(&mut self.read);
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let members = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        (members, required)
    }

    /// Every schema that was referred to, by its name. A name that means one thing where it is read and another where it is
    /// written is a mistake of the program.
    pub fn into_definitions(mut self) -> Map<String, Value> {
        let mut all = self.written.take_definitions(true);
        for (name, schema) in self.read.take_definitions(true) {
            let known = all.insert(name.clone(), schema.clone());
            debug_assert!(known.is_none_or(|known| known == schema), "two schemas are called {name}");
        }
        all
    }
}

/// A parameter of a query, of a path or of the headers.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// `query`, `path` or `header`.
    pub place: String,
    /// Whether it must be there.
    pub required: bool,
    /// What it is for.
    pub description: Option<String>,
    /// Its schema.
    pub schema: Value,
}

/// The member of a schema that says where a parameter stands, if it does not stand in the query:
/// `#[schemars(extend("x-in" = "header"))]`.
const PLACE: &str = "x-in";

impl Parameter {
    fn of(name: String, required: bool, mut schema: Value) -> Parameter {
        let (mut place, mut description) = ("query".to_owned(), None);
        if let Some(map) = schema.as_object_mut() {
            if let Some(Value::String(other)) = map.remove(PLACE) {
                place = other;
            }
            if let Some(Value::String(text)) = map.remove("description") {
                description = Some(text);
            }
            not_null(map);
        }
        let required = required || place == "path";
        Parameter { name, place, required, description, schema }
    }

    /// As the document has it.
    pub fn to_json(&self) -> Value {
        let mut out = json!({ "name": self.name, "in": self.place, "required": self.required, "schema": self.schema });
        if let (Some(text), Some(map)) = (&self.description, out.as_object_mut()) {
            map.insert("description".into(), json!(text));
        }
        out
    }
}

/// A parameter that is not there is left out: there is no null in a query.
fn not_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").and_then(Value::as_str) != Some("null"));
        if let [Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            schema.remove("anyOf");
            schema.extend(one);
        }
    }
}

/// The parameters that a struct has as its members.
pub fn parameters<T: JsonSchema>(schemas: &mut Schemas) -> Vec<Parameter> {
    let (members, required) = schemas.members::<T>();
    members.into_iter().map(|(name, schema)| Parameter::of(name.clone(), required.contains(&name), schema)).collect()
}

/// The types of one operation, described.
#[derive(Debug, Clone, Default)]
pub struct OpTypes {
    /// Parameters besides those that the path names; those that it names may be here too.
    pub parameters: Vec<Parameter>,
    /// The `requestBody`, if it takes a body.
    pub body: Option<Value>,
    /// The answers that are no refusals, by status.
    pub answers: BTreeMap<u16, Value>,
}

impl OpTypes {
    /// Describes an operation by the types of its query, its body and its answer.
    pub fn of<Q: JsonSchema, B: RequestBody, A: AnswerBody>(schemas: &mut Schemas) -> OpTypes {
        let mut answers = BTreeMap::new();
        A::describe(schemas, &mut answers);
        let mut list = parameters::<Q>(schemas);
        list.extend(A::headers().iter().map(|(name, text)| Parameter {
            name: (*name).to_owned(),
            place: "header".to_owned(),
            required: false,
            description: Some((*text).to_owned()),
            schema: json!({ "type": "string" }),
        }));
        OpTypes { parameters: list, body: B::describe(schemas), answers }
    }
}

/// A query without parameters.
#[derive(Debug, Clone, Copy, JsonSchema)]
pub struct NoQuery {}

/// What a body is read into.
pub trait RequestBody {
    /// The `requestBody` of the document; nothing if there is no body.
    fn describe(schemas: &mut Schemas) -> Option<Value>;
}

/// No body.
#[derive(Debug, Clone, Copy)]
pub struct NoBody;

impl RequestBody for NoBody {
    fn describe(_: &mut Schemas) -> Option<Value> {
        None
    }
}

/// A JSON object that is read into a `T`. An empty body counts as `{}`.
#[derive(Debug)]
pub struct Json<T>(PhantomData<T>);

impl<T: JsonSchema> RequestBody for Json<T> {
    fn describe(schemas: &mut Schemas) -> Option<Value> {
        let (_, required) = schemas.members::<T>();
        let schema = schemas.read::<T>();
        Some(json!({ "required": !required.is_empty(), "content": { "application/json": { "schema": schema } } }))
    }
}

/// A form with the members of a `T`.
#[derive(Debug)]
pub struct Form<T>(PhantomData<T>);

impl<T: JsonSchema> RequestBody for Form<T> {
    fn describe(schemas: &mut Schemas) -> Option<Value> {
        let schema = schemas.read::<T>();
        Some(json!({ "required": true, "content": { "multipart/form-data": { "schema": schema } } }))
    }
}

/// One `T` as JSON, an array of them, or one on each line.
#[derive(Debug)]
pub struct OneOrMany<T>(PhantomData<T>);

impl<T: JsonSchema> RequestBody for OneOrMany<T> {
    fn describe(schemas: &mut Schemas) -> Option<Value> {
        let one = schemas.read::<T>();
        let many = json!({ "type": "array", "items": one });
        Some(json!({ "required": true, "content": {
            "application/json": { "schema": { "anyOf": [one, many] } },
            "application/x-ndjson": { "schema": { "type": "string", "description": "One on each line." } },
        } }))
    }
}

/// Bytes of any kind, which its `Content-Type` names.
#[derive(Debug, Clone, Copy)]
pub struct AnyBytes;

/// Bytes as JSON Schema describes them.
fn bytes() -> Value {
    json!({ "type": "string", "format": "binary" })
}

impl RequestBody for AnyBytes {
    fn describe(_: &mut Schemas) -> Option<Value> {
        Some(json!({ "required": false, "content": { "application/octet-stream": { "schema": bytes() } } }))
    }
}

/// What an answer is written from.
pub trait AnswerBody {
    /// Adds the answers that are no refusals, by status.
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>);

    /// Request headers that such answers heed, each with what it does.
    fn headers() -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

fn json_answer(schema: &Value) -> Value {
    json!({ "description": "ok", "content": { "application/json": { "schema": schema } } })
}

fn wrapped(data: &Value) -> Value {
    json!({
        "type": "object", "required": ["code", "message", "data"],
        "properties": { "code": { "const": 0 }, "message": { "const": "ok" }, "data": data },
    })
}

/// `{code, message, data}` around a `T`: the form of nearly all answers.
#[derive(Debug)]
pub struct Data<T>(PhantomData<T>);

impl<T: JsonSchema> AnswerBody for Data<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let data = schemas.written::<T>();
        answers.insert(200, json_answer(&wrapped(&data)));
    }
}

/// A `T` as JSON, with nothing around it.
#[derive(Debug)]
pub struct Plain<T>(PhantomData<T>);

impl<T: JsonSchema> AnswerBody for Plain<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let schema = schemas.written::<T>();
        answers.insert(200, json_answer(&schema));
    }
}

/// A `T` as JSON with 200, or with 503 when the answer is no.
#[derive(Debug)]
pub struct YesOrNo<T>(PhantomData<T>);

impl<T: JsonSchema> AnswerBody for YesOrNo<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let schema = schemas.written::<T>();
        answers.insert(200, json_answer(&schema));
        answers.insert(503, json_answer(&schema));
    }
}

/// A `T` as JSON with 200, or with 500 when it could not be done: the form of clients that know no other status.
#[derive(Debug)]
pub struct YesOrFailed<T>(PhantomData<T>);

impl<T: JsonSchema> AnswerBody for YesOrFailed<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let schema = schemas.written::<T>();
        answers.insert(200, json_answer(&schema));
        answers.insert(500, json_answer(&schema));
    }
}

/// Lines that each are a `T` as JSON.
#[derive(Debug)]
pub struct Lines<T>(PhantomData<T>);

impl<T: JsonSchema> AnswerBody for Lines<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let line = schemas.written::<T>();
        // A schema tells of the whole body, which no type of this name is.
        let schema = json!({ "type": "string", "x-each-line": line });
        let content = json!({ "application/x-ndjson": { "schema": schema } });
        answers.insert(200, json!({ "description": "ok", "content": content }));
    }
}

/// Lines for people or for Prometheus.
#[derive(Debug, Clone, Copy)]
pub struct Text;

impl AnswerBody for Text {
    fn describe(_: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let content = json!({ "text/plain": { "schema": { "type": "string" } } });
        answers.insert(200, json!({ "description": "ok", "content": content }));
    }
}

/// A file that is made while it is sent.
#[derive(Debug, Clone, Copy)]
pub struct Download;

impl AnswerBody for Download {
    fn describe(_: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let content = json!({ "application/octet-stream": { "schema": bytes() } });
        answers.insert(200, json!({ "description": "ok", "content": content }));
    }
}

/// Content that is kept, whole or a range of it, in the type that it was given with.
#[derive(Debug, Clone, Copy)]
pub struct KeptBytes;

/// Kept content, or a `T` in the usual form where there is none or the description was asked for.
#[derive(Debug)]
pub struct KeptBytesOr<T>(PhantomData<T>);

fn header(text: &str) -> Value {
    json!({ "description": text, "schema": { "type": "string" } })
}

const RANGED: &[(&str, &str)] = &[
    ("Range", "The bytes that are wanted, such as `bytes=0-99`; one range."),
    ("If-Range", "Take the range only if this is still the version; else all of it."),
    ("If-None-Match", "Answer 304 if this is still the version."),
];

fn kept(answers: &mut BTreeMap<u16, Value>, described: Option<&Value>) {
    let headers = json!({
        "ETag": header("The version."), "Accept-Ranges": header("`bytes`"),
        "Content-Disposition": header("Saved, never shown; with the name of a file that has one."),
    });
    let mut content = json!({ "*/*": { "schema": bytes() } });
    if let (Some(schema), Some(map)) = (described, content.as_object_mut()) {
        map.insert("application/json".into(), json!({ "schema": { "anyOf": [schema, {}] } }));
    }
    let part = json!({ "*/*": { "schema": bytes() } });
    let mut ranged = headers.clone();
    if let Some(map) = ranged.as_object_mut() {
        map.insert("Content-Range".into(), header("Which bytes these are, and how many there are."));
    }
    answers.insert(200, json!({ "description": "all of it", "headers": headers, "content": content }));
    answers.insert(206, json!({ "description": "the range that was asked for", "headers": ranged, "content": part }));
    answers.insert(304, json!({ "description": "this is still the version" }));
    answers.insert(416, json!({ "$ref": "#/components/responses/Refused416" }));
}

impl AnswerBody for KeptBytes {
    fn describe(_: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        kept(answers, None);
    }

    fn headers() -> &'static [(&'static str, &'static str)] {
        RANGED
    }
}

impl<T: JsonSchema> AnswerBody for KeptBytesOr<T> {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let data = schemas.written::<T>();
        kept(answers, Some(&wrapped(&data)));
    }

    fn headers() -> &'static [(&'static str, &'static str)] {
        RANGED
    }
}

/// Server-sent events, which the AsyncAPI document describes.
#[derive(Debug, Clone, Copy)]
pub struct EventStream;

/// The same; 204 says that there is nothing more to come, so that a browser does not ask again.
#[derive(Debug, Clone, Copy)]
pub struct EndingStream;

const RESUMED: &[(&str, &str)] = &[("Last-Event-ID", "What the reader saw last: the stream goes on after it.")];

impl AnswerBody for EventStream {
    fn describe(_: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let content = json!({ "text/event-stream": { "schema": { "type": "string" } } });
        let text = "a stream without an end; /asyncapi.json describes its events";
        answers.insert(200, json!({ "description": text, "content": content }));
    }

    fn headers() -> &'static [(&'static str, &'static str)] {
        RESUMED
    }
}

impl AnswerBody for EndingStream {
    fn describe(schemas: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        EventStream::describe(schemas, answers);
        answers.insert(204, json!({ "description": "there is nothing more to come" }));
    }

    fn headers() -> &'static [(&'static str, &'static str)] {
        RESUMED
    }
}

/// The connection becomes a WebSocket, which the AsyncAPI document describes.
#[derive(Debug, Clone, Copy)]
pub struct WebSocketUpgrade;

impl AnswerBody for WebSocketUpgrade {
    fn describe(_: &mut Schemas, answers: &mut BTreeMap<u16, Value>) {
        let text = "the connection is a WebSocket now; /asyncapi.json describes its messages";
        answers.insert(101, json!({ "description": text }));
        answers.insert(426, json!({ "$ref": "#/components/responses/Refused426" }));
    }
}
