//! Reading history: candidates from the network's task, bodies from the store, the lens in between.

use crate::session::Session;
use rialto_engine::{EventRecord, Filter, Record, View, Viewer};
use rialto_model::{ErrorCode, Event, Fault, Seq, limits};
use rialto_store::{Seqs, Store};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Events read before their bytes are counted, where they are read against their order.
const PIECE_EVENTS: usize = 32;
/// Room for so many events is made before they are read.
const READ_AT_ONCE: usize = 256;

/// A read of history or of an inbox (sheet section 12.5); positions are still cursors.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Strictly after this cursor.
    pub after: Option<String>,
    /// Strictly before this cursor.
    pub before: Option<String>,
    /// At most this many; the default page if none.
    pub limit: Option<i64>,
    /// Inbox or log; the face decides if none.
    pub view: Option<View>,
    /// The rest.
    pub filter: Filter,
    /// An unknown cursor starts from the beginning instead of being refused.
    pub lenient_cursor: bool,
    /// Full-text search.
    pub search: Option<String>,
    /// The reader is sent what comes, without asking each time: nothing while it is not to be disturbed.
    pub pushed: bool,
    /// What the reader is asked as the server of a mod comes with its inbox.
    pub asks: bool,
    /// Only what is in this direct room, by id; `Session::prepare` puts its number into the filter.
    pub room: Option<String>,
}

/// What a read gave.
#[derive(Debug, Clone)]
pub struct QueryResult {
    /// Events in the order asked for.
    pub events: Vec<Arc<EventRecord>>,
    /// There is more behind them.
    pub has_more: bool,
    /// The last position looked at: filtered reads advance too.
    pub next: Seq,
    /// Who read.
    pub viewer: Viewer,
    /// Deliveries of this network expect acks.
    pub tracked: bool,
    /// What the reader is asked as the server of a mod.
    pub checks: Vec<Arc<Event>>,
    /// How far the index reached, if text was searched for.
    pub searched: Option<Searched>,
}

/// How far the index was when a text was searched for. What is between the two was read from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    /// Every event up to this position was in the index; 0 where there is none.
    pub indexed_through: Seq,
    /// The last position of the network.
    pub head: Seq,
}

impl QueryResult {
    /// Whether whoever waits for something has it: events, questions, or more to look at.
    pub fn has_something(&self) -> bool {
        !self.events.is_empty() || !self.checks.is_empty() || self.has_more
    }
}

impl Query {
    /// Reads the payload of `network.events.query`.
    pub fn from_payload(payload: &Value) -> Result<Query, Fault> {
        let query = Query::read(|key| match payload.get(key)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Some(other.to_string()),
        })?;
        Ok(Query { view: query.view.or(Some(View::Log)), ..query })
    }

    /// Reads the filters of a history read, whatever carries them: the same names and the same refusals everywhere.
    /// A search looks through the log and acks nothing, also where an inbox is asked for.
    pub fn read(text: impl Fn(&str) -> Option<String>) -> Result<Query, Fault> {
        let bad = |key: &str, what: &str| Fault::new(ErrorCode::InvalidArgument, format!("{key}: {what}")).field(key);
        let number =
            |key: &str| text(key).map(|v| v.parse().map_err(|_| bad(key, "a time in milliseconds"))).transpose();
        let descending = match text("sort").as_deref() {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(bad("sort", "asc or desc")),
        };
        let search = text("search");
        let view = match text("view").as_deref() {
            None | Some("inbox") if search.is_some() => Some(View::Log),
            None => None,
            Some("inbox") => Some(View::Inbox),
            Some("log") => Some(View::Log),
            Some(_) => return Err(bad("view", "inbox or log")),
        };
        Ok(Query {
            after: text("after"),
            before: text("before"),
            limit: text("limit").map(|v| v.parse().map_err(|_| bad("limit", "a number"))).transpose()?,
            view,
            lenient_cursor: false,
            search,
            pushed: false,
            asks: false,
            room: text("room"),
            filter: Filter {
                descending,
                kind: text("type"),
                channel: text("channel"),
                target: text("target"),
                source: text("source"),
                target_agents: text("target_agents"),
                member: text("member"),
                conversation: text("conversation").map(|pair| conversation(&pair)).transpose()?,
                in_reply_to: text("in_reply_to"),
                thread: text("thread"),
                since: number("since")?,
                until: number("until")?,
                ..Filter::default()
            },
        })
    }

    /// The page size, if it is within bounds.
    pub fn checked_limit(&self) -> Result<usize, Fault> {
        match self.limit {
            None => Ok(limits::PAGE_EVENTS_DEFAULT),
            Some(n) => usize::try_from(n).ok().filter(|n| (1..=limits::PAGE_EVENTS_MAX).contains(n)).ok_or_else(|| {
                Fault::new(ErrorCode::InvalidArgument, format!("limit is 1 to {}", limits::PAGE_EVENTS_MAX))
                    .field("limit")
            }),
        }
    }
}

