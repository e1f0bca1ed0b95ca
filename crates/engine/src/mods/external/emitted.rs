//! Events that mods send: from `mod/{name}`, past every mod but their own (OpenAgents sheet, section 9.2).

use super::owed::OwedMark;
use super::shape::{ChangeableMembers, Fixed};
use super::{CheckSender, CheckStage, EmitChain, Mode, addressee, ask, guards, is_mail, mail, mods, transformed};
use crate::emit::{Laid, lay};
use crate::input::{Accepted, Answers, Clock, Effect, Effects, Stop};
use crate::mods::persistence;
use crate::presence::VolatileState;
use crate::record::{EventRecord, More, Record};
use crate::route::{Route, StreamKey};
use crate::server_events::signal_id;
use crate::state::State;
use rialto_model::event_type::Namespace;
use rialto_model::metadata::Metadata;
use rialto_model::payload::EventChanges;
use rialto_model::{Envelope, ErrorCode, Event, EventId, EventParts, Fault};
use std::borrow::Cow;
use std::sync::Arc;

/// An event of a mod.
#[derive(Debug)]
pub struct ModEvent<'a> {
    /// The mod that sends it.
    pub name: &'a str,
    /// What it sends.
    pub envelope: &'a Envelope<'a>,
    /// The event it answers, where it does not say itself.
    pub answers_to: Option<&'a str>,
    /// What it follows from.
    pub chain: EmitChain,
    /// The owed emit that it is, if it had to wait.
    pub owed: Option<OwedMark>,
    /// What other mods said.
    pub answers: &'a Answers,
}

/// Checks what any event of a mod has to keep to.
fn checked<'d>(state: &'d State, envelope: &'d Envelope<'_>, metadata: &Metadata<'_>) -> Result<Laid<'d>, Fault> {
    let kind = envelope.event_type();
    if kind.is_reserved() || kind.namespace() == Namespace::Work || metadata.get("work").is_some() {
        return Err(Fault::new(ErrorCode::ReservedType, format!("mods may not send {kind}")).field("type"));
    }
    let laid = lay(state, kind, &envelope.target, envelope.visibility, metadata, None)?;
    if laid.target.starts_with("resource/") {
        return Err(Fault::new(ErrorCode::InvalidEvent, "mods may not read or call resources").field("target"));
    }
    Ok(laid)
}

/// Decides an event of a mod.
pub(crate) fn decide(
    state: &State,
    live: &mut VolatileState,
    input: &ModEvent<'_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    if !state.book.mods.iter().any(|m| m.name.as_ref() == input.name && m.enabled) {
        return Err(Fault::new(ErrorCode::ModNotFound, format!("mod/{} is not loaded", input.name)).into());
    }
    crate::emit::is_active(state)?;
    let source = format!("mod/{}", input.name);
    let sender = CheckSender {
        address: &source,
        member: None,
        role: None,
        verification: 0,
        emitter: Some(input.name),
        chain: input.chain,
    };
    let mut metadata = Metadata::parse(input.envelope.metadata)?;
    if let (Some(id), None) = (input.answers_to, metadata.get("in_reply_to")) {
        metadata.set("in_reply_to", serde_json::json!(id).to_string());
    }
    if checked(state, input.envelope, &metadata)?.target == source {
        return Err(Fault::new(ErrorCode::InvalidEvent, "a mod may not send events to itself").field("target").into());
    }
    let fixed =
        Fixed { id: None, source: &source, network: &state.book.id, stamp: state.stamp(now.wall), sent_at: None };
    let mut shape = ChangeableMembers {
        kind: Cow::Borrowed(input.envelope.kind.as_ref()),
        target: Cow::Borrowed(input.envelope.target.as_ref()),
        payload: Cow::Borrowed(input.envelope.payload.as_ref()),
        metadata: metadata.to_json(),
        visibility: input.envelope.visibility,
    };
    guards(state, live, input.answers, CheckStage::Guard, &shape, sender, fixed, now)?;
    let mut notes = Vec::new();
    let mut text = shape.sent(fixed);
    if let Some(config) = addressee(state, input.answers, &shape.target) {
        mail(state, input.answers, config, &shape, sender, fixed)?;
    } else if !is_mail(state, &shape.target) {
        let (kind, target) = (shape.kind.to_string(), shape.target.to_string());
        for config in mods(state, input.answers) {
            let asked = config.mode == Mode::Transform && !config.runs.is_builtin() && config.intercepts(&shape.kind);
            if !asked || sender.is_behind(config) {
                continue;
            }
            let outcome = ask(state, input.answers, config, CheckStage::Transform, &shape, sender, fixed)?;
            let make = |changes: &EventChanges| shape.changed(changes, fixed).and_then(|text| reread(state, &text));
            if let Some(made) = transformed(config, outcome, make, &mut notes)? {
                (text, shape) = made;
            }
        }
        if kind != shape.kind || target != shape.target {
            guards(state, live, input.answers, CheckStage::GuardAgain, &shape, sender, fixed, now)?;
        }
    }
    let envelope = Envelope::parse(&text).map_err(|unreadable| unreadable.fault)?;
    Ok(commit(state, live, &envelope, &source, (notes, input.owed), now, fx)?)
}

