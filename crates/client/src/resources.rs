//! Resources: lists, content in and out, and tools that are called.

use crate::endpoint::encode;
use crate::error::ClientError;
use crate::http::{ANSWER_WAIT, Body, Http, Payload};
use crate::query::query_string;
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use serde_json::Value;
use serde_json::value::RawValue;
use std::io::Read;
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes read from a file at once.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces read ahead of the connection.
const PIECES_AHEAD: usize = 4;
/// An upload that does not end in this time is given up.
pub(crate) const UPLOAD_WAIT: Duration = Duration::from_secs(3600);

/// Which resources to list. Everything absent is left to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the query parameters, by their names")]
pub struct ResourceQuery {
    pub kind: Option<String>,
    pub owner: Option<String>,
    pub prefix: Option<String>,
    pub query: Option<String>,
    /// `next` of the page before.
    pub after: Option<String>,
    /// 1 to 500.
    pub limit: Option<u32>,
}

/// Content on its way to a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the sheet")]
pub struct Upload {
    pub content_type: Option<String>,
    pub description: Option<String>,
    /// Rules as JSON.
    pub permissions: Option<String>,
    /// Only if this is the version that is there; 0 if nothing may be there.
    pub if_version: Option<u64>,
}

/// Content that waits to be named.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct StagedBlob {
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// Bytes.
    pub size: u64,
}

/// The bytes of a reader, read piece by piece, away from the runtime's threads.
pub(crate) fn payload(mut reader: impl Read + Send + 'static) -> Payload {
    let (pieces_in, pieces) = mpsc::channel::<Result<Bytes, std::io::Error>>(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = match reader.read(&mut piece) {
                Ok(0) => return,
                Ok(n) => Ok(Bytes::from(piece).slice(..n)),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if pieces_in.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    let stream = futures_util::stream::unfold(pieces, |mut pieces| async move {
        pieces.recv().await.map(|piece| (piece.map(Frame::data), pieces))
    });
    StreamBody::new(stream).boxed_unsync()
}

/// The path of a resource: `resource/file/a/b` without its first word, each part encoded.
fn path_of(address: &str) -> String {
    let parts: Vec<String> = address.trim_start_matches("resource/").split('/').map(encode).collect();
    format!("resources/{}", parts.join("/"))
}

impl Http {
    /// `GET /v1/resources`.
    pub async fn resources(&self, query: &ResourceQuery) -> Result<Value, ClientError> {
        let query = query_string([
            ("type", query.kind.clone()),
            ("owner", query.owner.clone()),
            ("prefix", query.prefix.clone()),
            ("query", query.query.clone()),
            ("after", query.after.clone()),
            ("limit", query.limit.map(|n| n.to_string())),
        ]);
        self.get(&format!("resources{query}")).await
    }

    /// What is known of one resource, without its content.
    pub async fn resource(&self, address: &str) -> Result<Value, ClientError> {
        self.get(&format!("{}?info=true", path_of(address))).await
    }

    /// The content of a resource; `range` as in the `Range` header, without `bytes=`.
    pub async fn resource_content(
        &self,
        address: &str,
        version: Option<u64>,
        range: Option<&str>,
    ) -> Result<Body, ClientError> {
        let query = query_string([("version", version.map(|n| n.to_string()))]);
        let url = self.endpoint().call(self.network(), &format!("{}{query}", path_of(address)));
        let headers: Vec<(&str, String)> = range.map(|r| ("range", format!("bytes={r}"))).into_iter().collect();
        self.open(Method::GET, url, None, &headers).await
    }

    /// `POST /v1/resources`: registers a resource.
    pub async fn register_resource(&self, payload: &Value) -> Result<Value, ClientError> {
        self.post("resources", payload).await
    }

    /// `PATCH /v1/resources/…`: changes a resource.
    pub async fn change_resource(&self, address: &str, payload: &Value) -> Result<Value, ClientError> {
        let url = self.endpoint().call(self.network(), &path_of(address));
        self.call(Method::PATCH, url, Some(payload.to_string()), ANSWER_WAIT).await
    }

    /// `DELETE /v1/resources/…`: unregisters a resource.
    pub async fn remove_resource(&self, address: &str) -> Result<Value, ClientError> {
        let url = self.endpoint().call(self.network(), &path_of(address));
        self.call(Method::DELETE, url, None, ANSWER_WAIT).await
    }

    /// `PUT /v1/resources/…`: the reader's bytes become the content. They are read piece by piece, away from the
    /// runtime's threads.
    pub async fn put_resource(
        &self,
        address: &str,
        upload: &Upload,
        length: Option<u64>,
        reader: impl Read + Send + 'static,
    ) -> Result<Value, ClientError> {
        let query =
            query_string([("description", upload.description.clone()), ("permissions", upload.permissions.clone())]);
        let url = self.endpoint().call(self.network(), &format!("{}{query}", path_of(address)));
        let mut headers: Vec<(&str, String)> = Vec::new();
        headers.extend(upload.content_type.clone().map(|kind| ("content-type", kind)));
        headers.extend(length.map(|n| ("content-length", n.to_string())));
        headers.extend(upload.if_version.map(|n| match n {
            0 => ("if-none-match", "*".to_owned()),
            n => ("if-match", format!("\"{n}\"")),
        }));
        self.upload(Method::PUT, url, payload(reader), &headers, UPLOAD_WAIT).await
    }

    /// `POST /v1/blobs`: the reader's bytes become content that an event of the caller's may name.
    pub async fn stage(
        &self,
        length: Option<u64>,
        reader: impl Read + Send + 'static,
    ) -> Result<StagedBlob, ClientError> {
        let url = self.endpoint().call(self.network(), "blobs");
        let headers: Vec<(&str, String)> = length.map(|n| ("content-length", n.to_string())).into_iter().collect();
        self.upload(Method::POST, url, payload(reader), &headers, UPLOAD_WAIT).await
    }

    /// `POST /v1/invoke/{tool}`: calls a tool and waits for what ends the call.
    pub async fn invoke(
        &self,
        tool: &str,
        input: &RawValue,
        timeout: Option<Duration>,
        wait_for_owner: bool,
    ) -> Result<Value, ClientError> {
        let query = query_string([
            ("timeout_ms", timeout.map(|t| t.as_millis().to_string())),
            ("wait_for_owner", wait_for_owner.then(|| "true".to_owned())),
        ]);
        let name = tool.trim_start_matches("resource/").trim_start_matches("tool/");
        let url = self.endpoint().call(self.network(), &format!("invoke/{}{query}", encode(name)));
        let limit = ANSWER_WAIT + timeout.unwrap_or(Duration::from_secs(30));
        self.call(Method::POST, url, Some(input.get().to_owned()), limit).await
    }
}
