//! Files of workspaces over a real socket: every call with its object, and what is refused (sheet section 15).
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{Server, server};
use rialto_model::limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Debug)]
struct AnswerInFlight {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl AnswerInFlight {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    #[track_caller]
    fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self.json()["data"].take()
    }

    fn code(&self) -> (u16, String) {
        (self.status, self.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// One request with these header lines; a body that is cut short is announced whole.
async fn ask(server: &Server, line: &str, headers: &[&str], body: &[u8], announced: usize) -> AnswerInFlight {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let mut head = format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.addr);
    headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
    head.push_str(&format!("Content-Length: {announced}\r\n\r\n"));
    // A server that has heard enough answers before the end and reads no more.
    let (mut from, mut to) = stream.split();
    let write = async {
        let _ = to.write_all(head.as_bytes()).await;
        let _ = to.write_all(body).await;
    };
    let read = async {
        let mut answer = Vec::new();
        let mut piece = [0; 16 << 10];
        while let Ok(n @ 1..) = from.read(&mut piece).await {
            answer.extend_from_slice(&piece[..n]);
        }
        answer
    };
    let (_, answer) = tokio::join!(write, read);
    let at = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..at].to_vec()).unwrap();
    AnswerInFlight { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: answer[at + 4..].to_vec() }
}

async fn get(server: &Server, path: &str, headers: &[&str]) -> AnswerInFlight {
    ask(server, &format!("GET {path}"), headers, b"", 0).await
}

fn token(text: &str) -> String {
    format!("X-Workspace-Token: {text}")
}

fn bearer(text: &str) -> String {
    format!("Authorization: Bearer {text}")
}

enum Part<'a> {
    Field(&'a str, &'a str),
    File(&'a str, &'a str, &'a [u8]),
}

