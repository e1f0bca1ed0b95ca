//! Where things are on this machine: data directory, configuration file, and the run file of a running node.

use crate::env::{self, Env};
use crate::exit::CliError;
use rialto_client::Secret;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What a running node tells the commands of the same user (sheet section 18).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) url: String,
    pub(crate) listen: String,
    pub(crate) admin_secret: Secret,
    pub(crate) network: RunNetwork,
    pub(crate) started_at: u64,
}

/// The default network of a running node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunNetwork {
    pub(crate) id: String,
    pub(crate) name: String,
}

impl RunFile {
    /// The run file of this data directory, if a node wrote one.
    pub(crate) fn read(data: &Path) -> Result<Option<RunFile>, CliError> {
        let path = run_file(data);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CliError::file("read", &path, &error)),
        };
        match serde_json::from_str(&text) {
            Ok(run) => Ok(Some(run)),
            Err(error) => {
                let message = format!("{} cannot be understood: {error}", path.display());
                Err(CliError::internal(message).next("stop the node and start it again with `rialto up`"))
            }
        }
    }

    /// Writes the run file so that a reader sees all of it or none.
    pub(crate) fn write(&self, data: &Path) -> Result<(), CliError> {
        let text = serde_json::to_string_pretty(self).map_err(|e| CliError::internal(e.to_string()))?;
        write_private(&run_file(data), &text)
    }

    /// Removes the run file on a clean stop.
    pub(crate) fn remove(data: &Path) {
        // A missing file is what we want; anything else is found out by the next start.
        std::fs::remove_file(run_file(data)).ok();
    }

    /// Whether the process that wrote it is still there.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
    }
}

fn run_file(data: &Path) -> PathBuf {
    data.join("run.json")
}

/// Writes a file only its owner can read, in one step.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), CliError> {
    let fail = |error: std::io::Error| CliError::file("write", path, &error);
    if let Some(parent) = path.parent() {
        private_dir(parent)?;
    }
    // Under a name that nobody can have made before, so that nobody else has it open.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new().prefix(&name).suffix(".tmp").tempfile_in(folder).map_err(fail)?;
    aside.write_all(text.as_bytes()).map_err(fail)?;
    aside.write_all(b"\n").map_err(fail)?;
    aside.persist(path).map(drop).map_err(|error| fail(error.error))
}

/// Makes a directory (and its parents) that only its owner can enter; an existing one is left as it is.
pub(crate) fn private_dir(path: &Path) -> Result<(), CliError> {
    if path.is_dir() {
        return Ok(());
    }
    let fail = |error: std::io::Error| CliError::file("create", path, &error);
    std::fs::create_dir_all(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(fail)
}

/// The data directory: flag, `RIALTO_DATA`, `store.data`, else the platform's.
pub(crate) fn data_dir(flag: Option<&Path>, configured: Option<&Path>, env: &Env) -> Result<PathBuf, CliError> {
    let said = flag.map(Path::to_owned).or_else(|| env.get(env::DATA).map(PathBuf::from));
    if let Some(dir) = said.or_else(|| configured.map(Path::to_owned)) {
        return Ok(dir);
    }
    let home = env.get("HOME").map(PathBuf::from);
    let platform = if cfg!(target_os = "macos") {
        home.map(|home| home.join("Library/Application Support"))
    } else {
        absolute(env, "XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")))
    };
    match platform {
        Some(dir) => Ok(dir.join("rialto")),
        None => Err(CliError::usage("there is no home directory to keep data in").next("give one with --data DIR")),
    }
}

