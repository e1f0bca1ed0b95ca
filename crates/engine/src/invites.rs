//! Invitations: who may join, or is seated, by knowing a secret (OpenAgents sheet, sections 1.3 and 6.1).
//!
//! Invariant: only the hash of the secret is known here. What is used up, refused or over is forgotten: it is as if it
//! had never been.

use crate::channels;
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Clock, Effects, Emit, Stop};
use crate::membership::find_named;
use crate::presence::VolatileState;
use crate::record::{Change, EventRecord};
use crate::route::StreamKey;
use crate::server_events::{self, ServerEvent};
use crate::shares::{Maker, ShareKind};
use crate::state::{ChannelId, MemberId, State};
use rialto_model::EventType::{self, InvitationAccepted, InvitationCreated, InvitationRejected};
use rialto_model::address::Address;
use rialto_model::channel::ChannelStatus;
use rialto_model::network::Policy;
use rialto_model::payload::{InvitationAnswer, NewInvitation};
use rialto_model::view::{AdminOutcome, Done, InvitationList, InvitationView};
use rialto_model::{ErrorCode, EventId, Fault, Millis, Role, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Somebody is invited.
/// Seconds an invitation is valid, if it does not say.
const SECONDS_DEFAULT: u64 = 604_800;

/// An invitation that can still be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    /// SHA-256 of its secret.
    pub sha256: [u8; 32],
    /// Who hears what came of it; none is the operator.
    pub inviter: Option<MemberId>,
    /// Label of the token that its maker came with, by however many invitations: it ends with that token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Box<str>>,
    /// The one address it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitee: Option<Box<str>>,
    /// Highest role it gives.
    pub role: Role,
    /// Where it seats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    /// A word to the invitee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was made.
    pub created_at: Millis,
    /// Wall-clock end.
    pub expires_at: Millis,
    /// How often it can still be used.
    pub uses_left: u32,
}

/// Whether members invite here.
fn offered(state: &State, kind: EventType<'_>) -> bool {
    state.book.settings.policy == Policy::Invite || crate::mods::workspace::active(state, kind).is_some()
}

/// Whether the event is about an invitation.
pub(crate) fn is_about(state: &State, kind: EventType<'_>) -> bool {
    matches!(kind, InvitationCreated | InvitationAccepted | InvitationRejected) && offered(state, kind)
}

/// An invitation may go to somebody who is no member yet.
pub(crate) fn resolve(state: &State, kind: EventType<'_>, target: &Address) -> Option<Option<StreamKey>> {
    let known = find_named(state, target.as_str()).filter(|id| state.member(*id).is_some_and(|m| m.is_present()));
    let stranger = target.is_principal() && !target.is_broadcast() && known.is_none();
    (kind == InvitationCreated && stranger && offered(state, kind)).then_some(None)
}

/// Decides an event about an invitation.
pub(crate) fn decide(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    input: &Emit<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    if draft.kind == InvitationCreated {
        create(state, live, draft, input, now, fx)
    } else if draft.kind == InvitationAccepted {
        accept(state, live, draft, now, fx)
    } else {
        reject(state, live, draft, now, fx)
    }
}

fn bad(key: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidPayload, format!("{key}: expected {what}")).field(&format!("payload.{key}"))
}

fn invalid() -> Fault {
    Fault::new(
        ErrorCode::InviteInvalid,
        "the invitation is not valid here: it is unknown, used up, withdrawn, expired or for somebody else; ask for a new one",
    )
}

