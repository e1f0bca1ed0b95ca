//! Carriers that listen: HTTP/1.1, HTTP/2, WebSocket, SSE and gRPC share one port; TLS when a certificate is given.
//!
//! Not here: what the bytes mean (the faces), and how faces are mounted (`rialto-carrier`).

pub mod modprocess;
mod patience;
mod places;
#[cfg(test)]
mod tests;
pub mod tls;

use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::conn::auto::upgrade::downcast;
use patience::Patience;
use places::{ConnectionPlace, Places};
use rialto_carrier::websocket::socket::RawConnection;
use rialto_carrier::{HttpService, Standing};
use rialto_model::limits;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections may finish what they do for this long after a stop, and say goodbye for as long when nothing is asked any more.
const GRACE: Duration = Duration::from_secs(5);
const PATIENCE: Patience = Patience {
    headers: Duration::from_secs(limits::HEADER_SECONDS_MAX),
    idle: Duration::from_secs(limits::IDLE_SECONDS_MAX),
    unread: Duration::from_secs(limits::UNREAD_SECONDS_MAX),
    goodbye: GRACE,
};
/// HTTP/2 peers are pinged after this long of silence …
const PING_AFTER: Duration = Duration::from_secs(20);
/// … and given up after this long.
const PONG_WITHIN: Duration = Duration::from_secs(40);

/// What answers the requests of a listener.
pub trait ListenerService:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Unpin + Send> + Send + 'static
{
    /// What answers the requests of one connection.
    fn for_peer(&self, peer: IpAddr, standing: Standing) -> Self;
}

impl ListenerService for HttpService {
    fn for_peer(&self, peer: IpAddr, standing: Standing) -> HttpService {
        HttpService::for_peer(self, peer, standing)
    }
}

/// A bound listener.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Option<tls::Acceptor>,
    connections_max: usize,
}

impl Listener {
    /// Binds; port 0 takes a free one. More connections than `connections_max` are closed at once.
    pub async fn bind(
        addr: SocketAddr,
        tls: Option<tls::Acceptor>,
        connections_max: usize,
    ) -> std::io::Result<Listener> {
        let connections_max = connections_max.min(limits::CONNECTIONS_MAX);
        Ok(Listener { tcp: TcpListener::bind(addr).await?, tls, connections_max })
    }

    /// The address it got.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` fires, then lets connections finish for a moment.
    pub async fn serve<F: ListenerService>(self, service: F, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let places = Places::new(self.connections_max);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.tcp.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors and the like: wait for others to close instead of spinning.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some((place, standing)) = places.take().await else {
                tracing::warn!("all {} connections are taken", self.connections_max);
                continue;
            };
            let (tls, service, stop) = (self.tls.clone(), service.for_peer(peer.ip(), standing.clone()), stop.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = accept(stream, tls, service, (place, standing.clone()), stop) => {}
                    () = standing.dismissed() => tracing::debug!("a connection without a credential left for another"),
                }
            });
        }
        connections.close();
        let _ = tokio::time::timeout(GRACE, connections.wait()).await;
    }
}

/// Serves one accepted connection. Its place is taken until it ends, also as what it was upgraded to.
async fn accept<F: ListenerService>(
    stream: TcpStream,
    tls: Option<tls::Acceptor>,
    service: F,
    (place, standing): (ConnectionPlace, Standing),
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let place = Arc::new(place);
    match tls {
        None => serve(stream, service, RawConnection { unwrap: Some(bare), place, standing }, stop).await,
        Some(tls) => match tokio::time::timeout(PATIENCE.headers, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve(stream, service, RawConnection { unwrap: None, place, standing }, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        },
    }
}

/// Serves one connection. Safe to drop: what was answered is committed.
async fn serve<S, F>(stream: S, service: F, raw: RawConnection, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: ListenerService,
{
    let mut builder = Builder::new(TokioExecutor::new());
    // An answer is small and goes out whole: copying it together is cheaper than writing it in parts.
    builder.http1().writev(false).max_buf_size(limits::HEADER_BYTES_MAX).keep_alive(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        // What a client may send ahead of its reader. The library ends a connection whose unread frames are small and many, by a budget of
        // half of the connection's window; a single stream of small messages, however small, stays within it.
        .initial_stream_window_size(limits::STREAM_AHEAD_BYTES_MAX)
        .initial_connection_window_size(limits::CONNECTION_AHEAD_BYTES_MAX)
        .max_header_list_size(u32::try_from(limits::HEADER_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    let standing = raw.standing.clone();
    let (stream, service, shared) = patience::watch(stream, service, PATIENCE, raw);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut stopping = false;
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    standing.break_off();
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = shared.enough(), if !stopping => connection.as_mut().graceful_shutdown(),
        }
    }
}

/// The socket of a connection without TLS that was upgraded, and what was read from it already.
fn bare(upgraded: Upgraded) -> Result<(TcpStream, Bytes), Upgraded> {
    let parts = downcast::<TokioIo<patience::Watched<TcpStream>>>(upgraded)?;
    Ok((parts.io.into_inner().into_inner(), parts.read_buf))
}
