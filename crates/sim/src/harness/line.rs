//! The stream conversation over its three carriers, as one thing: events out, events in. Breaks when the node does.

use super::ws::{Frame, Ws};
use super::{Network, Server};
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
    pub async fn websocket(address: SocketAddr, network: &Network, join: &Value) -> Option<Line> {
        let mut ws = Ws::open(address, &format!("/ws/{}", network.id), &[]).await.ok()?;
        ws.try_text(&join.to_string()).await.ok()?;
        Some(Line::WebSocket(Box::new(ws)))
    }

    /// A gRPC call, opened with a join.
    pub async fn connect(address: SocketAddr, network: &Network, join: &Value) -> Option<Line> {
        let endpoint = tonic::transport::Endpoint::new(format!("http://{address}")).ok()?;
        let channel = endpoint.connect().await.ok()?;
        let (out, outgoing) = mpsc::unbounded_channel();
        out.send(pb::Event { network: network.id.clone().into(), ..protobuf(join) }).ok()?;
        let outgoing = stream::unfold(outgoing, |mut from| async { from.recv().await.map(|event| (event, from)) });
        let mut request = tonic::Request::new(outgoing);
        request.metadata_mut().insert("authorization", format!("Bearer {}", network.token).parse().ok()?);
        let answers = NetworkClient::new(channel).connect(request).await.ok()?.into_inner();
        Some(Line::Connect { out, answers: Box::new(answers) })
    }

    /// A `rialto stdio` with a directory of its own for its sessions.
    pub async fn stdio(address: SocketAddr, network: &Network, join: &Value, sessions: &Path) -> Option<Line> {
        let mut command = Server::client();
        command.args(["stdio", "--url", &format!("http://{address}"), "--network", &network.id]);
        command.env("RIALTO_TOKEN", &network.token).env("RIALTO_DATA", sessions);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().ok()?;
        let (input, output) = (child.stdin.take()?, child.stdout.take()?);
        let program = Program { _child: child, input, lines: BufReader::new(output).lines() };
        let mut line = Line::Stdio(Box::new(program));
        line.send(&json!([join])).await?;
        Some(line)
    }

    /// Sends an array of events; nothing comes back when the connection is broken.
    pub async fn send(&mut self, events: &Value) -> Option<()> {
        match self {
            Line::WebSocket(ws) => ws.try_text(&events.to_string()).await.ok(),
            Line::Connect { out, .. } => events.as_array()?.iter().try_for_each(|event| out.send(protobuf(event)).ok()),
            Line::Stdio(program) => {
                let lines: String = events.as_array()?.iter().map(|event| format!("{event}\n")).collect();
                program.input.write_all(lines.as_bytes()).await.ok()
            }
        }
    }

    /// The next event; nothing when the connection is broken.
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
