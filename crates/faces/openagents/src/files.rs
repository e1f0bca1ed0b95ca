//! Files of workspaces: forms and base64 in, bytes out (OpenAgents sheet, section 15).
//!
//! Content goes to the disk piece by piece as it comes, whichever way it comes, and in whatever order the rest is said: a
//! credential must be there before the first byte, who brings it may be said after the last.

mod base64;

use crate::auth::{Call, CallRequest};
use crate::request::ApiRequest;
use crate::workspaces::iso;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use futures_util::StreamExt;
use rialto_carrier::answer::{self, invalid_field};
use rialto_carrier::ranges::{self, KeptContent};
use rialto_carrier::{FaceState, Params, Refusal};
use rialto_model::view::FileView;
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::blobs::Upload;
use rialto_node::{FileFilter, NewFile};
use serde_json::{Map, Value, json};

/// Bytes of a form besides its file.
const FORM_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one field of a form that is not the file.
const FIELD_BYTES_MAX: u64 = 1 << 10;
/// Who brings a file if nobody is named, for clients that never say: as the servers they know have it.
const UNNAMED: &str = "human:user";

fn too_large() -> Fault {
    let limit = limits::UPLOAD_BYTES_MAX;
    Fault::new(ErrorCode::TooLarge, format!("a file is at most {limit} bytes")).details(json!({ "limit": limit }))
}

/// What stands around the content: who brings it, for which network and channel.
struct Around<'r> {
    state: &'r FaceState,
    headers: &'r HeaderMap,
    path: Option<&'r str>,
    params: &'r Params,
    said: Map<String, Value>,
}

impl Around<'_> {
    fn text(&self, key: &str) -> Result<Option<&str>, Fault> {
        match self.said.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
            Some(_) => Err(invalid_field(key, "text")),
        }
    }

    /// The call, as far as it is known by now.
    fn call(&self, whole: bool) -> Result<Call, Refusal> {
        let compat = self.headers.contains_key("x-workspace-token");
        let mut body = Map::new();
        if let Some(network) = self.text("network")? {
            body.insert("network".into(), json!(network));
        }
        let source = self.text("source")?.or(self.params.get("source").map(String::as_str));
        let named = self.headers.contains_key("x-agent-name") || self.headers.contains_key("x-session-id");
        let source = source.or(Some(UNNAMED).filter(|_| whole && compat && !named));
        if let Some(source) = source {
            body.insert(if compat { "agent_name" } else { "agent_id" }.into(), json!(source));
        }
        let body = Value::Object(body);
        CallRequest::new(self.state, self.headers).params(self.params).path(self.path).body(&body).call()
    }

    /// Begins to take content in, for whoever has been named by now.
    async fn begin(&self) -> Result<Begun, Refusal> {
        let call = self.call(false)?;
        let upload = call.session.begin_file().await?;
        Ok(Begun { upload, network: call.session.network().id().to_owned() })
    }

    /// Keeps the content as a file.
    async fn keep(self, begun: Begun, name: &str, content_type: Option<String>) -> Result<Response, Refusal> {
        let call = self.call(true)?;
        if call.session.network().id() != begun.network {
            return Err(invalid_field("network", "say it before the content, in the query or as X-Network").into());
        }
        if name.is_empty() || name.contains(['/', '\\']) {
            return Err(invalid_field("filename", "a name without a path").into());
        }
        let channel = self.text("channel_name")?.map(str::to_owned);
        let file = NewFile { name: name.to_owned(), content_type, channel };
        let kept = call.session.keep_file(begun.upload, &file).await;
        // What is wrong with the address is wrong with the name.
        let is_name = |fault: &Fault| fault.code == ErrorCode::InvalidAddress;
        let kept =
            kept.map_err(|fault| if is_name(&fault) { invalid_field("filename", &fault.message) } else { fault })?;
        Ok(answer::ok(&dated(&kept)))
    }
}

/// Content on its way in.
struct Begun {
    upload: Upload,
    network: String,
}

/// A file as workspace clients know it: its time is ISO 8601.
fn dated(file: &FileView) -> Value {
    let FileView { id, filename, content_type, size, uploaded_by, created_at, channel_name } = file;
    json!({
        "id": id, "filename": filename, "content_type": content_type, "size": size, "uploaded_by": uploaded_by,
        "created_at": iso(*created_at), "channel_name": channel_name, "status": "active",
    })
}

/// Refuses what says beforehand that it is too large.
fn announced(headers: &HeaderMap, most: u64) -> Result<(), Fault> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    if length.is_some_and(|length: u64| length > most) { Err(too_large()) } else { Ok(()) }
}

fn form_fault(error: &multer::Error) -> Fault {
    if let multer::Error::StreamSizeExceeded { .. } = error {
        return too_large();
    }
    if let multer::Error::FieldSizeExceeded { field_name, .. } = error {
        return invalid_field(field_name.as_deref().unwrap_or("field"), &format!("at most {FIELD_BYTES_MAX} bytes"));
    }
    Fault::new(ErrorCode::InvalidArgument, format!("the form cannot be read: {error}"))
}

