//! What the walk decides: events, joins and queries, with what the node adds to what the engine judges: ids that were seen, fresh
//! secrets, room for responses.
//!
//! Invariant: secrets are read and hashed here; the engine sees hashes only.

use super::{Incoming, Task};
use crate::budget::Charge;
use crate::command::Answered;
use crate::metrics::Counters;
use crate::query::Query;
use bytes::Bytes;
use rialto_engine::input::{Accepted, Answers, Emit, KnownId, Proofs, Resume, Stop};
use rialto_engine::mods::external::EmitChain;
use rialto_engine::{AckRequest, Caller, Clock, Principal};
use rialto_identity::{Secret, sha256};
use rialto_model::{Envelope, ErrorCode, Event, EventId, EventParts, EventType, Fault, Visibility, limits};
use serde_json::Value;
use std::sync::Arc;

/// Requests that are answered with lists or content.
fn reads_much(kind: EventType<'_>) -> bool {
    matches!(kind, EventType::AgentDiscover | EventType::ResourceDiscover | EventType::ResourceRead)
}

/// The refusal of a request that does not fit into the answer to its batch.
pub fn too_much_at_once() -> Fault {
    let limit = limits::BATCH_RESPONSE_BYTES_MAX;
    let text = format!(
        "the responses to earlier events of this batch fill its answer ({limit} bytes); send this one in a batch of its own"
    );
    Fault::new(ErrorCode::TooLarge, text).details(serde_json::json!({ "limit": limit }))
}

/// What a join shows besides its envelope.
struct JoinRequest {
    /// The caller, with the session that the join shows.
    caller: Caller,
    payload: Value,
}

impl JoinRequest {
    fn read(event: &Incoming<'_>) -> JoinRequest {
        let payload = serde_json::from_str(&event.envelope.payload).unwrap_or_default();
        let mut join = JoinRequest { caller: event.caller.clone(), payload };
        if let Some(hash) = join.text("session_id").map(sha256) {
            join.caller.session = Some(hash);
        }
        join
    }

    fn text(&self, member: &str) -> Option<&str> {
        self.payload.get(member).and_then(Value::as_str)
    }
}

impl Task {
    /// Decides an event, or a join, with the engine; what the engine asks is answered here if that takes no time.
    pub(super) fn decide_event(
        &mut self,
        event: &Incoming<'_>,
        answers: &mut Answers,
        now: Clock,
    ) -> Result<Answered, Stop> {
        let envelope = event.envelope;
        let charge = self.charge_for_response(event, now)?;
        let join = (event.kind == EventType::AgentJoin).then(|| JoinRequest::read(event));
        let seen = self.seen(envelope.id.as_deref())?;
        let secret = self.fresh_secret(event.kind)?;
        let mut emit = Emit {
            caller: join.as_ref().map_or(event.caller, |join| &join.caller),
            envelope,
            received: received_hash(envelope, event.text),
            seen,
            proofs: join.as_ref().map(|join| proofs(&join.payload)).unwrap_or_default(),
            fresh_session: secret.as_ref().map_or([0; 32], Secret::sha256),
            resume: self.resume_point(join.as_ref().and_then(|join| join.text("resume_after")))?,
            answers: std::mem::take(answers),
        };
        let decided = self.answering(&mut emit, answers, now, |task, emit| task.engine.emit(emit, now, &mut task.fx));
        let decided = match decided {
            Ok(accepted) => Ok(accepted),
            Err(Stop::Refused(fault)) => Err(fault),
            Err(stop @ Stop::Ask(_)) => return Err(stop),
        };
        let textless = (!envelope.may_hold_text).then_some(envelope.payload.as_ref());
        let decided = self.decided_of(decided, textless);
        self.follow_verdicts(&mut emit.answers, EmitChain::default(), decided.as_ref().ok());
        let mut accepted = decided?;
        let session_id = match (&join, &secret) {
            (Some(join), Some(secret)) => self.finish_join(join, &mut accepted, secret, now),
            (None, Some(secret)) => {
                self.hand_over(&mut accepted, secret);
                None
            }
            (_, None) => None,
        };
        if let (Some(_), Some(sent)) = (&join, &envelope.id) {
            // Each join is an act of its own, also under an id that was used before: the answer names the id that was sent.
            accepted.named = Some(sent.as_ref().into());
        }
        if accepted.duplicate {
            Counters::add(&self.shared.counters.duplicates, 1);
        }
        let silent = accepted.silent;
        let mut answered = Answered { silent, session_id, ..self.answered(None, Ok(accepted)) };
        if let Some(mut charge) = charge {
            let bytes = answered.response_bytes();
            charge.resize(bytes);
            answered.charge = (bytes > 0).then(|| Arc::new(charge));
        }
        Ok(answered)
    }

