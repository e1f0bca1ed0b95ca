//! Networks as workspaces over a real socket: each endpoint's exact object (sheet section 15).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::Server;
use rialto_model::limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Status and body of one request.
async fn ask(server: &Server, method: &str, path: &str, credential: &str, body: Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let credential = if credential.is_empty() { String::new() } else { format!("{credential}\r\n") };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{credential}Content-Length: {}\r\n\r\n{body}",
        server.addr,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

/// The data of a good answer.
async fn data(server: &Server, method: &str, path: &str, credential: &str, body: Value) -> Value {
    let (status, answer) = ask(server, method, path, credential, body).await;
    assert_eq!((status, &answer["code"]), (200, &json!(0)), "{method} {path}: {answer}");
    answer["data"].clone()
}

async fn refused(server: &Server, method: &str, path: &str, credential: &str, body: Value) -> (u16, String) {
    let (status, answer) = ask(server, method, path, credential, body).await;
    assert_ne!(status, 200, "{method} {path}: {answer}");
    let text = answer.to_string();
    let code = ["data", "error"].iter().find_map(|k| answer[*k]["code"].as_str().or(answer[*k]["error"].as_str()));
    (status, code.map_or(text, str::to_owned))
}

fn is_iso(value: &Value) -> bool {
    value.as_str().is_some_and(|t| t.len() == 24 && t.ends_with('Z') && t.get(10..11) == Some("T"))
}

/// The object without the members that differ from run to run, which are of their kind.
fn settled(mut value: Value, moving: &[&str]) -> Value {
    for key in moving {
        let taken = value.as_object_mut().unwrap().remove(*key).unwrap();
        assert!(!key.ends_with("At") || is_iso(&taken), "{key}: {taken}");
    }
    value
}

struct Made {
    id: String,
    token: String,
    session: String,
    operator: String,
}

async fn made(server: &Server) -> Made {
    let wish =
        json!({ "name": "lab", "agent_name": "max", "agent_type": "claude", "creator_email": "ann@example.com" });
    let made = data(server, "POST", "/v1/workspaces", "", wish).await;
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let (id, token, session) = (text(&made["workspaceId"]), text(&made["token"]), text(&made["channel"]["name"]));
    let rest = settled(made.clone(), &["workspaceId", "slug", "token", "channel"]);
    assert_eq!((rest, &made["slug"]), (json!({ "name": "lab" }), &made["workspaceId"]));
    let channel = settled(made["channel"].clone(), &["createdAt"]);
    assert_eq!(
        channel,
        json!({
            "channelId": session, "workspaceId": id, "name": session, "title": "Session 1", "titleManuallySet": false,
            "createdBy": "max", "masterAgent": "max", "resumeFrom": null, "status": "active", "starred": false,
            "participants": ["max"],
        })
    );
    assert!(session.strip_prefix("session-").is_some_and(|hex| hex.len() == 8));
    let operator = format!("Authorization: Bearer {}", server.node.admin_secret().expose());
    Made { id, token: format!("X-Workspace-Token: {token}"), session, operator }
}

async fn end(server: Server) {
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test]
async fn a_workspace_from_its_making_to_its_end() {
    let server = common::server(100).await;
    let Made { id, token, operator, .. } = made(&server).await;
    let path = format!("/v1/workspaces/{id}");
    let shown = data(&server, "GET", &path, &token, Value::Null).await;
    let agents = json!([{
        "agentName": "max", "role": "master", "agentType": "claude", "status": "offline", "description": null,
        "workingDir": null, "lastHeartbeatAt": null,
    }]);
    let agent = settled(shown["agents"][0].clone(), &["joinedAt"]);
    assert_eq!(json!([agent]), agents);
    let want = json!({
        "workspaceId": id, "slug": id, "name": "lab", "creatorEmail": "ann@example.com", "settings": {},
        "status": "active", "browserEnabled": false,
    });
    assert_eq!(settled(shown, &["agents", "createdAt", "lastActivityAt"]), want);
    let raw = token.trim_start_matches("X-Workspace-Token: ").to_owned();
    let resolved = data(&server, "POST", "/v1/token/resolve", "", json!({ "token": raw })).await;
    let endpoint = format!("http://{}", server.addr);
    assert_eq!(resolved, json!({ "workspace_id": id, "slug": id, "name": "lab", "endpoint": endpoint }));
    assert_eq!(refused(&server, "POST", "/v1/token/resolve", "", json!({ "token": "x" })).await.0, 404);
    let listed = data(&server, "GET", "/v1/workspaces", &token, Value::Null).await;
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 1, "its own");
    let listed = data(&server, "GET", "/v1/workspaces", &operator, Value::Null).await;
    assert_eq!(listed["workspaces"].as_array().unwrap().len(), 2, "all");
    let patch = json!({ "name": "lab two", "settings": { "theme": "dark" } });
    let changed = data(&server, "PATCH", &path, &token, patch).await;
    assert_eq!((&changed["name"], &changed["settings"]), (&json!("lab two"), &json!({ "theme": "dark" })));
    assert_eq!(changed["creatorEmail"], "ann@example.com");
    // Its name is no alias: it may be anybody's, and finds who had it before.
    let same = data(&server, "PATCH", &path, &token, json!({ "name": "main" })).await;
    assert_eq!((&same["name"], same["workspaceId"] != "main"), (&json!("main"), true));
    assert_ne!(server.node.network("main").unwrap().id(), id);
    assert_eq!(refused(&server, "PATCH", &path, &token, json!({ "color": 1 })).await.0, 400);
    assert_eq!(refused(&server, "PATCH", &path, "", json!({})).await.0, 401);
    assert_eq!(refused(&server, "GET", "/v1/workspaces/nowhere", &token, Value::Null).await.0, 404);
    // A new token, and the old one ends.
    let rotated = data(&server, "POST", &format!("{path}/rotate-token"), &token, json!({})).await;
    assert_eq!(rotated["workspace_id"], json!(id));
    assert_eq!(refused(&server, "GET", &path, &token, Value::Null).await.0, 401);
    let token = format!("X-Workspace-Token: {}", rotated["token"].as_str().unwrap());
    data(&server, "GET", &path, &token, Value::Null).await;
    let own = format!("/v1/workspaces/{}", server.node.default_network().unwrap().id());
    assert_eq!(refused(&server, "DELETE", &own, &token, Value::Null).await.0, 401, "another workspace's token");
    let archived = data(&server, "DELETE", &path, &token, Value::Null).await;
    assert_eq!(archived, json!({ "workspaceId": id, "status": "deleted" }));
    assert_eq!(data(&server, "GET", &path, &operator, Value::Null).await["status"], "archived");
    end(server).await;
}

