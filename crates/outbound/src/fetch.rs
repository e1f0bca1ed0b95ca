//! One request, and what comes back.

use crate::bounds::FetchBounds;
use crate::client::ConnectionTask;
use crate::error::OutboundError;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use rialto_model::limits;
use tokio::time::{Instant, timeout_at};

/// What is to be asked. Headers are the caller's; those that say how a message is framed or whom it is for are ours.
#[derive(Clone)]
pub struct Fetch {
    pub(crate) url: String,
    pub(crate) body: Option<Bytes>,
    pub(crate) headers: HeaderMap,
    pub(crate) bounds: FetchBounds,
}

/// URL, values of headers and body may hold secrets.
impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let headers: Vec<_> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Fetch").field("headers", &headers).field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// Why a request is not sent as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFetch(pub &'static str);

/// Headers that only the client itself writes.
const OURS: [HeaderName; 9] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
];

impl Fetch {
    /// `GET url`.
    pub fn get(url: &str) -> Fetch {
        Fetch { url: url.to_owned(), body: None, headers: HeaderMap::new(), bounds: FetchBounds::default() }
    }

    /// `POST url` with this body.
    pub fn post(url: &str, content_type: &'static str, body: impl Into<Bytes>) -> Fetch {
        let mut call = Fetch::get(url);
        call.body = Some(body.into());
        call.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        call
    }

    /// The same call with one header more. A value that is a secret is marked so, and never shown.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Fetch, BadFetch> {
        let name = HeaderName::try_from(name).map_err(|_| BadFetch("a header's name has other characters"))?;
        if OURS.contains(&name) || name.as_str().starts_with("proxy-") {
            return Err(BadFetch("a header of the connection is not the caller's to set"));
        }
        let mut value =
            HeaderValue::try_from(value).map_err(|_| BadFetch("a header's value has a line break or control"))?;
        value.set_sensitive(name == header::AUTHORIZATION || name == header::COOKIE);
        if self.headers.len() >= limits::OUTBOUND_HEADERS_MAX {
            return Err(BadFetch("it has more than 64 headers"));
        }
        self.headers.append(name, value);
        Ok(self)
    }

    /// The same call within these bounds.
    pub fn within(mut self, bounds: FetchBounds) -> Fetch {
        self.bounds = bounds;
        self
    }

    pub(crate) fn check(&self) -> Result<(), OutboundError> {
        if self.body.as_ref().is_some_and(|body| body.len() > limits::OUTBOUND_BODY_BYTES_MAX) {
            return Err(OutboundError::Request("its body has more than 4 MiB"));
        }
        Ok(())
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The status; never a redirect.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Fetched {
    /// Whether the status is one of success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// An answer whose body is read as it comes.
#[derive(Debug)]
pub struct Fetching {
    /// The status; never a redirect.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    pub(crate) host: String,
    pub(crate) body: hyper::body::Incoming,
    pub(crate) left: usize,
    pub(crate) bounds: FetchBounds,
    pub(crate) until: Instant,
    /// The connection ends with the answer.
    pub(crate) _line: ConnectionTask,
}

impl Fetching {
    /// The next bytes, or nothing more.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, OutboundError> {
        loop {
            let frame = match timeout_at(self.until, self.body.frame()).await {
                Err(_) => return Err(self.too_slow()),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(OutboundError::Answer { host: self.host.clone(), reason: error.to_string() });
                }
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            match self.left.checked_sub(data.len()) {
                Some(left) => self.left = left,
                None => {
                    return Err(OutboundError::TooLarge { host: self.host.clone(), limit: self.bounds.answer_bytes });
                }
            }
            return Ok(Some(data));
        }
    }

    /// All that is left, at once.
    pub async fn collect(mut self) -> Result<Fetched, OutboundError> {
        let mut body = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(Fetched { status: self.status, headers: self.headers, body: body.freeze() })
    }

    fn too_slow(&self) -> OutboundError {
        OutboundError::TooSlow {
            host: self.host.clone(),
            phase: "for its answer",
            millis: u64::try_from(self.bounds.whole.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
