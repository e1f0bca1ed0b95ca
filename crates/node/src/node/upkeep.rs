//! Space that nobody needs any more: log segments, the snapshots that hold them back, content that nothing names.

use super::Node;
use rialto_store::{Class, Freed, Horizon};
use std::collections::{BTreeMap, BTreeSet};

/// How often segments are looked through for ones to free.
const UPKEEP_EVERY: std::time::Duration = std::time::Duration::from_secs(3600);

impl Node {
    /// Frees log segments that no network needs any more: purged, delivered, indexed, and covered by snapshots. Networks
    /// whose snapshots are too old for that, because little happens in them, are given new ones. Returns those that still
    /// hold something back, because they were writing at the time.
    pub async fn recycle(&self) -> BTreeSet<u32> {
        let mut by_class: BTreeMap<Class, Vec<Horizon>> = BTreeMap::new();
        for network in self.networks() {
            let Ok((class, seq)) = network.horizon().await else { continue };
            let indexed = if self.inner.index.is_some() { network.indexed_through().await.unwrap_or(0) } else { seq };
            by_class.entry(class).or_default().push(Horizon { network: network.number(), seq: seq.min(indexed) });
        }
        for (class, network) in self.unfinished() {
            by_class.entry(class).or_default().push(Horizon { network, seq: u64::MAX });
        }
        let (mut segments, mut held) = (0, BTreeSet::new());
        for (class, horizons) in by_class {
            let Some(mut freed) = self.free_segments(class, &horizons).await else { continue };
            segments += freed.segments;
            if self.renew_snapshots(&freed.held_by).await
                && let Some(again) = self.free_segments(class, &horizons).await
            {
                segments += again.segments;
                freed = again;
            }
            held.extend(freed.held_by);
        }
        if segments > 0 {
            tracing::info!(segments, "log segments freed");
        }
        held
    }

    async fn free_segments(&self, class: Class, horizons: &[Horizon]) -> Option<Freed> {
        let (store, horizons) = (self.inner.store.clone(), horizons.to_vec());
        match self.inner.host.blocking(move || store.recycle(class, &horizons)).await {
            Ok(Ok(freed)) => return Some(freed),
            Ok(Err(error)) => tracing::warn!(%error, "log segments were not freed"),
            Err(error) => tracing::warn!(%error, "log segments were not freed"),
        }
        None
    }

    /// Saves the state of networks twice, so that both kept snapshots are of now. Returns whether any was saved.
    async fn renew_snapshots(&self, numbers: &BTreeSet<u32>) -> bool {
        let mut renewed = false;
        for network in self.networks().into_iter().filter(|network| numbers.contains(&network.number())) {
            let Ok(Some(state)) = network.state_to_save().await else { continue };
            let (store, number) = (self.inner.store.clone(), network.number());
            let save =
                move || (0..2).try_for_each(|_| store.save_snapshot(state.class, number, state.lsn, &state.bytes));
            match self.inner.host.blocking(save).await {
                Ok(Ok(())) => renewed = true,
                Ok(Err(error)) => tracing::warn!(network = network.id(), %error, "snapshot was not renewed"),
                Err(error) => tracing::warn!(network = network.id(), %error, "snapshot was not renewed"),
            }
        }
        renewed
    }

    /// Removes the content that nothing names.
    pub(super) async fn clean_up(&self) {
        match self.inner.blobs.clean_up().await {
            Ok(cleaned) if cleaned.removed.is_empty() => {}
            Ok(cleaned) => {
                tracing::info!(
                    blobs = cleaned.removed.len(),
                    bytes = cleaned.bytes,
                    "content that nothing names is gone"
                )
            }
            Err(error) => tracing::warn!(%error, "content that nothing names was not removed"),
        }
    }
}

/// Once an hour: frees what no network needs any more. At the start only the content of uploads whose names never came.
pub(super) async fn run(node: Node) {
    node.clean_up().await;
    loop {
        tokio::select! {
            biased;
            () = node.inner.stop.cancelled() => return,
            () = tokio::time::sleep(UPKEEP_EVERY) => {
                node.recycle().await;
                node.clean_up().await;
            }
        }
    }
}
