//! Members that a face carries: they live elsewhere (peers on another network, outside agents, webhooks) and are members here by the
//! face's word, with its name as their `via`.
//!
//! What is sent to them arrives at the face with the recipient named, in order, until it is acked: queue, redelivery, time to live, dead
//! letters and restart are the engine's. A face keeps no queue of its own.
//! Not here: how the other side is reached (the faces).

mod queues;

pub(crate) use queues::{CarriedQueues, ITEMS_MAX, Item};

use crate::command::{Answered, Command};
use crate::network::Network;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_engine::{AckRequest, Caller, Via};
use rialto_model::{ErrorCode, Event, FaceName, Fault, Seq, limits};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Who is brought in: what a face says of a member that lives elsewhere.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Outsider {
    /// The address it has here.
    #[serde(rename = "agent_id")]
    pub address: String,
    /// The verification level that the face vouches for (0 to 3).
    #[serde(skip)]
    pub level: u8,
    /// What kind of agent it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it can do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Channels it is seated in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
}

/// An event for a carried member, which is sent again until it is acked.
#[derive(Debug, Clone)]
pub struct CarriedDelivery {
    /// The event.
    pub event: Event,
    /// How often it was sent, this time included.
    pub attempt: u32,
}

/// What a face hears of the members it carries.
#[derive(Debug, Clone)]
pub enum CarriedNews {
    /// Mail of one of them.
    Mail {
        /// Whose.
        recipient: Box<str>,
        /// In order.
        deliveries: Vec<CarriedDelivery>,
    },
    /// Something for one of them that expects no ack: it is never stored, or sent at most once.
    Signal {
        /// For whom.
        recipient: Box<str>,
        /// What.
        event: Arc<Event>,
    },
    /// One of them is no member any more: it was removed, or somebody here has its name now.
    Gone {
        /// Who.
        recipient: Box<str>,
    },
    /// Nothing follows: the node stops, the disk refuses, or somebody else carries for this face. What was not acked comes again.
    Ended(ErrorCode),
}

/// The members of one face in one network, and the way their mail comes. Dropped, their mail waits.
#[derive(Debug)]
pub struct Carried {
    network: Network,
    face: FaceName,
    connection: u64,
    items: mpsc::Receiver<Item>,
    /// Taken and not yet given.
    current: Option<Item>,
}

impl Network {
    /// Carries the members of a face from here on. One at a time does so: an earlier one hears that it ended.
    pub async fn carry(&self, face: FaceName) -> Result<Carried, Fault> {
        let connection = self.connection();
        let (out, items) = mpsc::channel(ITEMS_MAX);
        let to = face.clone();
        self.ask(|reply| Command::Carry { face: to, connection, out, reply }).await??;
        Ok(Carried { network: self.clone(), face, connection, items, current: None })
    }
}

impl Carried {
    /// Brings a member in, or brings what is known of it up to date. It takes no name that somebody here has: `address_taken`.
    pub async fn bring(&self, outsider: &Outsider) -> Result<(), Fault> {
        let payload = serde_json::to_value(outsider).map_err(|_| Fault::from(ErrorCode::Internal))?;
        let frame = serde_json::json!({
            "type": "network.agent.join", "source": outsider.address, "target": "core", "payload": payload,
        });
        let caller = self.caller(&outsider.address, outsider.level);
        self.emit_one(&caller, frame.to_string()).await
    }

    /// A member is no longer reached: it is offline, and nothing new is queued for it. With `forget` it is no member any more.
    pub async fn leave(&self, address: &str, forget: bool) -> Result<(), Fault> {
        let frame = serde_json::json!({
            "type": "network.agent.leave", "source": address, "target": "core", "payload": { "forget": forget },
        });
        self.emit_one(&self.caller(address, 0), frame.to_string()).await
    }

    /// Sends events of a member; gives one answer for each, in order, when they are committed.
    pub async fn send(&self, from: &str, texts: Texts) -> Result<Vec<Answered>, Fault> {
        self.network.session(&self.caller(from, 0)).emit(texts).await
    }

    /// Acks what the other side took, by position; gives how many there were.
    pub async fn ack(&self, recipient: &str, seqs: Vec<Seq>) -> Result<u64, Fault> {
        if seqs.len() > limits::ACK_IDS_MAX {
            let text = format!("an ack names at most {} events: send several", limits::ACK_IDS_MAX);
            return Err(Fault::new(ErrorCode::TooLarge, text));
        }
        let request = AckRequest { seqs, up_to: None, count: true };
        let caller = self.caller(recipient, 0);
        self.network.ask(|reply| Command::AckThese { caller, request, reply }).await?
    }

    /// A member is there: it counts as online for a minute.
    pub async fn seen(&self, address: &str) -> Result<(), Fault> {
        self.network.heartbeat(self.caller(address, 0)).await.map(drop)
    }

    /// Waits for the next news; none when the network is gone. Dropped it loses nothing.
    pub async fn recv(&mut self) -> Option<CarriedNews> {
        if self.current.is_none() {
            self.current = self.items.recv().await;
        }
        let deliveries = match self.current.as_ref()? {
            Item::Mail { attempts, .. } => {
                let mut found = Vec::with_capacity(attempts.len());
                let mut at = 0;
                while let Some(rest) = attempts.get(at..).filter(|rest| !rest.is_empty()) {
                    let seqs = rest.iter().map(|a| a.seq).collect();
                    let Ok((records, looked_at)) = self.network.read_some(seqs, limits::PAGE_BYTES_MAX).await else {
                        break;
                    };
                    for record in records {
                        let attempt = rest.iter().find(|a| a.seq == record.event.seq).map_or(1, |a| a.attempt);
                        found.push(CarriedDelivery { event: record.event.clone(), attempt });
                    }
                    at += looked_at.max(1);
                }
                found
            }
            Item::Signal { .. } | Item::Gone { .. } | Item::Ended(_) => Vec::new(),
        };
        Some(match self.current.take()? {
            Item::Mail { recipient, .. } => CarriedNews::Mail { recipient, deliveries },
            Item::Signal { recipient, event, .. } => CarriedNews::Signal { recipient, event },
            Item::Gone { recipient } => CarriedNews::Gone { recipient },
            Item::Ended(code) => CarriedNews::Ended(code),
        })
    }

    /// The face.
    pub fn face(&self) -> &FaceName {
        &self.face
    }

    async fn emit_one(&self, caller: &Arc<Caller>, frame: String) -> Result<(), Fault> {
        let answers = self.network.session(caller).emit(Texts::one(Bytes::from(frame))).await?;
        match answers.into_iter().next() {
            Some(answered) => answered.result.map(drop),
            None => Err(ErrorCode::Internal.into()),
        }
    }

    fn caller(&self, address: &str, level: u8) -> Arc<Caller> {
        let via = Some(Via { face: self.face.clone(), level });
        Arc::new(Caller { via, claimed: Some(address.into()), ..Caller::default() })
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        // Where the queue is full, the network finds out when it next sends something.
        let _ = self.network.handle.commands.try_send(Command::CloseStream { connection: self.connection });
    }
}
