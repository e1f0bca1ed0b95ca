//! The async shell and the one door: sessions, clock, commit path, delivery, shutdown.
//!
//! Every face speaks through a [`Session`], a caller in a network; none checks a permission, dedupes, retries or stores by itself.
//! Not here: sockets and wire forms.

pub mod archive;
pub mod blobs;
pub mod budget;
mod carried;
pub mod clock;
pub mod command;
mod conversations;
mod dead;
pub mod delivery;
mod directory;
mod draft;
mod facts;
mod files;
mod follow;
pub mod host;
pub mod identities;
mod lists;
mod mailbox;
mod members;
pub mod metrics;
pub mod modport;
pub mod network;
pub mod node;
mod opening;
mod order;
pub mod outbox;
pub mod outgoing;
mod overview;
mod profile;
pub mod query;
mod redaction;
pub mod repair;
mod resources;
pub mod schema;
mod search;
mod session;
pub mod task;
pub mod texts;
pub mod verify;
mod window;
mod work;
mod work_acts;
mod workspace;

pub use carried::{Carried, CarriedDelivery, CarriedNews, Outsider};
pub use command::{Answered, Out, Reply};
pub use dead::DeadLetters;
pub use draft::{Draft, Receipt};
pub use facts::Facts;
pub use files::{FoundFile, NewFile};
pub use follow::{Commits, Follow, Woken};
pub use host::Host;
pub use mailbox::{Arrival, InboxOptions, Mailbox};
pub use modport::{ModPort, ProcessCheck};
pub use network::Network;
pub use node::{ADMIN_DB, CreateNetwork, Imported, LostNetwork, Node, NodeConfig, NodeParts, OpenError};
pub use opening::{Credentials, Hello, NetworkRef};
pub use outbox::{Inbox, Outbox, outbox};
pub use outgoing::{Framing, RunPart, Signal};
pub use query::{Query, QueryResult, Searched};
pub use resources::FoundResource;
pub use session::Session;
pub use task::too_much_at_once;
pub use texts::Texts;
pub use work::{FoundArtifact, WorkPage, WorkSight, WorkWatch, ends_work, opens_work, work_state};
pub use work_acts::{
    ArtifactChunking, MadeArtifact, ToolCallOptions, ToolOutcome, UploadedContent, WorkFailure, WorkNews,
};

pub use rialto_engine::input::{Accepted, Content, ProvedName};
pub use rialto_engine::mods;
pub use rialto_engine::resources::FileFilter;
pub use rialto_engine::{
    AckRequest, AdminOp, Caller, Capabilities, Dnd, EventRecord, FactNow, FactPage, Filter, SessionRef, UnitFilter,
    View, Viewer, Wishes,
};
pub use rialto_identity as identity;
pub use rialto_model::payload::ResourceFilter;
pub use rialto_model::payload::RosterFilter;
pub use rialto_model::work::{OpenedWork, WorkOrder};

#[cfg(feature = "deliberate-bugs")]
pub use rialto_engine::bugs;

/// A standard mod with its defaults, by name.
pub fn standard_mod(name: &str) -> Result<rialto_engine::mods::ModConfig, rialto_model::Fault> {
    rialto_engine::mods::ModConfig::standard(name)
}
