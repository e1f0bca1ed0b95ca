//! A connection from its first byte to its end, on HTTP/1.1 and HTTP/2, with a clock that does not keep anybody waiting.

use super::*;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use std::future::{Ready, ready};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Between two pieces of an answer that takes its time.
const BETWEEN_PIECES: Duration = Duration::from_secs(50);
const PIECES: usize = 20;

/// Answers with a word, with a stream that takes its time, with one that never ends, or with one that has nothing to say.
struct Stub;

impl Service<Request<Incoming>> for Stub {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let piece = |bytes: usize| Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]));
        let body = match request.uri().path() {
            "/slow" => Body::from_stream(futures_util::stream::iter(0..PIECES).then(move |_| async move {
                tokio::time::sleep(BETWEEN_PIECES).await;
                piece(16)
            })),
            "/endless" => Body::from_stream(futures_util::stream::repeat_with(move || piece(4096))),
            "/whole" => Body::from(vec![b'x'; 1 << 20]),
            "/silent" => Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>()),
            _ => Body::from("a word"),
        };
        ready(Ok(Response::new(body)))
    }
}

impl ListenerService for Stub {
    fn for_peer(&self, _: IpAddr, _: Standing) -> Stub {
        Stub
    }
}

/// The other end of a connection that is served.
fn connection() -> (DuplexStream, JoinHandle<()>) {
    let (peer, io) = tokio::io::duplex(64 << 10);
    let raw = RawConnection { unwrap: None, place: Arc::new(()), standing: Standing::default() };
    (peer, tokio::spawn(serve(io, Stub, raw, CancellationToken::new())))
}

fn ask(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://localhost{path}")).header("host", "localhost").body(Empty::new()).unwrap()
}

enum Asks {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Asks {
    async fn over(peer: DuplexStream, is_http2: bool) -> Asks {
        if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(peer)).await.unwrap();
            tokio::spawn(connection);
            return Asks::Two(sender);
        }
        let (sender, connection) = http1::handshake(TokioIo::new(peer)).await.unwrap();
        tokio::spawn(connection);
        Asks::One(sender)
    }

    async fn ask(&mut self, path: &str) -> Response<Incoming> {
        match self {
            Asks::One(sender) => sender.send_request(ask(path)).await.unwrap(),
            Asks::Two(sender) => sender.send_request(ask(path)).await.unwrap(),
        }
    }
}

/// How long a connection lives from now on, in seconds.
async fn lives(served: JoinHandle<()>) -> u64 {
    let began = Instant::now();
    tokio::time::timeout(Duration::from_secs(3600), served).await.unwrap().unwrap();
    began.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_nothing_is_not_waited_for_longer_than_for_headers() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    for said in [b"".as_slice(), b"PRI", PREFACE, settings.as_slice(), b"GET / HTTP/1.1\r\nhost: l"] {
        let (mut peer, served) = connection();
        peer.write_all(said).await.unwrap();
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            let _ = peer.read_to_end(&mut all).await;
        });
        assert_eq!(lives(served).await, limits::HEADER_SECONDS_MAX, "{said:?}");
        reading.await.unwrap();
    }
    // A whole client of HTTP/2 that answers every ping.
    let (peer, served) = connection();
    let _client = Asks::over(peer, true).await;
    assert_eq!(lives(served).await, limits::HEADER_SECONDS_MAX);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_whatever_it_speaks() {
    for is_http2 in [false, true] {
        let (peer, served) = connection();
        let mut client = Asks::over(peer, is_http2).await;
        for _ in 0..3 {
            client.ask("/").await.into_body().collect().await.unwrap();
            tokio::time::sleep(Duration::from_secs(limits::IDLE_SECONDS_MAX - 1)).await;
            assert!(!served.is_finished());
        }
        client.ask("/").await.into_body().collect().await.unwrap();
        let lived = lives(served).await;
        let at_most = limits::IDLE_SECONDS_MAX + GRACE.as_secs();
        assert!((limits::IDLE_SECONDS_MAX..=at_most).contains(&lived), "HTTP/2 {is_http2}: {lived}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_lives_as_long_as_it_is_taken() {
    for is_http2 in [false, true] {
        let (peer, served) = connection();
        let mut client = Asks::over(peer, is_http2).await;
        let began = Instant::now();
        let whole = client.ask("/slow").await.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(whole.len(), PIECES * 16, "HTTP/2 {is_http2}");
        assert_eq!(began.elapsed(), BETWEEN_PIECES * u32::try_from(PIECES).unwrap());
        // Nothing to say for an hour is no silence of the client.
        let _silent = client.ask("/silent").await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!served.is_finished(), "HTTP/2 {is_http2}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_of_an_answer_is_left() {
    for is_http2 in [false, true] {
        for path in ["/endless", "/whole"] {
            let (peer, served) = connection();
            let mut client = Asks::over(peer, is_http2).await;
            let answer = client.ask(path).await;
            let lived = lives(served).await;
            // The clock is looked at again when something stirs, which pings do every 20 seconds.
            let at_most = limits::UNREAD_SECONDS_MAX + PING_AFTER.as_secs();
            assert!((limits::UNREAD_SECONDS_MAX..=at_most).contains(&lived), "HTTP/2 {is_http2} {path}: {lived}");
            drop(answer);
        }
    }
}

/// The library counts 256 bytes for a frame that has fewer, as long as nobody has read it, and ends the connection above half of its window.
#[test]
fn one_stream_of_small_messages_stays_within_the_budget_for_small_frames() {
    const COUNTED_BYTES: u64 = 256;
    // A message of gRPC has five bytes before its own.
    for size in 5..COUNTED_BYTES {
        let frames = u64::from(limits::STREAM_AHEAD_BYTES_MAX) / size;
        let spent = frames * (COUNTED_BYTES - size);
        assert!(spent <= u64::from(limits::CONNECTION_AHEAD_BYTES_MAX / 2), "{size}: {spent}");
    }
}
