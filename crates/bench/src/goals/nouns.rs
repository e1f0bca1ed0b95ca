//! Rows of the nouns: a call of a tool beside a plain request with its reply, content in and out beside a copied file.

use crate::budget::{Budget, Sample};
use crate::error::{BenchError, Doing};
use crate::goals::{per_cpu, wall};
use crate::lab::Lab;
use crate::report::Row;
use crate::rialto::stream::{Agent, ack_up_to, id_of, kind_of};
use crate::rialto::{Network, Rialto, http, ws};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

/// Calls on their way at most.
const CALLS: u64 = 128;

/// What is asked, and how it is answered.
#[derive(Debug, Clone, Copy)]
struct Talk {
    target: &'static str,
    ask: &'static str,
    answer: &'static str,
}

const TOOL: Talk =
    Talk { target: "resource/tool/bench", ask: "network.resource.invoke", answer: "network.resource.invoke.result" };
const PLAIN: Talk = Talk { target: "agent:owner", ask: "app.asked", answer: "app.answered" };

/// Round trips of calls and of plain requests, per CPU second of the node.
pub(crate) async fn invoke(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let mut pairs = Vec::new();
    for pass in 1..=lab.options.passes() {
        lab.step(format!("invoke: round trips, pass {pass}"));
        let network = lab.network().await?;
        let length = lab.options.length();
        let node = lab.rialto().await?;
        let mut caller = Agent::join(node.address, &network, "caller", "").await?;
        let mut owner = Agent::join(node.address, &network, "owner", "").await?;
        let schema = json!({ "input": { "n": "integer" } });
        owner.ask("network.resource.register", &json!({ "address": TOOL.target, "schema": schema })).await?;
        let calls = round_trips(&mut caller, &mut owner, TOOL, Budget::begin(node.pid(), length)?).await?;
        let plain = round_trips(&mut caller, &mut owner, PLAIN, Budget::begin(node.pid(), length)?).await?;
        pairs.push((calls, plain));
        caller.leave().await;
        owner.leave().await;
    }
    let row = Row::beside("invoke: round trips of a tool vs plain request and reply", "calls/cpu-s", &per_cpu(&pairs));
    Ok(vec![row.noted(wall(&pairs))])
}

/// Asks with a window, answers everything, until the budget is spent and all is answered.
async fn round_trips(
    caller: &mut Agent,
    owner: &mut Agent,
    talk: Talk,
    mut budget: Budget,
) -> Result<Sample, BenchError> {
    let (mut asked, mut answered) = (0, 0);
    loop {
        let mut out = Vec::new();
        while asked - answered < CALLS && !budget.spent()? {
            let text = format!(
                r#"{{"id":"q{}-{asked}","type":"{}","target":"{}","payload":{{"n":{asked}}}}}"#,
                talk.ask.len(),
                talk.ask,
                talk.target
            );
            out.extend_from_slice(&ws::text(text.as_bytes()));
            asked += 1;
        }
        if asked == answered {
            return budget.end(answered);
        }
        caller.socket.write(&out).await?;
        let mut replies = Vec::new();
        tokio::select! {
            heard = owner.heard() => {
                let mut last = Vec::new();
                for body in heard?.iter().filter(|body| kind_of(body) == talk.ask.as_bytes()) {
                    let id = String::from_utf8_lossy(id_of(body)).into_owned();
                    let text = format!(
                        r#"{{"type":"{}","target":"agent:caller","payload":{{"n":1}},"metadata":{{"in_reply_to":"{id}"}}}}"#,
                        talk.answer
                    );
                    replies.extend_from_slice(&ws::text(text.as_bytes()));
                    last = id.into_bytes();
                }
                if !last.is_empty() {
                    replies.extend_from_slice(&ack_up_to(&last));
                }
                owner.socket.write(&replies).await?;
            }
            heard = caller.heard() => {
                let mut last = Vec::new();
                for body in heard?.iter().filter(|body| kind_of(body) == talk.answer.as_bytes()) {
                    answered += 1;
                    last = id_of(body).to_vec();
                }
                if !last.is_empty() {
                    caller.socket.write(&ack_up_to(&last)).await?;
                }
            }
        }
    }
}

/// Content uploaded and downloaded over HTTP beside the same bytes copied from file to file, flushed.
pub(crate) async fn content(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let size = usize::try_from(lab.options.scaled(256 << 20, 64 << 20, 1 << 20)).unwrap_or(1 << 20);
    let folder = lab.place().folder("content")?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for pass in 1..=lab.options.passes() {
        lab.step(format!("content: {} MiB, pass {pass}", size >> 20));
        // Different bytes each time: content that is there already is stored once.
        let seed = u64::try_from(pass).unwrap_or(1) ^ u64::from(std::process::id()) << 20;
        let bytes: Vec<u8> =
            (0..size as u64 / 8).flat_map(|n| (n ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
        let network = lab.network().await?;
        let node = lab.rialto().await?;
        let session = join(node, &network).await?;
        let path = format!("/v1/ws/{}/resources/file/bench{pass}", network.id);
        let began = Instant::now();
        http::call(node.address, "PUT", &path, Some(&session), Some(&bytes)).await?.json()?;
        let put = began.elapsed();
        let began = Instant::now();
        let got = http::call(node.address, "GET", &path, Some(&session), None).await?;
        let get = began.elapsed();
        if got.status != 200 || got.body != bytes {
            return Err(BenchError::answer("what was downloaded is not what was uploaded"));
        }
        let copy = copied(&folder, &bytes)?;
        let rate = |time: std::time::Duration| size as f64 / 1e6 / time.as_secs_f64().max(1e-9);
        up.push((rate(put), rate(copy.0)));
        down.push((rate(get), rate(copy.1)));
    }
    Ok(vec![
        Row::beside("content: upload vs a copied file with fsync", "MB/s", &up),
        Row::beside("content: download vs a read file", "MB/s", &down),
    ])
}

/// The session of a member.
async fn join(node: &Rialto, network: &Network) -> Result<String, BenchError> {
    let body = json!({ "agent_id": "agent:content" }).to_string();
    let path = format!("/v1/ws/{}/join", network.id);
    let answer = http::call(node.address, "POST", &path, Some(&network.token), Some(body.as_bytes())).await?.json()?;
    let session = answer.get("data").and_then(|data| data.get("session_id")).and_then(serde_json::Value::as_str);
    session.map(str::to_owned).ok_or_else(|| BenchError::answer("a join without a session"))
}

/// How long the bytes take from one file into another, to the disk; and how long to be read again.
fn copied(folder: &Path, bytes: &[u8]) -> Result<(std::time::Duration, std::time::Duration), BenchError> {
    let (from, to) = (folder.join("from"), folder.join("to"));
    std::fs::write(&from, bytes).doing("write a file")?;
    let began = Instant::now();
    let mut source = File::open(&from).doing("open a file")?;
    let mut target = File::create(&to).doing("make a file")?;
    let mut piece = vec![0; 64 << 10];
    loop {
        let n = source.read(&mut piece).doing("read a file")?;
        if n == 0 {
            break;
        }
        target.write_all(piece.get(..n).unwrap_or_default()).doing("write a file")?;
    }
    target.sync_data().doing("flush a file")?;
    let copied = began.elapsed();
    let began = Instant::now();
    let mut again = Vec::with_capacity(bytes.len());
    File::open(&to).doing("open a file")?.read_to_end(&mut again).doing("read a file")?;
    Ok((copied, began.elapsed()))
}
