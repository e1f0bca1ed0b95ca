//! Memory that goes back to the system after a burst.
//!
//! The allocator of glibc keeps large blocks once it has seen some of them freed: a node that held a hundred megabytes for readers that did
//! not read would keep most of them for ever. With a fixed bound every block above it is the system's again as soon as it is freed. The
//! bound is read when a program begins, from its environment, so a node that began without it begins once more as the same process.

use crate::env::Env;

/// What glibc reads at the beginning, in bytes.
const THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";
/// Pages of events, batches and pieces of bodies on their way are larger; what every event needs is far smaller.
const THRESHOLD_BYTES: &str = "65536";
/// Whoever says more to the allocator than that knows best.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Begins the program once more if the allocator has to be told. Where that fails the node runs as it is.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn settle(env: &Env) {
    use std::os::unix::process::CommandExt as _;
    if env.get(THRESHOLD).is_some() || env.get(TUNABLES).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    let error = std::process::Command::new(program).arg0(name).args(arguments).env(THRESHOLD, THRESHOLD_BYTES).exec();
    tracing::debug!(%error, "the allocator keeps memory after a burst");
}

/// Other allocators have their own ways.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn settle(_env: &Env) {}
