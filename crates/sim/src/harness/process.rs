//! What the operating system says of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

fn status(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or_else(|| panic!("no {field} in {text}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Memory in use, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    status(pid, "VmRSS:") << 10
}

/// Processor time used so far, in seconds.
pub fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name may hold spaces; it ends with the last parenthesis. utime and stime are fields 14 and 15, in ticks of 10 ms.
    let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks as f64 / 100.0
}

/// Open file descriptors.
pub fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Open connections and listeners.
pub fn open_sockets(pid: u32) -> usize {
    let is_socket = |path: std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter(|entry| is_socket(entry.path())).count()
}

/// Raises this process's own limit of open files as far as it may (children inherit it); gives the limit.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
