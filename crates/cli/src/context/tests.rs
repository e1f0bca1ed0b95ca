//! Which node and which voice, over a scripted node.

use super::*;
use crate::out::testing;
use crate::place::RunNetwork;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn context(env: Env, global: Global) -> Context {
    let (out, _, _) = testing::out(false);
    Context { global, env, out, zone: TimeZone::UTC }
}

fn run_file(url: &str, pid: u32) -> RunFile {
    RunFile {
        version: "0.1.0".into(),
        pid,
        url: url.into(),
        listen: "127.0.0.1:1".into(),
        admin_secret: "ADMIN".into(),
        network: RunNetwork { id: "a1b2c3d4".into(), name: "main".into() },
        started_at: 0,
    }
}

/// Answers every request by the script; keeps its first line and bearer.
async fn node(answers: Vec<(u16, &'static str)>) -> (String, Rc<RefCell<Vec<String>>>, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Rc::new(RefCell::new(Vec::new()));
    let kept = asked.clone();
    let task = tokio::task::spawn_local(async move {
        for (status, body) in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = [0u8; 8192];
            let n = socket.read(&mut bytes).await.unwrap();
            let request = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let first = request.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
            let bearer = request.lines().find_map(|l| l.strip_prefix("authorization: ")).unwrap_or("nobody");
            kept.borrow_mut().push(format!("{first} as {bearer}"));
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            socket.write_all((head + body).as_bytes()).await.unwrap();
        }
    });
    (url, asked, task)
}

const JOINED: &str =
    r#"{"code":0,"message":"ok","data":{"network_id":"a1b2c3d4","address":"human:ana","session_id":"S1"}}"#;
const REVOKED: &str = r#"{"code":401,"message":"session_revoked: newer join","data":null,"error":{"code":"session_revoked","message":"newer join"}}"#;
const STRANGER: &str = r#"{"code":401,"message":"not_a_member: join first","data":null,"error":{"code":"not_a_member","message":"join first"}}"#;
const ME: &str = r#"{"code":0,"message":"ok","data":{"address":"agent:helper"}}"#;
const OK: &str = r#"{"code":0,"message":"ok","data":{"acked":1}}"#;

#[test]
fn without_a_node_the_message_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let global = Global { data: Some(dir.path().into()), ..Global::default() };
    let error = context(Env::default(), global.clone()).node().unwrap_err();
    assert_eq!(error.exit, Exit::Unavailable);
    assert!(error.text().contains("rialto up"), "{}", error.text());
    run_file("http://127.0.0.1:1", 0x7fff_fff0).write(dir.path()).unwrap();
    let error = context(Env::default(), global).node().unwrap_err();
    assert!(error.text().contains("has stopped"), "{}", error.text());
}

#[test]
fn a_url_wins_over_the_run_file_and_brings_no_admin_secret() {
    let dir = tempfile::tempdir().unwrap();
    run_file("http://127.0.0.1:1", std::process::id()).write(dir.path()).unwrap();
    let global = Global { data: Some(dir.path().into()), ..Global::default() };
    let local = context(Env::default(), global.clone()).node().unwrap();
    assert_eq!((local.url.as_str(), local.network.as_deref()), ("http://127.0.0.1:1", Some("a1b2c3d4")));
    assert!(local.admin.is_some());
    let env = Env::from([("RIALTO_URL", "https://far.example"), ("RIALTO_TOKEN", "T")]);
    let far = context(env, global).node().unwrap();
    assert_eq!((far.url.as_str(), far.admin.is_some()), ("https://far.example", false));
}

#[test]
fn the_data_directory_may_come_from_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rialto.toml");
    std::fs::write(&file, "[store]\ndata = \"/srv/rialto\"\n").unwrap();
    let global = Global { config: Some(file), ..Global::default() };
    assert_eq!(context(Env::default(), global.clone()).data_dir().unwrap().to_str(), Some("/srv/rialto"));
    let env = Env::from([("RIALTO_STORE_DATA", "/env")]);
    assert_eq!(context(env, global).data_dir().unwrap().to_str(), Some("/env"));
}

