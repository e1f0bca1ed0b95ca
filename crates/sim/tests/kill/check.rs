//! What must hold after a start.

use crate::book::{Place, body_of, reaches};
use crate::senders::Sending;
use rialto_sim::harness::{Chance, Http, Server};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All pages of a read.
async fn read_all(http: &mut Http, path: &str, bearer: &str, after: u64) -> Vec<Value> {
    let mut out = Vec::new();
    let mut after = format!("seq:{after}");
    loop {
        let page = http.get(&format!("{path}&limit=500&after={after}"), bearer).await.data();
        out.extend(page["events"].as_array().unwrap().iter().cloned());
        page["next_cursor"].as_str().unwrap().clone_into(&mut after);
        if page["has_more"] == false {
            return out;
        }
    }
}

fn id_of(event: &Value) -> String {
    event["id"].as_str().unwrap().to_owned()
}

impl Place {
    pub(crate) async fn check(&mut self, server: &Server, chance: &mut Chance, whole: bool) {
        let mut http = server.http();
        self.check_history(&mut http, &server.admin(), whole).await;
        self.send_again(server, &mut http, chance).await;
        self.check_history(&mut http, &server.admin(), false).await;
        self.check_keeper(&mut http, whole).await;
        self.check_acker(&mut http).await;
    }

    async fn check_history(&mut self, http: &mut Http, admin: &str, whole: bool) {
        if !self.persistent {
            return;
        }
        let path = self.path("events?view=log");
        if whole {
            let again: Vec<String> = read_all(http, &path, admin, 0).await.iter().map(id_of).collect();
            assert!(again.starts_with(&self.history), "history changed under {}", self.network.id);
        }
        for event in read_all(http, &path, admin, self.history.len() as u64).await {
            let (id, at) = (id_of(&event), self.history.len() as u64 + 1);
            assert_eq!(self.places.insert(id.clone(), at), None, "{id} is in history twice");
            self.history.push(id);
        }
        let mut book = self.book();
        let fresh = std::mem::take(&mut book.fresh);
        let looked_for = if whole { book.told.keys().cloned().collect() } else { fresh };
        for id in looked_for {
            let (seq, _) = book.told[&id];
            assert_eq!(self.places.get(&id), Some(&seq), "{id} was acknowledged at {seq}");
        }
    }

    /// The session that may send as the sender of this event.
    async fn session_of(&mut self, server: &Server, sending: Sending) -> String {
        let agent = sending.agent();
        if sending.is_stream() {
            return server.join(&self.network, agent).await;
        }
        self.sessions[agent].clone()
    }

