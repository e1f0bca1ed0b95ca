//! Events by id and by position, and the acks that name them.

use super::Task;
use super::deciding::deferred::{EventSource, Resolution};
use super::deciding::{Deferral, Incoming};
use crate::command::{Answered, Whereabouts};
use crate::delivery::id_key;
use crate::metrics::Counters;
use rialto_engine::input::Accepted;
use rialto_engine::{AckRequest, Caller, Clock, Effect, EventRecord, MemberId, Route, StreamKey};
use rialto_model::metadata::Metadata;
use rialto_model::{Address, Envelope, ErrorCode, EventId, EventType, Fault, Seq, limits};
use rialto_store::Store;
use serde_json::json;
use std::sync::Arc;

/// Ids of acks that are not at hand, each with where it is if it is one of the network's own.
#[derive(Debug, Default)]
pub(super) struct Sought {
    ids: Vec<(String, Option<Seq>)>,
    up_to: Vec<(String, Option<Seq>)>,
}

impl Sought {
    fn len(&self) -> usize {
        self.ids.len() + self.up_to.len()
    }
}

/// Refuses an ack of too many ids.
pub(crate) fn few_enough(ids: usize) -> Result<(), Fault> {
    if ids <= limits::ACK_IDS_MAX {
        return Ok(());
    }
    let text =
        format!("an ack names at most {} ids: send several, or ack everything up to one (up_to)", limits::ACK_IDS_MAX);
    Err(Fault::new(ErrorCode::TooLarge, text).field("ids"))
}

