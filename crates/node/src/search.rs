//! Full-text search: an index that follows the log, and the log's tail for what it has not reached yet.
//!
//! Invariant: visibility is part of the query; a result is shown only if the same lens shows the event in history.

use crate::metrics::Counters;
use crate::network::Network;
use crate::query::{Query, QueryResult, read_records};
use aho_corasick::packed::Searcher;
use rialto_engine::history::Lens;
use rialto_engine::{Caller, EventRecord, Filter, StreamKey, View};
use rialto_model::event::TEXT_MEMBERS;
use rialto_model::{ErrorCode, Fault, Seq, Visibility, limits};
use rialto_store::search::{Doc, Query as IndexQuery, SearchIndex, StreamView, Viewer as IndexViewer};
use rialto_store::{Seqs, Store};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

/// Events looked at in one go: thousands at a time cost half as much as a few.
const CHUNK: u64 = 8192;
/// Rest between rounds when less than a chunk waits (a search reads the log's tail itself), and when more does: commits
/// come first.
const PAUSE: Duration = Duration::from_millis(50);
const BREATH: Duration = Duration::from_millis(1);
/// How much the thread gives way to what serves (0 is not at all, 19 is most).
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
/// Stream number of what everybody may see.
const PUBLIC: u64 = 1;

/// The number of a delivery stream in the index.
fn stream_number(key: StreamKey) -> Option<u64> {
    match key {
        StreamKey::Channel(n) => Some(2 << 32 | u64::from(n)),
        StreamKey::Group(n) => Some(3 << 32 | u64::from(n)),
        StreamKey::Inbox(n) => Some(4 << 32 | u64::from(n)),
        StreamKey::Broadcast => Some(PUBLIC),
        StreamKey::Thread(_)
        | StreamKey::Source(_)
        | StreamKey::Type(_)
        | StreamKey::Room(_)
        | StreamKey::Work(_)
        | StreamKey::Mention(_) => None,
    }
}

/// [`TEXT_MEMBERS`] as they stand in a payload.
static KEYS: LazyLock<[String; 4]> = LazyLock::new(|| TEXT_MEMBERS.map(|name| format!("\"{name}\"")));

/// Whether something may be searched for in these bytes: told without reading them as what they are.
pub(crate) fn may_hold_text(bytes: &[u8]) -> bool {
    static FINDER: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new(KEYS.iter()));
    FINDER.as_ref().is_none_or(|keys| keys.find(bytes).is_some())
}

/// The text people would look for in an event; nothing for types without text.
pub(crate) fn text_of(record: &EventRecord) -> Option<String> {
    let event = &record.event;
    let payload = event.payload();
    let server = event.kind().starts_with("network.") || event.kind().starts_with("rialto.");
    if !record.stored || server || !KEYS.iter().any(|key| payload.contains(key.as_str())) {
        return None;
    }
    let value: Value = serde_json::from_str(payload).ok()?;
    let parts: Vec<&str> =
        ["title", "content", "text", "filename"].iter().filter_map(|k| value.get(k)?.as_str()).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn streams_of(record: &EventRecord) -> Vec<u64> {
    match record.event.visibility {
        Visibility::Public => vec![PUBLIC],
        Visibility::ModOnly => Vec::new(),
        Visibility::Channel | Visibility::Direct => record.route.stream.and_then(stream_number).into_iter().collect(),
    }
}

fn viewer_of(lens: &Lens) -> IndexViewer {
    let all = 0..=Seq::MAX >> 24;
    let see = |stream: u64| StreamView { stream, seqs: all.clone() };
    let mut streams = vec![see(PUBLIC)];
    streams.extend(lens.channels().iter().filter_map(|c| stream_number(StreamKey::Channel(*c))).map(see));
    streams.extend(lens.groups().iter().filter_map(|g| stream_number(StreamKey::Group(*g))).map(see));
    streams.extend(lens.member().and_then(|m| stream_number(StreamKey::Inbox(m))).map(see));
    IndexViewer { member: lens.member().map(u64::from), operator: lens.is_operator(), streams }
}

/// Brings the index one chunk further in one network. Gives how far it is.
pub(crate) fn catch_up(
    store: &dyn Store,
    index: &SearchIndex,
    number: u32,
    id: &str,
    head: Seq,
    last_text: Seq,
) -> Result<Seq, rialto_store::StoreError> {
    let _feeding = index.feed();
    let through = index.indexed_through(number)?;
    if through >= head {
        return Ok(through);
    }
    if last_text <= through {
        // Nothing to be found came since: it is not read to learn that.
        index.index(number, &[], head)?;
        return Ok(head);
    }
    let to = head.min(through + CHUNK);
    let mut found: Vec<(Seq, Vec<u64>, Option<u64>, String)> = Vec::new();
    store.read(number, Seqs::Range(through + 1..to + 1), &mut |r| {
        if !may_hold_text(r.body) {
            return ControlFlow::Continue(());
        }
        if let Ok(rialto_engine::Record::Event(record)) =
            rialto_engine::Record::decode(r.kind, r.version, r.seq, id, r.body)
            && let Some(text) = text_of(&record)
        {
            found.push((r.seq, streams_of(&record), record.route.source.map(u64::from), text));
        }
        ControlFlow::Continue(())
    })?;
    let docs: Vec<Doc<'_>> =
        found.iter().map(|(seq, streams, source, text)| Doc { seq: *seq, streams, source: *source, text }).collect();
    index.index(number, &docs, to)?;
    Ok(to)
}

/// The thread that keeps the index up to date: a name and a priority of its own, so that it is seen apart from what
/// serves and gives way to it.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Nothing is ever sent: its end is the sign to stop.
    stop: mpsc::Sender<std::convert::Infallible>,
    thread: std::thread::JoinHandle<()>,
}