#[tokio::test]
async fn channels_and_members_of_a_workspace() {
    let server = common::server(100).await;
    let Made { id, token, session, .. } = made(&server).await;
    let path = format!("/v1/workspaces/{id}/channels");
    let names = |list: &Value| -> Vec<String> {
        list["channels"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&data(&server, "GET", &path, &token, Value::Null).await), ["general".to_owned(), session.clone()]);
    let one = format!("{path}/{session}");
    let patch = json!({ "title": "Plans", "starred": true });
    let changed = data(&server, "PATCH", &one, &token, patch).await;
    assert_eq!(
        (&changed["title"], &changed["titleManuallySet"], &changed["starred"]),
        (&json!("Plans"), &json!(true), &json!(true))
    );
    let auto = data(&server, "PATCH", &one, &token, json!({ "title": "Auto", "auto_title": true })).await;
    assert_eq!(auto["title"], "Plans", "a chosen title stays");
    assert_eq!(data(&server, "GET", &one, &token, Value::Null).await, auto);
    assert_eq!(refused(&server, "PATCH", &one, &token, json!({ "status": "x" })).await.0, 400);
    assert_eq!(refused(&server, "GET", &format!("{path}/nowhere"), &token, Value::Null).await.0, 404);
    let archived = data(&server, "DELETE", &one, &token, Value::Null).await;
    assert_eq!(archived["status"], "archived");
    let made = data(&server, "POST", &path, &token, json!({ "title": "Second" })).await;
    assert_eq!((&made["title"], &made["status"]), (&json!("Second"), &json!("active")));
    // The agent that was named joins as it is.
    let join = json!({ "agent_name": "max", "network": id, "token": token.trim_start_matches("X-Workspace-Token: ") });
    let joined = data(&server, "POST", "/v1/join", "", join).await;
    assert_eq!((&joined["agent_name"], &joined["role"]), (&json!("max"), &json!("master")));
    let member = format!("/v1/workspaces/{id}/members/max");
    let changed = data(&server, "PATCH", &member, &token, json!({ "role": "member" })).await;
    assert_eq!(
        (&changed["agentName"], &changed["role"], &changed["status"]),
        (&json!("max"), &json!("member"), &json!("online"))
    );
    assert_eq!(refused(&server, "PATCH", &member, &token, json!({ "role": "king" })).await.0, 400);
    let composing = json!({ "network": id, "channel": "general", "agent_name": "max" });
    assert_eq!(data(&server, "POST", "/v1/composing", &token, composing).await, json!({ "status": "ok" }));
    end(server).await;
}

