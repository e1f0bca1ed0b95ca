//! One network out of this node, and into it (`archive::network`).
//!
//! Invariant: an import is a network from its last record on, or nothing: not in the list, not in the log, not at the next start.

use super::Node;
use crate::archive::network::{self, CheckedExport, ImportTarget};
use crate::archive::{ArchiveCounts, ArchiveError};
use crate::network::Network;
use crate::task::load;
use bytes::Bytes;
use rialto_engine::record::Change;
use rialto_engine::{AdminOp, Effects, Engine, Record, State};
use rialto_identity::Secret;
use rialto_model::error::Scope;
use rialto_model::network::{Policy, Token};
use rialto_model::{ErrorCode, Fault, NetworkId, limits};
use rialto_store::{BlobReader, Class, Lsn, Store, StoreError};
use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// Bytes read at once from an export that was taken in.
const READ_BYTES: usize = 256 << 10;

/// A network that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The network.
    pub network: Network,
    /// What was brought.
    pub counts: ArchiveCounts,
    /// Its only token, if it is a copy beside the one it was exported from.
    pub token: Option<Secret>,
}

impl Node {
    /// Writes one network as it is durable now. Blocks.
    pub fn export_network(&self, network: &Network, out: &mut dyn Write) -> Result<ArchiveCounts, ArchiveError> {
        // The book is read first and the content it names last.
        let _content_stays = self.inner.blobs.hold();
        network::export(self.inner.store.as_ref(), network.number(), out)
    }

    /// Takes in an export and makes it a network of this node, under another name if one is given. It keeps its id and its
    /// tokens, and no session of it; where a network has that id already, it is a copy with an id and a token of its own, and
    /// must be given a name.
    pub async fn import_network(&self, pieces: mpsc::Receiver<Bytes>, name: Option<&str>) -> Result<Imported, Fault> {
        let hold = self.inner.blobs.hold();
        let imported = self.import_held(pieces, name).await;
        drop(hold);
        // The export itself was taken in as content that nothing names.
        self.clean_up().await;
        imported
    }

    async fn import_held(&self, mut pieces: mpsc::Receiver<Bytes>, name: Option<&str>) -> Result<Imported, Fault> {
        let store = self.inner.store.clone();
        let mut take_in = move || {
            let mut writer = store.put_blob()?;
            while let Some(piece) = pieces.blocking_recv() {
                writer.write(&piece)?;
            }
            Ok::<_, StoreError>(writer.finish()?.hash)
        };
        let hash = self.import_step(move || take_in().map_err(ArchiveError::from)).await?;
        let (store, file) = (self.inner.store.clone(), hash.clone());
        let checked = self.import_step(move || network::check(&mut open(store.as_ref(), &file)?)).await?;
        let CheckedExport { state, counts } = checked;
        let (at, mut engine, token) = {
            let _one_at_a_time = self.inner.creating.lock().await;
            self.prepare(state, name)?
        };
        let store = self.inner.store.clone();
        let write = move || network::write_events(store.as_ref(), at, &mut open(store.as_ref(), &hash)?);
        let written = self.import_step(write).await;
        let _one_at_a_time = self.inner.creating.lock().await;
        let book = &engine.state.book;
        let free = written.and_then(|()| self.is_free(&book.id, &book.settings.name));
        let store = self.inner.store.clone();
        let committed = match free {
            Ok(()) => {
                let commit = move || network::write_state(store.as_ref(), at, &engine.state).map(|lsn| (engine, lsn));
                self.import_step(commit).await
            }
            Err(fault) => Err(fault),
        };
        match committed {
            Ok((written, lsn)) => {
                engine = written;
                let network = self.start(engine, at.class, lsn, None);
                Ok(Imported { network, counts, token })
            }
            Err(fault) => {
                self.abandon(at).await;
                Err(fault)
            }
        }
    }

