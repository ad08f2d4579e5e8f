//! A file outside of the server that is written under the lock's fence, as a user's own code would do. The server cannot
//! protect it, so the file compares fences itself.

use std::fs;
use std::io::{self, ErrorKind};
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

impl DrillLedger {
    /// An unguarded ledger accepts every write.
    pub(super) fn new(folder: &Path, guarded: bool) -> Self {
        Self { path: folder.join("ledger.json"), guarded }
    }

    /// Compares the fence and appends an entry. Returns false if the fence is stale. The two need not be atomic here,
    /// because the drill lets only one participant write at a time.
    pub(super) fn write(&self, by: &str, fence: u64) -> io::Result<bool> {
        let mut entries = self.entries()?;
        // A holder writes several times under the same fence, so an equal fence is accepted.
        if self.guarded && entries.iter().any(|entry| entry.fence > fence) {
            return Ok(false);
        }
        entries.push(LedgerEntry { by: by.to_owned(), fence });
        fs::write(&self.path, serde_json::to_vec(&entries)?)?;
        Ok(true)
    }

    pub(super) fn entries(&self) -> io::Result<Vec<LedgerEntry>> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
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
}