/// A changed event, if it may be sent so.
fn reread(state: &State, text: &str) -> Result<(String, ChangeableMembers<'static>), String> {
    let envelope = Envelope::parse(text).map_err(|unreadable| unreadable.fault.message)?;
    let metadata = Metadata::parse(envelope.metadata).map_err(|fault| fault.message)?;
    checked(state, &envelope, &metadata).map_err(|fault| fault.message)?;
    let shape = ChangeableMembers {
        kind: envelope.kind.to_string().into(),
        target: envelope.target.to_string().into(),
        payload: envelope.payload.to_string().into(),
        metadata: metadata.to_json().into_owned().into(),
        visibility: envelope.visibility,
    };
    Ok((text.to_owned(), shape))
}

fn commit(
    state: &State,
    live: &mut VolatileState,
    envelope: &Envelope<'_>,
    source: &str,
    (verdicts, owed): (Vec<String>, Option<OwedMark>),
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Fault> {
    let metadata = Metadata::parse(envelope.metadata)?;
    let Laid { target, stream, visibility, thread, to } = checked(state, envelope, &metadata)?;
    let ephemeral = metadata.ephemeral == Some(true);
    let stamp = state.stamp(now.wall);
    let seq = if ephemeral { 0 } else { state.next_seq() + fx.events() };
    let id = if ephemeral {
        signal_id(state, live, stamp).to_text()
    } else {
        EventId { at: stamp, seq, salt: state.book.salt }.to_text()
    };
    let event = Event::new(
        seq,
        &EventParts {
            id: &id,
            kind: &envelope.kind,
            source,
            target: &target,
            payload: &envelope.payload,
            metadata: &metadata.to_json(),
            timestamp: stamp,
            network: &state.book.id,
            visibility,
        },
    );
    if let Some(StreamKey::Inbox(to)) = stream
        && !ephemeral
        && state.is_tracked()
    {
        state.takes(to, &event)?;
    }
    let record = Arc::new(EventRecord {
        event,
        route: Route { stream, source: None, thread, to, room: None },
        received: None,
        receipt: false,
        stored: !ephemeral && persistence::keeps(state, &envelope.kind),
        dies_at: None,
        verdicts,
        more: owed.map(|mark| Box::new(More { owed: Some(mark), ..More::default() })),
    });
    if ephemeral {
        let event = Arc::new(record.event.clone());
        let after = Some(state.book.head);
        fx.after.push(Effect::Signal { event, route: record.route.clone(), after });
        return Ok(Accepted { event: Some(record), ..Accepted::default() });
    }
    fx.commit(Record::Event(record.clone()));
    Ok(Accepted { seq: Some(seq), event: Some(record), ..Accepted::default() })
}
