//! Answers that a client has not read yet, charged to its connection, its credential and the node (`rialto_node::budget`).
//!
//! An answer is charged for before it is made, and until its last byte is with the operating system. Where there is no room the
//! request waits; where nobody reads it is refused.
//! Not here: streams of a connection of their own. They make what they send as it is read.

use crate::answer::Refusal;
use crate::credentials;
use crate::standing::Standing;
use axum::body::Body;
use axum::http::{Request, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rialto_model::{Fault, limits};
use rialto_node::QueryResult;
use rialto_node::budget::{Account, Accounts, Charge, EndsWhenCrowded, PAGE_IN_THE_MAKING_BYTES, PATIENCE, Scope};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// Answers up to this size are not charged: a connection's own buffers are larger.
const SMALL_BYTES: u64 = 16 << 10;
/// A large answer is handed to the connection in pieces of this size, so that it is never copied there as a whole.
const PIECE_BYTES: usize = 16 << 10;

/// What one connection's answers are charged to.
#[derive(Debug)]
pub struct UnreadAnswers {
    accounts: Arc<Accounts>,
    /// The connection: it is ended when it holds most of what nobody reads.
    standing: Option<Standing>,
    /// The account of the credential that was shown last: nearly always the same one.
    last: Mutex<Option<CredentialAccount>>,
}

/// A credential, and what answers to it are charged to.
#[derive(Debug)]
struct CredentialAccount {
    credential: [u8; 32],
    account: Arc<Account>,
    #[allow(dead_code, reason = "held, not read")]
    ends: Option<EndsWhenCrowded>,
}

impl UnreadAnswers {
    pub fn new(accounts: Arc<Accounts>, standing: Option<Standing>) -> UnreadAnswers {
        UnreadAnswers { accounts, standing, last: Mutex::new(None) }
    }

    fn account(&self, credential: [u8; 32]) -> Arc<Account> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.as_ref().filter(|shown| shown.credential == credential) {
            Some(shown) => shown.account.clone(),
            None => {
                let member = self.accounts.member(&credential);
                let account = member.below(Scope::Connection, limits::UNREAD_PER_CONNECTION_BYTES_MAX);
                let ends = self.standing.clone().map(|standing| account.ends_when_crowded(move || standing.dismiss()));
                *last = Some(CredentialAccount { credential, account: account.clone(), ends });
                account
            }
        }
    }

    /// Makes an answer, charged for as long as it is not read. What may wait long before it has anything to say is charged for
    /// when it reads ([`page`]), everything else before it begins.
    pub async fn answered(&self, asked: ChargedRequest, answer: impl Future<Output = Response>) -> Response {
        let reading = Arc::new(AnswerInProgress { account: asked.account, charge: Mutex::new(None) });
        if !asked.patient
            && let Err(fault) = reading.reserve().await
        {
            return Refusal::from(fault).into_response();
        }
        let response = READING.scope(reading.clone(), answer).await;
        reading.charged(response)
    }

    /// What is to be known of a request before its answer is made.
    pub fn asked<B: HttpBody>(&self, request: &Request<B>) -> ChargedRequest {
        let waits = |query: &str| query.split('&').any(|part| part.starts_with("wait"));
        let (path, headers) = (request.uri().path(), request.headers());
        let is_stream = path.ends_with("/stream") || headers.contains_key(header::UPGRADE);
        let credential = credentials::bearer(headers).ok().flatten();
        // What has a body is answered when that has come; whoever shows nothing is told little.
        let later = is_stream || !request.body().is_end_stream() || credential.is_none();
        let patient = later || request.uri().query().is_some_and(waits);
        ChargedRequest { account: self.account(credential.unwrap_or_default()), patient }
    }
}

/// A request, as far as its answer is charged for.
#[derive(Debug)]
pub struct ChargedRequest {
    account: Arc<Account>,
    /// It may wait long before it has anything to say.
    patient: bool,
}

/// An answer that is being made.
#[derive(Debug)]
struct AnswerInProgress {
    account: Arc<Account>,
    charge: Mutex<Option<Charge>>,
}

tokio::task_local! {
    static READING: Arc<AnswerInProgress>;
}