/// `POST /v1/files`: a form with `file`, and `network`, `channel_name`, `source` before or behind it.
pub(crate) async fn upload(request: ApiRequest, body: Body) -> Result<Response, Refusal> {
    let kind = request.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind)
        .map_err(|_| invalid_field("Content-Type", "multipart/form-data with a boundary"))?;
    announced(&request.headers, limits::UPLOAD_BYTES_MAX + FORM_BYTES_MAX)?;
    let limit = multer::SizeLimit::new().whole_stream(limits::UPLOAD_BYTES_MAX + FORM_BYTES_MAX);
    let limit =
        ["network", "channel_name", "source"].into_iter().fold(limit, |l, key| l.for_field(key, FIELD_BYTES_MAX));
    let rules = multer::Constraints::new().size_limit(limit);
    let mut form = multer::Multipart::with_constraints(body.into_data_stream(), boundary, rules);
    let mut around = Around {
        state: &request.state,
        headers: &request.headers,
        path: request.scope(),
        params: &request.params,
        said: Map::new(),
    };
    let mut file: Option<(Begun, String, Option<String>)> = None;
    while let Some(mut field) = form.next_field().await.map_err(|e| form_fault(&e))? {
        match field.name() {
            Some("file") => {
                let name =
                    field.file_name().map(str::to_owned).ok_or_else(|| invalid_field("file", "has no filename"))?;
                if file.is_some() {
                    return Err(invalid_field("file", "one at a time").into());
                }
                let content_type = field.content_type().map(ToString::to_string);
                let mut begun = around.begin().await?;
                while let Some(piece) = field.chunk().await.map_err(|e| form_fault(&e))? {
                    begun.upload.write(&piece).await.map_err(Fault::from)?;
                }
                file = Some((begun, name, content_type));
            }
            Some(key @ ("network" | "channel_name" | "source")) => {
                let key = key.to_owned();
                let text = field.text().await.map_err(|e| form_fault(&e))?;
                around.said.insert(key, json!(text));
            }
            // What else clients send means nothing here.
            Some(_) | None => {}
        }
    }
    let Some((begun, name, content_type)) = file else { return Err(invalid_field("file", "is missing").into()) };
    around.keep(begun, &name, content_type).await
}

/// `POST /v1/files/base64` {filename, content_base64, content_type?, network?, source?, channel_name?}.
pub(crate) async fn upload_base64(request: ApiRequest, body: Body) -> Result<Response, Refusal> {
    announced(&request.headers, limits::UPLOAD_BYTES_MAX.div_ceil(3) * 4 + FORM_BYTES_MAX)?;
    let mut around = Around {
        state: &request.state,
        headers: &request.headers,
        path: request.scope(),
        params: &request.params,
        said: Map::new(),
    };
    let mut sieve = base64::Sieve::default();
    let mut begun: Option<Begun> = None;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Fault::new(ErrorCode::InvalidArgument, "the body broke off"))?;
        let mut rest = piece.as_ref();
        // The end of what is before the content is the moment to look at who has been named.
        while !rest.is_empty() {
            rest = sieve.take(rest)?;
            if sieve.has_begun() && begun.is_none() {
                around.said = sieve.said_so_far();
                begun = Some(around.begin().await?);
            }
            if let Some(begun) = &mut begun {
                begun.upload.write(&sieve.decoded()).await.map_err(Fault::from)?;
            }
        }
    }
    around.said = sieve.said()?;
    let Some(begun) = begun else { return Err(invalid_field("content_base64", "is missing").into()) };
    let name = around.text("filename")?.ok_or_else(|| invalid_field("filename", "is missing"))?.to_owned();
    let content_type = around.text("content_type")?.map(str::to_owned);
    around.keep(begun, &name, content_type).await
}

/// `GET /v1/files?limit&offset&channel_name&uploaded_by`.
pub(crate) async fn list(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let number = |key: &str| match request.params.get(key) {
        None => Ok(None),
        Some(text) => text.parse::<usize>().map(Some).map_err(|_| invalid_field(key, "a number")),
    };
    let text = |key: &str| request.params.get(key).filter(|text| !text.is_empty()).cloned();
    let filter = FileFilter {
        channel_name: text("channel_name"),
        uploaded_by: text("uploaded_by"),
        limit: number("limit")?,
        offset: number("offset")?.unwrap_or(0),
    };
    let found = call.session.files(filter).await?;
    let files: Vec<Value> = found.files.iter().map(dated).collect();
    Ok(answer::ok(&json!({ "files": files, "total": found.total })))
}

/// What the query says of who calls, as bodies say it.
fn said(request: &ApiRequest) -> Value {
    let compat = request.headers.contains_key("x-workspace-token");
    match request.params.get("source") {
        Some(source) => json!({ if compat { "agent_name" } else { "agent_id" }: source }),
        None => Value::Null,
    }
}

/// `GET /v1/files/{id}`: the bytes, whole or a range. A page that shows them can only say its token in the URL.
pub(crate) async fn get(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call_by_url(&said(&request))?;
    let found = call.session.file(request.named("id")).await?;
    let sent = KeptContent {
        contents: vec![found.content],
        tag: found.version,
        content_type: Some(&found.entry.content_type),
        filename: Some(&found.entry.filename),
    };
    ranges::answer(call.session.network(), &sent, &request.headers).await
}

/// `GET /v1/files/{id}/info`.
pub(crate) async fn info(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call_with(&said(&request))?;
    Ok(answer::ok(&dated(&call.session.file(request.named("id")).await?.entry)))
}

/// `DELETE /v1/files/{id}`.
pub(crate) async fn remove(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call_with(&said(&request))?;
    let id = request.named("id");
    call.session.delete_file(id).await?;
    Ok(answer::ok(&json!({ "id": id, "status": "deleted" })))
}
