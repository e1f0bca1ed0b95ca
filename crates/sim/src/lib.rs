//! Dev only: the architecture test, the harness that drives the real binary, the contract every face keeps, the seeded world
//! around the real node, and what crosses rooms.

#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the parts of a test fail as the test does"
)]
pub mod contract;
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the parts of a test fail as the test does"
)]
pub mod crowd;
#[allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the parts of a test fail as the test does"
)]
pub mod harness;
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the parts of a test fail as the test does"
)]
pub mod load;
#[allow(clippy::indexing_slicing, reason = "a script names networks and members by number")]
pub mod world;
