//! The bodies of records in the log without what they copied from an event: the same length, and still readable.

use super::{Copies, MemberTexts, ResourceTexts, WorkTexts};
use crate::record::{Change, KIND_CHANGE, KIND_EVENT, More, blank, more_of};
use crate::resources::Resource;
use crate::work::{Artifact, Unit, WorkAct};
use rialto_model::member::Profile;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;

/// A step into JSON: a member of an object, or a place in a list.
#[derive(Debug, Clone, Copy)]
enum JsonStep {
    Member(&'static str),
    Place(usize),
}

use JsonStep::{Member, Place};

/// Values of a body that are to go.
type Paths = Vec<Vec<JsonStep>>;

impl Copies {
    /// The body of another record with blanks in place of what it copied, as long as before; nothing if it holds no copy.
    pub fn blank(&self, kind: u8, body: &[u8]) -> Option<Vec<u8>> {
        match kind {
            KIND_CHANGE => {
                let change: Change = serde_json::from_slice(body).ok()?;
                without(body, 0..body.len(), &self.paths(&change))
            }
            KIND_EVENT => {
                let texts = self.work.as_ref()?;
                let at = more_of(body)?;
                let more: More = serde_json::from_slice(body.get(at.clone())?).ok()?;
                without(body, at, &texts.paths_in_mark(&more))
            }
            _ => None,
        }
    }

    /// The body of the record of an owed emit without its text, as long as before; nothing if it is another record, or the emit has
    /// nothing to do with the event.
    pub fn blank_emit(&self, kind: u8, body: &[u8]) -> Option<Vec<u8>> {
        if kind != KIND_CHANGE || (self.owed.is_none() && !self.caused) {
            return None;
        }
        let Ok(Change::EmitOwed { number, record }) = serde_json::from_slice(body) else { return None };
        let became = self.owed.is_some_and(|mark| mark.number == number);
        let follows = self.caused && record.cause == Some(self.seq);
        if !(became || follows) || record.text.trim().is_empty() {
            return None;
        }
        without(body, 0..body.len(), &[vec![Member("record"), Member("text")]])
    }

    /// Where a change repeats what the event said.
    fn paths(&self, change: &Change) -> Paths {
        match change {
            Change::ChannelCreated { channel, title, resume_from, .. } => {
                let resume_from = resume_from.as_deref();
                self.paths_of_channel(*channel, Some(title), resume_from)
            }
            Change::ChannelSet { channel, title, .. } => self.paths_of_channel(*channel, title.as_deref(), None),
            Change::Joined { member, record } => {
                let texts = self.member.as_ref().filter(|texts| texts.member == *member);
                texts
                    .map(|texts| texts.paths(&record.profile, &[Member("record"), Member("profile")]))
                    .unwrap_or_default()
            }
            Change::Profile { member, profile } => {
                let texts = self.member.as_ref().filter(|texts| texts.member == *member);
                texts.map(|texts| texts.paths(profile, &[Member("profile")])).unwrap_or_default()
            }
            Change::ResourceSet { record, .. } => {
                let texts = self.resource.as_ref().filter(|texts| *texts.address == *record.address);
                texts.map(|texts| texts.paths(record)).unwrap_or_default()
            }
            Change::Invited { invitation, record } => {
                let same = |texts: &&super::InvitationTexts| {
                    *texts.id == **invitation && record.message.as_ref() == Some(&texts.message)
                };
                let path = self.invitation.as_ref().filter(same).map(|_| vec![Member("record"), Member("message")]);
                path.into_iter().collect()
            }
            Change::UnitSet { unit, record } => {
                let texts = self.work.as_ref().filter(|texts| texts.unit == *unit);
                texts.map(|texts| texts.paths_in_unit(record)).unwrap_or_default()
            }
            // These hold names, numbers and times, what only the operator says, and emits, which `blank_emit` looks at.
            Change::Created { .. }
            | Change::Settings { .. }
            | Change::Token { .. }
            | Change::TokenRevoked { .. }
            | Change::TokenUsed { .. }
            | Change::SessionIssued { .. }
            | Change::SessionCapped { .. }
            | Change::SessionsUsed { .. }
            | Change::Released { .. }
            | Change::Audited { .. }
            | Change::SessionEnded { .. }
            | Change::Role { .. }
            | Change::Queueing { .. }
            | Change::Removed { .. }
            | Change::ChannelStatus { .. }
            | Change::ChannelMaster { .. }
            | Change::Seated { .. }
            | Change::Unseated { .. }
            | Change::Group { .. }
            | Change::GroupDeleted { .. }
            | Change::Mods { .. }
            | Change::ModApproved { .. }
            | Change::Dead { .. }
            | Change::DeadSettled { .. }
            | Change::Lapsed { .. }
            | Change::Clock { .. }
            | Change::Leapt { .. }
            | Change::Purged { .. }
            | Change::Redacted { .. }
            | Change::ResourceGone { .. }
            | Change::InviteUsed { .. }
            | Change::InvitesLapsed { .. }
            | Change::RoomOpened { .. }
            | Change::ThreadsFreed { .. }
            | Change::Muted { .. }
            | Change::Quiet { .. }
            | Change::Renamed { .. }
            | Change::WorkForgotten { .. }
            | Change::EmitOwed { .. }
            | Change::EmitSettled { .. }
            | Change::Fact { .. }
            | Change::ProfileRevised { .. } => Paths::new(),
        }
    }

