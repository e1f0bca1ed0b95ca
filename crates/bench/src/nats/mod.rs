//! The peer: `nats-server` with JetStream on files, started with its defaults on a free port.

pub(crate) mod frame;
pub(crate) mod jetstream;

use crate::error::{BenchError, Doing};
use crate::process::Process;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian puts it, besides the places of PATH.
const ALSO_IN: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// A `nats-server` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Major, minor, patch.
    pub(crate) version: (u32, u32, u32),
}

impl Program {
    /// Whether it can flush before every ack.
    pub(crate) fn can_sync_always(&self) -> bool {
        self.version >= (2, 10, 0)
    }
}

/// Every `nats-server` in these places (as PATH writes them), in their order.
pub(crate) fn programs(path: Option<&str>) -> Vec<Program> {
    let mut named: Vec<PathBuf> = path.map(|p| std::env::split_paths(p).collect()).unwrap_or_default();
    named.retain(|folder| !folder.as_os_str().is_empty());
    let also = if named.is_empty() { &[] } else { ALSO_IN };
    let mut found: Vec<Program> = Vec::new();
    for folder in named.into_iter().chain(also.iter().map(PathBuf::from)) {
        let path = folder.join("nats-server");
        if path.is_file()
            && !found.iter().any(|known| known.path == path)
            && let Some(version) = version_of(&path)
        {
            found.push(Program { path, version });
        }
    }
    found
}

fn version_of(path: &Path) -> Option<(u32, u32, u32)> {
    let output = Command::new(path).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// `nats-server: v2.9.10` and what follows.
fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let (_, version) = text.trim().rsplit_once('v')?;
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

/// A running `nats-server`.
#[derive(Debug)]
pub(crate) struct Nats {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Nats {
    /// Starts one in a folder of its own. `sync_always` flushes before every ack.
    pub(crate) async fn start(program: &Program, folder: &Path, sync_always: bool) -> Result<Nats, BenchError> {
        std::fs::create_dir_all(folder).doing(format!("make {}", folder.display()))?;
        let sync = if sync_always { "  sync_interval: always\n" } else { "" };
        let (store, ports) = (folder.join("store"), folder.to_path_buf());
        let text = format!(
            "listen: \"127.0.0.1:-1\"\nports_file_dir: {:?}\njetstream {{\n  store_dir: {:?}\n{sync}}}\n",
            ports, store
        );
        let file = folder.join("nats.conf");
        std::fs::write(&file, text).doing(format!("write {}", file.display()))?;
        let mut command = Process::quiet(&program.path);
        command.arg("-c").arg(&file);
        let mut process = Process::start("nats-server", &mut command, folder.join("nats.log"))?;
        let ports = folder.join(format!("nats-server_{}.ports", process.pid()));
        let address = process.until(|| Ok(std::fs::read_to_string(&ports).ok().and_then(|t| client_port(&t)))).await?;
        Ok(Nats { process, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// The client address in a ports file: `{"nats":["nats://127.0.0.1:4222"],…}`.
fn client_port(text: &str) -> Option<SocketAddr> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value.get("nats")?.get(0)?.as_str()?.strip_prefix("nats://")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(parse_version("nats-server: v2.9.10\n"), Some((2, 9, 10)));
        assert_eq!(parse_version("nats-server: v2.12.0-beta.1"), Some((2, 12, 0)));
        assert_eq!(parse_version("something else"), None);
        let of = |version| Program { path: PathBuf::new(), version };
        assert!(!of((2, 9, 25)).can_sync_always() && of((2, 10, 0)).can_sync_always());
    }

    #[test]
    fn the_ports_file() {
        assert_eq!(client_port(r#"{"nats":["nats://127.0.0.1:33221"]}"#), "127.0.0.1:33221".parse().ok());
        assert_eq!(client_port("{\"nats\":"), None);
    }

    #[test]
    fn nowhere_to_look_is_nothing_found() {
        assert_eq!(programs(None), []);
        assert_eq!(programs(Some("")), []);
    }
}
