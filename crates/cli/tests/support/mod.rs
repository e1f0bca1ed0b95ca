//! What the tests of the real binary share: a node of their own on a free port, commands against it, and plain HTTP.

#![allow(dead_code, reason = "every test file uses its part")]

pub mod http;
pub mod schema;
pub mod sse;

use rialto_sim::contract::Place;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing that is waited for takes longer, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The binary under test.
pub fn program() -> PathBuf {
    std::env::var_os("RIALTO_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_rialto").into()).into()
}

/// The binary under test, knowing nothing of the machine's own node.
pub fn rialto() -> Command {
    let mut command = Command::new(program());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RIALTO_")) {
        command.env_remove(name);
    }
    command.env("USER", "ana").env("NO_COLOR", "1").env("HOME", "/nonexistent").env_remove("XDG_DATA_HOME");
    command.env_remove("XDG_CONFIG_HOME");
    command
}

/// What a command said and how it ended.
#[derive(Debug, Clone)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Runs a command to its end, with this text on standard input.
    pub fn of(mut command: Command, stdin: &str) -> Ran {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = stdin.to_owned();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).ok());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// It went well.
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// It ended with this exit code, and its complaint says this.
    #[track_caller]
    pub fn fails(self, code: i32, saying: &str) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(saying), "{saying:?} is not in {self:?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }
}

/// A command that goes on. Dropped, it is killed: a failed test leaves nothing behind.
#[derive(Debug)]
pub struct RunningNode {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl RunningNode {
    /// Starts a command; its standard output is read line by line.
    pub fn start(mut command: Command) -> RunningNode {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        RunningNode { child, lines }
    }

    /// The next line, or none within this time.
    pub fn line_within(&self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    /// The next line.
    #[track_caller]
    pub fn line(&self) -> String {
        self.line_within(PATIENCE).unwrap_or_else(|| panic!("it says nothing"))
    }

    /// Everything it says until it ends well.
    #[track_caller]
    pub fn rest(mut self) -> String {
        let mut text = String::new();
        while let Some(line) = self.line_within(PATIENCE) {
            text.push_str(&line);
            text.push('\n');
        }
        let status = self.child.try_wait().unwrap().or_else(|| self.child.wait().ok());
        assert!(status.is_some_and(|s| s.success()), "{status:?}: {text}");
        text
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A running node. Dropped, it is killed and its data goes.
#[derive(Debug)]
pub struct Node {
    dir: TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
    /// The run file of this start.
    pub run: Value,
    /// What `up --json` printed at this start.
    pub told: Value,
    /// The network token, shown at the first start.
    pub token: String,
}

impl Node {
    /// A fresh node.
    pub fn start() -> Node {
        Node::start_with(&[])
    }

    /// A fresh node with more arguments for `up`.
    pub fn start_with(arguments: &[&str]) -> Node {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Node::start_in(dir, &data, arguments)
    }

    /// A node on a data directory inside `dir`.
    pub fn start_in(dir: TempDir, data: &Path, arguments: &[&str]) -> Node {
        assert_eq!(data, dir.path().join("data"));
        let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
        let mut node = Node { dir, arguments, child: None, run: Value::Null, told: Value::Null, token: String::new() };
        node.restart();
        node
    }

    /// Starts it (again) on its data.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the node still runs");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("stderr")).unwrap();
        let mut command = rialto();
        command.args(["up", "--json", "--data"]).arg(self.data());
        if !self.arguments.iter().any(|a| a == "--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        if line.is_empty() {
            panic!("rialto up ended with {:?}:\n{}", child.wait(), self.log());
        }
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        self.child = Some(child);
        self.told = serde_json::from_str(&line).unwrap();
        self.run = serde_json::from_str(&std::fs::read_to_string(self.data().join("run.json")).unwrap()).unwrap();
        if let Some(token) = self.told["token"].as_str() {
            self.token = token.to_owned();
        }
    }

    /// Stops it in order.
    pub fn stop(&mut self) {
        let child = self.child.as_ref().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the node did not stop:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A file beside its data.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// What it wrote to its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        self.run["url"].as_str().unwrap()
    }

    /// Its default network.
    pub fn network(&self) -> &str {
        self.run["network"]["id"].as_str().unwrap()
    }

    /// The operator's secret of this run.
    pub fn admin(&self) -> &str {
        self.run["admin_secret"].as_str().unwrap()
    }

    /// The node as clients of every carrier need to know it.
    pub fn place(&self) -> Place {
        Place {
            url: self.url().to_owned(),
            network: self.network().to_owned(),
            token: self.token.clone(),
            admin: self.admin().to_owned(),
            program: program(),
            sessions: self.path("clients"),
            data: self.data().to_owned(),
        }
    }

    /// A command on this node's data directory.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = rialto();
        command.env("RIALTO_DATA", self.data()).args(arguments);
        command
    }

    /// Runs a command line, words split at spaces.
    pub fn line(&self, line: &str) -> Ran {
        self.words(&line.split(' ').collect::<Vec<_>>())
    }

    /// Runs a command.
    pub fn words(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words), "")
    }

    /// Runs a command with text on standard input.
    pub fn typed(&self, line: &str, stdin: &str) -> Ran {
        Ran::of(self.command(&line.split(' ').collect::<Vec<_>>()), stdin)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the node said last:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}

/// Asks again every few milliseconds until there is an answer.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
