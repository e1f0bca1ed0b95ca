//! How long a connection may take: to send the headers it has begun, to ask for something at all, to take what waits for it.
//! hyper knows a single limit for all of it and sets a timer per request; here one timer is set anew only when it fires.
//!
//! - From its beginning to its first request, whatever the protocol: `headers`. So a TLS client, or one that sends the beginning of
//!   HTTP/2 and nothing else, is not waited for longer than any other.
//! - Between two requests: `idle`. On HTTP/2 there is no request while no stream is open; frames that ask for nothing do not count.
//! - While an answer goes out: any time, as long as the client takes some of what waits for it within `unread`. An answer that has nothing
//!   to say for now, such as a stream of events or a long poll, waits for nobody.

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, Version, header};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use rialto_carrier::websocket::socket::RawConnection;
use std::future::Future;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, Sleep, sleep_until};

/// A piece of an answer with more bytes is followed until it has gone out: a protocol may keep it back long after the answer is whole.
const LARGE_PIECE_BYTES: usize = 64 << 10;
/// Bytes that go out within `unread` count as taken if they are more than what a protocol says by itself (pings, their answers).
const TAKEN_BYTES_MIN: usize = 256;

/// Reads of what is forgotten in a row, before others have their turn.
const LINGER_READS: usize = 32;
/// Connections that may do so at a time: a kindness to those who mean well, that must not cost much.
static LINGERING: Semaphore = Semaphore::const_new(64);

/// How long is waited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// From the first byte of a request to the end of its headers; also from the beginning of a connection to its first request.
    pub(crate) headers: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// While something waits for the client and it takes nothing.
    pub(crate) unread: Duration,
    /// For the goodbye of a protocol that has one, and for the rest of a body that is not wanted.
    pub(crate) goodbye: Duration,
}

