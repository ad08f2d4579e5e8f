//! A typed client of the HTTP interface: one method for each endpoint, one file for each noun.
//!
//! A client is cheap to clone and shares its connections. It never retries by itself: whether a repetition is safe is
//! known to the caller alone. (The [worker loop](crate::worker), the [event reader](crate::events) and the
//! [guard of locks](crate::lock_guard) do, as theirs are.)

mod approvals;
mod dead_letters;
mod dispatch_policy;
mod doctor;
mod error;
mod jobs;
mod keys;
mod limits;
mod locks;
mod paths;
mod retry_policies;
mod rollouts;
mod runs;
mod status;
mod transport;
mod why;
mod workers;
mod workflows;

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

pub use error::{Error, Result};
pub(crate) use transport::unreachable;

/// Where to reach the gateway, and as whom.
#[derive(Clone)]
pub struct Settings {
    /// Such as `http://127.0.0.1:8081`.
    pub gateway: String,
    pub api_key: Option<String>,
    /// For keys that cover more than one tenant.
    pub tenant: Option<String>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long an answer may take, beyond what the call itself asks the server to wait.
    pub timeout: Duration,
}

impl Settings {
    #[must_use]
    pub fn new(gateway: impl Into<String>) -> Self {
        Self {
            gateway: gateway.into(),
            api_key: None,
            tenant: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
        }
    }
}

/// A connection to one gateway.
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
    pub fn new(settings: Settings) -> Result<Self> {
        let Settings { gateway, api_key, tenant, connect_timeout, timeout } = settings;
        let gateway = gateway.trim_end_matches('/').to_owned();
        let url = reqwest::Url::parse(&gateway)
            .map_err(|error| Error::Settings(format!("{gateway:?} is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Settings(format!("{gateway:?} is neither an http nor an https URL")));
        }
        let mut headers = HeaderMap::new();
        if let Some(key) = api_key {
            headers.insert(API_KEY, header("the API key", &key, true)?);
        }
        if let Some(tenant) = tenant {
            headers.insert(TENANT, header("the tenant", &tenant, false)?);
        }
        install_tls();
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(connect_timeout)
            // A redirect would carry the key to another place.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("interlock/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| Error::Settings(error.to_string()))?;
        Ok(Self { http, gateway, timeout })
    }

    #[must_use]
    pub fn gateway(&self) -> &str {
        &self.gateway
    }
}

fn header(what: &str, text: &str, sensitive: bool) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| Error::Settings(format!("{what} has characters that a header cannot hold")))?;
    value.set_sensitive(sensitive);
    Ok(value)
}

/// A proxy of the environment is for the world outside, not for this machine.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// One provider for the whole process; whoever comes second finds it there.
fn install_tls() {
    let _already_there = rustls::crypto::ring::default_provider().install_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(gateway: &str, key: Option<&str>) -> String {
        let settings = Settings { api_key: key.map(str::to_owned), ..Settings::new(gateway) };
        Client::new(settings).unwrap_err().to_string()
    }

    #[test]
    fn a_gateway_that_is_no_http_url_is_refused_before_anything_is_sent() {
        assert!(refusal("nonsense", None).contains("not a URL"));
        assert!(refusal("ftp://host", None).contains("neither an http nor an https"));
    }

    #[test]
    fn a_key_never_shows_in_an_error_or_in_debug_output() {
        assert!(!refusal("http://host", Some("secret\nkey")).contains("secret"));
        let settings = Settings { api_key: Some("secret".to_owned()), ..Settings::new("http://host/") };
        let client = Client::new(settings).unwrap();
        assert!(!format!("{client:?}").contains("secret"));
        assert_eq!(client.gateway(), "http://host");
    }
}
