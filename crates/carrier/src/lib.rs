//! What HTTP faces share and no protocol owns: how faces are mounted, credentials from headers, which hosts and origins may
//! ask, clients behind proxies, bounds and clocks of bodies, ranged bodies, charging for answers that nobody reads,
//! WebSocket framing, server-sent events, long polls, gRPC services, and the one table from error codes to statuses for
//! each kind of carrier.
//!
//! Not here: what any operation means (the faces), sockets that listen (`rialto-serve`), and who may do what (`rialto-node`).

pub mod answer;
pub mod body;
pub mod credentials;
pub mod describe;
pub mod face;
pub mod grpc;
pub mod handover;
pub mod long_poll;
pub mod openapi;
pub mod operations;
pub mod origin;
pub mod process;
pub mod proxy;
pub mod ranges;
pub mod request;
pub mod service;
pub mod sse;
pub mod standing;
pub mod state;
pub mod status;
pub mod unread;
pub mod websocket;

pub use answer::Refusal;
pub use face::{AnswerFuture, Face};
pub use proxy::{BadSubnet, Client, Subnet};
pub use request::{Params, RequestInfo};
pub use service::HttpService;
pub use standing::{Standing, Stranger};
pub use state::{FaceState, ListenerSettings};
