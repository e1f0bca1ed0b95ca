//! One `rialto up` with its own data directory on a port of its own.

use super::http::Http;
use super::{PATIENCE, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The network token every harness node is started with.
const TOKEN: &str = "harness-token-0123456789";

/// A network as its members know it.
#[derive(Debug, Clone)]
pub struct Network {
    /// Its id.
    pub id: String,
    /// Its token.
    pub token: String,
}

/// A running node. Dropped, it is killed and its data goes.
#[derive(Debug)]
pub struct Server {
    dir: TempDir,
    data: PathBuf,
    /// Another program than `rialto`, which is started as it is.
    program: Option<PathBuf>,
    arguments: Vec<String>,
    files: Option<u64>,
    child: Option<Child>,
    run: Value,
}

/// The binary under test: `RIALTO_BIN`, else the one beside this test, brought up to date first.
pub fn rialto() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(chosen) = std::env::var_os("RIALTO_BIN") {
            return chosen.into();
        }
        // target/<profile>/deps/<test>
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).unwrap();
        let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "-p", "rialto-cli", "--target-dir"]).arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        let done = build.current_dir(here).status().unwrap();
        assert!(done.success(), "the binary does not build");
        profile.join("rialto")
    })
}

impl Server {
    /// A fresh node.
    pub async fn start() -> Server {
        Server::start_with(&[]).await
    }

    /// A fresh node with more arguments for `rialto up`.
    pub async fn start_with(arguments: &[&str]) -> Server {
        let mut server = Server::new(arguments);
        server.restart().await;
        server
    }

    /// A fresh node of another program, which is started as `rialto` is.
    pub async fn start_program(program: &Path) -> Server {
        let mut server = Server::new(&[]);
        server.program = Some(program.to_owned());
        server.restart().await;
        server
    }

    /// A fresh node with its data in a directory of choice.
    pub async fn start_on(data: &Path, arguments: &[&str]) -> Server {
        let mut server = Server::new(arguments);
        data.clone_into(&mut server.data);
        server.restart().await;
        server
    }

    /// A fresh node that may have so many files open.
    pub async fn start_with_files(files: u64, arguments: &[&str]) -> Server {
        let mut server = Server::new(arguments);
        server.files = Some(files);
        server.restart().await;
        server
    }

    fn new(arguments: &[&str]) -> Server {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
        Server { dir, data, program: None, arguments, files: None, child: None, run: Value::Null }
    }

    /// The program with nobody's own settings.
    pub fn client() -> Command {
        clean(rialto())
    }

    /// `rialto up` on a data directory, not started yet.
    pub fn command(data: &Path) -> Command {
        Server::command_of(rialto(), data)
    }

    fn command_of(program: &Path, data: &Path) -> Command {
        let mut command = clean(program);
        command.env("RIALTO_LIMITS_PACES", "false");
        command.args(["up", "--listen", "127.0.0.1:0", "--token", TOKEN, "--data"]).arg(data);
        // Nobody's own configuration counts here.
        command.env("XDG_CONFIG_HOME", data.with_extension("no-configuration"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts again on the same data; the node before it must be gone.
    pub async fn restart(&mut self) {
        self.try_restart().await.unwrap_or_else(|told| panic!("rialto up ended: {told}"));
    }

    /// Starts again on the same data; if it ends at once, gives how it ended and what it said in this life.
    pub async fn try_restart(&mut self) -> Result<(), String> {
        let said = self.told().len();
        self.spawn();
        let pid = self.pid();
        let file = self.data().join("run.json");
        let run = until("the run file", || {
            let child = self.child.as_mut().unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                return std::future::ready(Some(Err(status)));
            }
            let run = std::fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
            std::future::ready(run.filter(|run| run["pid"] == pid).map(Ok))
        })
        .await;
        match run {
            Ok(run) => self.run = run,
            Err(status) => {
                self.child = None;
                return Err(format!("{status}: {}", self.told().get(said..).unwrap_or_default()));
            }
        }
        let address = self.address();
        until("the node's readiness", || async move {
            let answer = Http::new(address).request("GET", "/ready").try_send().await;
            // A node none of whose networks is whole is as ready as it will be.
            answer.ok().filter(|a| a.status == 200 || a.json()["damaged"].is_object())
        })
        .await;
        Ok(())
    }

    /// Starts the process and does not wait for anything.
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "the node still runs");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let program = self.program.as_deref().unwrap_or_else(|| rialto());
        let mut command = Server::command_of(program, &self.data());
        command.args(&self.arguments);
        if let Some(files) = self.files {
            command = limited(&command, files);
        }
        self.child = Some(command.stderr(log).spawn().unwrap());
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends it in order (SIGTERM); gives how it ended.
    pub fn stop(&mut self) -> ExitStatus {
        self.terminate();
        self.ended()
    }

    /// Asks it to end and does not wait.
    pub fn terminate(&self) {
        let child = self.child.as_ref().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("the node did not stop");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }

    /// What it wrote to stderr so far.
    pub fn told(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.run["listen"].as_str().unwrap().parse().unwrap()
    }

    /// The URL in its run file.
    pub fn url(&self) -> &str {
        self.run["url"].as_str().unwrap()
    }

    /// The operator's secret of this run.
    pub fn admin(&self) -> String {
        self.run["admin_secret"].as_str().unwrap().to_owned()
    }

    /// The default network.
    pub fn main(&self) -> Network {
        Network { id: self.run["network"]["id"].as_str().unwrap().to_owned(), token: TOKEN.to_owned() }
    }

    /// A new connection; opened by its first request.
    pub fn http(&self) -> Http {
        Http::new(self.address())
    }

    /// Makes a network with the operator's secret.
    pub async fn network(&self, wish: &Value) -> Network {
        let answer = self.http().post("/v1/admin/networks").bearer(&self.admin()).json(wish).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let data = answer.data();
        let token = data["token"].as_str().unwrap_or_default().to_owned();
        Network { id: data["id"].as_str().unwrap().to_owned(), token }
    }

    /// Joins over HTTP; gives the session.
    pub async fn join(&self, network: &Network, agent: &str) -> String {
        let body = json!({ "agent_id": agent, "credentials": { "token": network.token } });
        let answer = self.http().post(&format!("/v1/ws/{}/join", network.id)).json(&body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.data()["session_id"].as_str().unwrap().to_owned()
    }
}

/// A program that knows nothing of the machine's own node.
pub(super) fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("RIALTO_")) {
        command.env_remove(name);
    }
    command
}

/// The same command with a limit of open files, set by a shell that it takes the place of.
fn limited(command: &Command, files: u64) -> Command {
    let mut out = Command::new("sh");
    out.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => out.env(name, value),
            None => out.env_remove(name),
        };
    }
    out.stdin(Stdio::null()).stdout(Stdio::null());
    out
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let told = self.told();
            let tail: Vec<&str> = told.lines().rev().take(20).collect();
            eprintln!("the node said last:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}
