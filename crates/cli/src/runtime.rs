//! The runtimes of this program.

use crate::exit::CliError;
use tokio::runtime::{Builder, Runtime};

/// The runtime of a node. One core is left to the log, the search index and everything else on the machine: with a
/// worker on every core they take turns with it, and events cost more (docs/benchmarks.md).
pub(crate) fn of_node() -> Result<Runtime, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    build(Builder::new_multi_thread().worker_threads(cores.saturating_sub(1).max(1)))
}

/// A runtime with a worker on every core.
pub(crate) fn of_all_cores() -> Result<Runtime, CliError> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, CliError> {
    builder.enable_all().build().map_err(|e| CliError::internal(format!("the runtime does not start: {e}")))
}
