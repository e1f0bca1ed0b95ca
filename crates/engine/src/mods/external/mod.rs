//! Mods that run elsewhere: as a process beside the node, or served by a member (OpenAgents sheet, section 9).
//!
//! The engine asks with [`Question::Check`] and decides the event again with what was said. Words of mods are kept with
//! the event's answers, so that each mod is asked once; the list of mods is the one of the first question.
//! Invariant: a guard that does not answer refuses; a transform that does not answer leaves the event as it was, or
//! refuses if it says so; an observer is never waited for.

pub mod emitted;
pub mod owed;
pub(crate) mod serve;
pub(crate) mod shape;
pub mod verdict;

use super::{ModConfig, Mode, auth, enrichment, rate_limiter, workspace};
use crate::emit::EmitDraft;
use crate::input::{Answers, Clock, Effect, Effects, Question, Stop};
use crate::presence::VolatileState;
use crate::record::EventRecord;
use crate::state::{MemberId, State};
use rialto_model::address::Entity;
use rialto_model::metadata::Metadata;
use rialto_model::mods::OnError;
use rialto_model::payload::EventChanges;
use rialto_model::{Address, ErrorCode, EventType, Fault, Millis, Role, Seq, limits};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shape::{ChangeableMembers, Fixed};
use std::borrow::Cow;
use std::sync::Arc;
use verdict::{Judgement, ModVerdict};

/// Where a mod runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// In the node.
    #[default]
    Builtin,
    /// As a process beside it.
    Process,
    /// At this member.
    Served(MemberId),
}

impl Runs {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Runs::Builtin => "builtin",
            Runs::Process => "process",
            Runs::Served(_) => "served",
        }
    }

    /// Whether it runs in the node.
    pub fn is_builtin(&self) -> bool {
        *self == Runs::Builtin
    }
}

/// How long a mod may take, unless it says otherwise.
pub const DEADLINE_MS: Millis = 1000;

/// What a mod is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStage {
    /// Whether the event may go on.
    Guard,
    /// The same, after its type or target was changed.
    GuardAgain,
    /// What it becomes.
    Transform,
    /// What comes of mail to the mod.
    Mail,
    /// Nothing: it only looks.
    Observe,
}

/// How an event follows from others: what mods send in answer to what mods sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmitChain {
    depth: u8,
    /// Events that may still follow from this one.
    left: u32,
}

impl Default for EmitChain {
    fn default() -> EmitChain {
        EmitChain { depth: 0, left: limits::MOD_EMITS_PER_CAUSE_MAX }
    }
}

impl EmitChain {
    /// So many events follow from this one: how many of them may, and where each of those stands.
    pub fn next(self, wanted: usize) -> (usize, EmitChain) {
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let count = if self.depth < limits::MOD_EMIT_DEPTH_MAX { wanted.min(self.left) } else { 0 };
        let left = (self.left - count).checked_div(count).unwrap_or(0);
        (count as usize, EmitChain { depth: self.depth.saturating_add(1), left })
    }
}

/// One event for one mod.
#[derive(Debug, Clone, PartialEq)]
pub struct ModCheck {
    /// The mod.
    pub name: Box<str>,
    /// Where it runs.
    pub runs: Runs,
    /// How long it may take.
    pub deadline_ms: Millis,
    /// What it is asked for.
    pub step: CheckStage,
    /// The event, JSON.
    pub event: String,
    /// Who sends it, JSON.
    pub context: String,
    /// The position of the event, if it is committed: an observer is shown it.
    pub seq: Option<Seq>,
    /// The list the event is on its way through.
    pub mods: Arc<[ModConfig]>,
    /// What it follows from.
    pub chain: EmitChain,
}

/// What came of a check.
#[derive(Debug, Clone)]
pub enum CheckOutcome {
    /// The mod spoke.
    Said(ModVerdict),
    /// It did not, or not in time, or nothing that can be understood.
    Failed(&'static str),
}

/// A check that came to its end.
#[derive(Debug, Clone)]
pub struct FinishedCheck {
    /// The mod.
    pub name: Box<str>,
    /// What it was asked for.
    pub step: CheckStage,
    /// What came of it.
    pub outcome: CheckOutcome,
}

/// Who sends an event, as mods are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckSender<'s> {
    pub(crate) address: &'s str,
    /// None of a mod, and of who joins for the first time.
    pub(crate) member: Option<MemberId>,
    pub(crate) role: Option<Role>,
    pub(crate) verification: u8,
    /// The mod that sends it.
    pub(crate) emitter: Option<&'s str>,
    pub(crate) chain: EmitChain,
}

