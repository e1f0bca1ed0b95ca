//! Carriers that listen: one port for HTTP, WebSocket, SSE and gRPC; stdio.
