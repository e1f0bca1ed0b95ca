//! What agents were given by their last polls: the next poll acks it.
//!
//! Invariant: an answer counts as given only when it was handed over whole; whatever is forgotten here is given again. Nothing here is
//! durable, and nothing has to be.

use rialto_carrier::handover::Handover;
use rialto_model::{Seq, limits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// An answer on its way to an agent.
#[derive(Debug, Default)]
struct Given {
    seqs: Vec<Seq>,
    handover: Handover,
}

/// The last answer to each session, by the hash of its secret.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<PollLedger>);

#[derive(Debug, Default)]
struct PollLedger {
    given: BTreeMap<[u8; 32], Given>,
    /// In the order of their first polls.
    order: VecDeque<[u8; 32]>,
}

impl Polls {
    fn ledger(&self) -> std::sync::MutexGuard<'_, PollLedger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a session was given last, if that arrived.
    pub(super) fn arrived(&self, session: &[u8; 32]) -> Vec<Seq> {
        let given = self.ledger().given.get_mut(session).map(std::mem::take);
        given.filter(|given| given.handover.is_done()).map(|given| given.seqs).unwrap_or_default()
    }

    /// Notes what a session is given. Of more sessions than are kept, the one that began to poll first is forgotten.
    pub(super) fn note(&self, session: [u8; 32], seqs: Vec<Seq>) -> Handover {
        let handover = Handover::default();
        let mut ledger = self.ledger();
        let given = Given { seqs, handover: handover.clone() };
        if ledger.given.insert(session, given).is_none() {
            ledger.order.push_back(session);
        }
        while ledger.given.len() > limits::SDK_POLLS_MAX {
            let Some(oldest) = ledger.order.pop_front() else { break };
            ledger.given.remove(&oldest);
        }
        handover
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::response::Response;
    use http_body_util::BodyExt as _;
    use rialto_carrier::handover::watched;

    async fn read_whole(handover: Handover) {
        let mut response = Response::new(Body::from("something"));
        response.extensions_mut().insert(handover);
        watched(response, None).into_body().collect().await.unwrap();
    }

    #[tokio::test]
    async fn what_was_handed_over_arrived_once_and_nothing_else_did() {
        let (polls, session) = (Polls::default(), [1; 32]);
        polls.note(session, vec![4, 5]);
        assert_eq!(polls.arrived(&session), Vec::<Seq>::new());
        read_whole(polls.note(session, vec![4, 5])).await;
        assert_eq!(polls.arrived(&session), [4, 5]);
        assert_eq!(polls.arrived(&session), Vec::<Seq>::new());
    }

    #[tokio::test]
    async fn sdk_polls_max() {
        let polls = Polls::default();
        let name = |n: usize| <[u8; 32]>::try_from([n.to_le_bytes().as_slice(), &[0; 24]].concat()).unwrap();
        for n in 0..=limits::SDK_POLLS_MAX {
            let handover = polls.note(name(n), vec![1]);
            if n < 2 {
                read_whole(handover).await;
            }
        }
        // The oldest is forgotten: its events come again.
        assert_eq!(polls.arrived(&name(0)), Vec::<Seq>::new());
        assert_eq!(polls.arrived(&name(1)), [1]);
        let ledger = polls.ledger();
        assert_eq!((ledger.given.len(), ledger.order.len()), (limits::SDK_POLLS_MAX, limits::SDK_POLLS_MAX));
    }
}
