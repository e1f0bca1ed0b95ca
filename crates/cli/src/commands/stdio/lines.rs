//! Lines of standard input, bounded.

use rialto_model::limits;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};
use tokio::sync::mpsc;

/// What the program said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProgramLine {
    Text(String),
    /// Over the limit; the rest of it was skipped.
    TooLong,
    End,
}

/// Reads until the end of input, or until nobody listens any more.
pub(super) async fn read(mut input: impl AsyncBufRead + Unpin, lines: mpsc::Sender<ProgramLine>) {
    loop {
        let line = next(&mut input).await;
        let over = line == ProgramLine::End;
        if lines.send(line).await.is_err() || over {
            return;
        }
    }
}

async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> ProgramLine {
    let mut bytes: Vec<u8> = Vec::new();
    let mut too_long = false;
    loop {
        // Input that cannot be read is input that has ended.
        let Ok(chunk) = input.fill_buf().await else { return ProgramLine::End };
        if chunk.is_empty() {
            return if bytes.is_empty() && !too_long { ProgramLine::End } else { finished(bytes, too_long) };
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        if bytes.len() + part.len() > limits::BATCH_BYTES_MAX {
            too_long = true;
            bytes.clear();
        }
        if !too_long {
            bytes.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return finished(bytes, too_long);
        }
    }
}

fn finished(bytes: Vec<u8>, too_long: bool) -> ProgramLine {
    if too_long {
        return ProgramLine::TooLong;
    }
    // Bytes that are not UTF-8 reach the node as replacement characters; inside JSON it says where.
    let mut text = String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    if text.ends_with('\r') {
        text.pop();
    }
    ProgramLine::Text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8]) -> Vec<ProgramLine> {
        let (sender, mut lines) = mpsc::channel(100);
        read(tokio::io::BufReader::with_capacity(7, input), sender).await;
        let mut out = Vec::new();
        while let Some(line) = lines.recv().await {
            out.push(line);
        }
        out
    }

    #[tokio::test]
    async fn lines_with_and_without_ends() {
        let text = |t: &str| ProgramLine::Text(t.to_owned());
        assert_eq!(all(b"").await, [ProgramLine::End]);
        assert_eq!(
            all(b"{\"a\":1}\r\n\nlast line").await,
            [text("{\"a\":1}"), text(""), text("last line"), ProgramLine::End]
        );
    }

    #[tokio::test]
    async fn batch_bytes_max_is_enforced_and_the_next_line_survives() {
        let mut input = vec![b'x'; limits::BATCH_BYTES_MAX + 1];
        input.extend_from_slice(b"\nok\n");
        assert_eq!(all(&input).await, [ProgramLine::TooLong, ProgramLine::Text("ok".into()), ProgramLine::End]);
        let fits = vec![b'x'; limits::BATCH_BYTES_MAX];
        assert!(matches!(&all(&fits).await[0], ProgramLine::Text(text) if text.len() == limits::BATCH_BYTES_MAX));
    }
}