#[tokio::test]
async fn invitations_by_operator_and_member() {
    let server = common::server(100).await;
    let Made { id, token, operator, .. } = made(&server).await;
    let path = format!("/v1/ws/{id}/invitations");
    let invited = data(&server, "POST", &path, &operator, json!({ "invitee": "agent:eve", "role": "observer" })).await;
    let code = invited["code"].as_str().unwrap().to_owned();
    assert_eq!(invited["url"], json!(format!("/?network={id}&invite={code}")));
    let listed = data(&server, "GET", &format!("{path}?agent=eve"), &operator, Value::Null).await;
    assert_eq!(listed["invitations"][0]["invitation_id"], invited["invitation_id"]);
    assert!(!listed.to_string().contains(&code), "the code is shown once");
    assert_eq!(refused(&server, "GET", &path, &token, Value::Null).await.0, 401, "a bare token is nobody");
    let join = |who: &str, code: &str| json!({ "agent_id": who, "credentials": { "invite": code } });
    let at = format!("/v1/ws/{id}/join");
    assert_eq!(refused(&server, "POST", &at, "", join("agent:bob", &code)).await.0, 403);
    let joined = data(&server, "POST", &at, "", join("agent:eve", &code)).await;
    assert_eq!(joined["role"], "observer");
    assert_eq!(refused(&server, "POST", &at, "", join("agent:eve", &code)).await.0, 403, "used up");
    // By a member; refused by who knows the code.
    let asked = json!({ "agent_name": "max", "max_uses": 2 });
    let invited = data(&server, "POST", &path, &token, asked).await;
    let (invitation, code) = (invited["invitation_id"].as_str().unwrap(), invited["code"].as_str().unwrap());
    let reject = format!("{path}/{invitation}/reject");
    assert_eq!(refused(&server, "POST", &reject, "", json!({ "code": "x" })).await.0, 403);
    let ended = data(&server, "POST", &reject, "", json!({ "code": code })).await;
    assert_eq!(ended, json!({ "invitation_id": invitation, "status": "rejected" }));
    assert_eq!(refused(&server, "POST", &at, "", join("agent:bob", code)).await.0, 403);
    let invited = data(&server, "POST", &path, &operator, json!({})).await;
    let one = format!("{path}/{}", invited["invitation_id"].as_str().unwrap());
    assert_eq!(refused(&server, "DELETE", &one, "", Value::Null).await.0, 401);
    assert_eq!(data(&server, "DELETE", &one, &token, Value::Null).await["status"], "revoked", "its token manages it");
    end(server).await;
}

#[tokio::test]
async fn who_may_make_a_workspace_and_what_is_not_offered() {
    let server = common::server(100).await;
    for body in [json!({}), json!({ "name": "" }), json!({ "name": "x", "agent_name": "a b" }), json!({ "name": 1 })] {
        let (status, answer) = ask(&server, "POST", "/v1/workspaces", "", body.clone()).await;
        assert_eq!(status, 400, "{body}: {answer}");
    }
    let bare = data(&server, "POST", "/v1/workspaces", "", json!({ "name": "bare" })).await;
    assert_eq!((&bare["channel"]["masterAgent"], &bare["channel"]["createdBy"]), (&Value::Null, &Value::Null));
    // Clients make one of the same name again and again: it is another one, and the name finds neither.
    let again = data(&server, "POST", "/v1/workspaces", "", json!({ "name": "bare" })).await;
    assert!(again["name"] == "bare" && again["workspaceId"] != bare["workspaceId"], "{again}");
    let token = format!("X-Workspace-Token: {}", again["token"].as_str().unwrap());
    assert_eq!(refused(&server, "GET", "/v1/ws/bare/discover", &token, Value::Null).await.0, 404);
    for path in
        ["/v1/todos/1", "/v1/timers/1", "/v1/routines/1", "/v1/browser/tabs/1/click", "/v1/devices", "/v1/shares"]
    {
        let (status, answer) = ask(&server, "GET", path, "", Value::Null).await;
        assert_eq!((status, answer["code"] != json!(0)), (501, true), "{path}: {answer}");
    }
    end(server).await;
}

