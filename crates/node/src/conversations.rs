//! Threads and direct rooms as members see them: summaries from the network's task, previews read outside it.

use crate::command::Command;
use crate::network::Network;
use crate::query::Query;
use crate::session::Session;
use crate::task::Task;
use crate::task::read::ReadContext;
use rialto_engine::EventRecord;
use rialto_engine::conversations::ListPosition;
use rialto_model::view::{ConversationCounts, LatestEvent, RoomList, RoomView, ThreadList, ThreadRoot, ThreadView};
use rialto_model::{Fault, Seq, limits};
use serde_json::Value;
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
    ) -> Result<ThreadList, Fault> {
        let (before, limit) = self.listing(before, limit).await?;
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            task.engine.state.threads(by.viewer, channel.as_deref(), before, limit + 1)
        };
        let mut threads = self.view(read).await?;
        let has_more = threads.len() > limit;
        threads.truncate(limit);
        let next = threads.last().filter(|_| has_more).map(|thread| cursor(&thread.counts, thread.number));
        self.network.read_threads(&mut threads).await?;
        Ok(ThreadList { threads, has_more, next })
    }

    /// One thread.
    pub async fn thread(&self, channel: String, thread: String) -> Result<ThreadView, Fault> {
        let found = self.view(move |task, by| task.engine.state.thread(by.viewer, &channel, &thread)).await?;
        let mut found = [found];
        self.network.read_threads(&mut found).await?;
        let [found] = found;
        Ok(found)
    }

    /// Direct rooms of the caller, newest activity first, before a cursor.
    pub async fn rooms(&self, before: Option<&str>, limit: Option<i64>) -> Result<RoomList, Fault> {
        let (before, limit) = self.listing(before, limit).await?;
        let mut rooms = self.view(move |task, by| Ok(task.engine.state.rooms(by.viewer, before, limit + 1))).await?;
        let has_more = rooms.len() > limit;
        rooms.truncate(limit);
        let next = rooms.last().filter(|_| has_more).map(|room| cursor(&room.counts, room.number));
        self.network.read_rooms(&mut rooms).await?;
        Ok(RoomList { rooms, has_more, next })
    }

    /// One room.
    pub async fn room(&self, id: String) -> Result<RoomView, Fault> {
        self.network.with_text(self.view(move |task, by| task.room(by.viewer, &id)).await?).await
    }

    /// The caller's room with another member; made if there is none.
    pub async fn open_room(&self, peer: String, channel: Option<String>) -> Result<RoomView, Fault> {
        let caller = self.caller.clone();
        let room = self.network.ask(|reply| Command::OpenRoom { caller, peer, channel, reply }).await??;
        self.network.with_text(room).await
    }

    /// Puts what only the network knows into a query: the room behind an id.
    pub async fn prepare(&self, query: &mut Query) -> Result<(), Fault> {
        if let Some(id) = query.room.take() {
            query.filter.room = Some(self.view(move |task, by| task.room(by.viewer, &id)).await?.number);
        }
        Ok(())
    }

    /// Position and size of a listing.
    async fn listing(&self, before: Option<&str>, limit: Option<i64>) -> Result<(Option<ListPosition>, usize), Fault> {
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

/// The cursor behind a conversation of a listing.
fn cursor(counts: &ConversationCounts, number: u32) -> String {
    format!("{}.{number}", counts.last_seq.unwrap_or(0))
}

fn latest(record: &EventRecord) -> LatestEvent {
    LatestEvent {
        last_id: record.event.id().to_owned(),
        last_message_preview: preview(record),
        last_sender: record.event.source().to_owned(),
    }
}

impl Network {
    /// Puts into each thread what its first and its last event say.
    async fn read_threads(&self, threads: &mut [ThreadView]) -> Result<(), Fault> {
        let records = self.first_and_last(threads.iter().map(|thread| &thread.counts)).await?;
        for thread in threads {
            thread.root = thread.counts.first_seq.and_then(|seq| records.get(&seq)).map(|first| ThreadRoot {
                root_id: first.event.id().to_owned(),
                title: title(first),
                opened_by: first.event.source().to_owned(),
                opened_at: first.event.timestamp,
            });
            let last = thread.counts.last_seq.and_then(|seq| records.get(&seq));
            thread.latest = last.map(|record| latest(record));
            thread.last_activity_at = last.map(|record| record.event.timestamp);
        }
        Ok(())
    }

    /// Puts into each room what its last event says.
    async fn read_rooms(&self, rooms: &mut [RoomView]) -> Result<(), Fault> {
        let records = self.first_and_last(rooms.iter().map(|room| &room.counts)).await?;
        for room in rooms {
            if let Some(last) = room.counts.last_seq.and_then(|seq| records.get(&seq)) {
                room.latest = Some(latest(last));
                room.last_activity_at = last.event.timestamp;
            }
        }
        Ok(())
    }

    async fn with_text(&self, room: RoomView) -> Result<RoomView, Fault> {
        let mut room = [room];
        self.read_rooms(&mut room).await?;
        let [room] = room;
        Ok(room)
    }

    /// The first and the last event of each conversation, when they are committed.
    async fn first_and_last(
        &self,
        conversations: impl Iterator<Item = &ConversationCounts>,
    ) -> Result<BTreeMap<Seq, Arc<EventRecord>>, Fault> {
        let mut seqs: Vec<Seq> =
            conversations.flat_map(|counts| [counts.first_seq, counts.last_seq]).flatten().collect();
        seqs.sort_unstable();
        seqs.dedup();
        self.committed(seqs.last().copied().unwrap_or(0)).await?;
        // Twice a page of events at most: what is not read in time has no preview.
        let (records, _) = self.read_some(seqs, limits::PAGE_BYTES_MAX).await?;
        Ok(records.into_iter().map(|r| (r.event.seq, r)).collect())
    }
}