impl AnswerInProgress {
    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Charge>> {
        self.charge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges for a page, unless that was done.
    async fn reserve(&self) -> Result<(), Fault> {
        if self.slot().is_none() {
            let charge = self.account.charge(PAGE_IN_THE_MAKING_BYTES, PATIENCE).await?;
            *self.slot() = Some(charge);
        }
        Ok(())
    }

    /// Keeps the charge with the body, as large as the body is.
    fn charged(&self, response: Response) -> Response {
        let charge = self.slot().take();
        match response.body().size_hint().exact() {
            Some(size) if size > SMALL_BYTES => {
                let mut charge = charge.unwrap_or_else(|| self.account.owe());
                charge.resize(usize::try_from(size).unwrap_or(usize::MAX));
                let charge = Some(Arc::new(charge));
                response.map(|body| Body::new(ChargedBody { body, rest: Bytes::new(), charge }))
            }
            // What is small is with the connection at once.
            Some(_) => response,
            // A page whose length is not said (gRPC) is charged for as estimated; a stream charges for its pieces itself.
            None => {
                let charge = charge.map(Arc::new);
                response.map(|body| Body::new(ChargedBody { body, rest: Bytes::new(), charge }))
            }
        }
    }
}

/// Reads a page for the answer that is being made: waits until there is room for it. A page without events is charged for no longer.
pub async fn page(read: impl Future<Output = Result<QueryResult, Fault>>) -> Result<QueryResult, Fault> {
    let reading = READING.try_with(Arc::clone).ok();
    if let Some(reading) = &reading {
        reading.reserve().await?;
    }
    let result = read.await;
    if let Some(reading) = reading.filter(|_| result.as_ref().is_ok_and(|page| page.events.is_empty())) {
        reading.slot().take();
    }
    result
}

/// What the pieces of a stream that begins now are charged to.
pub fn stream() -> StreamAccount {
    StreamAccount(READING.try_with(|reading| reading.account.clone()).ok())
}

/// What the pieces of a stream are charged to.
#[derive(Debug)]
pub struct StreamAccount(Option<Arc<Account>>);

impl StreamAccount {
    /// Waits until there is room for another piece: a stream whose client does not read makes none.
    pub async fn room(&self) -> Option<Charge> {
        let account = self.0.as_ref()?;
        loop {
            if let Ok(charge) = account.charge(PAGE_IN_THE_MAKING_BYTES, PATIENCE).await {
                return Some(charge);
            }
        }
    }
}

/// A piece of a stream, charged for until it is written.
pub fn piece(text: String, charge: Option<Charge>) -> Bytes {
    let Some(mut charge) = charge else { return text.into() };
    charge.resize(text.len());
    Bytes::from_owner(ChargedBytes { bytes: text.into(), charge: Some(Arc::new(charge)) })
}

/// A body whose bytes are charged for until they are dropped.
struct ChargedBody {
    body: Body,
    /// What was taken out of the body and not handed on.
    rest: Bytes,
    /// Shared with every piece that is on its way.
    charge: Option<Arc<Charge>>,
}

/// Bytes that keep a charge.
struct ChargedBytes {
    bytes: Bytes,
    #[allow(dead_code, reason = "held, not read")]
    charge: Option<Arc<Charge>>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if self.charge.is_none() => self.rest = bytes,
                    Ok(bytes) => self.rest = Bytes::from_owner(ChargedBytes { bytes, charge: self.charge.clone() }),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => {
                    self.charge = None;
                    return Poll::Ready(other);
                }
            }
        }
        let piece = self.rest.len().min(PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(size) => SizeHint::with_exact(size + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    fn unread() -> (UnreadAnswers, Arc<Accounts>) {
        let accounts = Arc::new(Accounts::new(limits::UNREAD_BYTES_MAX, limits::UNREAD_PER_MEMBER_BYTES_MAX));
        (UnreadAnswers::new(accounts.clone(), None), accounts)
    }

    /// Pages that fit into a bound, the last of them with what it takes to make it.
    fn fit(bytes_max: usize) -> usize {
        (bytes_max - PAGE_IN_THE_MAKING_BYTES) / limits::PAGE_BYTES_MAX + 1
    }

    async fn get(unread: &UnreadAnswers, bytes: usize) -> Response {
        let answer = async { Response::new(Body::from(vec![b'x'; bytes])) };
        let request = Request::builder().header(header::AUTHORIZATION, "Bearer a-session").body(Body::empty()).unwrap();
        let asked = unread.asked(&request);
        unread.answered(asked, answer).await
    }

    #[tokio::test(start_paused = true)]
    async fn unread_per_connection_bytes_max() {
        let (unread, accounts) = unread();
        let mut held = Vec::new();
        let refused = loop {
            let response = get(&unread, limits::PAGE_BYTES_MAX).await;
            if !response.status().is_success() {
                break response;
            }
            held.push(response);
        };
        assert_eq!(held.len(), fit(limits::UNREAD_PER_CONNECTION_BYTES_MAX));
        assert_eq!(refused.status(), 429);
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(body.to_string().contains("\"connection\""), "{body}");
        // Another connection is not concerned.
        let other = UnreadAnswers::new(accounts.clone(), None);
        assert!(get(&other, limits::PAGE_BYTES_MAX).await.status().is_success());
        // What is read makes room, piece by piece dropped or not.
        let body = held.pop().unwrap().into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), limits::PAGE_BYTES_MAX);
        drop(body);
        assert!(get(&unread, 1).await.status().is_success());
        drop(held);
        assert_eq!(accounts.node().used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unread_per_member_bytes_max_and_unread_bytes_max() {
        let (first, accounts) = unread();
        let mut held = vec![get(&first, limits::PAGE_BYTES_MAX).await];
        loop {
            let connection = UnreadAnswers::new(accounts.clone(), None);
            let response = get(&connection, limits::PAGE_BYTES_MAX).await;
            if !response.status().is_success() {
                break;
            }
            held.push(response);
        }
        assert_eq!(held.len(), fit(limits::UNREAD_PER_MEMBER_BYTES_MAX));
        // Somebody else has room, until the node has none.
        let mut charges = Vec::new();
        for n in 0..=u8::MAX {
            match accounts.member(&[n + 1; 32]).charge(limits::UNREAD_PER_MEMBER_BYTES_MAX, PATIENCE).await {
                Ok(charge) => charges.push(charge),
                Err(fault) => {
                    assert_eq!(fault.payload(None)["details"]["scope"], "node");
                    break;
                }
            }
        }
        assert_eq!(charges.len() + 1, limits::UNREAD_BYTES_MAX / limits::UNREAD_PER_MEMBER_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_small_answer_is_not_charged_once_it_is_made() {
        let (unread, accounts) = unread();
        let response = get(&unread, 100).await;
        assert_eq!(accounts.node().used(), 0);
        drop(response);
    }
}
