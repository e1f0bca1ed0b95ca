//! What is known of whoever is at the other end of a connection: whether a credential was proved on it, and what it costs until then.
//!
//! The listener makes a [`Standing`] for each connection and counts the connection by it; whoever learns that a credential is good says so.

use axum::http::HeaderValue;
use rialto_model::limits;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// The standing of one connection. Cheap to clone.
#[derive(Clone, Default)]
pub struct Standing(Arc<Inner>);

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").field("proved", &self.is_proved()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inner {
    proved: AtomicBool,
    /// Told of the proof.
    counted_by: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The first credential that was proved here, as it was shown, and its hash: most connections show no other.
    holder: OnceLock<(HeaderValue, [u8; 32])>,
    /// Bytes of requests without a credential that are kept until they are whole.
    held: AtomicUsize,
    /// Fires when the place is given to somebody else.
    leave: CancellationToken,
    /// It ended otherwise than its client and this node do that.
    broken: AtomicBool,
}

impl Standing {
    /// A standing whose proof is told to whoever counts the connection.
    pub fn counted_by(told: impl Fn() + Send + Sync + 'static) -> Standing {
        let standing = Standing::default();
        let _ = standing.0.counted_by.set(Box::new(told));
        standing
    }

    /// A credential was proved on this connection.
    pub fn prove(&self) {
        // Read first: a line of memory that everybody writes costs more than one that everybody reads.
        if !self.is_proved()
            && !self.0.proved.swap(true, Ordering::AcqRel)
            && let Some(told) = self.0.counted_by.get()
        {
            told();
        }
    }

    /// A credential was proved on this connection, shown like this.
    pub fn prove_holder(&self, shown: Option<&HeaderValue>, hash: [u8; 32]) {
        if let Some(shown) = shown
            && self.0.holder.get().is_none()
            // A copy: the header as it came keeps the buffer alive that it was read into.
            && let Ok(mut shown) = HeaderValue::from_bytes(shown.as_bytes())
        {
            shown.set_sensitive(true);
            let _ = self.0.holder.set((shown, hash));
        }
        self.prove();
    }

    /// The hash of what is shown, if it is what was proved here before.
    pub fn holder(&self, shown: &HeaderValue) -> Option<[u8; 32]> {
        self.0.holder.get().filter(|(before, _)| before == shown).map(|(_, hash)| *hash)
    }

    /// Whether a credential was proved on this connection.
    pub fn is_proved(&self) -> bool {
        self.0.proved.load(Ordering::Acquire)
    }

    /// Gives the place of this connection to somebody else: the connection ends, whatever it does.
    pub fn dismiss(&self) {
        self.0.leave.cancel();
    }

    /// Waits until the place is given to somebody else.
    pub async fn dismissed(&self) {
        self.0.leave.cancelled().await;
    }

    /// The connection has ended with an error: what was on its way may not have arrived.
    pub fn break_off(&self) {
        self.0.broken.store(true, Ordering::Release);
    }

    /// Whether it has ended with an error, or was ended for somebody else.
    pub fn is_broken(&self) -> bool {
        self.0.broken.load(Ordering::Acquire) || self.0.leave.is_cancelled()
    }

    /// Counts bytes that are kept for this connection before a credential is proved; gives whether they are within its bound. Those that
    /// are not are not counted.
    pub fn hold(&self, bytes: usize) -> bool {
        let within = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limits::UNPROVED_BODY_BYTES_MAX);
        self.0.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, within).is_ok()
    }

    /// They are kept no longer.
    pub fn let_go(&self, bytes: usize) {
        self.0.held.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Who asks, as far as a credential goes: an extension of every request that came without one.
#[derive(Debug, Clone, Default)]
pub struct Stranger {
    /// Its connection; not known where requests do not come from a socket.
    pub standing: Option<Standing>,
    /// The request itself has proved a credential since.
    proved: Arc<AtomicBool>,
}

impl Stranger {
    pub fn new(standing: Option<Standing>) -> Stranger {
        Stranger { standing, proved: Arc::default() }
    }

    /// What the request brought in its body or its stream has proved a credential.
    pub fn prove(&self) {
        self.proved.store(true, Ordering::Release);
        if let Some(standing) = &self.standing {
            standing.prove();
        }
    }

    /// Whether it has.
    pub fn has_proved(&self) -> bool {
        self.proved.load(Ordering::Acquire)
    }
}
