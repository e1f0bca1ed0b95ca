//! Open files: a node takes as many as the system allows, and connections never take all of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// At least so many files are left to the store, its databases and the listener …
const KEPT_MIN: u64 = 48;
/// … and at most so many.
const KEPT_MAX: u64 = 4096;

/// Raises the limit of open files as far as it goes; gives the connections it allows, up to `wanted`.
pub(crate) fn connections(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Refused, the limit is simply what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let allowed = allowed(files);
    if allowed < wanted {
        tracing::info!(files, connections = allowed, "the limit of open files allows fewer connections than are set");
    }
    wanted.min(allowed)
}

fn allowed(files: u64) -> usize {
    let kept = (files / 8).clamp(KEPT_MIN, KEPT_MAX);
    usize::try_from(files.saturating_sub(kept)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_left_to_the_store() {
        assert_eq!(allowed(128), 80);
        assert_eq!(allowed(1024), 896);
        assert_eq!(allowed(20_000), 17_500);
        assert_eq!(allowed(1 << 20), (1 << 20) - 4096);
        assert_eq!(allowed(10), 1);
    }
}
