//! Reading history: which events a filter names, and which of them a viewer may see.
//!
//! Invariant: every read path asks the same [`Lens`]; what visibility hides is hidden everywhere.
//! The engine names candidates by its lists; bodies are read by the caller, who asks the lens about each.

use crate::glob;
use crate::record::EventRecord;
use crate::route::StreamKey;
use crate::state::{ChannelId, MemberId, State};
use rialto_model::address::Address;
use rialto_model::channel::ChannelStatus;
use rialto_model::{ErrorCode, Fault, Millis, Seq, Visibility};
use roaring::RoaringTreemap;
use std::collections::BTreeSet;

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
    pub since: Option<Millis>,
    pub until: Option<Millis>,
}

/// What a viewer may see, detached from the engine.
#[derive(Debug, Clone, Default)]
pub struct Lens {
    operator: bool,
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
            Visibility::Public => true,
            Visibility::Channel => match record.route.stream {
                Some(StreamKey::Channel(c)) => self.channels.contains(&c),
                Some(StreamKey::Group(g)) => self.groups.contains(&g),
                _ => false,
            },
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
        let address = |want: &Option<String>, have: &str| want.as_deref().is_none_or(|w| same(w, have));
        self.kind
            .as_deref()
            .is_none_or(|k| if k.contains('*') { glob::matches(k, event.kind()) } else { event.kind().starts_with(k) })
            && address(&self.target, event.target())
            && address(&self.source, event.source())
            && self
                .channel
                .as_deref()
                .is_none_or(|c| event.target().strip_prefix("channel/") == Some(c.trim_start_matches("channel/")))
            && self.member.as_deref().is_none_or(|m| same(m, event.source()) || same(m, event.target()))
            && self.conversation.as_ref().is_none_or(|(a, b)| {
                same(a, event.source()) && same(b, event.target()) || same(b, event.source()) && same(a, event.target())
            })
            && self.since.is_none_or(|t| event.timestamp >= t)
            && self.until.is_none_or(|t| event.timestamp <= t)
            && self.in_reply_to.as_deref().is_none_or(|id| event.metadata_text("in_reply_to").as_deref() == Some(id))
            && self.thread.as_deref().is_none_or(|t| record.route.thread.as_deref() == Some(t))
            && self.target_agents.as_deref().is_none_or(|names| {
                let meta: serde_json::Value = serde_json::from_str(event.metadata()).unwrap_or_default();
                let listed = meta.get("target_agents").and_then(|v| v.as_array());
                listed.is_some_and(|l| l.iter().filter_map(|v| v.as_str()).any(|n| names.split(',').any(|w| w == n)))
            })
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

impl State {
    /// What this viewer may see now.
    pub fn lens(&self, viewer: Viewer) -> Lens {
        match viewer {
            Viewer::Operator => Lens { operator: true, ..Lens::default() },
            Viewer::Member(id) => {
                let Some(m) = self.member(id) else { return Lens::default() };
                let open = |l: &Vec<crate::state::Interval>| l.last().is_some_and(|i| i.to == Seq::MAX);
                Lens {
                    operator: false,
                    member: Some(id),
                    channels: m.seats.iter().filter(|(_, l)| open(l)).map(|(c, _)| *c).collect(),
                    groups: m.groups.iter().filter(|(_, l)| open(l)).map(|(g, _)| *g).collect(),
                }
            }
            Viewer::Reader => Lens {
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
        if view == View::Inbox {
            let Viewer::Member(id) = viewer else {
                return Err(Fault::new(ErrorCode::Unauthenticated, "an inbox belongs to a member: say who you are"));
            };
            let after = position.or(filter.after).unwrap_or(0);
            let through = through.min(filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)));
            let seqs: Vec<Seq> = self.pending(id, after, through).take(max).collect();
            return Ok(Page { exhausted: seqs.len() < max, seqs, lens });
        }
        if !self.has_mod("persistence") {
            return Err(Fault::new(
                ErrorCode::HistoryUnavailable,
                "this network keeps no history (mod/persistence is not loaded)",
            ));
        }
        let low = filter.after.unwrap_or(0).max(self.book.purged) + 1;
        let high = filter.before.map_or(Seq::MAX, |b| b.saturating_sub(1)).min(through);
        let low = low.max(filter.since.map_or(0, |t| self.first_at(t)));
        let (low, high) = match position {
            Some(p) if filter.descending => (low, high.min(p.saturating_sub(1))),
            Some(p) => (low.max(p + 1), high),
            None => (low, high),
        };
        let seqs = if low > high { Vec::new() } else { self.candidates(filter, low, high, max) };
        Ok(Page { exhausted: seqs.len() < max, seqs, lens })
    }

