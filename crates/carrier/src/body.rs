//! Bodies of requests on their way in: each has a clock, and what is kept of it until it is whole is charged to somebody.
//!
//! - Whoever is waited for sends at least [`limits::BODY_BYTES_PER_SECOND_MIN`] on average, after [`limits::BODY_GRACE_SECONDS`]. Time that
//!   the node itself needs, for its disk or for room, does not count.
//! - Before a credential is shown a connection has [`limits::UNPROVED_BODY_BYTES_MAX`], all of them together
//!   [`limits::UNPROVED_BODIES_BYTES_MAX`]. With a credential its holder has [`limits::BODIES_PER_CREDENTIAL_BYTES_MAX`], all together
//!   [`limits::BODIES_BYTES_MAX`].
//!
//! A body that is there at once, as most are, is charged to nobody and needs no timer.

use crate::answer::{Refusal, too_large};
use crate::standing::Stranger;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use rialto_model::{ErrorCode, Fault, limits};
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRefusal {
    /// It came too slowly.
    Slow,
    /// It has more bytes than somebody without a credential may send.
    NoCredential,
    /// What its sender may have on the way is used up.
    OwnShare,
    /// What all together may have on the way is used up.
    AllShares,
    /// It is larger than any body may be.
    TooLarge,
}

impl fmt::Display for BodyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault().message)
    }
}

impl std::error::Error for BodyRefusal {}

impl BodyRefusal {
    fn fault(self) -> Fault {
        let busy = |what: String| Fault::new(ErrorCode::RateLimited, what).details(json!({ "retry_after_ms": 1000 }));
        match self {
            BodyRefusal::Slow => Fault::new(
                ErrorCode::Timeout,
                format!(
                    "the body came too slowly: at least {} bytes a second after {} seconds",
                    limits::BODY_BYTES_PER_SECOND_MIN,
                    limits::BODY_GRACE_SECONDS
                ),
            ),
            BodyRefusal::NoCredential => Fault::new(
                ErrorCode::Unauthenticated,
                format!(
                    "a request without a valid credential in its headers has at most {} bytes of body on its connection; show one as Authorization: Bearer",
                    limits::UNPROVED_BODY_BYTES_MAX
                ),
            ),
            BodyRefusal::OwnShare => busy(format!(
                "this credential has {} bytes of bodies on their way in already; send fewer at a time",
                limits::BODIES_PER_CREDENTIAL_BYTES_MAX
            )),
            BodyRefusal::AllShares => {
                busy("too many bodies are on their way in; try again, or send smaller ones".to_owned())
            }
            BodyRefusal::TooLarge => too_large().fault,
        }
    }

