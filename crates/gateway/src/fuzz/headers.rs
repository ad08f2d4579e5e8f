//! Headers that decide something: which key a start has, whose key a request has, and where a page comes from.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use interlock_fuzz::{Target, expect_short};
use proptest::prelude::*;
use proptest::sample::select;

use crate::{auth, body, idempotency, origin};

const NAMES: [&str; 8] = [
    "host",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "x-idempotency-key",
    "content-type",
    "authorization",
    "x-api-key",
];

const VALUES: [&str; 22] = [
    "127.0.0.1:8081",
    "localhost",
    "LOCALHOST.",
    "[::1]:80",
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1@evil.example",
    "http://127.0.0.1:8081",
    "http://localhost",
    "http://evil.example",
    "null",
    "cross-site",
    "same-origin",
    "application/json",
    "application/json; charset=utf-8",
    "text/plain;application/json",
    "application/x+json",
    "Bearer ilk_a_b",
    "bearer  x ",
    "Basic eDp5",
    "\"a\\\"b\\\\c\"",
    "\"abc\"",
];

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let value =
        prop_oneof![4 => select(&VALUES[..]).prop_map(str::to_owned), 1 => "[ -~]{0,300}", 1 => "\\PC{0,20}"];
    let line = (select(&NAMES[..]), value).prop_map(|(name, value)| format!("{name}: {value}"));
    proptest::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n").into_bytes())
}

/// The headers that HTTP would let through.
fn read(input: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// A change that is let through comes from the server's own page or from no page, under a name of this machine.
fn expect_own_origin(headers: &HeaderMap) {
    let mut request = Request::post("/api/v1/keys").body(()).expect("a request");
    *request.headers_mut() = headers.clone();
    if let Err(refusal) = origin::check(&request.into_parts().0, &[]) {
        return expect_short(&format!("{refusal:?}"));
    }
    if let Some(host) = text(headers, &HOST) {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches([']', '.', ':']).to_ascii_lowercase();
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        assert!(is_loopback || name.ends_with("localhost"), "{host}");
    }
    if let Some(origin) = text(headers, &ORIGIN) {
        let host = text(headers, &HOST).expect("an origin needs a host to be compared with");
        assert!(origin.ends_with(&format!("://{host}")), "{origin} {host}");
    }
}

/// An idempotency key is the same however it is quoted.
fn expect_one_key(headers: &HeaderMap) {
    let key = match idempotency::key(headers) {
        Err(refusal) => return expect_short(&format!("{refusal:?}")),
        Ok(None) => return,
        Ok(Some(key)) => key,
    };
    let quoted = format!("\"{}\"", key.as_str().replace('\\', "\\\\").replace('"', "\\\""));
    let mut again = HeaderMap::new();
    again.insert("idempotency-key", quoted.parse().expect("a key is visible ASCII"));
    assert_eq!(idempotency::key(&again).ok().flatten(), Some(key));
}

#[test]
fn headers_are_refused_or_mean_one_thing() {
    Target::new(env!("CARGO_MANIFEST_DIR"), "headers").fuzz(lines(), |input| {
        let headers = read(input);
        expect_own_origin(&headers);
        expect_one_key(&headers);
        if body::is_json(&headers) {
            // A page can send neither without a question of its browser first.
            let sent = text(&headers, &CONTENT_TYPE).expect("JSON is said").to_ascii_lowercase();
            assert!(sent.trim().starts_with("application/") && sent.contains("json"), "{sent}");
            assert!(!sent.starts_with("application/x-www-form-urlencoded"), "{sent}");
        }
        if let Some(presented) = auth::presented(&headers)
            && !headers.contains_key(auth::API_KEY)
        {
            let sent = text(&headers, &AUTHORIZATION).expect("the key is in a header");
            assert!(sent.contains(presented) && (presented.is_empty() || sent.len() > presented.len()));
        }
    });
}
