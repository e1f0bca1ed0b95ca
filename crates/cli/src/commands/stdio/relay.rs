//! What the relay remembers between a program and a node, without any input or output of its own.

use rialto_client::{AckFloor, ApiError, Event, Secret, fresh_id};
use rialto_model::{ErrorCode, limits};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Where sessions are kept between runs.
pub(super) trait SessionKeeper: std::fmt::Debug {
    fn read(&self, address: &str) -> Option<Secret>;
    fn write(&mut self, address: &str, network: &str, session_id: &Secret);
}

/// What a frame from the node means for the relay.
#[derive(Debug, PartialEq)]
pub(super) enum NodeFrame {
    /// The program reads it.
    ForProgram,
    /// It concerns the relay alone.
    Hidden,
    /// It concerns the relay alone, and these frames follow.
    Again(Vec<String>),
    /// The program reads it, and then all is over.
    SentAway(ApiError),
}

/// The conversation so far.
#[derive(Debug)]
pub(super) struct Relay {
    sessions: Option<Box<dyn SessionKeeper>>,
    /// The program's own join, and the id of the join that is not answered yet.
    join: Option<Value>,
    joining: Option<Joining>,
    session_id: Option<String>,
    unanswered: VecDeque<(String, String)>,
    floor: AckFloor,
    refusal: Option<ApiError>,
    leaving: Option<String>,
    left: bool,
}

#[derive(Debug)]
struct Joining {
    id: String,
    /// Ours, after a reconnect: the program knows nothing of it.
    again: bool,
    /// It carries a session that the program did not give.
    lent: bool,
}

#[derive(Deserialize)]
struct FrameHead<'a> {
    id: Option<String>,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    metadata: Option<Value>,
}

impl Relay {
    pub(super) fn new(sessions: Option<Box<dyn SessionKeeper>>) -> Relay {
        Relay {
            sessions,
            join: None,
            joining: None,
            session_id: None,
            unanswered: VecDeque::new(),
            floor: AckFloor::default(),
            refusal: None,
            leaving: None,
            left: false,
        }
    }

    /// Whether the node has taken us in at least once.
    pub(super) fn has_joined(&self) -> bool {
        self.session_id.is_some() && !self.left
    }

    /// Whether the program has left the network.
    pub(super) fn has_left(&self) -> bool {
        self.left
    }

    pub(super) fn is_rejoining(&self) -> bool {
        self.joining.as_ref().is_some_and(|joining| joining.again)
    }

    /// Whether an answer is still to come.
    pub(super) fn is_waiting(&self) -> bool {
        self.joining.is_some() || !self.unanswered.is_empty()
    }

    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Why we never got in.
    pub(super) fn refusal(&self) -> Option<ApiError> {
        if self.session_id.is_some() { None } else { self.refusal.clone() }
    }

    /// A line of the program as a frame for the node; blank lines are none.
    pub(super) fn on_line(&mut self, line: &str) -> Option<String> {
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        if line.starts_with('[')
            && let Ok(events) = serde_json::from_str::<Vec<&RawValue>>(line)
        {
            let events: Vec<String> = events.iter().map(|event| self.on_event_line(event.get())).collect();
            return Some(format!("[{}]", events.join(",")));
        }
        Some(self.on_event_line(line))
    }

    fn on_event_line(&mut self, text: &str) -> String {
        // What is not an event goes out as it is: the node says what is wrong with it.
        let Ok(head) = serde_json::from_str::<FrameHead<'_>>(text) else { return text.to_owned() };
        match head.kind.as_str() {
            "network.event.ack" => {
                self.note_acks(&head);
                text.to_owned()
            }
            "network.ping" => text.to_owned(),
            "network.agent.join" => self.on_join_line(text),
            kind => {
                let (id, text) = with_id(head.id, text);
                if kind == "network.agent.leave" {
                    self.leaving = Some(id.clone());
                }
                self.unanswered.push_back((id, text.clone()));
                text
            }
        }
    }

