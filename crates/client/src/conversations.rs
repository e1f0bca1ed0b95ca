//! Threads inside channels and direct rooms between two members.

use crate::endpoint::encode;
use crate::error::ClientError;
use crate::http::Http;
use crate::query::query_string;
use serde_json::{Value, json};

impl Http {
    /// `GET /v1/threads`: of one channel or of all, newest activity first. `next` of the answer is the next `before`.
    pub async fn threads(
        &self,
        channel: Option<&str>,
        before: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Value, ClientError> {
        let query = query_string([
            ("channel", channel.map(str::to_owned)),
            ("before", before.map(str::to_owned)),
            ("limit", limit.map(|n| n.to_string())),
        ]);
        self.get(&format!("threads{query}")).await
    }

    /// `GET /v1/threads/{channel}/{thread}`; the channel by its bare name.
    pub async fn thread(&self, channel: &str, thread: &str) -> Result<Value, ClientError> {
        self.get(&format!("threads/{}/{}", encode(channel), encode(thread))).await
    }

    /// `GET /v1/rooms`: direct rooms of the caller, newest activity first.
    pub async fn rooms(&self, before: Option<&str>, limit: Option<u32>) -> Result<Value, ClientError> {
        let query = query_string([("before", before.map(str::to_owned)), ("limit", limit.map(|n| n.to_string()))]);
        self.get(&format!("rooms{query}")).await
    }

    /// `POST /v1/rooms`: the caller's room with another member, made if there is none.
    pub async fn open_room(&self, peer: &str, channel: Option<&str>) -> Result<Value, ClientError> {
        self.post("rooms", &json!({ "peer": peer, "channel": channel })).await
    }

    /// `GET /v1/rooms/{id}`.
    pub async fn room(&self, id: &str) -> Result<Value, ClientError> {
        self.get(&format!("rooms/{}", encode(id))).await
    }
}
