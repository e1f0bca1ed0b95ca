//! Threads and direct rooms as members see them: summaries from the network's task, previews read outside it.

use crate::command::{Command, Look};
use crate::network::Network;
use crate::query::Query;
use crate::session::Session;
use rialto_engine::EventRecord;
use rialto_engine::conversations::Place;
use rialto_model::{Fault, Seq, limits};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Characters of a preview.
const PREVIEW_CHARS_MAX: usize = 120;
/// Members of the payload that people read, the first that is there.
const TEXTS: [&str; 3] = ["content", "text", "title"];

/// The first line of what an event says, shortened.
pub(crate) fn preview(record: &EventRecord) -> Option<String> {
    first_line(record, &TEXTS)
}

/// What a thread is called: what its first event says it is, else what that event says.
fn title(first: &EventRecord) -> Option<String> {
    first_line(first, &["title"]).or_else(|| preview(first))
}

fn first_line(record: &EventRecord, keys: &[&str]) -> Option<String> {
    let payload: Value = serde_json::from_str(record.event.payload()).ok()?;
    let text = keys.iter().find_map(|key| payload.get(key)?.as_str())?;
    let line = text.trim_start().lines().next().unwrap_or_default().trim_end();
    let mut short: String = line.chars().take(PREVIEW_CHARS_MAX).collect();
    if line.chars().nth(PREVIEW_CHARS_MAX).is_some() {
        short.push('…');
    }
    (!short.is_empty()).then_some(short)
}

impl Session {
    /// Threads of one channel or of all the caller may see, newest activity first, before a cursor.
    pub async fn threads(
        &self,
        channel: Option<String>,
        before: Option<&str>,
        limit: Option<i64>,
    ) -> Result<Value, Fault> {
        let (before, limit) = self.listing(before, limit).await?;
        let list = self.look(Look::Threads { channel, before, limit: limit + 1 }).await?;
        self.network.listed(list, "threads", limit).await
    }

    /// One thread.
    pub async fn thread(&self, channel: String, thread: String) -> Result<Value, Fault> {
        self.network.with_texts(self.look(Look::Thread { channel, thread }).await?).await
    }

    /// Direct rooms of the caller, newest activity first, before a cursor.
    pub async fn rooms(&self, before: Option<&str>, limit: Option<i64>) -> Result<Value, Fault> {
        let (before, limit) = self.listing(before, limit).await?;
        let list = self.look(Look::Rooms { before, limit: limit + 1 }).await?;
        self.network.listed(list, "rooms", limit).await
    }

    /// One room.
    pub async fn room(&self, id: String) -> Result<Value, Fault> {
        self.network.with_texts(self.look(Look::Room(id)).await?).await
    }

    /// The caller's room with another member; made if there is none.
    pub async fn open_room(&self, peer: String, channel: Option<String>) -> Result<Value, Fault> {
        let caller = self.caller.clone();
        let room = self.network.ask(|reply| Command::OpenRoom { caller, peer, channel, reply }).await??;
        self.network.with_texts(room).await
    }

    /// Puts what only the network knows into a query: the room behind an id.
    pub async fn prepare(&self, query: &mut Query) -> Result<(), Fault> {
        if let Some(id) = query.room.take() {
            let found = self.look(Look::Room(id)).await?;
            query.filter.room = found.get("number").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        }
        Ok(())
    }

    /// Position and size of a listing.
    async fn listing(&self, before: Option<&str>, limit: Option<i64>) -> Result<(Option<Place>, usize), Fault> {
        let limit = Query { limit, ..Query::default() }.checked_limit()?;
        let before = match before {
            Some(cursor) => match cursor.split_once('.').map(|(last, number)| (last.parse(), number.parse())) {
                Some((Ok(last), Ok(number))) => Some((last, number)),
                _ => self.before(cursor, false).await?.map(|seq| (seq, 0)),
            },
            None => None,
        };
        Ok((before, limit))
    }
}

impl Network {
    /// A page of at most `limit` entries, with the cursor behind it.
    async fn listed(&self, list: Value, name: &str, limit: usize) -> Result<Value, Fault> {
        let Value::Array(mut entries) = list else { return Ok(list) };
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let place = |e: &Value| {
            let number = e.get("number").and_then(Value::as_u64)?;
            Some(format!("{}.{number}", e.get("last_seq").and_then(Value::as_u64).unwrap_or(0)))
        };
        let next = entries.last().and_then(place);
        let entries = self.with_all_texts(entries).await?;
        let mut out = Map::new();
        out.insert(name.to_owned(), entries.into());
        out.insert("has_more".to_owned(), has_more.into());
        if let Some(next) = next.filter(|_| has_more) {
            out.insert("next".to_owned(), next.into());
        }
        Ok(out.into())
    }

    async fn with_texts(&self, entry: Value) -> Result<Value, Fault> {
        Ok(self.with_all_texts(vec![entry]).await?.pop().unwrap_or_default())
    }

    /// Reads the first and the last event of each entry and puts in what they say.
    async fn with_all_texts(&self, mut entries: Vec<Value>) -> Result<Vec<Value>, Fault> {
        let named = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_u64);
        let mut seqs: Vec<Seq> =
            entries.iter().flat_map(|e| [named(e, "first_seq"), named(e, "last_seq")]).flatten().collect();
        seqs.sort_unstable();
        seqs.dedup();
        self.committed(seqs.last().copied().unwrap_or(0)).await?;
        // Twice a page of events at most: what is not read in time has no preview.
        let (records, _) = self.read_some(seqs, limits::PAGE_BYTES_MAX).await?;
        let records: BTreeMap<Seq, Arc<EventRecord>> = records.into_iter().map(|r| (r.event.seq, r)).collect();
        for entry in &mut entries {
            let first = named(entry, "first_seq").and_then(|seq| records.get(&seq));
            let last = named(entry, "last_seq").and_then(|seq| records.get(&seq));
            let Some(map) = entry.as_object_mut() else { continue };
            map.remove("number");
            if let Some(first) = first.filter(|_| map.contains_key("thread")) {
                map.insert("root_id".into(), first.event.id().into());
                map.insert("title".into(), json!(title(first)));
                map.insert("opened_by".into(), first.event.source().into());
                map.insert("opened_at".into(), first.event.timestamp.into());
            }
            if let Some(last) = last {
                map.insert("last_id".into(), last.event.id().into());
                map.insert("last_activity_at".into(), last.event.timestamp.into());
                map.insert("last_message_preview".into(), json!(preview(last)));
                map.insert("last_sender".into(), last.event.source().into());
            }
        }
        Ok(entries)
    }
}