impl Follower {
    /// Starts to follow a node's networks; ends by itself once the node is gone.
    pub(crate) fn start(node: &crate::Node, index: Arc<SearchIndex>) -> std::io::Result<Follower> {
        let (stop, stopped) = mpsc::channel();
        let node = node.downgrade();
        let thread = std::thread::Builder::new().name("rialto-search".to_owned()).spawn(move || {
            give_way();
            while let Some(busy) = node.upgrade().map(|node| round(&node, &index)) {
                let rest = if busy { BREATH } else { PAUSE };
                if stopped.recv_timeout(rest) == Err(mpsc::RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        })?;
        Ok(Follower { stop, thread })
    }

    /// Ends the thread after the chunk it is at.
    pub(crate) fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the search index thread ended badly");
        }
    }
}

/// One chunk of every network; gives whether there is more to do.
fn round(node: &crate::Node, index: &SearchIndex) -> bool {
    let mut busy = false;
    for network in node.networks() {
        let shared = &network.handle.shared;
        let head = *network.head().borrow();
        // After the head: what came since counts too.
        let last_text = shared.last_text.load(Ordering::Acquire);
        match catch_up(node.store().as_ref(), index, shared.number, &shared.id, head, last_text) {
            Ok(through) => {
                Counters::set(&shared.counters.indexed, through);
                busy |= *network.head().borrow() > through + CHUNK;
            }
            Err(error) => tracing::warn!(network = network.id(), %error, "search index lags"),
        }
    }
    busy
}

/// Lowers the priority of this thread; without the right to, it runs as everything else does.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the search index keeps the priority of the node");
    }
}

/// Whether every word of the query occurs, as the index would judge.
fn holds(text: &str, query: &str) -> bool {
    let text = text.to_lowercase();
    words(query).iter().all(|word| text.contains(word))
}

/// Words of a query; quoted words stay together.
fn words(query: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (i, part) in query.split('"').enumerate() {
        if i % 2 == 1 {
            out.push(part.to_lowercase());
        } else {
            out.extend(part.split_whitespace().map(str::to_lowercase));
        }
    }
    out.retain(|w| !w.is_empty());
    out
}