/// Reads a wish to invite; `by` may not hand out seats it could not give.
fn read(
    state: &State,
    wish: &NewInvitation,
    to: Option<&str>,
    (by, maker): (Option<MemberId>, Maker),
    sha256: [u8; 32],
    now: Clock,
) -> Result<Invite, Fault> {
    let number = |key: &str, said: Option<u64>, default: u64, most: u64| {
        let fits = Some(said.unwrap_or(default)).filter(|n| (1..=most).contains(n));
        fits.ok_or_else(|| bad(key, &format!("a whole number from 1 to {most}")))
    };
    let role = match wish.role.as_deref() {
        None | Some("member") => Role::Member,
        Some("observer") => Role::Observer,
        Some(_) => return Err(bad("role", "member or observer")),
    };
    let address = |text: &str| -> Result<Box<str>, Fault> {
        let known = find_named(state, text).and_then(|id| state.member(id)).map(|m| m.address.clone());
        let parsed = Address::parse_in(text, &state.network).ok().filter(|a| a.is_principal() && !a.is_foreign());
        let parsed = parsed.ok_or_else(|| {
            Fault::new(
                ErrorCode::InvalidAddress,
                format!("{text:?} cannot be invited: only agents and people of this network's own can join"),
            )
        })?;
        Ok(known.unwrap_or_else(|| parsed.as_str().into()))
    };
    let invitee = match (to.map(address).transpose()?, wish.invitee.as_deref().map(address).transpose()?) {
        (Some(to), Some(said)) if to != said => {
            return Err(bad("invitee", "the same address as the target"));
        }
        (to, said) => to.or(said),
    };
    let channel = match wish.channel.as_deref() {
        None => None,
        Some(name) => {
            let name = channels::channel_name(name)?;
            let unknown = || Fault::new(ErrorCode::UnknownTarget, format!("channel/{name}: no such channel"));
            let id = match by {
                Some(by) => channels::visible(state, &name, by)?.0,
                None => state.channel_id(&name).ok_or_else(unknown)?,
            };
            Some(id)
        }
    };
    if wish.message.as_ref().is_some_and(|m| m.chars().count() > limits::INVITE_MESSAGE_CHARS_MAX) {
        return Err(bad("message", &format!("at most {} characters", limits::INVITE_MESSAGE_CHARS_MAX)));
    }
    state.has_room(ShareKind::Invitations, maker)?;
    let seconds = number("expires_in_s", wish.expires_in_s, SECONDS_DEFAULT, limits::INVITE_SECONDS_MAX)?;
    let uses = number("max_uses", wish.max_uses, 1, limits::INVITE_USES_MAX.into())?;
    let created_at = now.wall;
    Ok(Invite {
        sha256,
        inviter: by,
        token: None,
        invitee,
        role,
        channel,
        message: wish.message.clone(),
        created_at,
        expires_at: created_at.saturating_add(seconds.saturating_mul(1000)),
        uses_left: u32::try_from(uses).unwrap_or(limits::INVITE_USES_MAX),
    })
}

/// The id of the invitation whose event is decided next.
fn next_id(state: &State, now: Clock, fx: &Effects) -> String {
    let seq = state.next_seq() + fx.events();
    format!("inv_{}", EventId { at: state.stamp(now.wall), seq, salt: state.book.salt }.to_text().to_ascii_lowercase())
}

fn create(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    input: &Emit<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let wish: NewInvitation = draft.said()?;
    let to = match draft.target.as_ref() {
        "core" => None,
        to if matches!(draft.route.stream, None | Some(StreamKey::Inbox(_))) => Some(to),
        _ => {
            let text = "an invitation must be sent to the member whom it invites, or to core";
            return Err(Fault::new(ErrorCode::InvalidEvent, text).field("target").into());
        }
    };
    let mut invite = read(state, &wish, to, (Some(draft.member), draft.maker), input.fresh_session, now)?;
    invite.token = state.token_behind(input.caller, draft.member, now);
    let id = next_id(state, now, fx);
    // A member that is invited answers by this id.
    let mut whole: Map<String, Value> = draft.said()?;
    whole.insert("invitation_id".into(), json!(id));
    whole.insert("expires_at".into(), json!(invite.expires_at));
    whole.extend(invite.invitee.as_ref().map(|invitee| ("invitee".to_owned(), json!(invitee))));
    draft.payload = Some(Value::Object(whole).to_string());
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(json!({ "invitation_id": id, "expires_at": invite.expires_at }));
    fx.change(Change::Invited { invitation: id.into(), record: invite });
    Ok(accepted)
}

