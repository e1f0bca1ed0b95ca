//! Who holds which blob: references by network, content that waits to be named, uploads on their way in. Arithmetic
//! only: no lock, no clock, no disk.
//!
//! Invariant: `holders` counts the networks that hold a hash, and a network holds it while it names or stages it. Content
//! counts once against a network's quota, however often it is named there.

use super::{BlobError, Hash, STAGED_MS, Staging, StoredUpload};
use rialto_engine::MemberId;
use rialto_model::limits;
use std::collections::{BTreeMap, BTreeSet};

/// Network, member, hash.
pub(super) type StagedKey = (u32, MemberId, Hash);

/// What a network has of its quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUsage {
    /// Bytes of content that is named or staged, each counted once.
    pub bytes: u64,
    /// Bytes of uploads on their way in.
    pub arriving: u64,
    /// Pieces of content that are named or staged.
    pub blobs: u64,
}

#[derive(Debug, Default)]
pub(super) struct Registry {
    networks: BTreeMap<u32, Ledger>,
    holders: BTreeMap<Hash, u32>,
    staged: BTreeMap<StagedKey, Staged>,
    /// When a staged key may have to go.
    due: BTreeSet<(u64, StagedKey)>,
    uploads: BTreeMap<(u32, MemberId), usize>,
    uploading: usize,
    /// Networks whose book is not known.
    doubted: BTreeSet<u32>,
    holds: usize,
}

#[derive(Debug, Default)]
struct Ledger {
    held: BTreeMap<Hash, StagedContent>,
    bytes: u64,
    arriving: u64,
}

#[derive(Debug, Clone, Copy)]
struct StagedContent {
    size: u64,
    /// Places that name it.
    names: u64,
    /// Members that staged it.
    stages: u64,
}

#[derive(Debug, Clone, Copy)]
struct Staged {
    /// The member may name it before this.
    name_until: u64,
    /// It is kept at least until this.
    keep_until: u64,
}

impl Registry {
    pub(super) fn doubt(&mut self, network: u32) {
        self.doubted.insert(network);
    }

    pub(super) fn load(&mut self, network: u32, named: impl IntoIterator<Item = (Hash, u64)>) {
        let known = self.networks.get(&network).map(|ledger| ledger.held.keys().copied().collect::<Vec<_>>());
        for hash in known.unwrap_or_default() {
            self.change(network, hash, 0, |held| held.names = 0);
        }
        for (hash, size) in named {
            self.refer(network, hash, size);
        }
        self.doubted.remove(&network);
    }

    pub(super) fn refer(&mut self, network: u32, hash: Hash, size: u64) {
        self.change(network, hash, size, |held| held.names += 1);
    }

    /// Gives whether it was named.
    pub(super) fn release(&mut self, network: u32, hash: &Hash) -> bool {
        let held = self.networks.get(&network).and_then(|ledger| ledger.held.get(hash));
        let named = held.is_some_and(|held| held.names > 0);
        if named {
            self.change(network, *hash, 0, |held| held.names -= 1);
        }
        named
    }

