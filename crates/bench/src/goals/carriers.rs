//! Goals 6 to 8: what the carriers cost beside the core, a bare HTTP server and each other.

use super::{Goal, end_to_end, per_cpu, publish};
use crate::budget::{Budget, Length, Sample};
use crate::child::Child;
use crate::drive::Socket;
use crate::error::BenchError;
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::{Network, Rialto, event, grpc, http};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const CORE: Goal = Goal {
    number: 6,
    name: "WebSocket end to end vs the core without a carrier",
    unit: "events/cpu-s",
    bar: Bar::at_least(0.6, 0.85),
    larger: &[],
};
const HTTP: Goal = Goal {
    number: 7,
    name: "HTTP single-event POST, durable, 64 connections, vs bare axum echo",
    unit: "requests/cpu-s",
    bar: Bar::at_least(0.6, 0.8),
    larger: &[],
};
const GRPC: Goal = Goal {
    number: 8,
    name: "gRPC stream ingest, durable, vs durable WebSocket publish",
    unit: "events/cpu-s",
    bar: Bar::at_least(0.75, 1.0),
    larger: &[],
};
const CONNECTIONS: usize = 64;
const SIZE: usize = 256;

/// Goal 6.
pub(crate) async fn core(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (passes, length) = (lab.options.passes(), lab.options.length());
    let network = lab.network().await?;
    let folder = lab.folder("core");
    let mut child = Child::core(&lab.options.program, &folder)?;
    let mut pairs = Vec::new();
    for pass in 1..=passes {
        lab.step(format!("goal 6: the core without a carrier, pass {pass}"));
        let peer = rounds(&mut child, length).await?;
        lab.step(format!("goal 6: WebSocket end to end, pass {pass}"));
        let name = lab.name("w");
        pairs.push((end_to_end::rialto(lab.rialto().await?, &network, &name, SIZE, length).await?, peer));
    }
    Ok(vec![CORE.compared(&per_cpu(&pairs)).sized(SIZE)])
}

/// Events through the core without a carrier.
pub(crate) async fn rounds(child: &mut Child, length: Length) -> Result<Sample, BenchError> {
    let mut budget = Budget::begin(child.pid(), length)?;
    let mut done = 0;
    while done == 0 || !budget.spent()? {
        done += child.round(SIZE).await?;
    }
    budget.end(done)
}

/// Goal 7.
pub(crate) async fn http(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (passes, length) = (lab.options.passes(), lab.options.length());
    let network = lab.network().await?;
    let folder = lab.folder("echo");
    let mut child = Child::echo(&lab.options.program, &folder)?;
    let echo = child.address().await?;
    let mut pairs = Vec::new();
    for pass in 1..=passes {
        lab.step(format!("goal 7: bare axum echo, pass {pass}"));
        let text = event(SIZE, "agent:poster", "channel/general")?;
        let request = http::request(echo, "POST", "/", None, Some(text.as_bytes()));
        let peer = posts(echo, child.pid(), request, length).await?;
        lab.step(format!("goal 7: HTTP posts, pass {pass}"));
        pairs.push((events_posted(lab.rialto().await?, &network, length).await?, peer));
    }
    Ok(vec![HTTP.compared(&per_cpu(&pairs)).sized(SIZE)])
}

/// Events posted one by one on many connections.
pub(crate) async fn events_posted(node: &Rialto, network: &Network, length: Length) -> Result<Sample, BenchError> {
    let session = join(node, network, "agent:poster").await?;
    let (path, text) = (format!("/v1/ws/{}/events", network.id), event(SIZE, "agent:poster", "channel/general")?);
    let request = http::request(node.address, "POST", &path, Some(&session), Some(text.as_bytes()));
    posts(node.address, node.pid(), request, length).await
}

/// Joins by HTTP; gives the session.
pub(crate) async fn join(node: &Rialto, network: &Network, address: &str) -> Result<String, BenchError> {
    let body = json!({ "agent_id": address, "credentials": { "token": network.token } }).to_string();
    let path = format!("/v1/ws/{}/join", network.id);
    let answer = http::call(node.address, "POST", &path, None, Some(body.as_bytes())).await?.json()?;
    let session = answer.get("data").and_then(|d| d.get("session_id")).and_then(Value::as_str);
    session.map(str::to_owned).ok_or_else(|| BenchError::answer(format!("no session: {answer}")))
}

/// The same request over and over on many connections.
async fn posts(address: SocketAddr, pid: u32, request: Vec<u8>, length: Length) -> Result<Sample, BenchError> {
    let (request, count, stop) = (Arc::new(request), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut budget = Budget::begin(pid, length)?;
    let mut all = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (request, count, stop) = (request.clone(), count.clone(), stop.clone());
        all.spawn(async move {
            let mut socket = Socket::connect(address).await?;
            loop {
                socket.write(&request).await?;
                let answer = http::answer(&mut socket).await?;
                if answer.status != 200 {
                    answer.json()?;
                }
                count.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    return Ok::<(), BenchError>(());
                }
            }
        });
    }
    while !budget.spent()? {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
            Some(ended) = all.join_next() => ended.map_err(|e| BenchError::answer(e.to_string()))??,
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = all.join_next().await {
        ended.map_err(|e| BenchError::answer(e.to_string()))??;
    }
    budget.end(count.load(Ordering::Relaxed))
}

/// Goal 8.
pub(crate) async fn grpc(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (passes, length) = (lab.options.passes(), lab.options.length());
    let network = lab.network().await?;
    let mut pairs = Vec::new();
    for pass in 1..=passes {
        lab.step(format!("goal 8: WebSocket publish, pass {pass}"));
        let name = lab.name("w");
        let node = lab.rialto().await?;
        let peer = publish::rialto(node, &network, &name, "channel/general", SIZE, true, length).await?;
        lab.step(format!("goal 8: gRPC ingest, pass {pass}"));
        let name = lab.name("g");
        let node = lab.rialto().await?;
        pairs.push((grpc::ingest(node, &network, &name, SIZE, length).await?, peer));
    }
    Ok(vec![GRPC.compared(&per_cpu(&pairs)).sized(SIZE)])
}
