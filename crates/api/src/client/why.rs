//! Calls about what something waits for.

use super::paths::path;
use super::{Client, Result};
use crate::why::{WhyQuery, WhyView};

impl Client {
    /// What something waits for now.
    pub async fn why(&self, query: &WhyQuery) -> Result<WhyView> {
        self.get(&path(&[&"why"])).query(query).read().await
    }
}
