//! A bridge: one agent that is a member of two networks and says again in the one what it heard in the other (sheet
//! section 11.4). Networks never pass anything on themselves.
//!
//! Invariants:
//! - An event is acked in the network it comes from only after the other network has answered for it, so what was chosen is
//!   not lost, whoever dies. Until then it waits in the bridge's own inbox: the network's queue, order, time to live and dead letters.
//! - It is sent under a key made of both networks and its id, so that a repeat is recognised and nothing is doubled.
//! - `metadata.via` names every network it came from; what has been in the other network already stays behind, and loops end.
//!
//! Not here: settings, files and terminals (`rialto bridge`).

mod choice;
mod end;
mod passage;

pub use choice::{BadPattern, BridgeChoice};
pub use end::{BridgeDoor, BridgeEnd};
pub use passage::LeftBehind;
use passage::{Passage, passage_of};

use crate::error::ClientError;
use crate::event::Event;
use crate::http::AckSelection;
use crate::query::EventQuery;
use rialto_model::ErrorCode;

/// Events read at a time.
const PAGE_EVENTS: u32 = 100;
/// A quiet inbox is waited for this long; then both ends show a sign of life.
const WAIT_SECONDS: u64 = 25;

/// What happened on a bridge, for whoever watches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BridgeNews {
    /// An event was taken over and is stored there.
    Passed {
        /// The network it came from.
        from: String,
        /// The network it went to.
        to: String,
        /// Its id there where it came from.
        id: String,
        /// Its id there where it went.
        new_id: String,
        /// Whether it was there already: a repeat after something died.
        duplicate: bool,
    },
    /// An event stays behind, and why.
    Left {
        /// The network it stays in.
        from: String,
        /// Its id.
        id: String,
        /// Why.
        why: LeftBehind,
    },
    /// The other network refuses an event for good. It is not acked: it waits in the bridge's inbox, is tried again when the bridge
    /// is started again, and dies by its time with a dead letter to its sender.
    Refused {
        /// The network it stays in.
        from: String,
        /// The network that refuses it.
        to: String,
        /// Its id.
        id: String,
        /// The refusal.
        error: String,
    },
    /// A network is not reached, or does not take anything now. Nothing is read meanwhile.
    Waiting {
        /// The end that is waited for, as it was named.
        end: String,
        /// What it said.
        reason: String,
    },
}

/// A bridge between two networks, in one direction.
#[derive(Debug, Clone)]
pub struct Bridge {
    from: BridgeEnd,
    to: BridgeEnd,
    choice: BridgeChoice,
    into: Option<String>,
}

impl Bridge {
    /// Carries what is chosen from one end to the other; to this target there, or to the same as here.
    pub fn new(from: BridgeEnd, to: BridgeEnd, choice: BridgeChoice, into: Option<String>) -> Bridge {
        Bridge { from, to, choice, into }
    }

    /// Runs until it is enough (asked when everything that was taken over is acked), or one of the ends refuses for good: a credential
    /// has ended, somebody else speaks under this name, a network is gone.
    pub async fn walk(
        &self,
        mut news: impl FnMut(BridgeNews),
        mut enough: impl FnMut() -> bool,
    ) -> Result<(), ClientError> {
        while !enough() {
            self.turn(&mut news).await?;
        }
        Ok(())
    }

    /// Joins both networks and takes the seats of the channels that were named. A channel that is missing where events go is made there.
    pub async fn open(&self, news: &mut impl FnMut(BridgeNews)) -> Result<(), ClientError> {
        for channel in self.choice.channels() {
            self.from.sit(&channel, false, news).await?;
            if self.into.is_none() {
                self.to.sit(&channel, true, news).await?;
            }
        }
        if let Some(channel) = self.into.as_deref().and_then(|target| target.strip_prefix("channel/")) {
            self.to.sit(channel, true, news).await?;
        }
        self.from.network(news).await?;
        let (from, to) = (self.from.network(news).await?, self.to.network(news).await?);
        if from == to {
            let text = format!("both ends are the network {from}: a bridge needs two");
            return Err(crate::error::ApiError::of(ErrorCode::InvalidArgument, text).into());
        }
        Ok(())
    }