/// The position of a stored event by its id; `own` is where it is if the id is one of the network's own. Blocks on the disk.
pub(crate) fn find_stored(
    store: &dyn Store,
    number: u32,
    network: &str,
    id: &str,
    own: Option<Seq>,
) -> Result<Option<Seq>, Fault> {
    let is_it = |seq: Seq| -> Result<bool, Fault> {
        Ok(crate::query::read_records(store, number, network, &[seq])?.first().is_some_and(|r| r.event.id() == id))
    };
    if let Some(own) = own
        && is_it(own)?
    {
        return Ok(Some(own));
    }
    let seqs = store.find(number, id_key(id)).map_err(|error| {
        tracing::error!(network, %error, "an event cannot be looked up");
        Fault::new(ErrorCode::StorageUnavailable, "stored events cannot be looked up; the log has the cause")
    })?;
    for seq in seqs {
        if is_it(seq)? {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

impl Task {
    /// Counts what is at hand for the whole node, and keeps little of it where all networks together keep too much.
    pub(super) fn share_recent(&mut self) {
        self.recent.count();
        if self.shared.directory.accounts.has_too_many_recent() {
            self.recent.shrink(self.committed);
        }
    }

    /// An event by position: at hand, or in the store. An error is no absence: whoever took it for one would accept an
    /// event twice, or lose a reader's place.
    pub(super) fn record_at(&self, seq: Seq) -> Result<Option<Arc<EventRecord>>, Fault> {
        if self.recent.first().is_some_and(|first| first <= seq) {
            return Ok(self.recent.at(seq).cloned());
        }
        let found = crate::query::read_records(self.log.store.as_ref(), self.shared.number, &self.shared.id, &[seq])?;
        Ok(found.into_iter().next())
    }

    /// An event by id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Arc<EventRecord>>, Fault> {
        let book = &self.engine.state.book;
        let named = |seq: Seq| self.record_at(seq).map(|r| r.filter(|r| r.event.id() == id));
        if let Some(own) = EventId::from_text(id).filter(|own| own.salt == book.salt && own.seq <= book.head)
            && let Some(record) = named(own.seq)?
        {
            return Ok(Some(record));
        }
        if let Some(seq) = self.recent.position(id)
            && let Some(record) = named(seq)?
        {
            return Ok(Some(record));
        }
        if rialto_engine::bugs::on("dedup forgotten on restart") {
            return Ok(None);
        }
        let seqs = self.log.store.find(self.shared.number, id_key(id)).map_err(|error| {
            tracing::error!(network = %self.shared.id, %error, "an event cannot be looked up");
            Fault::new(ErrorCode::StorageUnavailable, "stored events cannot be looked up; the log has the cause")
        })?;
        for seq in seqs {
            if let Some(record) = named(seq)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Where an event is, by what is at hand: nothing is read.
    pub(super) fn whereabouts(&self, id: &str) -> Whereabouts {
        let book = &self.engine.state.book;
        let own = EventId::from_text(id).filter(|own| own.salt == book.salt && own.seq <= book.head);
        if let Some(own) = own.filter(|own| self.recent.is_own(own)) {
            return Whereabouts::At(own.seq);
        }
        let own = own.map(|own| own.seq);
        let near = |seq: &Seq| self.recent.at(*seq).is_some_and(|r| r.event.id() == id);
        match [own, self.recent.position(id)].into_iter().flatten().find(near) {
            Some(seq) => Whereabouts::At(seq),
            None => Whereabouts::Stored(own.filter(|seq| self.recent.first().is_none_or(|first| *seq < first))),
        }
    }

    /// `network.event.ack`: nothing is answered unless it is wrong. What its sender sends next comes after it, also when it names events
    /// that have to be looked up.
    pub(super) fn decide_ack(
        &mut self,
        event: &Incoming<'_>,
        resumed: Option<&EventSource>,
        now: Clock,
    ) -> Result<Answered, Box<Deferral>> {
        let id = event.id();
        match self.try_ack(event.caller, event.envelope, now) {
            Ok(Some((member, sought))) if self.may_wait_for_ack(member, resumed) => {
                Err(Box::new(Deferral::LookUp(member, sought)))
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
            let said = Address::parse_in(source, &self.engine.state.network)
                .map_err(|e| Fault::new(ErrorCode::InvalidAddress, e.to_string()).field("source"))?;
            if self.engine.state.known_as(said.as_str()) != Some(member) {
                return Err(Fault::new(ErrorCode::SourceMismatch, format!("this session belongs to {own}, not to the source given: leave source out, or show the other's session")).field("source"));
            }
        }
        #[derive(serde::Deserialize, Default)]
        struct AckFrame {
            #[serde(default)]
            ids: Option<Vec<String>>,
            #[serde(default)]
            up_to: Option<String>,
        }
        let ack: AckFrame = serde_json::from_str(&envelope.payload).map_err(|e| {
            Fault::new(ErrorCode::InvalidPayload, format!("an ack must have ids or up_to: {e}")).field("payload")
        })?;
        let mut ids = ack.ids.unwrap_or_default();
        let metadata = Metadata::parse(envelope.metadata)?;
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
            self.ack(member, &AckRequest { seqs: vec![seq], up_to: None, count: false }, now);
            return;
        }
        let heard = (self.fx.after.len(), self.open.events.len());
        let request = AckRequest { seqs: vec![seq], up_to: None, count: true };
        // A sender that asked for a receipt gets that one.
        if self.ack(member, &request, now) == 0 || (self.fx.after.len(), self.open.events.len()) != heard {
            return;
        }
        let source = self.engine.state.member(member).map(|m| m.address.clone()).unwrap_or_default();
        let metadata = json!({ "in_reply_to": id }).to_string();
        let between = (source.as_ref(), sender.as_str());
        let event = self.own_event(EventType::EventAck, between, &envelope.payload, &metadata, now);
        let route = Route { stream: Some(StreamKey::Inbox(to)), source: Some(member), ..Route::default() };
        self.fx.after.push(Effect::Signal { event: Arc::new(event), route, after: None });
        // Somebody sees this ack's effect, so it is committed first.
        self.urgent = true;
        let _ = self.decided(Ok(()));
    }

    /// Acks events by their ids; unknown ones are ignored. Gives those that are not at hand: they are looked up away from the task, and
    /// acked then.
    fn ack_named(
        &mut self,
        member: u32,
        ids: Vec<String>,
        up_to: Option<String>,
        now: Clock,
    ) -> Result<Option<Sought>, Fault> {
        few_enough(ids.len())?;
        let (mut request, mut sought) = (AckRequest::default(), Sought::default());
        for id in ids {
            match self.placed(&id) {
                Ok(seq) => request.seqs.push(seq),
                Err(own) => sought.ids.push((id, own)),
            }
        }
        if let Some(id) = up_to {
            match self.placed(&id) {
                Ok(seq) => request.up_to = Some(seq),
                Err(own) => sought.up_to.push((id, own)),
            }
        }
        if sought.len() > 0 && !self.may_look_up(member, &sought) {
            let text = "too many acks of old events are being looked up: ack these again in a moment";
            return Err(Fault::new(ErrorCode::RateLimited, text).details(json!({ "retry_after_ms": 100 })));
        }
        if !request.seqs.is_empty() || request.up_to.is_some() {
            self.ack(member, &request, now);
        }
        Ok(Some(sought).filter(|sought| sought.len() > 0))
    }

    /// Whether there is room for more to be looked up: one after the other for each member, so that nobody's acks take all of it.
    fn may_look_up(&self, member: u32, sought: &Sought) -> bool {
        match self.acks_looked_up.get(&member) {
            Some(waiting) => waiting.len() + sought.len() <= limits::ACK_IDS_MAX,
            None => self.acks_looked_up.len() < limits::ACKS_LOOKED_UP_MAX,
        }
    }

    /// Whether what a member sends after an ack can wait for it: not where an ack overtakes what waits already.
    fn may_wait_for_ack(&self, member: u32, resumed: Option<&EventSource>) -> bool {
        let source = EventSource::Member(member);
        resumed == Some(&source) || !self.deferred.has(&source)
    }

    /// The position of an event that is at hand; otherwise where it may be in the store.
    fn placed(&self, id: &str) -> Result<Seq, Option<Seq>> {
        if let Some(seq) = id.strip_prefix("seq:").and_then(|n| n.parse().ok()) {
            return Ok(seq);
        }
        match self.whereabouts(id) {
            Whereabouts::At(seq) => Ok(seq),
            Whereabouts::Stored(own) => Err(own),
        }
    }

    /// Looks ids up away from the task; what comes of it is acked by [`Task::looked_up`], and whoever waits under the ticket goes on.
    pub(super) fn look_up(&mut self, ticket: u64, member: u32, sought: Sought) {
        // Nobody waits for it: what the member asks for meanwhile goes along with the next look.
        if ticket == 0
            && let Some(waiting) = self.acks_looked_up.get_mut(&member)
        {
            waiting.ids.extend(sought.ids);
            waiting.up_to.extend(sought.up_to);
            return;
        }
        self.acks_looked_up.entry(member).or_default();
        let (store, number, id) = (self.log.store.clone(), self.shared.number, self.shared.id.clone());
        let (host, resolver) = (self.host.clone(), self.deferred.resolver());
        tokio::spawn(async move {
            let found = host.blocking(move || {
                let seq =
                    |(text, own): &(String, Option<Seq>)| find_stored(store.as_ref(), number, &id, text, *own).ok()?;
                let up_to = sought.up_to.iter().filter_map(seq).max();
                AckRequest { seqs: sought.ids.iter().filter_map(seq).collect(), up_to, count: false }
            });
            let request = found.await.unwrap_or_default();
            let _ = resolver.send((ticket, Resolution::LookedUp(member, request))).await;
        });
    }

    /// Events that an ack named were looked up.
    pub(super) fn looked_up(&mut self, member: u32, request: &AckRequest, now: Clock) {
        let waiting = self.acks_looked_up.remove(&member).filter(|waiting| waiting.len() > 0);
        self.ack(member, request, now);
        waiting.into_iter().for_each(|sought| self.look_up(0, member, sought));
    }

    pub(super) fn ack(&mut self, member: u32, request: &AckRequest, now: Clock) -> u64 {
        let request = AckRequest { up_to: request.up_to.map(|s| s.min(self.committed)), ..request.clone() };
        let effects_before = self.fx.after.len();
        let n = self.engine.ack(member, &request, now, &mut self.fx);
        // A receipt or a dropped body can be seen by others: such an ack is committed first.
        if self.fx.after.len() > effects_before || !self.engine.state.book.unstored.is_empty() {
            self.urgent = true;
        }
        let _ = self.decided(Ok(()));
        Counters::add(&self.shared.counters.acked, n.max(request.seqs.len() as u64));
        self.sessions.acked(&self.engine.state, member, self.committed, now.steady);
        n
    }

    /// Reads an event whose bytes were overwritten again.
    pub(super) fn forget_copy(&mut self, seq: Seq) {
        let stored = crate::query::read_records(self.log.store.as_ref(), self.shared.number, &self.shared.id, &[seq]);
        if let Some(stored) = stored.ok().and_then(|mut r| r.pop()) {
            self.recent.replace(stored);
        }
    }
}
