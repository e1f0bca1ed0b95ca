//! Why a measurement did not come about.

/// A failed measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file, a socket or a process failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A server said something else than expected.
    #[error("{0}")]
    Answer(String),
    /// A server said nothing for too long.
    #[error("{0} took too long")]
    Timeout(String),
    /// Something this needs is not on this machine.
    #[error("{0}")]
    Missing(String),
}

impl BenchError {
    pub(crate) fn answer(text: impl Into<String>) -> BenchError {
        BenchError::Answer(text.into())
    }
}

/// Says what was being done when an I/O call failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, BenchError>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::Io { what: what.into(), source })
    }
}
