//! Verbs without I/O: decide, apply, routing, mods, delivery state. One engine value per network.
