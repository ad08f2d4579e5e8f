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
    /// Creates the folder if it is missing, and locks it. Its database can be read by the owner alone, and so can the
    /// log beside it, which gets the permissions of its database.
    pub(crate) fn claim(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Folder { folder: path.to_owned(), source };
        builder().create(path).map_err(unusable)?;
        warn_if_open(path);
        let lock = private().open(path.join("interlock.lock")).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {
                let folder = Self { path: path.to_owned(), lock };
                private().open(folder.database()).map_err(unusable)?;
                Ok(folder)
            }
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

/// How a file is opened that is made if it is missing, for its owner alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A folder that was made before may be open to others. That is for its owner to decide, but not without knowing.
#[cfg(unix)]
fn warn_if_open(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = path.metadata().map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        let folder = path.display();
        tracing::warn!(%folder, "other users of this machine can look into the data folder: chmod 700 closes it");
    }
}

#[cfg(not(unix))]
fn warn_if_open(_: &Path) {}

/// Payloads and key digests are private: only the owner may read them.
fn builder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
