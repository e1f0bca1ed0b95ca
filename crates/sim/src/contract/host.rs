//! A plain member over HTTP that helps scenarios: it makes channels and says the word after which nothing is missing.

use super::driver::Guest;
use super::place::Place;
use super::stage::holds;
use crate::harness::Http;
use serde_json::{Value, json};

/// A joined helper. Its session outlives a restart of the node.
#[derive(Debug)]
pub(super) struct Host {
    session: String,
    bells: u32,
}

impl Host {
    /// Joins as `agent:host`.
    pub(super) async fn join(place: &Place) -> Result<Host, String> {
        let body = json!({ "agent_id": "agent:host", "credentials": { "token": place.token } });
        let mut http = Http::new(place.address()?);
        let answer = http.post(&format!("/v1/ws/{}/join", place.network)).json(&body).await;
        let session = answer.data()["session_id"].as_str().ok_or("the host has no session")?.to_owned();
        Ok(Host { session, bells: 0 })
    }

    async fn says(&self, place: &Place, event: &Value) -> Result<(), String> {
        let mut http = Http::new(place.address()?);
        let path = format!("/v1/ws/{}/events", place.network);
        let answer = http.post(&path).bearer(&self.session).json(event).await;
        holds(answer.status == 200, || format!("the host's {event} was answered {answer:?}"))
    }

    /// Makes a private channel with these members.
    pub(super) async fn channel(&self, place: &Place, name: &str, members: &[&Guest]) -> Result<(), String> {
        let seats: Vec<&str> = members.iter().map(|member| member.address()).collect();
        let payload = json!({ "name": name, "private": true, "participants": seats });
        self.says(place, &json!({ "type": "network.channel.create", "target": "core", "payload": payload })).await
    }

    /// Sends a message after which nothing that was sent before can still be missing; gives its id.
    pub(super) async fn ring(&mut self, place: &Place, guest: &Guest) -> Result<String, String> {
        self.bells += 1;
        let id = format!("bell-{}", self.bells);
        let payload = json!({ "content": "that is all" });
        let (kind, target) = ("test.note.posted", guest.address());
        self.says(place, &json!({ "id": id, "type": kind, "target": target, "payload": payload })).await?;
        Ok(id)
    }
}
