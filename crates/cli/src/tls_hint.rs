//! What to do about a failed TLS connection, where its reason says that.

use interlock_api::client::Error;

/// The next step, as the end of the sentence that says what failed; empty where nothing is known.
pub(crate) fn tls_hint(error: &Error) -> &'static str {
    let Error::Unreachable { gateway, reason } = error else { return "" };
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if gateway.starts_with("http://") {
        // To a plain request, TLS answers with an alert, which is no HTTP.
        return if says(&[
            "invalid HTTP version",
            "connection closed before message",
            "unexpected end of file",
        ]) {
            ". If the server serves HTTPS (--tls-cert), use https:// in --gateway"
        } else {
            ""
        };
    }
    if says(&["UnknownIssuer", "BadSignature", "SelfSigned", "self-signed", "CaUsedAsEndEntity"]) {
        ". The certificate is not trusted here: name the certificate that signed it with --ca-file"
    } else if says(&["certificate expired", "Expired"]) {
        ". The certificate of the server has expired: renew it"
    } else if says(&["not valid for name", "NotValidForName"]) {
        ". The certificate is for another name: use one of its names in --gateway"
    } else if says(&["InvalidContentType", "corrupt message"]) {
        ". The server does not speak HTTPS: use http:// in --gateway"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_failures_have_no_hint() {
        let unreachable = |gateway: &str, reason: &str| Error::Unreachable {
            gateway: gateway.into(),
            reason: reason.into(),
        };
        for gateway in ["http://127.0.0.1:1", "https://127.0.0.1:1"] {
            assert_eq!(tls_hint(&unreachable(gateway, "Connection refused (os error 111)")), "");
        }
        assert_eq!(tls_hint(&Error::Settings("no".to_owned())), "");
    }
}
