//! The stream conversation (sheet section 12.1) over any number of connections.
//!
//! Invariants: every sent event has an id, so a repeat after a reconnect is recognised by the node; `resume_after`
//! never passes an unacked delivery; a tracked event is handed out once while its id is among the last 4096.
//! One task owns the connection; [`Stream`] and [`Sender`] talk to it.

use crate::ack::{AckFloor, ReceivedIds};
use crate::error::{ApiError, ClientError};
use crate::event::{Delivery, Draft, Event, Receipt, fresh_id};
use crate::http::Http;
use crate::join::{JoinOptions, Joined};
use crate::link::Link;
use rialto_model::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// The node stops reading at 8192 unanswered events; we stop before.
const UNANSWERED_MAX: usize = 4096;
/// Events waiting together go out as one frame of at most this many and this size.
const FRAME_EVENTS_MAX: usize = 512;
const FRAME_BYTES_MAX: usize = 1024 * 1024;
/// Room for what bypasses the window: responses, receipts and ephemeral events.
const UNTRACKED_ROOM: usize = 1024;
const WINDOW_DEFAULT: usize = 256;
const COMMANDS_MAX: usize = 1024;
const JOIN_WAIT: Duration = Duration::from_secs(15);
const LEAVE_WAIT: Duration = Duration::from_secs(5);
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A joined member's stream: sends, receives, acks, and reconnects by itself.
#[derive(Debug)]
pub struct Stream {
    sender: Sender,
    deliveries: mpsc::Receiver<Delivery>,
    joined: watch::Receiver<Joined>,
    task: tokio::task::JoinHandle<()>,
}

/// The sending half; clones may be used from many tasks.
#[derive(Debug, Clone)]
pub struct Sender {
    commands: mpsc::Sender<Command>,
    ended: watch::Receiver<Option<ClientError>>,
}

#[derive(Debug)]
enum Command {
    Send(Vec<Outgoing>),
    Ack(Vec<String>),
    AckUpTo(String),
    Ping(oneshot::Sender<Event>),
    Leave(oneshot::Sender<Result<Receipt, ClientError>>),
    Close,
}

/// An event that is sent until it is answered.
#[derive(Debug)]
struct Outgoing {
    id: String,
    text: String,
    reply: oneshot::Sender<Result<Receipt, ClientError>>,
}

impl Stream {
    /// Connects to the node at `url` and joins. A failure here is returned at once; later ones are retried.
    pub async fn connect(url: &str, options: JoinOptions) -> Result<Stream, ClientError> {
        let mut http = Http::new(url)?.with_network(options.network.clone());
        if let Some(bearer) = &options.bearer {
            http = http.with_bearer(bearer.expose());
        }
        let network = match http.network() {
            Some(network) => network.to_owned(),
            None => default_network(&http).await?,
        };
        let (link, joined) = open_and_join(&http, &network, &options).await?;
        let window = joined.window.map_or(WINDOW_DEFAULT, usize::from);
        let (deliveries_in, deliveries) = mpsc::channel(window + UNTRACKED_ROOM);
        let (commands, commands_out) = mpsc::channel(COMMANDS_MAX);
        let (joined_in, joined) = watch::channel(joined);
        let (ended_in, ended) = watch::channel(None);
        let conversation = Conversation {
            floor: AckFloor::starting_at(options.resume_after.clone()),
            http,
            network,
            options,
            seen: ReceivedIds::default(),
            pending: VecDeque::new(),
            acks: Vec::new(),
            pings: VecDeque::new(),
            leaving: None,
            deliveries: deliveries_in,
            joined: joined_in,
        };
        let task = tokio::spawn(async move {
            let end = conversation.run(link, commands_out).await;
            ended_in.send_replace(Some(end));
        });
        Ok(Stream { sender: Sender { commands, ended }, deliveries, joined, task })
    }

    /// What the latest join gave.
    pub fn joined(&self) -> Joined {
        self.joined.borrow().clone()
    }

