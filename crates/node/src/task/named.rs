//! Content that records name: counted when they commit, so that a blob goes only after its last name.

use super::Task;
use crate::blobs::Blobs;
use rialto_engine::Record;
use rialto_engine::input::Content;
use rialto_engine::record::Change;

/// What a batch does to the names of content.
#[derive(Debug, Default)]
pub(super) struct BlobChanges {
    named: Vec<Content>,
    dropped: Vec<Content>,
}

impl BlobChanges {
    /// The batch is on the disk.
    pub(super) fn commit(self, blobs: &Blobs, network: u32) {
        // Names first: what is dropped and named again in one batch must not be gone in between.
        self.named.iter().for_each(|content| blobs.refer(network, &content.blob, content.size));
        self.dropped.iter().for_each(|content| blobs.release(network, &content.blob));
    }
}

impl Task {
    /// Notes which content a record that is about to be applied names, and which it drops.
    pub(super) fn note_blobs(&mut self, record: &Record) {
        let (no, fresh) = match record.change() {
            Some(Change::ResourceSet { resource, record }) => (*resource, Some(record)),
            Some(Change::ResourceGone { resource }) => (*resource, None),
            _ => return,
        };
        if let Some(old) = self.engine.state.resource(no) {
            self.blob_changes.dropped.extend(old.blobs());
        }
        self.blob_changes.named.extend(fresh.into_iter().flat_map(|resource| resource.blobs()));
    }
}
