//! Lines of a child process, bounded: for agents and mods that a node starts itself.

use bytes::Bytes;
use rialto_model::limits;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;

/// What a child says.
#[derive(Debug)]
pub enum ChildLine {
    /// One line, without its end.
    Text(Bytes),
    /// A line over the limit.
    TooLong,
    /// It says nothing more.
    End,
}

/// Reads up to a line feed; of a line over the limit the rest is skipped. Not cancel-safe: a cancelled read ends the talk.
pub async fn read_line(lines: &mut BufReader<ChildStdout>) -> std::io::Result<ChildLine> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let (used, done) = {
            let buf = lines.fill_buf().await?;
            if buf.is_empty() {
                return Ok(if line.is_empty() && !too_long { ChildLine::End } else { finished(line, too_long) });
            }
            let end = buf.iter().position(|b| *b == b'\n');
            let part = buf.get(..end.unwrap_or(buf.len())).unwrap_or_default();
            if line.len() + part.len() > limits::BATCH_BYTES_MAX {
                too_long = true;
                line.clear();
            } else if !too_long {
                line.extend_from_slice(part);
            }
            (end.map_or(buf.len(), |e| e + 1), end.is_some())
        };
        lines.consume(used);
        if done {
            return Ok(finished(line, too_long));
        }
    }
}

fn finished(mut line: Vec<u8>, too_long: bool) -> ChildLine {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    if too_long { ChildLine::TooLong } else { ChildLine::Text(Bytes::from(line)) }
}
