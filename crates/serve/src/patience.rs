//! How long a connection may take to send the headers it has begun. The time a kept-alive connection waits between two
//! requests is another, longer one, and hyper knows only a single limit for both.

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What the two halves tell each other.
#[derive(Debug, Default)]
struct Shared {
    /// Requests whose headers were complete.
    begun: AtomicU64,
    /// Requests that were answered.
    answered: AtomicU64,
    /// HTTP/2 and upgraded connections have their own ways to find out who is gone.
    exempt: AtomicBool,
}

/// A connection that fails when headers take too long.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    shared: Arc<Shared>,
    within: Duration,
    /// Runs while headers are awaited.
    deadline: Option<Pin<Box<Sleep>>>,
    begun: u64,
    fresh: bool,
}

/// A service that says when requests begin and end.
#[derive(Debug, Clone)]
pub(crate) struct Watching<S> {
    inner: S,
    shared: Arc<Shared>,
}

/// Binds a connection and its service together.
pub(crate) fn watch<I, S>(inner: I, service: S, within: Duration) -> (Watched<I>, Watching<S>) {
    let shared = Arc::new(Shared::default());
    let deadline = Some(Box::pin(tokio::time::sleep(within)));
    let io = Watched { inner, shared: shared.clone(), within, deadline, begun: 0, fresh: true };
    (io, Watching { inner: service, shared })
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let begun = this.shared.begun.load(Ordering::Acquire);
        if begun != this.begun || this.shared.exempt.load(Ordering::Acquire) {
            this.begun = begun;
            this.deadline = None;
        }
        let before = buf.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_read(cx, buf) {
            let read = buf.filled().get(before..).unwrap_or_default();
            if std::mem::take(&mut this.fresh) && read.starts_with(b"PRI") {
                this.shared.exempt.store(true, Ordering::Release);
            }
            let idle = this.shared.answered.load(Ordering::Acquire) == begun;
            if !read.is_empty() && idle && this.deadline.is_none() && !this.shared.exempt.load(Ordering::Acquire) {
                this.deadline = Some(Box::pin(tokio::time::sleep(this.within)));
            }
            return Poll::Ready(result);
        }
        match &mut this.deadline {
            None => Poll::Pending,
            Some(deadline) => {
                ready!(deadline.as_mut().poll(cx));
                Poll::Ready(Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "headers took too long")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
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

type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S> Service<Request<Incoming>> for Watching<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let shared = self.shared.clone();
        shared.begun.fetch_add(1, Ordering::AcqRel);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if answer.as_ref().is_ok_and(|a| a.status() == StatusCode::SWITCHING_PROTOCOLS) {
                shared.exempt.store(true, Ordering::Release);
            }
            shared.answered.fetch_add(1, Ordering::AcqRel);
            answer
        })
    }
}
