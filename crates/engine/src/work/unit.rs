//! A unit, the marks that change it, and the look-ups derived from all units.

use crate::input::Content;
use crate::route::StreamKey;
use crate::state::{ChannelId, Index, MemberId, State};
pub use rialto_model::work::UnitKind;
use rialto_model::{Event, Millis, Seq, WorkState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A unit by its number in this network; numbers are never used again.
pub type UnitNo = u32;

/// Where a unit lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkPlace {
    /// Between two members.
    Agent,
    /// In a channel: whoever takes it first does it.
    Channel(ChannelId),
    /// At a resource: its owner does it.
    Resource(u32),
}

/// The name a unit has in another protocol or at its requester's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Alias {
    /// The face; empty for this model's own clients.
    pub face: Box<str>,
    /// Within which the id is unique: nobody can take an id away from another.
    pub scope: Box<str>,
    /// The id.
    pub id: Box<str>,
}

/// A chunk of an artifact that is content of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The event that brought it; not known yet in the record of that event.
    #[serde(default)]
    pub seq: Seq,
    /// What it is.
    pub content: Content,
}

/// Something made, whole or in chunks: its parts are in the unit's events, or content that they name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Its id within the unit.
    pub id: Box<str>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Events that carry it.
    pub chunks: u32,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Nothing follows.
    pub last: bool,
    /// What kind of content it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Box<str>>,
    /// Its chunks that are content of their own, in order. In a mark only the new one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blobs: Vec<Chunk>,
}

impl Artifact {
    /// Whether all of it is content, so that it can be read as one.
    pub fn is_content(&self) -> bool {
        u32::try_from(self.blobs.len()) == Ok(self.chunks)
    }

    /// What its mark brings is the first of it: what was there under its id before goes.
    pub fn begins_anew(&self) -> bool {
        self.chunks <= 1
    }
}

/// One work unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names of the unit's own JSON")]
pub struct Unit {
    pub id: Box<str>,
    #[serde(default)]
    pub kind: UnitKind,
    pub state: WorkState,
    pub requester: MemberId,
    pub executor: Option<MemberId>,
    pub place: WorkPlace,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<str>>,
    pub request_seq: Seq,
    pub request_id: Box<str>,
    /// The event in which the executor asked: a reply to it is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Box<str>>,
    /// The last answer: a reply to it is a reply to the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<UnitNo>,
    pub root: UnitNo,
    pub depth: u8,
    /// Units opened below this one, if it is a root.
    #[serde(default)]
    pub below: u32,
    /// How long the executor may be silent, if the requester said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<Millis>,
    /// It fails at this stamp unless something happens.
    pub due: Millis,
    pub opened_at: Millis,
    pub updated_at: Millis,
    /// When it came to its state.
    #[serde(default)]
    pub since: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_at: Option<Millis>,
    pub last_seq: Seq,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
}

impl Unit {
    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        !self.state.is_terminal()
    }

    /// Every blob its artifacts name, the same one twice if they do so twice.
    pub fn blobs(&self) -> impl Iterator<Item = Content> {
        self.artifacts.iter().flat_map(|artifact| &artifact.blobs).map(|chunk| chunk.content)
    }

    /// Ids of events that a reply may name.
    fn replied_to(&self) -> impl Iterator<Item = &str> {
        [Some(&self.request_id), self.asked.as_ref(), self.answered.as_ref()].into_iter().flatten().map(AsRef::as_ref)
    }
}

/// What an event does to a unit: a part of the event's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkMark {
    /// Which.
    pub unit: UnitNo,
    /// How.
    pub act: WorkAct,
    /// Its state from here on.
    pub state: WorkState,
    /// Its executor from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<MemberId>,
    /// When it is due from here on.
    pub due: Millis,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
}

/// The kinds of marks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkAct {
    /// It begins.
    Open(Box<Unit>),
    /// It moves, or stays and goes on.
    Move,
    /// The requester answers.
    Answer,
    /// An artifact, as it is from here on.
    Artifact(Artifact),
    /// A message inside.
    Note,
}

