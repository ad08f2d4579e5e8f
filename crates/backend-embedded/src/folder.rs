//! The data folder, and the claim that no other process works in it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::OpenError;

/// A folder that is locked for as long as this lives. The operating system drops the lock when the process dies.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it.
    pub(crate) fn claim(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Folder { folder: path.to_owned(), source };
        builder().create(path).map_err(unusable)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("interlock.lock"))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { folder: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("interlock.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closing the file would do, were there not the moment in which a child process that is just being started
        // still has a copy of it. If this fails, closing does it a moment later.
        let _ = self.lock.unlock();
    }
}

/// Payloads and key digests are private: only the owner may read them.
fn builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
