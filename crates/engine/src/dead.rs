//! Dead letters in the operator's hands: sent again to their recipient, or put away (OpenAgents sheet, sections 8 and 14).
//!
//! A delivery that ended stays ended. Sending again makes a new event for that one recipient, with the content, source and target
//! of the first one, a life of its own, and `rialto.retry_of` in its metadata.

use crate::emit::TTL_MS_MAX;
use crate::input::{Clock, Effects};
use crate::mods::persistence;
use crate::record::{Change, EventRecord, Record};
use crate::route::{Route, StreamKey};
use crate::state::{DeadLetter, Member, MemberId, State};
use rialto_model::json::push_string;
use rialto_model::metadata::Metadata;
use rialto_model::network::Status;
use rialto_model::view::{DeadLetterList, DroppedLetters, LetterEvent, OpenLetter, RetriedLetter};
use rialto_model::{ErrorCode, Event, EventId, EventParts, Fault, Seq, Visibility};
use std::sync::Arc;

/// Metadata that names the event a retry stands for.
const RETRY_OF: &str = "rialto.retry_of";

impl DeadLetter {
    /// Whether nobody has dealt with it.
    pub fn is_open(&self) -> bool {
        self.retried_as.is_none() && !self.dropped
    }

    fn is_of(&self, seq: Option<Seq>, recipient: Option<&str>) -> bool {
        seq.is_none_or(|seq| self.seq == seq) && recipient.is_none_or(|recipient| *self.recipient == *recipient)
    }
}

impl State {
    /// Dead letters nobody has dealt with, the newest first: all, or those of one event, or of one recipient (an address).
    pub fn open_dead_letters<'a>(
        &'a self,
        seq: Option<Seq>,
        recipient: Option<&'a str>,
    ) -> impl Iterator<Item = &'a DeadLetter> {
        self.book.dead_letters.iter().rev().filter(move |letter| letter.is_open() && letter.is_of(seq, recipient))
    }

    /// The first of those letters, without what is left of their events.
    pub fn dead_letter_list(&self, seq: Option<Seq>, recipient: Option<&str>, limit: usize) -> DeadLetterList {
        let mut letters = self.open_dead_letters(seq, recipient).map(|letter| OpenLetter {
            letter: letter.into(),
            kept: self.lists.kept().contains(letter.seq),
            event: LetterEvent::default(),
        });
        let dead_letters = letters.by_ref().take(limit).collect();
        DeadLetterList { dead_letters, has_more: letters.next().is_some() }
    }
}

/// Sends a dead letter again. Refuses when the recipient is no longer the member it was for, when history no longer has the event,
/// and when the event asked for work that has ended since.
pub(crate) fn retry(
    state: &State,
    seq: Seq,
    recipient: &str,
    original: Option<&EventRecord>,
    now: Clock,
    fx: &mut Effects,
) -> Result<RetriedLetter, Fault> {
    match state.book.settings.status {
        Status::Active => {}
        Status::Paused => return Err(ErrorCode::NetworkPaused.into()),
        Status::Archived => return Err(ErrorCode::NetworkArchived.into()),
    }
    let letter = state.open_dead_letters(Some(seq), Some(recipient)).next();
    let letter = letter.ok_or_else(|| no_letter(recipient))?;
    let (id, _) = recipient_of(state, letter)?;
    let original = original.filter(|record| record.event.seq == seq && state.lists.kept().contains(seq));
    let original = original.filter(|_| !state.book.redacted.contains(&seq)).ok_or_else(|| {
        let text = "history no longer has this event (purged or redacted), so it cannot be sent again; `rialto dead drop` puts it away";
        Fault::new(ErrorCode::CursorUnknown, text)
    })?;
    if original.more.as_ref().is_some_and(|more| more.work.is_some()) {
        let text = "this event asked for work, which failed when the delivery did; its requester has to ask again";
        return Err(Fault::new(ErrorCode::NoPendingRequest, text));
    }
    let record = copy_for(state, id, original, now, fx);
    state.takes(id, &record.event)?;
    let (as_seq, as_id) = (record.event.seq, record.event.id().to_owned());
    fx.commit(Record::Event(record));
    fx.change(Change::DeadSettled { letters: vec![(seq, recipient.into())], retried_as: Some(as_seq) });
    Ok(RetriedLetter {
        event_id: original.event.id().to_owned(),
        recipient: recipient.to_owned(),
        retried_as: as_id,
        seq: as_seq,
    })
}

