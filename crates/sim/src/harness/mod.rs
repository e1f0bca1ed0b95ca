//! Drives the real binary over real sockets: a node with its own data directory and port, raw HTTP, WebSocket and SSE.
//!
//! Not here: the rules. A test says what must hold; these parts only move bytes and never retry on their own.

mod chance;
mod http;
mod line;
mod mount;
mod process;
mod quiet;
mod server;
mod sse;
mod ws;

pub use chance::{Chance, seed};
pub use http::{Answer, Http, Request};
pub use line::Line;
pub use mount::Mount;
pub use process::{cpu_seconds, open_files, open_sockets, raise_file_limit, resident_bytes};
pub use quiet::Quiet;
pub use server::{Network, Server, rialto};
pub use sse::{Sse, SseEvent};
pub use ws::{Frame, Ws};

use serde_json::{Value, json};
use std::time::Duration;

/// Nothing that is waited for takes longer, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An event of the extension type `test.note.posted`.
pub fn note(id: &str, target: &str, text: &str) -> Value {
    json!({ "id": id, "type": "test.note.posted", "target": target, "payload": { "content": text } })
}

/// A join frame for a stream.
pub fn join(agent: &str, token: &str, options: &Value) -> Value {
    let mut payload = json!({ "credentials": { "token": token } });
    for (key, value) in options.as_object().into_iter().flatten() {
        payload[key] = value.clone();
    }
    json!({ "type": "network.agent.join", "source": agent, "target": "core", "payload": payload })
}

/// Waits for something, within [`PATIENCE`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

/// Asks again every few milliseconds until there is an answer, within [`PATIENCE`].
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    soon(what, async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