/// What the two halves tell each other.
#[derive(Debug)]
pub(crate) struct Shared {
    /// When the connection began.
    began: Instant,
    /// Milliseconds from then to the end of the last answer.
    answered_at: AtomicU64,
    /// Requests whose headers were complete.
    begun: AtomicU64,
    /// Those of them that are not answered to the end.
    open: AtomicUsize,
    /// Answers that would go on if the client took what they said before.
    waiting: AtomicUsize,
    /// Large pieces of answers that have not gone out.
    unsent: AtomicUsize,
    /// It speaks HTTP/2.
    is_http2: AtomicBool,
    /// Upgraded connections have their own ways to find out who is gone.
    exempt: AtomicBool,
    /// The last answer ends the connection before all of its request has come.
    lingers: AtomicBool,
    /// Told when nothing was asked for too long: HTTP/2 says goodbye.
    enough: Notify,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            began: Instant::now(),
            answered_at: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            exempt: AtomicBool::new(false),
            lingers: AtomicBool::new(false),
            enough: Notify::new(),
        }
    }

    /// When the last answer was given to the end.
    fn answered_at(&self) -> Instant {
        self.began + Duration::from_millis(self.answered_at.load(Ordering::Acquire))
    }

    /// Waits until it is time to say goodbye.
    pub(crate) async fn enough(&self) {
        self.enough.notified().await;
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionActivity {
    /// Nothing was asked yet.
    First,
    /// Headers have begun to arrive.
    Headers,
    /// Something is answered.
    Answering,
    /// All was answered.
    Idle,
    /// It was told that nothing more is awaited.
    Leaving,
}

/// A connection that fails when it takes too long.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    shared: Arc<Shared>,
    patience: Patience,
    doing: ConnectionActivity,
    /// Since when.
    since: Instant,
    /// Requests seen so far.
    begun: u64,
    /// The system takes no more for now.
    blocked: bool,
    /// Since when the client has taken nothing of what waits for it.
    unread_since: Option<Instant>,
    /// What it has taken since then.
    taken: usize,
    timer: Option<Pin<Box<Sleep>>>,
    /// Until when the rest of a request is read and forgotten, now that the last word is said.
    lingering: Option<(Pin<Box<Sleep>>, SemaphorePermit<'static>)>,
}

/// A service that says when requests begin and end.
#[derive(Debug, Clone)]
pub(crate) struct Watching<S> {
    inner: S,
    shared: Arc<Shared>,
    /// What an upgraded connection needs to know.
    raw: RawConnection,
}

/// Binds a connection and its service together.
pub(crate) fn watch<I, S>(
    inner: I,
    service: S,
    patience: Patience,
    raw: RawConnection,
) -> (Watched<I>, Watching<S>, Arc<Shared>) {
    let shared = Arc::new(Shared::new());
    let io = Watched {
        inner,
        shared: shared.clone(),
        patience,
        doing: ConnectionActivity::First,
        since: Instant::now(),
        begun: 0,
        blocked: false,
        unread_since: None,
        taken: 0,
        timer: None,
        lingering: None,
    };
    (io, Watching { inner: service, shared: shared.clone(), raw }, shared)
}

impl<S> Watched<S> {
    /// The connection itself, watched no longer.
    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    fn turn(&mut self, doing: ConnectionActivity) {
        if self.doing != doing {
            self.doing = doing;
            self.since = Instant::now();
        }
    }

    /// Looks what the connection is doing.
    fn look(&mut self) {
        let begun = self.shared.begun.load(Ordering::Acquire);
        if self.shared.open.load(Ordering::Acquire) > 0 {
            self.doing = ConnectionActivity::Answering;
        } else if begun != self.begun || self.doing == ConnectionActivity::Answering {
            // Also for what began and ended since the last look.
            self.doing = ConnectionActivity::Idle;
            self.since = self.shared.answered_at();
        }
        self.begun = begun;
    }

    /// Whether the client is to take something: the system has no room for it, or the protocol has not.
    fn is_unread(&self) -> bool {
        let waits = |count: &AtomicUsize| count.load(Ordering::Acquire) > 0;
        self.blocked || waits(&self.shared.waiting) || waits(&self.shared.unsent)
    }

    /// Notes that bytes came.
    fn came(&mut self, read: &[u8]) {
        if read.is_empty() || self.shared.is_http2.load(Ordering::Acquire) {
            return;
        }
        self.look();
        if self.doing == ConnectionActivity::Idle {
            self.turn(ConnectionActivity::Headers);
        }
    }

    /// Notes what became of a write: the client takes something, or the system has no room for more.
    fn wrote(&mut self, result: &Poll<std::io::Result<usize>>) {
        self.blocked = result.is_pending();
        if let Poll::Ready(Ok(bytes)) = result
            && self.unread_since.is_some()
        {
            self.taken += bytes;
            if self.taken >= TAKEN_BYTES_MIN {
                self.unread_since = None;
            }
        }
    }

    /// When the connection must have gone on, and what is said if it has not.
    fn due(&mut self) -> Option<(Instant, &'static str)> {
        self.look();
        if self.is_unread() {
            if self.unread_since.is_none() {
                self.taken = 0;
            }
            let since = *self.unread_since.get_or_insert_with(Instant::now);
            // An idle time begins when the answer has gone out.
            self.since = if self.doing == ConnectionActivity::Idle { Instant::now() } else { self.since };
            return Some((since + self.patience.unread, "nothing was read any more"));
        }
        self.unread_since = None;
        match self.doing {
            ConnectionActivity::First | ConnectionActivity::Headers => {
                Some((self.since + self.patience.headers, "headers took too long"))
            }
            ConnectionActivity::Idle => Some((self.since + self.patience.idle, "nothing was asked any more")),
            ConnectionActivity::Leaving => Some((self.since + self.patience.goodbye, "nothing was asked any more")),
            ConnectionActivity::Answering => None,
        }
    }

    /// Fails once it took too long.
    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        if self.shared.exempt.load(Ordering::Acquire) {
            self.timer = None;
            return Poll::Pending;
        }
        loop {
            // Nothing is due of what is answered; it is looked at again in a while, because nobody says when it has ended.
            let due = self.due();
            let again = || Instant::now() + self.patience.unread;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due.map_or_else(again, |(at, _)| at))));
            if let Some((at, _)) = due.filter(|(at, _)| timer.deadline() > *at) {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(cx));
            let Some((_, what)) = due.filter(|(at, _)| timer.deadline() >= *at) else {
                timer.as_mut().reset(due.map_or_else(again, |(at, _)| at));
                continue;
            };
            if self.doing == ConnectionActivity::Idle
                && self.shared.is_http2.load(Ordering::Acquire)
                && !self.is_unread()
            {
                // A request may be on its way: the goodbye says whether it counts.
                self.turn(ConnectionActivity::Leaving);
                self.shared.enough.notify_one();
                continue;
            }
            return Poll::Ready(Error::new(ErrorKind::TimedOut, what));
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
        this.poll_overdue(cx).map(Err)
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Reads and forgets what the client still sends. A connection that is closed with bytes unread is reset, and who is busy sending hears
    /// of that before it reads why.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((timer, _)) = &mut self.lingering else { return Poll::Ready(()) };
        for _ in 0..LINGER_READS {
            if timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut forgotten = [0; 8 << 10];
            let mut buf = ReadBuf::new(&mut forgotten);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(&result);
        if result.is_pending() { self.poll_overdue(cx).map(Err) } else { result }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.wrote(&result);
        if result.is_pending() { self.poll_overdue(cx).map(Err) } else { result }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.blocked = result.is_pending();
        if result.is_pending() { self.poll_overdue(cx).map(Err) } else { result }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            if self.shared.lingers.load(Ordering::Acquire)
                && let Ok(permit) = LINGERING.try_acquire()
            {
                self.lingering = Some((Box::pin(tokio::time::sleep(self.patience.goodbye)), permit));
            }
        }
        self.poll_linger(cx).map(Ok)
    }
}