    /// The answer. The rest of the body is not wanted, so the connection ends with it.
    pub fn answer(self) -> Response {
        let mut response = Refusal::from(self.fault()).into_response();
        if self == BodyRefusal::Slow {
            *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
        }
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// What all bodies of a node that are on their way in take.
#[derive(Debug, Default)]
pub struct BodyBudget(Mutex<TakenBytes>);

#[derive(Debug, Default)]
struct TakenBytes {
    strangers: usize,
    members: usize,
    each: HashMap<[u8; 32], usize>,
}

impl BodyBudget {
    fn taken(&self) -> MutexGuard<'_, TakenBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, payer: &Payer, bytes: usize) -> Result<(), BodyRefusal> {
        let mut taken = self.taken();
        match payer {
            Payer::Stranger(stranger) => {
                if taken.strangers + bytes > limits::UNPROVED_BODIES_BYTES_MAX {
                    return Err(BodyRefusal::AllShares);
                }
                if !stranger.standing.as_ref().is_none_or(|standing| standing.hold(bytes)) {
                    return Err(BodyRefusal::NoCredential);
                }
                taken.strangers += bytes;
            }
            Payer::Holder(credential) => {
                if taken.members + bytes > limits::BODIES_BYTES_MAX {
                    return Err(BodyRefusal::AllShares);
                }
                let own = taken.each.get(credential).copied().unwrap_or(0) + bytes;
                if own > limits::BODIES_PER_CREDENTIAL_BYTES_MAX {
                    return Err(BodyRefusal::OwnShare);
                }
                taken.members += bytes;
                taken.each.insert(*credential, own);
            }
            Payer::Nobody => {}
        }
        Ok(())
    }

    fn give_back(&self, payer: &Payer, bytes: usize) {
        let mut taken = self.taken();
        match payer {
            Payer::Stranger(stranger) => {
                taken.strangers = taken.strangers.saturating_sub(bytes);
                if let Some(standing) = &stranger.standing {
                    standing.let_go(bytes);
                }
            }
            Payer::Holder(credential) => {
                taken.members = taken.members.saturating_sub(bytes);
                let left = taken.each.get(credential).copied().unwrap_or(0).saturating_sub(bytes);
                if left == 0 {
                    taken.each.remove(credential);
                } else {
                    taken.each.insert(*credential, left);
                }
            }
            Payer::Nobody => {}
        }
    }
}

/// Whom a body is charged to.
#[derive(Debug, Clone)]
pub enum Payer {
    /// Somebody who showed no credential that is known.
    Stranger(Stranger),
    /// Whoever holds the credential of this hash.
    Holder([u8; 32]),
    /// Nothing is kept: every piece is used as it comes.
    Nobody,
}

/// What becomes of the pieces of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyUse {
    /// They are kept until the last has come.
    Whole,
    /// Each goes on to the disk as it comes.
    Pieces,
    /// They are a conversation: silence is no fault, and its own rules bound it.
    Conversation,
}

/// A body on its way in.
#[derive(Debug)]
pub struct MeteredBody<B = Incoming> {
    inner: B,
    came: usize,
    purpose: BodyUse,
    payer: Payer,
    /// What is only needed by a body that is waited for.
    late: Option<Box<Late>>,
    bodies: Arc<BodyBudget>,
    /// Where it is told why the body was not read to its end.
    why: Option<Arc<OnceLock<BodyRefusal>>>,
}

#[derive(Debug)]
struct Late {
    timer: Pin<Box<Sleep>>,
    /// Since when the sender is waited for.
    since: Option<Instant>,
    /// How long it was waited for before.
    waited: Duration,
    /// Bytes charged.
    charged: usize,
}

impl MeteredBody {
    /// As a body of the router, and where it will be told why it was not read to its end.
    pub fn with_reason(mut self) -> (Body, Arc<OnceLock<BodyRefusal>>) {
        let why = Arc::new(OnceLock::new());
        self.why = Some(Arc::clone(&why));
        (Body::new(self), why)
    }
}

impl<B> MeteredBody<B> {
    pub fn new(inner: B, purpose: BodyUse, payer: Payer, bodies: Arc<BodyBudget>) -> MeteredBody<B> {
        MeteredBody { inner, came: 0, purpose, payer, late: None, bodies, why: None }
    }

    /// How long the sender may be waited for, with what has come.
    fn patience(&self) -> Duration {
        let earned = self.came as u64 / limits::BODY_BYTES_PER_SECOND_MIN;
        Duration::from_secs(limits::BODY_GRACE_SECONDS + earned)
    }

    /// Charges what has come and is not charged.
    fn charge(&mut self) -> Result<(), BodyRefusal> {
        let charged = self.late.as_ref().map_or(0, |late| late.charged);
        let more = self.came - charged;
        self.bodies.take(&self.payer, more)?;
        if let Some(late) = &mut self.late {
            late.charged += more;
        }
        Ok(())
    }

    fn is_strangers(&self) -> bool {
        matches!(&self.payer, Payer::Stranger(stranger) if !stranger.has_proved())
    }

    /// Notes that bytes came.
    fn arrived(&mut self, bytes: usize) -> Result<(), BodyRefusal> {
        self.came += bytes;
        if let Some(late) = &mut self.late
            && let Some(since) = late.since.take()
        {
            late.waited += since.elapsed();
        }
        if self.is_strangers() && self.came > limits::UNPROVED_BODY_BYTES_MAX {
            return Err(BodyRefusal::NoCredential);
        }
        // Only what waits is kept for long.
        if self.purpose == BodyUse::Whole && self.late.is_some() { self.charge() } else { Ok(()) }
    }