/// Look-ups derived from the units.
#[derive(Debug, Clone)]
pub(crate) struct WorkIndex {
    /// By own id.
    pub(crate) ids: Index<Box<str>, UnitNo>,
    pub(crate) aliases: BTreeMap<Alias, UnitNo>,
    /// Events that a reply to moves an open unit.
    pub(crate) replies: Index<Box<str>, UnitNo>,
    /// Open units by the position of their request.
    pub(crate) requests: BTreeMap<Seq, UnitNo>,
    /// Open units by when they are due.
    pub(crate) dues: BTreeSet<(Millis, UnitNo)>,
    /// Units by requester and by executor, ended ones too.
    pub(crate) asked_by: BTreeMap<MemberId, BTreeSet<UnitNo>>,
    pub(crate) done_by: BTreeMap<MemberId, BTreeSet<UnitNo>>,
    /// How many of them are open.
    pub(crate) open_asked: BTreeMap<MemberId, usize>,
    pub(crate) open_done: BTreeMap<MemberId, usize>,
    /// How many of the open ones are calls of resources.
    pub(crate) calls_asked: BTreeMap<MemberId, usize>,
    pub(crate) calls_done: BTreeMap<MemberId, usize>,
    /// Open calls by resource.
    pub(crate) calls_of: BTreeMap<u32, BTreeSet<UnitNo>>,
    /// Open units of a channel that nobody has taken.
    pub(crate) untaken: BTreeMap<ChannelId, BTreeSet<UnitNo>>,
    /// How many open units there are in a thread.
    pub(crate) open_in: BTreeMap<(ChannelId, Box<str>), usize>,
    /// Open units by their parent.
    pub(crate) children: BTreeMap<UnitNo, BTreeSet<UnitNo>>,
    /// Ended units by their last event.
    pub(crate) closed: BTreeSet<(Seq, UnitNo)>,
    pub(crate) open: usize,
    /// Chunks of all units that are content of their own.
    pub(crate) blobs: usize,
}

impl WorkIndex {
    pub(crate) fn new(hasher: impl Fn() -> foldhash::fast::FixedState, units: &BTreeMap<UnitNo, Unit>) -> WorkIndex {
        let mut index = WorkIndex {
            ids: Index::with_hasher(hasher()),
            aliases: BTreeMap::new(),
            replies: Index::with_hasher(hasher()),
            requests: BTreeMap::new(),
            dues: BTreeSet::new(),
            asked_by: BTreeMap::new(),
            done_by: BTreeMap::new(),
            open_asked: BTreeMap::new(),
            open_done: BTreeMap::new(),
            calls_asked: BTreeMap::new(),
            calls_done: BTreeMap::new(),
            calls_of: BTreeMap::new(),
            untaken: BTreeMap::new(),
            open_in: BTreeMap::new(),
            children: BTreeMap::new(),
            closed: BTreeSet::new(),
            open: 0,
            blobs: 0,
        };
        units.iter().for_each(|(no, unit)| index.enter(*no, unit));
        index
    }

    /// Takes a unit in, as it is.
    fn enter(&mut self, no: UnitNo, unit: &Unit) {
        self.ids.insert(unit.id.clone(), no);
        self.blobs += unit.blobs().count();
        unit.aliases.iter().for_each(|alias| {
            self.aliases.insert(alias.clone(), no);
        });
        self.asked_by.entry(unit.requester).or_default().insert(no);
        if let Some(executor) = unit.executor {
            self.done_by.entry(executor).or_default().insert(no);
        }
        if !unit.is_open() {
            self.closed.insert((unit.last_seq, no));
            return;
        }
        self.open += 1;
        unit.replied_to().for_each(|id| {
            self.replies.insert(id.into(), no);
        });
        self.requests.insert(unit.request_seq, no);
        self.dues.insert((unit.due, no));
        *self.open_asked.entry(unit.requester).or_default() += 1;
        if let (WorkPlace::Resource(resource), Some(owner)) = (unit.place, unit.executor) {
            *self.calls_asked.entry(unit.requester).or_default() += 1;
            *self.calls_done.entry(owner).or_default() += 1;
            self.calls_of.entry(resource).or_default().insert(no);
        }
        match (unit.executor, unit.place) {
            (Some(executor), _) => *self.open_done.entry(executor).or_default() += 1,
            (None, WorkPlace::Channel(channel)) => {
                self.untaken.entry(channel).or_default().insert(no);
            }
            (None, WorkPlace::Agent | WorkPlace::Resource(_)) => {}
        }
        if let Some(parent) = unit.parent {
            self.children.entry(parent).or_default().insert(no);
        }
        if let (WorkPlace::Channel(channel), Some(thread)) = (unit.place, &unit.thread) {
            *self.open_in.entry((channel, thread.clone())).or_default() += 1;
        }
    }

