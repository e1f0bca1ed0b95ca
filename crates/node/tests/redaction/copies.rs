//! Every kind of copy goes, and what was said since stays.

use crate::scenes::{self, Scene};
use crate::world::{SECRET, agent, check, holding, indexed, open, send};
use rialto_node::{Caller, Network, Node, NodeConfig, Query, View};
use serde_json::json;
use std::sync::Arc;

/// An emit that had to wait is in the log as owed and as the event that it became: both go with the event.
#[tokio::test]
async fn an_emit_goes_from_where_it_was_owed() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::OwedEmit.play(&network).await;
    // Whoever takes the mod over is asked when the one before is gone.
    node.stop().await;
    drop((node, network));
    let (node, network) = open(dir.path()).await;
    let mut reads = network.mod_port("reads").await;
    let asked = reads.next().await.unwrap();
    let mut head = network.head();
    let before = *head.borrow();
    reads.said(&asked, r#"{"verdict":"pass"}"#).await;
    head.wait_for(|head| *head > before).await.unwrap();
    let query = Query { limit: Some(100), view: Some(View::Log), ..Query::default() };
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let events = network.session(&operator).query(&query).await.unwrap().events;
    let quoted = events.iter().find(|r| r.event.kind() == "test.quoted").unwrap().event.id().to_owned();
    // What it quotes goes first, and stays gone.
    for id in ["said", &quoted] {
        network.redact(id).await.unwrap();
        check(&node, &network).await;
    }
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}

/// Content goes at once, though whoever brought it could have named it once more for an hour.
#[tokio::test]
async fn content_goes_without_a_restart() {
    for scene in [Scene::AppendedFile, Scene::File, Scene::FileThatIsGone, Scene::Artifact] {
        let dir = tempfile::tempdir().unwrap();
        let (node, network) = open(dir.path()).await;
        scene.play(&network).await;
        network.redact("said").await.unwrap();
        let found = holding(dir.path());
        assert!(found.iter().all(|file| file.contains("search.db")), "{scene:?}: {found:?}");
        check(&node, &network).await;
        node.stop().await;
        assert_eq!(holding(dir.path()), [""; 0], "{scene:?}");
    }
}

/// Plays a scene, redacts, and looks through all files: while the node runs, when it has stopped, and after another start.
async fn goes_everywhere(scene: Scene) {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    scene.play(&network).await;
    indexed(&network, *network.head().borrow()).await;
    node.stop().await;
    drop((node, network));
    assert!(holding(dir.path()).iter().any(|file| file.ends_with(".snap")) || !is_in_book(scene), "{scene:?}");
    let (node, network) = open(dir.path()).await;
    network.redact("said").await.unwrap();
    let found = holding(dir.path());
    assert!(found.iter().all(|file| file.contains("search.db")), "{scene:?} while it runs: {found:?}");
    check(&node, &network).await;
    // Once more changes nothing.
    let hash = network.state_hash().await.unwrap();
    network.redact("said").await.unwrap();
    assert_eq!(network.state_hash().await.unwrap(), hash, "{scene:?}");
    node.stop().await;
    drop((node, network));
    assert_eq!(holding(dir.path()), [""; 0], "{scene:?}");
    let (node, network) = open(dir.path()).await;
    assert_eq!(network.state_hash().await.unwrap().1, hash.1, "{scene:?}");
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0], "{scene:?} after another start");
}

/// A network that was imported begins its log with its state, which has the copies too.
#[tokio::test]
async fn copies_go_from_the_state_that_an_import_brought() {
    for scene in scenes::ALL {
        let (from, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (node, network) = open(from.path()).await;
        scene.play(&network).await;
        network.state_hash().await.unwrap();
        let mut file = Vec::new();
        node.export_network(&network, &mut file).unwrap();
        node.stop().await;
        let config = NodeConfig { data: Some(dir.path().to_path_buf()), ..NodeConfig::default() };
        let node = Node::open(config.clone()).await.unwrap();
        let (feed, pieces) = tokio::sync::mpsc::channel(1);
        feed.send(bytes::Bytes::from(file)).await.unwrap();
        drop(feed);
        let network = node.import_network(pieces, None).await.unwrap().network;
        assert!(!holding(dir.path()).is_empty(), "{scene:?}: it is somewhere before");
        network.redact("said").await.unwrap();
        let hash = network.state_hash().await.unwrap().1;
        node.stop().await;
        drop((node, network));
        assert_eq!(holding(dir.path()), [""; 0], "{scene:?}");
        let node = Node::open(config).await.unwrap();
        assert_eq!(node.network("main").unwrap().state_hash().await.unwrap().1, hash, "{scene:?}");
        node.stop().await;
    }
}

/// Whether the state holds a copy after the scene.
fn is_in_book(scene: Scene) -> bool {
    !matches!(scene, Scene::ChangedTitle | Scene::AppendedFile | Scene::FileThatIsGone)
}

/// The tombstone of a release that knew nothing of copies, or of a node that was killed right behind it.
async fn goes_at_the_next_start(scene: Scene) {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    scene.play(&network).await;
    scenes::mark(&network).await;
    node.stop().await;
    drop((node, network));
    assert!(!holding(dir.path()).is_empty(), "{scene:?}: nothing was overwritten yet");
    let (node, network) = open(dir.path()).await;
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0], "{scene:?}");
}

