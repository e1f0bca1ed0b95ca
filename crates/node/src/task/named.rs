//! Content that records name: counted when they commit, so that a blob goes only after its last name.

use super::Task;
use crate::blobs::Blobs;
use rialto_engine::input::Content;
use rialto_engine::record::Change;
use rialto_engine::resources::Resource;
use rialto_engine::work::{Unit, WorkAct, WorkMark};
use rialto_engine::{EventRecord, Record, State};

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

    /// Notes which content a record that is about to be applied names, and which it drops.
    fn note(&mut self, state: &State, record: &Record) {
        if let Record::Event(event) = record {
            return self.note_artifact(state, event);
        }
        match record.change() {
            Some(Change::ResourceSet { resource, record }) => {
                self.dropped.extend(state.resource(*resource).into_iter().flat_map(Resource::blobs));
                self.named.extend(record.blobs());
            }
            Some(Change::ResourceGone { resource }) => {
                self.dropped.extend(state.resource(*resource).into_iter().flat_map(Resource::blobs));
            }
            Some(Change::WorkForgotten { units }) => {
                let units = units.iter().flat_map(|(from, to)| *from..=*to).filter_map(|no| state.unit(no));
                self.dropped.extend(units.flat_map(Unit::blobs));
            }
            Some(Change::UnitSet { unit, record }) => {
                let known = state.unit(*unit);
                self.named.extend(known.into_iter().flat_map(|_| record.blobs()));
                self.dropped.extend(known.into_iter().flat_map(Unit::blobs));
            }
            Some(Change::Redacted { seq }) => self.dropped.extend(state.chunks_of(*seq)),
            _ => {}
        }
    }

    /// An artifact that is replaced drops what it had; the chunk that comes is named by its unit.
    fn note_artifact(&mut self, state: &State, event: &EventRecord) {
        let mark = event.more.as_ref().and_then(|more| more.work.as_ref());
        let Some(WorkMark { unit, act: WorkAct::Artifact(artifact), .. }) = mark else { return };
        let Some(unit) = state.unit(*unit) else { return };
        let known = unit.artifacts.iter().find(|known| known.id == artifact.id);
        if let Some(known) = known.filter(|_| artifact.begins_anew()) {
            self.dropped.extend(known.blobs.iter().map(|chunk| chunk.content));
        }
        self.named.extend(artifact.blobs.iter().map(|chunk| chunk.content));
    }
}

impl Task {
    /// Notes which content a record that is about to be applied names, and which it drops.
    pub(super) fn note_blobs(&mut self, record: &Record) {
        self.open.blobs.note(&self.engine.state, record);
    }
}
