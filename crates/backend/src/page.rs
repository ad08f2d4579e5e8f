//! Lists come in pages.

use serde::{Deserialize, Serialize};

/// Which part of a list to return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageRequest {
    /// The most items.
    pub limit: usize,
    /// Continue after this item of the last page.
    pub after: Option<String>,
}

/// A part of a list. It may hold fewer items than the limit and still not be the last.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give this as `after` for the next page. None: there is no more.
    pub next: Option<String>,
}

impl<T> Page<T> {
    pub fn map<U>(self, turn: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(turn).collect(), next: self.next }
    }
}
