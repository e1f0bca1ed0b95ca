//! Reading history: which events a filter names, and which of them a viewer may see.
//!
//! Invariant: every read path asks the same [`Lens`]; what visibility hides is hidden everywhere.
//! The engine names candidates by its lists; bodies are read by the caller, who asks the lens about each.

use crate::apply::TYPES_MAX;
use crate::glob;
use crate::record::EventRecord;
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, State, is_open};
use rialto_model::address::Address;
use rialto_model::{ErrorCode, Fault, Millis, Seq, Visibility, limits};
use roaring::{RoaringBitmap, RoaringTreemap};
use std::collections::BTreeSet;

/// A prefix of more types than this is looked for in the whole history.
const KINDS_MAX: usize = 32;

/// Events of a channel that are tried where the lists cannot tell whether the newest one is shown.
const LATEST_TRIED_MAX: usize = 8;
/// Positions looked at while the newest event of several lists is looked for.
const LEAPS_MAX: usize = 4096;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// Sees all.
    Operator,
    /// Sees what its membership shows.
    Member(MemberId),
    /// Holds the network's token without saying who it is.
    Reader {
        /// The token manages the network: whoever holds it may speak for every member that only ever named itself.
        manages: bool,
    },
}

impl Viewer {
    /// Whether it is nobody in particular.
    pub fn is_reader(self) -> bool {
        matches!(self, Viewer::Reader { .. })
    }
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
    /// Besides what `target_agents` asks for, also events that say nothing of whom they mean.
    pub untargeted: bool,
    pub member: Option<String>,
    pub conversation: Option<(String, String)>,
    pub in_reply_to: Option<String>,
    pub thread: Option<String>,
    /// A direct room, by the number its id was resolved to.
    pub room: Option<u32>,
    pub since: Option<Millis>,
    pub until: Option<Millis>,
    /// Names of the filter that members have or had, with those members: a [`CandidatePage`] gives them.
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
    channels: RoaringBitmap,
    groups: BTreeSet<u32>,
    /// Members that the viewer may speak for by naming them.
    claimable: BTreeSet<MemberId>,
}

/// Candidates of a read, in the order asked for.
#[derive(Debug, Clone, Default)]
pub struct CandidatePage {
    /// Positions to read.
    pub seqs: Vec<Seq>,
    /// There are no more candidates behind these.
    pub exhausted: bool,
    /// What the viewer may see.
    pub lens: Lens,
    /// Who the names of the filter are.
    pub people: People,
}

/// Newest events of channels.
#[derive(Debug, Default)]
pub struct Latest {
    /// Channels by name, each with what its newest event may be, the newest first.
    pub channels: Vec<(Box<str>, Vec<Seq>)>,
    /// The last channel that was looked at, if there are more behind it.
    pub next: Option<ChannelId>,
    /// What the viewer may see.
    pub lens: Lens,
}

fn no_history() -> Fault {
    Fault::new(ErrorCode::HistoryUnavailable, "this network keeps no history (mod/persistence is not loaded)")
}

