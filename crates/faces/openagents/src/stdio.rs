//! Agents the node starts itself: the stream conversation over a child's stdin and stdout (sheet section 12.3 a).
//!
//! The child joins without credentials, as exactly the configured address; the policy counts as met, the level is 0.
//! UTF-8 lines, one event or array each; what is not an event never reaches the child's stdin.

use crate::stream::{Conversation, Frame, Renderer, converse, error_line};
use bytes::Bytes;
use rialto_carrier::process::{ChildLine, read_line};
use rialto_model::{Address, ErrorCode, Fault};
use rialto_node::{Caller, Inbox, Network, Out, Texts};
use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// First pause before a restart; doubles up to a minute.
const RESTART_AFTER: Duration = Duration::from_secs(1);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(60);
/// A child may finish for this long after its stdin closed.
const GRACE: Duration = Duration::from_secs(2);

/// Answers to what the child said last come within this time of one another.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// An agent to be started.
#[derive(Debug, Clone)]
pub struct Spawned {
    /// What people call it.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The one address it joins as.
    pub address: Address,
    /// Where it joins.
    pub network: Network,
    /// Whether it is started again when it ends.
    pub restart: bool,
}

impl Spawned {
    /// Keeps the agent running until `stop` fires.
    pub async fn run(self, stop: CancellationToken) {
        let mut pause = RESTART_AFTER;
        loop {
            let started = tokio::time::Instant::now();
            match self.start() {
                Ok(child) => self.talk(child, &stop).await,
                Err(error) => tracing::error!(agent = self.name, %error, "the agent does not start"),
            }
            if stop.is_cancelled() || !self.restart {
                return;
            }
            // Who lived long enough did not fail at the start.
            pause = if started.elapsed() > RESTART_AFTER_MAX { RESTART_AFTER } else { pause };
            tracing::warn!(agent = self.name, seconds = pause.as_secs(), "the agent ended; it is started again");
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(RESTART_AFTER_MAX);
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let (program, args) = self.command.split_first().ok_or_else(|| std::io::Error::other("no command"))?;
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()
    }

    async fn talk(&self, mut child: Child, stop: &CancellationToken) {
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return };
        // An operator's join for one address: the engine refuses any other.
        let claimed = Some(self.address.as_str().into());
        let caller = Caller { operator: true, claimed, ..Caller::default() };
        let (mut conversation, renderer, inbox) = converse(&self.network, caller);
        let (refusals, refused) = mpsc::channel(64);
        let writer = tokio::spawn(write(stdin, renderer, inbox, refused));
        let mut lines = BufReader::new(stdout);
        loop {
            let line = tokio::select! {
                () = stop.cancelled() => break,
                line = read_line(&mut lines) => line,
            };
            let refusal = match line {
                Ok(ChildLine::End) | Err(_) => break,
                Ok(ChildLine::TooLong) => Fault::from(ErrorCode::TooLarge),
                Ok(ChildLine::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(ChildLine::Text(text)) => match self.pass(&mut conversation, text).await {
                    Ok(()) => continue,
                    Err(()) => break,
                },
            };
            if refusals.send(refusal).await.is_err() {
                break;
            }
        }
        drop(refusals);
        conversation.end().await;
        let _ = tokio::time::timeout(GRACE, writer).await;
        if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    async fn pass(&self, conversation: &mut Conversation, text: Bytes) -> Result<(), ()> {
        conversation.receive(Texts::one(text)).await.map(|_| ()).map_err(|code| {
            tracing::warn!(agent = self.name, %code, "the conversation ended");
        })
    }
}

/// Writes what the outbox brings, one event per line.
async fn write(mut stdin: ChildStdin, mut renderer: Renderer, mut inbox: Inbox, mut refused: mpsc::Receiver<Fault>) {
    loop {
        tokio::select! {
            outs = inbox.recv() => match outs {
                Some(outs) => if !pass(&mut stdin, &mut renderer, outs).await { return },
                None => return,
            },
            fault = refused.recv() => match fault {
                Some(fault) => if !lines(&mut stdin, &[error_line(&fault)]).await { return },
                None => break,
            },
        }
    }
    // The child's output ended: answers that are still on their way are written, then its input closes.
    while let Ok(Some(outs)) = tokio::time::timeout(LAST_ANSWERS, inbox.recv()).await {
        if !pass(&mut stdin, &mut renderer, outs).await {
            return;
        }
    }
}

/// Renders and writes all of it; false when the child is gone or the stream ends by it.
async fn pass(stdin: &mut ChildStdin, renderer: &mut Renderer, outs: Vec<Out>) -> bool {
    let mut outs = VecDeque::from(outs);
    while !outs.is_empty() {
        let rendered = renderer.render(&mut outs).await;
        let texts: Vec<Bytes> = rendered.frames.into_iter().flat_map(Frame::into_texts).collect();
        if !lines(stdin, &texts).await || rendered.close.is_some() {
            return false;
        }
    }
    true
}

async fn lines(stdin: &mut ChildStdin, frames: &[Bytes]) -> bool {
    let mut text = Vec::new();
    for frame in frames {
        text.extend_from_slice(frame);
        text.push(b'\n');
    }
    stdin.write_all(&text).await.is_ok() && stdin.flush().await.is_ok()
}
