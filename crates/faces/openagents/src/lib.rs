//! The OpenAgents Network Model face: wire types, translation, routers.
