//! What can go wrong on the client's side of the wire.

use rialto_model::{ErrorCode, ErrorKind};
use serde::Deserialize;
use serde_json::Value;

/// A refusal by the node: the payload of `network.event.error`, with the HTTP status where there was one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ApiError {
    /// HTTP status; 0 when the refusal came over a stream.
    pub status: u16,
    /// Registry code, or a guard's own dotted code.
    pub code: String,
    /// English text for people.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Machine-readable details.
    pub details: Option<Value>,
    /// The event that was refused, if the node could read its id.
    pub event_id: Option<String>,
    /// The mod that refused.
    pub by_mod: Option<String>,
}

/// Why a call or a stream failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The node refused.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// Nobody answers at that address, or the connection broke.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Where the node should be, without credentials.
        url: String,
        /// The cause, in the words of the transport.
        reason: String,
    },
    /// The node did not answer in time.
    #[error("no answer from {url} within {seconds} s")]
    Timeout {
        /// Where the node should be.
        url: String,
        /// How long we waited.
        seconds: u64,
    },
    /// The answer is not what the protocol says.
    #[error("unexpected answer: {0}")]
    Protocol(String),
    /// The address of the node is not a usable URL.
    #[error("{url:?} is not a usable URL: {reason}")]
    BadUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The stream ended and will not come back.
    #[error("the stream is closed: {0}")]
    Closed(String),
}

#[derive(Deserialize)]
struct WirePayload {
    code: String,
    #[serde(default)]
    message: String,
    event_id: Option<String>,
    retryable: Option<bool>,
    details: Option<Value>,
    #[serde(rename = "mod")]
    by_mod: Option<String>,
}

#[derive(Deserialize)]
struct WireAnswer {
    message: Option<String>,
    error: Option<WirePayload>,
}

impl ApiError {
    /// The code of the registry, unless a guard made up its own.
    pub fn known(&self) -> Option<ErrorCode> {
        ErrorCode::from_wire(&self.code)
    }

    /// The coarse kind: by code where it is known, else by HTTP status.
    pub fn kind(&self) -> ErrorKind {
        match self.known() {
            Some(code) => code.kind(),
            None => kind_of_status(self.status),
        }
    }

    /// Reads the body of an HTTP answer that is not a success. Any body gives an error; none gives a panic.
    pub fn from_http(status: u16, body: &[u8]) -> ApiError {
        match serde_json::from_slice::<WireAnswer>(body) {
            Ok(WireAnswer { error: Some(payload), .. }) => ApiError::from_wire(status, payload),
            Ok(WireAnswer { message: Some(message), .. }) => ApiError::from_message(status, &message),
            Ok(_) | Err(_) => ApiError::plain(status, &short_text(body)),
        }
    }

    /// Reads the payload of a `network.event.error`.
    pub fn from_payload(payload: &str) -> Option<ApiError> {
        let payload: WirePayload = serde_json::from_str(payload).ok()?;
        Some(ApiError::from_wire(0, payload))
    }

    /// A refusal seen on this side, in the registry's words.
    pub fn of(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError {
            status: 0,
            code: code.as_str().to_owned(),
            message: message.into(),
            retryable: code.retryable(),
            details: None,
            event_id: None,
            by_mod: None,
        }
    }

    fn from_wire(status: u16, p: WirePayload) -> ApiError {
        let retryable = p.retryable.or_else(|| ErrorCode::from_wire(&p.code).map(ErrorCode::retryable));
        ApiError {
            status,
            code: p.code,
            message: p.message,
            retryable: retryable.unwrap_or(false),
            details: p.details,
            event_id: p.event_id,
            by_mod: p.by_mod,
        }
    }

    /// The wrapper's `message` alone: `<error code>: text`.
    fn from_message(status: u16, message: &str) -> ApiError {
        match message.split_once(": ") {
            Some((code, text)) if ErrorCode::from_wire(code).is_some() => {
                let mut error = ApiError::plain(status, text);
                error.retryable = ErrorCode::from_wire(code).is_some_and(ErrorCode::retryable);
                code.clone_into(&mut error.code);
                error
            }
            Some(_) | None => ApiError::plain(status, message),
        }
    }

    /// An answer from something that does not speak our error shape, such as a proxy.
    fn plain(status: u16, message: &str) -> ApiError {
        ApiError {
            status,
            code: format!("http_{status}"),
            message: message.to_owned(),
            retryable: matches!(status, 429 | 502 | 503 | 504),
            details: None,
            event_id: None,
            by_mod: None,
        }
    }
}

impl From<ApiError> for ClientError {
    fn from(error: ApiError) -> ClientError {
        ClientError::Api(Box::new(error))
    }
}

impl ClientError {
    /// The coarse kind, for exit codes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Api(error) => error.kind(),
            Self::Unreachable { .. } | Self::Closed(_) => ErrorKind::Unavailable,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Protocol(_) => ErrorKind::Internal,
            Self::BadUrl { .. } => ErrorKind::BadInput,
        }
    }

    /// Whether trying the same again later may help.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Api(error) => error.retryable,
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Protocol(_) | Self::BadUrl { .. } | Self::Closed(_) => false,
        }
    }

    /// Whether the node refused with this code.
    pub fn is(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Api(error) if error.known() == Some(code))
    }
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Unauthenticated,
        403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        409 | 412 => ErrorKind::Conflict,
        408 | 504 => ErrorKind::Timeout,
        429 => ErrorKind::Exhausted,
        502 | 503 => ErrorKind::Unavailable,
        400..=499 => ErrorKind::BadInput,
        0 => ErrorKind::Forbidden, // a guard's own code on a stream
        _ => ErrorKind::Internal,
    }
}

/// The beginning of a foreign body, on one line.
fn short_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    let line = line.trim();
    if line.is_empty() { "the answer has no text".to_owned() } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_member_wins_over_the_message() {
        let body = br#"{"code":404,"message":"unknown_target: no such member","data":null,"error":{"code":"unknown_target","message":"agent:x is not a member","event_id":"e1","retryable":false,"details":{"field":"target"}}}"#;
        let error = ApiError::from_http(404, body);
        assert_eq!(error.to_string(), "unknown_target: agent:x is not a member");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.event_id.as_deref(), Some("e1"));
        assert_eq!(error.details, Some(serde_json::json!({"field": "target"})));
    }

    #[test]
    fn a_message_alone_still_gives_the_code() {
        let error = ApiError::from_http(503, br#"{"code":503,"message":"network_paused: try later","data":null}"#);
        assert_eq!(error.known(), Some(ErrorCode::NetworkPaused));
        assert!(error.retryable);
    }

    #[test]
    fn foreign_bodies_give_the_status() {
        let error = ApiError::from_http(502, b"<html>\nBad Gateway");
        assert_eq!(error.to_string(), "http_502: <html> Bad Gateway");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(ApiError::from_http(500, b"").message, "the answer has no text");
        assert_eq!(ApiError::from_http(404, b"[]").kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_guards_own_code_is_a_refusal() {
        let error =
            ApiError::from_payload(r#"{"code":"acme.too_rude","message":"be kind","mod":"mod/manners"}"#).unwrap();
        assert_eq!(error.known(), None);
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert_eq!(error.by_mod.as_deref(), Some("mod/manners"));
    }
}