    /// The sending half, for other tasks.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// The next event. Safe to drop at any await. An error is final.
    pub async fn next(&mut self) -> Result<Delivery, ClientError> {
        match self.deliveries.recv().await {
            Some(delivery) => Ok(delivery),
            None => Err(self.sender.end().await),
        }
    }

    /// Sends one event and waits for the node's answer, over reconnects if need be.
    pub async fn send(&self, draft: Draft) -> Result<Receipt, ClientError> {
        self.sender.send(draft).await
    }

    /// Sends several events in order; each is answered for itself.
    pub async fn send_batch(&self, drafts: Vec<Draft>) -> Result<Vec<Result<Receipt, ClientError>>, ClientError> {
        self.sender.send_batch(drafts).await
    }

    /// Acks one delivery.
    pub async fn ack(&self, id: &str) -> Result<(), ClientError> {
        self.sender.ack(id).await
    }

    /// Acks every delivery up to and including this one.
    pub async fn ack_up_to(&self, id: &str) -> Result<(), ClientError> {
        self.sender.ack_up_to(id).await
    }

    /// Asks the node for a sign of life: its `network.pong`.
    pub async fn ping(&self) -> Result<Event, ClientError> {
        self.sender.ping().await
    }

    /// Leaves the network: nothing more is queued for this member.
    pub async fn leave(mut self) -> Result<(), ClientError> {
        let (reply, answer) = oneshot::channel();
        self.sender.command(Command::Leave(reply)).await?;
        let result = match tokio::time::timeout(LEAVE_WAIT, answer).await {
            Ok(Ok(result)) => result.map(|_| ()),
            Ok(Err(_)) => Err(self.sender.end().await),
            Err(_) => Err(ClientError::Timeout { url: self.joined().network_id, seconds: LEAVE_WAIT.as_secs() }),
        };
        self.finish().await;
        result
    }

    /// Goes offline without leaving: mail is still queued. Acks already given are written first.
    pub async fn close(mut self) {
        if self.sender.command(Command::Close).await.is_ok() {
            self.finish().await;
        }
    }

    async fn finish(&mut self) {
        // The task ends within the link's own closing time; a panic in it has nothing left to harm.
        tokio::time::timeout(LEAVE_WAIT, &mut self.task).await.ok();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sender {
    /// See [`Stream::send`].
    pub async fn send(&self, draft: Draft) -> Result<Receipt, ClientError> {
        let mut answers = self.send_batch(vec![draft]).await?;
        match answers.pop() {
            Some(answer) => answer,
            None => Err(ClientError::Protocol("an event was not answered".to_owned())),
        }
    }

    /// See [`Stream::send_batch`].
    pub async fn send_batch(&self, drafts: Vec<Draft>) -> Result<Vec<Result<Receipt, ClientError>>, ClientError> {
        let mut waiting = Vec::with_capacity(drafts.len());
        let mut outgoing = Vec::with_capacity(drafts.len());
        for mut draft in drafts {
            let id = draft.ensure_id().to_owned();
            let text = serde_json::to_string(&draft)
                .map_err(|e| ClientError::Protocol(format!("the event is not JSON: {e}")))?;
            let (reply, answer) = oneshot::channel();
            outgoing.push(Outgoing { id, text, reply });
            waiting.push(answer);
        }
        self.command(Command::Send(outgoing)).await?;
        let mut answers = Vec::with_capacity(waiting.len());
        for answer in waiting {
            answers.push(match answer.await {
                Ok(result) => result,
                Err(_) => Err(self.end().await),
            });
        }
        Ok(answers)
    }

    /// See [`Stream::ack`].
    pub async fn ack(&self, id: &str) -> Result<(), ClientError> {
        self.command(Command::Ack(vec![id.to_owned()])).await
    }

    /// See [`Stream::ack_up_to`].
    pub async fn ack_up_to(&self, id: &str) -> Result<(), ClientError> {
        self.command(Command::AckUpTo(id.to_owned())).await
    }

    /// See [`Stream::ping`].
    pub async fn ping(&self) -> Result<Event, ClientError> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Ping(reply)).await?;
        match answer.await {
            Ok(pong) => Ok(pong),
            Err(_) => Err(ClientError::Closed("the connection ended before the pong".to_owned())),
        }
    }

