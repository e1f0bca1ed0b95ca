//! Members that a face carries: they live elsewhere, on a network of another protocol, and are here by its word.
//!
//! Invariant: a carried member never takes a name that somebody here has or had; it gives way to whoever joins here under its name.
//! Not here: what they are sent (`rialto-node`).

use super::admission::{Admission, level_fault};
use crate::credential::NameHold;
use crate::input::Via;
use crate::rights::{self, Brings};
use crate::state::{MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::error::Scope;
use rialto_model::network::Policy;
use rialto_model::{ErrorCode, Fault, limits};

/// Whether a face may bring this address in, at the verification level it vouches for.
pub(super) fn admit(
    state: &State,
    Via { face, level }: &Via,
    address: &Address,
    known: Option<MemberId>,
) -> Result<Admission, Fault> {
    if let Entity::Human(_) = address.entity() {
        let text = format!("{face} carries agents: {address} is a person's name, which is given here only");
        return Err(Fault::new(ErrorCode::InvalidAddress, text).field("agent_id"));
    }
    let settings = &state.book.settings;
    if settings.policy == Policy::DidVerify && *level < 3 {
        return Err(Fault::new(ErrorCode::DidRequired, "this network admits proven DIDs only"));
    }
    if *level < settings.min_verification {
        return Err(level_fault(settings.min_verification, *level));
    }
    let name = address.as_str();
    let twin = rights::twin(name).and_then(|twin| state.member_id(&twin));
    // Who has the name, had it before a rename, or has it in its other form.
    let holder = known.or_else(|| state.known_as(name)).or(twin).and_then(|id| state.member(id));
    match holder {
        Some(member) if member.via.as_ref() == Some(face) && *member.address == *name => {}
        Some(member) => {
            let text = format!("{name} is the name of {} here: {face} carries nobody under it", member.address);
            return Err(Fault::new(ErrorCode::AddressTaken, text));
        }
        None if state.carried_count() >= limits::CARRIED_MEMBERS_MAX => {
            let limit = limits::CARRIED_MEMBERS_MAX;
            let text =
                format!("faces carry {limit} members in this network, which is the limit: let some of them leave");
            return Err(Fault::full(Scope::Network, limit, text));
        }
        None => {}
    }
    let brings = Brings { hold: NameHold::Nothing, proves: false, operator: false };
    Ok(Admission { level: *level, freed: false, invite: None, brings })
}
