//! Small durable facts of a face: settings of webhooks, cards of peers, cursors of mirrors. They are in the log, in snapshots and in
//! backups, and answered when they are committed.
//!
//! Not here: their bounds (`rialto-engine`, `facts`), and anything that was said in the network, which redaction would not find.

use crate::command::Command;
use crate::network::Network;
use rialto_engine::{FactChange, FactNow, FactPage};
use rialto_model::{FaceName, Fault};

/// The facts of one face in one network. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Facts {
    network: Network,
    face: FaceName,
}

impl Network {
    /// The facts of a face.
    pub fn facts(&self, face: FaceName) -> Facts {
        Facts { network: self.clone(), face }
    }
}

impl Facts {
    /// What a fact says, as JSON text.
    pub async fn get(&self, key: &str) -> Result<Option<Box<str>>, Fault> {
        let (face, key) = (self.face.clone(), key.into());
        self.network.ask(|reply| Command::Fact { face, key, reply }).await?
    }

    /// Facts whose keys begin with a prefix, in the order of their keys, after one of them.
    pub async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<FactPage, Fault> {
        let (face, prefix, after) = (self.face.clone(), prefix.into(), after.map(Into::into));
        self.network.ask(|reply| Command::Facts { face, prefix, after, limit, reply }).await?
    }

    /// Sets a fact to one JSON value.
    pub async fn set(&self, key: &str, value: &str) -> Result<(), Fault> {
        self.change(key, Some(value), FactNow::Anything).await.map(drop)
    }

    /// Sets a fact if it says what is expected, and gives whether it did.
    pub async fn set_if(&self, key: &str, value: &str, now: FactNow) -> Result<bool, Fault> {
        self.change(key, Some(value), now).await
    }

    /// Removes a fact.
    pub async fn remove(&self, key: &str) -> Result<(), Fault> {
        self.change(key, None, FactNow::Anything).await.map(drop)
    }

    async fn change(&self, key: &str, value: Option<&str>, only_if: FactNow) -> Result<bool, Fault> {
        let change = FactChange { face: self.face.clone(), key: key.into(), value: value.map(Into::into), only_if };
        self.network.ask(|reply| Command::ChangeFact { change: Box::new(change), reply }).await?
    }
}
