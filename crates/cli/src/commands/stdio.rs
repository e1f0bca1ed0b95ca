//! `rialto stdio`: the stream conversation on standard input and output (sheet section 12.3, form b).
//!
//! Lines go to the node's WebSocket, frames come back as lines, and a lost connection is taken up again without the
//! program noticing: the join is repeated with its session and `resume_after`, and what was not answered is sent again.
//! Invariant: standard output carries events only. The end of input means offline, not leaving: mail is still queued.

mod lines;
mod relay;

use crate::context::{Context, Node};
use crate::exit::CliError;
use crate::out::Out;
use crate::session::{KeptSession, SessionFile};
use clap::Args;
use lines::ProgramLine;
use relay::{NodeFrame, Relay, SessionKeeper};
use rialto_client::{Backoff, ClientError, Closed, Endpoint, Http, Link, Secret};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

const LINES_WAITING_MAX: usize = 64;
const UNANSWERED_MAX: usize = 4096;
const FRAMES_QUEUED_MAX: usize = 1024;
const PING_EVERY: Duration = Duration::from_secs(20);
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long answers are awaited after the end of input.
const DRAIN: Duration = Duration::from_secs(10);

/// Arguments of `stdio`; `--url` and `--network` say where to, `RIALTO_TOKEN` or the join frame with what right.
#[derive(Debug, Args)]
pub(crate) struct Stdio {}

impl Stdio {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let node = cx.node()?;
        let (lines_in, mut lines) = mpsc::channel(LINES_WAITING_MAX);
        let reading = tokio::spawn(lines::read(tokio::io::BufReader::new(tokio::io::stdin()), lines_in));
        let result = match lines.recv().await {
            Some(first) => relay(cx, &node, first, &mut lines).await,
            None => Ok(()),
        };
        reading.abort();
        result
    }
}

async fn relay(
    cx: &mut Context,
    node: &Node,
    first: ProgramLine,
    lines: &mut mpsc::Receiver<ProgramLine>,
) -> Result<(), CliError> {
    let endpoint = Endpoint::parse(&node.url)?;
    let network = match node.network() {
        Some(network) => network,
        None => default_network(&node.url).await?,
    };
    let sessions = cx.data_dir().ok().map(|data| KeptSessions { data, url: endpoint.base(), network: network.clone() });
    let place = RelayTarget { endpoint, network, bearer: node.credential().cloned(), backoff: Backoff::default() };
    let relay = Relay::new(sessions.map(|s| Box::new(s) as Box<dyn SessionKeeper>));
    converse(&place, relay, first, lines, &mut cx.out).await
}

async fn default_network(url: &str) -> Result<String, CliError> {
    let profile = Http::new(url)?.profile().await?;
    let id = profile.get("id").and_then(Value::as_str).map(str::to_owned);
    id.ok_or_else(|| CliError::internal("the node's profile names no network").next("choose one with --network"))
}

/// Sessions in the data directory, shared with the other commands.
#[derive(Debug)]
struct KeptSessions {
    data: PathBuf,
    url: String,
    network: String,
}

impl SessionKeeper for KeptSessions {
    fn read(&self, address: &str) -> Option<Secret> {
        let kept = SessionFile::of(&self.data, &self.network, address, &self.url).read()?;
        Some(kept.session_id)
    }

    fn write(&mut self, address: &str, network: &str, session_id: &Secret) {
        network.clone_into(&mut self.network);
        let kept = KeptSession {
            address: address.to_owned(),
            network: network.to_owned(),
            url: self.url.clone(),
            session_id: session_id.clone(),
        };
        // Without it the next join merely takes a new session.
        SessionFile::of(&self.data, network, address, &self.url).write(&kept).ok();
    }
}

/// Where the relay connects to.
#[derive(Debug)]
struct RelayTarget {
    endpoint: Endpoint,
    network: String,
    bearer: Option<Secret>,
    backoff: Backoff,
}

impl RelayTarget {
    async fn open(&self) -> Result<Link, ClientError> {
        Link::open(&self.endpoint, &self.network, self.bearer.as_ref()).await
    }
}

/// How one connection ended.
enum RelayEnd {
    /// Input is over and everything is answered, or will not be.
    Done,
    /// To be taken up again.
    Lost,
    Failed(CliError),
}