fn form(parts: &[Part<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            Part::Field(key, value) => out.extend_from_slice(
                format!("--b0undary\r\nContent-Disposition: form-data; name=\"{key}\"\r\n\r\n{value}\r\n").as_bytes(),
            ),
            Part::File(name, kind, bytes) => {
                let head = format!(
                    "--b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n"
                );
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    out.extend_from_slice(b"--b0undary--\r\n");
    out
}

async fn send_form(server: &Server, path: &str, credential: &str, body: &[u8]) -> AnswerInFlight {
    let headers = [credential, "Content-Type: multipart/form-data; boundary=b0undary"];
    ask(server, &format!("POST {path}"), &headers, body, body.len()).await
}

async fn send_json(server: &Server, path: &str, credential: &str, body: Value) -> AnswerInFlight {
    let body = body.to_string();
    ask(server, &format!("POST {path}"), &[credential], body.as_bytes(), body.len()).await
}

struct Lab {
    server: Server,
    id: String,
    token: String,
    session: String,
}

async fn lab() -> Lab {
    let server = server(64).await;
    let made =
        send_json(&server, "/v1/workspaces", "X-A: b", json!({ "name": "lab", "agent_name": "max" })).await.data();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let (id, token, session) = (text(&made["workspaceId"]), text(&made["token"]), text(&made["channel"]["name"]));
    Lab { server, id, token, session }
}

impl Lab {
    /// Joins, and gives the session.
    async fn join(&self, name: &str) -> String {
        let body = json!({ "agent_id": name, "credentials": { "token": self.token }, "network": self.id });
        send_json(&self.server, "/v1/join", "X-A: b", body).await.data()["session_id"].as_str().unwrap().to_owned()
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/ws/{}/{rest}", self.id)
    }

    async fn events(&self, kind: &str) -> Vec<Value> {
        let path = self.path(&format!("events?view=log&type={kind}"));
        let page = get(&self.server, &path, &[&bearer(self.server.node.admin_secret().expose())]).await.data();
        page["events"].as_array().unwrap().clone()
    }
}

/// A file without what differs from run to run.
fn settled(mut file: Value) -> (String, Value) {
    let map = file.as_object_mut().unwrap();
    let at = map.remove("created_at").unwrap();
    assert!(at.as_str().is_some_and(|t| t.len() == 24 && t.ends_with('Z')), "{at}");
    let id = map.remove("id").unwrap().as_str().unwrap().to_owned();
    assert!(id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
    (id, file)
}

#[tokio::test]
async fn a_file_from_its_upload_to_its_end() {
    let lab = lab().await;
    let server = &lab.server;
    let x = token(&lab.token);
    // As forms come: what is said may stand before or behind the file.
    let parts = [
        Part::File("my notes — 1.txt", "text/plain", b"hello\r\n--b0undar"),
        Part::Field("network", &lab.id),
        Part::Field("source", "openagents:max"),
        Part::Field("channel_name", &lab.session),
        Part::Field("surprise", "me"),
    ];
    let (id, file) = settled(send_form(server, "/v1/files", &x, &form(&parts)).await.data());
    let expected = json!({
        "filename": "my notes — 1.txt", "content_type": "text/plain", "size": 16, "uploaded_by": "openagents:max",
        "channel_name": lab.session, "status": "active",
    });
    assert_eq!(file, expected);

    // In base64, by somebody whom this joins, for nobody in particular.
    let wish = json!({
        "filename": "b.bin", "content_base64": "AAECAw==", "network": lab.id, "source": "openagents:eve",
    });
    let (second, file) = settled(send_json(server, "/v1/files/base64", &x, wish).await.data());
    let other = json!({
        "filename": "b.bin", "content_type": "application/octet-stream", "size": 4, "uploaded_by": "openagents:eve", "channel_name": null, "status": "active",
    });
    assert_eq!(file, other);
    // A client that never says who it is, as older servers have it.
    let wish = json!({ "filename": "c", "content_base64": "", "network": lab.id, "content_type": "text/x" });
    let (third, file) = settled(send_json(server, "/v1/files/base64", &x, wish).await.data());
    assert_eq!((&file["uploaded_by"], &file["size"]), (&json!("human:user"), &json!(0)));

    // Listed, the newest first.
    let list = get(server, &format!("/v1/files?network={}", lab.id), &[&x]).await.data();
    let ids: Vec<&str> = list["files"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &list["total"]), (vec![third.as_str(), &second, &id], &json!(3)));
    for (query, total, found) in [
        ("limit=1&offset=1", 3, vec![&second]),
        ("offset=7", 3, vec![]),
        ("uploaded_by=openagents:max", 1, vec![&id]),
        ("uploaded_by=nobody", 0, vec![]),
        (&format!("channel_name={}", lab.session), 1, vec![&id]),
        ("channel_name=general", 0, vec![]),
    ] {
        let list = get(server, &lab.path(&format!("files?{query}")), &[&x]).await.data();
        let ids: Vec<&str> = list["files"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap()).collect();
        assert_eq!((&list["total"], ids), (&json!(total), found.iter().map(|s| s.as_str()).collect()), "{query}");
    }
    let (_, info) = settled(get(server, &lab.path(&format!("files/{id}/info")), &[&x]).await.data());
    assert_eq!(info, expected);

    // Its bytes: saved, never shown, in parts too, and with the token in the URL.
    let whole = get(server, &format!("/v1/files/{id}?token={}", lab.token), &[]).await;
    assert_eq!((whole.status, whole.body.as_slice()), (200, b"hello\r\n--b0undar".as_slice()));
    let disposition = "attachment; filename=\"my notes _ 1.txt\"; filename*=UTF-8''my%20notes%20%E2%80%94%201.txt";
    assert_eq!(whole.header("content-disposition"), disposition);
    assert_eq!((whole.header("x-content-type-options"), whole.header("content-type")), ("nosniff", "text/plain"));
    let part = get(server, &format!("/v1/files/{id}"), &[&x, "Range: bytes=1-3"]).await;
    assert_eq!((part.status, part.body.as_slice()), (206, b"ell".as_slice()));
    assert_eq!(part.header("content-range"), "bytes 1-3/16");
    let outside = get(server, &format!("/v1/files/{id}"), &[&x, "Range: bytes=99-"]).await;
    assert_eq!((outside.status, outside.header("content-range")), (416, "bytes */16"));

    // It is a resource like any other.
    let eve = lab.join("agent:reader").await;
    let address = format!("resources/file/uploads/{second}/b.bin");
    assert_eq!(get(server, &lab.path(&address), &[&bearer(&eve)]).await.body, [0, 1, 2, 3]);

    // Told of where it is for, with its uploader as the source.
    let told = lab.events("workspace.file.uploaded").await;
    let shown: Vec<Value> =
        told.iter().map(|e| json!([e["source"], e["target"], e["payload"], e["visibility"]])).collect();
    let first = json!({
        "file_id": id, "filename": "my notes — 1.txt", "content_type": "text/plain", "size": 16,
        "address": format!("resource/file/uploads/{id}/my notes — 1.txt"),
    });
    assert_eq!(shown[0], json!(["openagents:max", format!("channel/{}", lab.session), first, "channel"]));
    assert_eq!((&shown[1][1], &shown[1][3]), (&json!("core"), &json!("public")));

    // Another's file is not one's own to delete; the owner does, and whoever holds the workspace's token.
    let delete = |id: &str| format!("DELETE {}", lab.path(&format!("files/{id}")));
    assert_eq!(ask(server, &delete(&id), &[&bearer(&eve)], b"", 0).await.code(), (403, "permission_denied".to_owned()));
    let gone = ask(server, &format!("{}?source=openagents:max", delete(&id)), &[&x], b"", 0).await.data();
    assert_eq!(gone, json!({ "id": id, "status": "deleted" }));
    let gone = ask(server, &delete(&second), &[&x], b"", 0).await.data();
    assert_eq!(gone, json!({ "id": second, "status": "deleted" }));
    assert_eq!(get(server, &format!("/v1/files/{id}"), &[&x]).await.code(), (404, "resource_not_found".to_owned()));
    let told = lab.events("workspace.file.deleted").await;
    assert_eq!((&told[0]["source"], &told[0]["payload"]), (&json!("openagents:max"), &first));
    assert_eq!((&told[1]["source"], &told[1]["target"]), (&json!("core"), &json!("core")));
    server.stop.cancel();
}

#[tokio::test]
async fn uploads_that_are_refused_leave_nothing() {
    let lab = lab().await;
    let server = &lab.server;
    let (x, network) = (token(&lab.token), Part::Field("network", &lab.id));
    let max = bearer(&lab.join("agent:max").await);
    let number = server.node.network(&lab.id).unwrap().number();
    let before = server.node.blobs().usage(number);
    let file = |name| Part::File(name, "text/plain", b"hi");
    let (bad, unknown) = ((400, "invalid_argument".to_owned()), (404, "unknown_target".to_owned()));
    let no_token = (401, "unauthenticated".to_owned());

    let wrong = [Part::Field("network", "nowhere"), file("a")];
    assert_eq!(send_form(server, "/v1/files", &x, &form(&wrong)).await.code(), (404, "network_not_found".to_owned()));
    assert_eq!(send_form(server, &lab.path("files"), "X-A: b", &form(&[file("a")])).await.code(), no_token);
    let stranger = token("not-a-token");
    let answer = send_form(server, &lab.path("files"), &stranger, &form(&[file("a")])).await;
    assert_eq!(answer.code(), (401, "invalid_token".to_owned()));
    // Another network than the one the content was taken in for.
    let answer = send_form(server, "/v1/files", &x, &form(&[file("a"), Part::Field("network", "main")])).await;
    assert_eq!(answer.code(), bad);
    // In another's name.
    let answer =
        send_form(server, &lab.path("files"), &max, &form(&[Part::Field("source", "agent:eve"), file("a")])).await;
    assert_eq!(answer.code(), (403, "source_mismatch".to_owned()));
    let long = "x".repeat(256);
    for name in ["../../etc/passwd", "a/b", "a\\\\b", "..", ".", "", " ", "a\u{7}b", &long, "a::b"] {
        let answer = send_form(server, &lab.path("files"), &max, &form(&[file(name)])).await;
        assert_eq!(answer.code(), bad, "{name:?}");
        let wish = json!({ "filename": name.replace("\\\\", "\\"), "content_base64": "aGk=" });
        assert_eq!(send_json(server, &lab.path("files/base64"), &max, wish).await.code(), bad, "{name:?}");
    }
    let answer = send_form(server, &lab.path("files"), &max, &form(&[network])).await;
    assert_eq!(answer.code(), bad, "no file");
    assert_eq!(send_form(server, &lab.path("files"), &max, &form(&[file("a"), file("b")])).await.code(), bad);
    let plain = [&max, "Content-Type: text/plain"];
    assert_eq!(ask(server, &format!("POST {}", lab.path("files")), &plain, b"hi", 2).await.code(), bad);
    let long = "n".repeat(2000);
    assert_eq!(
        send_form(server, &lab.path("files"), &max, &form(&[Part::Field("source", &long), file("a")])).await.code(),
        bad
    );
    // Broken off, within the file and between parts.
    let whole = form(&[Part::File("a", "text/plain", &[7; 4000]), Part::Field("source", "agent:max")]);
    for cut in [30, 2000, whole.len() - 60, whole.len() - 4] {
        let answer = send_form(server, &lab.path("files"), &max, &whole[..cut]).await;
        assert_eq!(answer.code(), bad, "cut at {cut}");
    }
    for wish in [
        json!({ "filename": "a", "content_base64": "aGk" }),
        json!({ "filename": "a", "content_base64": "a*==" }),
        json!({ "filename": "a", "content_base64": 5 }),
        json!({ "filename": "a" }),
        json!({ "content_base64": "aGk=" }),
        json!({ "filename": 5, "content_base64": "aGk=" }),
    ] {
        assert_eq!(send_json(server, &lab.path("files/base64"), &max, wish.clone()).await.code(), bad, "{wish}");
    }
    let answer = send_json(server, &lab.path("files/base64"), &max, json!(["a"])).await;
    assert_eq!(answer.code(), (400, "invalid_json".to_owned()));
    // A channel that is not there, or not for the one who brings it.
    let create =
        json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "den", "private": true } });
    send_json(server, &lab.path("events"), &max, create).await.data();
    let eve = bearer(&lab.join("agent:eve").await);
    for channel in ["nowhere", "den"] {
        let wish = json!({ "filename": "a", "content_base64": "aGk=", "channel_name": channel });
        assert_eq!(send_json(server, &lab.path("files/base64"), &eve, wish).await.code(), unknown, "{channel}");
    }
    for (query, code) in [("limit=0", &bad), ("limit=501", &bad), ("limit=x", &bad), ("offset=-1", &bad)] {
        assert_eq!(get(server, &lab.path(&format!("files?{query}")), &[&max]).await.code(), *code, "{query}");
    }
    for path in ["files/00000000", "files/00000000/info", "files/nothing"] {
        let answer = get(server, &lab.path(path), &[&max]).await;
        assert_eq!(answer.code(), (404, "resource_not_found".to_owned()), "{path}");
    }
    assert_eq!(get(server, &lab.path("files"), &[]).await.code(), no_token);
    assert!(lab.events("workspace.file.uploaded").await.is_empty());
    let list = get(server, &lab.path("files"), &[&max]).await.data();
    assert_eq!(list, json!({ "files": [], "total": 0 }));
    let after = server.node.blobs().usage(number);
    assert_eq!(after.arriving, before.arriving);
    server.stop.cancel();
}