impl<'s> CheckSender<'s> {
    pub(crate) fn member(state: &State, id: MemberId, address: &'s str) -> CheckSender<'s> {
        let member = state.member(id);
        CheckSender {
            address,
            member: Some(id),
            role: member.map(crate::state::Member::role),
            verification: member.map_or(0, |m| m.verification),
            emitter: None,
            chain: EmitChain::default(),
        }
    }

    /// A mod hears nothing of what it sends itself, nor of what the member sends that serves it: it would wait for its own
    /// answer.
    fn is_behind(&self, config: &ModConfig) -> bool {
        self.emitter == Some(config.name.as_ref())
            || matches!(config.runs, Runs::Served(server) if self.member == Some(server))
    }
}

/// Types no mod is asked about: what a mod answers with, and what must be possible while one does not answer.
pub(crate) fn is_exempt(kind: EventType<'_>) -> bool {
    use EventType::*;
    matches!(kind, Ping | EventAck | ModVerdict | AgentLeave)
}

/// How far an event has come on its way through the transforms.
#[derive(Debug, Default)]
pub(crate) struct TransformProgress {
    /// Transforms before this place have had their say.
    from: usize,
    /// What mods did that is worth a note.
    notes: Vec<String>,
    /// The event as it was sent, once it was changed.
    began: Option<Began>,
    /// A transform behind mod/workspace changed it.
    routed: bool,
}

/// An event before any mod changed it.
#[derive(Debug)]
struct Began {
    kind: String,
    target: String,
    sent_body: Option<[u8; 16]>,
}

/// What the mods made of an event.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) notes: Vec<String>,
    /// It is not the event that was sent.
    pub(crate) changed: bool,
    pub(crate) sent_body: Option<[u8; 16]>,
    /// A transform behind mod/workspace said who is meant.
    pub(crate) routed: bool,
}

/// How it goes on with an event.
pub(crate) enum Next {
    /// To its end.
    Through(Box<Walked>),
    /// As another event, this JSON, from here on.
    Changed(String, TransformProgress),
}

/// Whether mods that run elsewhere have a say: there are any, or were when the first of them was asked.
pub(crate) fn concerns(state: &State, answers: &Answers) -> bool {
    state.loaded.external || answers.mods.is_some() && !crate::bugs::on("unloaded mod has no say")
}

/// The mods an event passes: those that were loaded when the first of them was asked.
fn mods<'a>(state: &'a State, answers: &'a Answers) -> &'a [ModConfig] {
    answers.mods.as_deref().unwrap_or(&state.book.mods)
}

/// What one mod said, or the question for it.
#[allow(clippy::too_many_arguments, reason = "everything a question says")]
fn ask<'a>(
    state: &State,
    answers: &'a Answers,
    config: &ModConfig,
    step: CheckStage,
    shape: &ChangeableMembers<'_>,
    sender: CheckSender<'_>,
    fixed: Fixed<'_>,
) -> Result<&'a CheckOutcome, Stop> {
    if let Some(known) = answers.checked.iter().find(|c| c.name == config.name && c.step == step) {
        return Ok(&known.outcome);
    }
    let list = answers.mods.clone().unwrap_or_else(|| state.book.mods.clone().into());
    Err(Stop::Ask(Box::new(Question::Check(Box::new(check(state, config, step, shape.shown(fixed), sender, list))))))
}

fn check(
    state: &State,
    config: &ModConfig,
    step: CheckStage,
    event: String,
    sender: CheckSender<'_>,
    mods: Arc<[ModConfig]>,
) -> ModCheck {
    let context = json!({
        "network": state.book.id, "address": sender.address, "role": sender.role.map(Role::as_str),
        "verification": sender.verification,
    });
    ModCheck {
        name: config.name.clone(),
        runs: config.runs,
        deadline_ms: config.deadline(),
        step,
        event,
        context: context.to_string(),
        seq: None,
        mods,
        chain: sender.chain,
    }
}

