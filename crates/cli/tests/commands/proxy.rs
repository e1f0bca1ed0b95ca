//! A node behind a proxy, and one that is reached without TLS.

use crate::support::http::Http;
use crate::support::{Node, until};
use serde_json::{Value, json};

fn node(config: &str) -> Node {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("rialto.toml");
    std::fs::write(&file, config).unwrap();
    let (data, file) = (dir.path().join("data"), file.display().to_string());
    Node::start_in(dir, &data, &["--config", &file])
}

async fn ask(node: &Node, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    use http_body_util::BodyExt;
    let response = Http::new(node.url()).open(method, path, headers, body).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

const SAID: [(&str, &str); 3] =
    [("x-forwarded-for", "198.51.100.7"), ("x-forwarded-host", "hub.example"), ("x-forwarded-proto", "https")];

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_says_who_the_client_is() {
    let node = node("[server]\ntrusted_proxies = [\"127.0.0.0/8\"]\nallowed_hosts = [\"hub.example\"]\n");
    let workspace = json!({ "name": "team" }).to_string();
    // Where a proxy is trusted nobody makes workspaces without a credential, wherever it is.
    let (status, _) = ask(&node, "POST", "/v1/workspaces", &[], &workspace).await;
    assert_eq!(status, 401);
    let (status, refused) = ask(&node, "POST", "/v1/workspaces", &SAID, &workspace).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("unauthenticated")));
    let forwarded = [("forwarded", "for=\"[2001:db8::7]:1234\";proto=https")];
    assert_eq!(ask(&node, "POST", "/v1/workspaces", &forwarded, &workspace).await.0, 401);
    let profile = format!("/v1/ws/{}/profile", node.network());
    let (_, told) = ask(&node, "GET", &profile, &SAID, "").await;
    assert!(told.to_string().contains("https://hub.example/v1/ws/"), "{told}");
    let evil = [("x-forwarded-host", "evil.example")];
    let (status, refused) = ask(&node, "GET", &profile, &evil, "").await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (403, &json!("origin_forbidden")),
        "a host is checked wherever it is said"
    );
    // The record names the client.
    let bearer = format!("Bearer {}", node.admin());
    let mut headers = SAID.to_vec();
    headers.push(("authorization", &bearer));
    let path = format!("/v1/admin/networks/{}/groups/team", node.network());
    assert_eq!(ask(&node, "PUT", &path, &headers, r#"{"members":[]}"#).await.0, 200);
    let acts = node.line("audit").ok().out;
    assert!(acts.lines().any(|line| line.contains("group.set") && line.contains("198.51.100.7")), "{acts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_is_believed() {
    let node = node("[server]\ntrusted_proxies = [\"203.0.113.0/24\"]\nallowed_hosts = [\"hub.example\"]\n");
    let (_, told) = ask(&node, "GET", &format!("/v1/ws/{}/profile", node.network()), &SAID, "").await;
    assert!(!told.to_string().contains("hub.example") && !told.to_string().contains("https://"), "{told}");
    let bad = node.path("bad.toml");
    std::fs::write(&bad, "[server]\ntrusted_proxies = [\"10.0.0.0/40\"]\n").unwrap();
    node.words(&["up", "--config", bad.to_str().unwrap()]).fails(2, "10.0.0.0/40").fails(2, "trusted_proxies");
}

#[test]
fn a_plain_listener_beyond_loopback_is_warned_of_and_the_log_comes_after_the_screen() {
    let dir = tempfile::TempDir::new().unwrap();
    let shown = dir.path().join("shown");
    let both = std::fs::File::create(&shown).unwrap();
    let mut command = crate::support::rialto();
    command.args(["up", "--listen", "0.0.0.0:0", "--insecure", "--data"]).arg(dir.path().join("data"));
    command.stdin(std::process::Stdio::null()).stdout(both.try_clone().unwrap()).stderr(both);
    let mut child = command.spawn().unwrap();
    let text = until("the log", || {
        let text = std::fs::read_to_string(&shown).unwrap_or_default();
        text.contains("WARN").then_some(text)
    });
    let doctor = {
        let mut command = crate::support::rialto();
        command.env("RIALTO_DATA", dir.path().join("data")).arg("doctor");
        crate::support::Ran::of(command, "")
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.starts_with("rialto "), "the screen comes first:\n{text}");
    let (screen, log) = text.split_once("Ctrl-C stops the node").unwrap();
    assert!(screen.contains("WARNING  others reach this node without TLS"), "{screen}");
    assert!(log.contains("others reach this node without TLS"), "{log}");
    let doctor = doctor.ok();
    assert!(doctor.out.contains("warn   listener: 0.0.0.0:"), "{doctor:?}");
    assert!(!doctor.out.contains("growth"), "nothing to judge a day by yet: {doctor:?}");
}
