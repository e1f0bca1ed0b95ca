//! What history shows to whom (sheet sections 1.2, 4.3 and 12.5).

use super::{Entry, Oracle, Place, Who, Wrong, wrong};
use rialto_model::Visibility;
use serde_json::Value;

/// A read of history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Want {
    /// Only types that begin so.
    pub kind: Option<String>,
    /// Only of this channel.
    pub channel: Option<String>,
    /// Only from this sender.
    pub source: Option<String>,
    /// Only to this target.
    pub target: Option<String>,
    /// Only after this position.
    pub after: Option<u64>,
    /// Only before this position.
    pub before: Option<u64>,
    /// Newest first.
    pub descending: bool,
    /// Only what says this somewhere, in lower case.
    pub text: Option<String>,
}

impl Want {
    fn passes(&self, entry: &Entry) -> bool {
        let event = &entry.event;
        // Who leaves without a seat changes nothing: the act is in its sender's history, not in the channel's.
        let in_channel = |c: &str| entry.place != Place::Nowhere && event.target().strip_prefix("channel/") == Some(c);
        self.kind.as_deref().is_none_or(|k| event.kind().starts_with(k))
            && self.channel.as_deref().is_none_or(in_channel)
            && self.source.as_deref().is_none_or(|s| event.source() == s)
            && self.target.as_deref().is_none_or(|t| event.target() == t)
            && self.after.is_none_or(|after| event.seq > after)
            && self.before.is_none_or(|before| event.seq < before)
    }
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader<'a> {
    /// Sees all.
    Operator,
    /// Holds the network's credential without saying who it is.
    Bare,
    /// A member.
    Member(&'a str),
}

impl Oracle {
    /// Positions a reader must be shown, in the order asked for.
    pub fn history(&self, reader: Reader<'_>, want: &Want) -> Vec<u64> {
        let who = match reader {
            Reader::Member(address) => self.who(address),
            Reader::Operator | Reader::Bare => None,
        };
        let kept = self.tape.iter().filter(|e| self.rules.persistence && e.event.seq > self.purged);
        let said =
            |e: &Entry| want.text.as_deref().is_none_or(|text| says(e, text) && !self.redacted.contains(&e.event.seq));
        let shown = kept.filter(|e| self.shows(reader, who, e) && want.passes(e) && said(e)).map(|e| e.event.seq);
        let mut seqs: Vec<u64> = shown.collect();
        if want.descending {
            seqs.reverse();
        }
        seqs
    }

    fn shows(&self, reader: Reader<'_>, who: Option<Who>, entry: &Entry) -> bool {
        if reader == Reader::Operator || who.is_some() && entry.source == who {
            return true;
        }
        match (entry.event.visibility, entry.place) {
            (Visibility::ModOnly, _) => false,
            (Visibility::Public, _) => true,
            (Visibility::Direct, Place::Inbox(to)) => {
                who == Some(to) || reader == Reader::Bare && self.is_open_to_holders(entry.source, to)
            }
            (Visibility::Channel, Place::Channel(c)) => self.channels.get(c).is_some_and(|c| match who {
                Some(who) => c.seats.contains(&who),
                None => !c.private && !c.deleted,
            }),
            (Visibility::Channel, Place::Group(g)) => {
                let address = who.and_then(|w| self.members.get(w)).map(|m| m.address.as_str());
                self.groups.get(g).is_some_and(|g| !g.deleted && address.is_some_and(|a| g.members.contains(a)))
            }
            (Visibility::Direct | Visibility::Channel, _) => false,
        }
    }

    /// Compares what a reader was shown, page after page, with what it must be shown.
    pub fn read(&self, reader: Reader<'_>, want: &Want, got: &[u64]) -> Result<(), Wrong> {
        let expected = self.history(reader, want);
        // What a redaction that failed has left is not known.
        let doubtful = |seq: &u64| want.text.is_some() && self.redacted.contains(seq) && !self.erased.contains(seq);
        let got: Vec<u64> = got.iter().copied().filter(|seq| !doubtful(seq)).collect();
        if got == expected {
            return Ok(());
        }
        if let Some(seq) = got.iter().find(|seq| !expected.contains(seq)) {
            return wrong("borders", format!("{reader:?} asked for {want:?} and was shown {seq}"));
        }
        if let Some(seq) = expected.iter().find(|seq| !got.contains(seq)) {
            return wrong("cursors", format!("{reader:?} asked for {want:?} and was not shown {seq}"));
        }
        wrong("order", format!("{reader:?} asked for {want:?} and was shown {got:?} for {expected:?}"))
    }

    /// History forgot everything up to a position: only what is beyond the number it keeps may go.
    pub fn purged(&mut self, through: u64) -> Result<(), Wrong> {
        if through < self.purged || through > self.head() {
            return wrong("cursors", format!("history forgot up to {through} after {}", self.purged));
        }
        let left = self.head() - through;
        if through > self.purged && self.rules.max_events.is_none_or(|max| left < max.min(self.head())) {
            return wrong("cursors", format!("history keeps {left} events of {:?}", self.rules.max_events));
        }
        self.purged = through;
        Ok(())
    }
}

/// Whether an event has text with this in it: its title, its content, its text or the name of its file. What the network's own
/// types say is not searched.
fn says(entry: &Entry, text: &str) -> bool {
    let event = &entry.event;
    if event.kind().starts_with("network.") || event.kind().starts_with("rialto.") {
        return false;
    }
    let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
    let parts = ["title", "content", "text", "filename"].into_iter().filter_map(|key| payload.get(key)?.as_str());
    parts.into_iter().any(|part| part.to_lowercase().contains(text))
}