fn failed(config: &ModConfig, reason: &str) -> Fault {
    Fault::new(
        ErrorCode::ModFailed,
        format!("mod/{} could not check this event: {reason}; nothing was stored, send it again later", config.name),
    )
    .by(&format!("mod/{}", config.name))
}

fn refused(config: &ModConfig, code: Option<&str>, message: Option<&str>) -> Fault {
    let text = message.map_or_else(|| format!("mod/{} refused this", config.name), str::to_owned);
    let fault = Fault::new(ErrorCode::Rejected, text).by(&format!("mod/{}", config.name));
    Fault { custom_code: code.map(Into::into), ..fault }
}

/// Asks the external guards in their order, between the others: what those refuse nobody is asked about.
#[allow(clippy::too_many_arguments, reason = "everything a question says")]
pub(crate) fn guards(
    state: &State,
    live: &mut VolatileState,
    answers: &Answers,
    step: CheckStage,
    shape: &ChangeableMembers<'_>,
    sender: CheckSender<'_>,
    fixed: Fixed<'_>,
    now: Clock,
) -> Result<(), Stop> {
    let mut metadata = Metadata::default();
    let view = super::PipelineInput {
        kind: &shape.kind,
        source: sender.member,
        address: sender.address,
        verification: sender.verification,
        broadcast: shape.target == "agent:broadcast",
        metadata: &mut metadata,
        stamp: fixed.stamp,
    };
    let mut limiter = None;
    for config in mods(state, answers).iter().filter(|m| m.mode == Mode::Guard && m.intercepts(&shape.kind)) {
        if config.runs.is_builtin() {
            // They judge for good when the event is committed; here they only keep what they would refuse from others.
            let verdict = match config.name.as_ref() {
                _ if sender.emitter.is_some() => Ok(()),
                "auth" => auth::check(state, config, &view, now),
                rate_limiter::NAME => {
                    limiter = Some(config);
                    rate_limiter::peek(&live.buckets, config, &view, now)
                }
                _ => Ok(()),
            };
            verdict.map_err(|fault| fault.by(&format!("mod/{}", config.name)))?;
            continue;
        }
        if sender.is_behind(config) {
            continue;
        }
        let fault = match ask(state, answers, config, step, shape, sender, fixed)? {
            CheckOutcome::Said(ModVerdict { said: Judgement::Pass | Judgement::Modified(_), .. }) => {
                if crate::bugs::on("only the first guard is asked") {
                    break;
                }
                continue;
            }
            CheckOutcome::Failed(_) if crate::bugs::on("guard that fails lets through") => continue,
            CheckOutcome::Said(ModVerdict { said: Judgement::Reject { code, message }, .. }) => {
                refused(config, code.as_deref(), message.as_deref())
            }
            CheckOutcome::Failed(reason) => failed(config, reason),
        };
        if let Some(limiter) = limiter {
            // What was asked about counts, also if it is refused.
            let _ = rate_limiter::check(&mut live.buckets, limiter, &view, now);
        }
        return Err(fault.into());
    }
    Ok(())
}

