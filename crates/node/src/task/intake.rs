//! One received frame: parse, look up its id, read its credentials, decide.

use super::acks::Sought;
use super::checks::Cause;
use super::park::{Held, Source};
use super::{Task, Then};
use crate::command::{Answered, Reply};
use crate::metrics::Counters;
use crate::query::Query;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_engine::input::{Accepted, Answers, Emit, Proofs, Question, Resume, Seen, Stop};
use rialto_engine::mods::external::Chain;
use rialto_engine::{Caller, Clock, Effect, MemberId, Principal, Route, StreamKey};
use rialto_identity::{Secret, sha256};
use rialto_model::{Address, Envelope, ErrorCode, Event, EventId, EventParts, EventType, Fault, Visibility, limits};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Why a frame is not decided now. Boxed by who returns it.
#[allow(clippy::large_enum_variant, reason = "one at a time, and boxed")]
pub(super) enum Detour {
    /// It goes behind what waits of the same source.
    Behind(Source),
    /// Something must be known first.
    Ask(Source, Question, Answers),
    /// An ack names old events, which have to be found first.
    LookUp(MemberId, Sought),
}

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

impl Task {
    /// Decides a connection's frames; answers wait for the commit.
    pub(super) fn emit(&mut self, connection: u64, caller: &Arc<Caller>, texts: Texts, reply: Reply, now: Clock) {
        self.token_shown(caller.bearer.as_ref(), now);
        let backwards = rialto_engine::bugs::on("batch reordered");
        let texts = if backwards {
            let mut list: Vec<&[u8]> = texts.iter().collect();
            list.reverse();
            list.into_iter().collect()
        } else {
            texts
        };
        let answered = Vec::with_capacity(texts.len());
        let answers = Answers::default();
        let held = Held {
            connection,
            caller: caller.clone(),
            texts,
            at: 0,
            reply,
            answered,
            answers,
            emitter: None,
            session: None,
        };
        self.go_on(held, None, now);
        if let (true, Some(Then::Answers(_, answers, _))) = (backwards, self.then.last_mut()) {
            answers.reverse();
        }
        self.settle(now);
    }

    /// Decides one text. A stream's connection is named.
    #[allow(clippy::too_many_arguments, reason = "who says what, and what is known of it")]
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other type is an event to be decided")]
    pub(super) fn frame(
        &mut self,
        caller: &Arc<Caller>,
        connection: Option<u64>,
        joined: &Caller,
        frame: &[u8],
        answers: Answers,
        resumed: Option<&Source>,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let Ok(text) = simdutf8::basic::from_utf8(frame) else {
            return Ok(self.answered(None, Err(Fault::new(ErrorCode::InvalidJson, "the frame is not UTF-8 text"))));
        };
        let envelope = match Envelope::parse_after(text, &mut self.beginning) {
            Ok(envelope) => envelope,
            Err(_) if is_long_batch(text) => {
                let what = format!("a batch is at most {} events", limits::BATCH_EVENTS_MAX);
                return Ok(self.answered(None, Err(Fault::new(ErrorCode::TooLarge, what))));
            }
            Err(unreadable) => return Ok(self.answered(unreadable.id, Err(unreadable.fault))),
        };
        let kind = envelope.event_type();
        let joins = kind == EventType::AgentJoin;
        if let Some(waits) = connection.and_then(|c| self.joining.get(&c)).filter(|waits| resumed != Some(*waits)) {
            return Err(Box::new(Detour::Behind(waits.clone())));
        }
        if connection.is_some() && joined.stream.is_none() && !joins {
            if kind == EventType::Ping {
                let pong = self.early_pong(&envelope, now);
                return Ok(Answered { silent: true, ..self.answered(None, Ok(pong)) });
            }
            let first =
                Fault::new(ErrorCode::JoinRequired, "the first event on a connection must be network.agent.join");
            return Ok(self.answered(envelope.id.as_deref().map(str::to_owned), Err(first)));
        }
        let caller = if joined.stream.is_some() && !joins { joined } else { caller.as_ref() };
        match kind {
            EventType::EventAck => return self.ack_frame(caller, &envelope, resumed, now),
            // A mod's word is not kept waiting by what the mod's server sends.
            EventType::ModVerdict => return Ok(self.verdict_frame(caller, &envelope, now)),
            _ => {}
        }
        if !self.lanes.is_empty() {
            let source = self.source(caller, &envelope, now);
            if let Ok(source) = source
                && resumed != Some(&source)
                && self.lanes.contains_key(&source)
                && !rialto_engine::bugs::on("later event overtakes a parked one")
            {
                return Err(Box::new(Detour::Behind(source)));
            }
        }
        match kind {
            EventType::EventsQuery => self.query_frame(caller, &envelope, answers, now),
            EventType::AgentJoin => self.join_frame(caller, &envelope, text, answers, now),
            kind if reads_much(kind) => self.reading_frame(caller, &envelope, text, answers, now),
            _ => self.event_frame(caller, &envelope, text, answers, now),
        }
    }