/// Puts dead letters away; they are no longer listed.
pub(crate) fn put_away(
    state: &State,
    seq: Option<Seq>,
    recipient: Option<&str>,
    max: usize,
    fx: &mut Effects,
) -> Result<DroppedLetters, Fault> {
    let all: Vec<(Seq, Box<str>)> =
        state.open_dead_letters(seq, recipient).map(|d| (d.seq, d.recipient.clone())).collect();
    if all.is_empty() && (seq.is_some() || recipient.is_some()) {
        return Err(no_letter(recipient.unwrap_or("anybody")));
    }
    let (letters, has_more) = (all.iter().take(max).cloned().collect::<Vec<_>>(), all.len() > max);
    let dropped = letters.len();
    if dropped > 0 {
        fx.change(Change::DeadSettled { letters, retried_as: None });
    }
    Ok(DroppedLetters { dropped, has_more })
}

/// The events that were sent again with the content of this one, and with theirs.
pub(crate) fn copies_of(state: &State, seq: Seq) -> Vec<Seq> {
    let mut all = vec![seq];
    let mut at = 0;
    while let Some(from) = all.get(at).copied() {
        at += 1;
        let copies = state.book.dead_letters.iter().filter(|d| d.seq == from).filter_map(|d| d.retried_as);
        for copy in copies {
            // Copies come later than what they are made from, so this ends.
            if !all.contains(&copy) {
                all.push(copy);
            }
        }
    }
    all.split_off(1)
}

/// Applies that letters were dealt with.
pub(crate) fn settled(state: &mut State, letters: &[(Seq, Box<str>)], retried_as: Option<Seq>) {
    for (seq, recipient) in letters {
        let open = |d: &&mut DeadLetter| d.is_open() && d.is_of(Some(*seq), Some(recipient));
        if let Some(letter) = state.book.dead_letters.iter_mut().rev().find(open) {
            match retried_as {
                Some(seq) => letter.retried_as = Some(seq),
                None => letter.dropped = true,
            }
        }
    }
}

/// The member a letter was for. Somebody else who has its address now is not.
fn recipient_of<'s>(state: &'s State, letter: &DeadLetter) -> Result<(MemberId, &'s Member), Fault> {
    let found = state.member_id(&letter.recipient).and_then(|id| Some((id, state.member(id)?)));
    let gone = &*letter.reason == "recipient_left";
    let found = found.filter(|(_, member)| !gone && member.is_present() && member.joined_at <= letter.at);
    found.ok_or_else(|| {
        let text = format!(
            "{} has left since, so nothing can be queued for it; `rialto dead drop` puts it away",
            letter.recipient
        );
        Fault::new(ErrorCode::UnknownTarget, text)
    })
}

fn no_letter(recipient: &str) -> Fault {
    let text = format!("there is no such dead letter for {recipient}; `rialto dead list` shows those there are");
    Fault::new(ErrorCode::UnknownTarget, text)
}

/// The metadata of an event with the name of the first one that was sent.
fn named_metadata(event: &Event) -> String {
    if event.metadata_text(RETRY_OF).is_some() {
        return event.metadata().to_owned();
    }
    let mut out = format!("{{\"{RETRY_OF}\":");
    push_string(&mut out, event.id());
    let rest = event.metadata().trim_start().strip_prefix('{').unwrap_or("}");
    if !rest.trim_start().starts_with('}') {
        out.push(',');
    }
    out.push_str(rest);
    out
}

fn copy_for(state: &State, to: MemberId, original: &EventRecord, now: Clock, fx: &Effects) -> Arc<EventRecord> {
    let (event, stamp) = (&original.event, state.stamp(now.wall));
    let seq: Seq = state.next_seq() + fx.events();
    let metadata = named_metadata(event);
    let parts = EventParts {
        id: &EventId { at: stamp, seq, salt: state.book.salt }.to_text(),
        kind: event.kind(),
        source: event.source(),
        target: event.target(),
        payload: event.payload(),
        metadata: &metadata,
        timestamp: stamp,
        network: &state.book.id,
        visibility: Visibility::Direct,
    };
    let asked = Metadata::parse(event.metadata()).ok().and_then(|metadata| metadata.ttl_ms);
    let life = asked.filter(|ttl| *ttl < state.book.settings.ttl_ms).map(|ttl| ttl.min(TTL_MS_MAX));
    Arc::new(EventRecord {
        event: Event::new(seq, &parts),
        route: Route {
            stream: Some(StreamKey::Inbox(to)),
            source: original.route.source,
            room: original.route.room,
            ..Route::default()
        },
        received: None,
        receipt: false,
        stored: persistence::keeps(state, event.kind()),
        dies_at: life.map(|life| now.steady.saturating_add(life)),
        verdicts: Vec::new(),
        more: None,
    })
}
