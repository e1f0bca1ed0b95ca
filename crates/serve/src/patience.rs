//! How long a connection may take to send the headers it has begun, and how long it may wait between two requests.
//! hyper knows a single limit for both and sets a timer per request; here one timer is set anew only when it fires.

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use hyper::service::Service;
use rialto_openagents::Beneath;
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// An answer with a body of more bytes, or of nobody knows how many, may take longer than a connection may be idle.
const SHORT_ANSWER_BYTES: u64 = 64 << 10;

/// How long is waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// From the first byte of a request to the end of its headers; also for the first byte of a connection.
    pub(crate) headers: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
}

/// What the two halves tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Requests whose headers were complete.
    begun: AtomicU64,
    /// Requests that were answered.
    answered: AtomicU64,
    /// The last answer goes on for a while: a stream of events, a file.
    long_answer: AtomicBool,
    /// HTTP/2 and upgraded connections have their own ways to find out who is gone.
    exempt: AtomicBool,
}

/// A connection that fails when headers take too long or nothing is asked any more.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    shared: Arc<Shared>,
    patience: Patience,
    /// When it must have gone on.
    due: Instant,
    /// Headers have begun to arrive.
    in_headers: bool,
    /// Requests seen so far.
    answered: u64,
    timer: Option<Pin<Box<Sleep>>>,
    fresh: bool,
}

/// A service that says when requests begin and end.
#[derive(Debug, Clone)]
pub(crate) struct Watching<S> {
    inner: S,
    shared: Arc<Shared>,
    /// What an upgraded connection needs to know.
    beneath: Beneath,
}

/// Binds a connection and its service together.
pub(crate) fn watch<I, S>(inner: I, service: S, patience: Patience, beneath: Beneath) -> (Watched<I>, Watching<S>) {
    let shared = Arc::new(Shared::default());
    let io = Watched {
        inner,
        shared: shared.clone(),
        patience,
        due: Instant::now() + patience.headers,
        in_headers: true,
        answered: 0,
        timer: None,
        fresh: true,
    };
    (io, Watching { inner: service, shared, beneath })
}

impl<S> Watched<S> {
    /// The connection itself, watched no longer.
    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    /// Notes that bytes went out: a connection is not idle while a long answer is on its way.
    fn wrote(&mut self, result: &Poll<std::io::Result<usize>>) {
        if matches!(result, Poll::Ready(Ok(n)) if *n > 0) && self.shared.long_answer.load(Ordering::Acquire) {
            self.due = Instant::now() + self.patience.idle;
        }
    }

    /// Notes that bytes came.
    fn came(&mut self, read: &[u8]) {
        if std::mem::take(&mut self.fresh) && read.starts_with(b"PRI") {
            self.shared.exempt.store(true, Ordering::Release);
        }
        let idle = self.shared.begun.load(Ordering::Acquire) == self.shared.answered.load(Ordering::Acquire);
        if !read.is_empty() && idle && !self.in_headers {
            self.in_headers = true;
            self.due = Instant::now() + self.patience.headers;
        }
    }

    /// Fails once nothing came for too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.shared.exempt.load(Ordering::Acquire) {
            self.timer = None;
            return Poll::Pending;
        }
        let (begun, answered) =
            (self.shared.begun.load(Ordering::Acquire), self.shared.answered.load(Ordering::Acquire));
        if begun != answered {
            self.in_headers = false;
            return Poll::Pending;
        }
        if answered != self.answered {
            self.answered = answered;
            self.in_headers = false;
            self.due = Instant::now() + self.patience.idle;
        }
        let due = self.due;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_read(cx, buf) {
            this.came(buf.filled().get(before..).unwrap_or_default());
            return Poll::Ready(result);
        }
        ready!(this.poll_overdue(cx));
        let what = if this.in_headers { "headers took too long" } else { "nothing was asked any more" };
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, what)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// An answer on its way, and whom to tell of it.
#[derive(Debug)]
pub(crate) struct Answer<F> {
    inner: F,
    shared: Arc<Shared>,
}