    /// Notes that nothing has come; fails when it is too late.
    fn wait(&mut self, cx: &mut Context<'_>) -> Result<(), BodyRefusal> {
        if self.purpose == BodyUse::Conversation {
            return Ok(());
        }
        let now = Instant::now();
        let first = self.late.is_none();
        let patience = self.patience();
        let late = self.late.get_or_insert_with(|| {
            let timer = Box::pin(sleep_until(now + patience));
            Box::new(Late { timer, since: None, waited: Duration::ZERO, charged: 0 })
        });
        let since = *late.since.get_or_insert(now);
        let due = since + patience.saturating_sub(late.waited);
        if late.timer.deadline() != due {
            late.timer.as_mut().reset(due);
        }
        if late.timer.as_mut().poll(cx).is_ready() {
            return Err(BodyRefusal::Slow);
        }
        if first && self.purpose == BodyUse::Whole { self.charge() } else { Ok(()) }
    }

    fn fail(&mut self, why: BodyRefusal) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(told) = &self.why {
            let _ = told.set(why);
        }
        Poll::Ready(Some(Err(why.into())))
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> HttpBody for MeteredBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let checked = match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => match this.arrived(frame.data_ref().map_or(0, Bytes::len)) {
                Ok(()) => return Poll::Ready(Some(Ok(frame))),
                Err(why) => Err(why),
            },
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => this.wait(cx),
        };
        match checked {
            Ok(()) => Poll::Pending,
            Err(why) => this.fail(why),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for MeteredBody<B> {
    fn drop(&mut self) {
        if let Some(late) = &self.late
            && late.charged > 0
        {
            self.bodies.give_back(&self.payer, late.charged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standing::Standing;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};

    type Inner = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;

    /// Pieces of this many bytes, this long apart, and then nothing more.
    fn pieces(count: usize, bytes: usize, apart: Duration) -> Inner {
        use futures_util::StreamExt as _;
        let coming = stream::unfold(0, move |n| async move {
            if n == count {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(apart).await;
            Some((Ok(Frame::data(Bytes::from(vec![b'x'; bytes]))), n + 1))
        });
        StreamBody::new(coming.boxed())
    }

    fn stranger(standing: &Standing) -> Payer {
        Payer::Stranger(Stranger::new(Some(standing.clone())))
    }

    async fn end(body: MeteredBody<Inner>) -> BodyRefusal {
        let error = body.collect().await.unwrap_err();
        *error.downcast_ref::<BodyRefusal>().unwrap_or_else(|| panic!("{error}"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_comes_at_a_minimum_rate_after_a_while() {
        let bodies = Arc::new(BodyBudget::default());
        let second = Duration::from_secs(1);
        for purpose in [BodyUse::Whole, BodyUse::Pieces] {
            // Nothing at all, and one that stops.
            for (count, bytes, seconds) in
                [(0, 0, limits::BODY_GRACE_SECONDS), (3, 2048, limits::BODY_GRACE_SECONDS + 6)]
            {
                let began = Instant::now();
                let inner = pieces(count, bytes, Duration::ZERO);
                let body = MeteredBody::new(inner, purpose, Payer::Holder([1; 32]), bodies.clone());
                assert_eq!(end(body).await, BodyRefusal::Slow);
                assert_eq!(began.elapsed().as_secs(), seconds, "{count} pieces of {bytes} bytes");
            }
            // As slow as it may be, for an hour; and one that is a little slower.
            let rate = usize::try_from(limits::BODY_BYTES_PER_SECOND_MIN).unwrap();
            let mut body =
                MeteredBody::new(pieces(3600, rate, second), purpose, Payer::Holder([1; 32]), bodies.clone());
            for _ in 0..3600 {
                body.frame().await.unwrap().unwrap();
            }
            let slower =
                MeteredBody::new(pieces(3600, rate / 2, second), purpose, Payer::Holder([1; 32]), bodies.clone());
            let began = Instant::now();
            assert_eq!(end(slower).await, BodyRefusal::Slow);
            assert!(began.elapsed() < Duration::from_secs(3 * limits::BODY_GRACE_SECONDS));
        }
        // A conversation may be silent.
        let mut silent = MeteredBody::new(pieces(0, 0, second), BodyUse::Conversation, Payer::Holder([1; 32]), bodies);
        assert!(tokio::time::timeout(3600 * second, silent.frame()).await.is_err());
    }

    /// The node's own time is not the sender's: a disk that takes an hour for each piece.
    #[tokio::test(start_paused = true)]
    async fn only_time_that_the_sender_is_waited_for_counts() {
        let mut body = MeteredBody::new(
            pieces(20, 1024, Duration::from_millis(500)),
            BodyUse::Pieces,
            Payer::Holder([1; 32]),
            Arc::default(),
        );
        for _ in 0..20 {
            body.frame().await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_have_little_each_and_all_together() {
        let (bodies, standing) = (Arc::new(BodyBudget::default()), Standing::default());
        let most = limits::UNPROVED_BODY_BYTES_MAX;
        // One body, whatever becomes of it; and several on one connection.
        for purpose in [BodyUse::Whole, BodyUse::Pieces, BodyUse::Conversation] {
            let body =
                MeteredBody::new(pieces(2, most / 2 + 1, Duration::ZERO), purpose, stranger(&standing), bodies.clone());
            assert_eq!(end(body).await, BodyRefusal::NoCredential, "{purpose:?}");
        }
        let mut held = Vec::new();
        for standing in [standing.clone(), standing] {
            let mut body = MeteredBody::new(
                pieces(1, most - 1, Duration::ZERO),
                BodyUse::Whole,
                stranger(&standing),
                bodies.clone(),
            );
            let waited = tokio::time::timeout(Duration::from_secs(1), async {
                while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
            });
            assert_eq!(waited.await.is_err(), held.is_empty(), "the first waits, the second has no room beside it");
            held.push(body);
        }
        // Everybody together.
        held.clear();
        for n in 0..=limits::UNPROVED_BODIES_BYTES_MAX / most {
            let own = Standing::default();
            let mut body =
                MeteredBody::new(pieces(1, most, Duration::ZERO), BodyUse::Whole, stranger(&own), bodies.clone());
            body.frame().await.unwrap().unwrap();
            let next = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
            let refused = next.ok().flatten().map(|frame| *frame.unwrap_err().downcast::<BodyRefusal>().unwrap());
            let expected = (n == limits::UNPROVED_BODIES_BYTES_MAX / most).then_some(BodyRefusal::AllShares);
            assert_eq!(refused, expected, "{n}");
            held.push(body);
        }
        drop(held);
        assert_eq!(bodies.taken().strangers, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn holders_of_credentials_have_a_share_each_and_all_together() {
        let bodies = Arc::new(BodyBudget::default());
        let piece = 4 << 20;
        let mut held = Vec::new();
        let mut refused = Vec::new();
        let each = limits::BODIES_PER_CREDENTIAL_BYTES_MAX / piece;
        let all = limits::BODIES_BYTES_MAX / piece;
        for n in 0..all + each {
            let payer = Payer::Holder([u8::try_from(n / (each + 1)).unwrap(); 32]);
            let mut body = MeteredBody::new(pieces(1, piece, Duration::ZERO), BodyUse::Whole, payer, bodies.clone());
            body.frame().await.unwrap().unwrap();
            let next = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
            refused.push(next.ok().flatten().map(|frame| *frame.unwrap_err().downcast::<BodyRefusal>().unwrap()));
            held.push(body);
        }
        assert_eq!(
            refused[each - 1..=each + 1],
            [None, Some(BodyRefusal::OwnShare), None],
            "another credential has its own"
        );
        assert_eq!(refused.last().unwrap(), &Some(BodyRefusal::AllShares));
        assert_eq!(refused.iter().filter(|refused| refused.is_none()).count(), all);
        drop(held);
        let taken = bodies.taken();
        assert_eq!((taken.members, taken.each.len()), (0, 0));
    }
}
