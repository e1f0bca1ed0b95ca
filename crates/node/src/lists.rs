//! Lists that have no page on the wire: taken from the network's task in pieces, put together outside of it, and bounded as a whole.

use crate::command::{Command, Look};
use crate::session::Session;
use rialto_engine::{EventRecord, Filter};
use rialto_model::view::{ConversationList, ConversationView, LastMessage};
use rialto_model::{Fault, Seq, limits};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Conversations in one listing, the liveliest first.
const CONVERSATIONS_MAX: usize = 500;

impl Session {
    /// The roster (sheet section 5): up to [`limits::LIST_ROWS_MAX`] rows of each section. Where there are more, `has_more` says so and
    /// `next` names the section with the cursor to go on from.
    pub async fn discover(&self, filter: &Value, compat: bool) -> Result<Value, Fault> {
        let first = self.look(Look::Discover { filter: filter.clone(), compat }).await?;
        let Value::Object(mut roster) = first else { return Ok(first) };
        let mut bytes = 0;
        let open = roster.remove("next").and_then(|next| next.as_object().cloned()).unwrap_or_default();
        let mut rest = Map::new();
        for (section, cursor) in open {
            let mut cursor = Some(cursor);
            while let Some(after) = cursor.take() {
                let rows = roster.get(&section).and_then(Value::as_array).map_or(0, Vec::len);
                if rows >= limits::LIST_ROWS_MAX || bytes >= limits::PAGE_BYTES_MAX {
                    rest.insert(section.clone(), after);
                    break;
                }
                let mut wish = filter.as_object().cloned().unwrap_or_default();
                wish.insert("include".into(), json!([section]));
                wish.insert("after".into(), after);
                wish.insert("limit".into(), json!(limits::LIST_ROWS_MAX - rows));
                let mut piece = self.look(Look::Discover { filter: wish.into(), compat }).await?;
                bytes += limits::LIST_BYTES_MAX;
                cursor = piece.get_mut("next").and_then(|next| next.get_mut(&section)).map(Value::take);
                if let (Some(Value::Array(have)), Some(Value::Array(more))) =
                    (roster.get_mut(&section), piece.get_mut(&section))
                {
                    have.append(more);
                }
            }
        }
        roster.remove("has_more");
        if !rest.is_empty() {
            roster.insert("has_more".into(), true.into());
            roster.insert("next".into(), rest.into());
        }
        Ok(roster.into())
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
