//! Work units as their sides see them: lists, one unit, and watching it to its end.

use crate::command::Look;
use crate::network::Network;
use crate::query::Query;
use rialto_engine::work::WorkAct;
use rialto_engine::{Caller, EventRecord, UnitFilter};
use rialto_model::{ErrorCode, Fault, Seq, WorkState};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a reader waits for what it is about to be shown to reach the disk.
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// Events of a unit read at once.
const PAGE: usize = 64;

/// What a watcher sees: the unit as it is, then every event of it in order, up to the one that ends it.
#[derive(Debug, Clone)]
pub enum Watched {
    /// The unit when the watch began.
    Snapshot(Value),
    /// What happened since.
    Event(Arc<EventRecord>),
}

/// Somebody who follows a unit. Reads the log by cursor, so all who follow see the same in the same order, and nobody
/// who reads slowly costs anybody anything.
#[derive(Debug)]
pub struct WorkWatch {
    network: Network,
    caller: Arc<Caller>,
    id: String,
    head: watch::Receiver<Seq>,
    snapshot: Option<Value>,
    cursor: Seq,
    ready: std::collections::VecDeque<Arc<EventRecord>>,
    ended: bool,
}

/// Whether this event ends its unit.
pub fn ends_work(record: &EventRecord) -> bool {
    work_state(record).is_some_and(WorkState::is_terminal)
}

/// The state in which the event leaves its unit.
pub fn work_state(record: &EventRecord) -> Option<WorkState> {
    record.more.as_ref()?.work.as_ref().map(|mark| mark.state)
}

/// Whether the event opened its unit.
pub fn opens_work(record: &EventRecord) -> bool {
    record.more.as_ref().and_then(|m| m.work.as_ref()).is_some_and(|mark| matches!(mark.act, WorkAct::Open(_)))
}

impl Network {
    /// Units the caller may see, newest first. `next` is what `before` of the following page is.
    pub async fn works(&self, caller: &Arc<Caller>, filter: UnitFilter, limit: Option<i64>) -> Result<Value, Fault> {
        let limit = Query { limit, ..Query::default() }.checked_limit()?;
        let list = self.look(caller, Look::Works { filter: Box::new(filter), limit }).await?;
        let last = list.get("works").and_then(Value::as_array).into_iter().flatten();
        let newest = last.filter_map(|unit| unit.get("last_seq")?.as_u64()).max().unwrap_or(0);
        self.committed(newest).await?;
        Ok(list)
    }

    /// One unit by its id, or by the name the caller gave it.
    pub async fn work(&self, caller: &Arc<Caller>, id: &str) -> Result<Value, Fault> {
        let unit = self.look(caller, Look::Work(id.to_owned())).await?;
        self.committed(unit.get("last_seq").and_then(Value::as_u64).unwrap_or(0)).await?;
        Ok(unit)
    }

    /// Events of a unit after a position, oldest first.
    pub async fn work_events(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Arc<EventRecord>>, Fault> {
        let found = self.look(caller, Look::WorkLog { id: id.to_owned(), after, limit }).await?;
        let seqs = found.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        self.read(seqs).await
    }

    /// Follows a unit from here to its end.
    pub async fn watch_work(&self, caller: &Arc<Caller>, id: &str) -> Result<WorkWatch, Fault> {
        // Taken before the look: whatever commits after it is news.
        let head = self.head();
        let unit = self.work(caller, id).await?;
        let state = unit.get("state").and_then(Value::as_str).and_then(WorkState::from_wire);
        Ok(WorkWatch {
            network: self.clone(),
            caller: caller.clone(),
            id: unit.get("id").and_then(Value::as_str).unwrap_or(id).to_owned(),
            head,
            cursor: unit.get("last_seq").and_then(Value::as_u64).unwrap_or(0),
            snapshot: Some(unit),
            ready: std::collections::VecDeque::new(),
            ended: state.is_none_or(WorkState::is_terminal),
        })
    }

    /// Waits until a position is on the disk: nobody is shown what a power cut could take back.
    pub(crate) async fn committed(&self, seq: Seq) -> Result<(), Fault> {
        let mut head = self.head();
        let reached = tokio::time::timeout(COMMIT_WAIT, head.wait_for(|head| *head >= seq)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(ErrorCode::ShuttingDown.into()),
            Err(_) => Err(ErrorCode::StorageUnavailable.into()),
        }
    }
}

impl WorkWatch {
    /// The next thing to see; nothing after the end.
    pub async fn next(&mut self) -> Result<Option<Watched>, Fault> {
        if let Some(unit) = self.snapshot.take() {
            return Ok(Some(Watched::Snapshot(unit)));
        }
        loop {
            if let Some(record) = self.ready.pop_front() {
                self.cursor = record.event.seq;
                if ends_work(&record) {
                    self.ended = true;
                    self.ready.clear();
                }
                return Ok(Some(Watched::Event(record)));
            }
            if self.ended {
                return Ok(None);
            }
            self.head.borrow_and_update();
            let events = self.network.work_events(&self.caller, &self.id, self.cursor, PAGE).await?;
            if events.is_empty() {
                self.head.changed().await.map_err(|_| Fault::from(ErrorCode::ShuttingDown))?;
            }
            self.ready.extend(events);
        }
    }
}
