//! Work units (design, section 8): who may open, take, move and see one, and that each has exactly one end.

use super::{Input, Member, Oracle, Place, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event};
use serde_json::Value;
use std::collections::BTreeMap;

/// A unit is late so long after its time at the latest, while the network runs.
const LATE_MS: u64 = 5_000;
/// What became late while the network was at rest has this long when it goes on.
const GRACE_MS: u64 = 10_000;
/// A unit without a deadline is given up after this long.
const IDLE_MS: u64 = 30 * 24 * 3_600_000;
/// An ended unit is known for at least this long, and where no history is kept.
const KEPT_MS: u64 = 7 * 24 * 3_600_000;
const KEPT_BRIEFLY_MS: u64 = 10 * 60_000;
/// Work is handed on at most so often.
const DEPTH_MAX: u32 = 8;

const ENDS: [&str; 4] = ["completed", "failed", "canceled", "rejected"];

/// One unit as it must be.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names of the unit's own JSON")]
pub struct Unit {
    pub id: String,
    /// What its requester calls it.
    pub alias: Option<String>,
    pub requester: Who,
    pub executor: Option<Who>,
    /// Where it was opened, if not between two.
    pub channel: Option<usize>,
    pub state: String,
    /// The event that opened it.
    pub request: String,
    pub(crate) request_seq: u64,
    /// The resource that is called, if it is a call.
    pub(crate) call: Option<String>,
    /// The executor's last question, until it is answered.
    pub asked: Option<String>,
    /// The requester's last answer.
    pub answered: Option<String>,
    parent: Option<usize>,
    depth: u32,
    pub(crate) wait_ms: u64,
    /// The executor was heard of last, or answered, at this steady time or later, and or earlier.
    pub(crate) heard: (u64, u64),
    /// Chunks of each artifact, and whether it is finished.
    artifacts: BTreeMap<String, (u64, bool)>,
    /// Its events, in order.
    pub(crate) log: Vec<u64>,
    /// It ended at this steady time or later.
    pub(crate) ended: Option<u64>,
    /// What the network said when it ended it, until the executor has heard it too.
    owed: Option<String>,
    /// The executor has to hear it: it took part then.
    owed_for_sure: bool,
}

/// A unit as somebody is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the unit's own JSON")]
pub struct Shown {
    pub state: String,
    pub requester: String,
    pub executor: Option<String>,
    /// Chunks of all artifacts.
    pub chunks: u64,
    /// Positions of its events.
    pub log: Vec<u64>,
}

/// What an event does to a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    Nothing,
    Open {
        parent: Option<usize>,
    },
    /// The executor says where it is; perhaps by taking it.
    Move {
        unit: usize,
        to: String,
    },
    Artifact {
        unit: usize,
        id: String,
        append: bool,
        last: bool,
    },
    Answer {
        unit: usize,
    },
    Cancel {
        unit: usize,
    },
    /// A message inside; the executor's begins the deadline anew.
    Note {
        unit: usize,
    },
}

/// What somebody is to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Requester,
    Executor,
    /// It sits where the unit was opened.
    Candidate,
}

