//! The Rust client of a Rialto node: join, send, receive, ack, resume.
//!
//! [`Http`] makes single calls, [`Stream`] holds one WebSocket conversation over any number of connections, and
//! [`Tail`] follows events over server-sent events. All three speak the OpenAgents wire (sheet sections 12 and 13).
//! Not here: settings, files, terminals (`rialto-cli`), and every rule the node itself enforces.

mod ack;
mod admin;
mod backoff;
mod bridge;
mod conversations;
mod crossing;
mod dialer;
mod endpoint;
mod error;
mod event;
mod http;
mod identity;
mod join;
mod link;
mod query;
mod resources;
mod secret;
mod sse;
mod stream;
#[cfg(test)]
mod testing;
mod tls;
mod work;

pub use ack::{AckFloor, ReceivedIds};
pub use admin::{NewNetwork, NewToken};
pub use backoff::Backoff;
pub use bridge::{BadPattern, Bridge, BridgeChoice, BridgeDoor, BridgeEnd, BridgeNews, LeftBehind};
pub use crossing::{Crossing, DidServices, FoundBy, FoundNetwork, KnownNetwork, NetworkService};
pub use endpoint::Endpoint;
pub use error::{ApiError, ClientError};
pub use event::{Delivery, Draft, Event, Page, Receipt, fresh_id};
pub use http::{AckSelection, BatchResult, Body, Emitted, Http};
pub use identity::{JoinChallenge, KeyProof};
pub use join::{JoinOptions, Joined};
pub use link::{Closed, Link};
pub use query::EventQuery;
pub use resources::{ResourceQuery, StagedBlob, Upload};
pub use secret::Secret;
pub use sse::Tail;
pub use stream::{Sender, Stream};
pub use work::{OpenedWork, WorkEvent, WorkOrder, WorkPage, WorkQuery};
