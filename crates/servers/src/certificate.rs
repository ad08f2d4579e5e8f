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
        openssl(folder, arguments)?;
        Ok(Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") })
    }

    /// The same, of a certificate that has expired. Only an authority may say when one ends.
    pub fn expired(folder: &Path) -> Result<Self> {
        let settings = "[ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\n\
            policy=any\nx509_extensions=server\n[any]\ncommonName=supplied\n[server]\nsubjectAltName=DNS:localhost\n\
            basicConstraints=critical,CA:FALSE\n";
        for (name, text) in [("ca.cnf", settings), ("index", ""), ("serial", "01\n")] {
            std::fs::write(folder.join(name), text)?;
        }
        openssl(
            folder,
            "req -new -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost",
        )?;
        let arguments = "ca -config ca.cnf -selfsign -keyfile key.pem -in request.pem -out certificate.pem -batch -notext \
            -startdate 20200101000000Z -enddate 20200102000000Z";
        openssl(folder, arguments)?;
        Ok(Self { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") })
    }
}

fn openssl(folder: &Path, arguments: &str) -> Result<()> {
    let made = Command::new("openssl")
        .args(arguments.split_ascii_whitespace())
        .current_dir(folder)
        .output()
        .context("cannot run openssl; `cargo xtask test` installs it")?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}