    async fn command(&self, command: Command) -> Result<(), ClientError> {
        match self.commands.send(command).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.end().await),
        }
    }

    /// Why the stream is over.
    async fn end(&self) -> ClientError {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or_else(over),
            Err(_) => over(),
        }
    }
}

fn over() -> ClientError {
    ClientError::Closed("the stream was ended on this side".to_owned())
}

/// The state of the conversation, owned by its task.
#[derive(Debug)]
struct Conversation {
    http: Http,
    network: String,
    options: JoinOptions,
    floor: AckFloor,
    seen: ReceivedIds,
    pending: VecDeque<Outgoing>,
    /// Ids to be acked with the next frame.
    acks: Vec<String>,
    pings: VecDeque<(String, oneshot::Sender<Event>)>,
    /// The id of our leave, once sent.
    leaving: Option<String>,
    deliveries: mpsc::Sender<Delivery>,
    joined: watch::Sender<Joined>,
}

/// How one connection's conversation ended.
enum StreamEnd {
    /// As we wished.
    Left,
    /// To be taken up again.
    Lost(String),
    /// For good.
    Final(ClientError),
}

impl Conversation {
    /// Runs until the owner leaves or the node refuses for good; says why it ended.
    async fn run(mut self, mut link: Link, mut commands: mpsc::Receiver<Command>) -> ClientError {
        loop {
            let end = match self.converse(&mut link, &mut commands).await {
                StreamEnd::Left => {
                    link.close().await;
                    return over();
                }
                StreamEnd::Lost(reason) => {
                    drop(link); // the node waits for our end before it lets go of its own
                    self.reconnect(reason, &mut commands).await
                }
                StreamEnd::Final(error) => Err(error),
            };
            match end {
                Ok(fresh) => link = fresh,
                Err(error) => {
                    for outgoing in self.pending.drain(..) {
                        outgoing.reply.send(Err(error.clone())).ok();
                    }
                    return error;
                }
            }
        }
    }

    async fn converse(&mut self, link: &mut Link, commands: &mut mpsc::Receiver<Command>) -> StreamEnd {
        let mut beat = tokio::time::interval(PING_EVERY);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.push_pending(link);
        loop {
            let room = self.pending.len() < UNANSWERED_MAX && link.queued() < COMMANDS_MAX;
            tokio::select! {
                frame = link.recv() => {
                    let end = match frame {
                        Ok(text) => self.on_frame(&text),
                        Err(closed) if closed.may_return() => Some(StreamEnd::Lost(closed.reason)),
                        Err(closed) => Some(StreamEnd::Final(closed.to_error())),
                    };
                    if let Some(end) = end { return end; }
                    self.push_acks(link);
                }
                command = commands.recv(), if room => {
                    let Some(command) = command else { return StreamEnd::Left };
                    if self.on_commands(command, commands, link) { return StreamEnd::Left; }
                }
                _ = beat.tick() => {
                    if link.silence() > SILENCE_MAX {
                        return StreamEnd::Lost("the node has gone silent".to_owned());
                    }
                    link.push_ping();
                }
            }
        }
    }

