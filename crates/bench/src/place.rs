//! A folder of our own that is gone when we are.

use crate::error::{BenchError, Doing};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder for the data of the measured servers.
#[derive(Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// Makes a folder with a name nobody else has.
    pub(crate) fn new(within: &Path) -> Result<Place, BenchError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        std::fs::create_dir_all(within).doing(format!("make {}", within.display()))?;
        loop {
            let name = format!("rialto-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = within.join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Place(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).doing(format!("make {}", path.display())),
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A folder inside it, made if it is not there.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).doing(format!("make {}", path.display()))?;
        Ok(path)
    }
}

/// Fails where there is less room than a run may need: a node refuses writes before the disk is full.
pub(crate) fn has_room(path: &Path, bytes: u64) -> Result<(), BenchError> {
    let found = rustix::fs::statvfs(path).map_err(std::io::Error::from).doing(format!("look at {}", path.display()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= bytes {
        return Ok(());
    }
    let in_gib = |n: u64| n as f64 / f64::from(1 << 30);
    Err(BenchError::Missing(format!(
        "{:.1} GiB are free at {} where up to {:.1} GiB may be needed: choose another disk with --folder",
        in_gib(free),
        path.display(),
        in_gib(bytes)
    )))
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody can be told any more; what stays behind has our name on it.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_said_before_anything_is_started() {
        let within = tempfile::tempdir().unwrap();
        assert!(has_room(within.path(), 1).is_ok());
        let error = has_room(within.path(), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("--folder"), "{error}");
    }

    #[test]
    fn it_is_gone_afterwards() {
        let within = tempfile::tempdir().unwrap();
        let (one, two) = (Place::new(within.path()).unwrap(), Place::new(within.path()).unwrap());
        assert_ne!(one.path(), two.path());
        std::fs::write(one.folder("deep").unwrap().join("file"), "x").unwrap();
        drop((one, two));
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }
}
