//! Who of those mentioned is meant, and who answers if nobody is mentioned (OpenAgents sheet, section 6.2).
//!
//! Invariant: the sender is never meant; whoever is not seated is meant only if the sender may seat them.

use super::mentions::mentions;
use crate::record::EventRecord;
use crate::route::StreamKey;
use crate::state::{ChannelId, Member, MemberId, State};
use rialto_model::{Role, limits};
use serde_json::Value;

/// Members a message mentions, in the order it does, each once.
pub(super) fn mentioned(state: &State, channel: ChannelId, by: MemberId, said: &Value) -> Vec<MemberId> {
    let listed = said.get("mentions").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let listed = listed.map(|name| name.strip_prefix('@').unwrap_or(name));
    let content = said.get("content").and_then(Value::as_str).map(mentions).unwrap_or_default();
    let mut ids: Vec<MemberId> = Vec::new();
    for name in listed.chain(content).take(2 * limits::MENTIONS_MAX) {
        ids.extend(named(state, channel, name).filter(|id| *id != by && !ids.contains(id)));
    }
    ids.truncate(limits::MENTIONS_MAX);
    ids
}

/// The member a name means here: agents that are seated first, then anybody.
fn named(state: &State, channel: ChannelId, name: &str) -> Option<MemberId> {
    let is =
        |m: &Member| m.is_present() && (m.name().eq_ignore_ascii_case(name) || m.address.eq_ignore_ascii_case(name));
    let seated = state.channel(channel).into_iter().flat_map(|c| &c.seated).copied();
    let mut agents = seated.filter(|id| is_agent(state, *id));
    let found = agents.find(|id| state.member(*id).is_some_and(is));
    // Names as they are mostly written are found without looking at everybody.
    found
        .or_else(|| crate::membership::find_named(state, name).filter(|id| state.member(*id).is_some_and(is)))
        .or_else(|| state.roster().find(|(_, m)| is(m)).map(|(id, _)| id))
}

/// Those who are meant, and those of them who are seated for it.
pub(super) fn allowed(
    state: &State,
    channel: ChannelId,
    by: MemberId,
    mentioned: &[MemberId],
) -> (Vec<MemberId>, Vec<MemberId>) {
    let sits = |id: MemberId| state.member(id).is_some_and(|m| m.sits_in(channel));
    let may_seat =
        state.member(by).is_some_and(Member::is_human) || state.channel(channel).is_some_and(|c| c.master == Some(by));
    let meant: Vec<MemberId> = mentioned.iter().copied().filter(|id| may_seat || sits(*id)).collect();
    let seats = meant.iter().copied().filter(|id| !sits(*id)).collect();
    (meant, seats)
}

/// Who answers a message that mentions nobody.
pub(super) fn default(
    state: &State,
    channel: ChannelId,
    by: MemberId,
    answers: Option<&EventRecord>,
    master_answers: bool,
) -> Option<MemberId> {
    let here = state.channel(channel)?;
    let may_answer = |id: &MemberId| {
        *id != by
            && is_agent(state, *id)
            && state.member(*id).is_some_and(|m| m.is_present() && m.role() != Role::Observer && m.sits_in(channel))
    };
    let replied = answers
        .filter(|record| record.route.stream == Some(StreamKey::Channel(channel)))
        .and_then(|record| record.route.source)
        .filter(may_answer);
    if replied.is_some() {
        return replied;
    }
    let master = here.master.filter(may_answer);
    if !state.member(by)?.is_human() {
        return master.filter(|_| master_answers);
    }
    let is_master = |id: &MemberId| state.member(*id).is_some_and(|m| m.role() == Role::Master);
    let mut seated = here.seated.iter().copied().filter(may_answer);
    master.or_else(|| seated.clone().find(is_master)).or_else(|| seated.next())
}

/// How clients know a member: agents by their bare name, others by their address.
pub(super) fn shown(state: &State, id: MemberId) -> Option<String> {
    let member = state.member(id)?;
    let bare = matches!(member.address.split_once(':'), Some(("agent" | "openagents", _)));
    Some(if bare { member.name() } else { &member.address }.to_owned())
}

fn is_agent(state: &State, id: MemberId) -> bool {
    state.member(id).is_some_and(|m| !m.is_human())
}
