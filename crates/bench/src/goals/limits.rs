//! What the machine itself can do, and goal 4: how near one publish with its ack comes to a flush and a round trip.

use super::Goal;
use crate::drive::{Load, Socket};
use crate::error::{BenchError, Doing};
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, Publisher};
use crate::rialto::{Network, Rialto, event, ws};
use crate::stats::percentile;
use bytes::Buf;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const GOAL: Goal = Goal {
    number: 4,
    name: "publish-ack p50, one in flight, vs fdatasync + ping-pong",
    unit: "µs",
    bar: Bar::at_most(1.2, 0.8),
    larger: &[],
};
/// Written before each flush: a page, the least a disk takes.
const PAGE: usize = 4096;
/// The preallocated file: its blocks exist and are reused, as those of a recycled segment.
const RECYCLED_BYTES: u64 = 16 << 20;

/// Loopback, one way and to and fro; flushes of a growing and of a recycled file. With goal 4 also ours beside them.
pub(crate) async fn run(lab: &mut Lab<'_>, with_goal: bool) -> Result<Vec<Row>, BenchError> {
    let millis = lab.options.scaled(1000, 400, 20);
    let (passes, time) = (lab.options.passes(), Duration::from_millis(millis));
    let (mut growing, mut recycled, mut pongs, mut pairs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let folder = lab.place().folder("limits")?;
    let mut rows = Vec::new();
    for size in lab.options.sizes().iter().copied() {
        let mut rates = Vec::new();
        for pass in 1..=passes {
            lab.step(format!("limits: loopback one way, {size} B, pass {pass}"));
            rates.push(blocking(move || one_way(size, time)).await?);
        }
        rows.push(Row::plain("loopback one way, 64 KiB writes", "msg/s", &rates).sized(size));
    }
    let network = if with_goal { Some(lab.network().await?) } else { None };
    for pass in 1..=passes {
        lab.step(format!("limits: flushes and round trips, pass {pass}"));
        let file = folder.join("growing");
        let grows = blocking(move || flushes(&file, None, time)).await?;
        let pong = ping_pong(256, time).await?;
        if let Some(network) = &network {
            let name = lab.name("one");
            let ours = publish_ack(lab.rialto().await?, network, &name, 256, time).await?;
            pairs.push((ours, grows + pong));
        }
        let file = folder.join("recycled");
        recycled.push(blocking(move || flushes(&file, Some(RECYCLED_BYTES), time)).await?);
        growing.push(grows);
        pongs.push(pong);
    }
    rows.push(Row::plain("loopback ping-pong p50", "µs", &pongs).sized(256));
    rows.push(Row::plain("fdatasync p50, growing file", "µs", &growing));
    rows.push(Row::plain("fdatasync p50, recycled file", "µs", &recycled));
    if with_goal {
        rows.insert(0, GOAL.compared(&pairs).sized(256));
    }
    Ok(rows)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| BenchError::answer(format!("a measurement ended badly: {e}")))?
}

/// Microseconds of the median of nanosecond samples.
fn p50_micros(samples: &[u64]) -> f64 {
    percentile(samples, 0.5).unwrap_or_default() as f64 / 1e3
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Messages per second through a loopback connection.
fn one_way(size: usize, time: Duration) -> Result<f64, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").doing("listen on loopback")?;
    let address = listener.local_addr().doing("listen on loopback")?;
    let sink = std::thread::spawn(move || -> std::io::Result<u64> {
        let (mut socket, _) = listener.accept()?;
        let (mut buffer, mut all) = (vec![0; 256 << 10], 0);
        loop {
            match socket.read(&mut buffer)? {
                0 => return Ok(all),
                n => all += n as u64,
            }
        }
    });
    let mut socket = std::net::TcpStream::connect(address).doing("connect to loopback")?;
    let chunk = vec![b'x'; (64 << 10) / size * size];
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..16 {
            socket.write_all(&chunk).doing("write to loopback")?;
        }
    }
    drop(socket);
    let all = sink.join().map_err(|_| BenchError::answer("the reader of loopback ended badly"))?;
    let all = all.doing("read from loopback")?;
    Ok(all as f64 / size as f64 / began.elapsed().as_secs_f64())
}

/// p50 of writing a page and flushing it, in microseconds. `recycled`: into a file that has had its bytes before.
fn flushes(path: &PathBuf, recycled: Option<u64>, time: Duration) -> Result<f64, BenchError> {
    let doing = || format!("write {}", path.display());
    let mut file = File::create(path).doing(doing())?;
    for _ in 0..recycled.unwrap_or(0) >> 20 {
        file.write_all(&vec![7; 1 << 20]).doing(doing())?;
    }
    file.sync_all().doing(doing())?;
    let (page, mut samples, mut at) = (vec![9; PAGE], Vec::new(), 0);
    let began = Instant::now();
    while began.elapsed() < time || samples.len() < 3 {
        let one = Instant::now();
        file.write_all_at(&page, at).doing(doing())?;
        file.sync_data().doing(doing())?;
        samples.push(nanos(one));
        at += PAGE as u64;
        at = recycled.map_or(at, |all| at % all);
    }
    std::fs::remove_file(path).doing(doing())?;
    Ok(p50_micros(&samples))
}

/// p50 of a message to another thread and back, in microseconds.
async fn ping_pong(size: usize, time: Duration) -> Result<f64, BenchError> {
    let address = echo()?;
    let mut socket = Socket::connect(address).await?;
    let (message, mut samples) = (vec![b'x'; size], Vec::new());
    let began = Instant::now();
    while began.elapsed() < time || samples.len() < 3 {
        let one = Instant::now();
        socket.write(&message).await?;
        while socket.input.len() < size {
            socket.read().await?;
        }
        socket.input.advance(size);
        samples.push(nanos(one));
    }
    Ok(p50_micros(&samples))
}

/// A thread that sends back what it gets, until the other side is gone.
fn echo() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").doing("listen on loopback")?;
    let address = listener.local_addr().doing("listen on loopback")?;
    std::thread::spawn(move || -> std::io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            match socket.read(&mut buffer)? {
                0 => return Ok(()),
                n => socket.write_all(buffer.get(..n).unwrap_or_default())?,
            }
        }
    });
    Ok(address)
}

/// p50 of one event and its ack, in microseconds, nothing else on its way.
pub(crate) async fn publish_ack(
    node: &Rialto,
    network: &Network,
    name: &str,
    size: usize,
    time: Duration,
) -> Result<f64, BenchError> {
    let mut agent = Agent::join(node.address, network, name, "").await?;
    let frame = ws::text(event(size, &format!("agent:{name}"), "channel/general")?.as_bytes());
    let (mut load, mut out, mut samples) = (Publisher::new(false), Vec::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed() < time || samples.len() < 3 {
        let (one, wanted) = (Instant::now(), load.done() + 1);
        agent.socket.write(&frame).await?;
        while load.done() < wanted {
            agent.socket.read().await?;
            load.take(&mut agent.socket.input, &mut out)?;
        }
        samples.push(nanos(one));
        if !out.is_empty() {
            agent.socket.write(&out).await?;
            out.clear();
        }
    }
    Ok(p50_micros(&samples))
}
