//! The door every request of a listener passes. Host and Origin are checked here on every path, who pays for the body and
//! for the answer is decided, and only then does a face see it. An operation that is busy and quick goes straight to its
//! face: the layers of the router would cost more than what it does.
//!
//! Not here: what the operations do (the faces), and the connections below (`rialto-serve`).

use crate::answer::{Refusal, too_large};
use crate::body::{BodyBudget, BodyRefusal, BodyUse, MeteredBody, Payer};
use crate::credentials;
use crate::describe::{NoBody, NoQuery, Plain};
use crate::face::{AnswerFuture, Face};
use crate::grpc::GrpcServices;
use crate::handover::watched;
use crate::openapi;
use crate::origin::{admit, is_preflight, marked, preflight_answer, request_headers};
use crate::proxy::{self, Client};
use crate::standing::{Standing, Stranger};
use crate::state::FaceState;
use crate::unread::UnreadAnswers;
use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt as _;
use hyper::body::{Body as _, Incoming};
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::{Caller, Network};
use serde_json::Value;
use std::collections::HashSet;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tower::Service as _;

/// Sessions that are remembered as proved.
const PROVED_MAX: usize = 65_536;

crate::operations! {
    for OpenApi;
    get "/openapi.json" "openapi" Public plain (NoQuery, NoBody) -> Plain<serde_json::Map<String, Value>>, &[], openapi_document, "This document";
}

/// The faces, which the OpenAPI document of the listener is made of.
type OpenApi = Arc<Mounted>;

async fn openapi_document(mounted: axum::extract::State<OpenApi>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], mounted.openapi()).into_response()
}

/// Serves all requests of a listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct HttpService {
    state: Arc<FaceState>,
    mounted: Arc<Mounted>,
    router: Router,
    /// Who is at the other end of the connection.
    peer: Option<IpAddr>,
    standing: Option<Standing>,
    bodies: Arc<BodyBudget>,
    proved: Arc<Proved>,
    /// What the connection's answers are charged to.
    unread: Arc<UnreadAnswers>,
}

/// The faces of a listener, and what is known of all of them together.
#[derive(Debug)]
pub(crate) struct Mounted {
    faces: Vec<Box<dyn Face>>,
    /// Paths of gRPC calls that are conversations.
    conversations: Vec<&'static str>,
    /// Request headers that pages of allowed origins may send.
    request_headers: String,
    /// The OpenAPI document, once somebody has asked for it.
    document: OnceLock<Bytes>,
}

impl Mounted {
    /// What the first face that knows says of a path. A face with a prefix is asked for what is below it.
    fn ask<'p, T>(&self, path: &'p str, ask: impl Fn(&dyn Face, &'p str) -> Option<T>) -> Option<T> {
        self.faces.iter().find_map(|face| ask(&**face, below(path, face.prefix())?))
    }

    /// Whether the body of a request is a conversation of its own, goes to the disk, or is kept until it is whole.
    fn body_use(&self, request: &Request<Incoming>) -> BodyUse {
        let path = request.uri().path();
        match is_grpc(request) {
            true if self.conversations.contains(&path) => BodyUse::Conversation,
            true => BodyUse::Whole,
            false => self.ask(path, |face, path| face.body_use(request.method(), path)).unwrap_or(BodyUse::Whole),
        }
    }

    /// The network that the path of a request names.
    fn network_in<'r>(&self, request: &'r Request<Incoming>) -> Option<&'r str> {
        self.ask(request.uri().path(), |face, path| face.network_in(path))
    }

    /// The OpenAPI document of all faces. It is made when it is first asked for and kept as text, because its tree takes
    /// megabytes that most nodes never need.
    fn openapi(&self) -> Bytes {
        let make = || {
            let faces = self.faces.iter().map(|face| face.openapi().below(face.prefix()));
            let document = openapi::document(std::iter::once(openapi::ApiPart::of(OPS)).chain(faces));
            document.to_string().into()
        };
        self.document.get_or_init(make).clone()
    }

    /// The refusal of a path that leads nowhere.
    fn unknown_path(&self, path: &str) -> Refusal {
        let nowhere = || Fault::new(ErrorCode::UnknownTarget, "no such path; /openapi.json lists them");
        self.ask(path, |face, path| face.unknown_path(path)).unwrap_or_else(nowhere).into()
    }
}

