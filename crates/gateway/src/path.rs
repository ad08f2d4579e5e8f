//! Names in paths.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use interlock_model::contention::Scope;
use interlock_model::{ApiKeyId, BudgetName, JobId, LimitName, RolloutId, RunId, WorkerId, WorkflowId};

use crate::error::Refusal;

/// The name of something that should exist. A text that cannot be such a name is 404, too.
pub(crate) struct Named<T>(pub T);

/// A kind of thing that paths name.
pub(crate) trait Kind: FromStr + Send {
    const WHAT: &'static str;
}

macro_rules! kinds {
    ($($name:ty = $what:literal;)*) => {
        $(impl Kind for $name {
            const WHAT: &'static str = $what;
        })*
    };
}

kinds! {
    BudgetName = "budget";
    WorkflowId = "workflow";
    RunId = "run";
    JobId = "job";
    WorkerId = "worker";
    ApiKeyId = "key";
    Scope = "retry policy";
    RolloutId = "rollout";
    LimitName = "limit";
}

pub(crate) fn named<T: Kind>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::not_found(T::WHAT, text))
}

/// What was looked up under a name, or 404.
pub(crate) fn found<T, K: Kind + Display>(found: Option<T>, name: &K) -> Result<T, Refusal> {
    found.ok_or_else(|| Refusal::not_found(K::WHAT, &name.to_string()))
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

/// The name that a worker gives itself. It exists from its first use, so a bad one is a bad request.
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
