//! What a handler is told of a request besides its body, read once in one place.

use crate::answer::{Refusal, malformed};
use crate::proxy::Client;
use crate::standing::Stranger;
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path, Query};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use std::collections::BTreeMap;

/// Named parts of a path, or parameters of a query.
pub type Params = BTreeMap<String, String>;

/// A request without its body.
#[derive(Debug)]
pub struct RequestInfo {
    /// The parts of the path that have names.
    pub path: Params,
    /// The parameters of the query.
    pub params: Params,
    /// The headers.
    pub headers: HeaderMap,
    /// Who asks, as far as the network below knows.
    pub client: Client,
    /// It came without a credential in its headers.
    pub stranger: Option<Stranger>,
}

impl<S: Send + Sync> FromRequestParts<S> for RequestInfo {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<RequestInfo, Refusal> {
        let path = <Path<Params> as OptionalFromRequestParts<S>>::from_request_parts(parts, state).await;
        let path = path.map_err(|_| malformed())?;
        let Query(params) = Query::<Params>::try_from_uri(&parts.uri).map_err(|_| malformed())?;
        let path = path.map(|Path(path)| path).unwrap_or_default();
        let client = parts.extensions.get::<Client>().copied().unwrap_or_default();
        let stranger = parts.extensions.get::<Stranger>().cloned();
        Ok(RequestInfo { path, params, headers: parts.headers.clone(), client, stranger })
    }
}