impl Network {
    /// Finds text: index first, then the log beyond it, so that one's own message is found right after its ack.
    pub(crate) async fn search(
        &self,
        caller: &Arc<Caller>,
        query: &Query,
        filter: &Filter,
        text: &str,
    ) -> Result<QueryResult, Fault> {
        let limit = query.checked_limit()?;
        if words(text).is_empty() {
            return Err(Fault::new(ErrorCode::InvalidArgument, "say what to search for").field("search"));
        }
        let Some(index) = self.handle.index.clone() else {
            return Err(Fault::new(ErrorCode::Unsupported, "search is switched off on this node"));
        };
        let answer = self.page(caller, View::Log, filter, None, 1).await?;
        let (lens, people) = (answer.page.lens, answer.page.people);
        let (head, viewer, oldest) = (answer.head, answer.viewer, answer.oldest);
        let (store, number, id) = (self.handle.store.clone(), self.handle.shared.number, self.handle.shared.id.clone());
        let (filter, text) = (Filter { people, ..filter.clone() }, text.to_owned());
        let found = self
            .handle
            .host
            .blocking(move || -> Result<Vec<Arc<EventRecord>>, Fault> {
                let unavailable = |e: rialto_store::StoreError| {
                    tracing::warn!(error = %e, "search failed");
                    Fault::new(ErrorCode::StorageUnavailable, "the search index cannot be read")
                };
                let ask = IndexQuery {
                    network: number,
                    text: &text,
                    after: filter.after,
                    before: filter.before,
                    limit: rialto_store::search::ANSWERS_MAX,
                };
                let answer = index.query(&ask, &viewer_of(&lens)).map_err(unavailable)?;
                let mut seqs: Vec<Seq> = answer.seqs.into_iter().filter(|s| *s > oldest && *s <= head).collect();
                seqs.sort_unstable();
                let mut records = read_records(store.as_ref(), number, &id, &seqs)?;
                let tail = answer.indexed_through.max(filter.after.unwrap_or(0));
                let tail: Vec<Seq> = (tail + 1..=head)
                    .rev()
                    .take(limits::SCAN_EVENTS_MAX)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect();
                records.extend(
                    read_records(store.as_ref(), number, &id, &tail)?
                        .into_iter()
                        .filter(|r| text_of(r).is_some_and(|t| holds(&t, &text))),
                );
                let before = filter.before.unwrap_or(Seq::MAX);
                records.retain(|r| r.stored && r.event.seq < before && lens.shows(r) && filter.passes(r));
                records.dedup_by_key(|r| r.event.seq);
                Ok(records)
            })
            .await
            .map_err(|_| Fault::from(ErrorCode::Internal))??;
        // The newest that fit, in the order asked for.
        let has_more = found.len() > limit;
        let mut events: Vec<Arc<EventRecord>> = found.into_iter().rev().take(limit).collect();
        if !query.filter.descending {
            events.reverse();
        }
        let next = events.iter().map(|r| r.event.seq).max().unwrap_or(head);
        Ok(QueryResult { events, has_more, next, viewer, tracked: false, checks: Vec::new() })
    }

    /// Events that the index has not reached yet; nothing where there is no index.
    pub fn search_lag(&self) -> Option<u64> {
        let through = self.handle.shared.counters.indexed.load(std::sync::atomic::Ordering::Relaxed);
        self.handle.index.as_ref().map(|_| self.handle.head.borrow().saturating_sub(through))
    }

    /// How far the index has come.
    pub async fn indexed_through(&self) -> Option<Seq> {
        let (index, number) = (self.handle.index.clone()?, self.handle.shared.number);
        self.handle.host.blocking(move || index.indexed_through(number).ok()).await.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The thread that feeds the index had read a text before it was erased, and put it in afterwards.
    #[test]
    fn what_is_erased_is_not_indexed_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path().join("search.db")).unwrap();
        let store = rialto_store::MemoryStore::default();
        std::thread::scope(|scope| {
            let feeding = index.feed();
            let eraser = scope.spawn(|| crate::network::erase(&store, Some(&index), 1, 5));
            for _ in 0..1000 {
                if eraser.is_finished() {
                    break;
                }
                std::thread::yield_now();
            }
            index.index(1, &[Doc { seq: 5, streams: &[PUBLIC], source: None, text: "a secret" }], 5).unwrap();
            drop(feeding);
            eraser.join().unwrap().unwrap();
        });
        let ask = IndexQuery { network: 1, text: "secret", after: None, before: None, limit: 10 };
        let viewer = IndexViewer { operator: true, ..IndexViewer::default() };
        assert_eq!(index.query(&ask, &viewer).unwrap().seqs, [0; 0]);
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(words(r#"Hello "two Words" x"#), ["hello", "two words", "x"]);
        assert!(holds("会议纪要 第二版", "纪要"));
        assert!(!holds("abc", "abd"));
    }
}