    /// Changes how a network holds a hash; the size is that of a blob it does not hold yet.
    fn change(&mut self, network: u32, hash: Hash, size: u64, change: impl FnOnce(&mut StagedContent)) {
        let ledger = self.networks.entry(network).or_default();
        let before = ledger.held.get(&hash).copied();
        let mut held = before.unwrap_or(StagedContent { size, names: 0, stages: 0 });
        change(&mut held);
        let holds = held.names > 0 || held.stages > 0;
        if holds {
            ledger.held.insert(hash, held);
        } else {
            ledger.held.remove(&hash);
        }
        match (before.is_some(), holds) {
            (false, true) => {
                ledger.bytes += held.size;
                *self.holders.entry(hash).or_default() += 1;
            }
            (true, false) => {
                ledger.bytes -= held.size;
                let left = self.holders.get_mut(&hash).map_or(0, |holders| {
                    *holders -= 1;
                    *holders
                });
                if left == 0 {
                    self.holders.remove(&hash);
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Counts an upload that begins, if it may.
    pub(super) fn begin(&mut self, staging: &Staging, now: u64) -> Result<(), BlobError> {
        self.expire(now);
        let Staging { network, member, size_max, expected, .. } = *staging;
        if expected.is_some_and(|size| size > size_max) {
            return Err(BlobError::TooLarge { limit: size_max });
        }
        self.room(staging, expected.unwrap_or(0))?;
        let too_many = |what, limit| Err(BlobError::TooMany { what, limit });
        if self.uploading >= limits::UPLOADS_MAX {
            return too_many("uploads to this node at a time", limits::UPLOADS_MAX);
        }
        let here: usize = self.uploads.range((network, 0)..=(network, MemberId::MAX)).map(|(_, count)| count).sum();
        // A network never has more places than it leaves to others: however many fill theirs, one that comes finds some.
        let share = limits::UPLOADS_PER_NETWORK_MAX.min((limits::UPLOADS_MAX - self.uploading + here) / 2).max(1);
        if here >= share {
            return too_many("uploads of one network at a time", share);
        }
        let own = self.uploads.get(&(network, member)).copied().unwrap_or(0);
        if own >= limits::UPLOADS_PER_MEMBER_MAX {
            return too_many("uploads of one member at a time", limits::UPLOADS_PER_MEMBER_MAX);
        }
        let staged = self.staged.range((network, member, [0; 32])..=(network, member, [255; 32])).count();
        if staged + own >= limits::STAGED_PER_MEMBER_MAX {
            return too_many("uploads of one member that nothing names yet", limits::STAGED_PER_MEMBER_MAX);
        }
        *self.uploads.entry((network, member)).or_default() += 1;
        self.uploading += 1;
        Ok(())
    }

    fn room(&self, staging: &Staging, more: u64) -> Result<(), BlobError> {
        let used = self.networks.get(&staging.network).map_or(0, |ledger| ledger.bytes + ledger.arriving);
        let fits = used.checked_add(more).is_some_and(|sum| sum <= staging.quota);
        if fits { Ok(()) } else { Err(BlobError::Quota { quota: staging.quota, used }) }
    }

    /// Counts bytes of an upload, if the network has room for them.
    pub(super) fn arrive(&mut self, staging: &Staging, bytes: u64, now: u64) -> Result<(), BlobError> {
        self.expire(now);
        self.room(staging, bytes)?;
        self.networks.entry(staging.network).or_default().arriving += bytes;
        Ok(())
    }

    /// An upload of so many bytes is over, staged or not.
    pub(super) fn end(&mut self, staging: &Staging, bytes: u64) {
        if let Some(ledger) = self.networks.get_mut(&staging.network) {
            ledger.arriving = ledger.arriving.saturating_sub(bytes);
        }
        let uploader = (staging.network, staging.member);
        if let Some(own) = self.uploads.get_mut(&uploader) {
            *own -= 1;
            self.uploading -= 1;
            if *own == 0 {
                self.uploads.remove(&uploader);
            }
        }
    }

    /// Content is on the disk: its member may name it for a while.
    pub(super) fn stage(&mut self, staging: &Staging, stored: StoredUpload, now: u64) {
        let key = (staging.network, staging.member, stored.hash);
        let until = now.saturating_add(STAGED_MS);
        let keep_until = match self.staged.get(&key) {
            Some(before) => {
                self.due.remove(&(before.keep_until, key));
                before.keep_until.max(until)
            }
            None => {
                self.change(staging.network, stored.hash, stored.size, |held| held.stages += 1);
                until
            }
        };
        self.staged.insert(key, Staged { name_until: until, keep_until });
        self.due.insert((keep_until, key));
    }

    /// Nobody in the network may name it any more for having brought it.
    pub(super) fn unstage(&mut self, network: u32, hash: Hash) {
        let of_network = self.staged.range((network, 0, [0; 32])..=(network, MemberId::MAX, [255; 32]));
        let keys: Vec<(u64, StagedKey)> = of_network
            .filter(|((_, _, staged), _)| *staged == hash)
            .map(|(key, staged)| (staged.keep_until, *key))
            .collect();
        for (keep_until, key) in keys {
            self.staged.remove(&key);
            self.due.remove(&(keep_until, key));
            self.change(network, hash, 0, |held| held.stages -= 1);
        }
    }

    pub(super) fn may_name(&mut self, key: StagedKey, now: u64) -> Option<u64> {
        let staged = self.staged.get_mut(&key).filter(|staged| now < staged.name_until)?;
        self.due.remove(&(staged.keep_until, key));
        staged.keep_until = staged.keep_until.max(now.saturating_add(STAGED_MS));
        self.due.insert((staged.keep_until, key));
        let (network, _, hash) = key;
        self.networks.get(&network)?.held.get(&hash).map(|held| held.size)
    }

    /// Forgets what was staged too long ago.
    fn expire(&mut self, now: u64) {
        while let Some((until, key)) = self.due.first().copied().filter(|(until, _)| *until <= now) {
            self.due.remove(&(until, key));
            self.staged.remove(&key);
            let (network, _, hash) = key;
            self.change(network, hash, 0, |held| held.stages -= 1);
        }
    }

    /// Whether somebody names or stages it.
    pub(super) fn protects(&mut self, hash: &Hash, now: u64) -> bool {
        self.expire(now);
        self.holders.contains_key(hash) && !rialto_engine::bugs::on("clean-up takes what is named")
    }

    /// Whether nothing may be removed at all.
    pub(super) fn is_held(&self) -> bool {
        self.holds > 0 || !self.doubted.is_empty()
    }

    pub(super) fn hold(&mut self) {
        self.holds += 1;
    }

    pub(super) fn unhold(&mut self) {
        self.holds = self.holds.saturating_sub(1);
    }

    pub(super) fn usage(&mut self, network: u32, now: u64) -> QuotaUsage {
        self.expire(now);
        self.networks.get(&network).map_or_else(QuotaUsage::default, |ledger| QuotaUsage {
            bytes: ledger.bytes,
            arriving: ledger.arriving,
            blobs: ledger.held.len() as u64,
        })
    }

    pub(super) fn held(&self) -> u64 {
        self.holders.len() as u64
    }

    pub(super) fn staged(&self) -> u64 {
        self.staged.len() as u64
    }

    pub(super) fn uploading(&self) -> u64 {
        self.uploading as u64
    }
}
