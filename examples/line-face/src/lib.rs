//! An example of a face: agents that speak plain text, line by line, over TCP.
//!
//! | a client says | and is answered |
//! |---|---|
//! | `HELLO name token-or-session [observer]` | `WELCOME address session`; from then on mail comes as `MAIL seq id source answers text` |
//! | `SAY key target answers text` | `OK id seq`; the same key again is the same message |
//! | `ACK id …` | `OK how-many`; what is not acked comes again |
//! | `HISTORY channel` | `SAID seq id source answers text` for each message, oldest first, then `END` |
//! | `WHO` | `MEMBER address` for each, then `END` |
//!
//! `answers` is the id of the message that is answered, `key` a name of the sender's for its message; `-` stands for none. In a text, a line
//! break is written `\n`, a backslash `\\`. A refusal is `NO code what-is-wrong`, or `LATER …` if it may go well another time. What a client
//! says is UTF-8, at most 64 KiB a line.
//!
//! Not here: who may do what, what is kept and what comes again. That is the node's, as for every face.

use futures_util::{SinkExt, StreamExt};
use rialto_model::{ErrorCode, Event, EventId, Fault, Role};
use rialto_node::identity::Secret;
use rialto_node::{
    Arrival, Credentials, Draft, Filter, Hello, InboxOptions, Mailbox, NetworkRef, Node, Query, Session,
};
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LinesCodec};
use tokio_util::sync::CancellationToken;

const LINE_BYTES_MAX: usize = 64 * 1024;
const CONNECTIONS_MAX: usize = 1000;
/// Whoever does not say who it is, or does not read what it is told, is hung up on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves connections until it is told to stop. Whoever comes while there are too many waits.
pub async fn serve(listener: TcpListener, node: Node, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(Ok(place)) = stop.run_until_cancelled(places.clone().acquire_owned()).await {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { return };
        let Ok((stream, _)) = accepted else {
            // Out of files, most likely: it fails at once again until some are free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (node, stop) = (node.clone(), stop.clone());
        tokio::spawn(async move {
            let mut line = Line(Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES_MAX)));
            // Whatever ended it: what was not acked comes again, so there is nothing to put right.
            let _ = stop.run_until_cancelled(line.talk(&node)).await;
            drop(place);
        });
    }
}

/// The connection is over.
struct Gone;

/// What a client is told: nothing but lines, or why not.
type Told = Result<Vec<String>, Fault>;

struct Line(Framed<TcpStream, LinesCodec>);

impl Line {
    async fn talk(&mut self, node: &Node) -> Result<(), Gone> {
        let first = timeout(PATIENCE, self.0.next()).await.ok().flatten().and_then(Result::ok).ok_or(Gone)?;
        let mut mail = match welcome(node, &first).await {
            Ok((told, mail)) => {
                self.tell(vec![told]).await?;
                mail
            }
            // One try for each connection: who is not let in holds no place.
            Err(fault) => {
                self.tell(vec![refusal(&fault)]).await?;
                return Err(Gone);
            }
        };
        loop {
            tokio::select! {
                said = self.0.next() => {
                    let said = said.and_then(Result::ok).ok_or(Gone)?;
                    let told = obey(mail.session(), &said).await.unwrap_or_else(|fault| vec![refusal(&fault)]);
                    self.tell(told).await?;
                }
                arrival = mail.next() => match arrival {
                    Ok(Arrival::Mail(event, _)) => self.tell(vec![spoken("MAIL", &event)]).await?,
                    Ok(Arrival::Signal(_)) => {}
                    Err(fault) => {
                        self.tell(vec![refusal(&fault)]).await?;
                        return Err(Gone);
                    }
                },
            }
        }
    }

    async fn tell(&mut self, lines: Vec<String>) -> Result<(), Gone> {
        for line in lines {
            timeout(PATIENCE, self.0.send(line)).await.map_err(|_| Gone)?.map_err(|_| Gone)?;
        }
        Ok(())
    }
}