/// What a repeated invitation was answered the first time, but for the secret, which nobody knows any more.
pub(crate) fn result_again(record: &EventRecord) -> Option<Value> {
    let payload: Value = (record.event.event_type() == InvitationCreated)
        .then(|| serde_json::from_str(record.event.payload()).ok())
        .flatten()?;
    Some(json!({ "invitation_id": payload.get("invitation_id")?, "expires_at": payload.get("expires_at")? }))
}

/// The operator invites.
pub(crate) fn by_operator(
    state: &State,
    wish: &NewInvitation,
    secret: [u8; 32],
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    let invite = read(state, wish, None, (None, Maker::Operator), secret, now)?;
    // No event goes with it, and two may be made before the next one comes: the secret's hash tells them apart.
    let [a, b, c, d, ..] = secret;
    let id = format!("{}_{a:02x}{b:02x}{c:02x}{d:02x}", next_id(state, now, fx));
    let outcome = AdminOutcome::Invited { invitation_id: id.as_str().into(), expires_at: invite.expires_at };
    fx.change(Change::Invited { invitation: id.into(), record: invite });
    Ok(outcome)
}

/// The invitation with this secret, if this address may use it now.
pub(crate) fn usable(state: &State, hash: &[u8; 32], address: &str, now: Clock) -> Option<Box<str>> {
    let fits = |i: &Invite| &i.sha256 == hash && is_open(i, address, now);
    state.book.invites.iter().find(|(_, invite)| fits(invite)).map(|(id, _)| id.clone())
}

fn is_open(invite: &Invite, address: &str, now: Clock) -> bool {
    invite.expires_at > now.wall && invite.invitee.as_deref().is_none_or(|only| only == address)
}

/// Somebody used an invitation: it is seated, and the inviter hears of it.
pub(crate) fn accepted(state: &State, id: &str, member: MemberId, address: &str, now: Clock, fx: &mut Effects) {
    let Some(invite) = state.book.invites.get(id) else { return };
    let open = |c: &ChannelId| state.channel(*c).is_some_and(|c| c.status == ChannelStatus::Active);
    if let Some(channel) = invite.channel.filter(open) {
        fx.change(Change::Seated { channel, member });
    }
    tell(state, invite, InvitationAccepted, &json!({ "invitation_id": id, "address": address }), now, fx);
    fx.change(Change::InviteUsed { invitation: id.into(), ended: false });
}

/// Tells the inviter, if that is a member.
fn tell(state: &State, invite: &Invite, kind: EventType<'_>, payload: &Value, now: Clock, fx: &mut Effects) {
    let Some(inviter) = invite.inviter else { return };
    let Some(target) = state.member(inviter).filter(|m| m.is_present()).map(|m| m.address.clone()) else { return };
    let stream = Some(StreamKey::Inbox(inviter));
    server_events::server_event(
        state,
        ServerEvent { kind, target: &target, stream, payload, metadata: None, more: None },
        now,
        fx,
    );
}

/// The invitation a member answers: one that is for it.
fn answered<'s>(state: &'s State, draft: &EmitDraft<'_, '_>, now: Clock) -> Result<(String, &'s Invite), Fault> {
    let InvitationAnswer { invitation_id: id } = draft.said()?;
    let invite = state.book.invites.get(id.as_str()).filter(|i| is_open(i, &draft.address, now)).ok_or_else(invalid)?;
    // Without an invitee it is for whoever knows the secret, and ids are no secrets.
    if invite.invitee.is_none() { Err(invalid()) } else { Ok((id, invite)) }
}

