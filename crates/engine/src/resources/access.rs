//! Who may do what with a resource: rules of the resource, defaults of mod/access-control, and what is hidden.

use super::{Resource, ResourceNo};
use crate::emit;
use crate::state::{MemberId, State};
use rialto_model::access::{Operation, Permissions, Principal};
use rialto_model::address::{Address, Entity, ResourceKind};
use rialto_model::{ErrorCode, EventType, Fault, Role};
use std::borrow::Cow;

/// The mod that judges.
const MOD: &str = "mod/access-control";

/// A member that asks, as rules see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker<'s> {
    pub(crate) state: &'s State,
    /// None: the operator, whom nothing stops.
    pub(crate) member: Option<MemberId>,
    pub(crate) owner: Option<MemberId>,
}

impl Principal for Asker<'_> {
    fn is_owner(&self) -> bool {
        self.member.is_none() || self.owner.is_some() && self.owner == self.member
    }

    fn role(&self) -> Option<Role> {
        let role = self.state.member(self.member?).filter(|m| m.is_present()).map(crate::state::Member::role);
        let lets_in = crate::bugs::on("rule of members lets observers in") && role == Some(Role::Observer);
        if lets_in { Some(Role::Member) } else { role }
    }

    fn is(&self, address: &Address) -> bool {
        let own = self.member.and_then(|id| self.state.member(id));
        own.is_some_and(|m| m.address.as_ref() == address.as_str())
    }

    fn in_group(&self, name: &str) -> bool {
        let own = self.member.and_then(|id| self.state.member(id));
        let group = self.state.book.groups.get(name.trim_start_matches("group/"));
        own.zip(group).is_some_and(|(m, group)| group.members.contains(&m.address))
    }
}

impl State {
    /// The rules that hold for a resource.
    pub(crate) fn permissions<'s>(&'s self, resource: &'s Resource) -> Cow<'s, Permissions> {
        if !self.has_mod("access-control") {
            let admin = resource.permissions.as_ref().map(|p| p.admin.clone());
            let free = Permissions::unguarded();
            return Cow::Owned(Permissions { admin: admin.unwrap_or_else(|| free.admin.clone()), ..free });
        }
        match &resource.permissions {
            Some(permissions) => Cow::Borrowed(permissions),
            None => Cow::Owned(self.default_permissions()),
        }
    }

    /// What holds for resources that do not say: the mod's configuration, else the sheet's defaults.
    pub(crate) fn default_permissions(&self) -> Permissions {
        let config = self.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "access-control");
        let said = config.and_then(|m| m.config.get("default_permissions"));
        let merged = said.map(|value| Permissions::default().merged(value, None, &self.network, "default_permissions"));
        merged.and_then(Result::ok).unwrap_or_default()
    }

    /// What a member may do with a resource, in the sheet's order.
    pub(crate) fn your_permissions(&self, resource: &Resource, member: Option<MemberId>) -> Vec<Operation> {
        let asker = Asker { state: self, member, owner: resource.owner };
        self.permissions(resource).granted(resource.kind, &asker)
    }

    pub(crate) fn allows(&self, resource: &Resource, member: Option<MemberId>, operation: Operation) -> bool {
        let asker = Asker { state: self, member, owner: resource.owner };
        self.permissions(resource).allow(operation, &asker)
    }
}

/// Whether who may not read is told that there is nothing.
pub(crate) fn is_hidden(state: &State) -> bool {
    let config = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == "access-control");
    config.is_some_and(|m| m.flag("hide", true))
}

fn missing(address: &str) -> Fault {
    Fault::new(ErrorCode::ResourceNotFound, format!("{address} does not exist"))
}

impl State {
    /// Whether content may be brought at all: by a member, or by somebody who is not known yet.
    pub fn may_bring(&self, member: Option<MemberId>) -> Result<(), Fault> {
        emit::is_active(self)?;
        if member.and_then(|id| self.member(id)).is_some_and(|m| m.role() == Role::Observer) {
            return Err(Fault::new(
                ErrorCode::ObserverReadOnly,
                "observers may read but not send: join with the role member to send",
            ));
        }
        Ok(())
    }

    /// Whether a member may bring content for this address: it may write what is there, or nothing is. Gives the version
    /// of what is there.
    pub fn may_write(&self, member: MemberId, address: &str) -> Result<Option<u64>, Fault> {
        self.may_bring(Some(member))?;
        let parsed = Address::parse_in(address, &self.network)
            .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{address:?}: {e}")))?;
        let Entity::Resource { kind: ResourceKind::File | ResourceKind::Context, .. } = parsed.entity() else {
            return Err(Fault::new(ErrorCode::InvalidArgument, format!("{address} is not a file or a context")));
        };
        if self.resource_named(parsed.as_str()).is_none() {
            return Ok(None);
        }
        let (_, resource) = admit(self, parsed.as_str(), Some(member), Operation::Write)?;
        Ok(Some(resource.version))
    }
}

/// Whether the sender of an event may know of the resource it goes to: for what is hidden there is no other refusal.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other type asks for reading")]
pub(crate) fn visible(state: &State, address: &str, member: MemberId, kind: EventType<'_>) -> Result<(), Fault> {
    let Some((_, resource)) = state.resource_named(address) else { return Err(missing(address)) };
    let may = |operation| state.allows(resource, Some(member), operation);
    let known = match kind {
        EventType::ResourceInvoke => may(Operation::Invoke) || may(Operation::Read),
        EventType::ResourceUpdate => may(Operation::Write) || may(Operation::Admin) || may(Operation::Read),
        _ => may(Operation::Read),
    };
    match known {
        true => Ok(()),
        false if is_hidden(state) => Err(missing(address)),
        // Other types are plain events to the owner, for those who may read.
        false if !kind.is_about_resources() => {
            Err(Fault::new(ErrorCode::PermissionDenied, format!("you may not read {address}")).by(MOD))
        }
        false => Ok(()),
    }
}

/// The resource behind an address, if the member may do this with it.
pub(crate) fn admit<'s>(
    state: &'s State,
    address: &str,
    member: Option<MemberId>,
    operation: Operation,
) -> Result<(ResourceNo, &'s Resource), Fault> {
    let (no, resource) = state.resource_named(address).ok_or_else(|| missing(address))?;
    if state.allows(resource, member, operation) {
        return Ok((no, resource));
    }
    if is_hidden(state) && !state.allows(resource, member, Operation::Read) {
        return Err(missing(address));
    }
    let text = format!("you may not {} {address}", operation.as_str());
    Err(Fault::new(ErrorCode::PermissionDenied, text).by(MOD))
}
