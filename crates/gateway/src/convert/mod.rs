//! From the model's nouns to the wire's. One file for each noun.

pub(crate) mod admission;
pub(crate) mod dead_letters;
pub(crate) mod dispatch_policy;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod locks;
pub(crate) mod retry_policies;
pub(crate) mod rollouts;
pub(crate) mod runs;
pub(crate) mod why;
pub(crate) mod workers;

use interlock_api::Page;

use crate::cursor;

/// A page of the store as the client sees it.
pub(crate) fn page<T, U>(page: interlock_backend::Page<T>, turn: impl FnMut(T) -> U) -> Page<U> {
    let page = page.map(turn);
    Page::new(page.items, page.next.as_deref().map(cursor::encode))
}
