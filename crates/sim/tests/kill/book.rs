//! What is known of a network from outside: what was sent, answered, acked.

use crate::ackers::Acking;
use crate::senders::Sending;
use rialto_sim::harness::{Line, Network, Server, note};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub(crate) const TARGETS: [&str; 4] = ["agent:keeper", "agent:acker", "agent:broadcast", "channel/general"];

/// What is known of one network.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Sent and acknowledged: id to (position, target).
    pub(crate) told: BTreeMap<String, (u64, &'static str)>,
    /// Those not looked for in history yet.
    pub(crate) fresh: Vec<String>,
    /// Sent, never answered: id to target. The node may have committed them or not.
    pub(crate) unsure: BTreeMap<String, &'static str>,
    /// How many of these there were in all.
    pub(crate) sent_again: usize,
    /// Ids the acker acked since the last start, in the order the node answered that it had taken the ack.
    pub(crate) acked: Vec<String>,
    /// So many of these are on disk: an event sent after the answer was acknowledged.
    pub(crate) flushed: usize,
    /// Acks sent without an answer.
    pub(crate) half_acked: BTreeSet<String>,
    /// What the acker was once seen without after a start: acked for good.
    pub(crate) gone: BTreeSet<String>,
    /// Answered acks by carrier.
    pub(crate) acked_by: BTreeMap<Acking, usize>,
}

impl Book {
    /// Notes that an event is on its way; gives how many acks were taken before it.
    pub(crate) fn sending(&mut self, id: &str, target: &'static str) -> usize {
        self.unsure.insert(id.to_owned(), target);
        self.acked.len()
    }

    /// Notes an acknowledgement.
    pub(crate) fn answered(&mut self, id: &str, seq: u64) {
        let target = self.unsure.remove(id).unwrap_or_else(|| panic!("an ack too many: {id}"));
        self.tell(id, seq, target);
    }

    pub(crate) fn tell(&mut self, id: &str, seq: u64, target: &'static str) {
        self.told.insert(id.to_owned(), (seq, target));
        self.fresh.push(id.to_owned());
    }

    /// Notes that acks of these were taken.
    pub(crate) fn taken(&mut self, ids: Vec<String>, by: Acking) {
        *self.acked_by.entry(by).or_default() += ids.len();
        for id in &ids {
            self.half_acked.remove(id);
        }
        self.acked.extend(ids);
    }
}

/// Whether an event to this target is somebody's mail.
pub(crate) fn reaches(target: &str, whom: &str) -> bool {
    target == whom || target == "agent:broadcast" || target == "channel/general"
}

pub(crate) fn body_of(id: &str, target: &str) -> Value {
    note(id, target, &format!("body of {id}"))
}

/// One network under test.
pub(crate) struct Place {
    pub(crate) network: Network,
    /// It keeps history.
    pub(crate) persistent: bool,
    pub(crate) sessions: BTreeMap<&'static str, String>,
    book: Arc<Mutex<Book>>,
    /// Its history as read so far: the event at index n has position n + 1.
    pub(crate) history: Vec<String>,
    /// Position of every id in it.
    pub(crate) places: BTreeMap<String, u64>,
    pub(crate) looked_at: u64,
    /// Directories of `rialto stdio`.
    dir: TempDir,
}

/// What the load needs of a place.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) network: Network,
    pub(crate) sessions: BTreeMap<&'static str, String>,
    pub(crate) dir: PathBuf,
    book: Arc<Mutex<Book>>,
    round: Round,
}

/// What a round's load shares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    pub(crate) number: u64,
    /// How many were answered for the first time.
    pub(crate) going: Arc<AtomicU64>,
    /// The node is gone: for a relay, which does not end with it.
    pub(crate) over: CancellationToken,
}

impl Side {
    pub(crate) fn round(&self) -> u64 {
        self.round.number
    }

    /// The next event of a conversation; none when it broke or the node is gone.
    pub(crate) async fn next(&self, line: &mut Line) -> Option<Value> {
        tokio::select! {
            event = line.next() => event,
            () = self.round.over.cancelled() => None,
        }
    }

    /// Was answered; counts once.
    pub(crate) fn answered(&self, before: &mut bool) {
        if !std::mem::replace(before, true) {
            self.round.going.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/ws/{}/{rest}", self.network.id)
    }
}

impl Place {
    pub(crate) async fn of(server: &Server, network: Network, persistent: bool) -> Place {
        let mut sessions = BTreeMap::new();
        for name in ["agent:keeper", "agent:acker"].into_iter().chain(Sending::ALL.map(Sending::agent)) {
            let body = json!({ "agent_id": name, "credentials": { "token": network.token }, "channels": ["general"] });
            let answer = server.http().post(&format!("/v1/ws/{}/join", network.id)).json(&body).await;
            sessions.insert(name, answer.data()["session_id"].as_str().unwrap().to_owned());
        }
        Place {
            network,
            persistent,
            sessions,
            book: Arc::default(),
            history: Vec::new(),
            places: BTreeMap::new(),
            looked_at: 0,
            dir: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn side(&self, round: &Round) -> Side {
        let (network, sessions, book) = (self.network.clone(), self.sessions.clone(), self.book.clone());
        Side { network, sessions, dir: self.dir.path().to_owned(), book, round: round.clone() }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/ws/{}/{rest}", self.network.id)
    }
}
