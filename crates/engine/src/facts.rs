//! Small durable facts of a face: settings of its webhooks, cards of its peers, cursors of its mirrors.
//!
//! Invariant: bounded per face in number and in bytes. A fact is one JSON value on one line; what it means is the face's business.
//! Not here: anything that was said in the network. Redaction does not look for words here, so a face keeps none.

use crate::input::Effects;
use crate::record::Change;
use crate::state::State;
use rialto_model::error::Scope;
use rialto_model::{ErrorCode, FaceName, Fault, limits};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The facts of one face, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    entries: BTreeMap<Box<str>, Box<str>>,
    /// Bytes of all keys and values.
    bytes: usize,
}

impl Facts {
    pub(crate) fn set(&mut self, key: &str, value: Option<&str>) {
        let before = match value {
            Some(value) => self.entries.insert(key.into(), value.into()),
            None => self.entries.remove(key),
        };
        self.bytes += value.map_or(0, |value| key.len() + value.len());
        self.bytes -= before.map_or(0, |before| key.len() + before.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(&self.entries)
    }
}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Facts, D::Error> {
        let entries = BTreeMap::<Box<str>, Box<str>>::deserialize(d)?;
        let bytes = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        Ok(Facts { entries, bytes })
    }
}

/// A change of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// Whose.
    pub face: FaceName,
    /// Which.
    pub key: Box<str>,
    /// What it is from here on, one JSON value; none removes it.
    pub value: Option<Box<str>>,
    /// What it must be now for the change to happen: look and change are one step.
    pub only_if: FactNow,
}

/// What a fact must be for a change of it to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FactNow {
    /// Anything, or nothing.
    #[default]
    Anything,
    /// It must not be there.
    Absent,
    /// It must say exactly this.
    Is(Box<str>),
}

/// Facts in the order of their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactPage {
    /// Keys and values.
    pub facts: Vec<(Box<str>, Box<str>)>,
    /// There are more behind the last one.
    pub has_more: bool,
}

impl State {
    /// What a fact says.
    pub fn fact(&self, face: &FaceName, key: &str) -> Option<&str> {
        self.book.facts.get(face)?.entries.get(key).map(AsRef::as_ref)
    }

    /// Facts whose keys begin with a prefix, after a key: at most so many, and about as many bytes as a list may have.
    pub fn facts(&self, face: &FaceName, prefix: &str, after: Option<&str>, limit: usize) -> FactPage {
        let Some(all) = self.book.facts.get(face) else { return FactPage::default() };
        let start = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let mut page = FactPage::default();
        let mut bytes = 0;
        for (key, value) in all.entries.range::<str, _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            if page.facts.len() >= limit || bytes >= limits::LIST_BYTES_MAX {
                page.has_more = true;
                break;
            }
            bytes += key.len() + value.len();
            page.facts.push((key.clone(), value.clone()));
        }
        page
    }
}

/// Decides a change; false if the fact is not what it must be, and nothing changes.
pub(crate) fn decide(state: &State, change: &FactChange, fx: &mut Effects) -> Result<bool, Fault> {
    let FactChange { face, key, value, only_if } = change;
    if key.is_empty() || key.len() > limits::FACT_KEY_BYTES_MAX {
        let text = format!("the key of a fact is 1 to {} bytes", limits::FACT_KEY_BYTES_MAX);
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field("key"));
    }
    if let Some(value) = value {
        check_value(value)?;
    }
    let now = state.fact(face, key);
    let holds = match only_if {
        FactNow::Anything => true,
        FactNow::Absent => now.is_none(),
        FactNow::Is(expected) => now == Some(expected),
    };
    if !holds || now == value.as_deref() {
        return Ok(holds);
    }
    if let Some(value) = value {
        check_room(state, face, key, value)?;
    }
    fx.change(Change::Fact { face: face.clone(), key: key.clone(), value: value.clone() });
    Ok(true)
}

fn check_value(value: &str) -> Result<(), Fault> {
    if value.len() > limits::FACT_BYTES_MAX {
        let text = format!("a fact is at most {} bytes, this one has {}", limits::FACT_BYTES_MAX, value.len());
        return Err(Fault::new(ErrorCode::TooLarge, text).field("value"));
    }
    serde_json::from_str::<serde::de::IgnoredAny>(value)
        .map(drop)
        .map_err(|e| Fault::new(ErrorCode::InvalidArgument, format!("a fact is one JSON value: {e}")).field("value"))
}

fn check_room(state: &State, face: &FaceName, key: &str, value: &str) -> Result<(), Fault> {
    let Some(all) = state.book.facts.get(face) else { return Ok(()) };
    let (count, bytes) = match all.entries.get(key) {
        Some(before) => (all.entries.len(), all.bytes - before.len() + value.len()),
        None => (all.entries.len() + 1, all.bytes + key.len() + value.len()),
    };
    let full = |limit: usize, what: &str| {
        let text = format!("{face} keeps {limit} {what} of facts in this network, which is the limit: remove some");
        Err(Fault::full(Scope::Network, limit, text))
    };
    if count > limits::FACTS_PER_FACE_MAX {
        return full(limits::FACTS_PER_FACE_MAX, "entries");
    }
    if bytes > limits::FACTS_PER_FACE_BYTES_MAX {
        return full(limits::FACTS_PER_FACE_BYTES_MAX, "bytes");
    }
    Ok(())
}
