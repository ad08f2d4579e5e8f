//! Pages of lists: newest first, unless a list says otherwise.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The largest page.
pub const LIMIT_MAX: u32 = 500;

/// The size of a page by default.
pub const LIMIT_DEFAULT: u32 = 50;

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass it as `cursor` for the next page; null on the last.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    pub fn new(items: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { items, next_cursor }
    }
}

/// Which part of a list to return.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// 1 to 500; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the previous page. Empty for the first page.
    #[param(pattern = "^(2[1-9a-f]|[3-6][0-9a-f]|7[0-9a-e])*$", max_length = 1024)]
    pub cursor: Option<String>,
}