#[tokio::test]
async fn what_is_for_a_private_channel_is_read_there() {
    let lab = lab().await;
    let server = &lab.server;
    let (max, ben) = (bearer(&lab.join("agent:max").await), bearer(&lab.join("agent:ben").await));
    let eve = bearer(&lab.join("agent:eve").await);
    let wish = json!({ "name": "den", "private": true, "participants": ["agent:ben"] });
    let create = json!({ "type": "network.channel.create", "target": "core", "payload": wish });
    send_json(server, &lab.path("events"), &max, create).await.data();
    let wish = json!({ "filename": "secret.txt", "content_base64": "aGk=", "channel_name": "channel/den" });
    let id = send_json(server, &lab.path("files/base64"), &max, wish).await.data()["id"].as_str().unwrap().to_owned();
    let path = lab.path(&format!("files/{id}"));
    assert_eq!(get(server, &path, &[&ben]).await.body, b"hi");
    for credential in [&eve, &token(&lab.token)] {
        for path in [path.clone(), format!("{path}/info"), lab.path(&format!("resources/file/uploads/{id}/secret.txt"))]
        {
            let answer = get(server, &path, &[credential]).await;
            assert!(answer.status >= 400 && !answer.head.contains("secret"), "{path}: {answer:?}");
        }
        assert_eq!(get(server, &lab.path("files"), &[credential]).await.data()["total"], 0);
    }
    let told = lab.events("workspace.file.uploaded").await;
    assert_eq!((&told[0]["target"], &told[0]["visibility"]), (&json!("channel/den"), &json!("channel")));
    // Who owns a file may say that it belongs elsewhere, but says nothing there by deleting it.
    let other = json!({ "filename": "own.txt", "content_base64": "aGk=" });
    let own = send_json(server, &lab.path("files/base64"), &eve, other).await.data()["id"].as_str().unwrap().to_owned();
    let change = json!({ "metadata": { "channel_name": "den" } }).to_string();
    let line = format!("PATCH {}", lab.path(&format!("resources/file/uploads/{own}/own.txt")));
    ask(server, &line, &[&eve], change.as_bytes(), change.len()).await.data();
    ask(server, &format!("DELETE {}", lab.path(&format!("files/{own}"))), &[&eve], b"", 0).await.data();
    assert!(lab.events("workspace.file.deleted").await.is_empty());
    server.stop.cancel();
}

