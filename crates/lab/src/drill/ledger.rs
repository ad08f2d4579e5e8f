//! A file outside of the server that is written under the lock's fence, as a user's own code would do. The server cannot
//! protect it, so the file compares fences itself.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone)]
pub(super) struct DrillLedger {
    path: PathBuf,
    guarded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LedgerEntry {
    pub(super) by: String,
    pub(super) fence: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct LedgerFile {
    /// The largest fence so far.
    fence: u64,
    entries: Vec<LedgerEntry>,
}

impl DrillLedger {
    /// An unguarded ledger accepts every write.
    pub(super) fn new(folder: &Path, guarded: bool) -> Self {
        Self { path: folder.join("ledger.json"), guarded }
    }

    /// Compares the fence and writes an entry, atomically among all writers. Returns false if the fence is stale.
    pub(super) fn write(&self, by: &str, fence: u64) -> io::Result<bool> {
        let lock = self.lock_file()?;
        lock.lock()?;
        let mut file = self.read()?;
        // A holder writes several times under the same fence, so an equal fence is accepted.
        if self.guarded && fence < file.fence {
            return Ok(false);
        }
        file.fence = file.fence.max(fence);
        file.entries.push(LedgerEntry { by: by.to_owned(), fence });
        self.replace(&serde_json::to_vec(&file)?)?;
        Ok(true)
    }

    pub(super) fn entries(&self) -> io::Result<Vec<LedgerEntry>> {
        Ok(self.read()?.entries)
    }

    /// Whether no write is in progress. A process that is paused during a write blocks all others.
    pub(super) fn is_free(&self) -> io::Result<bool> {
        match self.lock_file()?.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// A separate file, because every write replaces the ledger itself.
    fn lock_file(&self) -> io::Result<File> {
        let path = self.path.with_extension("lock");
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    }

    fn read(&self) -> io::Result<LedgerFile> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(LedgerFile::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the whole file atomically, whenever the process dies.
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

    fn fences(ledger: &DrillLedger) -> Vec<u64> {
        ledger.entries().unwrap().iter().map(|entry| entry.fence).collect()
    }

    #[test]
    fn a_guarded_ledger_accepts_equal_and_larger_fences_only() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = DrillLedger::new(folder.path(), true);
        for fence in [7, 7, 9, 9] {
            assert!(ledger.write("a", fence).unwrap());
        }
        assert!(!ledger.write("b", 8).unwrap());
        assert_eq!(fences(&ledger), [7, 7, 9, 9]);
    }

    #[test]
    fn an_unguarded_ledger_accepts_every_fence() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = DrillLedger::new(folder.path(), false);
        assert!(ledger.write("a", 9).unwrap() && ledger.write("b", 8).unwrap());
        assert_eq!(fences(&ledger), [9, 8]);
    }

    #[test]
    fn a_ledger_is_free_unless_a_write_is_in_progress() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = DrillLedger::new(folder.path(), true);
        assert!(ledger.is_free().unwrap());
        let lock = ledger.lock_file().unwrap();
        lock.lock().unwrap();
        assert!(!ledger.is_free().unwrap());
        drop(lock);
        assert!(ledger.is_free().unwrap());
    }
}
