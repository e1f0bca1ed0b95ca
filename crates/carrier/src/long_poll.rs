//! Long polls: a read that finds nothing is done again when something was committed, until its time is over.

use crate::answer::Refusal;
use crate::request::Params;
use rialto_model::{ErrorCode, Fault, Seq, limits};
use rialto_node::Network;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

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

/// A read that is repeated until it finds something or its time is over.
#[derive(Debug)]
pub struct LongPoll {
    head: watch::Receiver<Seq>,
    deadline: Option<Instant>,
}

impl LongPoll {
    /// A read of this network that may wait so long; without a time it does not wait.
    pub fn new(network: &Network, wait: Option<Duration>) -> LongPoll {
        LongPoll { head: network.head(), deadline: wait.map(|wait| Instant::now() + wait) }
    }

    /// Notes what is committed by now, and returns its position. Callers read after that.
    pub fn begin_read(&mut self) -> Seq {
        *self.head.borrow_and_update()
    }

    /// Waits until something was committed since [`LongPoll::begin_read`]. Returns false when the time is over. Safe to drop.
    pub async fn is_worth_another(&mut self) -> bool {
        match self.deadline {
            None => false,
            Some(deadline) => timeout_at(deadline, self.head.changed()).await.is_ok(),
        }
    }
}
