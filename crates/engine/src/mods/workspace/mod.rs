//! The workspace extension: who is meant by a message in a channel (OpenAgents sheet, section 6).

pub mod mentions;
