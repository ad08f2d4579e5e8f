//! TLS. The files are read again when they change, so that a renewed certificate needs no restart.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use interlock_backend::clock::SystemClock;
use interlock_model::{Clock as _, Timestamp};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::certificate;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often it is logged that the certificate has expired, or does soon.
const WARN_EVERY: Duration = Duration::from_hours(24);

const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// Where the certificate chain and its key are, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Why these files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: {reason}", file.display())]
    File { file: PathBuf, reason: String },
    #[error("{} and {} cannot be used: {reason}", files.certificate.display(), files.key.display())]
    Pair { files: TlsFiles, reason: rustls::Error },
}

/// The certificate in force.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug, Clone)]
struct Current {
    config: Arc<ServerConfig>,
    written: Written,
}

/// When each file was last written; absent if it is not there.
type Written = [Option<SystemTime>; 2];

impl Tls {
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let (written, config) = (files.written(), files.read()?);
        files.warn_of_expiry();
        Ok(Self { files, current: Mutex::new(Current { config, written }) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.lock().unwrap_or_else(PoisonError::into_inner).config.clone())
    }

    /// Puts changed files into force, for as long as it runs. Files that cannot be used leave the last ones in force.
    pub(crate) async fn follow(&self) {
        let mut warned_at = Instant::now();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if warned_at.elapsed() >= WARN_EVERY {
                self.files.warn_of_expiry();
                warned_at = Instant::now();
            }
            let written = self.files.written();
            let known = self.current.lock().unwrap_or_else(PoisonError::into_inner).written;
            if written == known {
                continue;
            }
            let read = self.files.read();
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            current.written = written;
            match read {
                Ok(config) => {
                    current.config = config;
                    tracing::info!("the new TLS certificate is in force");
                    self.files.warn_of_expiry();
                }
                Err(error) => tracing::error!(%error, "the last TLS certificate stays in force"),
            }
        }
    }
}

fn unusable(file: &Path, what: &str, error: &pem::Error) -> TlsError {
    let reason = match error {
        pem::Error::NoItemsFound => format!("there is no {what} in this file; it must be in PEM form"),
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::MissingSectionEnd { .. }
        | pem::Error::IllegalSectionStart { .. }
        | pem::Error::Base64Decode(_)
        | pem::Error::SectionTooLarge
        | _ => format!("is no {what} in PEM form: {error}"),
    };
    TlsError::File { file: file.to_owned(), reason }
}

impl TlsFiles {
    fn written(&self) -> Written {
        [&self.certificate, &self.key]
            .map(|file| std::fs::metadata(file).and_then(|file| file.modified()).ok())
    }

    /// Whether both files can be used.
    pub fn check(&self) -> Result<(), TlsError> {
        self.read().map(drop)
    }

    /// When the server's own certificate expires; none if that cannot be found in it.
    pub fn expires_at(&self) -> Result<Option<Timestamp>, TlsError> {
        Ok(self.chain()?.first().and_then(|own| certificate::expires_at(own)))
    }

    fn warn_of_expiry(&self) {
        let (Ok(Some(expires_at)), now) = (self.expires_at(), SystemClock.now()) else { return };
        let file = self.certificate.display();
        if expires_at <= now {
            tracing::warn!(%file, %expires_at, "the TLS certificate has expired: clients refuse it until it is renewed");
        } else if expires_at < now + EXPIRES_SOON {
            tracing::warn!(%file, %expires_at, "the TLS certificate expires soon: renew it");
        }
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let failed = |error| unusable(&self.certificate, "certificate", &error);
        let chain = CertificateDer::pem_file_iter(&self.certificate).map_err(failed)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if chain.is_empty() { Err(failed(pem::Error::NoItemsFound)) } else { Ok(chain) }
    }

    fn read(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = self.chain()?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| unusable(&self.key, "private key", &error))?;
        Self::configure(chain, key).map_err(|reason| TlsError::Pair { files: self.clone(), reason })
    }

    fn configure(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
