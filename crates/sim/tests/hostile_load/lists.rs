//! One member makes as much as it may of something; then everybody asks for all of it.

use futures_util::future::join_all;
use rialto_model::limits::BATCH_EVENTS_MAX;
use rialto_sim::harness::{Network, Server, note};
use rialto_sim::load::{Attacker, Watch, times};
use serde_json::{Value, json};

/// Channels one member makes in a quick run; it may make a quarter of what the network holds.
const CHANNELS: usize = 10_000;
/// Mail that waits for one member.
const PENDING: usize = 40_000;

async fn post_all(server: &Server, network: &Network, session: &str, events: impl Iterator<Item = Value>) {
    let (mut http, path) = (server.http(), format!("/v1/ws/{}/events", network.id));
    let events: Vec<Value> = events.collect();
    for batch in events.chunks(BATCH_EVENTS_MAX / 4) {
        http.post(&path).bearer(session).json(&Value::Array(batch.to_vec())).await.data();
    }
}

/// Asks for each path several times at once, on connections of their own.
async fn ask_all(server: &Server, session: &str, paths: &[String]) {
    let asked = paths.iter().flat_map(|path| (0..times(4)).map(move |_| path)).map(|path| async move {
        let answer = server.http().get(path, session).await;
        assert!(answer.status == 200 || answer.status == 429, "{path}: {}", answer.status);
        assert!(answer.body.len() < 4 << 20, "{path}: {} bytes", answer.body.len());
    });
    join_all(asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_channels_stop_nobody() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:maker").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let make = |n: usize| json!({ "type": "network.channel.create", "target": "core", "payload": { "name": format!("room-{n}") } });
    post_all(&server, &network, &session, (0..CHANNELS).map(make)).await;
    let say = |n: usize| note(&format!("say-{n}"), &format!("channel/room-{n}"), "here");
    post_all(&server, &network, &session, (0..CHANNELS).map(say)).await;
    let base = format!("/v1/ws/{}", network.id);
    let paths = ["discover", "channels", "events/latest-per-channel", "events?view=log&sort=desc&limit=500"];
    let mut paths: Vec<String> = paths.iter().map(|path| format!("{base}/{path}")).collect();
    paths.push(format!("/v1/discover?network={}", network.id));
    paths.push(format!("/v1/workspaces/{}/channels", network.id));
    for _ in 0..3 {
        ask_all(&server, &session, &paths).await;
    }
    watch.held("lists of thousands of channels").await.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_with_much_in_it_stops_nobody() {
    let server = Server::start().await;
    let network = server.main();
    let hoarder = server.join(&network, "agent:hoarder").await;
    let session = server.join(&network, "agent:writer").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let mail = (0..PENDING).map(|n| note(&format!("m-{n}"), "agent:hoarder", "here"));
    post_all(&server, &network, &session, mail).await;
    let base = format!("/v1/ws/{}/events?view=inbox&ack=false&limit=500", network.id);
    let paths = [base.clone(), format!("{base}&sort=desc"), format!("{base}&type=app.none")];
    for _ in 0..10 {
        ask_all(&server, &hoarder, &paths).await;
    }
    watch.held("an inbox with much in it").await.await_release(&server).await;
}