#[test]
fn names_that_can_and_cannot_speak() {
    assert_eq!(speaker_address("helper").unwrap(), "agent:helper");
    assert_eq!(speaker_address("human:Ana@Example.ORG").unwrap(), "human:ana@example.org");
    for bad in ["core", "channel/x", "broadcast", "other::agent:x", "", "a b"] {
        assert_eq!(speaker_address(bad).unwrap_err().exit, Exit::Usage, "{bad}");
    }
    assert_eq!(channel("general").unwrap(), "channel/general");
    assert_eq!(channel("channel/general").unwrap(), "channel/general");
    assert!(channel("a/b").is_err());
    assert_eq!(group_name("group/team").unwrap(), "team");
}

#[tokio::test(flavor = "current_thread")]
async fn reading_is_the_operators_and_speaking_a_members() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let dir = tempfile::tempdir().unwrap();
            let (url, asked, task) = node(vec![(401, STRANGER), (200, JOINED), (200, OK), (200, OK)]).await;
            run_file(&url, std::process::id()).write(dir.path()).unwrap();
            let global = Global { data: Some(dir.path().into()), ..Global::default() };
            let mut cx = context(Env::from([("USER", "ana")]), global);
            assert!(cx.reader().await.unwrap().speaker.is_none());
            for _ in 0..2 {
                let mut voice = cx.member().await.unwrap();
                voice.call(async |http| http.ack(&rialto_client::AckSelection::Ids(vec![])).await).await.unwrap();
            }
            task.await.unwrap();
            assert_eq!(
                *asked.borrow(),
                [
                    "GET /v1/ws/a1b2c3d4/me as Bearer ADMIN", // nobody of that name is there to speak beside
                    "POST /v1/ws/a1b2c3d4/join as Bearer ADMIN",
                    "POST /v1/ws/a1b2c3d4/ack as Bearer S1",
                    "POST /v1/ws/a1b2c3d4/ack as Bearer S1", // the session was kept: no second join
                ]
            );
            assert!(dir.path().join("sessions/a1b2c3d4/human%3Aana.json").exists());
        })
        .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_revoked_session_is_replaced_once() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let dir = tempfile::tempdir().unwrap();
            // Somebody took the session over: from then on the operator speaks beside it.
            let answers = vec![(401, STRANGER), (200, JOINED), (401, REVOKED), (200, ME), (401, REVOKED)];
            let (url, asked, task) = node(answers).await;
            run_file(&url, std::process::id()).write(dir.path()).unwrap();
            let global = Global { data: Some(dir.path().into()), speak_as: Some("helper".into()), ..Global::default() };
            let mut cx = context(Env::default(), global);
            let mut voice = cx.reader().await.unwrap();
            assert!(voice.speaker.is_some(), "--as speaks as that name even when reading");
            let error = voice.call(async |http| http.heartbeat("agent:helper").await).await.unwrap_err();
            assert_eq!(error.exit, Exit::Denied);
            task.await.unwrap();
            assert_eq!(asked.borrow().len(), 5);
        })
        .await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_far_network_is_asked_for_its_id_and_joined_with_the_token() {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let dir = tempfile::tempdir().unwrap();
            let profile = r#"{"code":0,"message":"ok","data":{"id":"ffff0000","name":"lab"}}"#;
            let (url, asked, task) = node(vec![(200, profile), (401, STRANGER), (200, JOINED)]).await;
            let env = Env::from([("RIALTO_URL", url.as_str()), ("RIALTO_TOKEN", "T"), ("RIALTO_AGENT", "helper")]);
            let global = Global { data: Some(dir.path().into()), network: Some("lab".into()), ..Global::default() };
            let mut cx = context(env, global);
            cx.reader().await.unwrap();
            task.await.unwrap();
            let want = ["GET /v1/ws/lab/profile", "GET /v1/ws/lab/me", "POST /v1/ws/lab/join"];
            assert_eq!(*asked.borrow(), want.map(|call| format!("{call} as Bearer T")));
            assert!(dir.path().join("sessions/ffff0000/agent%3Ahelper.json").exists());
        })
        .await;
}
