//! WebSocket as far as no protocol is concerned: the opening handshake, frames, and the socket below.
//!
//! Not here: what the texts mean, and when a connection ends (the faces).

pub mod codec;
pub mod handshake;
pub mod socket;
pub mod spool;