    /// Takes this command and what waits behind it; true when the owner wants to be gone.
    fn on_commands(&mut self, first: Command, commands: &mut mpsc::Receiver<Command>, link: &mut Link) -> bool {
        let already_sent = self.pending.len();
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Send(outgoing) => self.pending.extend(outgoing),
                Command::Ack(ids) => self.acked(ids),
                Command::AckUpTo(id) => {
                    self.floor.ack_up_to(&id);
                    link.push(control("network.event.ack", &fresh_id(), json!({ "up_to": id })));
                }
                Command::Ping(reply) => {
                    self.push_acks(link); // its pong says that they arrived
                    let id = fresh_id();
                    link.push(control("network.ping", &id, json!({})));
                    self.pings.push_back((id, reply));
                }
                Command::Leave(reply) => {
                    let id = fresh_id();
                    let text = control("network.agent.leave", &id, json!({}));
                    self.leaving = Some(id.clone());
                    self.pending.push_back(Outgoing { id, text, reply });
                }
                Command::Close => {
                    self.push_acks(link);
                    return true;
                }
            }
            let more = self.pending.len() < UNANSWERED_MAX && self.acks.len() < UNANSWERED_MAX;
            next = if more { commands.try_recv().ok() } else { None };
        }
        self.push_acks(link); // before the events: an ack frees the window that answers may need
        push_events(link, self.pending.iter().skip(already_sent));
        false
    }

    fn push_acks(&mut self, link: &mut Link) {
        if !self.acks.is_empty() {
            let ids = std::mem::take(&mut self.acks);
            link.push(control("network.event.ack", &fresh_id(), json!({ "ids": ids })));
        }
    }

    /// After a reconnect: everything unanswered goes out again, in order.
    fn push_pending(&mut self, link: &mut Link) {
        self.push_acks(link);
        push_events(link, self.pending.iter());
    }

    fn on_frame(&mut self, text: &str) -> Option<StreamEnd> {
        if text.trim_start().starts_with('[') {
            let events: Vec<Event> = match serde_json::from_str(text) {
                Ok(events) => events,
                Err(error) => return Some(unreadable(&error)),
            };
            return events.into_iter().find_map(|event| self.on_event(event));
        }
        match serde_json::from_str(text) {
            Ok(event) => self.on_event(event),
            Err(error) => Some(unreadable(&error)),
        }
    }

    fn on_event(&mut self, event: Event) -> Option<StreamEnd> {
        let from_core = event.source == "core" && event.attempt().is_none();
        match event.kind.as_str() {
            "network.event.ack" if from_core => self.on_ack(&event),
            "network.event.error" if from_core => self.on_error(event),
            "network.pong" if from_core => {
                self.on_pong(event);
                None
            }
            _ => {
                self.deliver(event);
                None
            }
        }
    }

    fn on_ack(&mut self, event: &Event) -> Option<StreamEnd> {
        #[derive(Deserialize)]
        struct Ack {
            event_id: Option<String>,
            #[serde(default)]
            accepted: Vec<(String, Option<u64>)>,
            seq: Option<u64>,
            #[serde(default)]
            duplicate: bool,
            durability: Option<String>,
            result: Option<Value>,
        }
        let ack: Ack = match serde_json::from_str(event.payload.get()) {
            Ok(ack) => ack,
            Err(error) => return Some(unreadable(&error)),
        };
        let mut left = false;
        for (id, seq) in ack.accepted {
            left |= self.is_leave(&id);
            let receipt =
                Receipt { event_id: id, seq, duplicate: false, durability: ack.durability.clone(), result: None };
            self.answer(Ok(receipt));
        }
        if let Some(id) = ack.event_id.or_else(|| event.in_reply_to().map(str::to_owned)) {
            left |= self.is_leave(&id);
            self.answer(Ok(Receipt {
                event_id: id,
                seq: ack.seq,
                duplicate: ack.duplicate,
                durability: ack.durability,
                result: ack.result,
            }));
        }
        left.then_some(StreamEnd::Left)
    }

    fn is_leave(&self, id: &str) -> bool {
        self.leaving.as_deref() == Some(id)
    }

    fn on_error(&mut self, event: Event) -> Option<StreamEnd> {
        let mut error = ApiError::from_payload(event.payload.get())?;
        if error.event_id.is_none() {
            error.event_id = event.in_reply_to().map(str::to_owned);
        }
        if error.event_id.as_deref().is_some_and(|id| self.is_pending(id)) {
            self.answer(Err(error));
            return None;
        }
        match error.known() {
            Some(ErrorCode::SessionRevoked) => Some(StreamEnd::Final(error.into())),
            Some(ErrorCode::ShuttingDown) => Some(StreamEnd::Lost(error.message)),
            Some(_) | None => {
                self.deliver(event);
                None
            }
        }
    }

    fn on_pong(&mut self, event: Event) {
        let asked = event.in_reply_to().map(str::to_owned);
        let at = match asked {
            Some(id) => self.pings.iter().position(|(known, _)| *known == id),
            None => Some(0), // answers come in order
        };
        if let Some((_, reply)) = at.and_then(|at| self.pings.remove(at)) {
            reply.send(event).ok();
        }
    }

    fn is_pending(&self, id: &str) -> bool {
        self.pending.iter().any(|outgoing| outgoing.id == id)
    }

    /// Hands an answer to its sender. Answers come in order, so the first pending event is nearly always the one.
    fn answer(&mut self, answer: Result<Receipt, ApiError>) {
        let id = match &answer {
            Ok(receipt) => Some(receipt.event_id.as_str()),
            Err(error) => error.event_id.as_deref(),
        };
        let at = self.pending.iter().position(|outgoing| Some(outgoing.id.as_str()) == id);
        if let Some(outgoing) = at.and_then(|at| self.pending.remove(at)) {
            outgoing.reply.send(answer.map_err(ClientError::from)).ok();
        }
    }

    fn deliver(&mut self, event: Event) {
        let tracked = event.attempt().is_some();
        // The window keeps room for every tracked event. What bypasses it is at-most-once, and is dropped here
        // when the owner does not read; a tracked event dropped all the same is unacked and so comes again.
        let Ok(room) = self.deliveries.try_reserve() else { return };
        if tracked && !self.seen.insert(&event.id) {
            if !self.floor.is_outstanding(&event.id) {
                self.acks.push(event.id); // acked before, but the node has not heard of it
            }
            return;
        }
        if let (true, Some(seq)) = (tracked, event.seq()) {
            self.floor.delivered(seq, &event.id);
        }
        room.send(Delivery { event, tracked });
    }

    /// Connects and joins again, with the session we have, after the last event before which all is acked.
    async fn reconnect(
        &mut self,
        mut reason: String,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Link, ClientError> {
        self.pings.clear();
        let started = Instant::now();
        let mut backoff = self.options.backoff;
        let mut with_session = true;
        loop {
            if self.options.give_up_after.is_some_and(|limit| started.elapsed() > limit) {
                return Err(ClientError::Closed(reason));
            }
            match self.attempt(backoff.next_wait(), with_session, commands).await? {
                Ok((link, joined)) => {
                    self.joined.send_replace(joined);
                    return Ok(link);
                }
                // Nobody took our name, the session only grew old: the credentials we began with still serve.
                Err(error) if error.is(ErrorCode::SessionExpired) && with_session => with_session = false,
                Err(error) if error.retryable() => reason = error.to_string(),
                Err(error) => return Err(error),
            }
        }
    }

    /// One attempt after `wait`, taking commands meanwhile. The outer error ends the stream.
    async fn attempt(
        &mut self,
        wait: Duration,
        with_session: bool,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Result<(Link, Joined), ClientError>, ClientError> {
        let mut options = self.options.clone();
        options.session_id = with_session.then(|| self.joined.borrow().session_id.clone());
        if let Some(id) = self.floor.resume_after() {
            options.resume_after = Some(id.to_owned());
        }
        let (http, network) = (self.http.clone(), self.network.clone());
        let attempt = async move {
            tokio::time::sleep(wait).await;
            open_and_join(&http, &network, &options).await
        };
        tokio::pin!(attempt);
        loop {
            let room = self.pending.len() < UNANSWERED_MAX && self.acks.len() < UNANSWERED_MAX;
            tokio::select! {
                result = &mut attempt => return Ok(result),
                command = commands.recv(), if room => match command {
                    Some(command) => self.on_command_offline(command)?,
                    None => return Err(over()),
                },
            }
        }
    }

    /// Between connections: what can wait is kept for the next one.
    fn on_command_offline(&mut self, command: Command) -> Result<(), ClientError> {
        match command {
            Command::Send(outgoing) => self.pending.extend(outgoing),
            Command::Ack(ids) => self.acked(ids),
            Command::AckUpTo(id) => self.floor.ack_up_to(&id), // the next join's `resume_after` says it
            Command::Ping(reply) => drop(reply),
            Command::Leave(_) | Command::Close => return Err(over()),
        }
        Ok(())
    }

    fn acked(&mut self, ids: Vec<String>) {
        for id in ids {
            self.floor.ack(&id);
            self.acks.push(id);
        }
    }
}

fn unreadable(error: &serde_json::Error) -> StreamEnd {
    StreamEnd::Final(ClientError::Protocol(format!("a frame cannot be read: {error}")))
}

/// A frame to `core`.
fn control(kind: &str, id: &str, payload: Value) -> String {
    json!({ "id": id, "type": kind, "target": "core", "payload": payload }).to_string()
}

/// Queues events in order, many to a frame.
fn push_events<'a>(link: &mut Link, events: impl Iterator<Item = &'a Outgoing>) {
    let mut frame = String::new();
    let mut count = 0;
    for outgoing in events {
        if count == FRAME_EVENTS_MAX || frame.len() + outgoing.text.len() > FRAME_BYTES_MAX {
            push_frame(link, std::mem::take(&mut frame), count);
            count = 0;
        }
        if count > 0 {
            frame.push(',');
        }
        frame.push_str(&outgoing.text);
        count += 1;
    }
    push_frame(link, frame, count);
}

