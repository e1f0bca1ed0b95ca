//! Freeing log segments, and the check that it really frees what no network needs: no network holds segments back by the
//! age of its snapshots, however quiet it is.

use super::World;
use super::oracle::{Wrong, wrong};
use rialto_store::Store as _;

impl World {
    pub(crate) async fn recycle(&mut self) -> Result<(), Wrong> {
        self.observe().await?;
        let before = self.segments();
        let mut held = self.free().await?;
        if !held.is_empty() && !self.trouble {
            // Acks that may wait go to the log with the next tick, and with them the snapshot of who was not quiet.
            self.pass(2_200).await;
            self.observe().await?;
            self.free().await?;
            self.pass(2_200).await;
            self.observe().await?;
            held = self.free().await?;
        }
        self.counts.recycled += before.saturating_sub(self.segments());
        if !held.is_empty() && !self.trouble {
            return wrong("recycling", format!("snapshots of networks {held:?} keep segments that nobody needs"));
        }
        self.observe().await
    }

    /// Frees what can be freed. Returns the networks whose snapshots keep more from being freed.
    async fn free(&mut self) -> Result<Vec<u32>, Wrong> {
        let Some(node) = self.node.clone() else { return Ok(Vec::new()) };
        Ok(self.drive(async move { node.recycle().await }).await?.into_iter().collect())
    }

    fn segments(&self) -> u64 {
        self.store.as_ref().map_or(0, |s| s.health().logs.iter().map(|l| l.segments).sum())
    }
}
