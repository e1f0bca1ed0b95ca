//! An event as external mods see it and may change it.

use rialto_model::payload::EventChanges;
use rialto_model::{EventType, Millis, Visibility, json};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The members of an event a transform may change.
#[derive(Debug, Clone)]
pub(crate) struct ChangeableMembers<'s> {
    pub(crate) kind: Cow<'s, str>,
    pub(crate) target: Cow<'s, str>,
    pub(crate) payload: Cow<'s, str>,
    pub(crate) metadata: Cow<'s, str>,
    /// None where the target decides.
    pub(crate) visibility: Option<Visibility>,
}

/// The members it may not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fixed<'s> {
    /// None while the network has not named it yet.
    pub(crate) id: Option<&'s str>,
    pub(crate) source: &'s str,
    pub(crate) network: &'s str,
    pub(crate) stamp: Millis,
    /// The sender's own time, raw.
    pub(crate) sent_at: Option<&'s str>,
}

impl ChangeableMembers<'_> {
    fn push(&self, id: Option<&str>, out: &mut String) {
        out.push('{');
        if let Some(id) = id {
            push_text(out, "id", id);
        }
        push_text(out, "type", &self.kind);
        push_text(out, "target", &self.target);
        if let Some(visibility) = self.visibility {
            push_text(out, "visibility", visibility.as_str());
        }
        push_raw(out, "payload", &self.payload);
        push_raw(out, "metadata", &self.metadata);
    }

    /// The event as a mod is shown it.
    pub(crate) fn shown(&self, fixed: Fixed<'_>) -> String {
        let mut out = String::with_capacity(self.payload.len() + self.metadata.len() + 256);
        self.push(fixed.id, &mut out);
        push_text(&mut out, "source", fixed.source);
        push_text(&mut out, "network", fixed.network);
        push_raw(&mut out, "timestamp", &fixed.stamp.to_string());
        out.push('}');
        out
    }

    /// The event as if it had been sent like this.
    pub(crate) fn sent(&self, fixed: Fixed<'_>) -> String {
        let mut out = String::with_capacity(self.payload.len() + self.metadata.len() + 256);
        self.push(fixed.id, &mut out);
        if let Some(at) = fixed.sent_at {
            push_raw(&mut out, "timestamp", at);
        }
        out.push('}');
        out
    }

    /// The event after a transform's changes, as if it had been sent so; what is wrong with them otherwise.
    pub(crate) fn changed(&self, changes: &EventChanges, fixed: Fixed<'_>) -> Result<String, String> {
        let visibility = match changes.visibility.as_deref() {
            // Where it goes now decides, unless the transform does.
            None if changes.target.as_deref().is_some_and(|to| to != self.target) => None,
            None => self.visibility,
            Some(said) => Some(Visibility::from_wire(said).ok_or("no such visibility")?),
        };
        let kind = changes.kind.as_deref().unwrap_or(&self.kind);
        if kind != self.kind && [kind, self.kind.as_ref()].into_iter().any(|kind| EventType::of(kind).is_reserved()) {
            return Err(format!("{} cannot become {kind}", self.kind));
        }
        let raw = |said: &'_ Option<Box<RawValue>>, own: &str| said.as_ref().map_or(own, |raw| raw.get()).to_owned();
        let shape = ChangeableMembers {
            kind: kind.into(),
            target: changes.target.as_deref().unwrap_or(&self.target).into(),
            payload: raw(&changes.payload, &self.payload).into(),
            metadata: raw(&changes.metadata, &self.metadata).into(),
            visibility,
        };
        Ok(shape.sent(fixed))
    }
}

fn push_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    json::push_string(out, name);
    out.push(':');
}

fn push_text(out: &mut String, name: &str, text: &str) {
    push_name(out, name);
    json::push_string(out, text);
}

fn push_raw(out: &mut String, name: &str, raw: &str) {
    push_name(out, name);
    out.push_str(raw);
}
