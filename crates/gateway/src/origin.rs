//! Requests that a page of another site may have made a browser send.
//!
//! Without API keys every client that reaches the server has all rights. A browser on the same machine reaches it on
//! behalf of every page that it shows, so the server answers only to its own names, and no page of another site may
//! change something.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::error::Refusal;
use crate::state::App;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses a request under a name that is not this server's, or a change that another site asks for.
pub(crate) fn check(parts: &Parts, host_names: &[String]) -> Result<(), Refusal> {
    let authority = authority(parts);
    if let Some(authority) = authority
        && !is_own_name(host_of(authority), host_names)
    {
        return Err(foreign_name(authority));
    }
    let is_read = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    if is_read || is_same_origin(&parts.headers, authority) {
        return Ok(());
    }
    Err(Refusal::forbidden("without API keys a page of another site cannot change anything here"))
}

/// A request for metrics, under a name that no attacker can make lead here. A scrape may use any address, because an
/// address leads nowhere else. At an address of their own, the metrics are for all clients that reach it.
pub(crate) struct Scraper;

impl FromRequestParts<App> for Scraper {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let is_open = app.is_loopback && !app.keys.are_needed() && app.settings.metrics_listen.is_none();
        if is_open { check_scrape(parts, &app.settings.host_names) } else { Ok(()) }.map(|()| Self)
    }
}

fn check_scrape(parts: &Parts, host_names: &[String]) -> Result<(), Refusal> {
    let Some(authority) = authority(parts) else { return Ok(()) };
    let host = host_of(authority);
    if address(host).is_some() || is_own_name(host, host_names) {
        return Ok(());
    }
    Err(foreign_name(authority))
}

fn foreign_name(authority: &str) -> Refusal {
    Refusal::forbidden(format!(
        "without API keys this server answers only to loopback names, not to `{}`: create an API key, or set host_names",
        shortened(authority)
    ))
}

/// The host and port that the request is for. A request without them comes from no browser.
fn authority(parts: &Parts) -> Option<&str> {
    let named = parts.headers.get(HOST).map(|host| host.to_str().unwrap_or("?"));
    named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str))
}

/// The host without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}

fn is_own_name(host: &str, host_names: &[String]) -> bool {
    let is_loopback = address(host).is_some_and(|address| address.is_loopback());
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    is_loopback
        || name == "localhost"
        || name.ends_with(".localhost")
        || host_names.iter().any(|own| own.eq_ignore_ascii_case(&name))
}

fn address(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// Programs send neither header. Browsers send at least one of them with every change.
fn is_same_origin(headers: &HeaderMap, authority: Option<&str>) -> bool {
    if let Some(origin) = headers.get(ORIGIN) {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        return origin.is_some_and(|(_, origin)| Some(origin) == authority);
    }
    let site = headers.get(FETCH_SITE).map(|site| site.to_str().unwrap_or("?"));
    site.is_none_or(|site| matches!(site, "same-origin" | "none"))
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(method: Method, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri("/api/v1/workflows");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn is_allowed(method: Method, headers: &[(&str, &str)]) -> bool {
        check(&parts(method, headers), &["box.lan".to_owned()]).is_ok()
    }

    #[test]
    fn a_scrape_may_use_any_address_and_own_names() {
        let is_allowed = |host| check_scrape(&parts(Method::GET, &[("host", host)]), &["box.lan".to_owned()]);
        for host in ["10.1.2.3:8081", "[fd00::1]", "localhost:1", "box.lan"] {
            assert!(is_allowed(host).is_ok(), "{host}");
        }
        for host in ["evil.example:8081", "", "10.1.2.3.evil.example"] {
            assert!(is_allowed(host).is_err(), "{host}");
        }
    }

    #[test]
    fn only_own_names_are_answered() {
        for host in [
            "127.0.0.1:8081",
            "localhost",
            "LOCALHOST:1",
            "[::1]:8081",
            "127.9.9.9",
            "a.localhost:80",
            "box.lan:80",
        ] {
            assert!(is_allowed(Method::GET, &[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example:8081", "10.0.0.1", "[::2]", "", "box.lan.evil.example"]
        {
            assert!(!is_allowed(Method::GET, &[("host", host)]), "{host}");
        }
        assert!(is_allowed(Method::POST, &[]));
    }

    #[test]
    fn a_change_comes_from_the_same_origin_or_from_no_browser() {
        let own = ("host", "127.0.0.1:8081");
        let is_allowed = |header: (&str, &str)| is_allowed(Method::POST, &[own, header]);
        assert!(is_allowed(("origin", "http://127.0.0.1:8081")));
        assert!(is_allowed(("sec-fetch-site", "same-origin")) && is_allowed(("sec-fetch-site", "none")));
        for origin in ["http://evil.example", "null", "http://localhost:8081", "http://127.0.0.1:3000", ""] {
            assert!(!is_allowed(("origin", origin)), "{origin}");
        }
        assert!(
            !is_allowed(("sec-fetch-site", "cross-site")) && !is_allowed(("sec-fetch-site", "same-site"))
        );
    }
}
