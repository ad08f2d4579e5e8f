//! Looking for what must not be among the keys, and mending it. `lua/shared/*_rules.lua` say what must not be.

use std::time::Duration;

use async_trait::async_trait;
use interlock_backend::inspection::{
    Inspection, InspectionStore, KEYS_JUDGED_FOR, LETTERS_TOLD_FROM, Repair,
};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::TenantId;
use interlock_model::approval::Approval;
use interlock_model::doctor::{Finding, Invariant, Mending, Realm};
use interlock_model::job::NewJob;
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::step::StepRun;
use interlock_model::time::millis;
use serde::de::DeserializeOwned;

use crate::locks::{name_of, of_users, resource_of};
use crate::script::{Call, Fields, Script, Unreadable};
use crate::scripts;
use crate::store::RedisStore;

/// Rows that one call looks at when something is looked for again.
const PAGE: usize = 1_000;

/// Pages that are looked through for it.
const PAGES_MAX: usize = 10_000;

/// Which script knows a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Theme {
    Rows,
    Locks,
    /// Texts that scripts keep and never look into.
    Documents,
}

impl Theme {
    /// Where an invariant is looked for, in turn.
    fn of(invariant: Invariant) -> &'static [Self] {
        let locks = [Invariant::LockDebt, Invariant::LockTallyDrift, Invariant::LockNotListed];
        if invariant == Invariant::RowDamaged {
            &[Self::Rows, Self::Locks, Self::Documents]
        } else if locks.contains(&invariant) {
            &[Self::Locks]
        } else if invariant.realm() == Realm::Installation || invariant == Invariant::SlotCountDrift {
            // Slots are counted where they are kept.
            &[]
        } else {
            &[Self::Rows]
        }
    }
}

/// What is looked for, by both verbs.
struct Question<'a> {
    tenant: &'a TenantId,
    invariant: Invariant,
    grace: Duration,
}

/// Something that was found.
struct Found {
    subject: String,
    detail: String,
    /// Why nobody but a person can mend it.
    obstacle: Option<String>,
    /// Where it is found again, if its subject does not tell.
    place: String,
}

impl RedisStore {
    fn question(&self, script: &'static Script, theme: Theme, question: &Question<'_>) -> Call {
        let gone = self.link.known().gone_instances();
        let call = Call::write(script, "look after rows", question.tenant);
        let call = if theme == Theme::Locks { of_users(call) } else { call };
        call.with(question.invariant.name())
            .with(millis(question.grace))
            .with(LETTERS_TOLD_FROM)
            .with(millis(KEYS_JUDGED_FOR))
            .with_list(gone.iter(), |call, gone| call.push(gone.as_str()))
    }

    /// A page of one theme.
    async fn look(
        &self,
        theme: Theme,
        question: &Question<'_>,
        page: &PageRequest,
    ) -> Result<Page<Found>, StoreError> {
        let script = match theme {
            Theme::Rows => &scripts::INSPECT,
            Theme::Locks => &scripts::INSPECT_LOCKS,
            Theme::Documents => &scripts::READ_DOCUMENTS,
        };
        let call = self.question(script, theme, question).reading();
        let call = call.with(page.after.as_deref()).with(page.limit);
        if theme == Theme::Documents {
            let page = self.ask(call, |fields| fields.page(|item| read_document(item.list()?))).await?;
            let Page { items, next } = page;
            return Ok(Page { items: items.into_iter().flatten().collect(), next });
        }
        self.ask(call, |fields| fields.page(|item| read_found(item.list()?))).await
    }

    /// A page of the first theme, then of the next: the number of the theme stands before its own cursor.
    async fn look_in_turn(
        &self,
        question: &Question<'_>,
        page: &PageRequest,
    ) -> Result<Page<Found>, StoreError> {
        let themes = Theme::of(question.invariant);
        let after = page.after.as_deref().and_then(|after| after.split_once('/'));
        let (turn, after) = after.map_or((0, ""), |(turn, after)| (turn.parse().unwrap_or(0), after));
        let Some(theme) = themes.get(turn) else { return Ok(Page { items: Vec::new(), next: None }) };
        let after = Some(after.to_owned()).filter(|after| !after.is_empty());
        let page = self.look(*theme, question, &PageRequest { limit: page.limit, after }).await?;
        let next = match page.next {
            Some(next) => Some(format!("{turn}/{next}")),
            None => themes.get(turn + 1).map(|_| format!("{}/", turn + 1)),
        };
        Ok(Page { next, ..page })
    }

