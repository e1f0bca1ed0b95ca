//! What people say, and what is copied from it. The event `said` holds the secret.

use crate::world::{SECRET, agent, join, send};
use rialto_model::{hex, limits};
use rialto_node::mods::{ModConfig, Mode};
use rialto_node::{AdminOp, Network};
use serde_json::json;

/// The ways in which text is copied out of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scene {
    AutomaticTitle,
    ChannelTitle,
    SessionTitle,
    ChangedTitle,
    Joined,
    Announced,
    Tool,
    File,
    AppendedFile,
    FileThatIsGone,
    Invitation,
    Artifact,
    Failure,
    OwedEmit,
}

pub(crate) const ALL: [Scene; 14] = [
    Scene::AutomaticTitle,
    Scene::ChannelTitle,
    Scene::SessionTitle,
    Scene::ChangedTitle,
    Scene::Joined,
    Scene::Announced,
    Scene::Tool,
    Scene::File,
    Scene::AppendedFile,
    Scene::FileThatIsGone,
    Scene::Invitation,
    Scene::Artifact,
    Scene::Failure,
    Scene::OwedEmit,
];

impl Scene {
    pub(crate) async fn play(self, network: &Network) {
        match self {
            Scene::AutomaticTitle => automatic_title(network).await,
            Scene::ChannelTitle => channel_title(network).await,
            Scene::SessionTitle => session_title(network).await,
            Scene::ChangedTitle => changed_title(network).await,
            Scene::Joined => joined(network).await,
            Scene::Announced => announced(network).await,
            Scene::Tool => tool(network).await,
            Scene::File => file(network).await,
            Scene::AppendedFile => appended_file(network).await,
            Scene::FileThatIsGone => file_that_is_gone(network).await,
            Scene::Invitation => invitation(network).await,
            Scene::Artifact => artifact(network).await,
            Scene::Failure => failure(network).await,
            Scene::OwedEmit => owed_emit(network).await,
        }
        // More happens afterwards.
        let zoe = agent(network, "agent:zoe").await;
        for n in 0..3 {
            let payload = json!({ "content": format!("something else {n}") });
            send(network, &zoe, json!({ "type": "app.note", "target": "channel/general", "payload": payload })).await;
        }
    }
}

async fn automatic_title(network: &Network) {
    let ana = agent(network, "human:ana@example.org").await;
    send(
        network,
        &ana,
        json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "session-1" } }),
    )
    .await;
    let content = format!("\n  Please look at {SECRET}\nand tell me");
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "workspace.message.posted", "target": "channel/session-1", "payload": { "content": content } }),
    )
    .await;
}

async fn channel_title(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "name": "plans", "title": format!("Plans for {SECRET}"), "resume_from": SECRET });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "network.channel.create", "target": "core", "payload": payload }),
    )
    .await;
}

async fn session_title(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "title": SECRET, "note": SECRET });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "workspace.session.created", "target": "channel/session-2", "payload": payload }),
    )
    .await;
}

async fn changed_title(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    send(
        network,
        &ana,
        json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "session-3" } }),
    )
    .await;
    let payload = json!({ "changes": { "title": SECRET } });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "workspace.session.updated", "target": "channel/session-3", "payload": payload }),
    )
    .await;
    let payload = json!({ "changes": { "title": "a better one" } });
    send(
        network,
        &ana,
        json!({ "type": "workspace.session.updated", "target": "channel/session-3", "payload": payload }),
    )
    .await;
}

async fn joined(network: &Network) {
    let payload = json!({
        "agent_type": SECRET, "description": format!("I am \"{SECRET}\" 你好"), "capabilities": ["x", SECRET],
        "server_host": SECRET, "working_dir": format!("/{SECRET}"),
    });
    join(network, "agent:ana", "said", payload).await;
    // Each record of a member repeats its profile.
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "capabilities": ["y"] });
    send(network, &ana, json!({ "type": "network.agent.announce", "target": "agent:broadcast", "payload": payload }))
        .await;
    agent(network, "agent:ana").await;
}

async fn announced(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "description": SECRET, "capabilities": [SECRET] });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "network.agent.announce", "target": "agent:broadcast", "payload": payload }),
    )
    .await;
    let ana = agent(network, "agent:ana").await;
    send(network, &ana, json!({ "type": "network.agent.leave", "target": "core", "payload": { "forget": true } }))
        .await;
}

async fn tool(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({
        "address": "resource/tool/look", "description": SECRET, "metadata": { "note": [SECRET, 1.5], SECRET: true },
        "schema": { "input": { "type": "object", "properties": { "q": { "description": SECRET, "type": "string" } } } },
    });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "network.resource.register", "target": "core", "payload": payload }),
    )
    .await;
    let payload = json!({ "description": "finds things" });
    send(
        network,
        &ana,
        json!({ "type": "network.resource.update", "target": "resource/tool/look", "payload": payload }),
    )
    .await;
}