fn push_frame(link: &mut Link, frame: String, count: usize) {
    match count {
        0 => {}
        1 => link.push(frame),
        _ => link.push(format!("[{frame}]")),
    }
}

async fn default_network(http: &Http) -> Result<String, ClientError> {
    let profile = http.profile().await?;
    match profile.get("id").and_then(Value::as_str) {
        Some(id) => Ok(id.to_owned()),
        None => Err(ClientError::Protocol("the profile names no network id".to_owned())),
    }
}

async fn open_and_join(http: &Http, network: &str, options: &JoinOptions) -> Result<(Link, Joined), ClientError> {
    let mut link = Link::open(http.endpoint(), network, http.bearer()).await?;
    let id = fresh_id();
    let frame = json!({
        "id": id, "type": "network.agent.join", "source": options.address, "target": "core", "payload": options.payload(),
    });
    link.push(frame.to_string());
    match tokio::time::timeout(JOIN_WAIT, join_answer(&mut link)).await {
        Ok(result) => Ok((link, result?)),
        Err(_) => Err(ClientError::Timeout { url: http.endpoint().websocket(network), seconds: JOIN_WAIT.as_secs() }),
    }
}

/// The join is the first frame, so the first answer is its own, whatever id the node gave it.
async fn join_answer(link: &mut Link) -> Result<Joined, ClientError> {
    #[derive(Deserialize)]
    struct Ack {
        result: Joined,
    }
    let unreadable = |e: serde_json::Error| ClientError::Protocol(format!("the join's answer cannot be read: {e}"));
    loop {
        let text = link.recv().await.map_err(|closed| {
            if closed.may_return() {
                ClientError::Unreachable { url: "the node".to_owned(), reason: closed.reason }
            } else {
                closed.to_error()
            }
        })?;
        let event: Event = serde_json::from_str(&text).map_err(unreadable)?;
        match event.kind.as_str() {
            "network.event.ack" if event.source == "core" => {
                let ack: Ack = serde_json::from_str(event.payload.get()).map_err(unreadable)?;
                return Ok(ack.result);
            }
            "network.event.error" => {
                let error = ApiError::from_payload(event.payload.get());
                return Err(error.map_or_else(over, ClientError::from));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
