//! What was given up on.

use std::collections::BTreeSet;

use async_trait::async_trait;
use interlock_model::dead_letter::DeadLetter;
use interlock_model::run::InboxEvent;
use interlock_model::tenant::Tenant;
use interlock_model::{JobId, TenantId};

use super::runs::{fill_page, page_end};
use super::store::LocalStore;
use super::tables::{Changes, Decision, Executor, Pick, Table, View, read, scan_prefix};
use super::{inbox, rows, slots};
use crate::dead_letters::{DROPPED_AT_ONCE_MAX, DeadLetterStore, LetterCount, LetterRetry};
use crate::{Page, PageRequest, StoreError};

/// Keeps the letters. Of more than the tenant may have, those of the oldest runs go.
pub(super) fn bury(
    view: &dyn View,
    changes: &mut Changes,
    (id, tenant): (&TenantId, &mut Tenant),
    letters: &[DeadLetter],
    letters_max: u32,
) -> Result<(), StoreError> {
    let mut own = BTreeSet::new();
    for letter in letters {
        let key = rows::job(id, &letter.job);
        changes.put(Table::DeadLetters, key.clone(), letter);
        if own.insert(key.clone()) && view.get(Table::DeadLetters, &key)?.is_none() {
            tenant.dead_letters += 1;
        }
    }
    let over = tenant.dead_letters.saturating_sub(letters_max).min(DROPPED_AT_ONCE_MAX);
    if over == 0 || letters.is_empty() {
        return Ok(());
    }
    let looked_at = Pick::First(over as usize + letters.len());
    let oldest = scan_prefix(view, Table::DeadLetters, &rows::of_tenant(id), looked_at)?;
    for row in oldest.into_iter().filter(|row| !own.contains(&row.key)).take(over as usize) {
        changes.delete(Table::DeadLetters, row.key);
        tenant.dead_letters -= 1;
        tenant.dead_letters_dropped += 1;
    }
    Ok(())
}

/// Removes the letter of a job, if there is one.
pub(super) fn remove(
    view: &dyn View,
    changes: &mut Changes,
    tenant: &mut Tenant,
    key: &str,
) -> Result<bool, StoreError> {
    let is_there = view.get(Table::DeadLetters, key)?.is_some();
    if is_there {
        changes.delete(Table::DeadLetters, key);
        tenant.dead_letters = tenant.dead_letters.saturating_sub(1);
    }
    Ok(is_there)
}

fn retry(
    view: &dyn View,
    (id, job): (&TenantId, &JobId),
    by: &str,
) -> Result<Decision<LetterRetry>, StoreError> {
    let key = rows::job(id, job);
    let letter: Option<DeadLetter> = read(view, Table::DeadLetters, &key)?;
    let letter = letter.ok_or_else(|| StoreError::not_found("dead letter", job))?;
    match inbox::status(view, id, job.run)? {
        None => return Ok(Decision::unchanged(LetterRetry::RunGone)),
        Some(status) if status.is_final() => return Ok(Decision::unchanged(LetterRetry::RunEnded)),
        Some(_) => {}
    }
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    remove(view, &mut changes, &mut tenant, &key)?;
    changes.put(Table::Tenants, id.as_str(), &tenant);
    let event = InboxEvent::Retry { by: by.to_owned(), letter: Box::new(letter) };
    inbox::post(view, &mut changes, (id, job.run), &[event])?;
    Ok(Decision { answer: LetterRetry::Posted, changes })
}

fn list(view: &dyn View, id: &TenantId, page: &PageRequest) -> Result<Page<DeadLetter>, StoreError> {
    let until = page_end(id, page);
    let limit = page.limit.saturating_add(1);
    let rows = view.scan(Table::DeadLetters, &rows::of_tenant(id), &until, Pick::Last(limit))?;
    let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
    fill_page(keys, page.limit, |key| read(view, Table::DeadLetters, key))
}

fn delete(view: &dyn View, id: &TenantId, job: &JobId) -> Result<Decision<()>, StoreError> {
    let mut changes = Changes::default();
    let mut tenant = slots::tenant(view, id)?;
    if !remove(view, &mut changes, &mut tenant, &rows::job(id, job))? {
        return Err(StoreError::not_found("dead letter", job));
    }
    changes.put(Table::Tenants, id.as_str(), &tenant);
    Ok(Decision { answer: (), changes })
}

#[async_trait]
impl<E: Executor> DeadLetterStore for LocalStore<E> {
    async fn bury(&self, tenant: &TenantId, letter: &DeadLetter, letters_max: u32) -> Result<(), StoreError> {
        let (id, letter) = (tenant.clone(), letter.clone());
        let decide = move |view: &dyn View, _| {
            let mut changes = Changes::default();
            let mut tenant = slots::tenant(view, &id)?;
            bury(view, &mut changes, (&id, &mut tenant), std::slice::from_ref(&letter), letters_max)?;
            changes.put(Table::Tenants, id.as_str(), &tenant);
            Ok(Decision { answer: (), changes })
        };
        self.write("bury a job", decide).await
    }

    async fn retry_dead_letter(
        &self,
        tenant: &TenantId,
        job: &JobId,
        by: &str,
    ) -> Result<LetterRetry, StoreError> {
        let (tenant, job, by) = (tenant.clone(), job.clone(), by.to_owned());
        self.write("retry a dead letter", move |view, _| retry(view, (&tenant, &job), &by)).await
    }

    async fn count_dead_letters(&self, tenant: &TenantId) -> Result<LetterCount, StoreError> {
        let tenant = tenant.clone();
        let look = move |view: &dyn View, _| {
            let tenant = slots::tenant(view, &tenant)?;
            Ok(LetterCount { kept: tenant.dead_letters, dropped: tenant.dead_letters_dropped })
        };
        self.read("count dead letters", look).await
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
