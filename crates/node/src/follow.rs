//! Reading on from a cursor: what is there, then what is committed, without a gap and without a double.
//!
//! Invariant: what was committed is noted before a read, so a commit during the read wakes the next wait. Streams, long polls and those
//! who watch a unit of work all wait here.
//! Not here: how pages are written (the faces), and what a page holds (`query`, `work`).

use crate::network::Network;
use crate::query::{Query, QueryResult};
use crate::session::Session;
use rialto_model::{ErrorCode, Fault, Seq};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Commits of a network, for somebody who reads again when there was one. Safe to drop at any await.
#[derive(Debug)]
pub struct Commits {
    head: watch::Receiver<Seq>,
    deadline: Option<Instant>,
}

/// What a wait for a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something was committed since the last read began.
    Committed,
    /// The time of whoever waits is over.
    TimeIsOver,
}

impl Commits {
    /// Commits of a network from here on, for a reader that waits as long as it takes.
    pub fn of(network: &Network) -> Commits {
        Commits { head: network.head(), deadline: None }
    }

    /// The same for a reader that waits so long from now, over all its waits.
    #[must_use]
    pub fn within(self, time: Duration) -> Commits {
        Commits { deadline: Some(Instant::now() + time), ..self }
    }

    /// Notes what is committed by now, and returns its position. Callers read after that.
    pub fn begin_read(&mut self) -> Seq {
        *self.head.borrow_and_update()
    }

    /// Waits until something was committed since the last [`Commits::begin_read`]. Refused when the node stops.
    pub async fn wait(&mut self) -> Result<Woken, Fault> {
        let changed = match self.deadline {
            None => self.head.changed().await,
            Some(deadline) => match timeout_at(deadline, self.head.changed()).await {
                Ok(changed) => changed,
                Err(_) => return Ok(Woken::TimeIsOver),
            },
        };
        changed.map(|()| Woken::Committed).map_err(|_| ErrorCode::ShuttingDown.into())
    }
}

/// A query that is read on from where the last page ended.
#[derive(Debug)]
pub struct Follow {
    session: Session,
    query: Query,
    commits: Commits,
}

impl Session {
    /// Follows a query from its own cursor on. The query's rights are looked at with each page.
    pub fn follow(&self, query: Query) -> Follow {
        Follow { session: self.clone(), query, commits: Commits::of(&self.network) }
    }
}

impl Follow {
    /// The same for a reader that waits so long from now.
    #[must_use]
    pub fn within(self, time: Duration) -> Follow {
        Follow { commits: self.commits.within(time), ..self }
    }

    /// Who follows.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What is followed; its cursor is where the next page begins.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Reads the page behind the cursor, which may be empty, and moves the cursor behind it. A query that is read from its newest
    /// event back has no place to go on from, and neither has one that looks for words and found none: it is read again as it is.
    /// Dropped, it moves nothing.
    pub async fn read(&mut self) -> Result<QueryResult, Fault> {
        self.commits.begin_read();
        let page = self.session.query(&self.query).await?;
        let has_place = self.query.search.is_none() || page.has_something();
        if !self.query.filter.descending && has_place {
            self.query.after = Some(format!("seq:{}", page.next));
        }
        Ok(page)
    }

    /// Waits until there may be more than the last page had. Safe to drop.
    pub async fn wait(&mut self) -> Result<Woken, Fault> {
        self.commits.wait().await
    }

    /// The next page that has something: what is there at once, else what is committed. An empty one when the time is over.
    pub async fn next(&mut self) -> Result<QueryResult, Fault> {
        loop {
            let page = self.read().await?;
            if page.has_something() || self.wait().await? == Woken::TimeIsOver {
                return Ok(page);
            }
        }
    }
}
