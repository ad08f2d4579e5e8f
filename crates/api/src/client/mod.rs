//! A typed client of the HTTP API: one method per endpoint.
//!
//! A client is cheap to clone and shares its connections. It never retries: only the caller knows whether that is safe.
//! The [worker loop](crate::worker), the [event reader](crate::events) and the [lock guard](crate::lock_guard) do retry.

mod calls;
mod endpoints;
mod error;
mod paths;
mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub use error::{Error, Result};
pub(crate) use transport::unreachable;
pub use transport::{careful_client, innermost_cause, install_tls};

/// Where to reach the gateway, and as whom.
#[derive(Clone)]
pub struct ClientSettings {
    /// Such as `http://127.0.0.1:8081`.
    pub gateway: String,
    pub api_key: Option<String>,
    /// For keys that cover more than one tenant.
    pub tenant: Option<String>,
    /// CA certificates to trust besides the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer may take, in addition to the wait that a call asks for.
    pub timeout: Duration,
}

impl ClientSettings {
    pub fn new(gateway: impl Into<String>) -> Self {
        Self {
            gateway: gateway.into(),
            api_key: None,
            tenant: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        }
    }
}

/// A client of one gateway.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a slash at its end.
    gateway: String,
    timeout: Duration,
}

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const TENANT: HeaderName = HeaderName::from_static("x-tenant-id");

impl Client {
    pub fn new(settings: ClientSettings) -> Result<Self> {
        let ClientSettings { gateway, api_key, tenant, ca_file, connect_timeout, timeout } = settings;
        let gateway = gateway.trim_end_matches('/').to_owned();
        let url = reqwest::Url::parse(&gateway)
            .map_err(|error| Error::Settings(format!("the gateway {gateway:?} is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Settings(format!("the gateway {gateway:?} must be an http or https URL")));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = api_key {
            headers.insert(API_KEY, header("the API key", &key, true)?);
        }
        if let Some(tenant) = tenant {
            headers.insert(TENANT, header("the tenant", &tenant, false)?);
        }
        let mut builder = careful_client(&url, headers).connect_timeout(connect_timeout);
        if let Some(file) = ca_file {
            builder = builder.tls_certs_merge(trusted(&file)?);
        }
        let http = builder.build();
        let http = http.map_err(|error| Error::Settings(error.to_string()))?;
        Ok(Self { http, gateway, timeout })
    }

    pub fn gateway(&self) -> &str {
        &self.gateway
    }
}

fn trusted(file: &Path) -> Result<Vec<reqwest::Certificate>> {
    let wrong = |reason: &dyn std::fmt::Display| {
        Error::Settings(format!("cannot read the CA certificates of {}: {reason}", file.display()))
    };
    let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
    let found = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| wrong(&error))?;
    if found.is_empty() {
        Err(wrong(&"there is no certificate in it; it must be in PEM form"))
    } else {
        Ok(found)
    }
}

fn header(what: &str, text: &str, sensitive: bool) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Error::Settings(format!("{what} has characters that are not allowed in a header")))?;
    value.set_sensitive(sensitive);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(gateway: &str, key: Option<&str>) -> String {
        let settings = ClientSettings { api_key: key.map(str::to_owned), ..ClientSettings::new(gateway) };
        Client::new(settings).unwrap_err().to_string()
    }

    #[test]
    fn a_gateway_must_be_an_http_url() {
        assert!(refusal("nonsense", None).contains("not a URL"));
        assert!(refusal("ftp://host", None).contains("must be an http or https URL"));
    }

    #[test]
    fn a_key_never_shows_in_an_error_or_in_debug_output() {
        assert!(!refusal("http://host", Some("secret\nkey")).contains("secret"));
        let settings =
            ClientSettings { api_key: Some("secret".to_owned()), ..ClientSettings::new("http://host/") };
        let client = Client::new(settings).unwrap();
        assert!(!format!("{client:?}").contains("secret"));
        assert_eq!(client.gateway(), "http://host");
    }
}
