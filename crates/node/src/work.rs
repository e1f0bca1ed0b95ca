//! Work units as their sides see them: lists, one unit, and watching it to its end.

use crate::follow::Commits;
use crate::network::Network;
use crate::query::Query;
use crate::session::Session;
use crate::task::Task;
use crate::task::read::ReadContext;
use rialto_engine::input::Content;
use rialto_engine::work::WorkAct;
use rialto_engine::{EventRecord, UnitFilter};
use rialto_model::view::{WorkList, WorkView};
use rialto_model::{ErrorCode, Fault, Seq, WorkState, limits};
use std::sync::Arc;
use std::time::Duration;

/// How long a reader waits for what it is about to be shown to reach the disk.
const COMMIT_WAIT: Duration = Duration::from_secs(10);
/// Events of a unit read at once.
const PAGE: usize = 64;

/// What a watcher sees: the unit as it is, then every event of it in order, up to the one that ends it.
#[derive(Debug, Clone)]
pub enum WorkSight {
    /// The unit when the watch began.
    Snapshot(Box<WorkView>),
    /// What happened since.
    Event(Arc<EventRecord>),
}

/// Somebody who follows a unit. Reads the log by cursor, so all who follow see the same in the same order, and nobody
/// who reads slowly costs anybody anything.
#[derive(Debug)]
pub struct WorkWatch {
    session: Session,
    id: String,
    commits: Commits,
    snapshot: Option<Box<WorkView>>,
    cursor: Seq,
    ready: std::collections::VecDeque<Arc<EventRecord>>,
    ended: bool,
}

/// Events of a unit.
#[derive(Debug, Clone)]
pub struct WorkPage {
    /// The events, oldest first.
    pub events: Vec<Arc<EventRecord>>,
    /// More of them are there.
    pub has_more: bool,
    /// The unit ended with the last of them, or before.
    pub ended: bool,
}

/// An artifact that is kept as content.
#[derive(Debug, Clone)]
pub struct FoundArtifact {
    /// Its name.
    pub name: Option<String>,
    /// What kind of content it is.
    pub content_type: Option<String>,
    /// The event that brought the last of it.
    pub seq: Seq,
    /// Its content, in order.
    pub contents: Vec<Content>,
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

impl Session {
    /// Units the caller may see, newest first. `next` is what `before` of the following page is.
    pub async fn works(&self, filter: UnitFilter, limit: Option<i64>) -> Result<WorkList, Fault> {
        let limit = Query { limit, ..Query::default() }.checked_limit()?;
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            let engine = &task.engine;
            Ok(engine.state.unit_list(&engine.live, by.viewer, &filter, limit, by.now))
        };
        let list = self.view(read).await?;
        self.network.committed(list.works.iter().map(|unit| unit.last_seq).max().unwrap_or(0)).await?;
        Ok(list)
    }

    /// One unit by its id, or by the name the caller gave it.
    pub async fn work(&self, id: &str) -> Result<WorkView, Fault> {
        let id = id.to_owned();
        let unit = self.view(move |task, by| task.work(by, &id)).await?;
        self.network.committed(unit.last_seq).await?;
        Ok(unit)
    }

    /// An artifact that is kept as content, for whoever may see its unit.
    pub async fn artifact(&self, id: &str, artifact: &str) -> Result<FoundArtifact, Fault> {
        let (id, artifact) = (id.to_owned(), artifact.to_owned());
        let (found, last_seq) = self.view(move |task, by| task.artifact(by.viewer, &id, &artifact)).await?;
        self.network.committed(last_seq).await?;
        Ok(found)
    }

    /// Events of a unit after a position, oldest first: at most `limit`, and no more than a page of bytes.
    pub async fn work_page(&self, id: &str, after: Seq, limit: usize) -> Result<WorkPage, Fault> {
        let named = id.to_owned();
        let mut seqs = self.view(move |task, by| task.work_log(by.viewer, &named, after, limit + 1)).await?;
        let longer = seqs.len() > limit;
        seqs.truncate(limit);
        let count = seqs.len();
        let (events, looked_at) = self.network.read_some(seqs, limits::PAGE_BYTES_MAX).await?;
        let has_more = longer || looked_at < count;
        let ended = match events.last() {
            Some(last) => ends_work(last),
            // Nothing is behind the position; the event that ends the unit may be before it.
            None => {
                let unit = self.work(id).await?;
                unit.last_seq <= after && unit.state.is_terminal()
            }
        };
        Ok(WorkPage { events, has_more, ended })
    }

    /// Follows a unit from here to its end, beginning with the unit as it is.
    pub async fn watch_work(&self, id: &str) -> Result<WorkWatch, Fault> {
        self.follow_work(id, None).await
    }

    /// Follows a unit on from a position, without a snapshot: the watcher knows what was before.
    pub async fn resume_work(&self, id: &str, after: Seq) -> Result<WorkWatch, Fault> {
        self.follow_work(id, Some(after)).await
    }

    async fn follow_work(&self, id: &str, after: Option<Seq>) -> Result<WorkWatch, Fault> {
        // Taken before the look: whatever commits after it is news.
        let commits = Commits::of(&self.network);
        let unit = self.work(id).await?;
        let cursor = after.unwrap_or(unit.last_seq);
        Ok(WorkWatch {
            session: self.clone(),
            id: unit.id.to_string(),
            commits,
            cursor,
            ended: unit.state.is_terminal() && cursor >= unit.last_seq,
            snapshot: after.is_none().then(|| Box::new(unit)),
            ready: std::collections::VecDeque::new(),
        })
    }
}

impl Network {
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
    /// Whether there is nothing left to see.
    pub fn is_over(&self) -> bool {
        self.ended && self.snapshot.is_none() && self.ready.is_empty()
    }

    /// The next thing to see; nothing after the end.
    pub async fn next(&mut self) -> Result<Option<WorkSight>, Fault> {
        if let Some(unit) = self.snapshot.take() {
            return Ok(Some(WorkSight::Snapshot(unit)));
        }
        loop {
            if let Some(record) = self.ready.pop_front() {
                self.cursor = record.event.seq;
                if ends_work(&record) {
                    self.ended = true;
                    self.ready.clear();
                }
                return Ok(Some(WorkSight::Event(record)));
            }
            if self.ended {
                return Ok(None);
            }
            self.commits.begin_read();
            let page = self.session.work_page(&self.id, self.cursor, PAGE).await?;
            if page.events.is_empty() {
                if page.ended {
                    return Ok(None);
                }
                self.commits.wait().await?;
            }
            self.ready.extend(page.events);
        }
    }
}
