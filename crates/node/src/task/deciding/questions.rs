//! Answers to what the engine asks: at once where that takes no time, otherwise away from the task or by a mod.

use super::deferred::{DeferralReason, EventSource, PendingCheck, Resolution};
use super::{EventBatch, Task, planted};
use crate::blobs::{BlobError, Blobs, Staging};
use crate::schema::{Schema, Validators};
use rialto_engine::Clock;
use rialto_engine::input::{Answers, Content, Question, Stop};
use rialto_engine::mods::external::{CheckOutcome, FinishedCheck};
use rialto_model::{Envelope, ErrorCode, Fault, Millis};
use std::sync::Arc;

/// How long storing or reading content may take.
const CONTENT_MS_MAX: Millis = 60_000;
/// A payload of more bytes is checked against its schema away from the task.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// What an event waits for that needs something looked up.
pub(super) fn looked_up_until(now: Clock) -> DeferralReason {
    DeferralReason { deadline: now.steady.saturating_add(CONTENT_MS_MAX), ..DeferralReason::default() }
}

/// The refusal of an event for which it was not looked up in time.
pub(super) fn unfinished() -> Fault {
    Fault::new(
        ErrorCode::Timeout,
        "timed out: a look-up that this event needs did not finish, and nothing was stored; send it again with the same id",
    )
}

impl Task {
    /// Answers a question at once, or gives it back as [`Stop::Ask`] if that takes time.
    pub(super) fn answer_now(
        &self,
        question: Question,
        payload: &str,
        answers: &mut Answers,
        now: Clock,
    ) -> Result<(), Stop> {
        match question {
            Question::Check(check) => match self.is_reachable(&check.name, check.runs, now) {
                Ok(()) => return Err(Stop::Ask(Box::new(Question::Check(check)))),
                Err(reason) => {
                    let outcome = CheckOutcome::Failed(reason);
                    self.count_outcome(&check.name, &outcome, 0);
                    answers.mods = Some(check.mods);
                    answers.checked.push(FinishedCheck { name: check.name, step: check.step, outcome });
                }
            },
            Question::Schema { text } => {
                Schema::check(&text)?;
                answers.schema = true;
            }
            Question::Input { resource, version, schema, payload: changed }
                if changed.as_deref().unwrap_or(payload).len() <= INLINE_BYTES_MAX =>
            {
                let payload = changed.as_deref().unwrap_or(payload);
                self.validators.validate((resource, version), &schema, payload)?;
                answers.input = Some((resource, version));
            }
            Question::Output { resource, version, schema, payload: changed }
                if changed.as_deref().unwrap_or(payload).len() <= INLINE_BYTES_MAX =>
            {
                let payload = changed.as_deref().unwrap_or(payload);
                let fits = self.validators.validate(output_key(resource, version), &schema, payload).is_ok();
                answers.output = Some(((resource, version), fits));
            }
            Question::Blob { by, sha256 } => {
                let missing = || {
                    let text = "you have uploaded no such content: upload it first";
                    Fault::new(ErrorCode::UnknownTarget, text).field("blob")
                };
                let size = self.blobs.may_name(self.shared.number, by, &sha256).ok_or_else(missing)?;
                answers.blobs.push(Content { blob: sha256, size });
            }
            Question::Find { id } => {
                let record = self.find(&id)?;
                answers.found.push((id, record));
            }
            question @ (Question::Input { .. }
            | Question::Output { .. }
            | Question::Content { .. }
            | Question::Bytes { .. }) => return Err(Stop::Ask(Box::new(question))),
        }
        Ok(())
    }

    /// Puts a batch whose next event asks what takes time where it waits, and has the question answered.
    pub(super) fn ask(&mut self, source: EventSource, batch: EventBatch, question: Question, now: Clock) {
        let check = match question {
            Question::Check(check) => check,
            question @ (Question::Schema { .. }
            | Question::Input { .. }
            | Question::Output { .. }
            | Question::Content { .. }
            | Question::Find { .. }
            | Question::Bytes { .. }
            | Question::Blob { .. }) => {
                let frame = batch.texts.get(batch.next).map(<[u8]>::to_vec).unwrap_or_default();
                let ticket = self.deferred.wait(source, batch, looked_up_until(now));
                return self.find_out(ticket, question, frame);
            }
        };
        let asked = Some(PendingCheck { check: check.clone(), since: now.steady });
        if let Some(deadline) = self.awaits_connection_until(&batch, &check, now) {
            let unasked = Some(self.engine.state.book.mods_revision);
            self.deferred.wait(source, batch, DeferralReason { deadline, check: asked, unasked });
            return;
        }
        let deadline = now.steady.saturating_add(planted::patience(check.deadline_ms));
        let ticket = self.deferred.wait(source, batch, DeferralReason { deadline, check: asked, unasked: None });
        if let Err(reason) = self.put(ticket, &check, now) {
            self.deferred.resolve(ticket, Resolution::Verdict(CheckOutcome::Failed(reason)));
        }
    }

