//! Query parameters. Unknown ones are refused; known ones must be within bounds.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use interlock_api::page::{LIMIT_DEFAULT, LIMIT_MAX};
use interlock_backend::PageRequest;
use interlock_model::spelling::nearest;

use crate::cursor;
use crate::error::Refusal;

#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

/// Characters of an unknown name in an error.
const NAME_CHARS_MAX: usize = 80;

/// Before every handler: refuses parameters that its endpoint does not have. One that is misspelt would change nothing,
/// without a word about it.
pub(crate) async fn refuse_unknown(
    State(known): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Response {
    if request.uri().query().is_none_or(str::is_empty) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    match Parameters::from_request_parts(&mut parts, &()).await.and_then(|given| given.check(&known)) {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(pairs)| Self(pairs))
            .map_err(|error| Refusal::invalid(format!("the query cannot be read: {}", error.body_text())))
    }
}

impl Parameters {
    fn check(&self, known: &[String]) -> Result<(), Refusal> {
        let Some((unknown, _)) = self.0.iter().find(|(name, _)| !known.contains(name)) else { return Ok(()) };
        let hint = match nearest(unknown, known.iter().map(String::as_str)) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.is_empty() => "it takes none".to_owned(),
            None => format!("it takes {}", known.join(", ")),
        };
        let name: String = unknown.chars().take(NAME_CHARS_MAX).collect();
        Err(Refusal::invalid(format!("unknown query parameter {name:?}; {hint}")))
    }

    /// The parameter's text, which may be empty: an empty bound is an error, not an absent one.
    pub(crate) fn given(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut found = self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let first = found.next();
        if found.any(|other| Some(other) != first) {
            return Err(Refusal::invalid(format!("{name} is given more than once, with different values")));
        }
        Ok(first)
    }

    /// The parameter's text, where an empty one means the same as none.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        Ok(self.given(name)?.filter(|text| !text.is_empty()))
    }

    /// The parameter as a value that is written as text, such as an id.
    pub(crate) fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(text) = self.given(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|problem| Refusal::invalid(format!("{name}: {problem}")))
    }

    /// The parameter as one of the values that have a name.
    pub(crate) fn one_of<T: Copy>(
        &self,
        name: &str,
        values: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.given(name)? else { return Ok(None) };
        let found = values.iter().copied().find(|value| name_of(*value) == text);
        found.map(Some).ok_or_else(|| {
            let names: Vec<_> = values.iter().copied().map(name_of).collect();
            Refusal::invalid(format!("{name}: unknown {name}; expected one of: {}", names.join(", ")))
        })
    }

    /// The requested page.
    pub(crate) fn page(&self) -> Result<PageRequest, Refusal> {
        let after = self.text("cursor")?.map(cursor::decode).transpose()?;
        Ok(PageRequest { limit: self.limit()?, after })
    }

    pub(crate) fn limit(&self) -> Result<usize, Refusal> {
        let Some(text) = self.given("limit")? else { return Ok(LIMIT_DEFAULT as usize) };
        let limit = text.parse::<u32>().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.map(|limit| limit as usize).ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            Refusal::invalid(format!("limit must be a whole number from 1 to {LIMIT_MAX}, not {text:?}"))
        })
    }
}
