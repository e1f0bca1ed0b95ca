//! Keys of the names this user speaks as: one file per name, for its owner's eyes only, in the user's configuration folder. They are never in
//! the data directory of a node.

use crate::env::Env;
use crate::exit::CliError;
use crate::place;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rialto_client::{JoinChallenge, KeyProof};
use rialto_node::identity::{Algorithm, KeyPair, KeyPairError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of the keys.
#[derive(Debug, Clone)]
pub(crate) struct Keyring(PathBuf);

fn unreadable(path: &Path, error: impl std::fmt::Display) -> CliError {
    CliError::usage(format!("{}: {error}", path.display())).next("`rialto identity list` shows the names with keys")
}

impl Keyring {
    /// `$RIALTO_IDENTITIES`, else `identities` in the user's configuration folder.
    pub(crate) fn of_user(env: &Env) -> Option<Keyring> {
        let config = || env.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = || env.get("HOME").map(|home| Path::new(home).join(".config"));
        let folder = || config().or_else(home).map(|dir| dir.join("rialto").join("identities"));
        env.get(crate::env::IDENTITIES).map(PathBuf::from).or_else(folder).map(Keyring)
    }

    fn path(&self, name: &str) -> Result<PathBuf, CliError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || name.starts_with('.') || name.len() > 128 || !name.chars().all(legal) {
            return Err(CliError::usage(format!("{name:?} is no name for a key: letters, digits, _ - and .")));
        }
        Ok(self.0.join(format!("{name}.pem")))
    }

    /// The names that have keys here.
    pub(crate) fn names(&self) -> Result<Vec<String>, CliError> {
        let listed = match std::fs::read_dir(&self.0) {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.0, error)),
        };
        let file = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> =
            listed.filter_map(file).filter_map(|name| name.strip_suffix(".pem").map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// The key of a name, if there is one. A file that others may read is refused.
    pub(crate) fn find(&self, name: &str) -> Result<Option<KeyPair>, CliError> {
        let Ok(path) = self.path(name) else { return Ok(None) };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&path, error)),
        };
        let mode = std::fs::metadata(&path).map_err(|error| unreadable(&path, error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let shown = path.display();
            return Err(
                CliError::usage(format!("{shown}: others may read this key")).next(format!("chmod 600 {shown}"))
            );
        }
        KeyPair::from_pem(&text).map(Some).map_err(|error| unreadable(&path, error))
    }

    /// The key of a name that must have one.
    pub(crate) fn get(&self, name: &str) -> Result<KeyPair, CliError> {
        self.find(name)?.ok_or_else(|| {
            CliError::not_found(format!("there is no key for {name}"))
                .next(format!("make one with `rialto identity new {name}`"))
        })
    }

    /// Keeps a key under a name that has none.
    pub(crate) fn add(&self, name: &str, key: &KeyPair) -> Result<PathBuf, CliError> {
        let path = self.path(name)?;
        place::private_dir(&self.0)?;
        self.write(&path, key, true).map_err(|error| {
            if error.kind() != ErrorKind::AlreadyExists {
                return unreadable(&path, error);
            }
            CliError::conflict(format!("there is a key for {name} already: {}", path.display()))
                .next("choose another name")
        })?;
        Ok(path)
    }

    /// Puts a new key in the place of the one of a name.
    pub(crate) fn replace(&self, name: &str, key: &KeyPair) -> Result<(), CliError> {
        let path = self.path(name)?;
        let aside = self.path(&format!("{name}.new"))?;
        let _ = std::fs::remove_file(&aside);
        self.write(&aside, key, true).map_err(|error| unreadable(&aside, error))?;
        std::fs::rename(&aside, &path).map_err(|error| unreadable(&path, error))
    }

    /// Takes the key of a name away.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CliError> {
        let path = self.path(name)?;
        std::fs::remove_file(&path).map_err(|error| unreadable(&path, error))
    }

    fn write(&self, path: &Path, key: &KeyPair, fresh: bool) -> std::io::Result<()> {
        let pem = key.to_pem().map_err(std::io::Error::other)?;
        let mut file = std::fs::OpenOptions::new().write(true).create_new(fresh).mode(0o600).open(path)?;
        file.write_all(pem.expose().as_bytes())?;
        file.sync_all()
    }
}

/// Answers a challenge.
pub(crate) fn answer(key: &KeyPair, challenge: &JoinChallenge) -> Result<KeyProof, CliError> {
    let wrong = |what: String| CliError::internal(format!("the challenge cannot be signed: {what}"));
    let bytes = STANDARD.decode(&challenge.challenge).map_err(|error| wrong(error.to_string()))?;
    // Nothing is signed that is not a challenge: a signature of other bytes could be good for something else.
    if !bytes.starts_with(b"rialto-join-v1\n") && !bytes.starts_with(b"rialto-agentid-v1\n") {
        return Err(wrong("it is none of this protocol".to_owned()));
    }
    let signature = key.sign(&bytes).map_err(|error: KeyPairError| wrong(error.to_string()))?;
    Ok(KeyProof { nonce: challenge.nonce.clone(), signature: STANDARD.encode(signature) })
}

/// The algorithm of a word on the command line.
pub(crate) fn algorithm(word: &str) -> Algorithm {
    if word == "p256" { Algorithm::Es256 } else { Algorithm::Ed25519 }
}
