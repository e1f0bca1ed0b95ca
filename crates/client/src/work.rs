//! Work units: lists, one unit, and what happened to it. Acts are events: `work.update` and the like.

use crate::endpoint::encode;
use crate::error::ClientError;
use crate::event::Event;
use crate::http::{ANSWER_WAIT, Body, Http};
use crate::query::query_string;
use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// Which units to list. Everything absent is left to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the query parameters, by their names")]
pub struct WorkQuery {
    /// `requester`, `executor`, `untaken`, or several with commas.
    pub role: Option<String>,
    /// States with commas.
    pub state: Option<String>,
    pub channel: Option<String>,
    pub thread: Option<String>,
    pub context: Option<String>,
    pub parent: Option<String>,
    /// `next` of the page before.
    pub before: Option<u64>,
    /// 1 to 500.
    pub limit: Option<u32>,
}

/// One event of a unit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkEvent {
    /// The state in which it leaves the unit.
    pub state: Option<String>,
    /// The event.
    pub event: Event,
}

/// What happened to a unit, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkPage {
    /// The events.
    pub events: Vec<WorkEvent>,
    /// Whether there are more now.
    pub has_more: bool,
    /// Whether the unit ended with the last of them, or before.
    pub ended: bool,
    /// Where to go on.
    pub next_cursor: String,
}

/// Work that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the members of the request, by their names")]
pub struct WorkOrder {
    /// A member, a channel (whoever takes it first), or `core` with a skill.
    pub target: String,
    pub content: String,
    /// What you call the unit: the same order by the same name again is the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// The unit of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedWork {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: String,
    /// The position of the request.
    pub seq: u64,
    /// It was opened before, by the same name.
    pub duplicate: bool,
}

impl Http {
    /// `POST /v1/work`: asks for work, once by the caller's own name for it.
    pub async fn open_work(&self, order: &WorkOrder) -> Result<OpenedWork, ClientError> {
        self.post("work", order).await
    }

    /// `GET /v1/work`: newest first.
    pub async fn works(&self, query: &WorkQuery) -> Result<Value, ClientError> {
        let query = query_string([
            ("role", query.role.clone()),
            ("state", query.state.clone()),
            ("channel", query.channel.clone()),
            ("thread", query.thread.clone()),
            ("context", query.context.clone()),
            ("parent", query.parent.clone()),
            ("before", query.before.map(|n| n.to_string())),
            ("limit", query.limit.map(|n| n.to_string())),
        ]);
        self.get(&format!("work{query}")).await
    }

    /// `GET /v1/work/{id}`: by its id, or by the name the caller gave it.
    pub async fn work(&self, id: &str) -> Result<Value, ClientError> {
        self.get(&format!("work/{}", encode(id))).await
    }

    /// `GET /v1/work/{id}/artifacts/{artifact}`: the bytes of an artifact that is kept as content; `range` as in the
    /// `Range` header, without `bytes=`.
    pub async fn work_artifact(&self, id: &str, artifact: &str, range: Option<&str>) -> Result<Body, ClientError> {
        let path = format!("work/{}/artifacts/{}", encode(id), encode(artifact));
        let headers: Vec<(&str, String)> = range.map(|r| ("range", format!("bytes={r}"))).into_iter().collect();
        self.open(Method::GET, self.endpoint().call(self.network(), &path), None, &headers).await
    }

    /// `GET /v1/work/{id}/events` after a cursor; waits up to `wait_s` (at most 60 s) when there is nothing yet.
    pub async fn work_events(
        &self,
        id: &str,
        after: Option<&str>,
        limit: Option<u32>,
        wait_s: Option<u64>,
    ) -> Result<WorkPage, ClientError> {
        let query = query_string([
            ("after", after.map(str::to_owned)),
            ("limit", limit.map(|n| n.to_string())),
            ("wait", wait_s.map(|n| n.to_string())),
        ]);
        let url = self.endpoint().call(self.network(), &format!("work/{}/events{query}", encode(id)));
        self.call(Method::GET, url, None, ANSWER_WAIT + Duration::from_secs(wait_s.unwrap_or(0))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::HttpServer;

    #[tokio::test]
    async fn units_are_asked_for_by_what_was_said() {
        let page = r#"{"code":0,"data":{"events":[{"state":"working","event":{"id":"e1","type":"work.update","source":"agent:b","target":"agent:a","payload":{"work":"w"}}}],"has_more":false,"ended":false,"next_cursor":"seq:7"}}"#;
        let list = r#"{"code":0,"data":{"works":[],"has_more":false,"next":null}}"#;
        let server = HttpServer::answering(vec![(200, page.to_owned()), (200, list.to_owned())]).await;
        let http = Http::new(&server.url).unwrap();
        let page = http.work_events("my job", Some("seq:3"), None, Some(20)).await.unwrap();
        assert_eq!((page.events[0].state.as_deref(), page.next_cursor.as_str()), (Some("working"), "seq:7"));
        let query = WorkQuery { role: Some("executor".into()), state: Some("working".into()), ..WorkQuery::default() };
        http.works(&query).await.unwrap();
        let requests = server.requests().await;
        assert!(requests[0].starts_with("GET /v1/work/my%20job/events?after=seq:3&wait=20 "), "{}", requests[0]);
        assert!(requests[1].starts_with("GET /v1/work?role=executor&state=working "), "{}", requests[1]);
    }
}