/// Lets the external mods have their say about an event of a member, before anything of it is decided.
pub(crate) fn walk(
    state: &State,
    live: &mut VolatileState,
    draft: &EmitDraft<'_, '_>,
    answers: &Answers,
    mut progress: TransformProgress,
    goes: &dyn Fn(&str) -> Result<(), Fault>,
    now: Clock,
) -> Result<Next, Stop> {
    let sender = CheckSender::member(state, draft.member, &draft.address);
    let fixed = Fixed {
        id: draft.envelope.id.as_deref(),
        source: &draft.address,
        network: &state.book.id,
        stamp: state.stamp(now.wall),
        sent_at: draft.envelope.timestamp,
    };
    let mut metadata = draft.metadata.clone();
    let mut shape = ChangeableMembers {
        kind: Cow::Borrowed(draft.envelope.kind.as_ref()),
        target: Cow::Borrowed(&draft.target),
        payload: Cow::Borrowed(draft.envelope.payload.as_ref()),
        metadata: metadata.to_json(),
        visibility: Some(draft.visibility),
    };
    if progress.from == 0 {
        guards(state, live, answers, CheckStage::Guard, &shape, sender, fixed, now)?;
    }
    if let Some(config) = addressee(state, answers, &draft.target) {
        mail(state, answers, config, &shape, sender, fixed)?;
    } else if !is_mail(state, &draft.target) {
        let list = mods(state, answers);
        for (at, config) in list.iter().enumerate().skip(progress.from) {
            if config.mode != Mode::Transform || !config.intercepts(&shape.kind) || sender.is_behind(config) {
                continue;
            }
            if config.runs.is_builtin() {
                preview(state, live, config, draft, &mut metadata, fixed.stamp)?;
                shape.metadata = metadata.to_json();
                continue;
            }
            let outcome = ask(state, answers, config, CheckStage::Transform, &shape, sender, fixed)?;
            let make = |changes: &EventChanges| {
                let text = shape.changed(changes, fixed)?;
                goes(&text).map(|()| text).map_err(|fault| fault.message)
            };
            if let Some(text) = transformed(config, outcome, make, &mut progress.notes)? {
                progress.from = at + 1;
                progress.routed |= list.iter().take(at).any(|m| is_routing(m, &shape.kind));
                if progress.began.is_none() {
                    progress.began = Some(Began::of(draft)?);
                }
                return Ok(Next::Changed(text, progress));
            }
        }
    }
    let elsewhere = progress.began.as_ref().is_some_and(|b| b.kind != shape.kind || b.target != shape.target);
    if elsewhere && !crate::bugs::on("changed event unguarded") {
        guards(state, live, answers, CheckStage::GuardAgain, &shape, sender, fixed, now)?;
    }
    let changed = progress.began.is_some();
    Ok(Next::Through(Box::new(Walked {
        notes: progress.notes,
        changed,
        sent_body: progress.began.and_then(|b| b.sent_body),
        routed: progress.routed,
    })))
}

/// What a transform makes of an event, if it changes it; what it cannot do or did not do is skipped or refused.
fn transformed<T>(
    config: &ModConfig,
    outcome: &CheckOutcome,
    make: impl FnOnce(&EventChanges) -> Result<T, String>,
    notes: &mut Vec<String>,
) -> Result<Option<T>, Fault> {
    let made = match outcome {
        CheckOutcome::Said(ModVerdict { said: Judgement::Pass, .. }) => return Ok(None),
        CheckOutcome::Said(ModVerdict { said: Judgement::Modified(changes), .. }) => make(changes),
        CheckOutcome::Said(ModVerdict { said: Judgement::Reject { .. }, .. }) => {
            Err("a transform cannot refuse".to_owned())
        }
        CheckOutcome::Failed(reason) => Err((*reason).to_owned()),
    };
    match made {
        Ok(made) => {
            notes.push(format!("mod/{}: modified", config.name));
            Ok(Some(made))
        }
        Err(reason) if config.on_error == OnError::Reject => Err(failed(config, &reason)),
        Err(reason) => {
            notes.push(format!("mod/{}: {reason}, skipped", config.name));
            Ok(None)
        }
    }
}

fn is_routing(config: &ModConfig, kind: &str) -> bool {
    config.name.as_ref() == workspace::NAME && config.intercepts(kind)
}

impl Began {
    fn of(draft: &EmitDraft<'_, '_>) -> Result<Began, Fault> {
        let envelope = draft.envelope;
        let sent_body = match (draft.sent_body, &envelope.id) {
            (Some(known), _) => Some(known),
            (None, None) => None,
            (None, Some(_)) => Some(crate::duplicate::sent_body(
                envelope,
                &draft.address,
                &draft.target,
                &draft.metadata,
                draft.visibility,
            )?),
        };
        Ok(Began { kind: envelope.kind.to_string(), target: draft.target.to_string(), sent_body })
    }
}

