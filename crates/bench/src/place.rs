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
    fn it_is_gone_afterwards() {
        let within = tempfile::tempdir().unwrap();
        let (one, two) = (Place::new(within.path()).unwrap(), Place::new(within.path()).unwrap());
        assert_ne!(one.path(), two.path());
        std::fs::write(one.folder("deep").unwrap().join("file"), "x").unwrap();
        drop((one, two));
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }
}