/// `a,b` of the conversation filter.
fn conversation(pair: &str) -> Result<(String, String), Fault> {
    match pair.split_once(',') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() => Ok((a.to_owned(), b.to_owned())),
        _ => {
            Err(Fault::new(ErrorCode::InvalidArgument, "conversation must be two names with a comma between them: a,b")
                .field("conversation"))
        }
    }
}

/// Reads event records of a network by position. Blocks on the disk.
pub fn read_records(store: &dyn Store, number: u32, id: &str, seqs: &[Seq]) -> Result<Vec<Arc<EventRecord>>, Fault> {
    read_until(store, number, id, seqs, usize::MAX)
}

/// The same, rising positions, until it is so many bytes.
fn read_until(
    store: &dyn Store,
    number: u32,
    id: &str,
    seqs: &[Seq],
    bytes: usize,
) -> Result<Vec<Arc<EventRecord>>, Fault> {
    let (mut out, mut size) = (Vec::with_capacity(seqs.len().min(READ_AT_ONCE)), 0);
    let mut broken = None;
    let read = store.read(number, Seqs::These(seqs), &mut |r| {
        match Record::decode(r.kind, r.version, r.seq, id, r.body) {
            Ok(Record::Event(record)) => {
                size += record.event.json_len();
                out.push(record);
            }
            Ok(Record::Acks(_) | Record::Change(_)) => {}
            Err(error) => {
                broken = Some(error.to_string());
                return ControlFlow::Break(());
            }
        }
        if size < bytes { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let fault = |what: String| {
        tracing::error!(network = id, %what, "history cannot be read");
        Fault::new(ErrorCode::StorageUnavailable, "a stored event cannot be read; the log has the cause")
    };
    match (read, broken) {
        (Ok(()), None) => Ok(out),
        (Err(error), _) => Err(fault(error.to_string())),
        (Ok(()), Some(what)) => Err(fault(what)),
    }
}

/// Reads events in the order given until they are as many bytes, so that no more than that is in memory; gives how many positions
/// it looked at. Blocks on the disk.
pub(crate) fn read_some(
    store: &dyn Store,
    number: u32,
    id: &str,
    seqs: &[Seq],
    bytes: usize,
) -> Result<(Vec<Arc<EventRecord>>, usize), Fault> {
    if seqs.is_sorted() {
        let out = read_until(store, number, id, seqs, bytes)?;
        let full = out.iter().map(|r| r.event.json_len()).sum::<usize>() >= bytes;
        let last = out.last().filter(|_| full).map(|r| r.event.seq);
        return Ok((out, last.map_or(seqs.len(), |last| seqs.partition_point(|seq| *seq <= last))));
    }
    let falling = seqs.first() > seqs.last();
    let (mut out, mut size, mut looked_at) = (Vec::with_capacity(seqs.len()), 0, 0);
    for piece in seqs.chunks(PIECE_EVENTS) {
        let mut piece = piece.to_vec();
        looked_at += piece.len();
        piece.sort_unstable();
        let mut records = read_records(store, number, id, &piece)?;
        if falling {
            records.reverse();
        }
        size += records.iter().map(|r| r.event.json_len()).sum::<usize>();
        out.append(&mut records);
        if size >= bytes {
            break;
        }
    }
    Ok((out, looked_at))
}

impl Session {
    /// Runs a read: as many visible, passing events as asked for, or until the scan bound.
    pub async fn query(&self, query: &Query) -> Result<QueryResult, Fault> {
        let result = self.scan(query).await?;
        if let (Some(View::Inbox), Viewer::Member(member), true) = (query.view, result.viewer, result.tracked)
            && !result.events.is_empty()
        {
            self.network.shown(member, result.events.iter().map(|r| r.event.seq).collect()).await;
        }
        Ok(result)
    }

    async fn scan(&self, query: &Query) -> Result<QueryResult, Fault> {
        let limit = query.checked_limit()?;
        let mut query = query.clone();
        self.prepare(&mut query).await?;
        let query = &query;
        let mut filter = query.filter.clone();
        if let Some(cursor) = &query.after {
            filter.after = self.cursor(cursor, query.lenient_cursor).await?;
        }
        if let Some(cursor) = &query.before {
            filter.before = self.before(cursor, query.lenient_cursor).await?;
        }
        if let Some(text) = &query.search {
            return self.search(query, &filter, text).await;
        }
        let view = query.view.unwrap_or(View::Log);
        let start = filter.after.unwrap_or(0);
        let mut events: Vec<Arc<EventRecord>> = Vec::new();
        let mut checks = Vec::new();
        let mut bytes = 0;
        let mut position = None;
        let mut scanned = 0;
        loop {
            let wanted = limit - events.len();
            let asks = query.asks && view == View::Inbox && position.is_none();
            let answer = self.candidates(view, &filter, position, ((wanted + 1).max(64), wanted), asks).await?;
            checks.extend(answer.checks);
            let (viewer, tracked) = (answer.viewer, answer.tracked);
            if query.pushed && answer.quiet {
                return Ok(QueryResult {
                    events,
                    has_more: false,
                    next: start,
                    viewer,
                    tracked,
                    checks,
                    searched: None,
                });
            }
            let page = answer.page;
            filter.people.clone_from(&page.people);
            let (records, looked_at) =
                self.network.read_some(page.seqs.clone(), limits::PAGE_BYTES_MAX - bytes).await?;
            let stamps: Vec<(Seq, u64)> = if rialto_engine::bugs::on("cursor by timestamp") {
                records.iter().map(|r| (r.event.seq, r.event.timestamp)).collect()
            } else {
                Vec::new()
            };
            let last = looked_at.checked_sub(1).and_then(|at| page.seqs.get(at)).copied().or(position);
            for record in records {
                let visible = view == View::Inbox || page.lens.shows(&record);
                if !visible || !filter.passes(&record) {
                    continue;
                }
                if events.len() == limit || bytes >= limits::PAGE_BYTES_MAX {
                    let mut next = events.last().map_or(start, |r| r.event.seq);
                    let stamp = events.last().map(|r| r.event.timestamp);
                    if let Some((seq, _)) = stamps.iter().rfind(|(_, at)| Some(*at) == stamp) {
                        next = *seq;
                    }
                    return Ok(QueryResult { events, has_more: true, next, viewer, tracked, checks, searched: None });
                }
                bytes += record.event.json_len();
                events.push(record);
            }
            scanned += looked_at;
            let exhausted = page.exhausted && looked_at == page.seqs.len();
            let full = bytes >= limits::PAGE_BYTES_MAX || view == View::Inbox && !tracked;
            if exhausted || full || scanned >= limits::SCAN_EVENTS_MAX {
                // Everything up to here was looked at; nothing below can appear later.
                let end = answer.head.min(filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)));
                let next = if exhausted && !filter.descending { end.max(start) } else { last.unwrap_or(start) };
                return Ok(QueryResult { events, has_more: !exhausted, next, viewer, tracked, checks, searched: None });
            }
            position = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_is_refused_where_a_query_string_is() {
        for (key, value) in [
            ("limit", json!("many")),
            ("limit", json!(1.5)),
            ("limit", json!(true)),
            ("since", json!("yesterday")),
            ("until", json!(-1)),
            ("sort", json!("up")),
            ("view", json!(["log"])),
            ("conversation", json!("alone")),
        ] {
            let fault = Query::from_payload(&json!({ key: value })).unwrap_err();
            assert_eq!((fault.code, &fault.details.unwrap()["field"]), (ErrorCode::InvalidArgument, &json!(key)));
        }
        let query = Query::from_payload(&json!({ "limit": 7, "since": 5, "type": "a.b", "after": null })).unwrap();
        assert_eq!((query.limit, query.filter.since, query.filter.kind.as_deref()), (Some(7), Some(5), Some("a.b")));
        assert_eq!((query.after, query.view), (None, Some(View::Log)));
    }
}