    fn note_acks(&mut self, head: &FrameHead<'_>) {
        #[derive(Deserialize, Default)]
        struct Acks {
            #[serde(default)]
            ids: Vec<String>,
            up_to: Option<String>,
        }
        let acks: Acks = head.payload.and_then(|p| serde_json::from_str(p.get()).ok()).unwrap_or_default();
        let single = head.metadata.as_ref().and_then(|m| m.get("in_reply_to")).and_then(Value::as_str);
        if let Some(id) = &acks.up_to {
            self.floor.ack_up_to(id);
        } else if acks.ids.is_empty() {
            single.into_iter().for_each(|id| self.floor.ack(id));
        }
        acks.ids.iter().for_each(|id| self.floor.ack(id));
    }

    fn on_join_line(&mut self, text: &str) -> String {
        let Ok(mut join) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
        let id = match join.get("id").and_then(Value::as_str) {
            Some(id) => id.to_owned(),
            None => fresh_id(),
        };
        put(&mut join, "id", json!(id));
        if !join.get("payload").is_some_and(Value::is_object) {
            put(&mut join, "payload", json!({}));
        }
        let own = join.pointer("/payload/session_id").is_some();
        let kept = address_of(&join).and_then(|address| self.sessions.as_ref()?.read(&address));
        self.join = Some(join.clone());
        let lent = match (own, kept) {
            (false, Some(session)) => {
                put_payload(&mut join, "session_id", json!(session.expose()));
                true
            }
            _ => false,
        };
        let cursor = join.pointer("/payload/resume_after").and_then(Value::as_str);
        self.floor = AckFloor::starting_at(cursor.map(str::to_owned));
        self.joining = Some(Joining { id, again: false, lent });
        join.to_string()
    }

    /// The join frame for a new connection.
    pub(super) fn rejoin(&mut self) -> String {
        let mut join = self.join.clone().unwrap_or_else(|| json!({}));
        let id = fresh_id();
        put(&mut join, "id", json!(id));
        match &self.session_id {
            Some(session) => put_payload(&mut join, "session_id", json!(session)),
            None => remove_payload(&mut join, "session_id"),
        }
        if let Some(cursor) = self.floor.resume_after() {
            put_payload(&mut join, "resume_after", json!(cursor));
        }
        self.joining = Some(Joining { id, again: true, lent: false });
        join.to_string()
    }

    /// A frame of the node.
    pub(super) fn on_frame(&mut self, text: &str) -> NodeFrame {
        if text.trim_start().starts_with('[') {
            let events: Vec<Event> = serde_json::from_str(text).unwrap_or_default();
            for event in &events {
                self.on_event(event);
            }
            return NodeFrame::ForProgram;
        }
        match serde_json::from_str::<Event>(text) {
            Ok(event) => self.on_event(&event),
            Err(_) => NodeFrame::ForProgram,
        }
    }

    fn on_event(&mut self, event: &Event) -> NodeFrame {
        if event.attempt().is_some() {
            if let Some(seq) = event.seq() {
                self.floor.delivered(seq, &event.id);
            }
            return NodeFrame::ForProgram;
        }
        match event.kind.as_str() {
            "network.event.ack" if event.source == "core" => self.on_ack(event),
            "network.event.error" if event.source == "core" => self.on_error(event),
            _ => NodeFrame::ForProgram,
        }
    }

    fn on_ack(&mut self, event: &Event) -> NodeFrame {
        #[derive(Deserialize, Default)]
        struct Ack {
            event_id: Option<String>,
            #[serde(default)]
            accepted: Vec<(String, Option<u64>)>,
            #[serde(default)]
            result: Value,
        }
        let ack: Ack = serde_json::from_str(event.payload.get()).unwrap_or_default();
        for (id, _) in &ack.accepted {
            self.answered(id);
        }
        let Some(id) = ack.event_id.as_deref().or(event.in_reply_to()) else { return NodeFrame::ForProgram };
        // A node gives a join another id when its own was used before; a session shows whose answer it is.
        let is_join = ack.result.get("session_id").is_some();
        match self.joining.take_if(|joining| is_join || joining.id == id) {
            Some(joining) => {
                self.joined(&ack.result);
                if !joining.again {
                    return NodeFrame::ForProgram;
                }
                NodeFrame::Again(self.unanswered.iter().map(|(_, text)| text.clone()).collect())
            }
            None => {
                self.answered(id);
                NodeFrame::ForProgram
            }
        }
    }

