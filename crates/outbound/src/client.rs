//! The client: look up, judge, connect to what was judged, ask, read.

use crate::address::{AddressClass, class_of};
use crate::bounds::FetchBounds;
use crate::error::OutboundError;
use crate::fetch::{Fetch, Fetched, Fetching};
use crate::resolver::{NameResolver, SystemResolver};
use crate::target::{WebHost, WebTarget};
use crate::tls::{self, BadRoots};
use http_body_util::Full;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rialto_model::limits;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What an operator may set (`[outbound]`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboundSettings {
    /// Whether hosts on this machine and in private networks are reached, by plain HTTP too.
    pub allow_private_hosts: bool,
    /// Further certificates to trust, in PEM, besides the platform's or those of `SSL_CERT_FILE`.
    pub extra_ca_files: Vec<PathBuf>,
}

/// The guarded client. Cheap to clone; nothing is kept between two calls.
#[derive(Clone)]
pub struct Outbound {
    tls: Arc<ClientConfig>,
    resolver: Arc<dyn NameResolver>,
    private_hosts: bool,
    places: Arc<Semaphore>,
    connections: Arc<AtomicU64>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("private_hosts", &self.private_hosts).finish_non_exhaustive()
    }
}

/// Ends the connection's task when what hangs on it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionTask {
    task: JoinHandle<()>,
    _place: OwnedSemaphorePermit,
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Outbound {
    /// A client with these settings; certificates are read now.
    pub fn new(settings: &OutboundSettings) -> Result<Outbound, BadRoots> {
        Ok(Outbound {
            tls: tls::config(&settings.extra_ca_files)?,
            resolver: Arc::new(SystemResolver::default()),
            private_hosts: settings.allow_private_hosts,
            places: Arc::new(Semaphore::new(limits::OUTBOUND_CALLS_MAX)),
            connections: Arc::default(),
        })
    }

    /// The same client with other eyes for names.
    pub fn with_resolver(mut self, resolver: impl NameResolver) -> Outbound {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Whether private hosts are reached.
    pub fn allows_private_hosts(&self) -> bool {
        self.private_hosts
    }

    /// How many connections were begun since the client was made.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Reads a URL by this client's rules.
    pub fn target(&self, url: &str) -> Result<WebTarget, OutboundError> {
        Ok(WebTarget::parse(url, self.private_hosts)?)
    }

    /// One call with its whole answer.
    pub async fn fetch(&self, call: Fetch) -> Result<Fetched, OutboundError> {
        self.open(call).await?.collect().await
    }

    /// One call whose answer is read as it comes, within the call's bounds.
    pub async fn open(&self, call: Fetch) -> Result<Fetching, OutboundError> {
        let until = Instant::now() + call.bounds.whole;
        let target = self.target(&call.url)?;
        call.check()?;
        let slow = |phase, bound| too_slow(&target, phase, bound);
        let place = timeout_at(until, self.places.clone().acquire_owned())
            .await
            .map_err(|_| slow("to find a place among the calls on their way", call.bounds.whole))?
            .map_err(|_| OutboundError::Request("the client is closed"))?;
        let connection = timeout_at(until, self.connect(&target, &call.bounds))
            .await
            .map_err(|_| slow("to be reached", call.bounds.whole))??;
        let asked = timeout_at(until, timeout(call.bounds.head, ask(connection, &target, &call, place)));
        let (line, response) = match asked.await {
            Ok(Ok(asked)) => asked?,
            Ok(Err(_)) => return Err(slow("to begin its answer", call.bounds.head)),
            Err(_) => return Err(slow("to begin its answer", call.bounds.whole)),
        };
        let (head, body) = response.into_parts();
        check_head(&target, &call.bounds, &head)?;
        Ok(Fetching {
            status: head.status.as_u16(),
            headers: head.headers,
            host: target.to_string(),
            body,
            left: call.bounds.answer_bytes,
            bounds: call.bounds,
            until,
            _line: line,
        })
    }

    /// A connection to the host of a URL, encrypted where the URL says so: for protocols that begin with HTTP and go on.
    pub async fn connect(&self, target: &WebTarget, bounds: &FetchBounds) -> Result<GuardedStream, OutboundError> {
        let host = target.to_string();
        let connecting = async {
            let addresses = self.judged(target).await?;
            let stream = self.first_of(&host, &addresses, target.port(), bounds.connect).await?;
            // What is small is sent at once; a connection without it works too.
            let _ = stream.set_nodelay(true);
            if !target.is_tls() {
                return Ok(GuardedStream(Stream::Plain(stream)));
            }
            let unreachable = |reason: String| OutboundError::Unreachable { host: host.clone(), reason };
            let name = ServerName::try_from(target.host()).map_err(|error| unreachable(error.to_string()))?;
            let tls = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
            tls.map(|tls| GuardedStream(Stream::Tls(Box::new(tls)))).map_err(|error| unreachable(error.to_string()))
        };
        match timeout(bounds.connect, connecting).await {
            Ok(connection) => connection,
            Err(_) => Err(too_slow(target, "to be reached", bounds.connect)),
        }
    }

    /// The host's addresses, looked up once. One that is not reached spoils them all: a name that has both is a trap.
    async fn judged(&self, target: &WebTarget) -> Result<Vec<IpAddr>, OutboundError> {
        let host = target.to_string();
        let addresses = match target.place() {
            WebHost::Address(address) => vec![*address],
            WebHost::Name(name) => {
                let unknown = |reason: String| OutboundError::Unknown { host: host.clone(), reason };
                let mut found = self.resolver.resolve(name).await.map_err(|error| unknown(error.to_string()))?;
                let mut seen = Vec::with_capacity(found.len());
                found.retain(|address| {
                    !seen.contains(address) && {
                        seen.push(*address);
                        true
                    }
                });
                if found.is_empty() {
                    return Err(unknown("the name has no address".to_owned()));
                }
                found
            }
        };
        for address in &addresses {
            let class = class_of(*address);
            if !class.allowed(self.private_hosts) {
                return Err(OutboundError::Address { host, address: *address, class });
            }
            if class == AddressClass::Public && !target.is_tls() {
                return Err(OutboundError::Plain { host, address: *address });
            }
        }
        Ok(addresses)
    }

    /// The first of the judged addresses that takes a connection. All share the time to connect.
    async fn first_of(
        &self,
        host: &str,
        addresses: &[IpAddr],
        port: u16,
        time: Duration,
    ) -> Result<TcpStream, OutboundError> {
        let mut last = "the name has no address".to_owned();
        let tried = addresses.len().clamp(1, limits::OUTBOUND_ADDRESSES_MAX);
        let each = time / u32::try_from(tried).unwrap_or(1);
        for address in addresses.iter().take(limits::OUTBOUND_ADDRESSES_MAX) {
            self.connections.fetch_add(1, Ordering::Relaxed);
            match timeout(each, TcpStream::connect(SocketAddr::new(*address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "no answer to the connection".to_owned(),
            }
        }
        Err(OutboundError::Unreachable { host: host.to_owned(), reason: last })
    }
}

async fn ask(
    connection: GuardedStream,
    target: &WebTarget,
    call: &Fetch,
    place: OwnedSemaphorePermit,
) -> Result<(ConnectionTask, Response<hyper::body::Incoming>), OutboundError> {
    let host = target.to_string();
    let wrong = |error: hyper::Error| OutboundError::Answer { host: host.clone(), reason: innermost(&error) };
    let (mut sender, driver) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(limits::OUTBOUND_HEAD_BYTES_MAX)
        .max_headers(limits::OUTBOUND_ANSWER_HEADERS_MAX)
        .handshake(TokioIo::new(connection))
        .await
        .map_err(wrong)?;
    let task = tokio::spawn(async move {
        // What breaks shows at the request or at the body.
        let _ = driver.await;
    });
    let line = ConnectionTask { task, _place: place };
    let request = request_of(target, call)?;
    let response = sender.send_request(request).await.map_err(|error| {
        if error.is_closed() || error.is_incomplete_message() || error.is_canceled() {
            OutboundError::Unreachable { host: host.clone(), reason: innermost(&error) }
        } else {
            wrong(error)
        }
    })?;
    Ok((line, response))
}

fn request_of(target: &WebTarget, call: &Fetch) -> Result<Request<Full<bytes::Bytes>>, OutboundError> {
    let method = if call.body.is_some() { Method::POST } else { Method::GET };
    let body = Full::new(call.body.clone().unwrap_or_default());
    let mut request = Request::builder()
        .method(method)
        .uri(target.path_and_query())
        .body(body)
        .map_err(|_| OutboundError::Request("its path is not one of HTTP"))?;
    *request.headers_mut() = call.headers.clone();
    let host =
        HeaderValue::try_from(target.authority()).map_err(|_| OutboundError::Request("its host is not a header"))?;
    request.headers_mut().insert(header::HOST, host);
    request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    let agent = HeaderValue::from_static(concat!("rialto/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
    Ok(request)
}

fn check_head(
    target: &WebTarget,
    bounds: &FetchBounds,
    head: &hyper::http::response::Parts,
) -> Result<(), OutboundError> {
    let host = || target.to_string();
    if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
        return Err(OutboundError::Redirect { host: host(), status: head.status.as_u16() });
    }
    if head.status.is_informational() {
        return Err(OutboundError::Answer { host: host(), reason: "it changes the protocol".to_owned() });
    }
    let length: usize = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if length > limits::OUTBOUND_HEAD_BYTES_MAX {
        return Err(OutboundError::TooLarge { host: host(), limit: limits::OUTBOUND_HEAD_BYTES_MAX });
    }
    let coding = head.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(OutboundError::Answer {
            host: host(),
            reason: "it is compressed, which was not asked for".to_owned(),
        });
    }
    let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > bounds.answer_bytes as u64) {
        return Err(OutboundError::TooLarge { host: host(), limit: bounds.answer_bytes });
    }
    Ok(())
}

fn too_slow(target: &WebTarget, phase: &'static str, bound: Duration) -> OutboundError {
    let millis = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    OutboundError::TooSlow { host: target.to_string(), phase, millis }
}

/// The innermost cause says what happened; the outer ones only where.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// A connection to a judged address.
#[derive(Debug)]
pub struct GuardedStream(Stream);

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for GuardedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
