//! Sessions of the names this user speaks as, kept in the data directory so that programs share them.

use crate::exit::CliError;
use crate::place;
use rialto_client::Secret;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};

/// One kept session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptSession {
    pub(crate) address: String,
    pub(crate) network: String,
    pub(crate) url: String,
    pub(crate) session_id: Secret,
}

/// The place of one name's session in one network.
#[derive(Debug, Clone)]
pub(crate) struct SessionFile {
    path: PathBuf,
    url: String,
}

impl SessionFile {
    /// `<data>/sessions/<network>/<name>.json`.
    pub(crate) fn of(data: &Path, network: &str, address: &str, url: &str) -> SessionFile {
        let path = data.join("sessions").join(file_name(network)).join(format!("{}.json", file_name(address)));
        SessionFile { path, url: url.to_owned() }
    }

    /// The kept session, unless it belongs to another node: a secret is shown only where it came from.
    pub(crate) fn read(&self) -> Option<KeptSession> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let kept: KeptSession = serde_json::from_str(&text).ok()?;
        (kept.url == self.url || (is_loopback(&kept.url) && is_loopback(&self.url))).then_some(kept)
    }

    pub(crate) fn write(&self, kept: &KeptSession) -> Result<(), CliError> {
        let text = serde_json::to_string(kept).map_err(|e| CliError::internal(e.to_string()))?;
        place::write_private(&self.path, &text)
    }

    /// The session goes on under another name: written there first, so that it is never in no place.
    pub(crate) fn rename(&self, kept: &KeptSession) -> Result<(), CliError> {
        let name = format!("{}.json", file_name(&kept.address));
        let new = SessionFile { path: self.path.with_file_name(name), url: self.url.clone() };
        if new.path == self.path {
            return Ok(());
        }
        let lock = new.lock()?;
        new.write(kept)?;
        drop(lock);
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CliError::file("remove", &self.path, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Holds the name while a join is under way, so that two commands started together do not take it from each
    /// other. Released when the file is dropped.
    pub(crate) fn lock(&self) -> Result<File, CliError> {
        let path = self.path.with_extension("lock");
        let fail = |error: std::io::Error| CliError::file("lock", &path, &error);
        if let Some(parent) = path.parent() {
            place::private_dir(parent)?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
        file.lock().map_err(fail)?;
        Ok(file)
    }
}

fn is_loopback(url: &str) -> bool {
    rialto_client::Endpoint::parse(url).is_ok_and(|endpoint| endpoint.is_loopback())
}

/// A name as a file name: what could mean something to a file system is written as `%` and two hex digits.
fn file_name(name: &str) -> String {
    let mut out = String::new();
    for (i, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'@') || (byte == b'.' && i > 0);
        if plain { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn kept(url: &str) -> KeptSession {
        KeptSession { address: "agent:a".into(), network: "n1".into(), url: url.into(), session_id: "S".into() }
    }

    #[test]
    fn a_session_is_kept_private_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = SessionFile::of(dir.path(), "n1", "agent:a", "http://127.0.0.1:1");
        assert_eq!(file.read(), None);
        let lock = file.lock().unwrap();
        file.write(&kept("http://127.0.0.1:1")).unwrap();
        drop(lock);
        let path = dir.path().join("sessions/n1/agent%3Aa.json");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(file.read().unwrap().session_id.expose(), "S");
    }

    #[test]
    fn a_session_goes_on_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| SessionFile::of(dir.path(), "n1", name, "http://127.0.0.1:1");
        of("agent:a").write(&kept("http://127.0.0.1:1")).unwrap();
        let renamed = KeptSession { address: "agent:b".into(), ..kept("http://127.0.0.1:1") };
        of("agent:a").rename(&renamed).unwrap();
        assert_eq!((of("agent:a").read(), of("agent:b").read()), (None, Some(renamed.clone())));
        of("agent:b").rename(&renamed).unwrap();
        assert_eq!(of("agent:b").read(), Some(renamed));
    }

    #[test]
    fn a_session_is_not_shown_to_another_host() {
        let dir = tempfile::tempdir().unwrap();
        let at = |url: &str| SessionFile::of(dir.path(), "n1", "agent:a", url);
        at("http://127.0.0.1:1").write(&kept("http://127.0.0.1:1")).unwrap();
        assert!(at("http://localhost:2").read().is_some(), "the same machine on another port");
        assert!(at("https://elsewhere.example").read().is_none());
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        assert_eq!(file_name("../../x"), "%2E.%2F..%2Fx");
        assert_eq!(file_name("human:a+b@c.d"), "human%3Aa%2Bb@c.d");
        assert_eq!(file_name(".."), "%2E.");
    }
}