#[tokio::test]
async fn lists_without_a_page_are_capped_and_say_that_there_is_more() {
    let server = common::server(100).await;
    let Made { id, token, .. } = made(&server).await;
    let network = server.node.network(&id).unwrap();
    let bearer = rialto_node::identity::sha256(token.trim_start_matches("X-Workspace-Token: "));
    let caller = std::sync::Arc::new(rialto_node::Caller {
        bearer: Some(bearer),
        claimed: Some("openagents:max".into()),
        capabilities: rialto_node::Capabilities::ALL,
        ..rialto_node::Caller::default()
    });
    let count = limits::LIST_ROWS_MAX + 5;
    let create = |i: usize| {
        let payload = json!({ "name": format!("c{i}") });
        json!({ "type": "network.channel.create", "target": "core", "payload": payload }).to_string().into_bytes()
    };
    let texts: Vec<Vec<u8>> = (0..count).map(create).collect();
    let answers = network.session(&caller).emit(texts.iter().map(Vec::as_slice).collect()).await.unwrap();
    assert!(answers.iter().all(|a| a.result.is_ok()), "{:?}", answers.iter().find_map(|a| a.result.clone().err()));
    let rows = |answer: &Value| answer["channels"].as_array().unwrap().len();
    let get = async |path: String| data(&server, "GET", &path, &token, Value::Null).await;
    // Compat discovery: objects, so many, and a cursor for the rest; the general channel and the first session count too.
    let roster = get(format!("/v1/discover?network={id}")).await;
    assert_eq!((rows(&roster), &roster["has_more"]), (limits::LIST_ROWS_MAX, &json!(true)));
    assert!(roster["channels"][0]["participants"].is_array(), "{}", roster["channels"][0]);
    let after = roster["next"]["channels"].as_str().unwrap();
    let rest = get(format!("/v1/discover?network={id}&include=channels&after={after}")).await;
    assert_eq!((rows(&rest), rest.get("has_more")), (count + 2 - limits::LIST_ROWS_MAX, None));
    // Newest events.
    let newest = get(format!("/v1/events/latest-per-channel?network={id}&type=network")).await;
    let channels = newest["channels"].as_object().unwrap();
    assert_eq!((channels.len(), &newest["has_more"]), (limits::LIST_ROWS_MAX, &json!(true)));
    assert!(channels.iter().all(|(name, event)| event["target"] == format!("channel/{name}")));
    let said = json!({ "type": "workspace.message.posted", "target": "channel/c7", "payload": { "content": "hi" } });
    network.session(&caller).emit(said.to_string().into()).await.unwrap().remove(0).result.unwrap();
    let newest = get(format!("/v1/events/latest-per-channel?network={id}&type=workspace.message")).await;
    let channels = newest["channels"].as_object().unwrap();
    assert_eq!(channels.keys().collect::<Vec<_>>(), ["c7"]);
    assert_eq!((&channels["c7"]["payload"]["content"], newest.get("has_more")), (&json!("hi"), None));
    // Pages of channels, and those of the workspace.
    for path in [format!("/v1/channels?network={id}&"), format!("/v1/workspaces/{id}/channels?")] {
        let first = get(path.trim_end_matches(['?', '&']).to_owned()).await;
        assert_eq!((rows(&first), &first["has_more"]), (limits::LIST_ROWS_MAX, &json!(true)), "{path}");
        let rest = get(format!("{path}after={}", first["next"].as_str().unwrap())).await;
        assert_eq!(rows(&rest) + rows(&first), count + 2, "{path}");
    }
    assert_eq!(
        refused(&server, "GET", &format!("/v1/channels?network={id}&limit=0"), &token, Value::Null).await.0,
        400
    );
    let one = get(format!("/v1/workspaces/{id}/channels/c{}", count - 1)).await;
    assert_eq!(one["name"], json!(format!("c{}", count - 1)));
    end(server).await;
}

#[tokio::test]
async fn open_workspaces_per_minute_max_and_open_workspaces_max() {
    let clock = std::sync::Arc::new(rialto_node::clock::DrivenClock::at(1_767_225_600_000));
    let server = common::server_on(rialto_node::Host::simulated(clock.clone(), 7)).await;
    let error = |answer: &Value| {
        let found = ["data", "error"].into_iter().map(|key| answer[key].clone()).find(|e| e["code"].is_string());
        found.unwrap_or_else(|| panic!("{answer}"))
    };
    let wish = |n: usize| json!({ "name": format!("w{n}") });
    for n in 0..limits::OPEN_WORKSPACES_MAX {
        if n.is_multiple_of(limits::OPEN_WORKSPACES_PER_MINUTE_MAX) && n > 0 {
            let (status, answer) = ask(&server, "POST", "/v1/workspaces", "", wish(n)).await;
            assert_eq!((status, &error(&answer)["code"]), (429, &json!("rate_limited")), "{answer}");
            let wait = error(&answer)["details"]["retry_after_ms"].as_u64().unwrap();
            assert!((1..=60_000).contains(&wait), "{wait}");
            clock.pass(wait);
        }
        data(&server, "POST", "/v1/workspaces", "", wish(n)).await;
        clock.pass(1);
    }
    clock.pass(60_000);
    let (status, answer) = ask(&server, "POST", "/v1/workspaces", "", wish(1000)).await;
    let details = json!({ "scope": "node", "limit": limits::OPEN_WORKSPACES_MAX });
    let error = error(&answer);
    assert_eq!((status, &error["code"], &error["details"]), (429, &json!("network_full"), &details));
    // Who shows that it is the operator is not bound by this.
    let operator = format!("Authorization: Bearer {}", server.node.admin_secret().expose());
    for n in 0..=limits::OPEN_WORKSPACES_PER_MINUTE_MAX {
        data(&server, "POST", "/v1/workspaces", &operator, wish(2000 + n)).await;
    }
    end(server).await;
}
