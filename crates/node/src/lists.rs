//! Lists that have no page on the wire: taken from the network's task in pieces, put together outside of it, and bounded as a whole.

use crate::command::Command;
use crate::session::Session;
use crate::task::Task;
use crate::task::read::ReadContext;
use rialto_engine::listing::ListBudget;
use rialto_engine::{ChannelId, EventRecord, Filter};
use rialto_model::payload::RosterFilter;
use rialto_model::view::{ChannelList, ConversationList, ConversationView, LastMessage, Roster};
use rialto_model::{Fault, Seq, limits};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Conversations in one listing, the liveliest first.
const CONVERSATIONS_MAX: usize = 500;

impl Session {
    /// The roster (sheet section 5): up to [`limits::LIST_ROWS_MAX`] rows of each section. Where there are more, `has_more` says so and
    /// `next` names the section with the cursor to go on from.
    pub async fn discover(&self, filter: RosterFilter) -> Result<Roster, Fault> {
        let mut roster = self.roster_piece(filter.clone()).await?;
        let mut bytes = 0;
        for (section, cursor) in std::mem::take(&mut roster.next) {
            let mut cursor = Some(cursor);
            while let Some(after) = cursor.take() {
                let rows = roster.len_of(section);
                if rows >= limits::LIST_ROWS_MAX || bytes >= limits::PAGE_BYTES_MAX {
                    roster.next.insert(section, after);
                    break;
                }
                let rest = RosterFilter {
                    include: Some(vec![section.as_str().to_owned()]),
                    after: Some(after),
                    limit: Some((limits::LIST_ROWS_MAX - rows) as u64),
                    ..filter.clone()
                };
                let mut piece = self.roster_piece(rest).await?;
                bytes += limits::LIST_BYTES_MAX;
                cursor = piece.next.remove(&section);
                roster.append(piece);
            }
        }
        roster.has_more = !roster.next.is_empty();
        Ok(roster)
    }

    async fn roster_piece(&self, filter: RosterFilter) -> Result<Roster, Fault> {
        let read = move |task: &mut Task, by: &ReadContext<'_>| {
            task.engine.state.discovered(&task.engine.live, by.viewer, &filter, by.now)
        };
        self.view(read).await
    }

    /// Channels the caller may know of, after one of them: a piece, of at most so many rows.
    pub async fn channels(&self, after: Option<ChannelId>, limit: usize) -> Result<ChannelList, Fault> {
        self.view(move |task, by| Ok(task.engine.state.channel_list(by.viewer, after, ListBudget::rows(limit)))).await
    }

    /// The newest event of each channel that passes the filter, of up to [`limits::LIST_ROWS_MAX`] channels, and whether there are more.
    pub async fn latest_per_channel(
        &self,
        kind: Option<String>,
    ) -> Result<(BTreeMap<Box<str>, Arc<EventRecord>>, bool), Fault> {
        let filter = Filter { kind, ..Filter::default() };
        let (mut found, mut after, mut bytes, mut looked, mut left) = (BTreeMap::new(), None, 0, 0, false);
        loop {
            let (caller, filter) = (self.caller.clone(), Box::new(filter.clone()));
            let wish = filter.clone();
            let piece = self.network.ask(|reply| Command::Latest { caller, filter, after, reply }).await??;
            let mut seqs: Vec<Seq> = piece.channels.iter().flat_map(|(_, seqs)| seqs.iter().copied()).collect();
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            let all = seqs.len();
            let (records, read) = self.network.read_some(seqs, limits::PAGE_BYTES_MAX).await?;
            looked += all;
            bytes += records.iter().map(|r| r.event.json_len()).sum::<usize>();
            let records: BTreeMap<Seq, Arc<EventRecord>> = records.into_iter().map(|r| (r.event.seq, r)).collect();
            for (name, seqs) in piece.channels {
                let shown = |record: &&Arc<EventRecord>| piece.lens.shows(record) && wish.passes(record);
                let newest = seqs.iter().filter_map(|seq| records.get(seq)).find(shown);
                match newest {
                    Some(newest) if found.len() < limits::LIST_ROWS_MAX => drop(found.insert(name, newest.clone())),
                    Some(_) => left = true,
                    None => {}
                }
            }
            after = piece.next;
            let full = found.len() >= limits::LIST_ROWS_MAX
                || bytes >= limits::PAGE_BYTES_MAX
                || looked >= limits::SCAN_EVENTS_MAX;
            if after.is_none() || full {
                return Ok((found, left || after.is_some() || read < all));
            }
        }
    }

    /// Direct conversations of the caller, the liveliest first, each with its last message.
    pub async fn conversations(&self) -> Result<ConversationList, Fault> {
        let (mut list, mut after) = (Vec::new(), None);
        let own = loop {
            let piece = self.view(move |task, by| task.conversations(by, after)).await?;
            list.extend(piece.with);
            after = piece.next;
            if after.is_none() {
                break piece.own;
            }
        };
        list.sort_unstable_by_key(|with| std::cmp::Reverse(with.last));
        let has_more = list.len() > CONVERSATIONS_MAX;
        list.truncate(CONVERSATIONS_MAX);
        let last = list.iter().map(|with| with.last).collect();
        let (records, _) = self.network.read_some(last, limits::PAGE_BYTES_MAX).await?;
        let records: BTreeMap<Seq, Arc<EventRecord>> = records.into_iter().map(|r| (r.event.seq, r)).collect();
        let conversations = list.into_iter().filter_map(|with| {
            let event = &records.get(&with.last)?.event;
            let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
            Some(ConversationView {
                agents: [own.clone(), with.address],
                message_count: with.count,
                last_message: LastMessage {
                    content: payload.get("content").cloned().unwrap_or_default(),
                    sender: event.source().to_owned(),
                    timestamp: event.timestamp,
                },
            })
        });
        Ok(ConversationList { conversations: conversations.collect(), has_more })
    }
}
