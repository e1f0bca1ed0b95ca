//! Full-text search: an index that follows the log, and the log's tail for what it has not reached yet.
//!
//! Invariant: visibility is part of the query; a result is shown only if the same lens shows the event in history.

mod page;

use self::page::{SearchPage, SearchScope};
use crate::metrics::Counters;
use crate::network::Network;
use crate::query::{Query, QueryResult, Searched};
use crate::session::Session;
use aho_corasick::packed::Searcher;
use rialto_engine::bugs;
use rialto_engine::history::Lens;
use rialto_engine::{EventRecord, Filter, StreamKey, View};
use rialto_model::event::TEXT_MEMBERS;
use rialto_model::{ErrorCode, Fault, Seq, Visibility};
use rialto_store::search::{Doc, SearchIndex, SearchViewer as IndexViewer, StreamView, Words};
use rialto_store::{Seqs, Store};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

/// Events looked at in one go: thousands at a time cost half as much as a few.
const CHUNK: u64 = 8192;
/// Rest between rounds when less than a chunk waits (a search reads the log's tail itself), and when more does: commits
/// come first.
const PAUSE: Duration = Duration::from_millis(50);
/// A network that cannot be indexed is tried again after this long at most.
const RETRY_MAX: Duration = Duration::from_secs(30);
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
    if !record.stored || event.event_type().is_reserved() || !KEYS.iter().any(|key| payload.contains(key.as_str())) {
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
    streams.extend(lens.channels().iter().filter_map(|c| stream_number(StreamKey::Channel(c))).map(see));
    streams.extend(lens.groups().iter().filter_map(|g| stream_number(StreamKey::Group(*g))).map(see));
    let inboxes = lens.member().into_iter().chain(lens.claimable().iter().copied());
    streams.extend(inboxes.filter_map(|m| stream_number(StreamKey::Inbox(m))).map(see));
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
    if last_text <= through + u64::from(bugs::on("index passes over a text")) {
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
            let mut failing = BTreeMap::new();
            while let Some(busy) = node.upgrade().map(|node| round(&node, &index, &mut failing)) {
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

/// When a network that cannot be indexed is tried again, and how long that was put off.
type Failing = BTreeMap<u32, (Instant, Duration)>;

/// One chunk of every network; gives whether there is more to do. One that fails is tried less and less often; the others do not wait.
fn round(node: &crate::Node, index: &SearchIndex, failing: &mut Failing) -> bool {
    let mut busy = false;
    for network in node.networks() {
        let shared = &network.handle.shared;
        if failing.get(&shared.number).is_some_and(|(at, _)| Instant::now() < *at) {
            continue;
        }
        let head = *network.head().borrow();
        // After the head: what came since counts too.
        let last_text = shared.last_text.load(Ordering::Acquire);
        match catch_up(node.store().as_ref(), index, shared.number, &shared.id, head, last_text) {
            Ok(through) => {
                failing.remove(&shared.number);
                Counters::set(&shared.counters.indexed, through);
                busy |= *network.head().borrow() > through + CHUNK;
            }
            Err(error) => {
                tracing::warn!(network = network.id(), %error, "search index lags");
                let delay = failing.get(&shared.number).map_or(PAUSE, |(_, delay)| (*delay * 2).min(RETRY_MAX));
                failing.insert(shared.number, (Instant::now() + delay, delay));
            }
        }
    }
    busy
}

impl crate::Node {
    /// Brings the index one chunk further in every network, as its thread does; for hosts without threads. Returns whether there is
    /// more to do.
    pub fn follow_search(&self) -> bool {
        self.search_index().is_some_and(|index| round(self, &index, &mut Failing::new()))
    }
}

/// Lowers the priority of this thread; without the right to, it runs as everything else does.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "the search index keeps the priority of the node");
    }
}

impl Session {
    /// Finds text: in the index as far as it has come, in the log beyond it, so that one's own message is found right after its ack.
    /// Without an index the whole log is read.
    pub(crate) async fn search(&self, query: &Query, filter: &Filter, text: &str) -> Result<QueryResult, Fault> {
        let limit = query.checked_limit()?;
        if Words::of(text).is_empty() {
            return Err(
                Fault::new(ErrorCode::InvalidArgument, "there is nothing to search for: give a text").field("search")
            );
        }
        let answer = self.page(View::Log, filter, None, 1).await?;
        let (lens, people) = (answer.page.lens, answer.page.people);
        let (head, viewer, oldest) = (answer.head, answer.viewer, answer.oldest);
        let (store, number, id) = (
            self.network.handle.store.clone(),
            self.network.handle.shared.number,
            self.network.handle.shared.id.clone(),
        );
        let (filter, text) = (Filter { people, ..filter.clone() }, text.to_owned());
        let index = self.network.handle.index.clone();
        let range =
            (filter.after.unwrap_or(0).max(oldest), head.min(filter.before.map_or(head, |b| b.saturating_sub(1))));
        let found = self
            .network
            .handle
            .host
            .blocking(move || {
                let place = SearchScope { store: store.as_ref(), index: index.as_deref(), number, id: &id };
                SearchPage::new(place, &text, &filter, &lens, range, limit)?.read()
            })
            .await
            .map_err(|_| Fault::from(ErrorCode::Internal))??;
        let searched = Some(Searched { indexed_through: found.indexed_through, head });
        let (events, has_more, next) = (found.events, found.has_more, found.next);
        Ok(QueryResult { events, has_more, next, viewer, tracked: false, checks: Vec::new(), searched })
    }
}

impl Network {
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
    use rialto_store::search::SearchQuery as IndexQuery;

    /// The thread that feeds the index had read a text before it was erased, and put it in afterwards.
    #[test]
    fn what_is_erased_is_not_indexed_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let index = SearchIndex::open(dir.path().join("search.db")).unwrap();
        let store = rialto_store::MemoryStore::default();
        std::thread::scope(|scope| {
            let feeding = index.feed();
            let eraser = scope.spawn(|| crate::redaction::erase(&store, Some(&index), 1, 5, None));
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
        let ask = IndexQuery { network: 1, text: "secret", after: None, before: None, limit: 10, oldest_first: false };
        let viewer = IndexViewer { operator: true, ..IndexViewer::default() };
        assert_eq!(index.query(&ask, &viewer).unwrap().seqs, [0; 0]);
    }
}