macro_rules! scenes {
    ($($name:ident: $scene:ident,)*) => {$(
        #[tokio::test]
        async fn $name() {
            goes_everywhere(Scene::$scene).await;
            goes_at_the_next_start(Scene::$scene).await;
        }
    )*};
}

scenes! {
    the_automatic_title_of_a_session: AutomaticTitle,
    the_title_of_a_channel: ChannelTitle,
    the_title_of_a_new_session: SessionTitle,
    a_title_that_was_replaced: ChangedTitle,
    the_profile_of_who_joined: Joined,
    the_profile_of_who_announced_itself: Announced,
    what_a_tool_says_of_itself: Tool,
    the_content_of_a_file: File,
    content_that_was_appended_to: AppendedFile,
    a_file_that_is_gone: FileThatIsGone,
    the_message_of_an_invitation: Invitation,
    the_name_of_an_artifact: Artifact,
    why_work_failed: Failure,
    an_emit_that_waits: OwedEmit,
}

async fn title(network: &Network, name: &str) -> String {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let all = network.session(&operator).channels(None, 500).await.unwrap();
    all.channels.into_iter().find(|channel| channel.name.as_ref() == name).unwrap().title
}

#[tokio::test]
async fn a_newer_title_stays_and_a_session_without_one_gets_another() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::ChangedTitle.play(&network).await;
    network.redact("said").await.unwrap();
    assert_eq!(title(&network, "session-3").await, "a better one");
    node.stop().await;

    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::AutomaticTitle.play(&network).await;
    let answer = network.redact("said").await.unwrap();
    assert_eq!(answer.copies.len(), 1, "the event that told of the title: {answer:?}");
    assert_eq!(title(&network, "session-1").await, "session-1");
    let ana = agent(&network, "human:ana@example.org").await;
    let event = json!({ "type": "workspace.message.posted", "target": "channel/session-1", "payload": { "content": "Another matter" } });
    send(&network, &ana, event).await;
    assert_eq!(title(&network, "session-1").await, "Another matter");
    node.stop().await;
}

/// What somebody says after the redaction is not part of it, though it be the same.
#[tokio::test]
async fn the_same_words_said_again_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::Announced.play(&network).await;
    let bob = agent(&network, "agent:bob").await;
    let announce = |id: &str| json!({ "id": id, "type": "network.agent.announce", "target": "agent:broadcast", "payload": { "description": SECRET } });
    send(&network, &bob, announce("first")).await;
    network.redact("first").await.unwrap();
    send(&network, &bob, announce("second")).await;
    network.redact("said").await.unwrap();
    network.redact("first").await.unwrap();
    assert_eq!(network.session(&bob).me().await.unwrap().member.profile.description.as_deref(), Some(SECRET));
    check(&node, &network).await;
    network.redact("second").await.unwrap();
    assert_eq!(network.session(&bob).me().await.unwrap().member.profile.description, None);
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}

/// Content that another resource names too is not only this event's.
#[tokio::test]
async fn content_that_others_name_stays_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::AppendedFile.play(&network).await;
    let ben = agent(&network, "agent:ben").await;
    let payload = json!({ "address": "resource/file/other", "content": format!("first. {SECRET}. ") });
    send(
        &network,
        &ben,
        json!({ "id": "other", "type": "network.resource.register", "target": "core", "payload": payload }),
    )
    .await;
    network.redact("said").await.unwrap();
    let content = |address: &'static str, version: Option<u64>| {
        let (network, ben) = (network.clone(), ben.clone());
        async move { network.session(&ben).resource(address, version).await.unwrap().content.unwrap().size }
    };
    assert_eq!(content("resource/file/other", None).await, 7 + 16);
    assert_eq!(content("resource/file/log", Some(1)).await, 7, "the version before");
    assert_eq!(content("resource/file/log", Some(2)).await, 0);
    assert_eq!(content("resource/file/log", None).await, 0, "what was appended to it");
    check(&node, &network).await;
    network.redact("other").await.unwrap();
    assert_eq!(content("resource/file/other", None).await, 0);
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}

/// The version that the event brought is too old to be read; newer ones still begin with it.
#[tokio::test]
async fn content_that_is_no_longer_kept_by_itself_goes_from_what_was_appended_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    Scene::AppendedFile.play(&network).await;
    let ana = agent(&network, "agent:ana").await;
    for n in 0..10 {
        let payload = json!({ "content": format!("line {n}. "), "append": true });
        send(
            &network,
            &ana,
            json!({ "type": "network.resource.update", "target": "resource/file/log", "payload": payload }),
        )
        .await;
    }
    node.stop().await;
    drop((node, network));
    let (node, network) = open(dir.path()).await;
    node.blobs().clean_up().await.unwrap();
    network.redact("said").await.unwrap();
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}
