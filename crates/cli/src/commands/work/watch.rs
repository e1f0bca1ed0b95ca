//! `rialto work watch`: one line per event of a unit, up to its end, over restarts of the node.

use super::{WorkArg, explained};
use crate::context::{Context, Voice};
use crate::exit::CliError;
use crate::render::work;
use clap::Args;
use rialto_client::WorkEvent;
use rialto_model::WorkState;
use serde_json::Value;
use std::time::{Duration, Instant};

/// One long poll.
const POLL: Duration = Duration::from_secs(20);
/// Between attempts to reach a node that is away.
const RETRY: Duration = Duration::from_millis(500);

/// Arguments of `work watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    which: WorkArg,
    /// Give up after this long, with exit 7
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

impl Watch {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        let mut voice = cx.member().await?;
        let (zone, out) = (cx.zone.clone(), &mut cx.out);
        let show = |event: &WorkEvent| out.show(event, |event, paint| work::line(event, &zone, paint));
        follow(&mut voice, &self.which.id, self.timeout.map(Duration::from_secs), false, show).await
    }
}

/// Shows every event of a unit from the first on. Ends well when the unit is completed; with `asks`, also as soon as it
/// waits for the requester, who is the one who waits here.
pub(super) async fn follow(
    voice: &mut Voice,
    id: &str,
    patience: Option<Duration>,
    asks: bool,
    mut show: impl FnMut(&WorkEvent) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let started = Instant::now();
    let mut after: Option<String> = None;
    let mut state: Option<WorkState> = None;
    loop {
        let left = patience.map(|patience| patience.saturating_sub(started.elapsed()));
        let poll = left.map_or(POLL, |left| left.min(POLL));
        // Whole seconds, so that the last part of one is not spent in a tight loop.
        let wait = poll.as_secs().max(u64::from(!poll.is_zero()));
        let page = voice.call(async |http| http.work_events(id, after.as_deref(), None, Some(wait)).await).await;
        let page = match page {
            Ok(page) => page,
            // It was reached before: it stops, or starts again.
            Err(error) if error.is_unavailable() && after.is_some() && left != Some(Duration::ZERO) => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
            Err(error) => return Err(explained(error)),
        };
        for event in &page.events {
            show(event)?;
            state = event.state.as_deref().and_then(WorkState::from_wire).or(state);
        }
        after = Some(page.next_cursor);
        if page.has_more {
            continue;
        }
        if page.ended {
            return ended(voice, id).await;
        }
        if asks && state.is_some_and(WorkState::waits) {
            return Err(CliError::timeout(format!("{id} waits for you"))
                .next(format!("answer with: rialto work answer {id} TEXT")));
        }
        if left == Some(Duration::ZERO) {
            let seconds = patience.unwrap_or_default().as_secs();
            return Err(CliError::timeout(format!("{id} has not ended within {seconds} s"))
                .next(format!("it goes on all the same; `rialto work watch {id}` follows it")));
        }
    }
}

/// How the unit ended, as an exit code.
async fn ended(voice: &mut Voice, id: &str) -> Result<(), CliError> {
    let unit = voice.call(async |http| http.work(id).await).await.map_err(explained)?;
    let text = |name: &str| unit.get(name).and_then(Value::as_str).unwrap_or_default();
    match outcome(id, text("state"), text("error")) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The one table from ends to failures: completed is none.
fn outcome(id: &str, state: &str, error: &str) -> Option<CliError> {
    let message = |what: &str| if error.is_empty() { format!("{id} {what}") } else { format!("{id} {what}: {error}") };
    match (WorkState::from_wire(state)?, error) {
        (WorkState::Completed, _) => None,
        (WorkState::Failed, "timeout") => Some(CliError::timeout(message("failed"))),
        (WorkState::Failed, _) => Some(CliError::internal(message("failed"))),
        (WorkState::Rejected, _) => Some(CliError::denied(message("was rejected"))),
        (WorkState::Canceled, _) => Some(CliError::conflict(message("was canceled"))),
        (WorkState::Submitted | WorkState::Working | WorkState::InputRequired | WorkState::AuthRequired, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_their_exits() {
        let exit = |state: &str, error: &str| outcome("w", state, error).map_or(0, |e| e.exit as u8);
        let table = [
            ("completed", "", 0),
            ("failed", "", 1),
            ("failed", "owner_unavailable", 1),
            ("failed", "timeout", 7),
            ("rejected", "", 4),
            ("canceled", "parent_ended", 5),
        ];
        for (state, error, code) in table {
            assert_eq!(exit(state, error), code, "{state} {error}");
        }
    }
}
