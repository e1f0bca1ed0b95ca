//! Reading a blob: piece by piece, away from the runtime's threads, the next one while the client takes the one before.

use super::{BlobError, Hash, PIECE_BYTES};
use crate::Host;
use crate::host::BlockingWork;
use bytes::{Bytes, BytesMut};
use rialto_model::hex;
use rialto_store::{BlobReader, Store, StoreError};
use std::ops::Range;
use std::sync::Arc;

/// A part of a blob on its way out.
#[derive(Debug)]
pub struct Download {
    reader: Arc<dyn BlobReader>,
    host: Host,
    at: u64,
    end: u64,
    /// The piece that comes next, on its way from the disk, and where it begins.
    coming: Option<(u64, BlockingWork<Read>)>,
    /// The piece that was given last: its memory is used again when nobody reads it any more.
    given: Bytes,
}

/// A piece and how much of it was read.
type Read = Result<(BytesMut, usize), StoreError>;

impl Download {
    pub(super) async fn open(
        store: &Arc<dyn Store>,
        host: &Host,
        hash: &Hash,
        range: Range<u64>,
    ) -> Result<Option<Download>, BlobError> {
        let (store, name) = (Arc::clone(store), hex::text(hash));
        let Some(reader) = host.blocking(move || store.open_blob(&name)).await?? else { return Ok(None) };
        let end = range.end.min(reader.size());
        let (reader, host, at) = (Arc::from(reader), host.clone(), range.start.min(end));
        Ok(Some(Download { reader, host, at, end, coming: None, given: Bytes::new() }))
    }

    /// Size of the whole blob.
    pub fn size(&self) -> u64 {
        self.reader.size()
    }

    /// What is still to come, as places in the blob.
    pub fn rest(&self) -> Range<u64> {
        self.at..self.end
    }

    /// The next piece, at most [`PIECE_BYTES`] long; `None` at the end. Dropped before it is done, it loses nothing: the
    /// piece is read again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let (at, size) = (self.at, self.size());
        let Some(wanted) = self.wanted(at) else { return Ok(None) };
        let coming = match self.coming.take() {
            Some((from, coming)) if from == at => coming,
            _ => self.begin(at, wanted),
        };
        let (mut piece, got) = coming.end().await??;
        if got < wanted {
            return Err(BlobError::CutShort { at: at + got as u64, size });
        }
        piece.truncate(got);
        self.at += got as u64;
        if let Some(wanted) = self.wanted(self.at) {
            self.coming = Some((self.at, self.begin(self.at, wanted)));
        }
        self.given = piece.freeze();
        Ok(Some(self.given.clone()))
    }

    /// Bytes of the piece that begins there; none at the end.
    fn wanted(&self, at: u64) -> Option<usize> {
        usize::try_from(self.end.saturating_sub(at).min(PIECE_BYTES as u64)).ok().filter(|wanted| *wanted > 0)
    }

    /// Has a piece read.
    fn begin(&mut self, at: u64, wanted: usize) -> BlockingWork<Read> {
        let reader = Arc::clone(&self.reader);
        let spare = std::mem::take(&mut self.given).try_into_mut();
        self.host.begin(move || {
            let mut piece = spare.unwrap_or_default();
            piece.resize(wanted, 0);
            let got = reader.read_at(&mut piece, at)?;
            Ok((piece, got))
        })
    }
}