async fn converse(
    place: &RelayTarget,
    mut relay: Relay,
    first: ProgramLine,
    lines: &mut mpsc::Receiver<ProgramLine>,
    out: &mut Out,
) -> Result<(), CliError> {
    let mut link = place.open().await?;
    let mut state = Input { over: false, deadline: None };
    take_line(&mut relay, first, &mut state, &mut link, out)?;
    loop {
        match one_connection(&mut relay, &mut link, lines, &mut state, out).await {
            RelayEnd::Done => {
                link.close().await;
                return relay.refusal().map_or(Ok(()), |error| Err(ClientError::from(error).into()));
            }
            RelayEnd::Failed(error) => return Err(error),
            RelayEnd::Lost => {
                drop(link);
                out.say("rialto: the connection is lost; connecting again");
                link = reopen(place).await?;
                link.push(relay.rejoin());
            }
        }
    }
}

async fn reopen(place: &RelayTarget) -> Result<Link, CliError> {
    let mut backoff = place.backoff;
    loop {
        tokio::time::sleep(backoff.next_wait()).await;
        match place.open().await {
            Ok(link) => return Ok(link),
            Err(error) if error.retryable() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the program has said its last word.
#[derive(Debug)]
struct Input {
    over: bool,
    deadline: Option<Instant>,
}

async fn one_connection(
    relay: &mut Relay,
    link: &mut Link,
    lines: &mut mpsc::Receiver<ProgramLine>,
    input: &mut Input,
    out: &mut Out,
) -> RelayEnd {
    let mut beat = tokio::time::interval(PING_EVERY);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        if input.over && !relay.is_waiting() {
            return RelayEnd::Done;
        }
        let room = relay.unanswered() < UNANSWERED_MAX && link.queued() < FRAMES_QUEUED_MAX;
        let listening = !input.over && !relay.is_rejoining() && room;
        let patience = input.deadline.unwrap_or_else(|| Instant::now() + DRAIN);
        let step = tokio::select! {
            frame = link.recv() => match frame {
                Ok(text) => on_frame(relay, &text, link, out),
                Err(closed) => Err(on_close(relay, &closed, input)),
            },
            line = lines.recv(), if listening => {
                let line = line.unwrap_or(ProgramLine::End);
                take_line(relay, line, input, link, out).map_err(RelayEnd::Failed)
            }
            _ = beat.tick() => {
                link.push_ping();
                if link.silence() > SILENCE_MAX { Err(RelayEnd::Lost) } else { Ok(()) }
            }
            () = tokio::time::sleep_until(patience), if input.over => {
                let message = "the node did not answer everything within 10 s of the end of input";
                Err(RelayEnd::Failed(CliError::timeout(message)))
            }
        };
        if let Err(end) = step {
            return end;
        }
    }
}

fn on_close(relay: &Relay, closed: &Closed, input: &Input) -> RelayEnd {
    if input.over && !relay.is_waiting() {
        RelayEnd::Done
    } else if relay.has_joined() && closed.may_return() {
        RelayEnd::Lost
    } else if relay.has_left() && closed.code == Some(1000) {
        RelayEnd::Done
    } else {
        let error = relay.refusal().map_or_else(|| closed.to_error(), ClientError::from);
        RelayEnd::Failed(error.into())
    }
}

fn on_frame(relay: &mut Relay, text: &str, link: &mut Link, out: &mut Out) -> Result<(), RelayEnd> {
    let heard = relay.on_frame(text);
    let print = |out: &mut Out| out.text(&text.replace(['\n', '\r'], " ")).map_err(RelayEnd::Failed);
    match heard {
        NodeFrame::ForProgram => print(out),
        NodeFrame::Hidden => Ok(()),
        NodeFrame::Again(frames) => {
            for frame in frames {
                link.push(frame);
            }
            Ok(())
        }
        NodeFrame::SentAway(error) => {
            print(out)?;
            Err(RelayEnd::Failed(ClientError::from(error).into()))
        }
    }
}

fn take_line(
    relay: &mut Relay,
    line: ProgramLine,
    input: &mut Input,
    link: &mut Link,
    out: &mut Out,
) -> Result<(), CliError> {
    match line {
        ProgramLine::Text(text) => {
            if let Some(frame) = relay.on_line(&text) {
                link.push(frame);
            }
            Ok(())
        }
        ProgramLine::TooLong => out.text(&relay.too_large()),
        ProgramLine::End => {
            input.over = true;
            input.deadline = Some(Instant::now() + DRAIN);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
