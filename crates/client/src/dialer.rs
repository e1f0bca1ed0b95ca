//! How connections come about: where the user said, directly; where somebody else said, through the guarded client.

use crate::endpoint::Endpoint;
use crate::error::ClientError;
use crate::tls;
use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rialto_outbound::{FetchBounds, GuardedStream, Outbound};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::Service;

const CONNECT_WAIT: Duration = Duration::from_secs(5);

type Fault = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone)]
pub(crate) enum Dialer {
    Direct(HttpsConnector<HttpConnector>),
    Guarded(Outbound),
}

#[derive(Debug)]
pub(crate) enum Dialed {
    Direct(Box<MaybeHttpsStream<TokioIo<TcpStream>>>),
    Guarded(TokioIo<GuardedStream>),
}

impl Dialer {
    pub(crate) fn direct(endpoint: &Endpoint) -> Result<Dialer, ClientError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_WAIT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let config = tls::config_for(endpoint)?;
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config((*config).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Dialer::Direct(https))
    }
}

impl Service<Uri> for Dialer {
    type Response = Dialed;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Dialed, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        match self {
            Dialer::Direct(https) => https.poll_ready(cx),
            Dialer::Guarded(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Dialer::Direct(https) => {
                let connecting = https.call(uri);
                Box::pin(async move { connecting.await.map(|stream| Dialed::Direct(Box::new(stream))) })
            }
            Dialer::Guarded(outbound) => {
                let outbound = outbound.clone();
                Box::pin(async move {
                    let target = outbound.target(&uri.to_string())?;
                    let stream = outbound.connect(&target, &FetchBounds::default()).await?;
                    Ok(Dialed::Guarded(TokioIo::new(stream)))
                })
            }
        }
    }
}

impl Connection for Dialed {
    fn connected(&self) -> Connected {
        match self {
            Dialed::Direct(stream) => stream.connected(),
            Dialed::Guarded(_) => Connected::new(),
        }
    }
}

impl Read for Dialed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Dialed::Direct(stream) => Pin::new(stream).poll_read(cx, buffer),
            Dialed::Guarded(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Dialed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Dialed::Direct(stream) => Pin::new(stream).poll_write(cx, bytes),
            Dialed::Guarded(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Dialed::Direct(stream) => Pin::new(stream).poll_flush(cx),
            Dialed::Guarded(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Dialed::Direct(stream) => Pin::new(stream).poll_shutdown(cx),
            Dialed::Guarded(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
