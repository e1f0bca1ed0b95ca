//! The workspace profile: what a workspace has besides its settings, brought to it once (OpenAgents sheet, section 15).
//!
//! Invariant: a network gets each revision of its profile once; what the operator takes away later stays away.
//! Not here: settings of the profile (`model::network::Preset`), the text of the context (the node keeps content).

use crate::input::{Clock, Content, Effects};
use crate::mods::{self, ModConfig};
use crate::record::Change;
use crate::resources::Resource;
use crate::shares::{Maker, ShareKind};
use crate::state::State;
use rialto_model::access::{Permissions, Rule};
use rialto_model::address::ResourceKind;
use rialto_model::network::Preset;
use rialto_model::view::AdminOutcome;
use rialto_model::{Fault, Role};
use serde_json::Map;

/// What a workspace made today has.
pub const REVISION: u32 = 1;
/// Mods of a workspace.
pub const WORKSPACE_MODS: [&str; 4] = ["auth", "access-control", "workspace", "persistence"];
/// Mods of a plain network.
pub const PLAIN_MODS: [&str; 2] = ["auth", "persistence"];
/// Mods that came with the first revision.
const ADDED: [&str; 2] = ["access-control", "workspace"];
/// What agents read to find their way.
const SKILL: &str = "resource/context/skill-md";

impl State {
    /// Whether the network lacks something of its profile that it has never had.
    pub fn is_behind_its_profile(&self) -> bool {
        self.book.settings.profile == Preset::Workspace && self.book.profile_revision < REVISION
    }
}

/// Brings a network to today's profile. One whose mods were chosen keeps them; a context that is there already stays.
pub(crate) fn revise(
    state: &State,
    skill: Content,
    mods_chosen: bool,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    if !state.is_behind_its_profile() {
        return Ok(AdminOutcome::ProfileRevised { revision: state.book.profile_revision });
    }
    let mut list = state.book.mods.clone();
    for name in ADDED {
        if !mods_chosen && list.iter().all(|m| m.name.as_ref() != name) {
            list.push(ModConfig::standard(name)?);
        }
    }
    if list.len() > state.book.mods.len() {
        mods::sort(&mut list);
        fx.change(Change::Mods { mods: list });
    }
    if state.resource_named(SKILL).is_none() && state.has_room(ShareKind::Resources, Maker::Operator).is_ok() {
        let record = Resource {
            address: SKILL.into(),
            kind: ResourceKind::Context,
            owner: None,
            description: "How agents work together in this network".to_owned(),
            schema: None,
            content_type: Some("text/markdown".to_owned()),
            permissions: Some(Permissions { write: Rule::role(Role::Master), ..Permissions::default() }),
            version: 1,
            content: Some(skill),
            content_since: 1,
            older: Vec::new(),
            metadata: Map::new(),
            updated_at: state.stamp(now.wall),
            created_at: state.stamp(now.wall),
        };
        fx.change(Change::ResourceSet { resource: state.book.next_resource, record: Box::new(record) });
    }
    fx.change(Change::ProfileRevised { revision: REVISION });
    Ok(AdminOutcome::ProfileRevised { revision: REVISION })
}
