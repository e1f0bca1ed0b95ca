//! The machine a run happened on.

use crate::nats::Program;
use crate::report::Host;
use std::path::Path;

impl Host {
    pub(crate) fn look(data: &Path, rialto: &str, nats: Option<&Program>) -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let kernel = read("/proc/sys/kernel/osrelease");
        let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        Host {
            system: format!("{} {}", std::env::consts::OS, kernel.trim()),
            cpu: after_colon(&cpus, "model name").unwrap_or(std::env::consts::ARCH).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: after_colon(&memory, "MemTotal").and_then(kib).unwrap_or(0),
            file_system: file_system(&read("/proc/self/mountinfo"), data).unwrap_or("unknown").to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
            rialto: rialto.to_owned(),
            nats: nats.map(|p| format!("{}.{}.{}", p.version.0, p.version.1, p.version.2)),
        }
    }
}

fn after_colon<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':')).map(|(_, value)| value.trim())
}

fn kib(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The kind of file system with the longest mount point above a path.
fn file_system<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        path.starts_with(point).then(|| (point.len(), right.split(' ').next()))
    };
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).and_then(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n2 1 0:2 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/home/x")), Some("ext4"));
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn numbers_after_colons() {
        assert_eq!(after_colon("a : b\nMemTotal:  2 kB\n", "MemTotal").and_then(kib), Some(2048));
    }
}