/// The platform's configuration directory of this program.
pub(crate) fn config_home(env: &Env) -> Option<PathBuf> {
    let home = env.get("HOME").map(PathBuf::from);
    let base = absolute(env, "XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
    base.map(|base| base.join("rialto"))
}

/// The configuration file and its text: the one that was named, else the platform's if there is one.
pub(crate) fn config_file(flag: Option<&Path>, env: &Env) -> Result<Option<(PathBuf, String)>, CliError> {
    let named = flag.map(Path::to_owned).or_else(|| env.get(env::CONFIG).map(PathBuf::from));
    let must_exist = named.is_some();
    let Some(path) = named.or_else(|| config_home(env).map(|home| home.join("rialto.toml"))) else {
        return Ok(None);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(None),
        Err(error) => Err(CliError::file("read", &path, &error)),
    }
}

/// The XDG rule: relative paths are ignored.
fn absolute(env: &Env, name: &str) -> Option<PathBuf> {
    env.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The unix user's name, made fit for a `human:` address.
pub(crate) fn user_name(env: &Env) -> String {
    let named = env.get("USER").or_else(|| env.get("LOGNAME")).map(str::to_owned);
    let name = named.or_else(user_of_process).unwrap_or_default();
    let fit: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')).collect();
    let fit = fit.trim_start_matches(['.', '-']);
    if fit.is_empty() { "user".to_owned() } else { fit.to_owned() }
}

fn user_of_process() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(uid.as_str()))?;
    line.split(':').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_by_precedence() {
        let env = |pairs| Env::from(pairs);
        let dir = |flag: Option<&str>, configured: Option<&str>, env: &Env| {
            data_dir(flag.map(Path::new), configured.map(Path::new), env).map(|p| p.display().to_string())
        };
        let full = env([("RIALTO_DATA", "/env"), ("XDG_DATA_HOME", "/xdg"), ("HOME", "/home/a")]);
        assert_eq!(dir(Some("/flag"), Some("/file"), &full).unwrap(), "/flag");
        assert_eq!(dir(None, Some("/file"), &full).unwrap(), "/env");
        let home = Env::from([("HOME", "/home/a")]);
        assert_eq!(dir(None, Some("/file"), &home).unwrap(), "/file");
        if cfg!(target_os = "linux") {
            assert_eq!(dir(None, None, &home).unwrap(), "/home/a/.local/share/rialto");
            let xdg = Env::from([("HOME", "/home/a"), ("XDG_DATA_HOME", "/xdg")]);
            assert_eq!(dir(None, None, &xdg).unwrap(), "/xdg/rialto");
            let relative = Env::from([("HOME", "/home/a"), ("XDG_DATA_HOME", "x")]);
            assert_eq!(dir(None, None, &relative).unwrap(), "/home/a/.local/share/rialto");
        }
        assert!(dir(None, None, &Env::default()).is_err());
    }

    #[test]
    fn a_named_configuration_must_exist_and_the_default_one_need_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let env = Env::from([("XDG_CONFIG_HOME", home)]);
        assert!(config_file(None, &env).unwrap().is_none());
        assert_eq!(config_file(Some(&dir.path().join("none")), &env).unwrap_err().exit, crate::exit::Exit::NotFound);
        std::fs::create_dir(dir.path().join("rialto")).unwrap();
        std::fs::write(dir.path().join("rialto/rialto.toml"), "[log]\n").unwrap();
        assert_eq!(config_file(None, &env).unwrap().unwrap().1, "[log]\n");
    }

    #[test]
    fn the_run_file_is_private_and_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunFile {
            version: "0.1.0".into(),
            pid: std::process::id(),
            url: "http://127.0.0.1:8700".into(),
            listen: "127.0.0.1:8700".into(),
            admin_secret: "A".into(),
            network: RunNetwork { id: "a1b2c3d4".into(), name: "main".into() },
            started_at: 5,
        };
        assert!(RunFile::read(dir.path()).unwrap().is_none());
        run.write(dir.path()).unwrap();
        let mode = std::fs::metadata(run_file(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let back = RunFile::read(dir.path()).unwrap().unwrap();
        assert_eq!((back.url.as_str(), &back.network), ("http://127.0.0.1:8700", &run.network));
        assert!(back.is_alive());
        assert!(!format!("{back:?}").contains("\"A\""));
        RunFile::remove(dir.path());
        assert!(RunFile::read(dir.path()).unwrap().is_none());
        std::fs::write(run_file(dir.path()), "{").unwrap();
        assert!(RunFile::read(dir.path()).is_err());
    }

    #[test]
    fn user_names_fit_the_grammar() {
        assert_eq!(user_name(&Env::from([("USER", "ana")])), "ana");
        assert_eq!(user_name(&Env::from([("USER", "-an a:1/é")])), "ana1");
        assert_eq!(user_name(&Env::from([("USER", "é")])), "user");
    }
}