    /// A request whose response may be large: it is charged for before it is made, and refused where there is no room.
    fn reading_frame(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        text: &str,
        answers: Answers,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let id = || envelope.id.as_deref().map(str::to_owned);
        if self.response_room == 0 {
            return Ok(self.answered(id(), Err(too_much_at_once())));
        }
        let member = self.engine.state.principal(caller, envelope.source.as_deref(), now);
        let Ok(Principal::Member(member)) = member else {
            return self.event_frame(caller, envelope, text, answers, now);
        };
        let account = self.shared.directory.accounts.member_of(self.shared.number, member);
        let mut charge = match account.charge_now(limits::PAGE_BYTES_MAX) {
            Ok(charge) => charge,
            Err(fault) => return Ok(self.answered(id(), Err(fault))),
        };
        let mut answered = self.event_frame(caller, envelope, text, answers, now)?;
        let bytes = answered.response_bytes();
        charge.resize(bytes);
        answered.charge = (bytes > 0).then(|| Arc::new(charge));
        Ok(answered)
    }

    /// Whose event this is, as far as its order goes.
    fn source(&self, caller: &Caller, envelope: &Envelope<'_>, now: Clock) -> Result<Source, Fault> {
        let said = envelope.source.as_deref();
        if envelope.event_type() != EventType::AgentJoin {
            let principal = self.engine.state.principal(caller, said, now)?;
            if let Principal::Member(id) = principal {
                return Ok(Source::Member(id));
            }
        }
        let payload: Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
        let agent = payload.get("agent_id").and_then(Value::as_str);
        let said = said.or(agent).or(caller.claimed.as_deref());
        let address = said.and_then(|said| Address::parse_in(said, &self.engine.state.network).ok());
        let address = address.ok_or_else(|| Fault::new(ErrorCode::NotAMember, "join first"))?;
        Ok(Source::Guest(address.as_str().into()))
    }

    /// Answers a question now, or says whom it keeps waiting.
    fn detour(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        question: Question,
        answers: &mut Answers,
        now: Clock,
    ) -> Result<Option<Box<Detour>>, Fault> {
        let Some(question) = self.answer_inline(question, &envelope.payload, answers, now)? else { return Ok(None) };
        let _ = self.decided::<()>(Err(ErrorCode::Internal.into()));
        let source = self.source(caller, envelope, now)?;
        Ok(Some(Box::new(Detour::Ask(source, question, std::mem::take(answers)))))
    }

