//! Ourselves: the same executable as `up`, with its default configuration, a free port and a data directory of its own.

pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod stream;
pub(crate) mod ws;

use crate::error::{BenchError, Doing};
use crate::process::Process;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// A running node.
#[derive(Debug)]
pub(crate) struct Rialto {
    process: Process,
    pub(crate) address: SocketAddr,
    secret: String,
}

/// A network of a node, and the token for it.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Rialto {
    /// Starts a node on a data directory and waits until it is ready. Gives how long that took.
    pub(crate) async fn start(program: &Path, data: &Path) -> Result<(Rialto, Duration), BenchError> {
        std::fs::create_dir_all(data).doing(format!("make {}", data.display()))?;
        let run = data.join("run.json");
        // One of a node that was killed would be taken for the new one's.
        if run.exists() {
            std::fs::remove_file(&run).doing(format!("remove {}", run.display()))?;
        }
        let mut command = Process::quiet(program);
        // Nothing but the defaults: no configuration file of the user and no setting of the environment.
        command.env_clear().env("HOME", data).env("RIALTO_DATA", data);
        command.args(["up", "--listen", "127.0.0.1:0"]);
        let began = Instant::now();
        let mut process = Process::start("rialto up", &mut command, data.with_extension("log"))?;
        let (address, secret) = process.until(|| Ok(std::fs::read_to_string(&run).ok().and_then(|t| told(&t)))).await?;
        loop {
            let answer = http::call(address, "GET", "/ready", None, None).await;
            if answer.is_ok_and(|answer| answer.status == 200) {
                break;
            }
            process.check()?;
            if began.elapsed() > crate::process::STARTS_WITHIN {
                return Err(BenchError::Timeout("the start of rialto up".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = began.elapsed();
        Ok((Rialto { process, address, secret }, took))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Makes a network like the one every node begins with.
    pub(crate) async fn network(&self, name: &str) -> Result<Network, BenchError> {
        let answer = self.post("/v1/admin/networks", &json!({ "name": name, "profile": "workspace" })).await?;
        let text = |key: &str| answer.get("data").and_then(|d| d.get(key)).and_then(Value::as_str).map(str::to_owned);
        match (text("id"), text("token")) {
            (Some(id), Some(token)) => Ok(Network { id, token }),
            _ => Err(BenchError::answer(format!("no network was made: {answer}"))),
        }
    }

    /// Posts as the operator.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, BenchError> {
        let body = body.to_string();
        let answer = http::call(self.address, "POST", path, Some(&self.secret), Some(body.as_bytes())).await?;
        answer.json()
    }

    /// A value of `/metrics`, of one network.
    pub(crate) async fn metric(&self, name: &str, network: &Network) -> Result<f64, BenchError> {
        let answer = http::call(self.address, "GET", "/metrics", Some(&self.secret), None).await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let head = format!("{name}{{network=\"{}\"", network.id);
        let line = text.lines().find(|line| line.starts_with(&head));
        let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        value.ok_or_else(|| BenchError::answer(format!("/metrics has no {name}")))
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(self) -> Result<(), BenchError> {
        self.process.stop().await
    }

    /// Ends it at once.
    pub(crate) fn kill(self) {
        self.process.kill();
    }
}

/// Address and operator's secret of a run file.
fn told(text: &str) -> Option<(SocketAddr, String)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let address = value.get("listen")?.as_str()?.parse().ok()?;
    Some((address, value.get("admin_secret")?.as_str()?.to_owned()))
}

/// A JSON event of exactly so many bytes, without anything that is text to be searched.
pub(crate) fn event(size: usize, source: &str, target: &str) -> Result<String, BenchError> {
    padded(size, source, target, "pad")
}

/// The same with text, which the search index takes in: words, not one long letter.
pub(crate) fn text_event(size: usize, source: &str, target: &str) -> Result<String, BenchError> {
    padded(size, source, target, "text")
}

fn padded(size: usize, source: &str, target: &str, key: &str) -> Result<String, BenchError> {
    let head = format!(r#"{{"type":"app.bench","source":"{source}","target":"{target}","payload":{{"n":1,"{key}":""#);
    let tail = r#""}}"#;
    let words = "the quick brown fox jumps over a lazy dog while nobody watches and the river runs on ";
    match size.checked_sub(head.len() + tail.len()) {
        None => Err(BenchError::answer(format!("an event to {target} does not fit into {size} bytes"))),
        Some(pad) => Ok(format!("{head}{}{tail}", words.chars().cycle().take(pad).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_as_long_as_said() {
        for size in [128, 256, 1024] {
            let text = event(size, "agent:pub", "channel/general").unwrap();
            assert_eq!(text.len(), size);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["target"], "channel/general");
            assert!(value["payload"].get("text").is_none());
        }
        assert!(event(20, "agent:pub", "core").is_err());
        assert!(text_event(256, "agent:pub", "core").unwrap().contains("\"text\":\"the quick"));
    }

    #[test]
    fn the_run_file() {
        let text = r#"{"listen":"127.0.0.1:9","admin_secret":"s","pid":1}"#;
        assert_eq!(told(text), Some(("127.0.0.1:9".parse().unwrap(), "s".to_owned())));
        assert_eq!(told("{"), None);
    }
}
