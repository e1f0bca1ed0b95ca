//! The stream conversation over its three carriers, as one thing: frames out, frames in.

use super::event::{Draft, Got};
use crate::support::sse::Sse;
use futures_util::{SinkExt, StreamExt};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// What a carrier brings: an event, or why there are no more.
pub type Incoming = mpsc::UnboundedReceiver<Result<Got, String>>;

/// An open conversation. Dropped, the connection is gone.
pub struct Line {
    out: mpsc::UnboundedSender<Draft>,
    pub incoming: Incoming,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Line {
    pub fn send(&self, draft: &Draft) -> Result<(), String> {
        self.out.send(draft.clone()).map_err(|_| "the connection is gone".to_owned())
    }

    fn of<F: Future<Output = Result<(), String>> + Send + 'static>(
        run: impl FnOnce(mpsc::UnboundedReceiver<Draft>, mpsc::UnboundedSender<Result<Got, String>>) -> F,
    ) -> Line {
        let (out, outgoing) = mpsc::unbounded_channel();
        let (tell, incoming) = mpsc::unbounded_channel();
        let work = run(outgoing, tell.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = work.await {
                tell.send(Err(error)).ok();
            }
        });
        Line { out, incoming, task }
    }

    /// `GET /ws/{network}`.
    pub async fn websocket(url: &str, network: &str, token: &str) -> Result<Line, String> {
        let url = format!("{}/ws/{network}?token={token}", url.replacen("http", "ws", 1));
        let (socket, _) = tokio_tungstenite::connect_async(url).await.map_err(|e| e.to_string())?;
        let (mut sink, mut stream) = socket.split();
        Ok(Line::of(|mut outgoing, tell| async move {
            loop {
                tokio::select! {
                    draft = outgoing.recv() => match draft {
                        Some(draft) => sink.send(Message::text(draft.json())).await.map_err(|e| e.to_string())?,
                        None => return Ok(()),
                    },
                    message = stream.next() => match message.ok_or("closed")?.map_err(|e| e.to_string())? {
                        Message::Text(text) => { tell.send(Got::of_json(&text)).ok(); }
                        Message::Close(frame) => return Err(format!("closed: {frame:?}")),
                        _ => {}
                    },
                }
            }
        }))
    }

    /// gRPC `Connect`. The join goes first: the call opens with it.
    pub async fn connect(url: &str, token: &str, join: Draft) -> Result<Line, String> {
        let channel = tonic::transport::Endpoint::new(url.to_owned()).map_err(|e| e.to_string())?;
        let channel = channel.connect().await.map_err(|e| e.to_string())?;
        let (out, outgoing) = mpsc::unbounded_channel::<pb::Event>();
        out.send(join.protobuf()).map_err(|e| e.to_string())?;
        let stream = futures_util::stream::unfold(outgoing, |mut outgoing| async {
            outgoing.recv().await.map(|event| (event, outgoing))
        });
        let mut request = tonic::Request::new(stream);
        let bearer = format!("Bearer {token}").parse().map_err(|_| "a bad token")?;
        request.metadata_mut().insert("authorization", bearer);
        let answer = NetworkClient::new(channel).connect(request).await.map_err(|s| format!("{s:?}"))?;
        let mut answers = answer.into_inner();
        Ok(Line::of(|mut drafts, tell| async move {
            loop {
                tokio::select! {
                    draft = drafts.recv() => match draft {
                        Some(draft) => out.send(draft.protobuf()).map_err(|e| e.to_string())?,
                        None => return Ok(()),
                    },
                    event = answers.message() => {
                        let event = event.map_err(|s| format!("{s:?}"))?.ok_or("closed")?;
                        tell.send(Got::of_protobuf(event)).ok();
                    }
                }
            }
        }))
    }

    /// `rialto stdio`, a program of its own.
    pub fn stdio(mut command: std::process::Command) -> Result<Line, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().map_err(|e| e.to_string())?;
        let mut input = child.stdin.take().ok_or("no standard input")?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        Ok(Line::of(|mut outgoing, tell| async move {
            let _child = child;
            loop {
                tokio::select! {
                    draft = outgoing.recv() => match draft {
                        Some(draft) => input.write_all(format!("{}\n", draft.json()).as_bytes()).await.map_err(|e| e.to_string())?,
                        None => return Ok(()),
                    },
                    line = lines.next_line() => {
                        let line = line.map_err(|e| e.to_string())?.ok_or("closed")?;
                        tell.send(Got::of_json(&line)).ok();
                    }
                }
            }
        }))
    }

    /// An open SSE stream; nothing can be sent.
    pub fn sse(mut sse: Sse) -> Line {
        Line::of(|_, tell| async move {
            loop {
                let block = sse.next().await?;
                tell.send(Got::of_json(&block.data)).ok();
            }
        })
    }
}