    async fn import_step<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ArchiveError> + Send + 'static,
    ) -> Result<T, Fault> {
        match self.inner.host.blocking(work).await {
            Ok(done) => done.map_err(import_fault),
            Err(_) => Err(ErrorCode::ShuttingDown.into()),
        }
    }

    /// Whether a network of this id and name may be made now.
    fn is_free(&self, id: &str, name: &str) -> Result<(), Fault> {
        if self.inner.stopping.load(Ordering::SeqCst) {
            return Err(ErrorCode::ShuttingDown.into());
        }
        let taken = self.network(name).or_else(|| self.network(id));
        match taken {
            None => Ok(()),
            Some(other) => {
                let text = format!(
                    "this node has the network {:?} ({}) already; import under another name (--name) to have a copy beside it",
                    other.settings().name,
                    other.id()
                );
                Err(Fault::new(ErrorCode::AlreadyExists, text))
            }
        }
    }

    /// The network as it will be here, and where its records go.
    fn prepare(&self, state: State, name: Option<&str>) -> Result<(ImportTarget, Engine, Option<Secret>), Fault> {
        if self.networks().len() >= limits::NETWORKS_MAX {
            let text = format!("this node has reached its limit of {} networks", limits::NETWORKS_MAX);
            return Err(Fault::full(Scope::Node, limits::NETWORKS_MAX, text));
        }
        let internal = |_| Fault::from(ErrorCode::Internal);
        let State { mut book, lists, reading, .. } = state;
        if let Some(name) = name {
            super::valid_name(name)?.clone_into(&mut book.settings.name);
        }
        let is_copy = name.is_some() && self.network(&book.id).is_some();
        if is_copy {
            book.id = self.free_id().map_err(internal)?.into();
        }
        self.is_free(&book.id, &book.settings.name)?;
        book.number = u32::try_from(self.inner.next_number.fetch_add(1, Ordering::SeqCst)).unwrap_or(u32::MAX);
        let id = NetworkId::parse(&book.id).map_err(|e| Fault::new(ErrorCode::InvalidArgument, e.to_string()))?;
        let class = if book.settings.keep_for_ever { Class::EVER } else { Class::STD };
        let at = ImportTarget { class, number: book.number, epoch: self.inner.epoch };
        let mut state = State::from_parts(book, lists, id, self.inner.host.seed());
        state.reading = reading;
        let mut engine = Engine::new(state);
        end_sessions(&mut engine);
        let token = if is_copy { self.own_token(&mut engine)? } else { None };
        Ok((at, engine, token))
    }

    /// Takes the tokens of the original away from a copy and gives it one of its own, if it wants any.
    fn own_token(&self, engine: &mut Engine) -> Result<Option<Secret>, Fault> {
        let now = crate::clock::NetworkClock::resume(self.inner.host.clock(), engine.state.monotonic()).now();
        let labels: Vec<String> = engine.state.book.tokens.iter().map(|token| token.label.clone()).collect();
        let mut ops: Vec<AdminOp> = labels.into_iter().map(AdminOp::RevokeToken).collect();
        let secret = match engine.state.book.settings.policy {
            Policy::Open => None,
            Policy::Token | Policy::Invite | Policy::DidVerify => {
                Some(self.inner.host.secret().map_err(|_| Fault::from(ErrorCode::Internal))?)
            }
        };
        ops.extend(secret.as_ref().map(|s| AdminOp::AddToken(Token::whole("first", s.sha256(), now.wall))));
        for op in ops {
            let mut fx = Effects::default();
            engine.admin(&op, now, &mut fx)?;
            fx.take_records().iter().for_each(|record| engine.apply(record));
        }
        Ok(secret)
    }

    /// Sets an import aside that failed after it had begun.
    async fn abandon(&self, at: ImportTarget) {
        let store = self.inner.store.clone();
        let work = move || match load::load(store.as_ref(), at.class, at.number, 1) {
            Err(load::LoadError::Unfinished { last: Some(last), .. }) => {
                load::set_aside(store.as_ref(), at.class, at.number, last)
            }
            _ => Ok(()),
        };
        self.note_unfinished(at.class, at.number);
        if let Ok(Err(error)) = self.inner.host.blocking(work).await {
            tracing::warn!(network = at.number, %error, "an import that failed is set aside by the next start");
        }
    }

    /// Nothing is needed of the records of this number.
    fn note_unfinished(&self, class: Class, number: u32) {
        self.inner.blobs.load(number, []);
        self.inner.unfinished.lock().unwrap_or_else(PoisonError::into_inner).insert((class, number));
    }

    /// At the start: leaves out a network whose import was cut short.
    pub(super) async fn leave_out(&self, class: Class, number: u32, last: Option<Lsn>) {
        tracing::warn!(network = number, "an import was cut short and is left out; import the file again");
        self.note_unfinished(class, number);
        let Some(last) = last else { return };
        let store = self.inner.store.clone();
        let noted = self.inner.host.blocking(move || load::set_aside(store.as_ref(), class, number, last)).await;
        if let Ok(Err(error)) = noted {
            tracing::warn!(network = number, %error, "the rest of an import is not freed yet");
        }
    }

    /// Imports that came to nothing, whose records may be freed.
    pub(super) fn unfinished(&self) -> BTreeSet<(Class, u32)> {
        self.inner.unfinished.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sessions of the other node do not open this one: a copied file is not a copied trust.
fn end_sessions(engine: &mut Engine) {
    let open: Vec<(u32, Vec<u64>)> = engine
        .state
        .roster()
        .filter(|(_, member)| !member.sessions.is_empty())
        .map(|(id, member)| (id, member.sessions.iter().map(|session| session.number).collect()))
        .collect();
    for (member, numbers) in open {
        engine.apply(&Record::from(Change::SessionEnded { member, numbers, expired: false, voided: false }));
    }
}

fn import_fault(error: ArchiveError) -> Fault {
    match error {
        ArchiveError::Store(error) => {
            tracing::error!(%error, "an import failed");
            Fault::new(ErrorCode::StorageUnavailable, "the disk refused the import; nothing of it was kept")
        }
        error @ ArchiveError::Io(_) => Fault::new(ErrorCode::StorageUnavailable, error.to_string()),
        error @ ArchiveError::Damaged(_) => {
            Fault::new(ErrorCode::InvalidArgument, format!("{error}; nothing was imported: export the network again"))
        }
        error @ ArchiveError::Newer { .. } => Fault::new(
            ErrorCode::InvalidArgument,
            format!("{error}; nothing was imported: update this node, then import it again"),
        ),
        error @ ArchiveError::OtherKind(_) => Fault::new(ErrorCode::InvalidArgument, error.to_string()),
    }
}

/// An export that was taken in, from its beginning.
fn open(store: &dyn Store, hash: &str) -> Result<BufReader<TakenIn>, ArchiveError> {
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let reader = store.open_blob(hash)?.ok_or_else(missing)?;
    Ok(BufReader::with_capacity(READ_BYTES, TakenIn { reader, at: 0 }))
}

struct TakenIn {
    reader: Box<dyn BlobReader>,
    at: u64,
}

impl Read for TakenIn {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.reader.read_at(buf, self.at).map_err(std::io::Error::other)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateNetwork, NodeParts};
    use rialto_model::network::Preset;
    use rialto_model::view::VerifiedNetwork;
    use rialto_store::MemoryStore;
    use std::sync::Arc;

    async fn exported() -> Vec<u8> {
        let node = Node::open_with(NodeParts::over(Arc::new(MemoryStore::new()))).await.unwrap();
        let (network, _) = node.create_network(CreateNetwork::named("lab", Preset::Workspace)).await.unwrap();
        let mut file = Vec::new();
        // The state is read from the log: what was decided is there.
        network.state_hash().await.unwrap();
        node.export_network(&network, &mut file).unwrap();
        file
    }

    async fn import(node: &Node, file: &[u8]) -> Result<Imported, Fault> {
        let (feed, pieces) = mpsc::channel(8);
        feed.send(Bytes::copy_from_slice(file)).await.unwrap();
        drop(feed);
        node.import_network(pieces, None).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_import_without_its_last_record_is_left_out_and_freed() {
        let file = exported().await;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let at = ImportTarget { class: Class::STD, number: 7, epoch: store.epoch().unwrap() };
        network::write_events(store.as_ref(), at, &mut file.as_slice()).unwrap();
        for noted in [true, false] {
            let loaded = load::load(store.as_ref(), at.class, at.number, 1);
            let Err(load::LoadError::Unfinished { network: 7, last }) = loaded else { panic!("it is no network") };
            assert_eq!(last.is_some(), noted, "the first start notes it");
            let node = Node::open_with(NodeParts::over(store.clone())).await.unwrap();
            assert!(node.networks().is_empty());
            assert_eq!(node.unfinished(), BTreeSet::from([(at.class, 7)]));
            let report = crate::verify::verify(store.as_ref(), &Default::default(), &mut |_, _| {}).unwrap();
            let left = VerifiedNetwork::Unfinished { network: 7, unfinished_import: true };
            assert_eq!((report.ok, report.networks), (true, vec![left]));
            assert!(node.blobs().clean_up().await.unwrap().kept == 0, "its content is nobody's");
            // Two nodes on one store know nothing of what the other holds.
            for task in node.inner.tasks.lock().unwrap().drain(..) {
                task.abort();
            }
        }
        // A backup of such a node comes back without it too.
        let (mut backup, fresh) = (Vec::new(), MemoryStore::new());
        crate::archive::save(store.as_ref(), &mut backup).unwrap();
        crate::archive::restore(&fresh, &mut backup.as_slice(), &mut |_| {}).unwrap();
        assert!(Node::open_with(NodeParts::over(Arc::new(fresh))).await.unwrap().networks().is_empty());
        // And the network can be imported again, under a number that was never used.
        let node = Node::open_with(NodeParts::over(store)).await.unwrap();
        let imported = import(&node, &file).await.unwrap();
        assert_eq!((imported.network.number(), imported.network.settings().name.as_str()), (8, "lab"));
        let again = import(&node, &file).await.unwrap_err();
        assert_eq!(again.code, ErrorCode::AlreadyExists);
        assert_eq!(node.networks().len(), 1);
    }
}
