//! `rialto tool serve`: a command becomes a tool. Each call runs it once: the input is its standard input, as JSON; its
//! standard output is the result. A command ends with its call: when nobody waits any more it is killed, with all that it started.
//!
//! Invariant: nothing of a call ever becomes part of a command line.

use crate::commands::resource::{full, schema};
use crate::context::Context;
use crate::exit::CliError;
use clap::Subcommand;
use rialto_client::{ClientError, Draft, Event, JoinOptions, Sender, Stream};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of a command's output that are taken.
const OUTPUT_BYTES_MAX: u64 = 512 << 10;
/// Bytes of what a failed command says, kept for the error.
const ERROR_BYTES_MAX: u64 = 4 << 10;

/// Verbs of `tool`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Serve a tool with a command until interrupted
    Serve {
        /// Name of the tool
        name: String,
        /// What it does, for people and agents
        #[arg(long)]
        description: Option<String>,
        /// What it takes: JSON Schema or {"name": "string", "limit": "integer?"}
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
        /// What it gives
        #[arg(long, value_name = "JSON")]
        output: Option<String>,
        /// Calls that run at the same time
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
        jobs: u16,
        /// The command and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}

impl Tool {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let Tool::Serve { name, description, input, output, jobs, command } = self;
        let address = full(&format!("tool/{name}"))?;
        let mut payload = Map::new();
        payload.insert("address".into(), json!(address));
        payload.insert("description".into(), json!(description.unwrap_or_default()));
        if let Some(schema) = schema(input.as_deref(), output.as_deref())? {
            payload.insert("schema".into(), schema);
        }
        let mut stream = connect(cx).await?;
        stream.send(Draft::new("network.resource.register", "core", Value::Object(payload))).await?;
        cx.out.say(&format!("serving {address} as {}; interrupt to stop", stream.joined().address));
        let mut server = ToolServer {
            command: command.into(),
            sender: stream.sender(),
            jobs_max: jobs.into(),
            jobs: JoinSet::new(),
            running: HashMap::new(),
            waiting: VecDeque::new(),
        };
        let served = tokio::select! {
            served = server.serve(&mut stream, &address) => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
        // Commands have groups of their own: what interrupts this program does not reach them by itself.
        server.jobs.shutdown().await;
        let gone = Draft::new("network.resource.unregister", "core", json!({ "address": address }));
        let _ = stream.send(gone).await;
        stream.close().await;
        Ok(served?)
    }
}

/// A stream that speaks under the same session as other commands of this name.
async fn connect(cx: &mut Context) -> Result<Stream, CliError> {
    let (node, address) = (cx.node()?, cx.speaker_address()?);
    let voice = cx.member().await?;
    let session = voice.session();
    let options = JoinOptions {
        network: voice.http.network().map(str::to_owned),
        bearer: node.credential().cloned(),
        session_id: session,
        takeover: Some(cx.global.takeover),
        invite: cx.invite(),
        receive: Some("queue".to_owned()),
        ..JoinOptions::new(address)
    };
    Ok(Stream::connect(&node.url, options).await?)
}

/// How long a call waits that does not say, as the network has it.
const TIMEOUT_MS: u64 = 30_000;

/// A call that came.
struct ToolCall {
    event: Event,
    /// When nobody waits for it any more.
    due: Instant,
    timeout_ms: u64,
    /// Fires when its caller takes it back.
    cancelled: CancellationToken,
}

impl ToolCall {
    fn new(event: Event) -> ToolCall {
        let timeout_ms = event.metadata.get("timeout_ms").and_then(Value::as_u64).unwrap_or(TIMEOUT_MS);
        let due = Instant::now() + Duration::from_millis(timeout_ms);
        ToolCall { event, due, timeout_ms, cancelled: CancellationToken::new() }
    }

    /// The id its end is told by.
    fn work(&self) -> Option<&str> {
        self.event.metadata.get("work")?.get("id")?.as_str()
    }

    /// Runs the command until it ends, nobody waits any more, or the call is taken back.
    async fn run(&self, command: &[String]) -> Result<Value, Failed> {
        tokio::select! {
            result = run(command, self.event.payload.get()) => result.map_err(|text| Failed { code: "failed", text }),
            () = tokio::time::sleep_until(self.due) => Err(Failed {
                code: "timeout",
                text: format!("the command was ended: nobody waits for it after {} ms", self.timeout_ms),
            }),
            () = self.cancelled.cancelled() => {
                Err(Failed { code: "canceled", text: "the command was ended: the call was taken back".to_owned() })
            }
        }
    }
}

/// Why a call has no result.
struct Failed {
    code: &'static str,
    text: String,
}

struct ToolServer {
    command: Arc<[String]>,
    sender: Sender,
    jobs_max: usize,
    /// Each gives the id of the call that it is over with.
    jobs: JoinSet<Option<String>>,
    /// Calls that came and are not over, by the id their end is told by.
    running: HashMap<String, CancellationToken>,
    /// Calls that came while every job had one. As many as the stream's window has, at most.
    waiting: VecDeque<ToolCall>,
}

impl ToolServer {
    /// Takes calls until the stream ends. A call is acked once its result is sent: a server that dies leaves it to be
    /// delivered again.
    async fn serve(&mut self, stream: &mut Stream, address: &str) -> Result<(), ClientError> {
        loop {
            while self.jobs.len() < self.jobs_max
                && let Some(call) = self.waiting.pop_front()
            {
                self.start(call);
            }
            tokio::select! {
                delivery = stream.next() => self.take(delivery?.event, address).await?,
                Some(over) = self.jobs.join_next() => {
                    if let Ok(Some(work)) = over {
                        self.running.remove(&work);
                    }
                }
            }
        }
    }

    async fn take(&mut self, event: Event, address: &str) -> Result<(), ClientError> {
        if event.kind == "network.resource.invoke" && event.target == address {
            let call = ToolCall::new(event);
            if let Some(work) = call.work() {
                self.running.insert(work.to_owned(), call.cancelled.clone());
            }
            self.waiting.push_back(call);
            return Ok(());
        }
        // Its caller takes a call back, or the network says that it has ended.
        let told = event.payload_value();
        let text = |key: &str| told.get(key).and_then(Value::as_str);
        let over = match event.kind.as_str() {
            "work.cancel" => true,
            "work.update" => matches!(text("state"), Some("canceled" | "failed" | "rejected")),
            _ => false,
        };
        if over && let Some(call) = text("work").and_then(|work| self.running.get(work)) {
            call.cancel();
        }
        self.sender.ack(&event.id).await
    }

    fn start(&mut self, call: ToolCall) {
        let (command, sender) = (self.command.clone(), self.sender.clone());
        self.jobs.spawn(async move {
            let result = answer(&call.event, call.run(&command).await);
            // A call that ended meanwhile has no use for its result.
            let _ = sender.send(result).await;
            let _ = sender.ack(&call.event.id).await;
            call.work().map(str::to_owned)
        });
    }
}

/// Runs the command once; what it prints, or why it failed. Dropped before its end, it ends the command and all that it started.
async fn run(command: &[String], input: &str) -> Result<Value, String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("{program} cannot be run: {e}"))?;
    let group = ProcessGroup(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input is no failure.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (_, out, err) = tokio::join!(feed, read(stdout, OUTPUT_BYTES_MAX), read(stderr, ERROR_BYTES_MAX));
    let status = child.wait().await.map_err(|e| e.to_string())?;
    group.forget();
    if !status.success() {
        let said = String::from_utf8_lossy(&err).trim().to_owned();
        return Err(if said.is_empty() { format!("{program} ended with {status}") } else { said });
    }
    if out.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(format!("{program} gave more than {OUTPUT_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8_lossy(&out);
    // A result is an object; whatever else is printed becomes its output.
    match serde_json::from_str::<Value>(&text) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(other) => Ok(json!({ "output": other })),
        Err(_) => Ok(json!({ "output": text.trim_end_matches('\n') })),
    }
}

/// The processes of a command: killed together unless it has ended by itself.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Reads up to one byte more than the limit, then lets the rest go by.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>, max: u64) -> Vec<u8> {
    let Some(mut pipe) = pipe else { return Vec::new() };
    let mut out = Vec::new();
    let _ = (&mut pipe).take(max + 1).read_to_end(&mut out).await;
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    out
}

fn answer(call: &Event, result: Result<Value, Failed>) -> Draft {
    let kind = "network.resource.invoke.result";
    let draft = match result {
        Ok(output) => Draft::new(kind, call.source.clone(), output),
        Err(Failed { code, text }) => {
            let error = json!({ "error": { "code": code, "message": text } });
            Draft::new(kind, call.source.clone(), error).with("is_error", true)
        }
    };
    draft.with("in_reply_to", call.id.clone())
}