/// The highest seq that all lists hold, not above `through`: each list in turn says how far down the others must go.
fn newest_in_all(lists: &[&RoaringTreemap], through: Seq, steps: &mut usize) -> Option<Seq> {
    *steps = steps.saturating_sub(1);
    let first = lists.first().and_then(|list| list.max()).filter(|first| *first <= through);
    if first.is_some_and(|first| lists.iter().all(|list| list.contains(first))) {
        return first;
    }
    let mut iters: Vec<_> = lists.iter().map(|list| list.iter()).collect();
    let (mut seq, mut agreed) = (through, 0);
    for at in (0..iters.len()).cycle().take(LEAPS_MAX.min(*steps)) {
        *steps -= 1;
        let iter = iters.get_mut(at)?;
        iter.advance_back_to(seq);
        // Looked at, not taken: the same position may be asked for again.
        let have = iter.clone().next_back()?;
        agreed = if have == seq { agreed + 1 } else { 1 };
        seq = have;
        if agreed >= lists.len() {
            return Some(seq);
        }
    }
    None
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
                Some(StreamKey::Channel(c)) => self.channels.contains(c),
                Some(StreamKey::Group(g)) => self.groups.contains(&g),
                _ => false,
            },
            Visibility::Direct if crate::bugs::on("visibility unchecked in history") => true,
            Visibility::Direct => match record.route.stream {
                Some(StreamKey::Inbox(to)) => self.member == Some(to) || self.may_claim(record.route.source, to),
                _ => false,
            },
        }
    }

    /// Whether the viewer could speak for both ends of a direct event anyway.
    fn may_claim(&self, from: Option<MemberId>, to: MemberId) -> bool {
        from.is_some_and(|from| self.claimable.contains(&from)) && self.claimable.contains(&to)
    }

    /// Whether everything is shown.
    pub fn is_operator(&self) -> bool {
        self.operator
    }
    /// Members whose direct events with one another are shown.
    pub fn claimable(&self) -> &BTreeSet<MemberId> {
        &self.claimable
    }
    /// The member that looks.
    pub fn member(&self) -> Option<MemberId> {
        self.member
    }
    /// Channels whose events are shown.
    pub fn channels(&self) -> &RoaringBitmap {
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
                listed.map_or(self.untargeted, |l| {
                    l.iter().filter_map(|v| v.as_str()).any(|n| names.split(',').any(|w| w == n))
                })
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

/// Addresses are compared canonically; a bare name is an agent under either prefix.
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
                    channels: self.seats_of(id).cloned().unwrap_or_default(),
                    groups: m.groups.iter().filter(|(_, l)| is_open(l)).map(|(g, _)| *g).collect(),
                    claimable: BTreeSet::new(),
                }
            }
            Viewer::Reader { .. } if !self.book.settings.bare_reads => Lens::default(),
            Viewer::Reader { manages } => Lens {
                public: true,
                channels: self.directory.open_channels().clone(),
                claimable: self.claimed_freely(manages),
                ..Lens::default()
            },
        }
    }

    /// Members for both ends of whose direct events a reader could speak anyway, where it manages.
    fn claimed_freely(&self, manages: bool) -> BTreeSet<MemberId> {
        let every = crate::bugs::on("bare token reads every letter");
        self.roster().filter(|(_, m)| manages && (every || self.is_lax(m))).map(|(id, _)| id).collect()
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
    ) -> Result<CandidatePage, Fault> {
        let lens = self.lens(viewer);
        let people = self.people(filter);
        if view == View::Inbox {
            let Viewer::Member(id) = viewer else {
                return Err(Fault::new(
                    ErrorCode::Unauthenticated,
                    "an inbox belongs to a member: show a session id as Bearer",
                ));
            };
            let mut after = filter.after.unwrap_or(0);
            let mut through = through.min(filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)));
            match position {
                Some(p) if filter.descending => through = through.min(p.saturating_sub(1)),
                Some(p) => after = after.max(p),
                None => {}
            }
            let seqs: Vec<Seq> = if filter.descending {
                self.pending_newest(id, after, through).take(max).collect()
            } else {
                self.pending(id, after, through).take(max).collect()
            };
            return Ok(CandidatePage { exhausted: seqs.len() < max, seqs, lens, people });
        }
        if !self.has_mod("persistence") {
            return Err(no_history());
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
        Ok(CandidatePage { exhausted: seqs.len() < max, seqs, lens, people })
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

    /// Every member that ever had the address, under either prefix.
    fn all_named(&self, name: &str) -> Vec<MemberId> {
        let canonical = Address::parse(name).ok().map(|address| address.as_str().to_owned());
        let twin = canonical.as_deref().and_then(|text| text.strip_prefix("agent:")).map(|n| format!("openagents:{n}"));
        let forms = std::iter::once(name).chain(canonical.as_deref()).chain(twin.as_deref());
        let mut ids: Vec<MemberId> = forms.flat_map(|form| self.ever_named(form)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Who the names of a filter are, where names alone do not tell.
    pub fn people(&self, filter: &Filter) -> People {
        if filter.names().next().is_none() || !self.has_renamed() {
            return People::new();
        }
        filter.names().map(|name| (name.clone(), self.all_named(name))).collect()
    }

    /// Lists that together hold all the filter asks for; `None` if only the whole history does.
    fn narrowest(&self, filter: &Filter) -> Option<Vec<StreamKey>> {
        let channel = filter.channel.as_deref().or(filter.target.as_deref().filter(|t| t.starts_with("channel/")));
        if let Some(name) = channel.map(|c| c.trim_start_matches("channel/")) {
            // A deleted channel's name may have been used again.
            let channels = self.channels_named(name);
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
            let numbers = self.threads_named.get(thread.as_str()).into_iter().flatten();
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
        let kind = filter.kind.as_deref().filter(|k| !k.contains('*'))?;
        self.kinds_like(kind).map(|numbers| numbers.into_iter().map(StreamKey::Type).collect())
    }

    /// Types a filter names: those that begin with it, or match where it is a pattern. None if they are too many to be told apart.
    fn kinds_like(&self, kind: &str) -> Option<Vec<u32>> {
        if self.book.types.len() >= TYPES_MAX {
            return None;
        }
        let like = |t: &str| if kind.contains('*') { glob::matches(kind, t) } else { t.starts_with(kind) };
        let numbers = (0..).zip(&self.book.types).filter(|(_, t)| like(t)).map(|(n, _)| n);
        let numbers: Vec<u32> = numbers.take(KINDS_MAX + 1).collect();
        (numbers.len() <= KINDS_MAX).then_some(numbers)
    }

    /// The newest events of channels that may be what is asked for, none above `through`: a piece of the channels the viewer may know
    /// of, after one of them. Only the type and the position are looked at; the caller reads them and asks the lens.
    pub fn latest_per_channel(
        &self,
        viewer: Viewer,
        filter: &Filter,
        after: Option<ChannelId>,
        through: Seq,
    ) -> Result<Latest, Fault> {
        if !self.has_mod("persistence") {
            return Err(no_history());
        }
        let lens = self.lens(viewer);
        let kinds = filter.kind.as_deref().map_or(Some(Vec::new()), |kind| self.kinds_like(kind));
        let exact = filter.kind.is_none() || kinds.is_some();
        let kinds: Vec<&RoaringTreemap> =
            kinds.into_iter().flatten().filter_map(|n| self.lists.stream(StreamKey::Type(n))).collect();
        let none = filter.kind.is_some() && exact && kinds.is_empty();
        let mut latest = Latest { lens, ..Latest::default() };
        let mut steps = limits::LIST_LOOKS_MAX;
        let mut last = None;
        for (id, channel) in self.channels_seen(viewer, after) {
            if latest.channels.len() >= limits::LIST_ROWS_MAX || steps == 0 {
                latest.next = last;
                break;
            }
            last = Some(id);
            steps -= 1;
            let Some(list) = self.lists.stream(StreamKey::Channel(id)).filter(|_| !none) else { continue };
            let shown = latest.lens.is_operator() || latest.lens.channels().contains(id);
            let wanted = if shown && exact { 1 } else { LATEST_TRIED_MAX };
            let mut seqs: Vec<Seq> = Vec::new();
            while seqs.len() < wanted {
                let below = seqs.last().map_or(through, |seq| seq - 1);
                let mut newest =
                    |kind: &RoaringTreemap| newest_in_all(&[list, kind, self.lists.kept()], below, &mut steps);
                let found = match kinds.as_slice() {
                    [] => newest_in_all(&[list, self.lists.kept()], below, &mut steps),
                    kinds => kinds.iter().filter_map(|kind| newest(kind)).max(),
                };
                let Some(seq) = found else { break };
                seqs.push(seq);
            }
            if !seqs.is_empty() {
                latest.channels.push((channel.name.clone(), seqs));
            }
        }
        Ok(latest)
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
