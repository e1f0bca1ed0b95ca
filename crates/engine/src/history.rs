//! Reading history: which events a filter names, and which of them a viewer may see.
//!
//! Invariant: every read path asks the same [`Lens`]; what visibility hides is hidden everywhere.
//! The engine names candidates by its lists; bodies are read by the caller, who asks the lens about each.

use crate::apply::TYPES_MAX;
use crate::glob;
use crate::record::EventRecord;
use crate::route::StreamKey;
use crate::state::{ChannelId, Member, MemberId, State, is_open};
use rialto_model::address::Address;
use rialto_model::channel::ChannelStatus;
use rialto_model::{ErrorCode, Fault, Millis, Seq, Visibility};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;

/// A prefix of more types than this is looked for in the whole history.
const KINDS_MAX: usize = 32;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// Sees all.
    Operator,
    /// Sees what its membership shows.
    Member(MemberId),
    /// Holds the network's token without saying who it is.
    Reader,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Deliveries not yet acked.
    Inbox,
    /// Visible history, own events included.
    Log,
}

/// Filters of sheet section 12.5; positions are already resolved to seqs.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub struct Filter {
    pub after: Option<Seq>,
    pub before: Option<Seq>,
    pub descending: bool,
    pub kind: Option<String>,
    pub channel: Option<String>,
    pub target: Option<String>,
    pub source: Option<String>,
    pub target_agents: Option<String>,
    pub member: Option<String>,
    pub conversation: Option<(String, String)>,
    pub in_reply_to: Option<String>,
    pub thread: Option<String>,
    /// A direct room, by the number its id was resolved to.
    pub room: Option<u32>,
    pub since: Option<Millis>,
    pub until: Option<Millis>,
    /// Names of the filter that members have or had, with those members: a [`Page`] gives them.
    pub people: People,
}

/// Members by the names a filter gives them. Empty where nobody was ever renamed: then names alone tell.
pub type People = Vec<(String, Vec<MemberId>)>;

/// What a viewer may see, detached from the engine.
#[derive(Debug, Clone, Default)]
pub struct Lens {
    operator: bool,
    /// Public events are shown.
    public: bool,
    member: Option<MemberId>,
    channels: BTreeSet<ChannelId>,
    groups: BTreeSet<u32>,
}

/// Candidates of a read, in the order asked for.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Positions to read.
    pub seqs: Vec<Seq>,
    /// There are no more candidates behind these.
    pub exhausted: bool,
    /// What the viewer may see.
    pub lens: Lens,
    /// Who the names of the filter are.
    pub people: People,
}

impl Lens {
    /// Whether the viewer may see the event.
    pub fn shows(&self, record: &EventRecord) -> bool {
        if self.operator {
            return true;
        }
        if self.member.is_some() && record.route.source == self.member {
            return true;
        }
        match record.event.visibility {
            Visibility::ModOnly => false,
            Visibility::Public => self.public,
            Visibility::Channel => match record.route.stream {
                Some(StreamKey::Channel(c)) => self.channels.contains(&c),
                Some(StreamKey::Group(g)) => self.groups.contains(&g),
                _ => false,
            },
            Visibility::Direct if crate::bugs::on("visibility unchecked in history") => true,
            Visibility::Direct => self.member.is_some() && record.route.stream == self.member.map(StreamKey::Inbox),
        }
    }

    /// Whether everything is shown.
    pub fn is_operator(&self) -> bool {
        self.operator
    }
    /// The member that looks.
    pub fn member(&self) -> Option<MemberId> {
        self.member
    }
    /// Channels whose events are shown.
    pub fn channels(&self) -> &BTreeSet<ChannelId> {
        &self.channels
    }
    /// Groups whose events are shown.
    pub fn groups(&self) -> &BTreeSet<u32> {
        &self.groups
    }
}

