//! A file that is written under the lock's fence, as a user's own code would: outside of the server, which cannot protect
//! it. The file compares fences itself.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone)]
pub struct Ledger {
    path: PathBuf,
    guarded: bool,
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Yes,
    /// Somebody with a larger fence was here before.
    Stale {
        current: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub by: String,
    pub fence: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    /// The largest so far.
    fence: u64,
    entries: Vec<Entry>,
}

impl Ledger {
    /// One that is not `guarded` writes whatever comes.
    #[must_use]
    pub fn new(path: PathBuf, guarded: bool) -> Self {
        Self { path, guarded }
    }

    /// Compares and writes, in one step for everybody who goes this way.
    pub fn write(&self, by: &str, fence: u64) -> io::Result<Written> {
        let door = self.door()?;
        door.lock()?;
        let mut content = self.read()?;
        // A holder has one fence for all its writes, so that an equal one is no stranger's.
        if self.guarded && fence < content.fence {
            return Ok(Written::Stale { current: content.fence });
        }
        content.fence = content.fence.max(fence);
        content.entries.push(Entry { by: by.to_owned(), fence });
        self.replace(&serde_json::to_vec(&content)?)?;
        Ok(Written::Yes)
    }

    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        Ok(self.read()?.entries)
    }

    /// Whether nobody is in the middle of a write. Whoever is paused there keeps everybody else out.
    pub fn is_free(&self) -> io::Result<bool> {
        match self.door()?.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// What is locked. Not the file itself, which is another one after every write.
    fn door(&self) -> io::Result<File> {
        let path = self.path.with_extension("lock");
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    }

    fn read(&self) -> io::Result<Content> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Content::default()),
            Err(error) => Err(error),
        }
    }

    /// The whole new content or the whole old one, whenever the process dies.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let draft = self.path.with_extension("draft");
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(folder: &tempfile::TempDir, guarded: bool) -> Ledger {
        Ledger::new(folder.path().join("ledger.json"), guarded)
    }

    fn fences(ledger: &Ledger) -> Vec<u64> {
        ledger.entries().unwrap().iter().map(|entry| entry.fence).collect()
    }

    #[test]
    fn a_holder_writes_as_often_as_it_likes_and_an_earlier_one_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ledger(&folder, true);
        for fence in [7, 7, 9, 9] {
            assert_eq!(ledger.write("a", fence).unwrap(), Written::Yes);
        }
        assert_eq!(ledger.write("b", 8).unwrap(), Written::Stale { current: 9 });
        assert_eq!(fences(&ledger), [7, 7, 9, 9]);
    }

    #[test]
    fn one_that_is_not_guarded_takes_whatever_comes() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ledger(&folder, false);
        assert_eq!(
            (ledger.write("a", 9).unwrap(), ledger.write("b", 8).unwrap()),
            (Written::Yes, Written::Yes)
        );
        assert_eq!(fences(&ledger), [9, 8]);
    }

    #[test]
    fn it_is_free_unless_somebody_is_inside() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ledger(&folder, true);
        assert!(ledger.is_free().unwrap());
        let inside = ledger.door().unwrap();
        inside.lock().unwrap();
        assert!(!ledger.is_free().unwrap());
        drop(inside);
        assert!(ledger.is_free().unwrap());
    }
}
