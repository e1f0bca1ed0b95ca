//! `rialto work …`: work units. Whoever asks uses `new`, `answer` and `cancel`; whoever does the work uses `take`,
//! `update`, `artifact`, `complete`, `fail` and `reject`; everybody uses `list`, `show`, `watch` and `fetch`.

mod act;
mod artifact;
mod list;
mod new;
mod watch;

use crate::context::Context;
use crate::exit::CliError;
use act::{Answer, Cancel, Closing, Update};
use clap::{Args, Subcommand};

/// Verbs of `work`.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "watch and new --wait exit with 0 when the work is completed, 1 failed, 4 rejected, 5 canceled, \
                        7 when its time ran out or yours."
)]
pub(crate) enum Work {
    /// Ask a member, a channel or whoever has a skill for something
    New(new::New),
    /// List work units, newest first
    List(list::List),
    /// Show one work unit and what happened to it
    Show(list::Show),
    /// Follow a work unit to its end
    Watch(watch::Watch),
    /// Answer what the executor asked
    Answer(Answer),
    /// Call a work unit off
    Cancel(Cancel),
    /// Take a work unit, or begin with it
    Take(WorkArg),
    /// Say how far a work unit is
    Update(Update),
    /// Hand over a file
    Artifact(artifact::Artifact),
    /// Take what was handed over
    Fetch(artifact::Fetch),
    /// Say that a work unit is done
    Complete(Closing),
    /// Say that a work unit cannot be done
    Fail(Closing),
    /// Refuse a work unit
    Reject(Closing),
}

/// A unit.
#[derive(Debug, Args)]
pub(crate) struct WorkArg {
    /// Id of the unit, or the name you gave it
    id: String,
}

impl Work {
    pub(crate) async fn run(self, cx: &mut Context) -> Result<(), CliError> {
        match self {
            Work::New(new) => new.run(cx).await,
            Work::List(list) => list.run(cx).await,
            Work::Show(show) => show.run(cx).await,
            Work::Watch(watch) => watch.run(cx).await,
            Work::Answer(answer) => answer.run(cx).await,
            Work::Cancel(cancel) => cancel.run(cx).await,
            Work::Take(which) => act::take(cx, &which.id).await,
            Work::Update(update) => update.run(cx).await,
            Work::Artifact(artifact) => artifact.run(cx).await,
            Work::Fetch(fetch) => fetch.run(cx).await,
            Work::Complete(closing) => closing.run(cx, "completed").await,
            Work::Fail(closing) => closing.run(cx, "failed").await,
            Work::Reject(closing) => closing.run(cx, "rejected").await,
        }
    }
}

/// The refusals that mean something of their own for work.
fn explained(error: CliError) -> CliError {
    let next = match error.code.as_deref() {
        Some("unknown_target") => "`rialto work list` shows what you asked for, do or may take",
        Some("already_exists") => "somebody else was faster; `rialto work list --open-to-me` shows what is left",
        Some("no_pending_request") => "`rialto work show ID` says how it ended",
        Some("forbidden") => "who asks answers and cancels, who does the work says how far it is",
        Some(_) | None => return error,
    };
    error.next(next)
}