    fn joined(&mut self, result: &Value) {
        let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
        self.session_id = Some(text("session_id").to_owned());
        self.refusal = None;
        self.left = false;
        if let Some(sessions) = &mut self.sessions {
            sessions.write(text("address"), text("network_id"), &Secret::from(text("session_id")));
        }
    }

    fn answered(&mut self, id: &str) {
        if let Some(at) = self.unanswered.iter().position(|(known, _)| known == id) {
            self.unanswered.remove(at);
        }
        if self.leaving.as_deref() == Some(id) {
            self.left = true;
        }
    }

    fn on_error(&mut self, event: &Event) -> NodeFrame {
        let Some(error) = ApiError::from_payload(event.payload.get()) else { return NodeFrame::ForProgram };
        let id = error.event_id.as_deref().or(event.in_reply_to());
        if let Some(joining) = self.joining.take_if(|joining| Some(joining.id.as_str()) == id) {
            return self.join_refused(&joining, error);
        }
        if let Some(id) = id {
            self.answered(id);
            return NodeFrame::ForProgram;
        }
        match error.known() {
            Some(ErrorCode::SessionRevoked) => NodeFrame::SentAway(error),
            Some(ErrorCode::ShuttingDown) if self.has_joined() => NodeFrame::Hidden, // we come back when it does
            Some(_) | None => NodeFrame::ForProgram,
        }
    }

    fn join_refused(&mut self, joining: &Joining, error: ApiError) -> NodeFrame {
        let over = matches!(
            error.known(),
            Some(ErrorCode::SessionRevoked | ErrorCode::SessionExpired | ErrorCode::Unauthenticated)
        );
        if joining.lent && over {
            // The session we lent was old: the program's own join stands on its own.
            let join = self.join.clone().unwrap_or_default();
            self.joining = Some(Joining { id: joining.id.clone(), again: false, lent: false });
            return NodeFrame::Again(vec![join.to_string()]);
        }
        if !joining.again {
            self.refusal = Some(error);
            return NodeFrame::ForProgram; // it may try again on this connection
        }
        if error.known() == Some(ErrorCode::SessionExpired) && self.session_id.take().is_some() {
            return NodeFrame::Again(vec![self.rejoin()]);
        }
        NodeFrame::SentAway(error)
    }

    /// The answer to a line over the limit, which never reaches the node.
    pub(super) fn too_large(&self) -> String {
        let target = self.join.as_ref().and_then(address_of).unwrap_or_else(|| "agent:broadcast".to_owned());
        let message = format!("a line is at most {} bytes", limits::BATCH_BYTES_MAX);
        json!({
            "id": fresh_id(), "type": "network.event.error", "source": "core", "target": target,
            "payload": {"code": ErrorCode::TooLarge.as_str(), "message": message, "event_id": null, "retryable": false},
            "metadata": {}, "visibility": "direct",
        })
        .to_string()
    }
}

fn address_of(join: &Value) -> Option<String> {
    let named = join.pointer("/payload/agent_id").or_else(|| join.get("source"))?.as_str()?;
    crate::context::speaker_address(named).ok()
}

fn put(event: &mut Value, name: &str, value: Value) {
    if let Some(map) = event.as_object_mut() {
        map.insert(name.to_owned(), value);
    }
}

fn put_payload(event: &mut Value, name: &str, value: Value) {
    if let Some(map) = event.get_mut("payload").and_then(Value::as_object_mut) {
        map.insert(name.to_owned(), value);
    }
}

fn remove_payload(event: &mut Value, name: &str) {
    if let Some(map) = event.get_mut("payload").and_then(Value::as_object_mut) {
        map.remove(name);
    }
}