#[tokio::test]
async fn upload_bytes_max_is_the_limit() {
    let lab = lab().await;
    let server = &lab.server;
    let max = bearer(&lab.join("agent:max").await);
    let most = usize::try_from(limits::UPLOAD_BYTES_MAX).unwrap();
    let too_large = (413, "too_large".to_owned());
    let mut bytes = vec![7; most];
    let kept = send_form(server, &lab.path("files"), &max, &form(&[Part::File("a", "x/y", &bytes)])).await.data();
    assert_eq!(kept["size"], most);
    bytes.push(7);
    let body = form(&[Part::File("a", "x/y", &bytes)]);
    assert_eq!(send_form(server, &lab.path("files"), &max, &body).await.code(), too_large);
    // Said beforehand, it is not even read.
    let headers = [&max, "Content-Type: multipart/form-data; boundary=b0undary"];
    let line = format!("POST {}", lab.path("files"));
    assert_eq!(ask(server, &line, &headers, b"", most + (1 << 20)).await.code(), too_large);
    let mut body = String::from("{\"filename\":\"a\",\"content_base64\":\"");
    body.push_str(&"AAAA".repeat(most / 3 + 1));
    body.push_str("\"}");
    let answer = ask(server, &format!("POST {}", lab.path("files/base64")), &[&max], body.as_bytes(), body.len()).await;
    assert_eq!(answer.code(), too_large);
    server.stop.cancel();
}
