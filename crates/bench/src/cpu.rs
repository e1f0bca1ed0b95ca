//! CPU time of another process, thread by thread, from `/proc`.
//!
//! Rates are per second of CPU time of the threads that *serve*: on a shared machine that repeats within a few per cent
//! where wall time moves by factors. Only the search index is no serving thread; it has a row of its own.

use crate::error::{BenchError, Doing};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Names of threads that are not counted as serving.
const NOT_SERVING: &[&str] = &["rialto-search"];
/// What the ticks of the whole process may differ from the sum of its threads before threads must have come and gone.
const TICK_SLACK: Duration = Duration::from_millis(30);

/// CPU time used so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Of the whole process, ended threads included; in ticks of usually 10 ms.
    total: Duration,
    /// By thread: name and exact time.
    threads: BTreeMap<u32, (String, Duration)>,
}

impl Usage {
    /// What a process has used.
    pub(crate) fn of(pid: u32) -> Result<Usage, BenchError> {
        let read = |path: String| fs::read_to_string(&path).doing(format!("read {path}"));
        let total = stat_time(&read(format!("/proc/{pid}/stat"))?).unwrap_or_default();
        let mut threads = BTreeMap::new();
        let folder = format!("/proc/{pid}/task");
        for entry in fs::read_dir(&folder).doing(format!("read {folder}"))?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A thread may end while it is looked at: then the total tells.
            let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
            let exact = fs::read_to_string(entry.path().join("schedstat")).ok().and_then(|text| schedstat_time(&text));
            let time = exact.or_else(|| stat_time(&fs::read_to_string(entry.path().join("stat")).ok()?));
            threads.insert(id, (name.trim().to_owned(), time.unwrap_or_default()));
        }
        Ok(Usage { total, threads })
    }

    /// CPU time of the serving threads since `before`.
    pub(crate) fn serving_since(&self, before: &Usage) -> Duration {
        self.since(before, |name| !NOT_SERVING.contains(&name))
    }

    /// CPU time of all threads since `before`.
    pub(crate) fn everything_since(&self, before: &Usage) -> Duration {
        self.since(before, |_| true)
    }

    fn since(&self, before: &Usage, counts: impl Fn(&str) -> bool) -> Duration {
        let (mut counted, mut others) = (Duration::ZERO, Duration::ZERO);
        for (id, (name, time)) in &self.threads {
            let earlier = before.threads.get(id).filter(|(known, _)| known == name);
            let used = time.saturating_sub(earlier.map_or(Duration::ZERO, |(_, time)| *time));
            if counts(name) { counted += used } else { others += used }
        }
        let total = self.total.saturating_sub(before.total);
        // Threads that ended in between are in the total alone.
        if total > counted + others + TICK_SLACK { total.saturating_sub(others) } else { counted }
    }
}

/// User and system time of a `stat` line, of a process or a thread.
fn stat_time(text: &str) -> Option<Duration> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let hertz = rustix::param::clock_ticks_per_second().max(1);
    Some(Duration::from_nanos((user + system).saturating_mul(1_000_000_000) / hertz))
}

/// Time on the CPU of a `schedstat` line.
fn schedstat_time(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Bytes of memory in use by a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64, BenchError> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).doing(format!("read {path}"))?;
    resident(&text).ok_or_else(|| BenchError::answer(format!("{path} does not say VmRSS")))
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn usage(total: u64, threads: &[(u32, &str, u64)]) -> Usage {
        let threads = threads.iter().map(|(id, name, time)| (*id, ((*name).to_owned(), ms(*time)))).collect();
        Usage { total: ms(total), threads }
    }

    #[test]
    fn lines_of_proc() {
        let line = "77 (a ) b) S 1 77 77 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 12345 1 1";
        assert_eq!(stat_time(line), Some(ms(2000 * 100 / rustix::param::clock_ticks_per_second())));
        assert_eq!(stat_time("nothing"), None);
        assert_eq!(schedstat_time("123456 9 4\n"), Some(Duration::from_nanos(123_456)));
        assert_eq!(resident("Name:\tx\nVmRSS:\t  20480 kB\n"), Some(20 << 20));
    }

    #[test]
    fn the_search_index_does_not_serve() {
        let before = usage(100, &[(1, "rialto", 60), (2, "rialto-search", 40)]);
        let after = usage(400, &[(1, "rialto", 261), (2, "rialto-search", 139)]);
        assert_eq!(after.serving_since(&before), ms(201));
        assert_eq!(after.everything_since(&before), ms(300));
    }

    #[test]
    fn threads_that_ended_are_counted() {
        let before = usage(100, &[(1, "rialto", 50), (2, "worker", 50), (3, "rialto-search", 0)]);
        let after = usage(500, &[(1, "rialto", 150), (3, "rialto-search", 20)]);
        assert_eq!(after.serving_since(&before), ms(380));
    }

    #[test]
    fn a_thread_number_used_again_is_another_thread() {
        let before = usage(100, &[(1, "rialto", 50), (2, "worker", 50)]);
        let after = usage(170, &[(1, "rialto", 100), (2, "other", 20)]);
        assert_eq!(after.serving_since(&before), ms(70));
    }

    #[test]
    fn this_process_uses_something() {
        let before = Usage::default();
        let me = Usage::of(std::process::id()).unwrap();
        assert!(!me.threads.is_empty());
        assert!(me.everything_since(&before) > Duration::ZERO);
        assert!(resident_bytes(std::process::id()).unwrap() > 1 << 20);
    }
}
