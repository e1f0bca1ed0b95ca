//! Which visibility an event has, by where it goes (OpenAgents sheet, section 4.3).

use rialto_model::address::{Address, Entity};
use rialto_model::{ErrorCode, EventType, Fault, Visibility};

/// The kinds of targets that visibility tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The network itself.
    Core,
    /// One agent, human or registered name.
    Principal,
    /// Everybody.
    Broadcast,
    /// The seats of a channel, or a group.
    Members,
    /// A mod.
    Mod,
    /// A resource.
    Resource,
}

impl Reach {
    /// How far an address reaches.
    pub(crate) fn of(target: &Address) -> Reach {
        match target.entity() {
            Entity::Core => Reach::Core,
            Entity::Agent(_) if target.is_broadcast() => Reach::Broadcast,
            Entity::Agent(_) | Entity::Human(_) | Entity::Registered { .. } => Reach::Principal,
            Entity::Channel(_) | Entity::Group(_) => Reach::Members,
            Entity::Mod(_) => Reach::Mod,
            Entity::Resource { .. } => Reach::Resource,
        }
    }
}

/// The visibility of an event that does not say.
pub(crate) fn default(reach: Reach, kind: EventType<'_>) -> Visibility {
    match reach {
        Reach::Mod => Visibility::ModOnly,
        // Control events are polled for without an identity.
        _ if kind.as_str().starts_with("workspace.agent.") => Visibility::Public,
        Reach::Broadcast => Visibility::Public,
        // What people do in a workspace is for everybody there.
        Reach::Core if kind.as_str().starts_with("workspace.user.") => Visibility::Public,
        Reach::Principal | Reach::Core | Reach::Resource => Visibility::Direct,
        Reach::Members => Visibility::Channel,
    }
}

/// The visibility of an event: what it says, if that goes with its target.
pub(crate) fn checked(
    reach: Reach,
    target: &dyn std::fmt::Display,
    kind: EventType<'_>,
    said: Option<Visibility>,
) -> Result<Visibility, Fault> {
    use Visibility::{Channel, Direct, ModOnly, Public};
    let default = default(reach, kind);
    let Some(said) = said.filter(|v| *v != default) else { return Ok(default) };
    match (reach, said) {
        (Reach::Principal, Public | Direct) => Ok(said),
        // The flat default of compat clients counts as direct.
        (Reach::Principal, Channel) => Ok(Direct),
        (Reach::Members, Public | Channel) => Ok(said),
        (Reach::Core, ModOnly | Direct) | (Reach::Resource, Direct) => Ok(said),
        _ => Err(Fault::new(
            ErrorCode::InvalidVisibility,
            format!("an event to {target} cannot have visibility {}: leave it out for the usual one", said.as_str()),
        )
        .field("visibility")),
    }
}
