//! The form of our own HTTP answers: `{code, message, data}` around what was asked for, and the same with `error` around a
//! refusal. A face whose protocol has another form does not use it.

use crate::status::http_status;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use rialto_model::error::ErrorView;
use rialto_model::{ErrorCode, Fault, limits, read};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What begins every good answer; its data and a closing brace follow.
pub const OK_HEAD: &str = "{\"code\":0,\"message\":\"ok\",\"data\":";

/// An answer whose body is this JSON text.
pub fn json_text(body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// `{"code":0,"message":"ok","data":…}` around JSON text.
pub fn ok_raw(data: &str) -> Response {
    json_text([OK_HEAD, data, "}"].concat())
}

/// The same around what is shown.
pub fn ok<T: Serialize + ?Sized>(data: &T) -> Response {
    match serde_json::to_string(data) {
        Ok(text) => ok_raw(&text),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written as JSON");
            Refusal::from(ErrorCode::Internal).into_response()
        }
    }
}

/// A refusal on its way to an HTTP client, with the event it is about.
#[derive(Debug)]
pub struct Refusal {
    /// What is refused, and why.
    pub fault: Fault,
    /// The event it is about, if it is about one.
    pub event_id: Option<String>,
}

/// A refusal as the body of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Refusal")]
pub struct RefusalBody {
    /// The HTTP status.
    pub code: u16,
    /// What is refused and why, for people.
    pub message: String,
    /// Nothing.
    pub data: (),
    /// The same for programs.
    pub error: ErrorView,
}

impl RefusalBody {
    /// The refusal of something with this status.
    pub fn new(status: u16, fault: &Fault, event_id: Option<&str>) -> RefusalBody {
        RefusalBody { code: status, message: fault.to_string(), data: (), error: fault.view(event_id) }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal { fault, event_id: None }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Fault::from(code).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = http_status(self.fault.code);
        let body = RefusalBody::new(status, &self.fault, self.event_id.as_deref());
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(body)).into_response();
        let wait = self.fault.details.as_ref().and_then(|d| d.get("retry_after_ms")).and_then(Value::as_u64);
        if let Some(ms) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
        }
        response
    }
}

/// The refusal of a field of a request, by its name.
pub fn invalid_field(name: &str, reason: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("{name}: {reason}")).field(name)
}

/// The refusal of a request whose path, query or headers cannot be read.
pub fn malformed() -> Refusal {
    Fault::new(ErrorCode::InvalidArgument, "the request is malformed").into()
}

/// The refusal of a body that is too large.
pub fn too_large() -> Refusal {
    Fault::new(ErrorCode::TooLarge, format!("a body is at most {} bytes", limits::BATCH_BYTES_MAX)).into()
}

/// Reads a body that is a JSON object; an empty one counts as `{}`.
pub fn json_object(body: &Bytes) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    let value: Value =
        serde_json::from_slice(body).map_err(|e| Fault::new(ErrorCode::InvalidJson, format!("not valid JSON: {e}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Fault::new(ErrorCode::InvalidArgument, "the body is a JSON object").into())
    }
}

/// Reads the members of a JSON object into a `T`. The refusal names the member that is missing or does not fit.
pub fn fields<T: DeserializeOwned>(object: &Value) -> Result<T, Fault> {
    read::value(object, read::BODY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct AcceptedEncoding {
        name: String,
        parts: Option<Vec<u8>>,
    }

    #[test]
    fn a_refusal_names_the_member() {
        let wish: AcceptedEncoding = fields(&json!({ "name": "a", "parts": [1], "more": true })).unwrap();
        assert_eq!((wish.name.as_str(), wish.parts), ("a", Some(vec![1])));
        for (body, field, text) in [
            (json!({}), "name", "name: is required"),
            (json!({ "name": 5 }), "name", "expected a string"),
            (json!({ "name": "a", "parts": [1, 999] }), "parts[1]", "expected u8"),
        ] {
            let fault = fields::<AcceptedEncoding>(&body).unwrap_err();
            assert_eq!(fault.details.as_ref().unwrap()["field"], field, "{fault}");
            assert!(fault.message.contains(text), "{fault}");
        }
    }
}