/// Brings metadata to where a builtin transform will leave it, for those behind it.
fn preview(
    state: &State,
    live: &VolatileState,
    config: &ModConfig,
    draft: &EmitDraft<'_, '_>,
    metadata: &mut Metadata<'_>,
    stamp: Millis,
) -> Result<(), Stop> {
    match config.name.as_ref() {
        enrichment::NAME => {
            let mut view = super::PipelineInput {
                kind: &draft.envelope.kind,
                source: Some(draft.member),
                address: &draft.address,
                verification: 0,
                broadcast: false,
                metadata,
                stamp,
            };
            enrichment::enrich(state, config, &mut view);
        }
        workspace::NAME => {
            let message = workspace::message(state, draft)?;
            message.into_iter().for_each(|message| message.preview(state, live, draft, metadata));
        }
        _ => {}
    }
    Ok(())
}

/// The external mod an event is addressed to.
pub(crate) fn addressee<'a>(state: &'a State, answers: &'a Answers, target: &str) -> Option<&'a ModConfig> {
    if !target.starts_with("mod/") {
        return None;
    }
    let address = Address::parse_in(target, &state.network).ok()?;
    let Entity::Mod(name) = address.entity() else { return None };
    mods(state, answers).iter().find(|m| m.name.as_ref() == name && !m.runs.is_builtin() && m.enabled)
}

/// Whether an event is for one mod alone, whoever runs it: no other transform has a say.
pub(crate) fn is_mail(state: &State, target: &str) -> bool {
    let to = || Address::parse_in(target, &state.network);
    target.contains("mod/") && to().is_ok_and(|to| matches!(to.entity(), Entity::Mod(_)))
}

/// Mail is the mod's once it took it: who sends it hears if it did not.
fn mail(
    state: &State,
    answers: &Answers,
    config: &ModConfig,
    shape: &ChangeableMembers<'_>,
    sender: CheckSender<'_>,
    fixed: Fixed<'_>,
) -> Result<(), Stop> {
    match ask(state, answers, config, CheckStage::Mail, shape, sender, fixed)? {
        CheckOutcome::Said(ModVerdict { said: Judgement::Pass | Judgement::Modified(_), .. }) => Ok(()),
        CheckOutcome::Said(ModVerdict { said: Judgement::Reject { code, message }, .. }) => {
            Err(refused(config, code.as_deref(), message.as_deref()).into())
        }
        CheckOutcome::Failed(reason) => Err(failed(config, reason).into()),
    }
}

/// Shows a decided event to the external observers.
pub(crate) fn observe(state: &State, record: &EventRecord, emitter: Option<(&str, EmitChain)>, fx: &mut Effects) {
    let event = &record.event;
    if is_exempt(event.event_type()) || event.target().starts_with("mod/") {
        return;
    }
    let observers = state
        .book
        .mods
        .iter()
        .filter(|m| m.mode == Mode::Observe && !m.runs.is_builtin() && m.intercepts(event.kind()));
    let member = record.route.source;
    let sender = match member {
        Some(id) => CheckSender::member(state, id, event.source()),
        None => CheckSender {
            address: event.source(),
            member: None,
            role: None,
            verification: 0,
            emitter: emitter.map(|(name, _)| name),
            chain: emitter.map(|(_, chain)| chain).unwrap_or_default(),
        },
    };
    for config in observers.filter(|config| !sender.is_behind(config)) {
        let mods: Arc<[ModConfig]> = Arc::default();
        let seq = Some(event.seq).filter(|seq| *seq > 0);
        let check = ModCheck { seq, ..check(state, config, CheckStage::Observe, event.json(), sender, mods) };
        fx.after.push(Effect::Observe(Box::new(check)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_one_event_is_bounded() {
        // Every event is answered by as many as a verdict may hold, for as long as any may follow.
        let (mut all, mut last) = (0, vec![EmitChain::default()]);
        while !last.is_empty() {
            last = last
                .into_iter()
                .flat_map(|chain| {
                    let (count, next) = chain.next(limits::MOD_EMITS_MAX);
                    std::iter::repeat_n(next, count)
                })
                .collect();
            all += last.len();
        }
        assert_eq!(all, limits::MOD_EMITS_PER_CAUSE_MAX as usize);
        // One after the other ends at the depth.
        let (mut chain, mut depth) = (EmitChain::default(), 0);
        while let (1, next) = chain.next(1) {
            (chain, depth) = (next, depth + 1);
        }
        assert_eq!(depth, limits::MOD_EMIT_DEPTH_MAX);
    }
}
