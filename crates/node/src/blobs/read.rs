//! Reading a blob: piece by piece, away from the runtime's threads.

use super::{BlobError, Hash, PIECE_BYTES};
use crate::Host;
use bytes::Bytes;
use rialto_model::hex;
use rialto_store::{BlobReader, Store};
use std::ops::Range;
use std::sync::Arc;

/// A part of a blob on its way out.
#[derive(Debug)]
pub struct Download {
    reader: Arc<dyn BlobReader>,
    host: Host,
    at: u64,
    end: u64,
}

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
        Ok(Some(Download { reader, host, at, end }))
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
        let Ok(wanted @ 1..) = usize::try_from((self.end - at).min(PIECE_BYTES as u64)) else { return Ok(None) };
        let reader = Arc::clone(&self.reader);
        let read = move || {
            let mut buf = vec![0; wanted];
            reader.read_at(&mut buf, at).map(|got| (buf, got))
        };
        let (buf, got) = self.host.blocking(read).await??;
        if got < wanted {
            return Err(BlobError::CutShort { at: at + got as u64, size });
        }
        self.at += got as u64;
        Ok(Some(buf.into()))
    }
}