    /// The first seq committed in the second of `time` or later.
    fn first_at(&self, time: Millis) -> Seq {
        let at = self.book.times.partition_point(|(t, _)| t / 1000 < time / 1000);
        self.book.times.get(at).map_or(self.book.head + 1, |(_, seq)| *seq)
    }

    fn candidates(&self, filter: &Filter, low: Seq, high: Seq, max: usize) -> Vec<Seq> {
        let keep = |seq: &Seq| !self.book.unstored.contains_key(seq);
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
        match self.narrowest(filter) {
            Narrow::Nothing => Vec::new(),
            Narrow::List(list) => walk(list),
            Narrow::Two(a, b) => walk(&(a | b)),
            Narrow::All if filter.descending => (low..=high).rev().filter(keep).take(max).collect(),
            Narrow::All => (low..=high).filter(keep).take(max).collect(),
        }
    }

    /// The shortest list that holds all the filter asks for.
    fn narrowest(&self, filter: &Filter) -> Narrow<'_> {
        let stream = |key: StreamKey| self.lists.stream(key).map_or(Narrow::Nothing, Narrow::List);
        let channel = filter.channel.as_deref().or(filter.target.as_deref().filter(|t| t.starts_with("channel/")));
        let channel = channel.map(|c| c.trim_start_matches("channel/"));
        if let (Some(thread), Some(channel)) = (&filter.thread, channel) {
            let key = self.channel_id(channel).map(|c| (c, thread.as_str().into()));
            return key.and_then(|k| self.threads.get(&k)).map_or(Narrow::Nothing, |n| stream(StreamKey::Thread(*n)));
        }
        if let Some(name) = channel {
            // A deleted channel's name may live on in several numbers: then the whole log is looked through.
            let ids: Vec<ChannelId> =
                (0..).zip(&self.book.channels).filter(|(_, c)| c.name.as_ref() == name).map(|(id, _)| id).collect();
            return match ids.as_slice() {
                [] => Narrow::Nothing,
                [one] => stream(StreamKey::Channel(*one)),
                _ => Narrow::All,
            };
        }
        if let Some((a, b)) = &filter.conversation {
            let list = |name: &str| {
                crate::membership::find_named(self, name).and_then(|id| self.lists.stream(StreamKey::Inbox(id)))
            };
            return match (list(a), list(b)) {
                (Some(a), Some(b)) => Narrow::Two(a, b),
                (Some(one), None) | (None, Some(one)) => Narrow::List(one),
                (None, None) => Narrow::Nothing,
            };
        }
        if let Some(id) = filter.source.as_deref().and_then(|s| crate::membership::find_named(self, s)) {
            return stream(StreamKey::Source(id));
        }
        if let Some(number) = filter.kind.as_deref().and_then(|k| self.types.get(k)) {
            // The filter is a prefix: longer types that begin with it are in other lists.
            let alone = !self.book.types.iter().any(|t| {
                Some(t.as_ref()) != filter.kind.as_deref() && t.starts_with(filter.kind.as_deref().unwrap_or(""))
            });
            if alone && self.book.types.len() < 10_000 {
                return stream(StreamKey::Type(*number));
            }
        }
        Narrow::All
    }

    /// Threads of a channel, newest activity first: (thread id, events, last seq).
    pub fn threads_of(&self, channel: ChannelId) -> Vec<(&str, u64, Seq)> {
        let mut out: Vec<(&str, u64, Seq)> = (0u32..)
            .zip(&self.book.threads)
            .filter(|(_, (c, _))| *c == channel)
            .filter_map(|(n, (_, id))| {
                self.lists.stream(StreamKey::Thread(n)).map(|l| (id.as_ref(), l.len(), l.max().unwrap_or(0)))
            })
            .collect();
        out.sort_by_key(|(_, _, last)| std::cmp::Reverse(*last));
        out
    }
}

enum Narrow<'a> {
    All,
    Nothing,
    List(&'a RoaringTreemap),
    Two(&'a RoaringTreemap, &'a RoaringTreemap),
}
