//! The search index of a world: a real file in a folder of its own, fed by the node's own follower whenever the script runs an errand
//! and after every look, so that it lags behind in between. No disk trouble reaches it; a power cut sometimes takes all of it, and the
//! node then feeds it anew.

use super::World;
use super::life::End;
use super::oracle::{Want, Wrong, wrong};
use rialto_store::search::SearchIndex;
use std::sync::Arc;

/// Hits on one page.
const PAGE: usize = 40;

impl World {
    /// The index, as the process opens it.
    pub(crate) fn search_index(&self) -> Result<Option<Arc<SearchIndex>>, Wrong> {
        let Some(dir) = &self.index else { return Ok(None) };
        match SearchIndex::open(dir.path().join("search.db")) {
            Ok(index) => Ok(Some(Arc::new(index))),
            Err(error) => wrong("world", format!("no search index: {error}")),
        }
    }

    /// Every second power cut takes the index.
    pub(crate) fn index_may_be_gone(&mut self, end: End) {
        let gone = end == End::PowerCut && self.counts.restarts.is_multiple_of(2);
        if let Some(dir) = self.index.as_ref().filter(|_| gone) {
            for file in std::fs::read_dir(dir.path()).into_iter().flatten().flatten() {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// The index follows the log as far as that is committed.
    pub(crate) fn follow_search(&self) {
        if let Some(node) = self.node.as_ref().filter(|_| self.index.is_some()) {
            while node.follow_search() {}
        }
    }

    /// Everybody finds by a word exactly what history shows them of it, wherever the index is.
    pub(crate) async fn compare_search(&mut self, n: usize) -> Result<(), Wrong> {
        let oracle = &self.nets[n].oracle;
        if self.index.is_none() || !oracle.rules.persistence {
            return Ok(());
        }
        let looks = oracle.looks;
        let text = if looks.is_multiple_of(2) { "text".to_owned() } else { format!("text {}", looks % 10) };
        let want = Want { text: Some(text), descending: looks.is_multiple_of(3), ..Want::default() };
        for c in 0..self.nets[n].clients.len() {
            self.read_history(n, c, false, &want, PAGE).await?;
        }
        self.read_history(n, 0, true, &want, PAGE).await
    }

    /// An index that is fed has come as far as the log.
    pub(crate) async fn index_catches_up(&mut self) -> Result<(), Wrong> {
        if self.index.is_none() {
            return Ok(());
        }
        self.follow_search();
        for n in 0..self.nets.len() {
            let Some(network) = self.nets[n].handle.clone() else { continue };
            let head = *network.head().borrow();
            let through = self.drive(async move { network.indexed_through().await }).await?;
            if through != Some(head) {
                return wrong("search", format!("the index has come to {through:?} of {head} and stays there"));
            }
        }
        Ok(())
    }
}
