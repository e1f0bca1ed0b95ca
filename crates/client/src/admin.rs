//! Calls of the operator (sheet sections 14 and 18). They need the node's admin secret.

use crate::endpoint::encode;
use crate::error::ClientError;
use crate::http::{Body, Http};
use crate::query::query_string;
use crate::resources::{UPLOAD_WAIT, payload};
use hyper::Method;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Read;

/// What a new network is to be; the node's preset for everything absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the request's own names")]
pub struct NewNetwork {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_verification: Option<u8>,
}

/// What a new network token may do; everything a member may, when absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the request's own names")]
pub struct NewToken {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl Http {
    /// Every network of the node.
    pub async fn networks(&self) -> Result<Value, ClientError> {
        self.node_call(Method::GET, "admin/networks", None).await
    }

    /// Makes a network: {id, name, token?, policy}.
    pub async fn create_network(&self, new: &NewNetwork) -> Result<Value, ClientError> {
        let body = json!(new);
        self.node_call(Method::POST, "admin/networks", Some(&body)).await
    }

    /// One network, with everything the operator may see.
    pub async fn show_network(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, ""), None).await
    }

    /// Changes properties such as `status` or `name`.
    pub async fn change_network(&self, network: &str, change: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::PATCH, &under(network, ""), Some(change)).await
    }

    /// Changes what a channel says of itself: {title?, status?, starred?, master_agent?}. Gives the channel.
    pub async fn set_channel(&self, network: &str, channel: &str, changes: &Value) -> Result<Value, ClientError> {
        let path = format!("workspaces/{}/channels/{}", encode(network), encode(channel));
        self.node_call(Method::PATCH, &path, Some(changes)).await
    }

    /// Invites somebody: {invitation_id, code, expires_at, url}. The code is shown this once.
    pub async fn invite(&self, network: &str, wish: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::POST, &format!("ws/{}/invitations", encode(network)), Some(wish)).await
    }

    /// Invitations that can still be used; never their codes.
    pub async fn invitations(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &format!("ws/{}/invitations", encode(network)), None).await
    }

    /// Takes an invitation back: whoever joined with it has to join again.
    pub async fn revoke_invitation(&self, network: &str, id: &str) -> Result<Value, ClientError> {
        let path = format!("ws/{}/invitations/{}", encode(network), encode(id));
        self.node_call(Method::DELETE, &path, None).await
    }

    /// Members with their sessions; never a secret.
    pub async fn members(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, "/members"), None).await
    }

    /// Removes a member.
    pub async fn remove_member(&self, network: &str, address: &str) -> Result<Value, ClientError> {
        self.node_call(Method::DELETE, &under(network, &format!("/members/{}", encode(address))), None).await
    }

    /// Frees a name.
    pub async fn release_member(&self, network: &str, address: &str) -> Result<Value, ClientError> {
        let path = under(network, &format!("/members/{}/release", encode(address)));
        self.node_call(Method::POST, &path, None).await
    }

    /// Ends a member's sessions, or one of them.
    pub async fn end_sessions(&self, network: &str, address: &str, number: Option<u64>) -> Result<Value, ClientError> {
        let only = number.map(|number| format!("?session={number}")).unwrap_or_default();
        let path = under(network, &format!("/members/{}/sessions{only}", encode(address)));
        self.node_call(Method::DELETE, &path, None).await
    }

    /// Who managed the network, since a time and by whom.
    pub async fn audit(&self, network: &str, since: Option<u64>, actor: Option<&str>) -> Result<Value, ClientError> {
        let since = since.map(|since| format!("since={since}"));
        let actor = actor.map(|actor| format!("actor={}", encode(actor)));
        let query: Vec<String> = since.into_iter().chain(actor).collect();
        self.node_call(Method::GET, &under(network, &format!("/audit?{}", query.join("&"))), None).await
    }

    /// A link for the operator's browser: {url, expires_in_s}.
    pub async fn browser_link(&self) -> Result<Value, ClientError> {
        self.node_call(Method::POST, "admin/browser", None).await
    }

    /// Labels, roles and ends of a network's tokens; never the tokens.
    pub async fn tokens(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, "/tokens"), None).await
    }

    /// Makes a token: {token, label}. This is the only time it is told.
    pub async fn create_token(&self, network: &str, new: &NewToken) -> Result<Value, ClientError> {
        let body = json!(new);
        self.node_call(Method::POST, &under(network, "/tokens"), Some(&body)).await
    }

    /// Ends a token.
    pub async fn revoke_token(&self, network: &str, label: &str) -> Result<Value, ClientError> {
        let path = under(network, &format!("/tokens/{}", encode(label)));
        self.node_call(Method::DELETE, &path, None).await
    }

    /// Every group of a network.
    pub async fn groups(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, "/groups"), None).await
    }

    /// One group.
    pub async fn group(&self, network: &str, name: &str) -> Result<Value, ClientError> {
        let path = under(network, &format!("/groups/{}", encode(name)));
        self.node_call(Method::GET, &path, None).await
    }

    /// Makes a group or replaces its members.
    pub async fn set_group(&self, network: &str, name: &str, members: &[String]) -> Result<Value, ClientError> {
        let path = under(network, &format!("/groups/{}", encode(name)));
        let body = json!({ "members": members });
        self.node_call(Method::PUT, &path, Some(&body)).await
    }

    /// Ends a group.
    pub async fn delete_group(&self, network: &str, name: &str) -> Result<Value, ClientError> {
        let path = under(network, &format!("/groups/{}", encode(name)));
        self.node_call(Method::DELETE, &path, None).await
    }

    /// The loaded mods in pipeline order, and what could be loaded.
    pub async fn mods(&self, network: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, "/mods"), None).await
    }

    /// One loaded mod with every setting it knows.
    pub async fn show_mod(&self, network: &str, name: &str) -> Result<Value, ClientError> {
        self.node_call(Method::GET, &under(network, &format!("/mods/{}", encode(name))), None).await
    }

    /// Loads a mod: {name, config?, intercepts?, priority?, enabled?}.
    pub async fn load_mod(&self, network: &str, new: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::POST, &under(network, "/mods"), Some(new)).await
    }

    /// Changes a loaded mod; a setting of null goes back to its default.
    pub async fn change_mod(&self, network: &str, name: &str, change: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::PATCH, &under(network, &format!("/mods/{}", encode(name))), Some(change)).await
    }

    /// Unloads a mod.
    pub async fn unload_mod(&self, network: &str, name: &str) -> Result<Value, ClientError> {
        self.node_call(Method::DELETE, &under(network, &format!("/mods/{}", encode(name))), None).await
    }

    /// Lets a member serve a mod, or no longer.
    pub async fn approve_mod(&self, network: &str, name: &str, agent: &str, on: bool) -> Result<Value, ClientError> {
        let body = json!({ "address": agent, "approved": on });
        let path = under(network, &format!("/mods/{}/approve", encode(name)));
        self.node_call(Method::POST, &path, Some(&body)).await
    }

    /// Puts the mods of one mode in order.
    pub async fn order_mods(&self, network: &str, mode: &str, names: &[String]) -> Result<Value, ClientError> {
        let body = json!({ "mode": mode, "names": names });
        self.node_call(Method::POST, &under(network, "/mods/order"), Some(&body)).await
    }

    /// Changes a member, such as its role.
    pub async fn change_member(&self, network: &str, address: &str, change: &Value) -> Result<Value, ClientError> {
        let path = under(network, &format!("/members/{}", encode(address)));
        self.node_call(Method::PATCH, &path, Some(change)).await
    }

    /// Deliveries that ended undelivered, the newest first: of one event, of one recipient, or all.
    pub async fn dead_letters(
        &self,
        network: &str,
        event_id: Option<&str>,
        recipient: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Value, ClientError> {
        let query = query_string([
            ("event_id", event_id.map(str::to_owned)),
            ("recipient", recipient.map(str::to_owned)),
            ("limit", limit.map(|n| n.to_string())),
        ]);
        self.node_call(Method::GET, &format!("{}{query}", under(network, "/dead-letters")), None).await
    }

    /// Sends dead letters again; `which` is {event_id?, recipient?, all?, limit?}.
    pub async fn retry_dead_letters(&self, network: &str, which: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::POST, &under(network, "/dead-letters/retry"), Some(which)).await
    }

    /// Puts dead letters away; `which` is {event_id?, recipient?, all?, limit?}.
    pub async fn drop_dead_letters(&self, network: &str, which: &Value) -> Result<Value, ClientError> {
        self.node_call(Method::POST, &under(network, "/dead-letters/drop"), Some(which)).await
    }

    /// Overwrites an event's payload for good.
    pub async fn redact(&self, network: &str, event_id: &str) -> Result<Value, ClientError> {
        let body = json!({ "event_id": event_id });
        self.node_call(Method::POST, &under(network, "/redact"), Some(&body)).await
    }

    /// The node's report on itself.
    pub async fn doctor(&self) -> Result<Value, ClientError> {
        self.node_call(Method::GET, "admin/doctor", None).await
    }

    /// The archive of a running node, as bytes.
    pub async fn backup(&self) -> Result<Body, ClientError> {
        let url = self.endpoint().node("admin/backup");
        self.open(Method::POST, url, Some("{}".to_owned()), &[]).await
    }

    /// One network of a running node as a file, as bytes.
    pub async fn export_network(&self, network: &str) -> Result<Body, ClientError> {
        let url = self.endpoint().node(&under(network, "/export"));
        self.open(Method::POST, url, Some("{}".to_owned()), &[]).await
    }

    /// Makes a network of such a file, under another name if one is given.
    pub async fn import_network(
        &self,
        name: Option<&str>,
        length: Option<u64>,
        file: impl Read + Send + 'static,
    ) -> Result<Value, ClientError> {
        let query = query_string([("name", name.map(str::to_owned))]);
        let url = self.endpoint().node(&format!("admin/import{query}"));
        let headers: Vec<(&str, String)> = length.map(|n| ("content-length", n.to_string())).into_iter().collect();
        self.upload(Method::POST, url, payload(file), &headers, UPLOAD_WAIT).await
    }

    /// Checks everything the node has stored: lines of progress, then a report.
    pub async fn verify(&self) -> Result<Body, ClientError> {
        let url = self.endpoint().node("admin/verify");
        self.open(Method::POST, url, Some("{}".to_owned()), &[]).await
    }
}

