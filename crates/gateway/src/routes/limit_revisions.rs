//! Revisions of limits in headers: what a change must find, and what an answer has.

use axum::response::{IntoResponse, Response};
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Refusal;

/// What a change must find.
pub(super) enum Expected {
    Anything,
    /// Any limit of this name.
    Something,
    /// 0: none.
    Revision(u64),
}

pub(super) fn expected(headers: &HeaderMap) -> Result<Expected, Refusal> {
    match (one(headers, &IF_MATCH)?, one(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(Expected::Anything),
        (None, Some("*")) => Ok(Expected::Revision(0)),
        (Some("*"), None) => Ok(Expected::Something),
        (Some(tag), None) => {
            let digits = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(tag);
            let revision = digits.parse().map_err(|_| {
                Refusal::invalid("If-Match: use the revision of the limit, such as \"7\", or `*`")
            })?;
            Ok(Expected::Revision(revision))
        }
        (None, Some(_)) => Err(Refusal::invalid("If-None-Match: use `*`")),
        (Some(_), Some(_)) => Err(Refusal::invalid("use If-Match or If-None-Match, not both")),
    }
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut given = headers.get_all(name).iter();
    let Some(first) = given.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|_| given.next().is_none());
    text.map(|text| Some(text.trim())).ok_or_else(|| Refusal::invalid(format!("{name}: send one value")))
}

pub(super) fn with_tag(revision: u64, answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    let tag = HeaderValue::try_from(format!("\"{revision}\"")).expect("digits and quotes make a header");
    response.headers_mut().insert(ETAG, tag);
    response
}