/// The event with an id, so that sending it again changes nothing. Everything else keeps its bytes.
fn with_id(id: Option<String>, text: &str) -> (String, String) {
    if let Some(id) = id {
        return (id, text.to_owned());
    }
    let id = fresh_id();
    let Ok(mut members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
        return (id, text.to_owned());
    };
    if let Ok(raw) = RawValue::from_string(format!("\"{id}\"")) {
        members.insert("id".to_owned(), raw);
    }
    let text = serde_json::to_string(&members).unwrap_or_else(|_| text.to_owned());
    (id, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined() -> Relay {
        let mut relay = Relay::new(None);
        relay.on_line(r#"{"id":"j1","type":"network.agent.join","source":"agent:a","target":"core","payload":{"credentials":{"token":"T"}}}"#);
        let heard = relay.on_frame(&ack("j1", r#"{"network_id":"n1","address":"agent:a","session_id":"S"}"#));
        assert_eq!(heard, NodeFrame::ForProgram);
        relay
    }

    fn ack(id: &str, result: &str) -> String {
        format!(
            r#"{{"id":"x","type":"network.event.ack","source":"core","target":"agent:a","payload":{{"event_id":"{id}","result":{result}}},"metadata":{{"in_reply_to":"{id}"}}}}"#
        )
    }

    fn error(code: &str, id: &str) -> String {
        format!(
            r#"{{"id":"x","type":"network.event.error","source":"core","target":"agent:a","payload":{{"code":"{code}","message":"m","event_id":{id},"retryable":false}}}}"#
        )
    }

    fn delivery(id: &str, seq: u64) -> String {
        format!(
            r#"{{"id":"{id}","type":"a.b","source":"agent:z","target":"agent:a","payload":{{}},"metadata":{{"seq":{seq},"attempt":1}}}}"#
        )
    }

    #[test]
    fn a_reconnect_joins_with_session_and_cursor_and_repeats_what_is_unanswered() {
        let mut relay = joined();
        for (id, seq) in [("e1", 1), ("e2", 2), ("e3", 3)] {
            assert_eq!(relay.on_frame(&delivery(id, seq)), NodeFrame::ForProgram);
        }
        relay.on_line(r#"{"type":"network.event.ack","target":"core","payload":{"ids":["e1"]}}"#);
        relay.on_line(r#"{"type":"network.event.ack","target":"core","metadata":{"in_reply_to":"e2"}}"#);
        let sent = relay.on_line(r#"{"type":"a.b","target":"agent:z","payload":{"n": 1.00}}"#).unwrap();
        assert!(sent.contains(r#"{"n": 1.00}"#) && sent.starts_with(r#"{"id":""#), "{sent}");
        let rejoin: Value = serde_json::from_str(&relay.rejoin()).unwrap();
        assert_eq!(rejoin["payload"], json!({"credentials":{"token":"T"},"session_id":"S","resume_after":"e2"}));
        assert!(relay.is_rejoining());
        let id = rejoin["id"].as_str().unwrap();
        let again = relay.on_frame(&ack(id, r#"{"network_id":"n1","address":"agent:a","session_id":"S2"}"#));
        assert_eq!(again, NodeFrame::Again(vec![sent]));
        assert!(!relay.is_rejoining() && relay.is_waiting());
    }

    #[test]
    fn answers_are_counted_for_single_events_arrays_and_batches() {
        let mut relay = joined();
        let frame =
            relay.on_line(r#" [{"id":"m1","type":"a.b","target":"core"}, {"id":"m2","type":"a.b","target":"core"}] "#);
        assert_eq!(
            frame.as_deref(),
            Some(r#"[{"id":"m1","type":"a.b","target":"core"},{"id":"m2","type":"a.b","target":"core"}]"#)
        );
        relay.on_line(r#"{"id":"m3","type":"a.b","target":"core"}"#);
        relay.on_line(r#"{"id":"p","type":"network.ping","target":"core"}"#);
        assert_eq!(relay.unanswered(), 3);
        relay.on_frame(&ack("m1", "null"));
        relay.on_frame(&error("unknown_target", "\"m2\""));
        relay.on_frame(r#"{"id":"x","type":"network.event.ack","source":"core","target":"agent:a","payload":{"accepted":[["m3",9]]}}"#);
        assert!(!relay.is_waiting());
        assert_eq!(relay.on_line("  "), None);
        assert_eq!(relay.on_line("not json").as_deref(), Some("not json"));
    }

    #[test]
    fn a_refused_join_may_be_tried_again_and_is_why_we_failed() {
        let mut relay = Relay::new(None);
        relay.on_line(r#"{"id":"j1","type":"network.agent.join","source":"agent:a","target":"core"}"#);
        assert_eq!(relay.on_frame(&error("token_required", "\"j1\"")), NodeFrame::ForProgram);
        assert_eq!(relay.refusal().unwrap().code, "token_required");
        relay.on_line(r#"{"type":"network.agent.join","source":"agent:a","target":"core"}"#);
        assert!(relay.is_waiting() && !relay.has_joined());
    }

    #[test]
    fn a_join_is_recognised_under_the_id_the_node_gave_it() {
        let mut relay = Relay::new(None);
        relay.on_line(r#"{"id":"j1","type":"network.agent.join","source":"agent:a","target":"core"}"#);
        relay.on_frame(&ack("other", r#"{"network_id":"n1","address":"agent:a","session_id":"S"}"#));
        assert!(relay.has_joined() && !relay.is_waiting());
    }

    #[test]
    fn takeover_ends_and_shutdown_does_not() {
        let mut relay = joined();
        assert_eq!(relay.on_frame(&error("shutting_down", "null")), NodeFrame::Hidden);
        assert!(matches!(relay.on_frame(&error("session_revoked", "null")), NodeFrame::SentAway(_)));
    }

    #[test]
    fn an_expired_session_is_left_out_of_the_next_join() {
        let mut relay = joined();
        let rejoin: Value = serde_json::from_str(&relay.rejoin()).unwrap();
        let NodeFrame::Again(frames) = relay.on_frame(&error("session_expired", &rejoin["id"].to_string())) else {
            panic!()
        };
        let again: Value = serde_json::from_str(&frames[0]).unwrap();
        assert_eq!(again["payload"], json!({"credentials":{"token":"T"}}));
        assert!(matches!(relay.on_frame(&error("invalid_token", &again["id"].to_string())), NodeFrame::SentAway(_)));
    }

    #[derive(Debug, Default)]
    struct OneSession(Option<Secret>);

    impl SessionKeeper for OneSession {
        fn read(&self, _: &str) -> Option<Secret> {
            self.0.clone()
        }
        fn write(&mut self, _: &str, _: &str, session_id: &Secret) {
            self.0 = Some(session_id.clone());
        }
    }

    #[test]
    fn a_kept_session_is_lent_and_taken_back_when_it_is_old() {
        let mut relay = Relay::new(Some(Box::new(OneSession(Some("old".into())))));
        let join = r#"{"id":"j1","type":"network.agent.join","source":"agent:a","target":"core","payload":{}}"#;
        assert!(relay.on_line(join).unwrap().contains(r#""session_id":"old""#));
        let NodeFrame::Again(frames) = relay.on_frame(&error("session_revoked", "\"j1\"")) else { panic!() };
        assert!(!frames[0].contains("session_id"));
        let heard = relay.on_frame(&ack("j1", r#"{"network_id":"n1","address":"agent:a","session_id":"new"}"#));
        assert_eq!(heard, NodeFrame::ForProgram);
        assert_eq!(relay.sessions.unwrap().read("agent:a").unwrap().expose(), "new");
    }

    #[test]
    fn never_panics() {
        let mut relay = joined();
        for text in [
            "",
            "[",
            "[]",
            "[1,{}]",
            "{}",
            "null",
            r#"{"type":5}"#,
            r#"{"id":null,"type":"a.b"}"#,
            r#"{"type":"network.agent.join"}"#,
        ] {
            relay.on_line(text);
            relay.on_frame(text);
        }
    }
}
