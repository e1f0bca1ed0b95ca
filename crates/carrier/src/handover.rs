//! Whether an answer was handed over: all of its bytes went to a connection that has not broken since.
//!
//! Protocols whose clients never say what arrived act on this. Whoever makes such an answer puts a [`Handover`] among the response's
//! extensions and looks at it later; the carrier watches the body outside of everything else that is done with it.
//! Not here: what follows from it (the faces).

use crate::standing::Standing;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// What became of one answer. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Handover(Arc<WatchedAnswer>);

#[derive(Debug, Default)]
struct WatchedAnswer {
    ended: AtomicBool,
    connection: OnceLock<Standing>,
}

impl Handover {
    /// Whether the last byte of the answer went to its connection, and that has not broken since.
    pub fn is_done(&self) -> bool {
        let broken = self.0.connection.get().is_some_and(Standing::is_broken);
        self.0.ended.load(Ordering::Acquire) && !broken
    }

    fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

/// The response, watched if its maker wants to know what becomes of it.
pub fn watched(mut response: Response, connection: Option<&Standing>) -> Response {
    let Some(handover) = response.extensions_mut().remove::<Handover>() else { return response };
    if let Some(connection) = connection {
        let _ = handover.0.connection.set(connection.clone());
    }
    response.map(|body| Body::new(WatchedBody { body, handover }))
}

struct WatchedBody {
    body: Body,
    handover: Handover,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.handover.end(),
            // Who is told that there is no more does not ask again.
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.handover.end(),
            Poll::Ready(Some(_)) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    fn answer(handover: &Handover, standing: Option<&Standing>) -> Response {
        let mut response = Response::new(Body::from("something"));
        response.extensions_mut().insert(handover.clone());
        watched(response, standing)
    }

    #[tokio::test]
    async fn an_answer_is_handed_over_when_all_of_it_went_to_a_connection_that_stands() {
        let (handover, standing) = (Handover::default(), Standing::default());
        let mut body = answer(&handover, Some(&standing)).into_body();
        assert!(!handover.is_done());
        body.frame().await.unwrap().unwrap();
        assert!(handover.is_done());
        standing.break_off();
        assert!(!handover.is_done());
        let dropped = Handover::default();
        drop(answer(&dropped, None));
        assert!(!dropped.is_done());
    }

    #[tokio::test]
    async fn other_answers_stay_as_they_are() {
        let body = watched(Response::new(Body::from("something")), None).into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "something");
    }
}