    /// `network.events.query`: judged here, run by whoever answers the client.
    pub(super) fn decide_query(
        &mut self,
        event: &Incoming<'_>,
        answers: &mut Answers,
        now: Clock,
    ) -> Result<Answered, Stop> {
        let envelope = event.envelope;
        let member = self.member_of(event.caller, now)?;
        let mut emit = Emit {
            caller: event.caller,
            envelope,
            received: 0,
            seen: KnownId::New,
            proofs: Proofs::default(),
            fresh_session: [0; 32],
            resume: Resume::None,
            answers: std::mem::take(answers),
        };
        let judged = self.answering(&mut emit, answers, now, |task, emit| task.engine.request(emit, member, now));
        self.follow_verdicts(&mut emit.answers, EmitChain::default(), None);
        judged?;
        let payload: Value = serde_json::from_str(&envelope.payload)
            .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))?;
        let query = Query::from_payload(&payload)?;
        query.checked_limit()?;
        if !self.engine.state.has_mod("persistence") {
            let text = "this network keeps no history (mod/persistence is not loaded)";
            return Err(Fault::new(ErrorCode::HistoryUnavailable, text).into());
        }
        let named = Some(event.id().unwrap_or_else(|| self.own_id(now)).into());
        let accepted = Accepted { named, ..Accepted::default() };
        Ok(Answered { query: Some(Box::new(query)), ..self.answered(None, Ok(accepted)) })
    }

    /// Has the engine judge an input, and answers what it asks. A question that takes time to answer comes back, with the answers so far.
    fn answering<T>(
        &mut self,
        emit: &mut Emit<'_>,
        answers: &mut Answers,
        now: Clock,
        mut judge: impl FnMut(&mut Task, &Emit<'_>) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        loop {
            let question = match judge(self, emit) {
                Err(Stop::Ask(question)) => question,
                judged => return judged,
            };
            if let Err(stop) = self.answer_now(*question, &emit.envelope.payload, &mut emit.answers, now) {
                if matches!(stop, Stop::Ask(_)) {
                    *answers = std::mem::take(&mut emit.answers);
                }
                return Err(stop);
            }
        }
    }

    /// A request whose response may be large is charged for before it is made, and refused where there is no room.
    fn charge_for_response(&self, event: &Incoming<'_>, now: Clock) -> Result<Option<Charge>, Fault> {
        if !reads_much(event.kind) {
            return Ok(None);
        }
        if self.walk.response_room == 0 {
            return Err(too_much_at_once());
        }
        let principal = self.engine.state.principal(event.caller, event.envelope.source.as_deref(), now);
        let Ok(Principal::Member(member)) = principal else { return Ok(None) };
        let account = self.shared.directory.accounts.member_of(self.shared.number, member);
        account.charge_now(limits::PAGE_BYTES_MAX).map(Some)
    }

    /// The secret of the session or the invitation that an event may make: the engine gets its hash, the sender the secret itself.
    fn fresh_secret(&self, kind: EventType<'_>) -> Result<Option<Secret>, Fault> {
        if !matches!(kind, EventType::AgentJoin | EventType::InvitationCreated) {
            return Ok(None);
        }
        self.host.secret().map(Some).map_err(|error| {
            tracing::error!(%error, %kind, "no randomness for a secret");
            ErrorCode::Internal.into()
        })
    }

    /// Acks what a join resumes after, and puts into its answer what the engine does not know. Returns the secret of the session.
    fn finish_join(
        &mut self,
        join: &JoinRequest,
        accepted: &mut Accepted,
        fresh: &Secret,
        now: Clock,
    ) -> Option<Arc<str>> {
        let mut session_id: Option<Arc<str>> = None;
        if let Some(joined) = &accepted.joined {
            if let Some(up_to) = joined.resume_after {
                let request = AckRequest { up_to: Some(up_to), ..Default::default() };
                self.engine.ack(joined.session.member, &request, now, &mut self.fx);
                let _ = self.decided(Ok(()));
            }
            let shown = if joined.issued { Some(fresh.expose()) } else { join.text("session_id") };
            session_id = shown.map(Arc::from);
        }
        let head = self.record_at(self.engine.state.book.head).ok().flatten();
        if let Some(map) = accepted.result.as_deref_mut().and_then(Value::as_object_mut) {
            map.insert("head_id".into(), head.map(|record| record.event.id().to_owned()).into());
            if let Some(session) = &session_id {
                map.insert("session_id".into(), Value::from(session.as_ref()));
            }
        }
        session_id
    }

    /// Puts the secret of an invitation that was just made into its answer, and nowhere else.
    fn hand_over(&self, accepted: &mut Accepted, secret: &Secret) {
        let result = accepted.result.as_deref_mut().filter(|_| !accepted.duplicate).and_then(Value::as_object_mut);
        if let Some(map) = result.filter(|map| map.contains_key("invitation_id")) {
            map.insert("code".into(), secret.expose().into());
            map.insert("url".into(), crate::workspace::url(&self.shared.id, secret.expose()).into());
        }
    }

    /// Gives a frame without an id the one that follows from its sender and the key.
    pub(in crate::task) fn keyed(&self, caller: &Caller, key: &str, frame: Bytes, now: Clock) -> Bytes {
        let Some(text) = std::str::from_utf8(&frame).ok().map(str::trim_start) else { return frame };
        let said = Envelope::parse(text).ok().and_then(|e| e.source.map(std::borrow::Cow::into_owned));
        let sender = match self.engine.state.principal(caller, said.as_deref(), now) {
            // By its first name: a key is good after a rename too.
            Ok(Principal::Member(id)) => {
                self.engine.state.member(id).map(|m| m.former.first().unwrap_or(&m.address).to_string())
            }
            Ok(Principal::Operator | Principal::Holder { .. }) | Err(_) => {
                said.or(caller.claimed.as_deref().map(str::to_owned))
            }
        };
        let material = format!("{}\0{key}", sender.unwrap_or_default());
        let hash = match self.engine.state.book.id_key {
            Some(secret) => {
                let hash = sha256(&format!("{:032x}\0{material}", u128::from_be_bytes(secret)));
                hash.first_chunk().map_or(0, |first| u128::from_be_bytes(*first))
            }
            // A key that was used before an upgrade still means the same event.
            None => xxhash_rust::xxh3::xxh3_128(material.as_bytes()),
        };
        let id = format!("http:{hash:032x}");
        let Some(rest) = text.strip_prefix('{') else { return frame };
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        Bytes::from(format!("{{\"id\":\"{id}\"{comma}{rest}"))
    }

    fn seen(&self, id: Option<&str>) -> Result<KnownId, Fault> {
        match id {
            Some(id) => Ok(self.find(id)?.map_or(KnownId::New, KnownId::Known)),
            None => Ok(KnownId::New),
        }
    }

    pub(in crate::task) fn answered(&self, id: Option<String>, result: Result<Accepted, Fault>) -> Answered {
        let durability = self.engine.state.book.settings.durability;
        let result = result.map_err(|fault| self.shared.directory.locate(fault));
        Answered { refused: id, result, durability, query: None, silent: false, session_id: None, charge: None }
    }

    pub(in crate::task) fn own_id(&mut self, now: Clock) -> String {
        self.engine.live.signals += 1;
        EventId {
            at: self.engine.state.stamp(now.wall),
            seq: (1 << 63) | self.engine.live.signals,
            salt: self.engine.state.book.salt,
        }
        .to_text()
    }

    /// An event of the network's own that is never stored, for one member or stream.
    pub(in crate::task) fn own_event(
        &mut self,
        kind: EventType<'_>,
        (source, target): (&str, &str),
        payload: &str,
        metadata: &str,
        now: Clock,
    ) -> Event {
        let parts = EventParts {
            id: &self.own_id(now),
            kind: kind.as_str(),
            source,
            target,
            payload,
            metadata,
            timestamp: self.engine.state.stamp(now.wall),
            network: &self.shared.id,
            visibility: Visibility::Direct,
        };
        Event::new(0, &parts)
    }

    /// Where a join resumes: after something that was committed.
    fn resume_point(&self, cursor: Option<&str>) -> Result<Resume, Fault> {
        let Some(cursor) = cursor else { return Ok(Resume::None) };
        let seq = match cursor.strip_prefix("seq:").and_then(|n| n.parse().ok()) {
            Some(seq) => Some(seq),
            None => self.find(cursor)?.map(|r| r.event.seq),
        };
        Ok(seq.filter(|s| *s <= self.committed).map_or(Resume::Unknown, Resume::After))
    }

    /// Answers a stream that has not joined: it may ping, and nothing else.
    pub(super) fn answer_before_join(&mut self, event: &Incoming<'_>, now: Clock) -> Answered {
        if event.kind == EventType::Ping {
            let pong = self.early_pong(event.envelope, now);
            return Answered { silent: true, ..self.answered(None, Ok(pong)) };
        }
        let text = "the first event on a connection must be network.agent.join";
        self.answered(event.id(), Err(Fault::new(ErrorCode::JoinRequired, text)))
    }

    fn early_pong(&mut self, envelope: &Envelope<'_>, now: Clock) -> Accepted {
        let sent: Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
        let mut payload = serde_json::json!({ "server_time": now.wall });
        if let (Some(t), Some(map)) = (sent.get("t"), payload.as_object_mut()) {
            map.insert("t".into(), t.clone());
        }
        let metadata = envelope
            .id
            .as_deref()
            .map_or_else(|| "{}".to_owned(), |id| serde_json::json!({ "in_reply_to": id }).to_string());
        let event = self.own_event(EventType::Pong, ("core", "core"), &payload.to_string(), &metadata, now);
        let named = Some(event.id().into());
        Accepted { named, response: Some(Arc::new(event)), silent: true, ..Accepted::default() }
    }
}

/// Only ids that may come again are worth a hash.
fn received_hash(envelope: &Envelope<'_>, text: &str) -> u128 {
    if envelope.id.is_some() { xxhash_rust::xxh3::xxh3_128(text.as_bytes()) } else { 0 }
}

/// Tokens and proofs of a join payload: `credentials` as an object or as plain text, and compat's `token`.
fn proofs(payload: &Value) -> Proofs {
    let mut out = Proofs::default();
    let mut token = |value: Option<&Value>| {
        if let Some(text) = value.and_then(Value::as_str) {
            out.tokens.push(sha256(text));
        }
    };
    token(payload.get("token"));
    let credentials = payload.get("credentials");
    match credentials {
        Some(text @ Value::String(_)) => token(Some(text)),
        Some(Value::Object(map)) => {
            token(map.get("token"));
            out.invite = map.get("invite").and_then(Value::as_str).map(sha256);
            let unsupported = ["key", "jwt", "did"].into_iter().find(|k| map.get(*k).is_some_and(|v| !v.is_null()));
            if let Some(kind) = unsupported {
                out.failed =
                    Some(Fault::new(ErrorCode::Unsupported, format!("proof by {kind} is not offered here yet")));
            }
        }
        _ => {}
    }
    out
}