fn waits(state: &str) -> bool {
    state == "input_required" || state == "auth_required"
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

impl Oracle {
    /// All units, newest first, with their numbers.
    pub fn units(&self) -> impl Iterator<Item = (usize, &Unit)> {
        self.units.iter().enumerate().rev()
    }

    /// A unit counted from the newest.
    pub fn unit_from_newest(&self, nth: usize) -> Option<&Unit> {
        self.units.iter().rev().nth(nth)
    }

    /// The address of a member, gone or not.
    pub fn address(&self, who: Who) -> Option<&str> {
        self.members.get(who).map(|m| m.address.as_str())
    }

    /// The name of a channel, deleted or not.
    pub fn channel_name(&self, channel: usize) -> Option<&str> {
        self.channels.get(channel).map(|c| c.name.as_str())
    }

    fn unit_named(&self, name: &str, by: Who) -> Option<usize> {
        let fits = |u: &Unit| u.id == name || u.requester == by && u.alias.as_deref() == Some(name);
        self.units.iter().rposition(fits)
    }

    fn part(&self, unit: &Unit, who: Who) -> Option<Part> {
        if unit.requester == who {
            return Some(Part::Requester);
        }
        if unit.executor == Some(who) {
            return Some(Part::Executor);
        }
        let sits = unit.channel.and_then(|c| self.channels.get(c)).is_some_and(|c| c.seats.contains(&who));
        (sits && self.members.get(who).is_some_and(Member::present)).then_some(Part::Candidate)
    }

    /// Participants only: the two sides, and who might take it while it can be taken.
    fn sees(&self, unit: &Unit, who: Who) -> bool {
        match self.part(unit, who) {
            Some(Part::Requester | Part::Executor) => true,
            Some(Part::Candidate) => unit.ended.is_none() && unit.executor.is_none(),
            None => false,
        }
    }

    fn other_side(&self, unit: &Unit, who: Who) -> Option<Who> {
        if unit.requester == who { unit.executor } else { Some(unit.requester) }
    }

    /// Where an event goes and what it does to work; or why it is refused.
    pub(crate) fn aim(&self, input: &Input, source: Who) -> Result<(Place, Meaning), ErrorCode> {
        let place = self.place(&input.target)?;
        if input.kind.starts_with("work.") {
            return self.work_act(input, source, place);
        }
        if let Some(wish) = input.metadata.get("work") {
            return Ok((place, self.work_message(input, wish, source, place)?));
        }
        let answered = input.metadata.get("in_reply_to").and_then(Value::as_str);
        let meaning = answered.and_then(|id| self.reply(input, id, source, place)).unwrap_or(Meaning::Nothing);
        Ok((place, meaning))
    }

    fn work_act(&self, input: &Input, source: Who, place: Place) -> Result<(Place, Meaning), ErrorCode> {
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        let no =
            text(&payload, "work").and_then(|name| self.unit_named(name, source)).ok_or(ErrorCode::UnknownTarget)?;
        let unit = self.units.get(no).ok_or(ErrorCode::UnknownTarget)?;
        let part = self.part(unit, source).ok_or(ErrorCode::UnknownTarget)?;
        if unit.ended.is_some() {
            return Err(ErrorCode::NoPendingRequest);
        }
        let executes = part == Part::Executor || part == Part::Candidate && unit.executor.is_none();
        let refusal = if part == Part::Candidate { ErrorCode::AlreadyExists } else { ErrorCode::Forbidden };
        let flag = |key: &str| payload.get(key).and_then(Value::as_bool);
        let meaning = match input.kind.as_str() {
            "work.update" if executes => {
                let to = text(&payload, "state").unwrap_or_default();
                if to == "submitted" {
                    return Err(ErrorCode::InvalidEvent);
                }
                Meaning::Move { unit: no, to: to.to_owned() }
            }
            "work.artifact" if executes => {
                let id = payload.get("artifact").and_then(|a| text(a, "id")).unwrap_or_default().to_owned();
                let (append, last) = (flag("append").unwrap_or(false), flag("last").unwrap_or(true));
                if append && unit.artifacts.get(&id).is_none_or(|(_, finished)| *finished) {
                    return Err(ErrorCode::InvalidArgument);
                }
                Meaning::Artifact { unit: no, id, append, last }
            }
            "work.answer" if part == Part::Requester && waits(&unit.state) => Meaning::Answer { unit: no },
            "work.answer" if part == Part::Requester => return Err(ErrorCode::InvalidEvent),
            "work.cancel" if part == Part::Requester => Meaning::Cancel { unit: no },
            _ => return Err(refusal),
        };
        // To the other side, by name or by way of core.
        let other = self.other_side(unit, source);
        match (place, other) {
            (Place::Nowhere, _) if input.target == "core" => Ok((other.map_or(Place::Nowhere, Place::Inbox), meaning)),
            (Place::Inbox(to), Some(other)) if to == other => Ok((place, meaning)),
            _ => Err(ErrorCode::InvalidEvent),
        }
    }

    /// A message that opens a unit, or is said inside one.
    fn work_message(&self, input: &Input, wish: &Value, source: Who, place: Place) -> Result<Meaning, ErrorCode> {
        if let Some(no) = text(wish, "id").and_then(|name| self.unit_named(name, source)) {
            let unit = self.units.get(no).ok_or(ErrorCode::UnknownTarget)?;
            let part = self.part(unit, source).ok_or(ErrorCode::UnknownTarget)?;
            if unit.ended.is_some() {
                return Err(ErrorCode::NoPendingRequest);
            }
            if part == Part::Candidate && unit.executor.is_some() {
                return Err(ErrorCode::AlreadyExists);
            }
            if !self.contains(unit, source, place) {
                return Err(ErrorCode::InvalidEvent);
            }
            return Ok(match (part, said_state(input)) {
                (Part::Requester, _) if waits(&unit.state) => Meaning::Answer { unit: no },
                (Part::Executor, Some(to)) => Meaning::Move { unit: no, to },
                _ => Meaning::Note { unit: no },
            });
        }
        let skill = text(wish, "skill");
        match place {
            Place::Inbox(to) if to != source => {}
            Place::Channel(_) => {}
            Place::Nowhere if input.target == "core" && skill.is_some() => {
                if !self.able(skill.unwrap_or_default(), source).any(|_| true) {
                    return Err(ErrorCode::UnknownTarget);
                }
            }
            Place::Nowhere | Place::Inbox(_) | Place::Group(_) | Place::Everybody => {
                return Err(ErrorCode::InvalidEvent);
            }
        }
        let Some(name) = text(wish, "parent") else { return Ok(Meaning::Open { parent: None }) };
        let parent =
            self.unit_named(name, source).filter(|no| self.units.get(*no).is_some_and(|u| u.executor == Some(source)));
        let unit = parent.and_then(|no| self.units.get(no)).ok_or(ErrorCode::UnknownTarget)?;
        if unit.ended.is_some() {
            return Err(ErrorCode::NoPendingRequest);
        }
        if unit.depth >= DEPTH_MAX {
            return Err(ErrorCode::InvalidArgument);
        }
        Ok(Meaning::Open { parent })
    }

    /// An ordinary message in reply: agents that know nothing of work do it this way. What does not fit does nothing.
    fn reply(&self, input: &Input, answered: &str, source: Who, place: Place) -> Option<Meaning> {
        let about = |u: &Unit| {
            let names = [Some(&u.request), u.asked.as_ref(), u.answered.as_ref()];
            u.ended.is_none() && names.into_iter().flatten().any(|id| id == answered)
        };
        let no = self.units.iter().rposition(about)?;
        let unit = self.units.get(no)?;
        let part = self.part(unit, source)?;
        if !self.contains(unit, source, place) {
            return None;
        }
        let to_question = unit.asked.as_deref() == Some(answered);
        match part {
            Part::Requester => (waits(&unit.state) && to_question).then_some(Meaning::Answer { unit: no }),
            Part::Candidate if unit.executor.is_some() => None,
            Part::Executor if to_question => None,
            Part::Executor | Part::Candidate => {
                let to = said_state(input).unwrap_or_else(|| "completed".to_owned());
                Some(Meaning::Move { unit: no, to })
            }
        }
    }

    /// A unit lives where it was opened: between its two sides, or in its channel.
    fn contains(&self, unit: &Unit, source: Who, place: Place) -> bool {
        match place {
            Place::Inbox(to) => self.other_side(unit, source) == Some(to),
            Place::Channel(c) => unit.channel == Some(c),
            Place::Nowhere | Place::Group(_) | Place::Everybody => false,
        }
    }

    /// Who can do what is asked for by skill: members that take part and may act.
    fn able(&self, skill: &str, source: Who) -> impl Iterator<Item = Who> {
        let able = move |who: &Who| {
            self.members.get(*who).is_some_and(|m| {
                *who != source && m.present() && !m.is_observer() && m.skills.iter().any(|s| s == skill)
            })
        };
        (0..self.members.len()).filter(able)
    }

    fn skill_of<'i>(&self, input: &'i Input) -> Option<&'i str> {
        let wish = input.metadata.get("work").filter(|_| input.target == "core")?;
        text(wish, "skill")
    }

    /// Work asked for by skill may go to somebody whose queue is full.
    pub(crate) fn nobody_has_room(&self, input: &Input, source: Who) -> Option<ErrorCode> {
        let skill = self.skill_of(input)?;
        let full = |who: Who| self.may_be_full(who, &input.payload);
        let full = self.rules.at_least_once && self.able(skill, source).any(full);
        full.then_some(ErrorCode::RecipientQueueFull)
    }

    /// Whom the network chose for work that was asked for by skill.
    pub(crate) fn chosen(&self, input: &Input, event: &Event) -> Result<Option<Place>, Wrong> {
        let Some(skill) = self.skill_of(input).filter(|_| !input.kind.starts_with("work.")) else { return Ok(None) };
        let Some(source) = self.who(&input.source) else { return Ok(None) };
        match self.able(skill, source).find(|who| self.address(*who) == Some(event.target())) {
            Some(who) => Ok(Some(Place::Inbox(who))),
            None => wrong("work", format!("{} was given to {}, who cannot", event.json(), event.target())),
        }
    }

    /// What a committed event did to work.
    pub(crate) fn work_happens(
        &mut self,
        input: &Input,
        meaning: Meaning,
        place: Place,
        event: &Event,
        (born, now): (u64, u64),
    ) -> Result<(), Wrong> {
        if let (Place::Inbox(to), true) = (place, input.target == "core")
            && self.address(to) != Some(event.target())
        {
            return wrong("work", format!("{} is the mail of {:?}", event.json(), self.address(to)));
        }
        let source = self.who(&input.source);
        let (no, to, by_executor) = match &meaning {
            Meaning::Nothing => return Ok(()),
            Meaning::Open { parent } => return self.opened(input, *parent, place, event, (born, now)),
            Meaning::Move { unit, to } => (*unit, Some(to.as_str()), true),
            Meaning::Artifact { unit, .. } => (*unit, None, true),
            Meaning::Answer { unit } => (*unit, Some("working"), false),
            Meaning::Cancel { unit } => (*unit, Some("canceled"), false),
            Meaning::Note { unit } => (*unit, None, false),
        };
        let Some(unit) = self.units.get_mut(no) else { return Ok(()) };
        let is_executor = unit.executor.is_some() && unit.executor == source;
        unit.log.push(event.seq);
        if by_executor {
            unit.executor = source;
        }
        if by_executor || is_executor || matches!(meaning, Meaning::Answer { .. }) {
            unit.heard = (born, now);
        }
        match &meaning {
            Meaning::Move { to, .. } if waits(to) => unit.asked = Some(event.id().to_owned()),
            Meaning::Answer { .. } => {
                unit.asked = None;
                unit.answered = Some(event.id().to_owned());
            }
            Meaning::Artifact { id, append, last, .. } => {
                let (chunks, _) = unit.artifacts.get(id).copied().filter(|_| *append).unwrap_or_default();
                unit.artifacts.insert(id.clone(), (chunks + 1, *last));
                if unit.state == "submitted" {
                    unit.state = "working".to_owned();
                }
            }
            Meaning::Nothing
            | Meaning::Open { .. }
            | Meaning::Move { .. }
            | Meaning::Cancel { .. }
            | Meaning::Note { .. } => {}
        }
        if let Some(to) = to {
            unit.state = to.to_owned();
            unit.ended = ENDS.contains(&to).then_some(born);
        }
        Ok(())
    }

    pub(crate) fn opened(
        &mut self,
        input: &Input,
        parent: Option<usize>,
        place: Place,
        event: &Event,
        heard: (u64, u64),
    ) -> Result<(), Wrong> {
        let metadata: Value = serde_json::from_str(event.metadata()).unwrap_or_default();
        let id = metadata.get("work").and_then(|w| text(w, "id")).unwrap_or_default();
        if !id.starts_with("work_") || self.units.iter().any(|u| u.id == id) {
            return wrong("work", format!("{} opens no unit of its own", event.json()));
        }
        let wish = input.metadata.get("work");
        let depth = parent.and_then(|no| self.units.get(no)).map_or(0, |u| u.depth + 1);
        self.units.push(Unit {
            id: id.to_owned(),
            alias: wish.and_then(|w| text(w, "id")).map(str::to_owned),
            requester: self.who(&input.source).unwrap_or(usize::MAX),
            executor: if let Place::Inbox(to) = place { Some(to) } else { None },
            channel: if let Place::Channel(c) = place { Some(c) } else { None },
            state: "submitted".to_owned(),
            request: event.id().to_owned(),
            request_seq: event.seq,
            call: None,
            asked: None,
            answered: None,
            parent,
            depth,
            wait_ms: wish.and_then(|w| w.get("deadline_ms")).and_then(Value::as_u64).unwrap_or(IDLE_MS),
            heard,
            artifacts: BTreeMap::new(),
            log: vec![event.seq],
            ended: None,
            owed: None,
            owed_for_sure: false,
        });
        Ok(())
    }

    /// A `work.update` of the network: the end of a unit, or the same said to its executor.
    pub(crate) fn ended_by_network(&mut self, event: &Event, now: u64) -> Result<Place, Wrong> {
        let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
        let id = text(&payload, "work").unwrap_or_default();
        let Some(no) = self.units.iter().position(|u| u.id == id) else {
            return wrong("work", format!("{} ends what never was", event.json()));
        };
        let Some(unit) = self.units.get(no) else { return Ok(Place::Nowhere) };
        let executor = unit.executor.filter(|e| self.address(*e) == Some(event.target()));
        if let (Some(executor), Some(owed)) = (executor, &unit.owed)
            && owed == event.payload()
        {
            self.units.iter_mut().filter(|u| u.id == id).for_each(|u| u.owed = None);
            return Ok(Place::Inbox(executor));
        }
        if unit.ended.is_some() {
            return wrong("work", format!("{} ends what has ended as {}", event.json(), unit.state));
        }
        let state = text(&payload, "state").unwrap_or_default();
        let code = payload.get("error").and_then(|e| text(e, "code")).unwrap_or_default();
        if let Some(why) = self.why_not_end(unit, state, code, now)? {
            return wrong("work", format!("{} though {why}", event.json()));
        }
        let (requester, born) = (unit.requester, self.looked.min(now));
        // Nothing is queued for who has left, also if it is back by the time somebody looks.
        let there = unit.executor.and_then(|e| self.members.get(e)).is_some_and(Member::present);
        if let Some(unit) = self.units.get_mut(no) {
            unit.log.push(event.seq);
            unit.ended = Some(born);
            unit.state = state.to_owned();
            unit.owed = Some(event.payload().to_owned());
            unit.owed_for_sure = there;
        }
        Ok(Place::Inbox(requester))
    }

    /// What speaks against the network ending the unit so.
    fn why_not_end(&self, unit: &Unit, state: &str, code: &str, now: u64) -> Result<Option<String>, Wrong> {
        let removed = |who: Option<Who>| who.and_then(|w| self.members.get(w)).is_some_and(|m| m.removed);
        let silent = now.saturating_sub(unit.heard.0);
        let parent = unit.parent.and_then(|no| self.units.get(no));
        let fine = match (state, code) {
            ("failed", "timeout") if silent < unit.wait_ms => {
                return Ok(Some(format!("its executor was silent for {silent} ms of {}", unit.wait_ms)));
            }
            ("failed", "timeout") => true,
            ("failed", "owner_unavailable") => removed(unit.executor),
            ("canceled", "requester_left") => removed(Some(unit.requester)),
            ("canceled", "parent_ended") => parent.is_some_and(|u| u.ended.is_some() && u.state != "completed"),
            ("failed", reason) => match unit.executor.filter(|_| unit.state == "submitted") {
                // Its request died.
                Some(executor) => {
                    self.may_die(unit.request_seq, executor, reason, now)?;
                    true
                }
                None => false,
            },
            _ => false,
        };
        Ok((!fine).then(|| format!("nothing speaks for {state} by {code}")))
    }

    /// What belongs together is committed together.
    pub(crate) fn work_is_whole(&self) -> Result<(), Wrong> {
        for unit in &self.units {
            let gone = |who: Who| self.members.get(who).is_some_and(|m| m.removed);
            let present = |who: Who| self.members.get(who).is_some_and(Member::present);
            let owed = unit.owed.is_some() && unit.owed_for_sure && unit.executor.is_some_and(present);
            let parent = unit.parent.and_then(|no| self.units.get(no));
            let orphan = unit.ended.is_none() && parent.is_some_and(|p| p.ended.is_some() && p.state != "completed");
            let absent = |who: Who| gone(who) || unit.call.is_some() && self.members.get(who).is_some_and(|m| m.left);
            let nothing = unit.call.as_deref().is_some_and(|address| self.found(address).is_none());
            let sides = gone(unit.requester) || unit.executor.is_some_and(absent) || nothing;
            let lone = unit.ended.is_none() && sides;
            let what = match (owed, orphan, lone) {
                (true, ..) => "ended and its executor was not told",
                (_, true, _) => "is open though what it was part of has ended",
                (.., true) => "is open though one of its sides is gone",
                _ => continue,
            };
            return wrong("work", format!("{} {what}", unit.id));
        }
        Ok(())
    }

    /// Whether a unit is open whose time is over, though the network had time to see it.
    pub fn no_work_overdue(&self, now: u64) -> Result<(), Wrong> {
        let settled = now.saturating_sub(self.running_since) > LATE_MS
            && now.saturating_sub(self.rested_until) > GRACE_MS + LATE_MS;
        for unit in self.units.iter().filter(|u| u.ended.is_none()) {
            let silent = now.saturating_sub(unit.heard.1).saturating_sub(self.late_ms);
            if settled && self.rules.status == "active" && silent > unit.wait_ms.saturating_add(LATE_MS) {
                return wrong("work", format!("{} is open after {silent} ms of {}", unit.id, unit.wait_ms));
            }
            let request = unit.executor.and_then(|e| self.dead.get(&(unit.request_seq, e)));
            if unit.state == "submitted" && request.is_some_and(|reason| reason != "archived") {
                return wrong("work", format!("{} is open though its request is dead", unit.id));
            }
        }
        Ok(())
    }

    /// An ended unit may be forgotten.
    fn may_be_forgotten(&self, unit: &Unit, now: u64) -> bool {
        let kept = if self.rules.persistence { KEPT_MS } else { KEPT_BRIEFLY_MS };
        unit.ended.is_some_and(|ended| now.saturating_sub(ended) >= kept)
    }

    /// A unit as a member, or the operator, is shown it: as it is, with its whole log, or not at all.
    pub fn unit_shown(&self, no: usize, to: Option<&str>, shown: &Option<Shown>, now: u64) -> Result<(), Wrong> {
        let Some(unit) = self.units.get(no) else { return Ok(()) };
        let sees = to.is_none_or(|address| self.who(address).is_some_and(|who| self.sees(unit, who)));
        let whom = to.unwrap_or("the operator");
        let Some(shown) = shown else {
            let fine = !sees || self.may_be_forgotten(unit, now);
            return if fine { Ok(()) } else { wrong("work", format!("{whom} is not shown {}", unit.id)) };
        };
        if !sees {
            return wrong("borders", format!("{whom} is shown {}, in which it has no part", unit.id));
        }
        let address = |who: Who| self.address(who).unwrap_or_default().to_owned();
        let expected = Shown {
            state: unit.state.clone(),
            requester: address(unit.requester),
            executor: unit.executor.map(address),
            chunks: unit.artifacts.values().map(|(chunks, _)| chunks).sum(),
            log: unit.log.clone(),
        };
        if *shown != expected {
            return wrong("work", format!("{whom} is shown {} as {shown:?}, which is {expected:?}", unit.id));
        }
        Ok(())
    }

    /// The units a member is listed: exactly those it sees.
    pub fn units_listed(&self, address: &str, ids: &[&str], now: u64) -> Result<(), Wrong> {
        let Some(who) = self.who(address) else { return Ok(()) };
        for unit in &self.units {
            let (listed, sees) = (ids.contains(&unit.id.as_str()), self.sees(unit, who));
            if listed && !sees {
                return wrong("borders", format!("{address} is listed {}, in which it has no part", unit.id));
            }
            if sees && !listed && !self.may_be_forgotten(unit, now) {
                return wrong("work", format!("{address} is not listed {}", unit.id));
            }
        }
        match ids.iter().find(|id| !self.units.iter().any(|u| u.id == **id)) {
            Some(id) => wrong("work", format!("{address} is listed {id}, which nobody opened")),
            None => Ok(()),
        }
    }
}

/// What a message says of the work it is about.
fn said_state(input: &Input) -> Option<String> {
    let said = input.metadata.get("work_state").and_then(Value::as_str).map(str::to_owned);
    let failed = input.metadata.get("is_error").and_then(Value::as_bool) == Some(true);
    said.or_else(|| failed.then(|| "failed".to_owned()))
}
