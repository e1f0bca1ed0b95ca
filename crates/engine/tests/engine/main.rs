//! The engine by the sheet: small worlds, driven clock, everything replayed at the end.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::string_slice,
    reason = "tests"
)]

mod admin;
mod analytics;
mod artifacts;
mod channels;
mod clock;
mod conversations;
mod cost;
mod dead;
mod delivery;
mod explain;
mod external;
mod history;
mod idempotency;
mod invitations;
mod join;
mod ladder;
mod limits;
mod listing;
mod manage;
mod mods;
mod oracle;
mod principals;
mod proofs;
mod resources;
mod rights;
mod routing;
mod sessions;
mod shares;
mod status;
mod visibility;
mod work;
mod workspace;
mod world;
