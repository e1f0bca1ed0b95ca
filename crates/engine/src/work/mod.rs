//! Work units: what one member asks another to do, from the request to exactly one end (design, section 8).
//!
//! Invariant: a unit changes only by marks inside event records, so its log and its state cannot part; the first end
//! that commits is the only one.
//! Not here: what tools and files are (`resources`), and how other protocols call these states (the faces).

mod expire;
mod involve;
mod list;
mod open;
mod request;
mod unit;

pub(crate) use expire::{completed_by_ack, expire, forget, owner_left, request_died, without_member, without_resource};
pub(crate) use involve::{involve, opened_before, result_again};
pub use list::UnitFilter;
pub(crate) use open::open_call;
pub use unit::{Alias, Artifact, Chunk, Unit, UnitKind, UnitNo, WorkAct, WorkMark, WorkPlace};
pub(crate) use unit::{WorkIndex, apply_mark, forgotten, leapt, redacted, set};
