//! A small file system of a test's own, where the test may make one.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    dir: TempDir,
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if done.status.success() {
        return Ok(said);
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

impl Mount {
    /// In memory, of so many bytes; why not, if the test may not mount.
    pub fn tmpfs(bytes: u64) -> Result<Mount, String> {
        let mount = Mount { dir: TempDir::new().unwrap() };
        let place = mount.point();
        std::fs::create_dir(&place).unwrap();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "rialto-test", place.to_str().unwrap()])?;
        Ok(mount)
    }

    /// A file as an ext4 disk, which goes read-only on an error.
    pub fn ext4(bytes: u64) -> Result<Mount, String> {
        let mount = Mount { dir: TempDir::new().unwrap() };
        let (place, image) = (mount.point(), mount.image());
        std::fs::create_dir(&place).unwrap();
        std::fs::File::create(&image).and_then(|file| file.set_len(bytes)).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()])?;
        mount.attach()?;
        Ok(mount)
    }

    /// Mounts the image (again).
    pub fn attach(&self) -> Result<(), String> {
        let (place, image) = (self.point(), self.image());
        run("mount", &["-o", "loop,errors=remount-ro", image.to_str().unwrap(), place.to_str().unwrap()]).map(|_| ())
    }

    /// Unmounts and repairs the image.
    pub fn repair(&self) -> Result<(), String> {
        run("umount", &[self.point().to_str().unwrap()])?;
        // Exit code 1 says that something was repaired.
        let image = self.image();
        let done = Command::new("fsck.ext4").args(["-f", "-y"]).arg(&image).output().map_err(|e| e.to_string())?;
        if done.status.code().is_some_and(|code| code <= 1) { Ok(()) } else { Err(format!("{done:?}")) }
    }

    fn point(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.point()
    }

    /// Makes every file of a directory immutable, or changeable again: open files refuse writes too.
    pub fn set_immutable(dir: &Path, immutable: bool) -> Result<(), String> {
        run("chattr", &["-R", if immutable { "+i" } else { "-i" }, dir.to_str().unwrap()]).map(|_| ())
    }

    /// Has the kernel meet an error in this file system, so that it turns read-only by itself.
    pub fn break_down(&self) -> Result<(), String> {
        let device = run("findmnt", &["-n", "-o", "SOURCE", self.point().to_str().unwrap()])?;
        let name = Path::new(&device).file_name().unwrap().to_str().unwrap().to_owned();
        let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        std::fs::write(&trigger, "a test").map_err(|e| format!("{trigger}: {e}"))
    }

    /// Takes up space until at most so many bytes are free; gives the file to remove again.
    pub fn fill(&self, leave: u64) -> PathBuf {
        let ballast = self.point().join("ballast");
        let mut file = std::fs::File::create(&ballast).unwrap();
        let piece = vec![0x55; 64 << 10];
        while self.free() > leave {
            let want = usize::try_from((self.free() - leave).min(piece.len() as u64)).unwrap().max(1);
            if std::io::Write::write_all(&mut file, &piece[..want]).is_err() {
                break;
            }
        }
        ballast
    }

    /// Bytes free.
    pub fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.point()).unwrap();
        stat.f_bavail * stat.f_frsize
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let place = self.point();
        let _ = Command::new("chattr").args(["-R", "-i"]).arg(&place).output();
        let _ = Command::new("umount").arg("-l").arg(&place).output();
    }
}