    /// An event for the engine; what it asks is answered here if that takes no time.
    fn event_frame(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        text: &str,
        answers: Answers,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let id = || envelope.id.as_deref().map(str::to_owned);
        let seen = match self.seen(envelope.id.as_deref()) {
            Ok(seen) => seen,
            Err(fault) => return Ok(self.answered(id(), Err(fault))),
        };
        let secret = match self.invitation_secret(envelope.event_type()) {
            Ok(secret) => secret,
            Err(fault) => return Ok(self.answered(id(), Err(fault))),
        };
        let mut emit = Emit {
            caller,
            envelope,
            received: received_hash(envelope, text),
            seen,
            proofs: Proofs::default(),
            fresh_session: secret.as_ref().map_or([0; 32], Secret::sha256),
            resume: Resume::None,
            answers,
        };
        let result = loop {
            let question = match self.engine.emit(&emit, now, &mut self.fx) {
                Ok(accepted) => break Ok(accepted),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => *question,
            };
            match self.detour(caller, envelope, question, &mut emit.answers, now) {
                Ok(None) => {}
                Ok(Some(detour)) => return Err(detour),
                Err(fault) => break Err(fault),
            }
        };
        let textless = (!envelope.may_hold_text).then_some(envelope.payload.as_ref());
        let mut result = self.decided_of(result, textless);
        if !emit.answers.checked.is_empty() {
            let accepted = result.as_ref().ok();
            let named = accepted.map(|accepted| accepted.event_id().to_owned());
            let cause = Cause { seq: accepted.and_then(|accepted| accepted.seq), id: named.as_deref() };
            self.follow(&mut emit.answers, Chain::default(), cause);
        }
        if let (Ok(accepted), Some(secret)) = (&mut result, &secret) {
            self.hand_over(accepted, secret);
        }
        if result.as_ref().is_ok_and(|a| a.duplicate) {
            Counters::add(&self.shared.counters.duplicates, 1);
        }
        let silent = result.as_ref().is_ok_and(|a| a.silent);
        let refused = if result.is_err() { id() } else { None };
        Ok(Answered { silent, ..self.answered(refused, result) })
    }