    /// Has a question answered away from the task.
    fn find_out(&self, ticket: u64, question: Question, frame: Vec<u8>) {
        let (blobs, validators, host) = (self.blobs.clone(), self.validators.clone(), self.host.clone());
        let quota = self.engine.state.book.settings.blob_bytes_max;
        let (network, resolver) = (self.shared.number, self.deferred.resolver());
        tokio::spawn(async move {
            let answer = match question {
                Question::Input { resource, version, schema, payload } => {
                    let key = (resource, version);
                    let checked = host.blocking(move || check(&validators, key, &schema, payload.as_deref(), &frame));
                    match checked.await {
                        Ok(Ok(())) => Resolution::Input(resource, version),
                        Ok(Err(fault)) => Resolution::Refused(fault),
                        Err(_) => Resolution::Refused(ErrorCode::Internal.into()),
                    }
                }
                Question::Output { resource, version, schema, payload } => {
                    let key = output_key(resource, version);
                    let fits = host.blocking(move || check(&validators, key, &schema, payload.as_deref(), &frame));
                    Resolution::Output(resource, version, matches!(fits.await, Ok(Ok(()))))
                }
                Question::Content { by, base, bytes } => {
                    let staging = Staging::new(network, by, quota);
                    match keep(&blobs, staging, base, &bytes).await {
                        Ok(content) => Resolution::Content(base, content),
                        Err(error) => Resolution::Refused(error.into()),
                    }
                }
                Question::Bytes { content, offset, length } => match fetch(&blobs, content, offset, length).await {
                    Ok(bytes) => Resolution::Bytes(content, offset, bytes.into()),
                    Err(error) => Resolution::Refused(error.into()),
                },
                Question::Check(_) | Question::Schema { .. } | Question::Blob { .. } | Question::Find { .. } => {
                    Resolution::Refused(ErrorCode::Internal.into())
                }
            };
            let _ = resolver.send((ticket, answer)).await;
        });
    }
}

/// The place of a tool's output schema among its validators: versions stay far below.
fn output_key(resource: u32, version: u64) -> (u32, u64) {
    (resource, version | 1 << 63)
}

/// Holds a payload against a schema: what a mod made of it, or the frame's own.
fn check(
    validators: &Validators,
    key: (u32, u64),
    schema: &str,
    changed: Option<&str>,
    frame: &[u8],
) -> Result<(), Fault> {
    if let Some(payload) = changed {
        return validators.validate(key, schema, payload);
    }
    let text = std::str::from_utf8(frame).unwrap_or_default();
    let envelope = Envelope::parse(text).map_err(|u| u.fault)?;
    validators.validate(key, schema, &envelope.payload)
}

/// Keeps content, after what it is appended to.
async fn keep(blobs: &Arc<Blobs>, staging: Staging, base: Option<Content>, bytes: &[u8]) -> Result<Content, BlobError> {
    let mut upload = blobs.stage(staging).await?;
    if let Some(base) = base
        && let Some(mut download) = blobs.open(&base.blob, 0..base.size).await?
    {
        while let Some(piece) = download.next().await? {
            upload.write(&piece).await?;
        }
    }
    upload.write(bytes).await?;
    let stored = upload.finish().await?;
    Ok(Content { blob: stored.hash, size: stored.size })
}

async fn fetch(blobs: &Arc<Blobs>, content: Content, offset: u64, length: u64) -> Result<Vec<u8>, BlobError> {
    let end = offset.saturating_add(length).min(content.size);
    let mut out = Vec::new();
    if let Some(mut download) = blobs.open(&content.blob, offset.min(end)..end).await? {
        while let Some(piece) = download.next().await? {
            out.extend_from_slice(&piece);
        }
    }
    Ok(out)
}