    /// Takes a unit out, as it was.
    fn leave(&mut self, no: UnitNo, unit: &Unit) {
        self.ids.swap_remove(&unit.id);
        self.blobs -= unit.blobs().count();
        unit.aliases.iter().for_each(|alias| {
            self.aliases.remove(alias);
        });
        take(&mut self.asked_by, unit.requester, no);
        if let Some(executor) = unit.executor {
            take(&mut self.done_by, executor, no);
        }
        if !unit.is_open() {
            self.closed.remove(&(unit.last_seq, no));
            return;
        }
        self.open -= 1;
        unit.replied_to().for_each(|id| {
            self.replies.swap_remove(id);
        });
        self.requests.remove(&unit.request_seq);
        self.dues.remove(&(unit.due, no));
        count_down(&mut self.open_asked, unit.requester);
        if let (WorkPlace::Resource(resource), Some(owner)) = (unit.place, unit.executor) {
            count_down(&mut self.calls_asked, unit.requester);
            count_down(&mut self.calls_done, owner);
            take(&mut self.calls_of, resource, no);
        }
        match (unit.executor, unit.place) {
            (Some(executor), _) => count_down(&mut self.open_done, executor),
            (None, WorkPlace::Channel(channel)) => take(&mut self.untaken, channel, no),
            (None, WorkPlace::Agent | WorkPlace::Resource(_)) => {}
        }
        if let Some(parent) = unit.parent {
            take(&mut self.children, parent, no);
        }
        if let (WorkPlace::Channel(channel), Some(thread)) = (unit.place, &unit.thread) {
            count_down(&mut self.open_in, (channel, thread.clone()));
        }
    }

    /// Open units a member asked for or has to do.
    pub(crate) fn open_of(&self, units: &BTreeMap<UnitNo, Unit>, member: MemberId) -> BTreeSet<UnitNo> {
        let both = [self.asked_by.get(&member), self.done_by.get(&member)].into_iter().flatten().flatten();
        both.copied().filter(|no| units.get(no).is_some_and(Unit::is_open)).collect()
    }
}

fn take<K: Ord>(map: &mut BTreeMap<K, BTreeSet<UnitNo>>, key: K, no: UnitNo) {
    let empty = map.get_mut(&key).is_some_and(|set| {
        set.remove(&no);
        set.is_empty()
    });
    if empty {
        map.remove(&key);
    }
}

fn count_down<K: Ord>(map: &mut BTreeMap<K, usize>, key: K) {
    if let Some(count) = map.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            map.remove(&key);
        }
    }
}

impl State {
    /// Chunks that an event brought.
    pub fn chunks_of(&self, seq: Seq) -> impl Iterator<Item = Content> {
        let units = self.book.units.values().take(if self.work.blobs == 0 { 0 } else { usize::MAX });
        let chunks = units.flat_map(|unit| &unit.artifacts).flat_map(|artifact| &artifact.blobs);
        chunks.filter(move |chunk| chunk.seq == seq).map(|chunk| chunk.content)
    }

    /// A unit by number.
    pub fn unit(&self, no: UnitNo) -> Option<&Unit> {
        self.book.units.get(&no)
    }

    /// A unit by its id, or by the name its requester gave it.
    pub fn unit_named(&self, text: &str, by: Option<MemberId>) -> Option<(UnitNo, &Unit)> {
        let own = self.work.ids.get(text).copied();
        let no = own.or_else(|| self.work.aliases.get(&Alias::own(by?, text)).copied())?;
        Some((no, self.unit(no)?))
    }

    /// A unit by the name that its requester gave it.
    pub(crate) fn unit_called(&self, name: &str, by: MemberId) -> Option<(UnitNo, &Unit)> {
        let no = *self.work.aliases.get(&Alias::own(by, name))?;
        Some((no, self.unit(no)?))
    }
}

impl Alias {
    /// The name a member of this network gave to a unit it asked for.
    pub(crate) fn own(by: MemberId, id: &str) -> Alias {
        Alias { face: "".into(), scope: by.to_string().into(), id: id.into() }
    }
}

