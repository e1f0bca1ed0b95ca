//! Guests: clients of workspace servers that never join, and are members from their first event on.

use super::admission::{Admission, admit};
use super::join::{JoinWish, member_record};
use super::{DEFAULT_CHANNEL, may_be_joined};
use crate::input::{Clock, Emit};
use crate::record::{Change, Record};
use crate::state::{Member, MemberId, State};
use rialto_model::address::Address;
use rialto_model::member::Receive;
use rialto_model::{ErrorCode, Fault};

/// Somebody whose first event joins it.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) member: MemberId,
    pub(crate) records: Vec<Record>,
}

/// A join that was never sent: the first event under the network token of whoever joins by speaking, ever or since it left.
pub(crate) fn guest(
    state: &State,
    address: &str,
    known: Option<MemberId>,
    token: Option<String>,
    input: &Emit<'_>,
    now: Clock,
) -> Result<Guest, Fault> {
    let parsed =
        Address::parse_in(address, &state.network).map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()))?;
    if !may_be_joined(&parsed) {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {parsed}")));
    }
    let Admission { level, freed: false, brings, .. } = admit(state, input, &parsed, known, now)? else {
        return Err(Fault::new(ErrorCode::NotAMember, format!("{parsed} is not a member: join first")));
    };
    let old = known.and_then(|id| state.member(id));
    let id = known.unwrap_or_else(|| u32::try_from(state.book.members.len()).unwrap_or(u32::MAX));
    let cap =
        token.as_ref().and_then(|label| state.book.tokens.iter().find(|t| &t.label == label)).and_then(|t| t.role);
    let wish = JoinWish::default();
    let (head, stamp) = (state.book.head, state.stamp(now.wall));
    let capabilities = input.caller.capabilities;
    let reads = capabilities.reads_history && state.has_mod("persistence");
    let receive = if reads { Receive::Log } else { Receive::Queue };
    let record = member_record(old, &parsed, &wish, level, receive, head, stamp);
    // Whoever only ever names itself has no session that a name could belong to.
    let hold = old.map_or(brings.hold, |old| old.hold.max(brings.hold));
    let record = Box::new(Member { lax: capabilities.shares_name, token, cap, hold, ..record });
    let mut records = vec![Record::from(Change::Joined { member: id, record })];
    if let Some(channel) = state.channel_id(DEFAULT_CHANNEL).filter(|_| old.is_none()) {
        records.push(Record::from(Change::Seated { channel, member: id }));
    }
    Ok(Guest { member: id, records })
}