/// What of a path is below a prefix.
fn below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix)?;
    (prefix.is_empty() || rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// All routes of the faces. Bodies are bounded; what stands before the router checks Host and Origin.
fn mount(faces: Vec<Box<dyn Face>>) -> (Router, Arc<Mounted>) {
    let mut router = Router::new();
    let mut services = GrpcServices::default();
    for face in &faces {
        router = match face.prefix() {
            "" => router.merge(face.routes()),
            prefix => router.nest(prefix, face.routes()),
        };
        router = router.merge(face.well_known());
        face.grpc(&mut services);
    }
    let own_headers = faces.iter().flat_map(|face| face.request_headers().iter().copied());
    let request_headers = request_headers(own_headers);
    let conversations = services.conversations();
    let mounted = Arc::new(Mounted { conversations, request_headers, faces, document: OnceLock::new() });
    let nowhere = Arc::clone(&mounted);
    let router = router
        .merge(crate::operations::routes(OPS, HANDLERS).with_state(Arc::clone(&mounted)))
        .fallback(move |uri: Uri| ready(nowhere.unknown_path(uri.path())))
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(limits::BATCH_BYTES_MAX))
        .merge(services.router());
    (router, mounted)
}

async fn not_allowed() -> Response {
    let fault = Fault::new(ErrorCode::Unsupported, "this path does not take that method");
    let mut response = Refusal::from(fault).into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

impl HttpService {
    /// The service of a node with these faces. Must be called on a runtime. Faces whose routes overlap are a mistake of the
    /// program, and end it.
    pub fn new(state: FaceState, faces: Vec<Box<dyn Face>>) -> HttpService {
        let unread = Arc::new(UnreadAnswers::new(state.node.accounts().clone(), None));
        let (router, mounted) = mount(faces);
        HttpService {
            router,
            mounted,
            state: Arc::new(state),
            peer: None,
            standing: None,
            bodies: Arc::default(),
            proved: Arc::default(),
            unread,
        }
    }

    /// The same service for one connection.
    pub fn for_peer(&self, peer: IpAddr, standing: Standing) -> HttpService {
        let unread = Arc::new(UnreadAnswers::new(self.state.node.accounts().clone(), Some(standing.clone())));
        HttpService { peer: Some(peer), standing: Some(standing), unread, ..self.clone() }
    }

    /// The hash of the credential a request shows, if somebody here has given it out.
    fn holder(&self, request: &Request<Incoming>) -> Option<[u8; 32]> {
        let headers = request.headers();
        if let (Some(standing), Some(shown)) = (&self.standing, credentials::bearer_header(headers))
            && let Some(hash) = standing.holder(shown)
        {
            return Some(hash);
        }
        let good = |hash: &[u8; 32]| self.state.node.knows(hash) || self.proved.contains(hash);
        let (hash, shown) = credentials::shown(headers, request.uri(), good)?;
        if let Some(standing) = &self.standing {
            standing.prove_holder(shown, hash);
        }
        Some(hash)
    }

    /// The session a request shows, if it is one that has to be asked for: its network knows it, and is asked once.
    fn session_to_ask(&self, request: &Request<Incoming>) -> Option<(Network, Caller)> {
        let (uri, headers) = (request.uri(), request.headers());
        credentials::shown(headers, uri, |_| true)?;
        self.mounted.faces.iter().find_map(|face| face.shown_session(uri, headers))
    }

    /// Asks a network whether it knows a session; gives the hash if it does.
    async fn ask_session(&self, network: Network, caller: Caller) -> Option<[u8; 32]> {
        let hash = caller.session.or(caller.bearer)?;
        network.session(&Arc::new(caller)).me().await.ok()?;
        self.proved.insert(hash);
        if let Some(standing) = &self.standing {
            standing.prove();
        }
        Some(hash)
    }

    /// Decides before a body is read who pays for it, and whether it is read at all.
    fn payer(
        &self,
        request: &Request<Incoming>,
        holder: Option<[u8; 32]>,
        purpose: BodyUse,
    ) -> Result<Payer, BodyRefusal> {
        let size = request.body().size_hint();
        let declared = size.exact().unwrap_or(0);
        if purpose == BodyUse::Whole && declared > limits::BATCH_BYTES_MAX as u64 {
            return Err(BodyRefusal::TooLarge);
        }
        if let Some(hash) = holder {
            return Ok(Payer::Holder(hash));
        }
        // Where a credential is not needed nobody has one: all who come share what one of them would have.
        if !request.body().is_end_stream() && self.is_open(request) {
            return Ok(Payer::Holder([0; 32]));
        }
        if declared > limits::UNPROVED_BODY_BYTES_MAX as u64 {
            return Err(BodyRefusal::NoCredential);
        }
        Ok(Payer::Stranger(Stranger::new(self.standing.clone())))
    }

    /// Whether a request is for a network that admits who shows nothing.
    fn is_open(&self, request: &Request<Incoming>) -> bool {
        let network = match self.mounted.network_in(request) {
            Some(name) => self.state.node.network(name),
            None => self.state.node.default_network(),
        };
        network.is_some_and(|network| network.is_open())
    }
}

/// Sessions that their networks have vouched for, by hash: asked for once each.
#[derive(Debug, Default)]
struct Proved(RwLock<HashSet<[u8; 32]>>);

impl Proved {
    fn contains(&self, hash: &[u8; 32]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(hash)
    }

    /// Remembers one. When there are too many all are forgotten, and asked for again.
    fn insert(&self, hash: [u8; 32]) {
        let mut proved = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if proved.len() >= PROVED_MAX {
            proved.clear();
        }
        proved.insert(hash);
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

impl hyper::service::Service<Request<Incoming>> for HttpService {
    type Response = Response;
    type Error = Infallible;
    type Future = AnswerFuture;

    fn call(&self, mut request: Request<Incoming>) -> AnswerFuture {
        let client = proxy::resolve(&self.state.settings.trusted_proxies, self.peer, request.headers_mut());
        let cors = match admit(&self.state.settings, &mut request) {
            Err(refused) => return Box::pin(ready(Ok(refused.into_response()))),
            Ok(cors) => cors,
        };
        if cors.is_some() && is_preflight(&request) {
            return Box::pin(ready(Ok(marked(preflight_answer(&self.mounted.request_headers), cors))));
        }
        let proved = self.standing.as_ref().is_some_and(Standing::is_proved);
        if request.body().is_end_stream() && proved {
            return self.route(request, BodyUse::Whole, Payer::Nobody, client, cors);
        }
        let holder = self.holder(&request);
        match if holder.is_none() { self.session_to_ask(&request) } else { None } {
            None => self.pass(request, holder, client, cors),
            Some((network, caller)) => {
                let service = self.clone();
                Box::pin(async move {
                    let holder = service.ask_session(network, caller).await;
                    service.pass(request, holder, client, cors).await
                })
            }
        }
    }
}

impl HttpService {
    /// Lets a request pass, now that it is known whose it is.
    fn pass(
        &self,
        request: Request<Incoming>,
        holder: Option<[u8; 32]>,
        client: Client,
        cors: Option<HeaderValue>,
    ) -> AnswerFuture {
        let purpose = self.mounted.body_use(&request);
        match self.payer(&request, holder, purpose) {
            Err(why) => Box::pin(ready(Ok(marked(why.answer(), cors)))),
            Ok(payer) => self.route(request, purpose, payer, client, cors),
        }
    }

    fn route(
        &self,
        mut request: Request<Incoming>,
        purpose: BodyUse,
        payer: Payer,
        client: Client,
        cors: Option<HeaderValue>,
    ) -> AnswerFuture {
        if let Some(face) = self.mounted.faces.iter().find(|face| face.takes_directly(&request)) {
            let request = request.map(|body| MeteredBody::new(body, purpose, payer, self.bodies.clone()));
            let answer = face.answer_directly(request);
            return match cors {
                None => answer,
                cors @ Some(_) => Box::pin(answer.map(move |answer| answer.map(|answer| marked(answer, cors)))),
            };
        }
        request.extensions_mut().insert(client);
        if let Payer::Stranger(stranger) = &payer {
            request.extensions_mut().insert(stranger.clone());
        }
        let (mut router, unread, asked) = (self.router.clone(), self.unread.clone(), self.unread.asked(&request));
        let standing = self.standing.clone();
        if request.body().is_end_stream() {
            return Box::pin(async move {
                let answer = async {
                    let Ok(answer) = router.call(request.map(Body::new)).await;
                    in_our_words(answer)
                };
                Ok(marked(watched(unread.answered(asked, answer).await, standing.as_ref()), cors))
            });
        }
        let is_grpc = is_grpc(&request);
        if let (true, Some(standing)) = (is_grpc, &self.standing) {
            request.extensions_mut().insert(standing.clone());
        }
        let (head, body) = request.into_parts();
        let (body, why) = MeteredBody::new(body, purpose, payer, self.bodies.clone()).with_reason();
        Box::pin(async move {
            let answer = async {
                let Ok(answer) = router.call(Request::from_parts(head, body)).await;
                let answer = in_our_words(answer);
                // What a handler makes of a body that it could not read says less than why it could not.
                let why = why.get().filter(|_| !is_grpc && !answer.status().is_success());
                why.map_or(answer, |why| why.answer())
            };
            Ok(marked(watched(unread.answered(asked, answer).await, standing.as_ref()), cors))
        })
    }
}

/// Refusals of the web framework (a body too large, a malformed query, no upgrade) in the one form of all errors.
fn in_our_words(response: Response) -> Response {
    let is = |name: &str| {
        response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(name.as_bytes()))
    };
    let plain = is("text/plain") || !response.headers().contains_key(header::CONTENT_TYPE);
    let code = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::TooLarge,
        StatusCode::UPGRADE_REQUIRED | StatusCode::METHOD_NOT_ALLOWED => ErrorCode::Unsupported,
        status if status.is_client_error() => ErrorCode::InvalidArgument,
        _ => return response,
    };
    if !plain {
        return response;
    }
    let what = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => return too_large().into_response(),
        _ => "the request is malformed".to_owned(),
    };
    let status = response.status();
    let mut ours = Refusal::from(Fault::new(code, what)).into_response();
    if code == ErrorCode::Unsupported {
        *ours.status_mut() = status;
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    /// A face below a prefix, whose document has a fixed place.
    #[derive(Debug)]
    struct Stub(&'static str);

    impl Face for Stub {
        fn prefix(&self) -> &'static str {
            self.0
        }

        fn routes(&self) -> Router {
            let name = self.0;
            Router::new().route("/thing", get(async move || name))
        }

        fn well_known(&self) -> Router {
            Router::new().route(&format!("/.well-known{}.json", self.0), get(async || "about"))
        }

        fn openapi(&self) -> openapi::ApiPart {
            let mut part = openapi::ApiPart::default();
            part.paths.insert("/thing".to_owned(), serde_json::json!({ "get": {} }));
            part
        }

        fn unknown_path(&self, path: &str) -> Option<Fault> {
            (path == "/elsewhere").then(|| Fault::new(ErrorCode::Unsupported, self.0))
        }
    }

    #[tokio::test]
    async fn faces_have_their_routes_below_their_prefixes() {
        let (router, mounted) = mount(vec![Box::new(Stub("/one")), Box::new(Stub("/two"))]);
        let ask = async |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        assert_eq!(ask("GET", "/one/thing").await, (200, "/one".to_owned()));
        assert_eq!(ask("GET", "/two/thing").await, (200, "/two".to_owned()));
        assert_eq!(ask("GET", "/.well-known/two.json").await, (200, "about".to_owned()));
        assert_eq!(ask("POST", "/one/thing").await.0, 405);
        // Each is asked for what is below its own prefix, and for nothing else.
        let (status, body) = ask("GET", "/two/elsewhere").await;
        assert!(status == 501 && body.contains("/two"), "{status} {body}");
        for nowhere in ["/thing", "/elsewhere", "/one", "/three/elsewhere"] {
            assert_eq!(ask("GET", nowhere).await.0, 404, "{nowhere}");
        }
        assert_eq!(mounted.unknown_path("/one/elsewhere").fault.message, "/one");
        assert_eq!([below("/one/a", "/one"), below("/onea", "/one"), below("/a", "")], [Some("/a"), None, Some("/a")]);
        let document: Value = serde_json::from_str(&ask("GET", "/openapi.json").await.1).unwrap();
        let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/one/thing", "/openapi.json", "/two/thing"]);
    }
}
