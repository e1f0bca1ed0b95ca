//! The async shell and the one door: sessions, clock, commit path, delivery, shutdown.
