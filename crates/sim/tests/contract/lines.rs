//! A driver of the example face: one member that speaks lines over TCP.

use rialto_sim::contract::{Answer, Carries, Draft, Driver, Got, Place, Receipt, Refused};
use rialto_sim::harness::PATIENCE;
use serde_json::json;
use std::collections::VecDeque;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

#[derive(Debug)]
struct Connection {
    lines: Lines<BufReader<OwnedReadHalf>>,
    out: OwnedWriteHalf,
}

#[derive(Debug)]
pub(crate) struct LineMember {
    address: String,
    role: &'static str,
    /// What it is let in with, once it has been there.
    session: Option<String>,
    connection: Option<Connection>,
    /// Mail that came between an order and its answer.
    waiting: VecDeque<Got>,
}

impl LineMember {
    pub(crate) fn new(name: &str, role: &'static str) -> LineMember {
        LineMember { address: format!("agent:{name}"), role, session: None, connection: None, waiting: VecDeque::new() }
    }

    async fn line(&mut self) -> Result<String, String> {
        let connection = self.connection.as_mut().ok_or("it is not connected")?;
        let line = timeout(PATIENCE, connection.lines.next_line()).await.map_err(|_| "no line came")?;
        line.map_err(|e| e.to_string())?.ok_or_else(|| "the node hung up".to_owned())
    }

    /// Says a line; the next line that is no mail is the answer.
    async fn order(&mut self, line: &str) -> Result<String, String> {
        let connection = self.connection.as_mut().ok_or("it is not connected")?;
        connection.out.write_all(format!("{line}\n").as_bytes()).await.map_err(|e| e.to_string())?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<String, String> {
        loop {
            let line = self.line().await?;
            match line.strip_prefix("MAIL ") {
                Some(mail) => self.waiting.push_back(message(mail)?),
                None => return Ok(line),
            }
        }
    }

    /// Lines with this word, up to the end.
    async fn list(&mut self, order: &str, word: &str) -> Answer<Vec<String>> {
        let mut line = self.order(order).await?;
        let mut all = Vec::new();
        while line != "END" {
            match line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' ')) {
                Some(rest) => all.push(rest.to_owned()),
                None => return refused(&line, "").map(Err),
            }
            line = self.answer().await?;
        }
        Ok(Ok(all))
    }
}

/// `seq id source answers text`.
fn message(line: &str) -> Result<Got, String> {
    let words: Vec<&str> = line.splitn(5, ' ').collect();
    let [_seq, id, source, answers, text] = *words.as_slice() else { return Err(format!("no message: {line}")) };
    let metadata = if answers == "-" { json!({}) } else { json!({ "in_reply_to": answers }) };
    let text = text.replace("\\n", "\n").replace("\\\\", "\\");
    let (kind, target, network, visibility) = Default::default();
    Ok(Got {
        id: id.to_owned(),
        source: source.to_owned(),
        metadata,
        payload: json!({ "content": text }).to_string(),
        kind,
        target,
        network,
        visibility,
        timestamp: 0,
    })
}

fn refused(line: &str, event: &str) -> Result<Refused, String> {
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next()) {
        (Some(word @ ("NO" | "LATER")), Some(code)) => {
            Ok(Refused { code: code.to_owned(), event_id: event.to_owned(), retryable: word == "LATER" })
        }
        _ => Err(format!("the node said {line:?}")),
    }
}

impl Driver for LineMember {
    fn address(&self) -> &str {
        &self.address
    }

    fn carries(&self) -> Carries {
        Carries::Text
    }

    async fn connect(&mut self, place: &Place) -> Answer<()> {
        let address = std::fs::read_to_string(place.data.join("lines")).map_err(|e| e.to_string())?;
        let (input, out) = TcpStream::connect(address).await.map_err(|e| e.to_string())?.into_split();
        self.connection = Some(Connection { lines: BufReader::new(input).lines(), out });
        let secret = self.session.clone().unwrap_or_else(|| place.token.clone());
        let role = if self.role == "observer" { " observer" } else { "" };
        let hello = format!("HELLO {} {secret}{role}", self.address);
        let line = self.order(&hello).await?;
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["WELCOME", address, session] if address == self.address => {
                self.session = Some(session.to_owned());
                Ok(Ok(()))
            }
            _ => refused(&line, "").map(Err),
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.waiting.clear();
    }

    async fn send(&mut self, draft: &Draft) -> Answer<Receipt> {
        let metadata: serde_json::Value = serde_json::from_str(&draft.metadata).map_err(|e| e.to_string())?;
        let answers = metadata["in_reply_to"].as_str().unwrap_or("-");
        let text = draft.text().replace('\\', "\\\\").replace('\n', "\\n");
        let line = self.order(&format!("SAY {} {} {answers} {text}", draft.id, draft.target)).await?;
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["OK", id, seq] => {
                Ok(Ok(Receipt { id: id.to_owned(), seq: seq.parse().map_err(|_| format!("no position: {line}"))? }))
            }
            _ => refused(&line, &draft.id).map(Err),
        }
    }

    async fn next(&mut self) -> Result<Got, String> {
        if let Some(mail) = self.waiting.pop_front() {
            return Ok(mail);
        }
        let line = self.line().await?;
        message(line.strip_prefix("MAIL ").ok_or_else(|| format!("no mail: {line}"))?)
    }

    async fn ack(&mut self, events: &[Got]) -> Result<(), String> {
        let ids: Vec<&str> = events.iter().map(|got| got.id.as_str()).collect();
        let line = self.order(&format!("ACK {}", ids.join(" "))).await?;
        if line.starts_with("OK ") { Ok(()) } else { Err(format!("an ack was answered {line:?}")) }
    }

    async fn history(&mut self, channel: &str) -> Answer<Vec<Got>> {
        Ok(match self.list(&format!("HISTORY {channel}"), "SAID").await? {
            Ok(lines) => Ok(lines.iter().map(|line| message(line)).collect::<Result<_, _>>()?),
            Err(refused) => Err(refused),
        })
    }

    async fn members(&mut self) -> Answer<Vec<String>> {
        self.list("WHO", "MEMBER").await
    }
}
