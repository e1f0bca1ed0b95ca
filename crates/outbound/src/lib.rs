//! The one client for everything that a node, or a program of ours, fetches from somewhere that somebody else named:
//! key sets, DID documents, profiles of other networks, webhooks, cards.
//!
//! What always holds: a host's addresses are looked up once; every one of them is judged before anything is sent, and the
//! connection goes to a judged address and no other; nothing is redirected; no proxy of the environment is asked; time and
//! size have bounds. `docs/adr/0013` says what is refused and why.
//!
//! Not here: what is fetched and what it means. Whoever calls reads the status and the body.

mod address;
mod bounds;
mod client;
mod error;
mod fetch;
mod resolver;
mod target;
mod tls;

pub use address::{AddressClass, class_of};
pub use bounds::FetchBounds;
pub use client::{GuardedStream, Outbound, OutboundSettings};
pub use error::{OutboundError, OutboundReach};
pub use fetch::{BadFetch, Fetch, Fetched, Fetching};
pub use resolver::{NameResolver, SystemResolver};
pub use target::{BadUrl, WebTarget};
pub use tls::BadRoots;
