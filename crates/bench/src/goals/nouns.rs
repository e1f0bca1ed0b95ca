//! Rows of the nouns: a call of a tool beside a plain request with its reply, content in and out beside a copied file.

use crate::budget::{Budget, Length, Sample};
use crate::error::{BenchError, Doing};
use crate::goals::{Goal, carriers, per_cpu, wall};
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, ack_up_to, id_of, kind_of};
use crate::rialto::{Network, Rialto, http, ws};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const INVOKE: Goal = Goal {
    number: 14,
    name: "round trips of a tool vs plain request and reply",
    unit: "calls/cpu-s",
    bar: Bar::at_least(0.6, 0.8),
    larger: &[],
};
const UPLOAD: Goal = Goal {
    number: 15,
    name: "content: upload vs a copied file with fsync",
    unit: "MB/s",
    bar: Bar::at_least(0.5, 0.9),
    larger: &[],
};
const DOWNLOAD: Goal = Goal { name: "content: download vs a read file", bar: Bar::at_least(0.6, 0.9), ..UPLOAD };
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
        lab.step(format!("goal 14: round trips, pass {pass}"));
        let network = lab.network().await?;
        let length = lab.options.length();
        pairs.push(calls(lab.rialto().await?, &network, length).await?);
    }
    Ok(vec![INVOKE.compared(&per_cpu(&pairs)).noted(wall(&pairs))])
}

/// Calls of a tool, and plain requests with their replies.
pub(crate) async fn calls(node: &Rialto, network: &Network, length: Length) -> Result<(Sample, Sample), BenchError> {
    let mut caller = Agent::join(node.address, network, "caller", "").await?;
    let mut owner = Agent::join(node.address, network, "owner", "").await?;
    let schema = json!({ "input": { "n": "integer" } });
    owner.ask("network.resource.register", &json!({ "address": TOOL.target, "schema": schema })).await?;
    let calls = round_trips(&mut caller, &mut owner, TOOL, Budget::begin(node.pid(), length)?).await?;
    let plain = round_trips(&mut caller, &mut owner, PLAIN, Budget::begin(node.pid(), length)?).await?;
    caller.leave().await;
    owner.leave().await;
    Ok((calls, plain))
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
        lab.step(format!("goal 15: {} MiB, pass {pass}", size >> 20));
        let bytes = fresh_bytes(size, pass);
        let network = lab.network().await?;
        let ours = carried(lab.rialto().await?, &network, &bytes).await?;
        let copy = copied(&folder, &bytes)?;
        up.push((ours.0, rate(size, copy.0)));
        down.push((ours.1, rate(size, copy.1)));
    }
    Ok(vec![UPLOAD.compared(&up), DOWNLOAD.compared(&down)])
}

/// Different bytes each time: content that is there already is stored once.
pub(crate) fn fresh_bytes(size: usize, pass: usize) -> Vec<u8> {
    let seed = u64::try_from(pass).unwrap_or(1) ^ u64::from(std::process::id()) << 20;
    (0..size as u64 / 8).flat_map(|n| (n ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect()
}

/// MB a second.
fn rate(size: usize, time: Duration) -> f64 {
    size as f64 / 1e6 / time.as_secs_f64().max(1e-9)
}

/// MB a second of an upload, and of the download of the same bytes.
pub(crate) async fn carried(node: &Rialto, network: &Network, bytes: &[u8]) -> Result<(f64, f64), BenchError> {
    let session = carriers::join(node, network, "agent:content").await?;
    let path = format!("/v1/ws/{}/resources/file/bench", network.id);
    let began = Instant::now();
    http::call(node.address, "PUT", &path, Some(&session), Some(bytes)).await?.json()?;
    let put = began.elapsed();
    let began = Instant::now();
    let got = http::call(node.address, "GET", &path, Some(&session), None).await?;
    let get = began.elapsed();
    if got.status != 200 || got.body != bytes {
        return Err(BenchError::answer("what was downloaded is not what was uploaded"));
    }
    Ok((rate(bytes.len(), put), rate(bytes.len(), get)))
}

/// How long the bytes take from one file into another, to the disk; and how long to be read again.
fn copied(folder: &Path, bytes: &[u8]) -> Result<(Duration, Duration), BenchError> {
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