/// A request that is not answered to the end.
#[derive(Debug)]
struct OpenRequest(Arc<Shared>);

impl OpenRequest {
    fn new(shared: &Arc<Shared>) -> OpenRequest {
        shared.begun.fetch_add(1, Ordering::AcqRel);
        shared.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest(shared.clone())
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.answered_at.store(now, Ordering::Release);
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer on its way, and whom to tell of it.
#[derive(Debug)]
pub(crate) struct AnswerInFlight<F> {
    inner: F,
    open: Option<OpenRequest>,
}

impl<F, E> Future for AnswerInFlight<F>
where
    F: Future<Output = Result<Response<Body>, E>> + Unpin,
{
    type Output = Result<Response<TrackedBody>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.inner).poll(cx))?;
        let open = self.open.take();
        if let Some(OpenRequest(shared)) = &open {
            if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                shared.exempt.store(true, Ordering::Release);
            } else if answer.headers().contains_key(header::CONNECTION) {
                shared.lingers.store(true, Ordering::Release);
            }
        }
        Poll::Ready(Ok(answer.map(|body| TrackedBody::new(body, open))))
    }
}

/// The body of an answer, which knows whether the client takes it.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    inner: Body,
    open: Option<OpenRequest>,
    waits: bool,
}

impl TrackedBody {
    fn new(inner: Body, open: Option<OpenRequest>) -> TrackedBody {
        let mut said = TrackedBody { inner, open, waits: false };
        // HTTP/2 asks for no body before the client has room for it.
        let is_http2 = said.open.as_ref().is_some_and(|open| open.0.is_http2.load(Ordering::Acquire));
        said.set_waits(is_http2 && !said.inner.is_end_stream());
        said
    }

    fn set_waits(&mut self, waits: bool) {
        if self.waits == waits {
            return;
        }
        self.waits = waits;
        if let Some(open) = &self.open {
            match waits {
                true => open.0.waiting.fetch_add(1, Ordering::AcqRel),
                false => open.0.waiting.fetch_sub(1, Ordering::AcqRel),
            };
        }
    }

