//! A server that we started: gone, by its own id, when we are done with it.

use crate::error::{BenchError, Doing};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server has begun to serve after this long, or never will.
pub(crate) const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// A server has ended after this long, or is ended.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// A child process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: &'static str,
    said: PathBuf,
}

impl Process {
    /// Starts a program; what it says goes to a file. Its standard input and output may have been set before.
    pub(crate) fn start(name: &'static str, command: &mut Command, said: PathBuf) -> Result<Process, BenchError> {
        let file = File::create(&said).doing(format!("write {}", said.display()))?;
        // A group of its own: an interrupt on the terminal is ours to act on.
        let child = command.stderr(file).process_group(0).spawn().doing(format!("start {name}"))?;
        Ok(Process { child, name, said })
    }

    /// A command that reads nothing and whose output nobody needs.
    pub(crate) fn quiet(program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its standard input and output.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Fails if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), BenchError> {
        match self.child.try_wait().doing(format!("look after {}", self.name))? {
            None => Ok(()),
            Some(status) => {
                let said = std::fs::read_to_string(&self.said).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(3).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                Err(BenchError::answer(format!("{} ended ({status}): {}", self.name, last.join(" / "))))
            }
        }
    }

    /// Waits until `ready` gives something; fails if the process ends or takes too long.
    pub(crate) async fn until<T>(
        &mut self,
        mut ready: impl FnMut() -> Result<Option<T>, BenchError>,
    ) -> Result<T, BenchError> {
        let began = Instant::now();
        loop {
            if let Some(value) = ready()? {
                return Ok(value);
            }
            self.check()?;
            if began.elapsed() > STARTS_WITHIN {
                return Err(BenchError::Timeout(format!("the start of {}", self.name)));
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        let began = Instant::now();
        while self.child.try_wait().doing(format!("look after {}", self.name))?.is_none() {
            if began.elapsed() > STOPS_WITHIN {
                return Err(BenchError::Timeout(format!("the stop of {}", self.name)));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Ends it at once, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