async fn welcome(node: &Node, line: &str) -> Result<(String, Mailbox), Fault> {
    let words: Vec<&str> = line.split(' ').collect();
    let (name, secret, role) = match *words.as_slice() {
        ["HELLO", name, secret] => (name, secret, None),
        ["HELLO", name, secret, "observer"] => (name, secret, Some(Role::Observer)),
        _ => return Err(Fault::new(ErrorCode::Unauthenticated, "say HELLO name token-or-session [observer] first")),
    };
    let credentials = Credentials { bearer: Some(Secret::presented(secret)), ..Credentials::default() };
    let hello = Hello { role, ..Hello::agent(name) };
    let session = node.open_session(&NetworkRef::ByCredential, &credentials, &hello, None).await?;
    let mail = session.inbox(&InboxOptions::default()).await?;
    let shown = session.secret().map(Secret::expose).unwrap_or_default();
    Ok((format!("WELCOME {} {shown}", session.address().unwrap_or(name)), mail))
}

async fn obey(session: &Session, line: &str) -> Told {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "SAY" => say(session, rest).await,
        "ACK" => {
            let ids = rest.split_whitespace().map(str::to_owned).collect();
            Ok(vec![format!("OK {}", session.ack(ids, None).await?)])
        }
        "HISTORY" => history(session, rest).await,
        "WHO" => {
            let members = session.members().await?;
            let lines = members.iter().map(|member| format!("MEMBER {}", member.address));
            Ok(lines.chain(["END".to_owned()]).collect())
        }
        _ => Err(Fault::new(ErrorCode::Unsupported, format!("{word:?} is none of SAY, ACK, HISTORY, WHO"))),
    }
}

async fn say(session: &Session, line: &str) -> Told {
    let mut words = line.splitn(4, ' ');
    let (Some(key), Some(target), Some(answers), Some(text)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Fault::new(ErrorCode::InvalidArgument, "SAY wants a key, a target, what it answers, and a text"));
    };
    let named = |word: &str| (word != "-").then(|| word.to_owned());
    let draft = Draft { key: named(key), in_reply_to: named(answers), ..Draft::message(target, &unescaped(text))? };
    let receipt = session.send(&draft).await?;
    Ok(vec![format!("OK {} {}", receipt.id, receipt.seq.unwrap_or_default())])
}

/// The newest page of a channel's messages, oldest first.
async fn history(session: &Session, channel: &str) -> Told {
    let filter = Filter { channel: Some(channel.to_owned()), descending: true, ..Filter::default() };
    let page = session.query(&Query { filter, limit: Some(500), ..Query::default() }).await?;
    let lines = page.events.iter().rev().map(|record| spoken("SAID", &record.event));
    Ok(lines.chain(["END".to_owned()]).collect())
}

fn refusal(fault: &Fault) -> String {
    let word = if fault.code.retryable() { "LATER" } else { "NO" };
    format!("{word} {} {}", fault.code, escaped(&fault.message))
}

/// An event as one line. What is no message is shown as the JSON that it is.
fn spoken(word: &str, event: &Event) -> String {
    #[derive(Deserialize)]
    struct Message<'t> {
        #[serde(borrow)]
        content: Cow<'t, str>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata<'t> {
        #[serde(borrow)]
        in_reply_to: Option<Cow<'t, str>>,
    }
    let text = serde_json::from_str::<Message<'_>>(event.payload()).map_or(event.payload().into(), |said| said.content);
    let answers = serde_json::from_str::<Metadata<'_>>(event.metadata()).unwrap_or_default().in_reply_to;
    let (seq, id, source) = (event.seq, event.id(), event.source());
    // Others may name anything there, a second line too.
    let answers = answers.as_deref().filter(|id| EventId::is_legal(id)).unwrap_or("-");
    format!("{word} {seq} {id} {source} {answers} {}", escaped(&text))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\\\").map(|part| part.replace("\\n", "\n").replace("\\r", "\r"));
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |whole, part| whole + "\\" + &part)
}