    /// Looks for a finding once more. None if it is not there any more.
    async fn find(&self, question: &Question<'_>, subject: &str) -> Result<Option<Found>, StoreError> {
        let mut page = PageRequest { limit: PAGE, after: None };
        for _ in 0..PAGES_MAX {
            let found = self.look_in_turn(question, &page).await?;
            if let Some(found) = found.items.into_iter().find(|found| found.subject == subject) {
                return Ok(Some(found));
            }
            page.after = found.next;
            if page.after.is_none() {
                break;
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl InspectionStore for RedisStore {
    async fn inspect(&self, inspection: &Inspection) -> Result<Page<Finding>, StoreError> {
        let Inspection { tenant, invariant, grace, page } = inspection;
        let question = Question { tenant, invariant: *invariant, grace: *grace };
        let page = self.look_in_turn(&question, page).await?;
        Ok(page.map(|found| Finding {
            invariant: *invariant,
            tenant: Some(tenant.clone()),
            subject: shown(*invariant, found.subject),
            detail: found.detail,
            is_repairable: found.obstacle.is_none(),
        }))
    }

    async fn mend(&self, repair: &Repair) -> Result<Mending, StoreError> {
        let question = Question { tenant: &repair.tenant, invariant: repair.invariant, grace: repair.grace };
        let mut place = String::new();
        // An entry of a queue is known by its job, which may be gone; a damaged row by its key, whatever it holds.
        if matches!(repair.invariant, Invariant::QueueEntryWithoutJob | Invariant::RowDamaged) {
            match self.find(&question, &repair.subject).await? {
                None => return Ok(Mending::NothingToDo),
                Some(Found { obstacle: Some(reason), .. }) => return Ok(Mending::Impossible { reason }),
                Some(found) => place = found.place,
            }
        }
        let Some(theme) = Theme::of(repair.invariant).first().copied() else {
            return Ok(Mending::NothingToDo);
        };
        let script = if theme == Theme::Locks { &scripts::MEND_LOCKS } else { &scripts::MEND };
        let call = self.question(script, theme, &question);
        let call = call.with(kept(repair.invariant, &repair.subject)).with(place);
        self.ask(call, |mut fields| match fields.text()?.as_str() {
            "mended" => Ok(Mending::Mended),
            "nothing" => Ok(Mending::NothingToDo),
            "impossible" => Ok(Mending::Impossible { reason: fields.text()? }),
            _ => Err(fields.unreadable("outcome")),
        })
        .await
    }
}

/// Whether subjects of the invariant are names of locks, which stand in keys in another form.
fn is_about_locks(invariant: Invariant) -> bool {
    matches!(invariant, Invariant::LockDebt | Invariant::LockNotListed)
}

fn shown(invariant: Invariant, subject: String) -> String {
    let resource = is_about_locks(invariant).then(|| resource_of(&subject)).flatten();
    resource.map_or(subject, |resource| resource.as_str().to_owned())
}

fn kept(invariant: Invariant, subject: &str) -> String {
    let resource = is_about_locks(invariant).then(|| subject.parse().ok()).flatten();
    resource.map_or_else(|| subject.to_owned(), |resource| name_of(&resource))
}

/// As `lua/inspect.lua` tells it.
fn read_found(mut fields: Fields) -> Result<Found, Unreadable> {
    Ok(Found {
        // What stands in a list may be anything.
        subject: String::from_utf8_lossy(&fields.bytes()?).into_owned(),
        detail: fields.text()?,
        obstacle: Some(fields.text()?).filter(|obstacle| !obstacle.is_empty()),
        place: fields.text()?,
    })
}

/// A document as `lua/documents.lua` tells it, if it cannot be read.
fn read_document(mut fields: Fields) -> Result<Option<Found>, Unreadable> {
    let (kind, subject, text) = (fields.text()?, fields.text()?, fields.bytes()?);
    let trouble = match kind.as_str() {
        "start" => trouble_with::<Start>(&text),
        "head" => trouble_with::<Head>(&text),
        "step" => trouble_with::<StepRun>(&text),
        "event" => trouble_with::<InboxEvent>(&text),
        "job" => trouble_with::<NewJob>(&text),
        "approval" => trouble_with::<Approval>(&text),
        _ => return Err(fields.unreadable("document")),
    };
    Ok(trouble.map(|trouble| Found {
        subject,
        detail: format!("the {kind} cannot be read: {trouble}"),
        obstacle: Some(Invariant::RowDamaged.plan().to_owned()),
        place: String::new(),
    }))
}

fn trouble_with<T: DeserializeOwned>(text: &[u8]) -> Option<String> {
    serde_json::from_slice::<T>(text).err().map(|error| error.to_string())
}
