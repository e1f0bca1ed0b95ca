//! Nouns of the network model: addresses, events, members, channels, networks, error codes, limits.
//!
//! Invariant: values are made by parsing and stay valid; nothing here reads a clock, a file, a socket or the environment.
//! Not here: what happens to these nouns (`rialto-engine`) and how other protocols spell them (the faces).

pub mod access;
pub mod address;
pub mod channel;
pub mod error;
pub mod event;
pub mod event_type;
pub mod face;
pub mod glob;
pub mod hex;
pub mod id;
pub mod json;
pub mod limits;
pub mod member;
pub mod metadata;
pub mod mods;
pub mod network;
pub mod payload;
pub mod read;
pub mod trace;
pub mod view;
pub mod work;

pub use address::{Address, NetworkId};
pub use error::{ErrorCode, ErrorKind, Fault, Verdict};
pub use event::{Envelope, Event, EventParts, Visibility};
pub use event_type::EventType;
pub use face::FaceName;
pub use id::EventId;
pub use member::Role;
pub use trace::TraceContext;
pub use work::WorkState;

/// Milliseconds since the Unix epoch, as every timestamp of the model.
pub type Millis = u64;
/// Position of an event in its network: 1, 2, 3 … without gaps.
pub type Seq = u64;
