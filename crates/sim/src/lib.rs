//! Dev only: the architecture test and what crosses rooms.
