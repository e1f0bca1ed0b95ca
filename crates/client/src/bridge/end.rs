//! One end of a bridge: a member of a network that joins again by itself, and gives up when it is sent away.

use super::BridgeNews;
use crate::backoff::Backoff;
use crate::error::{ApiError, ClientError};
use crate::event::Draft;
use crate::http::Http;
use crate::join::JoinOptions;
use rialto_model::ErrorCode;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the network is and what lets the bridge in, asked anew whenever something ended: a node that was started again may have
/// another address and another secret.
pub type BridgeDoor = Arc<dyn Fn() -> Result<Http, ClientError> + Send + Sync>;

/// A member of one network. Clones are the same member in the same session.
#[derive(Clone)]
pub struct BridgeEnd {
    name: String,
    door: BridgeDoor,
    options: JoinOptions,
    backoff: Backoff,
    inner: Arc<EndState>,
}

#[derive(Default)]
struct EndState {
    /// One joins at a time.
    joining: tokio::sync::Mutex<()>,
    session: Mutex<Option<EndSession>>,
    cursor: Mutex<Option<String>>,
}

#[derive(Clone)]
struct EndSession {
    http: Http,
    network: String,
}

impl std::fmt::Debug for BridgeEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeEnd")
            .field("name", &self.name)
            .field("address", &self.options.address)
            .finish_non_exhaustive()
    }
}

impl BridgeEnd {
    /// An end that joins as these options say. The name is how people call it.
    pub fn new(name: impl Into<String>, door: BridgeDoor, options: JoinOptions) -> BridgeEnd {
        let options = JoinOptions {
            receive: Some("queue".to_owned()),
            agent_type: options.agent_type.or_else(|| Some("bridge".to_owned())),
            ..options
        };
        BridgeEnd { name: name.into(), door, backoff: options.backoff, options, inner: Arc::default() }
    }

    /// Who it is there.
    pub fn address(&self) -> &str {
        &self.options.address
    }

    /// The network's id.
    pub(super) async fn network(&self, news: &mut impl FnMut(BridgeNews)) -> Result<String, ClientError> {
        match self.session() {
            Some(session) => Ok(session.network),
            None => self
                .call(news, |_| std::future::ready(Ok(())))
                .await
                .map(|()| self.session().map(|s| s.network).unwrap_or_default()),
        }
    }

    /// How far its inbox was read. What was refused there waits behind it, unacked.
    pub(super) fn cursor(&self) -> Option<String> {
        self.inner.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn read_up_to(&self, cursor: Option<String>) {
        if cursor.is_some() {
            *self.inner.cursor.lock().unwrap_or_else(PoisonError::into_inner) = cursor;
        }
    }

    pub(super) fn read_anew(&self) {
        *self.inner.cursor.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes a seat in a channel; makes the channel if it may and there is none.
    pub(super) async fn sit(
        &self,
        channel: &str,
        make: bool,
        news: &mut impl FnMut(BridgeNews),
    ) -> Result<(), ClientError> {
        let join = Draft::new("network.channel.join", "core", json!({ "channel": channel }));
        let join = &join;
        let seated = self.call(news, |http| async move { http.emit(join, None).await }).await;
        match seated {
            Ok(_) => Ok(()),
            Err(error) if make && error.is(ErrorCode::UnknownTarget) => {
                let create = Draft::new("network.channel.create", "core", json!({ "name": channel }));
                let create = &create;
                match self.call(news, |http| async move { http.emit(create, None).await }).await {
                    // Somebody was faster.
                    Err(error) if error.is(ErrorCode::AlreadyExists) => {
                        self.call(news, |http| async move { http.emit(join, None).await }).await.map(drop)
                    }
                    made => made.map(drop),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Makes a call as this member: waits while the network is not there, joins again when the session ended.
    pub(super) async fn call<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        news: &mut impl FnMut(BridgeNews),
        call: impl Fn(Http) -> F,
    ) -> Result<T, ClientError> {
        let mut backoff = self.backoff;
        let mut joined_for_this = false;
        loop {
            let tried = match self.entered().await {
                Ok(session) => match call(session.http.clone()).await {
                    Err(error) if session_is_over(&error) && !joined_for_this => {
                        joined_for_this = true;
                        self.forget(&session);
                        continue;
                    }
                    answered => answered,
                },
                Err(error) => Err(error),
            };
            match tried {
                Err(error) if error.retryable() || is_unreachable(&error) => {
                    news(BridgeNews::Waiting { end: self.name.clone(), reason: error.to_string() });
                    tokio::time::sleep(backoff.next_wait()).await;
                    self.look_again();
                }
                done => return done,
            }
        }
    }

    fn session(&self) -> Option<EndSession> {
        self.inner.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The session, made now if there is none.
    async fn entered(&self) -> Result<EndSession, ClientError> {
        let _one = self.inner.joining.lock().await;
        if let Some(session) = self.session() {
            return Ok(session);
        }
        let door = (self.door)()?;
        let joined = door.join(&self.options).await?;
        let http = door.with_network(Some(joined.network_id.clone())).with_bearer(joined.session_id.expose());
        let session = EndSession { http, network: joined.network_id };
        *self.inner.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        Ok(session)
    }

    /// The session is over, unless somebody made another one meanwhile.
    fn forget(&self, ended: &EndSession) {
        let mut session = self.inner.session.lock().unwrap_or_else(PoisonError::into_inner);
        if session.as_ref().is_some_and(|now| now.http.bearer() == ended.http.bearer()) {
            *session = None;
        }
    }

    /// The node may be somewhere else now; the session holds over a restart.
    fn look_again(&self) {
        let Ok(door) = (self.door)() else { return };
        let mut session = self.inner.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = session.as_mut()
            && let Some(bearer) = now.http.bearer().cloned()
            && now.http.endpoint().base() != door.endpoint().base()
        {
            now.http = door.with_network(Some(now.network.clone())).with_bearer(bearer);
        }
    }
}

/// Whether joining again may help. Not where somebody else took the name: two bridges under one name would take it from each other.
fn session_is_over(error: &ClientError) -> bool {
    let ClientError::Api(api) = error else { return false };
    match api.known() {
        Some(ErrorCode::SessionRevoked) => false,
        Some(ErrorCode::NotAMember) => true,
        Some(_) | None => api.status == 401,
    }
}

/// A node that is being started again answers many things, or nothing.
fn is_unreachable(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => true,
        ClientError::Api(api) => is_server_error(api),
        ClientError::Protocol(_) | ClientError::BadUrl { .. } | ClientError::Closed(_) => false,
    }
}

fn is_server_error(api: &ApiError) -> bool {
    api.status >= 500
}
