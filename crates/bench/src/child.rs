//! What is measured beside a node in a process of its own: the core without a carrier, and a bare HTTP server.
//!
//! The parent starts the same executable in one of the [`Role`]s; a child ends when its standard input does.

use crate::error::{BenchError, Doing};
use crate::goals::WINDOW;
use crate::process::Process;
use crate::rialto::event;
use bytes::Bytes;
use rialto_model::network::Preset;
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Inbox, Network, Node, NodeConfig, Out, Outbox, Texts, outbox};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use tokio::io::AsyncBufReadExt;

/// Events in one round of the core.
const ROUND: u64 = 16_384;
/// Events handed over at once, as a carrier does.
const AT_ONCE: usize = 256;

/// What a child process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A node with a sender and a receiver in one process, no socket between them.
    Core,
    /// A bare axum server that sends back what it gets.
    Echo,
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        match text {
            "core" => Ok(Role::Core),
            "echo" => Ok(Role::Echo),
            _ => Err(format!("{text:?} is neither `core` nor `echo`")),
        }
    }
}

/// The parent's side of a child.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    said: Option<BufReader<std::process::ChildStdout>>,
}

impl Child {
    pub(crate) fn core(program: &Path, folder: &Path) -> Result<Child, BenchError> {
        Child::start(program, folder, "core")
    }

    pub(crate) fn echo(program: &Path, folder: &Path) -> Result<Child, BenchError> {
        Child::start(program, folder, "echo")
    }

    fn start(program: &Path, folder: &Path, role: &str) -> Result<Child, BenchError> {
        std::fs::create_dir_all(folder).doing(format!("make {}", folder.display()))?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", folder);
        command.args(["bench", "--role", role, "--folder"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start("rialto bench", &mut command, folder.with_extension("log"))?;
        let said = process.child().stdout.take().map(BufReader::new);
        Ok(Child { process, said })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The next line it says.
    async fn line(&mut self) -> Result<String, BenchError> {
        let Some(mut said) = self.said.take() else { return Err(BenchError::answer("a child says nothing")) };
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            let read = said.read_line(&mut line);
            (said, read.map(|_| line))
        });
        let (said, line) = read.await.map_err(|e| BenchError::answer(e.to_string()))?;
        self.said = Some(said);
        let line = line.doing("read from a child")?;
        if line.is_empty() {
            self.process.check()?;
            return Err(BenchError::answer("a child ended"));
        }
        Ok(line.trim().to_owned())
    }

    /// Where it listens.
    pub(crate) async fn address(&mut self) -> Result<SocketAddr, BenchError> {
        let line = self.line().await?;
        line.parse().map_err(|_| BenchError::answer(format!("a child said {line:?}")))
    }

    /// One round of the core; gives how many events went through.
    pub(crate) async fn round(&mut self, size: usize) -> Result<u64, BenchError> {
        if let Some(input) = &mut self.process.child().stdin {
            writeln!(input, "{size}").and_then(|()| input.flush()).doing("write to a child")?;
        }
        let line = self.line().await?;
        line.parse().map_err(|_| BenchError::answer(format!("a child said {line:?}")))
    }
}

/// The child's side: serves until standard input ends.
pub async fn serve(role: Role, folder: &Path) -> Result<(), BenchError> {
    match role {
        Role::Core => core(folder).await,
        Role::Echo => echo().await,
    }
}

fn say(line: impl std::fmt::Display) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).doing("write to the parent")
}

async fn echo() -> Result<(), BenchError> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.doing("listen on loopback")?;
    say(listener.local_addr().doing("listen on loopback")?)?;
    let answer = |body: Bytes| async move { ([("content-type", "application/json")], body) };
    let router = axum::Router::new().route("/", axum::routing::post(answer));
    let mut input = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    tokio::select! {
        served = axum::serve(axum::serve::ListenerExt::tap_io(listener, |tcp| { tcp.set_nodelay(true).ok(); }), router) => served.doing("serve"),
        _ = input.next_line() => Ok(()),
    }
}

/// One end of a conversation with the network's task, without a carrier.
struct End {
    network: Network,
    caller: Arc<Caller>,
    connection: u64,
    outbox: Outbox,
    inbox: Inbox,
}

impl End {
    async fn join(network: &Network, token: &str, name: &str, wishes: &str) -> Result<End, BenchError> {
        let (outbox, inbox) = outbox(rialto_model::limits::OUTBOX_FRAMES_MAX);
        let caller = Arc::new(Caller { bearer: Some(sha256(token)), ..Caller::default() });
        let mut end = End { network: network.clone(), caller, connection: network.connection(), outbox, inbox };
        let join = format!(
            r#"{{"type":"network.agent.join","source":"agent:{name}","target":"core","payload":{{{wishes}}}}}"#
        );
        end.send(Texts::one(join.into())).await?;
        while end.receive().await?.answered == 0 {}
        Ok(end)
    }

