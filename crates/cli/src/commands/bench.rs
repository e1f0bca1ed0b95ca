//! `rialto bench`: what this build does on this machine, beside NATS and the machine's own limits.

use crate::context::Context;
use crate::exit::CliError;
use crate::progress::{ProgressLine, ProgressStep};
use crate::render::bench::{comparison_table, got_worse, table, wrong};
use crate::runtime;
use clap::Args;
use rialto_bench::{BenchError, Effort, Options, Part, Report, Role, Watcher};
use std::path::PathBuf;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// A minute or two: shorter passes, fewer sizes
    #[arg(long)]
    quick: bool,
    /// Fail when a goal is below its gate or could not be measured
    #[arg(long)]
    enforce: bool,
    /// Compare with another build of rialto instead: interleaved passes of both, exits 1 when a row is more than 5 % worse
    #[arg(long, value_name = "BINARY", conflicts_with_all = ["enforce", "curves"])]
    against: Option<PathBuf>,
    /// Only these: goals by number, `limits`, `search`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// Interleaved passes (7 unless said)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    passes: Option<u16>,
    /// Folder for the data of the measured servers; on the disk to be measured (the system's temporary folder)
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Also measure how the cost of an event grows, and draw it
    #[arg(long, value_name = "FILE.svg")]
    curves: Option<PathBuf>,
    /// Only see that everything works
    #[arg(long, hide = true, conflicts_with = "quick")]
    trial: bool,
    /// Be a process that is measured: started by another bench
    #[arg(long, hide = true, requires = "folder")]
    role: Option<Role>,
}

impl Bench {
    pub(crate) fn run(self, cx: &mut Context) -> Result<(), CliError> {
        if let (Some(role), Some(folder)) = (self.role, &self.folder) {
            // Both have as many workers as a node.
            let runtime = runtime::of_node()?;
            return runtime.block_on(rialto_bench::serve(role, folder)).map_err(failed);
        }
        let runtime = runtime::of_all_cores()?;
        let against = self.against.clone();
        let options = self.options(cx)?;
        let Some(other) = against else {
            let report =
                runtime.block_on(watched(cx.out.live, async |watcher| rialto_bench::run(&options, watcher).await))?;
            cx.out.show(&report, table)?;
            return judge(&report);
        };
        let compare = async |watcher: Watcher<'_>| rialto_bench::compare(&options, &other, watcher).await;
        let comparison = runtime.block_on(watched(cx.out.live, compare))?;
        cx.out.show(&comparison, comparison_table)?;
        match comparison.ok {
            true => Ok(()),
            false => Err(CliError::internal(format!("rows that got worse:\n{}", got_worse(&comparison)))),
        }
    }

    fn options(self, cx: &Context) -> Result<Options, CliError> {
        let program = std::env::current_exe()
            .map_err(|e| CliError::internal(format!("the path of this program cannot be read: {e}")))?;
        let build = if cfg!(debug_assertions) { " (debug build)" } else { "" };
        Ok(Options {
            program,
            version: format!("{}{build}", env!("CARGO_PKG_VERSION")),
            folder: self.folder.unwrap_or_else(std::env::temp_dir),
            path: cx.env.get("PATH").map(str::to_owned),
            effort: match (self.trial, self.quick) {
                (true, _) => Effort::Trial,
                (false, true) => Effort::Quick,
                (false, false) => Effort::Full,
            },
            passes: self.passes.map(usize::from),
            only: self.only,
            enforce: self.enforce,
            curves: self.curves,
        })
    }
}

/// Runs to the end, or until a signal: then everything that was started is gone before the command is.
async fn watched<T>(live: bool, run: impl AsyncFnOnce(Watcher<'_>) -> Result<T, BenchError>) -> Result<T, CliError> {
    let progress = ProgressLine::new(live, false);
    let watcher =
        |p: rialto_bench::Progress| progress.show(&ProgressStep { done: p.done, total: Some(p.total), what: p.what });
    let mut signals = crate::node::Signals::new()
        .map_err(|e| CliError::internal(format!("signal handlers cannot be set up: {e}")))?;
    tokio::select! {
        done = run(&watcher) => done.map_err(failed),
        () = signals.next() => Err(CliError::unavailable("interrupted: every process that was started has ended")),
    }
}

fn failed(error: BenchError) -> CliError {
    match error {
        BenchError::Missing(_) => CliError::unavailable(error.to_string()),
        BenchError::Timeout(_) => CliError::timeout(error.to_string()),
        BenchError::Io { .. } | BenchError::Answer(_) => CliError::internal(error.to_string()),
    }
}

/// With `--enforce` a goal that does not hold is a failed command.
fn judge(report: &Report) -> Result<(), CliError> {
    if report.ok || !report.enforced {
        return Ok(());
    }
    Err(CliError::internal(format!("goals that do not hold:\n{}", wrong(report))))
}
