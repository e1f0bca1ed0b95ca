//! The roster: who and what a viewer finds in a network, in sections that are read on apart.

use super::is_off;
use super::{ChannelView, MemberView, ResourceSummary};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A part of the roster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Members.
    Agents,
    /// Channels.
    Channels,
    /// Mods.
    Mods,
    /// Resources.
    Resources,
    /// Groups.
    Groups,
}

impl Section {
    /// All of them, in order.
    pub const ALL: [Section; 5] =
        [Section::Agents, Section::Channels, Section::Mods, Section::Resources, Section::Groups];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Section::Agents => "agents",
            Section::Channels => "channels",
            Section::Mods => "mods",
            Section::Resources => "resources",
            Section::Groups => "groups",
        }
    }

    /// The section of this name.
    pub fn from_wire(text: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.as_str() == text)
    }
}

/// Channels of the roster, short or in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ChannelSection {
    /// Their addresses.
    Addresses(Vec<String>),
    /// Themselves.
    Entries(Vec<ChannelView>),
}

impl ChannelSection {
    fn len(&self) -> usize {
        match self {
            ChannelSection::Addresses(rows) => rows.len(),
            ChannelSection::Entries(rows) => rows.len(),
        }
    }
}

/// The roster, with the sections that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Roster {
    /// Members, in the order of joining.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<MemberView>>,
    /// Channels, in the order of their making.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<ChannelSection>,
    /// Addresses of mods, in the order of the pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mods: Option<Vec<String>>,
    /// Resources the viewer may read, by address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ResourceSummary>>,
    /// Addresses of groups, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// Some section has more.
    #[serde(skip_serializing_if = "is_off")]
    pub has_more: bool,
    /// The cursor to read on from, of each section that has more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub next: BTreeMap<Section, String>,
}

impl Roster {
    /// Rows of a section.
    pub fn len_of(&self, section: Section) -> usize {
        match section {
            Section::Agents => self.agents.as_ref().map_or(0, Vec::len),
            Section::Channels => self.channels.as_ref().map_or(0, ChannelSection::len),
            Section::Mods => self.mods.as_ref().map_or(0, Vec::len),
            Section::Resources => self.resources.as_ref().map_or(0, Vec::len),
            Section::Groups => self.groups.as_ref().map_or(0, Vec::len),
        }
    }

    /// Adds the rows of another piece behind those of each section that is here.
    pub fn append(&mut self, piece: Roster) {
        fn join<T>(here: &mut Option<Vec<T>>, more: Option<Vec<T>>) {
            if let (Some(here), Some(more)) = (here, more) {
                here.extend(more);
            }
        }
        join(&mut self.agents, piece.agents);
        join(&mut self.mods, piece.mods);
        join(&mut self.resources, piece.resources);
        join(&mut self.groups, piece.groups);
        match (&mut self.channels, piece.channels) {
            (Some(ChannelSection::Addresses(here)), Some(ChannelSection::Addresses(more))) => here.extend(more),
            (Some(ChannelSection::Entries(here)), Some(ChannelSection::Entries(more))) => here.extend(more),
            // Pieces of one listing have one form.
            (_, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use crate::address::ResourceKind;

    fn roster() -> Roster {
        Roster {
            agents: Some(Vec::new()),
            channels: Some(ChannelSection::Addresses(vec!["channel/general".to_owned()])),
            mods: Some(vec!["mod/auth".to_owned()]),
            resources: Some(vec![ResourceSummary {
                address: "resource/tool/sum".into(),
                owner: Some("agent:ann".into()),
                kind: ResourceKind::Tool,
            }]),
            groups: Some(vec!["group/ops".to_owned()]),
            has_more: true,
            next: BTreeMap::from([(Section::Agents, "4".to_owned())]),
        }
    }

    #[test]
    fn a_roster_in_full() {
        let json = r#"{
            "agents":[],"channels":["channel/general"],"mods":["mod/auth"],
            "resources":[{"address":"resource/tool/sum","owner":"agent:ann","type":"tool"}],"groups":["group/ops"],
            "has_more":true,"next":{"agents":"4"}}"#;
        check(&roster(), json);
        check(&Roster::default(), "{}");
    }

    #[test]
    fn pieces_are_put_together_by_section() {
        let mut all = Roster { groups: None, ..roster() };
        all.append(roster());
        assert_eq!(Section::ALL.map(|section| all.len_of(section)), [0, 2, 2, 2, 0]);
        let mut other = Roster { channels: Some(ChannelSection::Entries(Vec::new())), ..roster() };
        other.append(roster());
        assert_eq!(other.len_of(Section::Channels), 0);
    }

    #[test]
    fn section_names_read_back() {
        for section in Section::ALL {
            assert_eq!(Section::from_wire(section.as_str()), Some(section));
            assert_eq!(serde_json::to_value(section).unwrap(), section.as_str());
        }
        assert_eq!(Section::from_wire("people"), None);
    }
}
