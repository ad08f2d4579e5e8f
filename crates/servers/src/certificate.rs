//! A self-signed certificate for `localhost`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Files in PEM format. A client that trusts the certificate trusts the server with the key.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Creates both files in this folder.
    pub fn make(folder: &Path) -> Result<Self> {
        let arguments = "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out certificate.pem \
            -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
        let made = Command::new("openssl")
            .args(arguments.split_ascii_whitespace())
            .current_dir(folder)
            .output()
            .context("cannot run openssl; `cargo xtask test` installs it")?;
        ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Ok(Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") })
    }
}
