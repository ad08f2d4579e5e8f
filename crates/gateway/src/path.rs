//! Names in paths.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use interlock_model::contention::Scope;
use interlock_model::{ApiKeyId, JobId, RolloutId, RunId, WorkerId, WorkflowId};

use crate::error::Refusal;

/// The name of something that should exist. A text that cannot be such a name is the name of nothing: 404.
pub(crate) struct Named<T>(pub T);

/// A kind of thing that paths name.
pub(crate) trait Kind: FromStr + Send {
    const WHAT: &'static str;
}

impl Kind for WorkflowId {
    const WHAT: &'static str = "workflow";
}

impl Kind for RunId {
    const WHAT: &'static str = "run";
}

impl Kind for JobId {
    const WHAT: &'static str = "job";
}

impl Kind for WorkerId {
    const WHAT: &'static str = "worker";
}

impl Kind for ApiKeyId {
    const WHAT: &'static str = "key";
}

impl Kind for Scope {
    const WHAT: &'static str = "retry policy";
}

impl Kind for RolloutId {
    const WHAT: &'static str = "roll-out";
}

pub(crate) fn named<T: Kind>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::not_found(T::WHAT, text))
}

impl<T: Kind, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = texts::<String, S>(parts, state).await?;
        named(&text).map(Self)
    }
}

impl<A: Kind, B: Kind, S: Send + Sync> FromRequestParts<S> for Named<(A, B)> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path((first, second)) = texts::<(String, String), S>(parts, state).await?;
        Ok(Self((named(&first)?, named(&second)?)))
    }
}

/// The name that a worker gives itself: it comes into being here, so a bad one is a bad request.
pub(crate) struct SelfNamed(pub WorkerId);

impl<S: Send + Sync> FromRequestParts<S> for SelfNamed {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = texts::<String, S>(parts, state).await?;
        text.parse().map(Self).map_err(Refusal::invalid)
    }
}

async fn texts<T, S>(parts: &mut Parts, state: &S) -> Result<Path<T>, Refusal>
where
    T: serde::de::DeserializeOwned + Send,
    S: Send + Sync,
{
    let found = Path::from_request_parts(parts, state).await;
    found.map_err(|_| Refusal::invalid("the path is not text in UTF-8"))
}
