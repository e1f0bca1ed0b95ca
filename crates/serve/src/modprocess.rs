//! Mods that run as processes beside the node: one JSON line per event in, one out (sheet section 9.2).
//!
//! Invariant: every question is answered or fails in time. A process that ends, says nothing in time or something that is
//! no line is killed and started again; while there is none, questions fail at once.

use rialto_carrier::process::{ChildLine, read_line};
use rialto_node::{ModPort, Network, ProcessCheck};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

/// First pause before a restart; doubles up to a minute.
const RESTART_AFTER: Duration = Duration::from_secs(1);
const RESTART_AFTER_MAX: Duration = Duration::from_secs(60);
/// A process may finish for this long after its stdin closed.
const GRACE: Duration = Duration::from_secs(2);

/// A mod to be run.
#[derive(Debug, Clone)]
pub struct ModProcess {
    /// Its name.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it is loaded.
    pub network: Network,
}

/// Why a process is no longer spoken to.
enum ProcessEnd {
    /// The node stops, or the mod runs elsewhere now.
    Stop,
    /// It failed.
    Failed(&'static str),
}

impl ModProcess {
    /// Keeps the process running until `stop` fires.
    pub async fn run(self, stop: CancellationToken) {
        let mut port = self.network.mod_port(&self.name).await;
        let mut pause = RESTART_AFTER;
        loop {
            let started = tokio::time::Instant::now();
            let end = match self.start() {
                Ok(child) => talk(child, &mut port, &stop).await,
                Err(error) => {
                    tracing::error!(name = self.name, %error, "the mod does not start");
                    ProcessEnd::Failed("it does not start")
                }
            };
            let ProcessEnd::Failed(why) = end else { return };
            // Who lived long enough did not fail at the start.
            pause = if started.elapsed() > RESTART_AFTER_MAX { RESTART_AFTER } else { pause };
            tracing::warn!(name = self.name, why, seconds = pause.as_secs(), "the mod is started again");
            if !wait(&mut port, pause, &stop).await {
                return;
            }
            pause = (pause * 2).min(RESTART_AFTER_MAX);
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let (program, args) = self.command.split_first().ok_or_else(|| std::io::Error::other("no command"))?;
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()
    }
}

/// Lets time pass while nothing runs; false when it is over.
async fn wait(port: &mut ModPort, pause: Duration, stop: &CancellationToken) -> bool {
    let until = tokio::time::Instant::now() + pause;
    loop {
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep_until(until) => return true,
            asked = port.next() => match asked {
                Some(asked) => port.failed(&asked, "its process does not run").await,
                None => return false,
            },
        }
    }
}

async fn talk(mut child: Child, port: &mut ModPort, stop: &CancellationToken) -> ProcessEnd {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return ProcessEnd::Failed("it cannot be spoken to");
    };
    let mut lines = BufReader::new(stdout);
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => {
                // It may finish what it does when its input ends.
                drop(stdin);
                if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                    let _ = child.kill().await;
                }
                return ProcessEnd::Stop;
            }
            _ = child.wait() => return ProcessEnd::Failed("it ended"),
            asked = port.next() => match asked {
                Some(asked) => asked,
                None => return ProcessEnd::Stop,
            },
        };
        let said = tokio::time::timeout(asked.deadline(), ask(&mut stdin, &mut lines, &asked)).await;
        let failed = match said {
            Ok(Ok(line)) => {
                port.said(&asked, &line).await;
                continue;
            }
            Ok(Err(why)) => why,
            Err(_) => "it did not answer in time",
        };
        port.failed(&asked, failed).await;
        let _ = child.kill().await;
        return ProcessEnd::Failed(failed);
    }
}

/// One line in, one line out.
async fn ask(
    stdin: &mut ChildStdin,
    lines: &mut BufReader<ChildStdout>,
    asked: &ProcessCheck,
) -> Result<String, &'static str> {
    let line = format!("{}\n", asked.line);
    let gone = |_| "it ended";
    stdin.write_all(line.as_bytes()).await.map_err(gone)?;
    stdin.flush().await.map_err(gone)?;
    match read_line(lines).await.map_err(gone)? {
        ChildLine::Text(text) => String::from_utf8(text.into()).map_err(|_| "what it says is no text"),
        ChildLine::TooLong => Err("it says too much"),
        ChildLine::End => Err("it ended"),
    }
}