    async fn send(&self, texts: Texts) -> Result<(), BenchError> {
        let sent = self.network.session(&self.caller).emit_stream(self.connection, texts, &self.outbox).await;
        sent.map_err(|fault| BenchError::answer(fault.to_string()))
    }

    /// What came together.
    async fn receive(&mut self) -> Result<Came, BenchError> {
        let outs = self.inbox.recv().await.ok_or_else(|| BenchError::answer("the network is gone"))?;
        let mut came = Came::default();
        for out in outs {
            match out {
                Out::Answers(answers) => {
                    for answered in answers {
                        answered.result.map_err(|fault| BenchError::answer(fault.to_string()))?;
                        came.answered += u64::from(!answered.silent);
                    }
                }
                Out::Delivery(part) => {
                    came.delivered += part.len() as u64;
                    came.last = part.records().last().map(|r| r.event.id().to_owned()).or(came.last);
                }
                Out::Stored(attempts) => {
                    let mut seqs: Vec<u64> = attempts.iter().map(|a| a.seq).collect();
                    seqs.sort_unstable();
                    let records = self.network.read(seqs).await.map_err(|f| BenchError::answer(f.to_string()))?;
                    came.delivered += records.len() as u64;
                    came.last = records.last().map(|r| r.event.id().to_owned()).or(came.last);
                }
                Out::Signal(_) => {}
                Out::Close(code) => return Err(BenchError::answer(format!("the stream ended: {}", code.as_str()))),
            }
        }
        Ok(came)
    }
}

#[derive(Debug, Default)]
struct Came {
    answered: u64,
    delivered: u64,
    last: Option<String>,
}

async fn core(folder: &Path) -> Result<(), BenchError> {
    let config = NodeConfig { data: Some(folder.join("data")), ..NodeConfig::default() };
    let node = Node::open(config).await.map_err(|e| BenchError::answer(e.to_string()))?;
    let made = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await;
    let (network, token) = made.map_err(|fault| BenchError::answer(fault.to_string()))?;
    let token = token.ok_or_else(|| BenchError::answer("no token was made"))?;
    let mut receiver = End::join(&network, token.expose(), "to", r#""window":4096"#).await?;
    let mut sender = End::join(&network, token.expose(), "by", r#""acks":"batch""#).await?;
    let mut input = tokio::io::BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = input.next_line().await {
        let size = line.trim().parse().map_err(|_| BenchError::answer(format!("no size: {line:?}")))?;
        let texts = burst(&event(size, "agent:by", "agent:to")?);
        let (receive, send) = (drain(&mut receiver, ROUND), push(&mut sender, &texts, ROUND));
        let (received, sent) = tokio::join!(receive, send);
        received.and(sent)?;
        say(ROUND)?;
    }
    node.stop().await;
    Ok(())
}

/// So many of one event as a carrier hands over at once: in the block they were read into.
fn burst(event: &str) -> Texts {
    let mut texts = Texts::of(Bytes::from(event.repeat(AT_ONCE)));
    for n in 0..AT_ONCE {
        texts.mark(n * event.len()..(n + 1) * event.len());
    }
    texts
}

/// Sends bursts with a window.
async fn push(end: &mut End, burst: &Texts, all: u64) -> Result<(), BenchError> {
    let (mut sent, mut answered) = (0, 0);
    while answered < all {
        while sent < all && sent + AT_ONCE as u64 <= answered + WINDOW {
            end.send(burst.clone()).await?;
            sent += AT_ONCE as u64;
        }
        answered += end.receive().await?.answered;
    }
    Ok(())
}

/// Receives and acks.
async fn drain(end: &mut End, all: u64) -> Result<(), BenchError> {
    let mut received = 0;
    while received < all {
        let came = end.receive().await?;
        received += came.delivered;
        if let Some(last) = came.last {
            let ack = format!(r#"{{"type":"network.event.ack","target":"core","payload":{{"up_to":"{last}"}}}}"#);
            end.send(Texts::one(ack.into())).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_names() {
        assert_eq!(("core".parse(), "echo".parse()), (Ok(Role::Core), Ok(Role::Echo)));
        assert!("x".parse::<Role>().is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_core_sends_to_itself() {
        let dir = tempfile::tempdir().unwrap();
        let config = NodeConfig { data: Some(dir.path().to_owned()), ..NodeConfig::default() };
        let node = Node::open(config).await.unwrap();
        let (network, token) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
        let token = token.unwrap();
        let mut to = End::join(&network, token.expose(), "to", r#""window":4096"#).await.unwrap();
        let mut by = End::join(&network, token.expose(), "by", r#""acks":"batch""#).await.unwrap();
        let burst = burst(&event(256, "agent:by", "agent:to").unwrap());
        let (received, sent) = tokio::join!(drain(&mut to, ROUND), push(&mut by, &burst, ROUND));
        received.and(sent).unwrap();
        node.stop().await;
    }
}