async fn file(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({
        "address": "resource/file/uploads/0badcafe/notes.txt", "content": format!("The word is {SECRET}."),
        "content_type": format!("text/{SECRET}"), "metadata": { "channel_name": "general", "by": SECRET },
    });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "network.resource.register", "target": "core", "payload": payload }),
    )
    .await;
    let payload = json!({ "content": "Nothing to see." });
    send(
        network,
        &ana,
        json!({ "type": "network.resource.update", "target": "resource/file/uploads/0badcafe/notes.txt", "payload": payload }),
    )
    .await;
}

/// Somebody else appends to what was appended.
async fn appended_file(network: &Network) {
    let (ana, ben) = (agent(network, "agent:ana").await, agent(network, "agent:ben").await);
    let file = json!({ "address": "resource/file/log", "content": "first. ", "permissions": { "write": "network" } });
    let update = |id: &str, content: &str| json!({ "id": id, "type": "network.resource.update", "target": "resource/file/log", "payload": { "content": content, "append": true } });
    send(network, &ana, json!({ "type": "network.resource.register", "target": "core", "payload": file })).await;
    send(network, &ana, update("said", &format!("{SECRET}. "))).await;
    send(network, &ben, update("later", "last. ")).await;
}

async fn file_that_is_gone(network: &Network) {
    file(network).await;
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "address": "resource/file/uploads/0badcafe/notes.txt" });
    send(network, &ana, json!({ "type": "network.resource.unregister", "target": "core", "payload": payload })).await;
}

async fn invitation(network: &Network) {
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "message": format!("Come for the {SECRET}"), "max_uses": 3 });
    send(
        network,
        &ana,
        json!({ "id": "said", "type": "workspace.invitation.created", "target": "agent:guest", "payload": payload }),
    )
    .await;
}

async fn ask(network: &Network) -> (std::sync::Arc<rialto_node::Caller>, String) {
    let (ana, ben) = (agent(network, "agent:ana").await, agent(network, "agent:ben").await);
    let ask = json!({ "type": "test.ask", "target": "agent:ben", "payload": {}, "metadata": { "work": {} } });
    let unit = send(network, &ana, ask).await["work"]["id"].as_str().unwrap().to_owned();
    (ben, unit)
}

async fn artifact(network: &Network) {
    let (ben, unit) = ask(network).await;
    let mut upload = network.session(&ben).stage(None).await.unwrap();
    upload.write(format!("the {SECRET} itself").as_bytes()).await.unwrap();
    let hash = hex::text(&upload.finish().await.unwrap().hash);
    let artifact =
        json!({ "id": "a", "name": SECRET, "blob": { "sha256": hash, "content_type": format!("text/{SECRET}") } });
    let payload = json!({ "work": unit, "artifact": artifact, "last": false });
    send(network, &ben, json!({ "id": "said", "type": "work.artifact", "target": "core", "payload": payload })).await;
    let payload = json!({ "work": unit, "artifact": { "id": "a", "parts": [{ "text": "more" }] }, "append": true });
    send(network, &ben, json!({ "type": "work.artifact", "target": "core", "payload": payload })).await;
}

async fn failure(network: &Network) {
    let (ben, unit) = ask(network).await;
    let error = json!({ "code": SECRET, "message": SECRET });
    let payload = json!({ "work": unit, "state": "failed", "error": error });
    send(network, &ben, json!({ "id": "said", "type": "work.update", "target": "core", "payload": payload })).await;
}

/// One guard quotes what was said to another one, which has not answered yet.
async fn owed_emit(network: &Network) {
    for (name, judges) in [("quotes", "test.said"), ("reads", "test.quoted")] {
        let intercepts = vec![judges.to_owned()];
        let deadline_ms = Some(limits::MOD_DEADLINE_MS_MAX);
        let config = ModConfig { intercepts, deadline_ms, ..ModConfig::process(name, Mode::Guard) };
        network.admin(AdminOp::SetMod(config)).await.unwrap();
        let mut port = network.mod_port(name).await;
        tokio::spawn(async move {
            while let Some(asked) = port.next().await {
                let quote = json!({ "type": "test.quoted", "target": "core", "payload": { "quote": SECRET } });
                if name == "quotes" {
                    port.said(&asked, &json!({ "verdict": "pass", "emit": [quote] }).to_string()).await;
                }
            }
        });
    }
    let ana = agent(network, "agent:ana").await;
    let payload = json!({ "content": SECRET });
    send(network, &ana, json!({ "id": "said", "type": "test.said", "target": "core", "payload": payload })).await;
}

/// Only the tombstone, as a node that was killed right behind it leaves it.
pub(crate) async fn mark(network: &Network) {
    let seq = network.find("said").await.unwrap().unwrap().event.seq;
    network.admin(AdminOp::Redact(seq, None)).await.unwrap();
}
