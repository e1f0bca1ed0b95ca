//! `rialto tool serve`: a command becomes a tool. Each call runs it once: the input is its standard input, as JSON; its
//! standard output is the result.
//!
//! Invariant: nothing of a call ever becomes part of a command line.

use crate::commands::resource::{full, schema};
use crate::context::Context;
use crate::exit::CliError;
use clap::Subcommand;
use rialto_client::{ClientError, Delivery, Draft, Event, JoinOptions, Sender, Stream};
use serde_json::{Map, Value, json};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

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
        let server =
            Server { command: command.into(), sender: stream.sender(), jobs: Arc::new(Semaphore::new(jobs.into())) };
        let served = tokio::select! {
            served = server.serve(&mut stream, &address) => served,
            _ = tokio::signal::ctrl_c() => Ok(()),
        };
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

struct Server {
    command: Arc<[String]>,
    sender: Sender,
    jobs: Arc<Semaphore>,
}

impl Server {
    /// Takes calls until the stream ends. A call is acked once its result is sent: a server that dies leaves it to be
    /// delivered again.
    async fn serve(&self, stream: &mut Stream, address: &str) -> Result<(), ClientError> {
        loop {
            let Delivery { event, .. } = stream.next().await?;
            if event.kind != "network.resource.invoke" || event.target != address {
                self.sender.ack(&event.id).await?;
                continue;
            }
            // Waits for a free place before it takes the next: what waits stays in the network's queue.
            let Ok(place) = self.jobs.clone().acquire_owned().await else { return Ok(()) };
            let (command, sender) = (self.command.clone(), self.sender.clone());
            tokio::spawn(async move {
                let _place = place;
                let result = answer(&event, run(&command, event.payload.get()).await);
                // A call that ended meanwhile has no use for its result.
                let _ = sender.send(result).await;
                let _ = sender.ack(&event.id).await;
            });
        }
    }
}

/// Runs the command once; what it prints, or why it failed.
async fn run(command: &[String], input: &str) -> Result<Value, String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| format!("{program} cannot be run: {e}"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its input is no failure.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (_, out, err) = tokio::join!(feed, read(stdout, OUTPUT_BYTES_MAX), read(stderr, ERROR_BYTES_MAX));
    let status = child.wait().await.map_err(|e| e.to_string())?;
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

/// Reads up to one byte more than the limit, then lets the rest go by.
async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>, max: u64) -> Vec<u8> {
    let Some(mut pipe) = pipe else { return Vec::new() };
    let mut out = Vec::new();
    let _ = (&mut pipe).take(max + 1).read_to_end(&mut out).await;
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    out
}

fn answer(call: &Event, result: Result<Value, String>) -> Draft {
    let kind = "network.resource.invoke.result";
    let draft = match result {
        Ok(output) => Draft::new(kind, call.source.clone(), output),
        Err(text) => {
            let error = json!({ "error": { "code": "failed", "message": text } });
            Draft::new(kind, call.source.clone(), error).with("is_error", true)
        }
    };
    draft.with("in_reply_to", call.id.clone())
}
