//! A connection that pushes, read by a task of its own: drafts out, events in.
//!
//! The task answers pings while its member does something else. It reads a few events ahead and then no more, so that a
//! member that reads nothing is a slow reader for the node as well.

use super::event::{Draft, Got};
use crate::harness::{Line, Sse};
use tokio::sync::mpsc;

/// Events that are read before their member asks for them.
const READ_AHEAD: usize = 64;

/// An open conversation. Dropped, the connection is gone.
#[derive(Debug)]
pub(super) struct Conversation {
    out: mpsc::UnboundedSender<Draft>,
    incoming: mpsc::Receiver<Result<Got, String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Conversation {
    /// Over a connection that sends and receives.
    pub(super) fn over(mut line: Line) -> Conversation {
        Conversation::of(|mut outgoing, tell| async move {
            loop {
                tokio::select! {
                    draft = outgoing.recv() => match draft {
                        Some(draft) => line.send_draft(&draft).await?,
                        None => return Ok(()),
                    },
                    got = line.next_got() => match tell.send(Ok(got?)).await {
                        Ok(()) => {}
                        Err(_) => return Ok(()),
                    },
                }
            }
        })
    }

    /// Over an open SSE stream; nothing can be sent.
    pub(super) fn listening(mut sse: Sse) -> Conversation {
        Conversation::of(|_, tell| async move {
            loop {
                let event = sse.try_next().await.ok_or("the stream has ended")?;
                if tell.send(Got::of_json(&event.text)).await.is_err() {
                    return Ok(());
                }
            }
        })
    }

    fn of<F: Future<Output = Result<(), String>> + Send + 'static>(
        run: impl FnOnce(mpsc::UnboundedReceiver<Draft>, mpsc::Sender<Result<Got, String>>) -> F,
    ) -> Conversation {
        let (out, outgoing) = mpsc::unbounded_channel();
        let (tell, incoming) = mpsc::channel(READ_AHEAD);
        let work = run(outgoing, tell.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = work.await {
                tell.send(Err(error)).await.ok();
            }
        });
        Conversation { out, incoming, task }
    }

    /// Sends an event; fails when the connection is gone.
    pub(super) fn send(&self, draft: &Draft) -> Result<(), String> {
        self.out.send(draft.clone()).map_err(|_| "the connection is gone".to_owned())
    }

    /// The next event; fails when the connection is gone. Nothing is lost when this is dropped.
    pub(super) async fn next(&mut self) -> Result<Got, String> {
        self.incoming.recv().await.ok_or("the connection is gone")?
    }
}