    /// A fresh secret for an event that invites somebody: the engine gets its hash, the sender the secret itself.
    fn invitation_secret(&self, kind: EventType<'_>) -> Result<Option<Secret>, Fault> {
        if kind != EventType::InvitationCreated {
            return Ok(None);
        }
        self.host.secret().map(Some).map_err(|error| {
            tracing::error!(%error, "no randomness for an invitation");
            ErrorCode::Internal.into()
        })
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
    pub(super) fn keyed(&self, caller: &Caller, key: &str, frame: Bytes, now: Clock) -> Bytes {
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

    fn seen(&self, id: Option<&str>) -> Result<Seen, Fault> {
        match id {
            Some(id) => Ok(self.find(id)?.map_or(Seen::New, Seen::Known)),
            None => Ok(Seen::New),
        }
    }

    pub(super) fn answered(&self, id: Option<String>, result: Result<Accepted, Fault>) -> Answered {
        let durability = self.engine.state.book.settings.durability;
        let result = result.map_err(|fault| self.shared.directory.locate(fault));
        Answered { refused: id, result, durability, query: None, silent: false, session_id: None, charge: None }
    }

    /// `network.event.ack`: nothing is answered unless it is wrong. What its sender sends next comes after it, also when it names events
    /// that have to be looked up.
    fn ack_frame(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        resumed: Option<&Source>,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let id = envelope.id.as_deref().map(str::to_owned);
        match self.try_ack(caller, envelope, now) {
            Ok(Some((member, sought))) if self.may_wait_for_ack(member, resumed) => {
                Err(Box::new(Detour::LookUp(member, sought)))
            }
            Ok(Some((member, sought))) => {
                self.look_up(0, member, sought);
                Ok(self.ack_taken(id))
            }
            Ok(None) => Ok(self.ack_taken(id)),
            Err(fault) => Ok(self.answered(id, Err(fault))),
        }
    }

    /// The answer to an ack, which nobody hears.
    pub(super) fn ack_taken(&self, id: Option<String>) -> Answered {
        let accepted = Accepted { named: id.as_deref().map(Into::into), silent: true, ..Accepted::default() };
        Answered { silent: true, ..self.answered(id, Ok(accepted)) }
    }

    /// Acks what is at hand; gives who acks, and what has to be looked up.
    fn try_ack(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        now: Clock,
    ) -> Result<Option<(MemberId, Sought)>, Fault> {
        let member = self.member_of(caller, now)?;
        self.engine.guard(&envelope.kind, member, now)?;
        let own = self.engine.state.member(member).map(|m| m.address.clone()).unwrap_or_default();
        if let Some(source) = &envelope.source {
            let said = rialto_model::Address::parse_in(source, &self.engine.state.network)
                .map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()).field("source"))?;
            if self.engine.state.known_as(said.as_str()) != Some(member) {
                return Err(Fault::new(ErrorCode::SourceMismatch, format!("this session belongs to {own}, not to the source given: leave source out, or show the other's session")).field("source"));
            }
        }
        #[derive(serde::Deserialize, Default)]
        struct Ack {
            #[serde(default)]
            ids: Option<Vec<String>>,
            #[serde(default)]
            up_to: Option<String>,
        }
        let ack: Ack = serde_json::from_str(&envelope.payload).map_err(|e| {
            Fault::new(ErrorCode::InvalidPayload, format!("an ack must have ids or up_to: {e}")).field("payload")
        })?;
        let mut ids = ack.ids.unwrap_or_default();
        let metadata = rialto_model::metadata::Metadata::parse(envelope.metadata)?;
        let answers = metadata.text("in_reply_to").map(std::borrow::Cow::into_owned);
        if let Some(sender) = self.ack_target(envelope)? {
            let id = answers.ok_or_else(|| {
                Fault::new(ErrorCode::InvalidEvent, "an ack to a sender must name its event in metadata.in_reply_to")
                    .field("metadata")
            })?;
            self.ack_to_sender(member, &sender, &id, envelope, now);
            return Ok(None);
        }
        if ids.is_empty() && ack.up_to.is_none() {
            let nothing = || Fault::new(ErrorCode::InvalidPayload, "an ack must name ids, up_to or in_reply_to");
            ids.push(answers.ok_or_else(|| nothing().field("payload"))?);
        }
        Ok(self.ack_named(member, ids, ack.up_to, now)?.map(|sought| (member, sought)))
    }

