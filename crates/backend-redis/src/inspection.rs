//! Looking for what must not be among the keys, and mending it.

use async_trait::async_trait;
use interlock_backend::inspection::{Inspection, InspectionStore, Repair};
use interlock_backend::{Page, StoreError};
use interlock_model::doctor::{Finding, Mending};

use crate::store::RedisStore;

#[async_trait]
impl InspectionStore for RedisStore {
    async fn inspect(&self, _: &Inspection) -> Result<Page<Finding>, StoreError> {
        Ok(Page { items: Vec::new(), next: None })
    }

    async fn mend(&self, _: &Repair) -> Result<Mending, StoreError> {
        Ok(Mending::NothingToDo)
    }
}
