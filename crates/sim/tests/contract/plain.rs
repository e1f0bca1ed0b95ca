//! A driver of a protocol with little room: its messages are a text, an addressee and what they answer. It makes ids itself.

use rialto_sim::contract::{Answer, Carrier, Carries, Draft, Driver, Got, Member, Place, Receipt, Refused};
use serde_json::json;

#[derive(Debug)]
pub(crate) struct Plain {
    inner: Member,
    sent: u32,
}

impl Plain {
    pub(crate) fn new(name: &str, role: &'static str) -> Plain {
        Plain { inner: Member::new(Carrier::WebSocket, name, role), sent: 0 }
    }
}

/// What is left of an event after it went through the protocol.
fn narrowed(got: Got) -> Got {
    let metadata = got.in_reply_to().map_or_else(|| json!({}), |id| json!({ "in_reply_to": id }));
    let payload = json!({ "content": got.text() }).to_string();
    let (kind, target, network, visibility) = Default::default();
    Got { metadata, payload, kind, target, network, visibility, timestamp: 0, ..got }
}

impl Driver for Plain {
    fn address(&self) -> &str {
        &self.inner.address
    }

    fn carries(&self) -> Carries {
        Carries::Text
    }

    async fn connect(&mut self, place: &Place) -> Answer<()> {
        self.inner.connect(place).await
    }

    fn disconnect(&mut self) {
        self.inner.disconnect();
    }

    async fn send(&mut self, draft: &Draft) -> Answer<Receipt> {
        self.sent += 1;
        let id = format!("plain-{}-{}", self.inner.address.replace(':', "-"), self.sent);
        let mut own = Draft::saying(&id, &draft.target, &draft.text());
        let metadata: serde_json::Value = serde_json::from_str(&draft.metadata).unwrap();
        if let Some(answers) = metadata["in_reply_to"].as_str() {
            own = own.metadata(&json!({ "in_reply_to": answers }).to_string());
        }
        let sent = Driver::send(&mut self.inner, &own).await?;
        Ok(sent.map_err(|refused| Refused { event_id: draft.id.clone(), ..refused }))
    }

    async fn next(&mut self) -> Result<Got, String> {
        Ok(narrowed(self.inner.next().await?))
    }

    async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        Driver::ack(&mut self.inner, events).await
    }

    async fn history(&mut self, channel: &str) -> Answer<Vec<Got>> {
        let read = self.inner.history(channel).await?;
        Ok(read.map(|events| events.into_iter().map(narrowed).collect()))
    }

    async fn members(&mut self) -> Answer<Vec<String>> {
        self.inner.members().await
    }
}
