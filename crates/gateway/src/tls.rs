//! TLS. The files are read again when they change, so that a renewed certificate needs no restart.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where the certificate chain and its key are, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Why these files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {reason}", file.display())]
    File { file: PathBuf, reason: String },
    #[error("the certificate and its key cannot be used: {0}")]
    Pair(#[from] rustls::Error),
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
        Ok(Self { files, current: Mutex::new(Current { config, written }) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.lock().unwrap_or_else(PoisonError::into_inner).config.clone())
    }

    /// Puts changed files into force, for as long as it runs. Files that cannot be used leave the last ones in force.
    pub(crate) async fn follow(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
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
                }
                Err(error) => tracing::error!(%error, "the last TLS certificate stays in force"),
            }
        }
    }
}

impl TlsFiles {
    fn written(&self) -> Written {
        [&self.certificate, &self.key]
            .map(|file| std::fs::metadata(file).and_then(|file| file.modified()).ok())
    }

    fn read(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let failed = |file: &PathBuf| {
            let file = file.clone();
            move |error: rustls::pki_types::pem::Error| TlsError::File { file, reason: error.to_string() }
        };
        let chain = CertificateDer::pem_file_iter(&self.certificate).map_err(failed(&self.certificate))?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(failed(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(failed(&self.key))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
