//! Lists that have no page on the wire: taken from the network's task in pieces, put together outside of it, and bounded as a whole.

use crate::command::{Command, Look};
use crate::session::Session;
use rialto_engine::{EventRecord, Filter};
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
    pub async fn conversations(&self) -> Result<Value, Fault> {
        let (mut list, mut own, mut after) = (Vec::new(), Value::Null, None);
        loop {
            let mut piece = self.look(Look::Conversations { after }).await?;
            own = piece.get_mut("own").map(Value::take).unwrap_or(own);
            if let Some(Value::Array(more)) = piece.get_mut("with") {
                list.append(more);
            }
            after = piece.get("next").and_then(Value::as_u64).and_then(|next| u32::try_from(next).ok());
            if after.is_none() {
                break;
            }
        }
        let last = |with: &Value| with.get("last").and_then(Value::as_u64).unwrap_or(0);
        list.sort_unstable_by_key(|with| std::cmp::Reverse(last(with)));
        let has_more = list.len() > CONVERSATIONS_MAX;
        list.truncate(CONVERSATIONS_MAX);
        let (records, _) = self.network.read_some(list.iter().map(last).collect(), limits::PAGE_BYTES_MAX).await?;
        let records: BTreeMap<Seq, Arc<EventRecord>> = records.into_iter().map(|r| (r.event.seq, r)).collect();
        let shown = list.iter().filter_map(|with| {
            let event = &records.get(&last(with))?.event;
            let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
            Some(json!({
                "agents": [own, with.get("address")], "message_count": with.get("count"),
                "last_message": {
                    "content": payload.get("content").cloned().unwrap_or_default(), "sender": event.source(),
                    "timestamp": event.timestamp,
                },
            }))
        });
        let mut out = json!({ "conversations": shown.collect::<Vec<_>>() });
        if let (true, Some(map)) = (has_more, out.as_object_mut()) {
            map.insert("has_more".into(), true.into());
        }
        Ok(out)
    }
}