    /// One page of the inbox: read, taken over, acked.
    async fn turn(&self, news: &mut impl FnMut(BridgeNews)) -> Result<(), ClientError> {
        let (from, to) = (self.from.network(news).await?, self.to.network(news).await?);
        let query = EventQuery {
            after: self.from.cursor(),
            limit: Some(PAGE_EVENTS),
            wait_s: Some(WAIT_SECONDS),
            ..EventQuery::inbox()
        };
        let query = &query;
        let page = match self.from.call(news, |http| async move { http.events(query).await }).await {
            // What it read up to was purged: what is pending is read from its beginning.
            Err(error) if error.is(ErrorCode::CursorUnknown) => {
                self.from.read_anew();
                return Ok(());
            }
            read => read?,
        };
        if page.events.is_empty() {
            let me = self.to.address();
            self.to.call(news, |http| async move { http.heartbeat(me).await }).await?;
        }
        let mut done = Vec::new();
        let mut failed = None;
        for event in &page.events {
            match self.take_over(event, &from, &to, news).await {
                Ok(true) => done.push(event.id.clone()),
                Ok(false) => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if !done.is_empty() {
            let acked = &AckSelection::Ids(done);
            self.from.call(news, |http| async move { http.ack(acked).await }).await?;
        }
        match failed {
            Some(error) => Err(error),
            None => {
                self.from.read_up_to(page.next_cursor);
                Ok(())
            }
        }
    }

    /// Whether the event is done with here: it is there now, or stays behind by the rules.
    async fn take_over(
        &self,
        event: &Event,
        from: &str,
        to: &str,
        news: &mut impl FnMut(BridgeNews),
    ) -> Result<bool, ClientError> {
        let passage = passage_of(event, from, to, &self.choice, self.into.as_deref());
        let (draft, key) = match passage {
            Passage::Over { draft, key } => (draft, key),
            Passage::Behind(why) => {
                news(BridgeNews::Left { from: from.to_owned(), id: event.id.clone(), why });
                return Ok(true);
            }
        };
        let (event_there, under) = (draft.as_ref(), key.as_str());
        let sent = self.to.call(news, |http| async move { http.emit_keyed(event_there, under).await }).await;
        match sent {
            Ok(emitted) => {
                news(BridgeNews::Passed {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    id: event.id.clone(),
                    new_id: emitted.id,
                    duplicate: emitted.duplicate,
                });
                Ok(true)
            }
            // The key is this event's alone: it is there, and was changed here since (redacted, for instance).
            Err(error) if error.is(ErrorCode::IdConflict) => {
                news(BridgeNews::Passed {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    id: event.id.clone(),
                    new_id: key,
                    duplicate: true,
                });
                Ok(true)
            }
            Err(error) if is_about_the_event(&error) => {
                news(BridgeNews::Refused {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    id: event.id.clone(),
                    error: error.to_string(),
                });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether another event may fare better: if not, the bridge has no business there any more.
fn is_about_the_event(error: &ClientError) -> bool {
    let ClientError::Api(api) = error else { return false };
    let about_us = matches!(
        api.known(),
        Some(
            ErrorCode::NetworkArchived
                | ErrorCode::NetworkNotFound
                | ErrorCode::NotAMember
                | ErrorCode::ObserverReadOnly
                | ErrorCode::SessionRevoked
                | ErrorCode::InvalidToken
                | ErrorCode::TokenRequired
                | ErrorCode::Unauthenticated
                | ErrorCode::AddressTaken
                | ErrorCode::SourceMismatch
        )
    );
    !about_us && api.status != 401
}
