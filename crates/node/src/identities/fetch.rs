//! The seam to the outside: what registrars and DIDs publish is fetched through it. The node opens no connection of its own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// Why nothing was fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It cannot be reached now: no connection, no answer in time, an error of the server.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// It answers that there is no such thing.
    #[error("not there (HTTP status {0})")]
    NotThere(u16),
    /// It is not asked at all, or what it says is not taken: a private host, too many bytes, a redirect.
    #[error("refused: {0}")]
    Refused(String),
}

/// What comes of it, later.
pub type Fetching<'f> = Pin<Box<dyn Future<Output = Result<Vec<u8>, FetchError>> + Send + 'f>>;

/// Whoever fetches.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Gets a document of at most so many bytes.
    fn get<'f>(&'f self, url: &'f str, bytes_max: usize) -> Fetching<'f>;
}

/// Fetches nothing: for a node that knows its own registrar only.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFetch;

impl Fetch for NoFetch {
    fn get<'f>(&'f self, _: &'f str, _: usize) -> Fetching<'f> {
        Box::pin(async { Err(FetchError::Unreachable("this node fetches nothing from others".to_owned())) })
    }
}
