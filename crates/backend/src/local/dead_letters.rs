//! What was given up on.

use async_trait::async_trait;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::{JobId, TenantId};

use super::rows;
use super::runs::{fill_page, page_end};
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, read};
use crate::dead_letters::DeadLetterStore;
use crate::{Page, PageRequest, StoreError};

pub(super) fn bury(changes: &mut Changes, id: &TenantId, letter: &DeadLetter) {
    changes.put(Table::DeadLetters, rows::job(id, &letter.job), letter);
}

fn list(view: &dyn View, id: &TenantId, page: &PageRequest) -> Result<Page<DeadLetter>, StoreError> {
    let until = page_end(id, page);
    let limit = page.limit.saturating_add(1);
    let rows = view.scan(Table::DeadLetters, &rows::of_tenant(id), &until, Pick::Last(limit))?;
    let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
    fill_page(keys, page.limit, |key| read(view, Table::DeadLetters, key))
}

fn delete(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Decision<()>, StoreError> {
    let key = rows::job(id, job);
    if view.get(Table::DeadLetters, &key)?.is_none() {
        return Err(StoreError::not_found("dead letter", job));
    }
    let mut changes = Changes::default();
    changes.delete(Table::DeadLetters, key);
    Ok(Decision { answer: (), changes })
}

#[async_trait]
impl<E: Executor> DeadLetterStore for LocalStore<E> {
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter) -> Result<(), StoreError> {
        let (tenant, letter) = (tenant.clone(), letter.clone());
        let decide = move |_: &dyn View, _| {
            let mut changes = Changes::default();
            bury(&mut changes, &tenant, &letter);
            Ok(Decision { answer: (), changes })
        };
        self.write("bury a job", decide).await
    }

    async fn dead_letters(
        &self,
        tenant: &TenantId,
        page: &PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        let (tenant, page) = (tenant.clone(), page.clone());
        self.read("list dead letters", move |view, _| list(view, &tenant, &page)).await
    }

    async fn dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<Option<DeadLetter>, StoreError> {
        let key = rows::job(tenant, job);
        self.read("read a dead letter", move |view, _| read(view, Table::DeadLetters, &key)).await
    }

    async fn delete_dead_letter(&self, tenant: &TenantId, job: &JobId) -> Result<(), StoreError> {
        let (tenant, job) = (tenant.clone(), job.clone());
        self.write("delete a dead letter", move |view, _| delete(view, &tenant, &job)).await
    }
}
