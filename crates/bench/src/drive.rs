//! Sends a ring of messages as fast as a window allows, reading at the same time, so that neither side can block the other.

use crate::budget::Budget;
use crate::error::{BenchError, Doing};
use crate::ring::Ring;
use bytes::BytesMut;
use std::future::pending;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Bytes written or read at once, at most.
const AT_ONCE: u64 = 256 << 10;
/// Silence of a server that is longer than this is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// One connection of a load, with what was read and not yet understood.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) tcp: TcpStream,
    pub(crate) input: BytesMut,
}

impl Socket {
    pub(crate) async fn connect(address: std::net::SocketAddr) -> Result<Socket, BenchError> {
        let tcp = TcpStream::connect(address).await.doing(format!("connect to {address}"))?;
        tcp.set_nodelay(true).doing("set up a connection")?;
        Ok(Socket { tcp, input: BytesMut::new() })
    }

    /// Writes everything; for what is small or outside of a measurement.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        use tokio::io::AsyncWriteExt;
        self.tcp.write_all(bytes).await.doing("write to a server")
    }

    /// Reads once, waiting for something to come.
    pub(crate) async fn read(&mut self) -> Result<(), BenchError> {
        use tokio::io::AsyncReadExt;
        self.room();
        let read = tokio::time::timeout(PATIENCE, self.tcp.read_buf(&mut self.input)).await;
        match read.map_err(|_| BenchError::Timeout("an answer".to_owned()))?.doing("read from a server")? {
            0 => Err(BenchError::answer("the server closed a connection")),
            _ => Ok(()),
        }
    }

    fn room(&mut self) {
        if self.input.capacity() - self.input.len() < 64 << 10 {
            self.input.reserve(AT_ONCE as usize);
        }
    }

    /// Reads what is there; gives whether anything was.
    fn read_now(&mut self) -> Result<bool, BenchError> {
        self.room();
        match self.tcp.try_read_buf(&mut self.input) {
            Ok(0) => Err(BenchError::answer("the server closed a connection")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).doing("read from a server"),
        }
    }

    fn write_now(&self, bytes: &[u8]) -> Result<usize, BenchError> {
        match self.tcp.try_write(bytes) {
            Ok(n) => Ok(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error).doing("write to a server"),
        }
    }
}

/// What a load knows of its progress.
pub(crate) trait Load {
    /// Takes what was read and understands what it can. What it puts into `out` is sent between two messages.
    fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError>;
    /// Messages that are done with, so that others may follow.
    fn done(&self) -> u64;
    /// Is told when others have made progress.
    fn news(&self) -> Option<&Notify> {
        None
    }
}

/// Sends until the budget is spent (or `most` messages are sent), with at most `window` messages not done with, and
/// waits for the last of them. Gives how many were sent.
pub(crate) async fn drive(
    socket: &mut Socket,
    ring: &Ring,
    window: u64,
    most: Option<u64>,
    load: &mut impl Load,
    budget: &mut Budget,
) -> Result<u64, BenchError> {
    let length = ring.length();
    let (mut bytes, mut out) = (0u64, Vec::new());
    let first = load.done();
    let mut last = tokio::time::Instant::now();
    loop {
        let done = load.done() - first;
        let begun = bytes.div_ceil(length);
        let stop = begun > 0 && budget.spent()? || most.is_some_and(|most| begun >= most);
        if stop && bytes % length == 0 && out.is_empty() && done >= begun {
            return Ok(begun);
        }
        // Up to here messages may go out; a begun one is always finished.
        let may = if stop { begun } else { (done + window).min(most.unwrap_or(u64::MAX)).max(begun) };
        let boundary = begun * length;
        let ready_bytes = if !out.is_empty() && bytes < boundary { boundary - bytes } else { may * length - bytes };
        let wants = ready_bytes > 0 || !out.is_empty();
        let interest = if wants { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let news = async {
            match load.news() {
                Some(news) => news.notified().await,
                None => pending().await,
            }
        };
        let ready = tokio::select! {
            ready = socket.tcp.ready(interest) => Some(ready.doing("wait for a server")?),
            () = news => None,
            () = tokio::time::sleep_until(last + PATIENCE) => {
                return Err(BenchError::Timeout(format!("an answer ({done} of {begun} done)")));
            }
        };
        if load.done() - first > done {
            last = tokio::time::Instant::now();
        }
        let Some(ready) = ready else { continue };
        if ready.is_readable() && socket.read_now()? {
            last = tokio::time::Instant::now();
            load.take(&mut socket.input, &mut out)?;
        }
        if ready.is_writable() && wants {
            if !out.is_empty() && bytes == boundary {
                let n = socket.write_now(&out)?;
                out.drain(..n);
            } else {
                bytes += socket.write_now(ring.after(bytes, ready_bytes.min(AT_ONCE)))? as u64;
            }
        }
    }
}