impl Filter {
    /// Whether an event passes (positions and lists were already looked at).
    pub fn passes(&self, record: &EventRecord) -> bool {
        let event = &record.event;
        self.kind
            .as_deref()
            .is_none_or(|k| if k.contains('*') { glob::matches(k, event.kind()) } else { event.kind().starts_with(k) })
            && self.target.as_deref().is_none_or(|t| self.reached(t, record))
            && self.source.as_deref().is_none_or(|s| self.sent(s, record))
            && self
                .channel
                .as_deref()
                .is_none_or(|c| event.target().strip_prefix("channel/") == Some(c.trim_start_matches("channel/")))
            && self.member.as_deref().is_none_or(|m| self.sent(m, record) || self.reached(m, record))
            && self.conversation.as_ref().is_none_or(|(a, b)| {
                self.sent(a, record) && self.reached(b, record) || self.sent(b, record) && self.reached(a, record)
            })
            && self.since.is_none_or(|t| event.timestamp >= t)
            && self.until.is_none_or(|t| event.timestamp <= t)
            && self.in_reply_to.as_deref().is_none_or(|id| event.metadata_text("in_reply_to").as_deref() == Some(id))
            && self.thread.as_deref().is_none_or(|t| record.route.thread.as_deref() == Some(t))
            && self.room.is_none_or(|room| record.route.room == Some(room))
            && self.target_agents.as_deref().is_none_or(|names| {
                let meta: serde_json::Value = serde_json::from_str(event.metadata()).unwrap_or_default();
                let listed = meta.get("target_agents").and_then(|v| v.as_array());
                listed.is_some_and(|l| l.iter().filter_map(|v| v.as_str()).any(|n| names.split(',').any(|w| w == n)))
            })
    }
}

impl Filter {
    /// Whether the one of this name sent the event, whatever it was called then.
    fn sent(&self, name: &str, record: &EventRecord) -> bool {
        same(name, record.event.source()) || record.route.source.is_some_and(|id| self.is(name, id))
    }

    /// Whether the event went to the one of this name, or to what the name says.
    fn reached(&self, name: &str, record: &EventRecord) -> bool {
        let inbox = |key| if let StreamKey::Inbox(id) = key { Some(id) } else { None };
        same_target(name, record.event.target())
            || record.route.stream.and_then(inbox).is_some_and(|id| self.is(name, id))
    }

    fn is(&self, name: &str, id: MemberId) -> bool {
        self.people.iter().any(|(known, ids)| known == name && ids.contains(&id))
    }

    /// Names it asks for.
    fn names(&self) -> impl Iterator<Item = &String> {
        let pair = self.conversation.iter().flat_map(|(a, b)| [a, b]);
        [&self.source, &self.target, &self.member].into_iter().flatten().chain(pair)
    }
}

/// Addresses are compared canonically; a bare name is an agent of either dialect.
fn same(want: &str, have: &str) -> bool {
    want == have
        || Address::parse(want).is_ok_and(|a| {
            a.as_str() == have
                || a.as_str().strip_prefix("agent:").is_some_and(|n| have.strip_prefix("openagents:") == Some(n))
        })
}

/// A target `agent:x` may have meant the member `openagents:x`.
fn same_target(want: &str, have: &str) -> bool {
    same(want, have) || want.strip_prefix("openagents:").is_some_and(|n| have.strip_prefix("agent:") == Some(n))
}

impl State {
    /// What this viewer may see now.
    pub fn lens(&self, viewer: Viewer) -> Lens {
        match viewer {
            Viewer::Operator => Lens { operator: true, public: true, ..Lens::default() },
            Viewer::Member(id) => {
                let Some(m) = self.member(id).filter(|m| !m.removed) else { return Lens::default() };
                Lens {
                    operator: false,
                    public: true,
                    member: Some(id),
                    channels: m.seats.keys().copied().filter(|c| m.sits_in(*c)).collect(),
                    groups: m.groups.iter().filter(|(_, l)| is_open(l)).map(|(g, _)| *g).collect(),
                }
            }
            Viewer::Reader if !self.book.settings.bare_reads => Lens::default(),
            Viewer::Reader => Lens {
                public: true,
                channels: (0..)
                    .zip(&self.book.channels)
                    .filter(|(_, c)| !c.private && c.status != ChannelStatus::Deleted)
                    .map(|(id, _)| id)
                    .collect(),
                ..Lens::default()
            },
        }
    }