    fn paths_of_channel(&self, channel: u32, title: Option<&str>, resume_from: Option<&str>) -> Paths {
        let Some(texts) = self.channel.as_ref().filter(|texts| texts.channel == channel) else { return Paths::new() };
        let same = |said: &Option<String>, here: Option<&str>| here.is_some() && said.as_deref() == here;
        let title = same(&texts.title, title).then(|| vec![Member("title")]);
        let resume_from = same(&texts.resume_from, resume_from).then(|| vec![Member("resume_from")]);
        title.into_iter().chain(resume_from).collect()
    }
}

/// The members whose value is what the event said, below a place in the body.
fn same_members<const N: usize>(below: &[JsonStep], same: [(&'static str, bool); N]) -> Paths {
    let path = |name| below.iter().copied().chain([Member(name)]).collect();
    same.into_iter().filter(|(_, same)| *same).map(|(name, _)| path(name)).collect()
}

/// Whether a text is there and is what the event said.
fn is_said(here: Option<&str>, said: &Option<String>) -> bool {
    here.is_some() && here == said.as_deref()
}

impl MemberTexts {
    fn paths(&self, profile: &Profile, below: &[JsonStep]) -> Paths {
        let said = &self.said;
        let list = !profile.capabilities.is_empty() && profile.capabilities == said.capabilities;
        same_members(
            below,
            [
                ("agent_type", is_said(profile.agent_type.as_deref(), &said.agent_type)),
                ("description", is_said(profile.description.as_deref(), &said.description)),
                ("capabilities", list),
                ("server_host", is_said(profile.server_host.as_deref(), &said.server_host)),
                ("working_dir", is_said(profile.working_dir.as_deref(), &said.working_dir)),
            ],
        )
    }
}

impl ResourceTexts {
    fn paths(&self, resource: &Resource) -> Paths {
        same_members(
            &[Member("record")],
            [
                ("description", is_said(Some(&resource.description), &self.description)),
                ("content_type", is_said(resource.content_type.as_deref(), &self.content_type)),
                ("schema", resource.schema.is_some() && resource.schema == self.schema),
                ("metadata", self.metadata.as_ref() == Some(&resource.metadata)),
            ],
        )
    }
}

impl WorkTexts {
    fn paths_in_unit(&self, unit: &Unit) -> Paths {
        let mut paths = same_members(&[Member("record")], [("error", is_said(unit.error.as_deref(), &self.error))]);
        for (n, artifact) in unit.artifacts.iter().enumerate() {
            paths.extend(self.paths_in_artifact(artifact, &[Member("record"), Member("artifacts"), Place(n)]));
        }
        paths
    }

    fn paths_in_mark(&self, more: &More) -> Paths {
        let Some(mark) = more.work.as_ref().filter(|mark| mark.unit == self.unit) else { return Paths::new() };
        let mut paths = same_members(&[Member("work")], [("error", is_said(mark.error.as_deref(), &self.error))]);
        if let WorkAct::Artifact(artifact) = &mark.act {
            paths.extend(self.paths_in_artifact(artifact, &[Member("work"), Member("act"), Member("artifact")]));
        }
        paths
    }

    fn paths_in_artifact(&self, artifact: &Artifact, below: &[JsonStep]) -> Paths {
        if self.artifact.as_ref() != Some(&artifact.id) {
            return Paths::new();
        }
        same_members(
            below,
            [
                ("name", is_said(artifact.name.as_deref(), &self.name)),
                ("content_type", is_said(artifact.content_type.as_deref(), &self.content_type)),
            ],
        )
    }
}

/// The body with blanks at these paths of the JSON that lies at `at` in it; nothing if there is none to be blanked.
fn without(body: &[u8], at: Range<usize>, paths: &[Vec<JsonStep>]) -> Option<Vec<u8>> {
    let json = std::str::from_utf8(body.get(at.clone())?).ok()?;
    let mut out = (!paths.is_empty()).then(|| body.to_vec())?;
    for path in paths {
        let value = find(json, path)?;
        let place = at.start + value.start..at.start + value.end;
        let empty: &[u8] = match json.as_bytes().get(value.start)? {
            b'{' => b"{}",
            b'[' => b"[]",
            b'"' => b"\"\"",
            // Numbers and words of JSON.
            _ => b"0",
        };
        blank(out.get_mut(place)?, empty)?;
    }
    Some(out)
}

/// Where in the text a value lies.
fn find(json: &str, path: &[JsonStep]) -> Option<Range<usize>> {
    let mut value: &RawValue = serde_json::from_str(json).ok()?;
    for step in path {
        value = match step {
            Member(name) => {
                serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()).ok()?.get(*name).copied()?
            }
            Place(n) => serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(*n).copied()?,
        };
    }
    // The value is a part of the text that was read.
    let start = (value.get().as_ptr() as usize).checked_sub(json.as_ptr() as usize)?;
    Some(start..start + value.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mods::external::EmitChain;
    use crate::mods::external::owed::{OwedEmit, OwedMark};
    use crate::redaction::{ChannelTexts, InvitationTexts};
    use proptest::prelude::*;

    fn copies() -> Copies {
        let text = || Some("a \"secret\"\n你好".to_owned());
        Copies {
            channel: Some(ChannelTexts { channel: 3, title: text(), resume_from: None }),
            invitation: Some(InvitationTexts { id: "inv_1".into(), message: "secret".into() }),
            work: Some(WorkTexts { unit: 1, error: text(), artifact: None, name: None, content_type: None }),
            ..Copies::default()
        }
    }

    #[test]
    fn only_what_the_event_said_of_the_same_thing_goes() {
        let set = |channel: u32, title: &str| Change::ChannelSet {
            channel,
            title: Some(title.to_owned()),
            title_manual: Some(true),
            starred: None,
            no_resume_from: false,
        };
        let blanked = |change: &Change| {
            let body = serde_json::to_vec(change).unwrap();
            let blanked = copies().blank(KIND_CHANGE, &body)?;
            assert_eq!(blanked.len(), body.len());
            assert_eq!(copies().blank(KIND_CHANGE, &blanked), None, "once is enough");
            Some(serde_json::from_slice::<Change>(&blanked).unwrap())
        };
        let said = "a \"secret\"\n你好";
        let Some(Change::ChannelSet { channel: 3, title: Some(title), title_manual: Some(true), .. }) =
            blanked(&set(3, said))
        else {
            panic!("it goes");
        };
        assert_eq!(title.trim(), "");
        assert_eq!(blanked(&set(4, said)), None, "another channel");
        assert_eq!(blanked(&set(3, "a newer one")), None);
    }

    #[test]
    fn the_record_of_an_emit_goes_with_its_cause_and_with_what_it_became() {
        let record = OwedEmit {
            name: "gate".into(),
            chain: EmitChain::default(),
            cause: Some(7),
            answers_to: None,
            after: 7,
            text: r#"{"type":"a.b","payload":{"quote":"secret"}}"#.to_owned(),
        };
        let change = Change::EmitOwed { number: 4, record: Box::new(record.clone()) };
        let body = serde_json::to_vec(&change).unwrap();
        let event = |seq, owed| Copies { seq, owed, ..Copies::default() };
        let became = |number| event(9, Some(OwedMark { number, after: 7 }));
        for copies in [event(7, None).with_emits(), became(4)] {
            let blanked = copies.blank_emit(KIND_CHANGE, &body).unwrap();
            assert_eq!(blanked.len(), body.len());
            assert_eq!(copies.blank_emit(KIND_CHANGE, &blanked), None, "once is enough");
            let Ok(Change::EmitOwed { number: 4, record: left }) = serde_json::from_slice(&blanked) else {
                panic!("it can still be read");
            };
            assert_eq!((left.text.trim(), left.cause), ("", record.cause));
        }
        for copies in [event(8, None).with_emits(), became(5), event(7, None)] {
            assert_eq!(copies.blank_emit(KIND_CHANGE, &body), None, "of another event, or nobody asked");
        }
        assert_eq!((became(4).emits_after(), event(9, None).with_emits().emits_after()), (Some(7), Some(8)));
    }

    proptest! {
        #[test]
        fn never_panics(kind in 0u8..5, body: Vec<u8>) {
            let _ = copies().blank(kind, &body);
            let _ = copies().with_emits().blank_emit(kind, &body);
        }

        #[test]
        fn any_text_is_found_and_goes(title in ".{1,40}", channel in 0u32..3) {
            let copies = Copies {
                channel: Some(ChannelTexts { channel, title: Some(title.clone()), resume_from: None }),
                ..Copies::default()
            };
            let change = Change::ChannelSet { channel, title: Some(title), title_manual: None, starred: None, no_resume_from: false };
            let body = serde_json::to_vec(&change).unwrap();
            let blanked = copies.blank(KIND_CHANGE, &body).unwrap();
            prop_assert_eq!(blanked.len(), body.len());
            prop_assert!(serde_json::from_slice::<Change>(&blanked).is_ok());
        }
    }

    #[test]
    fn values_are_found_wherever_they_lie() {
        let json = r#" {"a": 1, "b" : {"list":[ {"x":"no"}, {"x": "s\"ecret"} ]}} "#;
        let path = [Member("b"), Member("list"), Place(1), Member("x")];
        assert_eq!(json.get(find(json, &path).unwrap()), Some(r#""s\"ecret""#));
        assert_eq!(find(json, &[Member("c")]), None);
        assert_eq!(find(json, &[Member("b"), Place(0)]), None);
        let blanked = without(json.as_bytes(), 0..json.len(), &[path.to_vec()]).unwrap();
        assert_eq!(blanked.len(), json.len());
        assert!(!String::from_utf8(blanked).unwrap().contains("ecret"));
    }

    #[test]
    fn lists_and_objects_stay_what_they_are() {
        let json = r#"{"a":["x","y"],"b":{"c":1},"d":"","e":12.5}"#;
        let paths = [vec![Member("a")], vec![Member("b")], vec![Member("d")], vec![Member("e")]];
        let blanked = without(json.as_bytes(), 0..json.len(), &paths).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&blanked).unwrap();
        assert_eq!(read, serde_json::json!({ "a": [], "b": {}, "d": "", "e": 0 }));
        assert_eq!(without(json.as_bytes(), 0..json.len(), &[]), None);
    }
}