    /// Whom an ack goes to besides the network; none if it is for core alone.
    fn ack_target(&self, envelope: &Envelope<'_>) -> Result<Option<Address>, Fault> {
        let target = Address::parse_in(&envelope.target, &self.engine.state.network)
            .map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()).field("target"))?;
        if target.as_str() == "core" {
            return Ok(None);
        }
        if target.is_principal() && !target.is_foreign() {
            return Ok(Some(target));
        }
        Err(Fault::new(ErrorCode::InvalidEvent, "an ack must be sent to core or to the sender of the event")
            .field("target"))
    }

    /// An ack that its recipient sends to the event's sender: it acks, and the sender hears of it, once.
    fn ack_to_sender(&mut self, member: u32, sender: &Address, id: &str, envelope: &Envelope<'_>, now: Clock) {
        let Some(record) = self.find(id).ok().flatten() else { return };
        let named = self.engine.state.known_as(sender.as_str());
        let (Some(to), seq) = (record.route.source.filter(|id| named == Some(*id)), record.event.seq) else { return };
        if self.engine.answered_by_ack(member, id, &envelope.payload, now, &mut self.fx) {
            let _ = self.decided(Ok(()));
            self.ack(member, &rialto_engine::AckRequest { seqs: vec![seq], up_to: None, count: false }, now);
            return;
        }
        let heard = (self.fx.after.len(), self.events.len());
        let request = rialto_engine::AckRequest { seqs: vec![seq], up_to: None, count: true };
        // A sender that asked for a receipt gets that one.
        if self.ack(member, &request, now) == 0 || (self.fx.after.len(), self.events.len()) != heard {
            return;
        }
        let source = self.engine.state.member(member).map(|m| m.address.clone()).unwrap_or_default();
        let own = self.own_id(now);
        let metadata = serde_json::json!({ "in_reply_to": id }).to_string();
        let event = Event::new(
            0,
            &EventParts {
                id: &own,
                kind: EventType::EventAck.as_str(),
                source: &source,
                target: sender.as_str(),
                payload: &envelope.payload,
                metadata: &metadata,
                timestamp: self.engine.state.stamp(now.wall),
                network: &self.shared.id,
                visibility: Visibility::Direct,
            },
        );
        let route = Route { stream: Some(StreamKey::Inbox(to)), source: Some(member), ..Route::default() };
        self.fx.after.push(Effect::Signal { event: Arc::new(event), route, after: None });
        // Somebody sees this ack's effect, so it is committed first.
        self.urgent = true;
        let _ = self.decided(Ok(()));
    }

    /// `network.events.query`: accepted here, run by whoever answers the client.
    fn query_frame(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        answers: Answers,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let id = envelope.id.as_deref().map(str::to_owned);
        let mut emit = Emit {
            caller,
            envelope,
            received: 0,
            seen: Seen::New,
            proofs: Proofs::default(),
            fresh_session: [0; 32],
            resume: Resume::None,
            answers,
        };
        let member = match self.member_of(caller, now) {
            Ok(member) => member,
            Err(fault) => return Ok(self.answered(id, Err(fault))),
        };
        let asked = loop {
            match self.engine.request(&emit, member, now) {
                Ok(()) => break Ok(()),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => match self.detour(caller, envelope, *question, &mut emit.answers, now) {
                    Ok(None) => {}
                    Ok(Some(detour)) => return Err(detour),
                    Err(fault) => break Err(fault),
                },
            }
        };
        self.follow(&mut emit.answers, Chain::default(), Cause::default());
        let query = asked.and_then(|()| {
            let payload: Value = serde_json::from_str(&envelope.payload)
                .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))?;
            let query = Query::from_payload(&payload)?;
            query.checked_limit()?;
            if !self.engine.state.has_mod("persistence") {
                return Err(Fault::new(
                    ErrorCode::HistoryUnavailable,
                    "this network keeps no history (mod/persistence is not loaded)",
                ));
            }
            Ok(query)
        });
        Ok(match query {
            Ok(query) => {
                let event_id = id.clone().unwrap_or_else(|| self.own_id(now));
                let accepted = Accepted { named: Some(event_id.into()), ..Accepted::default() };
                Answered { query: Some(Box::new(query)), ..self.answered(None, Ok(accepted)) }
            }
            Err(fault) => self.answered(id, Err(fault)),
        })
    }

    pub(super) fn own_id(&mut self, now: Clock) -> String {
        self.engine.live.signals += 1;
        EventId {
            at: self.engine.state.stamp(now.wall),
            seq: (1 << 63) | self.engine.live.signals,
            salt: self.engine.state.book.salt,
        }
        .to_text()
    }

    /// `network.agent.join`: credentials are read and hashed here; the engine sees hashes only.
    fn join_frame(
        &mut self,
        caller: &Caller,
        envelope: &Envelope<'_>,
        text: &str,
        answers: Answers,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let id = envelope.id.as_deref().map(str::to_owned);
        let payload: Value = serde_json::from_str(&envelope.payload).unwrap_or_default();
        let fresh = match self.host.secret() {
            Ok(secret) => secret,
            Err(error) => {
                tracing::error!(%error, "no randomness for a session");
                return Ok(self.answered(id, Err(ErrorCode::Internal.into())));
            }
        };
        let mut caller = caller.clone();
        if let Some(session) = payload.get("session_id").and_then(Value::as_str) {
            caller.session = Some(sha256(session));
        }
        let resume = payload.get("resume_after").and_then(Value::as_str);
        let (seen, resume) = match self.seen(envelope.id.as_deref()).and_then(|seen| Ok((seen, self.resume(resume)?))) {
            Ok(known) => known,
            Err(fault) => return Ok(self.answered(id, Err(fault))),
        };
        let mut emit = Emit {
            caller: &caller,
            envelope,
            received: received_hash(envelope, text),
            seen,
            proofs: proofs(&payload),
            fresh_session: fresh.sha256(),
            resume,
            answers,
        };
        let result = loop {
            match self.engine.emit(&emit, now, &mut self.fx) {
                Ok(accepted) => break Ok(accepted),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => match self.detour(&caller, envelope, *question, &mut emit.answers, now) {
                    Ok(None) => {}
                    Ok(Some(detour)) => return Err(detour),
                    Err(fault) => break Err(fault),
                },
            }
        };
        let mut result = self.decided(result);
        let cause = Cause { seq: result.as_ref().ok().and_then(|accepted| accepted.seq), id: None };
        self.follow(&mut emit.answers, Chain::default(), cause);
        let mut session_id: Option<Arc<str>> = None;
        if let Ok(accepted) = &mut result {
            if let Some(joined) = &accepted.joined {
                if let Some(up_to) = joined.resume_after {
                    let request = rialto_engine::AckRequest { up_to: Some(up_to), ..Default::default() };
                    self.engine.ack(joined.session.member, &request, now, &mut self.fx);
                }
                if joined.issued {
                    session_id = Some(Arc::from(fresh.expose()));
                } else if let Some(session) = payload.get("session_id").and_then(Value::as_str) {
                    session_id = Some(Arc::from(session));
                }
            }
            let head = self.record_at(self.engine.state.book.head).ok().flatten();
            let head_id = head.map(|r| r.event.id().to_owned());
            if let Some(map) = accepted.result.as_deref_mut().and_then(Value::as_object_mut) {
                map.insert("head_id".into(), head_id.into());
                if let Some(session) = &session_id {
                    map.insert("session_id".into(), Value::from(session.as_ref()));
                }
            }
        }
        let _ = self.decided(Ok(()));
        // Each join is an act of its own, also under an id that was used before: the answer names the id that was sent.
        if let (Ok(accepted), Some(sent)) = (&mut result, &id) {
            accepted.named = Some(sent.as_str().into());
        }
        Ok(Answered { session_id, ..self.answered(id, result) })
    }

    /// Where a join resumes: after something that was committed.
    fn resume(&self, cursor: Option<&str>) -> Result<Resume, Fault> {
        let Some(cursor) = cursor else { return Ok(Resume::None) };
        let seq = match cursor.strip_prefix("seq:").and_then(|n| n.parse().ok()) {
            Some(seq) => Some(seq),
            None => self.find(cursor)?.map(|r| r.event.seq),
        };
        Ok(seq.filter(|s| *s <= self.committed).map_or(Resume::Unknown, Resume::After))
    }

    /// A stream may ping before it joins.
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
        let id = self.own_id(now);
        let event = Event::new(
            0,
            &EventParts {
                id: &id,
                kind: EventType::Pong.as_str(),
                source: "core",
                target: "core",
                payload: &payload.to_string(),
                metadata: &metadata,
                timestamp: self.engine.state.stamp(now.wall),
                network: &self.shared.id,
                visibility: Visibility::Direct,
            },
        );
        Accepted { named: Some(id.into()), response: Some(Arc::new(event)), silent: true, ..Accepted::default() }
    }
}

/// Whether the text is an array that no carrier took apart because it is too long.
fn is_long_batch(text: &str) -> bool {
    text.trim_start().starts_with('[')
        && serde_json::from_str::<Vec<&RawValue>>(text).is_ok_and(|items| items.len() > limits::BATCH_EVENTS_MAX)
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