/// A member takes an invitation to a channel.
fn accept(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    if draft.target != "core" {
        let text = format!("{InvitationAccepted} is told by the network; members send theirs to core");
        return Err(Fault::new(ErrorCode::ReservedType, text).field("type").into());
    }
    let (id, _) = answered(state, &draft, now)?;
    let (member, address) = (draft.member, draft.address.to_string());
    let mut out = emit::commit(state, live, draft, now, fx)?;
    accepted(state, &id, member, &address, now, fx);
    out.says(json!({ "invitation_id": id, "status": "accepted" }));
    Ok(out)
}

/// A member refuses an invitation; its inviter is the target.
fn reject(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let (id, invite) = answered(state, &draft, now)?;
    let to_inviter = invite.inviter.map(StreamKey::Inbox);
    if draft.route.stream.is_some() && draft.route.stream != to_inviter {
        return Err(Fault::new(
            ErrorCode::InvalidEvent,
            "a refusal must be sent to the member who invited, or to core",
        )
        .field("target")
        .into());
    }
    let mut out = emit::commit(state, live, draft, now, fx)?;
    fx.change(Change::InviteUsed { invitation: id.as_str().into(), ended: true });
    out.says(json!({ "invitation_id": id, "status": "rejected" }));
    Ok(out)
}

/// Ends an invitation: refused by who knows its secret, or taken back by the operator.
pub(crate) fn end(
    state: &State,
    id: &str,
    secret: Option<[u8; 32]>,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    let knows = |i: &&Invite| secret.is_none_or(|secret| i.sha256 == secret) && i.expires_at > now.wall;
    let invite = state.book.invites.get(id).filter(knows).ok_or_else(invalid)?;
    if secret.is_none() {
        crate::rights::invite_revoked(state, id, fx);
    }
    if secret.is_some() {
        tell(state, invite, InvitationRejected, &json!({ "invitation_id": id }), now, fx);
    }
    fx.change(Change::InviteUsed { invitation: id.into(), ended: true });
    let status = if secret.is_some() { Done::Rejected } else { Done::Revoked };
    Ok(AdminOutcome::InvitationEnded { invitation_id: id.into(), status })
}

/// Applies a use, or the end.
pub(crate) fn used(state: &mut State, id: &str, ended: bool) {
    let Some(invite) = state.book.invites.get_mut(id) else { return };
    if ended || !crate::bugs::on("invitation is never used up") {
        invite.uses_left -= invite.uses_left.min(1);
    }
    if ended || invite.uses_left == 0 {
        let by = invite.inviter;
        state.book.invites.remove(id);
        state.shares.invitation(by, false);
    }
}

/// Forgets invitations whose time is over.
pub(crate) fn lapse(state: &State, now: Clock, fx: &mut Effects) {
    let through = now.wall;
    if state.book.invites.values().any(|invite| invite.expires_at <= through) {
        fx.change(Change::InvitesLapsed { through });
    }
}

impl State {
    /// Invitations as they are shown: all, or those for one address, up to [`limits::LIST_ROWS_MAX`]. Never their secrets.
    pub fn invitations(&self, only: Option<&str>) -> InvitationList {
        let mine = |i: &Invite| only.is_none_or(|only| i.invitee.as_deref() == Some(only));
        let address = |id: MemberId| self.member(id).map(|m| m.address.clone());
        let mut shown = self.book.invites.iter().filter(|(_, i)| mine(i)).map(|(id, i)| InvitationView {
            invitation_id: id.clone(),
            network: self.book.id.clone(),
            inviter: i.inviter.and_then(address),
            invitee: i.invitee.clone(),
            role: i.role,
            message: i.message.clone(),
            channel: i.channel.and_then(|c| self.channel(c)).map(|c| format!("channel/{}", c.name)),
            created_at: i.created_at,
            expires_at: i.expires_at,
            uses_left: i.uses_left,
        });
        let invitations = shown.by_ref().take(limits::LIST_ROWS_MAX).collect();
        InvitationList { invitations, has_more: shown.next().is_some() }
    }
}
