//! Dead letters.

use std::collections::BTreeSet;

use interlock_model::dead_letter::DeadLetter;
use interlock_model::run::{InboxEvent, Quarantine};

use super::draft::{Draft, decide};
use super::store::look;
use super::tables::{Pick, Table, newest_page, read};
use super::{inbox, rows, slots};
use crate::StoreError;
use crate::dead_letters::{DROPPED_AT_ONCE_MAX, DeadLetterCount, DeadLetterRetry};
use crate::verbs::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, ListDeadLetters, ReadDeadLetter, RetryDeadLetter,
};

impl Draft<'_> {
    /// Saves the dead letters. Of more than the tenant may have, those of the oldest runs make room.
    pub(super) fn add_dead_letters(&mut self, added: &[DeadLetter], max: u32) -> Result<(), StoreError> {
        if added.is_empty() {
            return Ok(());
        }
        let mut own = BTreeSet::new();
        for dead_letter in added {
            let key = rows::job(self.id, &dead_letter.job);
            self.put(Table::DeadLetters, key.clone(), dead_letter);
            if own.insert(key.clone()) && !self.has(Table::DeadLetters, &key)? {
                self.tenant()?.dead_letters += 1;
            }
        }
        let over = self.tenant()?.dead_letters.saturating_sub(max).min(DROPPED_AT_ONCE_MAX);
        let oldest = self.scan_tenant(Table::DeadLetters, Pick::First(over as usize + added.len()))?;
        for row in oldest.into_iter().filter(|row| !own.contains(&row.key)).take(over as usize) {
            self.delete(Table::DeadLetters, row.key);
            let tenant = self.tenant()?;
            tenant.dead_letters -= 1;
            tenant.dead_letters_dropped += 1;
        }
        Ok(())
    }

    /// Removes the dead letter of the job with this key. Returns whether there was one.
    pub(super) fn remove_dead_letter(&mut self, key: &str) -> Result<bool, StoreError> {
        let exists = self.has(Table::DeadLetters, key)?;
        if exists {
            self.delete(Table::DeadLetters, key);
            let tenant = self.tenant()?;
            tenant.dead_letters = tenant.dead_letters.saturating_sub(1);
        }
        Ok(exists)
    }
}

decide!(AddDeadLetter, |verb, draft| {
    draft.add_dead_letters(std::slice::from_ref(&verb.dead_letter), verb.dead_letters_max)?;
    Ok(())
});

decide!(RetryDeadLetter, |verb, draft| {
    let key = rows::job(&verb.tenant, &verb.job);
    let dead_letter: DeadLetter = draft.require(Table::DeadLetters, &key, ("dead letter", &verb.job))?;
    match inbox::status(draft.view, &verb.tenant, verb.job.run)? {
        None => return Ok(DeadLetterRetry::RunGone),
        Some(status) if status.is_final() => return Ok(DeadLetterRetry::RunEnded),
        Some(_) => {}
    }
    if Quarantine::is_letter_id(&verb.job) {
        if !draft.lift_quarantine(verb.job.run)? {
            draft.remove_dead_letter(&key)?;
        }
        return Ok(DeadLetterRetry::Posted);
    }
    draft.remove_dead_letter(&key)?;
    let event = InboxEvent::Retry { by: verb.by.clone(), letter: Box::new(dead_letter) };
    draft.post(verb.job.run, &[event])?;
    Ok(DeadLetterRetry::Posted)
});

decide!(DeleteDeadLetter, |verb, draft| {
    if !draft.remove_dead_letter(&rows::job(&verb.tenant, &verb.job))? {
        return Err(StoreError::not_found("dead letter", &verb.job));
    }
    Ok(())
});

look!(ListDeadLetters, |verb, view| {
    let (page, rows_max) = ((&verb.tenant, &verb.page), verb.page.limit);
    newest_page(view, Table::DeadLetters, page, rows_max, |row| read(view, Table::DeadLetters, &row.key))
});

look!(CountDeadLetters, |verb, view| {
    let tenant = slots::tenant(view, &verb.tenant)?;
    Ok(DeadLetterCount { kept: tenant.dead_letters, dropped: tenant.dead_letters_dropped })
});

look!(ReadDeadLetter, |verb, view| read(view, Table::DeadLetters, &rows::job(&verb.tenant, &verb.job)));