/// Applies a mark. The event is posted to the unit's list.
pub(crate) fn apply_mark(state: &mut State, event: &Event, mark: &WorkMark) {
    let no = mark.unit;
    let known = state.book.units.remove(&no);
    if let Some(unit) = &known {
        state.work.leave(no, unit);
    }
    let unit = match (&mark.act, known) {
        (WorkAct::Open(unit), _) => {
            state.book.next_unit = state.book.next_unit.max(no + 1);
            if unit.root != no {
                count_below(state, unit.root);
            }
            unit.as_ref().clone()
        }
        (_, None) => return,
        (act, Some(mut unit)) => {
            changed(&mut unit, event, mark, act);
            unit
        }
    };
    state.work.enter(no, &unit);
    state.book.units.insert(no, unit);
}

fn count_below(state: &mut State, root: UnitNo) {
    if let Some(unit) = state.book.units.get_mut(&root) {
        unit.below += 1;
    }
}

fn changed(unit: &mut Unit, event: &Event, mark: &WorkMark, act: &WorkAct) {
    if unit.state != mark.state {
        unit.since = event.timestamp;
    }
    unit.state = mark.state;
    unit.executor = mark.executor;
    unit.due = mark.due;
    unit.updated_at = event.timestamp;
    unit.last_seq = event.seq;
    unit.error.clone_from(&mark.error);
    if unit.state.is_terminal() {
        unit.terminal_at = Some(event.timestamp);
    }
    match act {
        WorkAct::Move if unit.state.waits() => unit.asked = Some(event.id().into()),
        WorkAct::Answer => {
            unit.asked = None;
            unit.answered = Some(event.id().into());
        }
        WorkAct::Artifact(artifact) => {
            let mut artifact = artifact.clone();
            artifact.blobs.iter_mut().for_each(|chunk| chunk.seq = event.seq);
            match unit.artifacts.iter_mut().find(|a| a.id == artifact.id) {
                Some(known) => {
                    if !artifact.begins_anew() {
                        let before = std::mem::take(&mut known.blobs);
                        artifact.blobs = before.into_iter().chain(artifact.blobs).collect();
                    }
                    *known = artifact;
                }
                None => unit.artifacts.push(artifact),
            }
        }
        WorkAct::Open(_) | WorkAct::Move | WorkAct::Note => {}
    }
}

/// Applies that a unit is as given, as long as it is known.
pub(crate) fn set(state: &mut State, no: UnitNo, unit: &Unit) {
    if let Some(known) = state.book.units.remove(&no) {
        state.work.leave(no, &known);
        state.work.enter(no, unit);
        state.book.units.insert(no, unit.clone());
    }
}

/// The chunks of an event that is redacted are no more.
pub(crate) fn redacted(state: &mut State, seq: Seq) {
    if state.work.blobs == 0 {
        return;
    }
    let artifacts = state.book.units.values_mut().flat_map(|unit| &mut unit.artifacts);
    for artifact in artifacts {
        let before = artifact.blobs.len();
        artifact.blobs.retain(|chunk| chunk.seq != seq);
        state.work.blobs -= before - artifact.blobs.len();
    }
}

/// Of an older release, whose deadlines were stamps: open units get the time back that the wall clock leapt over.
pub(crate) fn leapt(state: &mut State, by: Millis) {
    let open: Vec<UnitNo> = state.work.dues.iter().map(|(_, no)| *no).collect();
    for no in open {
        if let Some(unit) = state.book.units.get_mut(&no) {
            unit.due = unit.due.saturating_add(by);
        }
    }
    let units = &state.book.units;
    state.work.dues = std::mem::take(&mut state.work.dues)
        .into_iter()
        .filter_map(|(_, no)| units.get(&no).map(|unit| (unit.due, no)))
        .collect();
}

/// Forgets ended units; gives the events that were held for them.
pub(crate) fn forgotten(state: &mut State, units: &[(UnitNo, UnitNo)]) -> Vec<Seq> {
    let mut held = Vec::new();
    for no in units.iter().flat_map(|(from, to)| *from..=*to) {
        if let Some(unit) = state.book.units.remove(&no) {
            state.work.leave(no, &unit);
            held.extend(state.lists.streams.swap_remove(&StreamKey::Work(no)).into_iter().flatten());
        }
    }
    held
}
