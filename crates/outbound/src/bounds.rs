//! How long a call may take and how much may come back.

use rialto_model::limits;
use std::time::Duration;

/// The bounds of one call. The default is for documents; whoever fetches more says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchBounds {
    /// Until a connection stands, TLS included.
    pub connect: Duration,
    /// From the request to the head of the answer.
    pub head: Duration,
    /// The whole call, look-up included.
    pub whole: Duration,
    /// The body of the answer.
    pub answer_bytes: usize,
}

impl Default for FetchBounds {
    fn default() -> FetchBounds {
        FetchBounds {
            connect: Duration::from_secs(limits::OUTBOUND_CONNECT_SECONDS_MAX),
            head: Duration::from_secs(limits::OUTBOUND_HEAD_SECONDS_MAX),
            whole: Duration::from_secs(limits::OUTBOUND_WHOLE_SECONDS_MAX),
            answer_bytes: limits::OUTBOUND_ANSWER_BYTES_DEFAULT,
        }
    }
}