    /// The same piece, followed until it has gone out if it is large.
    fn followed(&self, bytes: Bytes) -> Bytes {
        match &self.open {
            Some(open) if bytes.len() > LARGE_PIECE_BYTES => {
                open.0.unsent.fetch_add(1, Ordering::AcqRel);
                Bytes::from_owner(LargePiece { bytes, shared: open.0.clone() })
            }
            _ => bytes,
        }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.set_waits(false);
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // Whoever asks for more has taken what was before.
        self.set_waits(false);
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        let more = !self.inner.is_end_stream();
        self.set_waits(more);
        Poll::Ready(Some(Ok(frame.map_data(|bytes| self.followed(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A large piece of an answer that has not gone out.
#[derive(Debug)]
struct LargePiece {
    bytes: Bytes,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for LargePiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for LargePiece {
    fn drop(&mut self) {
        self.shared.unsent.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<S> Service<Request<Incoming>> for Watching<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
    S::Future: Unpin,
{
    type Response = Response<TrackedBody>;
    type Error = S::Error;
    type Future = AnswerInFlight<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if request.version() == Version::HTTP_2 && !self.shared.is_http2.load(Ordering::Acquire) {
            self.shared.is_http2.store(true, Ordering::Release);
        }
        if request.headers().contains_key(header::UPGRADE) {
            request.extensions_mut().insert(self.raw.clone());
        }
        let open = OpenRequest::new(&self.shared);
        AnswerInFlight { inner: self.inner.call(request), open: Some(open) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt as _, Full};
    use rialto_carrier::Standing;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const PATIENCE: Patience = Patience {
        headers: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        unread: Duration::from_secs(60),
        goodbye: Duration::from_secs(5),
    };

    type Io = Watched<tokio::io::DuplexStream>;

    async fn ends(io: &mut Io) -> (String, Duration) {
        let began = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(3600), io.read_u8()).await.unwrap();
        (ended.unwrap_err().to_string(), began.elapsed())
    }

    async fn is_quiet(io: &mut Io, seconds: u64) -> bool {
        tokio::time::timeout(Duration::from_secs(seconds), io.read_u8()).await.is_err()
    }

    fn watched() -> (tokio::io::DuplexStream, Io, Arc<Shared>) {
        let (peer, inner) = tokio::io::duplex(64);
        let raw = RawConnection { unwrap: None, place: Arc::new(()), standing: Standing::default() };
        let (io, _, shared) = watch(inner, (), PATIENCE, raw);
        (peer, io, shared)
    }

    async fn says(peer: &mut tokio::io::DuplexStream, io: &mut Io) {
        peer.write_all(b"G").await.unwrap();
        io.read_u8().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn headers_are_awaited_for_a_short_time_and_the_next_request_for_a_longer_one() {
        let (_silent, mut io, _) = watched();
        assert_eq!(ends(&mut io).await, ("headers took too long".to_owned(), PATIENCE.headers), "it says nothing");

        let (mut peer, mut io, shared) = watched();
        says(&mut peer, &mut io).await;
        let open = OpenRequest::new(&shared);
        assert!(is_quiet(&mut io, 1000).await, "nothing is due while a request is answered");
        drop(open);
        assert_eq!(ends(&mut io).await, ("nothing was asked any more".to_owned(), PATIENCE.idle));
        says(&mut peer, &mut io).await;
        assert_eq!(ends(&mut io).await.0, "headers took too long", "of a request that was begun");
    }

    /// Bytes that ask for nothing, as the beginning of HTTP/2 or its pings, are no request.
    #[tokio::test(start_paused = true)]
    async fn whatever_is_said_before_the_first_request_gives_no_more_time() {
        let (mut peer, mut io, _) = watched();
        let began = Instant::now();
        for byte in b"PRI * HTT" {
            peer.write_all(&[*byte]).await.unwrap();
            io.read_u8().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(ends(&mut io).await.0, "headers took too long");
        assert_eq!(began.elapsed(), PATIENCE.headers);
    }

    #[tokio::test(start_paused = true)]
    async fn http2_without_a_stream_is_idle_whatever_it_pings() {
        let (mut peer, mut io, shared) = watched();
        shared.is_http2.store(true, Ordering::Release);
        says(&mut peer, &mut io).await;
        drop(OpenRequest::new(&shared));
        assert!(is_quiet(&mut io, 1).await);
        let began = Instant::now();
        let mut told = false;
        let ended = loop {
            tokio::select! {
                ended = io.read_u8() => match ended {
                    Ok(_) => {}
                    Err(error) => break error,
                },
                () = tokio::time::sleep(Duration::from_secs(1)) => peer.write_all(b"ping").await.unwrap(),
                () = shared.enough() => {
                    told = true;
                    assert_eq!(began.elapsed().as_secs(), PATIENCE.idle.as_secs() - 1, "it is told first");
                }
            }
        };
        assert!(told);
        assert_eq!(ended.kind(), ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), (PATIENCE.idle + PATIENCE.goodbye).as_secs() - 1);
    }

    /// The whole time does not matter, whatever the protocol: a stream of events, a long poll, a download.
    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_any_time_as_long_as_it_is_taken() {
        for is_http2 in [false, true] {
            let (mut peer, mut io, shared) = watched();
            shared.is_http2.store(is_http2, Ordering::Release);
            says(&mut peer, &mut io).await;
            let body = Body::from_stream(pieces());
            let mut said = TrackedBody::new(body, Some(OpenRequest::new(&shared)));
            for _ in 0..10 {
                said.frame().await.unwrap().unwrap();
                assert!(is_quiet(&mut io, PATIENCE.unread.as_secs() - 1).await, "a piece is taken now and then");
                // More than there is room for: some of it waits for the peer.
                let (wrote, read) =
                    tokio::join!(io.write_all(&[0; 300]), async { peer.read_exact(&mut [0; 300]).await });
                wrote.unwrap();
                read.unwrap();
            }
            // Whoever asks for more and gets nothing waits for the node, not the node for it.
            let waiting = tokio::time::timeout(Duration::from_secs(1), async {
                loop {
                    said.frame().await.unwrap().unwrap();
                }
            });
            assert!(waiting.await.is_err());
            assert!(is_quiet(&mut io, 3600).await, "nothing is said for an hour");
        }
    }

    /// Ten pieces and a few, then silence.
    fn pieces() -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> {
        use futures_util::StreamExt as _;
        let pieces = futures_util::stream::iter((0..12).map(|_| Ok(Bytes::from_static(b"piece"))));
        pieces.chain(futures_util::stream::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_nothing_is_left() {
        // A system that has no room: nobody reads at the other end.
        let (mut peer, mut io, shared) = watched();
        says(&mut peer, &mut io).await;
        let open = OpenRequest::new(&shared);
        let began = Instant::now();
        let error = io.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), began.elapsed()), ("nothing was read any more", PATIENCE.unread));
        drop(open);

        // A protocol that has no room: the body is not asked for more.
        let (mut peer, mut io, shared) = watched();
        says(&mut peer, &mut io).await;
        let mut said = TrackedBody::new(Body::from_stream(pieces()), Some(OpenRequest::new(&shared)));
        said.frame().await.unwrap().unwrap();
        assert_eq!(ends(&mut io).await, ("nothing was read any more".to_owned(), PATIENCE.unread));
        drop(said);
        assert_eq!(shared.waiting.load(Ordering::Acquire), 0);

        // An answer that was given to the protocol whole and does not go out. What the protocol says by itself does not count.
        let (mut peer, mut io, shared) = watched();
        says(&mut peer, &mut io).await;
        let body = Body::new(Full::new(Bytes::from(vec![0; LARGE_PIECE_BYTES + 1])));
        let mut said = TrackedBody::new(body, Some(OpenRequest::new(&shared)));
        let piece = said.frame().await.unwrap().unwrap();
        drop(said);
        assert!(is_quiet(&mut io, PATIENCE.unread.as_secs() - 1).await);
        io.write_all(&[0; 17]).await.unwrap();
        assert_eq!(ends(&mut io).await, ("nothing was read any more".to_owned(), Duration::from_secs(1)));
        drop(piece);
        assert_eq!(shared.unsent.load(Ordering::Acquire), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn upgraded_connections_are_watched_by_others() {
        let (_peer, mut io, shared) = watched();
        shared.exempt.store(true, Ordering::Release);
        assert!(is_quiet(&mut io, 3600).await);
    }
}