fn under(network: &str, rest: &str) -> String {
    format!("admin/networks/{}{rest}", encode(network))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::HttpServer;

    #[tokio::test]
    async fn paths_of_the_admin_calls() {
        let answers = vec![(200, r#"{"code":0,"message":"ok","data":{}}"#.to_owned()); 5];
        let server = HttpServer::answering(answers).await;
        let http = Http::new(&server.url).unwrap().with_bearer("A").with_network(Some("ignored".into()));
        let network = NewNetwork { name: "lab".into(), policy: Some("open".into()), ..NewNetwork::default() };
        http.create_network(&network).await.unwrap();
        http.change_network("a b", &json!({"status": "paused"})).await.unwrap();
        http.revoke_token("n1", "ci/1").await.unwrap();
        http.set_group("n1", "team", &["agent:a".to_owned()]).await.unwrap();
        http.change_member("n1", "human:a@b.c", &json!({"role": "observer"})).await.unwrap();
        let lines: Vec<String> = server.requests().await.iter().map(|r| r.lines().next().unwrap().to_owned()).collect();
        assert_eq!(
            lines,
            [
                "POST /v1/admin/networks HTTP/1.1",
                "PATCH /v1/admin/networks/a%20b HTTP/1.1",
                "DELETE /v1/admin/networks/n1/tokens/ci%2F1 HTTP/1.1",
                "PUT /v1/admin/networks/n1/groups/team HTTP/1.1",
                "PATCH /v1/admin/networks/n1/members/human:a%40b.c HTTP/1.1",
            ]
        );
    }

    #[tokio::test]
    async fn streamed_lines_and_their_refusal() {
        let body = "{\"done\":1}\r\n{\"report\":{}}".to_owned();
        let refusal = r#"{"code":403,"message":"forbidden: operators only","data":null}"#.to_owned();
        let server = HttpServer::answering(vec![(200, body), (403, refusal)]).await;
        let http = Http::new(&server.url).unwrap();
        let mut lines = http.verify().await.unwrap();
        assert_eq!(lines.line().await.unwrap().as_deref(), Some("{\"done\":1}"));
        assert_eq!(lines.line().await.unwrap().as_deref(), Some("{\"report\":{}}"));
        assert_eq!(lines.line().await.unwrap(), None);
        assert_eq!(http.backup().await.unwrap_err().to_string(), "forbidden: operators only");
    }
}