impl<F, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<Body>, E>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.inner).poll(cx));
        if answer.as_ref().is_ok_and(|a| a.status() == StatusCode::SWITCHING_PROTOCOLS) {
            self.shared.exempt.store(true, Ordering::Release);
        }
        let size = answer.as_ref().map_or(Some(0), |a| a.body().size_hint().exact());
        self.shared.long_answer.store(size.is_none_or(|size| size > SHORT_ANSWER_BYTES), Ordering::Release);
        self.shared.answered.fetch_add(1, Ordering::AcqRel);
        Poll::Ready(answer)
    }
}

impl<S> Service<Request<Incoming>> for Watching<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
    S::Future: Unpin,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(self.beneath.clone());
        }
        self.shared.begun.fetch_add(1, Ordering::AcqRel);
        Answer { inner: self.inner.call(request), shared: self.shared.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const PATIENCE: Patience = Patience { headers: Duration::from_millis(40), idle: Duration::from_millis(160) };

    async fn ends(io: &mut Watched<tokio::io::DuplexStream>) -> (String, Duration) {
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(20), io.read_u8()).await.unwrap();
        (ended.unwrap_err().to_string(), began.elapsed())
    }

    fn watched() -> (tokio::io::DuplexStream, Watched<tokio::io::DuplexStream>, Arc<Shared>) {
        let (peer, inner) = tokio::io::duplex(64);
        let beneath = Beneath { unwrap: None, place: Arc::new(()) };
        let (io, watching) = watch(inner, (), PATIENCE, beneath);
        (peer, io, watching.shared)
    }

    #[tokio::test]
    async fn headers_are_awaited_for_a_short_time_and_the_next_request_for_a_longer_one() {
        let (_silent, mut io, _) = watched();
        assert_eq!(ends(&mut io).await.0, "headers took too long", "of a connection that says nothing");

        let (mut peer, mut io, shared) = watched();
        peer.write_all(b"G").await.unwrap();
        io.read_u8().await.unwrap();
        shared.begun.fetch_add(1, Ordering::AcqRel);
        let quiet = tokio::time::timeout(4 * PATIENCE.idle, io.read_u8()).await;
        assert!(quiet.is_err(), "nothing is due while a request is answered: {quiet:?}");
        shared.answered.fetch_add(1, Ordering::AcqRel);
        let (why, took) = ends(&mut io).await;
        assert_eq!(why, "nothing was asked any more");
        assert!(took >= PATIENCE.idle, "{took:?}");
        peer.write_all(b"G").await.unwrap();
        io.read_u8().await.unwrap();
        assert_eq!(ends(&mut io).await.0, "headers took too long", "of a request that was begun");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_is_not_idle_while_it_goes_out() {
        let (mut peer, mut io, shared) = watched();
        peer.write_all(b"G").await.unwrap();
        io.read_u8().await.unwrap();
        shared.begun.fetch_add(1, Ordering::AcqRel);
        shared.long_answer.store(true, Ordering::Release);
        shared.answered.fetch_add(1, Ordering::AcqRel);
        for _ in 0..10 {
            let quiet = tokio::time::timeout(PATIENCE.idle / 2, io.read_u8()).await;
            assert!(quiet.is_err(), "a piece goes out now and then: {quiet:?}");
            io.write_all(b"piece").await.unwrap();
            peer.read_exact(&mut [0; 5]).await.unwrap();
        }
        let (why, took) = ends(&mut io).await;
        assert_eq!(why, "nothing was asked any more");
        assert!(took >= PATIENCE.idle, "{took:?}");
    }

    #[tokio::test]
    async fn upgraded_connections_are_watched_by_others() {
        let (_peer, mut io, shared) = watched();
        shared.exempt.store(true, Ordering::Release);
        let quiet = tokio::time::timeout(4 * PATIENCE.idle, io.read_u8()).await;
        assert!(quiet.is_err(), "{quiet:?}");
    }
}
