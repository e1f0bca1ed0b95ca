//! Long polls: how long a reader waits at most. The waiting itself is the node's ([`rialto_node::Follow`], [`rialto_node::Commits`]).

use crate::answer::Refusal;
use crate::request::Params;
use rialto_model::{ErrorCode, Fault, limits};
use std::time::Duration;

/// `wait` of a query in seconds, within its bounds.
pub fn wait_seconds(params: &Params) -> Result<Option<Duration>, Refusal> {
    let Some(text) = params.get("wait") else { return Ok(None) };
    let seconds: f64 =
        text.parse().ok().filter(|s| (0.0..=limits::WAIT_SECONDS_MAX as f64).contains(s)).ok_or_else(|| {
            Fault::new(ErrorCode::InvalidArgument, format!("wait is 0 to {} seconds", limits::WAIT_SECONDS_MAX))
                .field("wait")
        })?;
    Ok(Some(Duration::from_secs_f64(seconds)))
}
