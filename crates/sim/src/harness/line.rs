//! The stream conversation over its three carriers, as one thing: events out, events in. Breaks when the node does.

use super::Network;
use super::server::clean;
use super::ws::{Frame, Ws};
use crate::contract::{Draft, Got};
use futures_util::stream;
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;

/// An open conversation.
#[derive(Debug)]
pub enum Line {
    /// `GET /ws/{network}`.
    WebSocket(Box<Ws>),
    /// gRPC `Connect`.
    Connect {
        /// To the node.
        out: mpsc::UnboundedSender<pb::Event>,
        /// From the node.
        answers: Box<tonic::Streaming<pb::Event>>,
    },
    /// `rialto stdio`, a program of its own; killed with this value.
    Stdio(Box<Program>),
}

/// A running `rialto stdio`.
#[derive(Debug)]
pub struct Program {
    /// Held, because it ends with this value.
    _child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Line {
    /// A WebSocket, opened with a join.
    pub async fn websocket(address: SocketAddr, network: &Network, join: &Value) -> Result<Line, String> {
        let opened = Ws::open(address, &format!("/ws/{}", network.id), &[]).await;
        let mut ws = opened.map_err(|(status, body)| format!("the upgrade was answered {status}: {body}"))?;
        ws.try_text(&join.to_string()).await.map_err(|e| e.to_string())?;
        Ok(Line::WebSocket(Box::new(ws)))
    }

    /// A gRPC call, opened with a join.
    pub async fn connect(address: SocketAddr, network: &Network, join: &Value) -> Result<Line, String> {
        let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).map_err(|e| e.to_string())?;
        let channel = endpoint.connect().await.map_err(|e| e.to_string())?;
        let (out, outgoing) = mpsc::unbounded_channel();
        out.send(pb::Event { network: network.id.clone().into(), ..protobuf(join) }).map_err(|e| e.to_string())?;
        let outgoing = stream::unfold(outgoing, |mut from| async { from.recv().await.map(|event| (event, from)) });
        let mut request = tonic::Request::new(outgoing);
        let bearer = format!("Bearer {}", network.token).parse().map_err(|_| "the token does not fit into a header")?;
        request.metadata_mut().insert("authorization", bearer);
        let answers = NetworkClient::new(channel).connect(request).await.map_err(|status| format!("{status:?}"))?;
        Ok(Line::Connect { out, answers: Box::new(answers.into_inner()) })
    }

    /// A `rialto stdio` with a directory of its own for its sessions.
    pub async fn stdio(
        program: &Path,
        address: SocketAddr,
        network: &Network,
        join: &Value,
        sessions: &Path,
    ) -> Result<Line, String> {
        let mut command = clean(program);
        command.args(["stdio", "--url", &format!("http://{address}"), "--network", &network.id]);
        command.env("RIALTO_TOKEN", &network.token).env("RIALTO_DATA", sessions);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawned = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|e| format!("{}: {e}", program.display()))?;
        let input = child.stdin.take().ok_or("the program has no standard input")?;
        let output = child.stdout.take().ok_or("the program has no standard output")?;
        let program = Program { _child: child, input, lines: BufReader::new(output).lines() };
        let mut line = Line::Stdio(Box::new(program));
        line.send(&json!([join])).await?;
        Ok(line)
    }

    /// Sends an array of events; fails when the connection is broken.
    pub async fn send(&mut self, events: &Value) -> Result<(), String> {
        let array = events.as_array().ok_or("an array of events is sent")?;
        match self {
            Line::WebSocket(ws) => ws.try_text(&events.to_string()).await.map_err(|e| e.to_string()),
            Line::Connect { out, .. } => {
                array.iter().try_for_each(|event| out.send(protobuf(event)).map_err(|e| e.to_string()))
            }
            Line::Stdio(program) => {
                program.write(&array.iter().map(|event| format!("{event}\n")).collect::<String>()).await
            }
        }
    }

    /// Sends one event, its payload byte for byte; fails when the connection is broken.
    pub async fn send_draft(&mut self, draft: &Draft) -> Result<(), String> {
        match self {
            Line::WebSocket(ws) => ws.try_text(&draft.json()).await.map_err(|e| e.to_string()),
            Line::Connect { out, .. } => out.send(draft.protobuf()).map_err(|e| e.to_string()),
            Line::Stdio(program) => program.write(&format!("{}\n", draft.json())).await,
        }
    }

    /// The next event as a value; nothing when the connection is broken.
    pub async fn next(&mut self) -> Option<Value> {
        match self {
            Line::WebSocket(ws) => match ws.try_next().await {
                Frame::Event(event) => Some(event),
                Frame::Closed(..) | Frame::Gone => None,
            },
            Line::Connect { answers, .. } => answers.message().await.ok()?.map(value),
            Line::Stdio(program) => {
                let line = program.lines.next_line().await.ok()??;
                Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("stdio says {line}: {e}")))
            }
        }
    }

    /// The next event, its payload byte for byte; fails when the connection is broken. Nothing is lost when this is dropped.
    pub async fn next_got(&mut self) -> Result<Got, String> {
        match self {
            Line::WebSocket(ws) => Got::of_json(&ws.next_text().await?),
            Line::Connect { answers, .. } => {
                let event = answers.message().await.map_err(|status| format!("{status:?}"))?;
                Got::of_protobuf(event.ok_or("the stream has ended")?)
            }
            Line::Stdio(program) => {
                let line = program.lines.next_line().await.map_err(|e| e.to_string())?;
                Got::of_json(&line.ok_or("the program has ended")?)
            }
        }
    }
}

impl Program {
    async fn write(&mut self, text: &str) -> Result<(), String> {
        self.input.write_all(text.as_bytes()).await.map_err(|e| e.to_string())
    }
}

fn protobuf(event: &Value) -> pb::Event {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let json = |name: &str| if event[name].is_null() { Vec::new() } else { event[name].to_string().into_bytes() };
    pb::Event {
        id: text("id").into(),
        r#type: text("type").into(),
        source: text("source").into(),
        target: text("target").into(),
        payload: json("payload").into(),
        metadata: json("metadata").into(),
        ..pb::Event::default()
    }
}

fn value(event: pb::Event) -> Value {
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().to_owned();
    json!({
        "id": text(&event.id), "type": text(&event.r#type), "source": text(&event.source),
        "target": text(&event.target),
        "payload": json(&event.payload), "metadata": json(&event.metadata),
    })
}
