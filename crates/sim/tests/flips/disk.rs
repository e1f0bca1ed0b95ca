//! A disk in memory whose files are shared until they are written: ten thousand copies of a directory cost little.

use rialto_store::disk::{Disk, DiskFile, Entry};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

type Content = Arc<Mutex<Arc<Vec<u8>>>>;

/// Files by path; directories are there as soon as they are named.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemDisk {
    files: Arc<Mutex<BTreeMap<PathBuf, Content>>>,
}

/// A directory as it was left: files by path.
pub(crate) type Image = BTreeMap<PathBuf, Arc<Vec<u8>>>;

impl MemDisk {
    /// A disk with these files.
    pub(crate) fn of(image: &Image) -> MemDisk {
        let files = image.iter().map(|(path, bytes)| (path.clone(), Arc::new(Mutex::new(bytes.clone())))).collect();
        MemDisk { files: Arc::new(Mutex::new(files)) }
    }

    /// Its files.
    pub(crate) fn image(&self) -> Image {
        self.files.lock().unwrap().iter().map(|(path, file)| (path.clone(), file.lock().unwrap().clone())).collect()
    }

    fn find(&self, path: &Path) -> Result<Content> {
        self.files.lock().unwrap().get(path).cloned().ok_or_else(|| Error::from(ErrorKind::NotFound))
    }
}

impl Disk for MemDisk {
    type File = MemFile;
    type Lock = ();

    fn create(&self, path: &Path) -> Result<MemFile> {
        let content = Content::default();
        self.files.lock().unwrap().insert(path.to_owned(), content.clone());
        Ok(MemFile(content))
    }

    fn open(&self, path: &Path, _write: bool) -> Result<MemFile> {
        self.find(path).map(MemFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut files = self.files.lock().unwrap();
        let content = files.remove(from).ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.files.lock().unwrap().remove(path).map(|_| ()).ok_or_else(|| Error::from(ErrorKind::NotFound))
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (path, content) in self.files.lock().unwrap().iter() {
            let Ok(rest) = path.strip_prefix(dir) else { continue };
            let mut parts = rest.components().map(|part| part.as_os_str().to_str().unwrap().to_owned());
            let (Some(name), is_dir) = (parts.next(), parts.next().is_some()) else { continue };
            let len = if is_dir { 0 } else { content.lock().unwrap().len() as u64 };
            entries.insert(name.clone(), Entry { name, len, is_dir });
        }
        Ok(entries.into_values().collect())
    }

    fn create_dir_all(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    fn free_space(&self, _dir: &Path) -> Result<u64> {
        Ok(1 << 40)
    }

    fn lock(&self, _path: &Path) -> Result<Option<()>> {
        Ok(Some(()))
    }
}

/// An open file.
#[derive(Debug, Clone)]
pub(crate) struct MemFile(Content);

impl MemFile {
    fn change<T>(&self, call: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        call(Arc::make_mut(&mut self.0.lock().unwrap()))
    }
}

impl DiskFile for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let content = self.0.lock().unwrap().clone();
        let bytes = content.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        let at = usize::try_from(offset).unwrap();
        self.change(|bytes| {
            bytes.resize(bytes.len().max(at + buf.len()), 0);
            bytes[at..at + buf.len()].copy_from_slice(buf);
        });
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        let len = usize::try_from(len).unwrap();
        self.change(|bytes| bytes.resize(bytes.len().max(len), 0));
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.change(|bytes| bytes.resize(usize::try_from(len).unwrap(), 0));
        Ok(())
    }
}