    /// Candidates of a read after `position` (before it when descending), at most `max`, none above `through`.
    pub fn page(
        &self,
        viewer: Viewer,
        view: View,
        filter: &Filter,
        position: Option<Seq>,
        through: Seq,
        max: usize,
    ) -> Result<Page, Fault> {
        let lens = self.lens(viewer);
        let people = self.people(filter);
        if view == View::Inbox {
            let Viewer::Member(id) = viewer else {
                return Err(Fault::new(ErrorCode::Unauthenticated, "an inbox belongs to a member: say who you are"));
            };
            let mut after = filter.after.unwrap_or(0);
            let mut through = through.min(filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)));
            match position {
                Some(p) if filter.descending => through = through.min(p.saturating_sub(1)),
                Some(p) => after = after.max(p),
                None => {}
            }
            let mut seqs: Vec<Seq> = if filter.descending {
                self.pending(id, after, through).collect()
            } else {
                self.pending(id, after, through).take(max).collect()
            };
            if filter.descending {
                seqs.reverse();
                seqs.truncate(max);
            }
            return Ok(Page { exhausted: seqs.len() < max, seqs, lens, people });
        }
        if !self.has_mod("persistence") {
            return Err(Fault::new(
                ErrorCode::HistoryUnavailable,
                "this network keeps no history (mod/persistence is not loaded)",
            ));
        }
        let low = filter.after.unwrap_or(0).max(self.book.purged).saturating_add(1);
        let low = low.max(filter.since.map_or(0, |t| self.first_at(t)));
        let high = filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)).min(through).min(self.book.head);
        let high = high.min(filter.until.map_or(Seq::MAX, |t| self.last_at(t)));
        let (low, high) = match position {
            Some(p) if filter.descending => (low, high.min(p.saturating_sub(1))),
            Some(p) => (low.max(p.saturating_add(1)), high),
            None => (low, high),
        };
        let seqs = if low > high { Vec::new() } else { self.candidates(filter, low, high, max) };
        Ok(Page { exhausted: seqs.len() < max, seqs, lens, people })
    }

    /// Nothing before this seq was committed at `time` or later.
    pub(crate) fn first_at(&self, time: Millis) -> Seq {
        let at = self.book.times.partition_point(|(t, _)| *t < time);
        at.checked_sub(1).and_then(|at| self.book.times.get(at)).map_or(0, |(_, seq)| *seq)
    }

    /// Nothing after this seq was committed at `time` or earlier.
    fn last_at(&self, time: Millis) -> Seq {
        let at = self.book.times.partition_point(|(t, _)| *t <= time);
        self.book.times.get(at).map_or(Seq::MAX, |(_, seq)| seq.saturating_sub(1))
    }

    fn candidates(&self, filter: &Filter, low: Seq, high: Seq, max: usize) -> Vec<Seq> {
        // Lists also hold events that history does not keep, while somebody has not acked them.
        let keep = |seq: &Seq| self.lists.kept().contains(*seq);
        let walk = |list: &RoaringTreemap| -> Vec<Seq> {
            let mut iter = list.iter();
            iter.advance_to(low);
            iter.advance_back_to(high);
            if filter.descending {
                iter.rev().filter(keep).take(max).collect()
            } else {
                iter.filter(keep).take(max).collect()
            }
        };
        let lists: Vec<&RoaringTreemap> = match self.narrowest(filter) {
            None => vec![self.lists.kept()],
            Some(keys) => keys.into_iter().filter_map(|key| self.lists.stream(key)).collect(),
        };
        match lists.as_slice() {
            [] => Vec::new(),
            [one] => walk(one),
            [first, rest @ ..] => walk(&rest.iter().fold((*first).clone(), |all, list| all | *list)),
        }
    }

    /// Every member that ever had the address, in either dialect.
    fn all_named(&self, name: &str) -> Vec<MemberId> {
        let had = |m: &Member| same(name, &m.address) || m.former.iter().any(|old| same(name, old));
        (0..).zip(&self.book.members).filter(|(_, m)| had(m)).map(|(id, _)| id).collect()
    }

    /// Who the names of a filter are, where names alone do not tell.
    pub fn people(&self, filter: &Filter) -> People {
        if filter.names().next().is_none() || !self.book.members.iter().any(|m| !m.former.is_empty()) {
            return People::new();
        }
        filter.names().map(|name| (name.clone(), self.all_named(name))).collect()
    }

    /// Lists that together hold all the filter asks for; `None` if only the whole history does.
    fn narrowest(&self, filter: &Filter) -> Option<Vec<StreamKey>> {
        let channel = filter.channel.as_deref().or(filter.target.as_deref().filter(|t| t.starts_with("channel/")));
        if let Some(name) = channel.map(|c| c.trim_start_matches("channel/")) {
            // A deleted channel's name may have been used again.
            let named = (0..).zip(&self.book.channels).filter(|(_, c)| c.name.as_ref() == name);
            let channels = named.map(|(id, _)| id);
            return Some(match &filter.thread {
                None => channels.map(StreamKey::Channel).collect(),
                Some(thread) => channels
                    .filter_map(|id| self.threads.get(&(id, thread.as_str().into())))
                    .map(|n| StreamKey::Thread(*n))
                    .collect(),
            });
        }
        if let Some(room) = filter.room {
            return Some(vec![StreamKey::Room(room)]);
        }
        if let Some(thread) = &filter.thread {
            let channels = (0..).zip(&self.book.channels).map(|(id, _): (ChannelId, _)| id);
            let numbers = channels.filter_map(|id| self.threads.get(&(id, thread.as_str().into())));
            return Some(numbers.map(|n| StreamKey::Thread(*n)).collect());
        }
        let inboxes = |name: &str| self.all_named(name).into_iter().map(StreamKey::Inbox);
        if let Some((a, b)) = &filter.conversation {
            return Some(inboxes(a).chain(inboxes(b)).collect());
        }
        let sources = filter.source.as_deref().map(|s| self.all_named(s)).filter(|ids| !ids.is_empty());
        if let Some(ids) = sources {
            return Some(ids.into_iter().map(StreamKey::Source).collect());
        }
        let is_member = |t: &str| Address::parse(t).is_ok_and(|a| a.is_principal() && !a.is_foreign());
        if let Some(target) = filter.target.as_deref().filter(|t| is_member(t)) {
            return Some(inboxes(target).collect());
        }
        let kind = filter.kind.as_deref().filter(|k| !k.contains('*') && self.book.types.len() < TYPES_MAX)?;
        // The filter is a prefix: every type that begins with it counts.
        let numbers = (0..).zip(&self.book.types).filter(|(_, t)| t.starts_with(kind)).map(|(n, _)| n);
        let numbers: Vec<u32> = numbers.take(KINDS_MAX + 1).collect();
        (numbers.len() <= KINDS_MAX).then(|| numbers.into_iter().map(StreamKey::Type).collect())
    }

    /// Direct events between two members, either way.
    pub fn direct_between(&self, a: MemberId, b: MemberId) -> RoaringTreemap {
        let list = |inbox, source| match (
            self.lists.stream(StreamKey::Inbox(inbox)),
            self.lists.stream(StreamKey::Source(source)),
        ) {
            (Some(i), Some(s)) => i & s,
            _ => RoaringTreemap::new(),
        };
        list(a, b) | list(b, a)
    }
}