    /// Whatever was not answered is sent again, and some that were answered.
    async fn send_again(&mut self, server: &Server, http: &mut Http, chance: &mut Chance) {
        let (unsure, again) = {
            let mut book = self.book();
            let unsure = std::mem::take(&mut book.unsure);
            book.sent_again += unsure.len();
            let step = book.told.len() as u64 / 4 + 1;
            let mut again = BTreeMap::new();
            for (id, (seq, target)) in book.told.iter().skip(chance.below(step) as usize).step_by(step as usize) {
                again.insert(id.clone(), (*seq, *target));
            }
            (unsure, again)
        };
        let path = self.path("events");
        for sending in Sending::ALL {
            let mine = |id: &&String| Sending::of(id) == sending;
            let lost: Vec<(&String, &'static str)> =
                unsure.iter().filter(|(id, _)| mine(id)).map(|(id, target)| (id, *target)).collect();
            let known: Vec<(&String, (u64, &'static str))> =
                again.iter().filter(|(id, _)| mine(id)).map(|(id, told)| (id, *told)).collect();
            if lost.is_empty() && known.is_empty() {
                continue;
            }
            let session = self.session_of(server, sending).await;
            let events = lost.iter().map(|(id, target)| body_of(id, target));
            let events: Vec<Value> = events.chain(known.iter().map(|(id, (_, target))| body_of(id, target))).collect();
            let answer = http.post(&path).bearer(&session).json(&json!(events)).await.data();
            let results = answer["results"].as_array().unwrap();
            assert_eq!(results.len(), events.len(), "{answer}");
            for ((id, target), result) in lost.iter().zip(results) {
                self.settle(id, target, result);
            }
            for ((id, (seq, _)), result) in known.iter().zip(&results[lost.len()..]) {
                assert_eq!((&result["duplicate"], &result["seq"]), (&json!(true), &json!(seq)), "{id}: {result}");
            }
        }
    }

    /// An event sent again is committed by now, and only once.
    fn settle(&mut self, id: &str, target: &'static str, result: &Value) {
        assert_eq!((&result["ok"], &result["id"]), (&json!(true), &json!(id)), "{result}");
        let seq = result["seq"].as_u64().unwrap();
        if self.persistent {
            let at = self.places.get(id).copied();
            assert_eq!(result["duplicate"], at.is_some(), "{id} is in history at {at:?}: {result}");
            assert!(at.is_none_or(|at| at == seq), "{id} is in history at {at:?}: {result}");
        }
        self.book().tell(id, seq, target);
    }

    /// Pending mail above a position: in order, each with its own body.
    async fn pending(&self, http: &mut Http, whom: &str, after: u64) -> BTreeMap<String, u64> {
        let path = self.path("events?view=inbox&ack=false");
        let events = read_all(http, &path, &self.sessions[whom], after).await;
        let mut last = 0;
        let mut pending = BTreeMap::new();
        for event in events.iter().filter(|e| e["type"] == "test.note.posted") {
            let (id, seq) = (id_of(event), event["metadata"]["seq"].as_u64().unwrap());
            assert!(seq > last, "{whom}: pending mail is not in order");
            assert_eq!(event["payload"]["content"], format!("body of {id}"));
            assert_eq!(pending.insert(id.clone(), seq), None, "{whom} has {id} twice");
            last = seq;
        }
        pending
    }

    /// The keeper never acks: everything for it is pending. What was looked at once is looked at again now and then only.
    async fn check_keeper(&mut self, http: &mut Http, whole: bool) {
        let from = if whole { 0 } else { self.looked_at };
        let pending = self.pending(http, "agent:keeper", from).await;
        let book = self.book();
        let told = book.told.iter().filter(|(_, (seq, target))| *seq > from && reaches(target, "agent:keeper"));
        let expected: BTreeMap<String, u64> = told.map(|(id, (seq, _))| (id.clone(), *seq)).collect();
        assert_eq!(pending, expected, "the keeper's pending mail in {}", self.network.id);
        drop(book);
        self.looked_at = self.looked_at.max(pending.values().copied().max().unwrap_or(0));
    }

    /// The acker's mail is what was acknowledged minus what it acked. An ack that was not flushed is no ack: its event is
    /// pending again; one that was, or whose effect was seen after a start, never comes back.
    async fn check_acker(&mut self, http: &mut Http) {
        let pending = self.pending(http, "agent:acker", 0).await;
        let mut book = self.book();
        for (id, seq) in &pending {
            let told = book.told.get(id).unwrap_or_else(|| panic!("{id} is pending, and nobody was told of it"));
            assert!(told.0 == *seq && reaches(told.1, "agent:acker"), "{id} at {seq}, told {told:?}");
            assert!(!book.gone.contains(id), "{}: {id} was acked for good, yet it is pending", self.network.id);
        }
        let flushed = book.acked.iter().take(book.flushed).find(|id| pending.contains_key(*id));
        assert_eq!(flushed, None, "{}: an ack was on disk, yet its event is pending again", self.network.id);
        let mut acked = std::mem::take(&mut book.half_acked);
        acked.extend(std::mem::take(&mut book.acked));
        book.flushed = 0;
        let mine = book.told.iter().filter(|(_, (_, target))| reaches(target, "agent:acker")).map(|(id, _)| id);
        let missing: Vec<String> =
            mine.filter(|id| !pending.contains_key(*id) && !book.gone.contains(*id)).cloned().collect();
        for id in missing {
            assert!(acked.contains(&id), "{}: {id} was lost: acknowledged, not acked, not pending", self.network.id);
            book.gone.insert(id);
        }
    }
}
