//! Looking for what must not be among the keys, and mending it. `lua/shared/*_rules.lua` say what must not be.

use std::time::Duration;

use interlock_backend::inspection::{DEAD_LETTERS_REPORTED_FROM, KEYS_JUDGED_FOR};
use interlock_backend::verbs::{Inspect, Repair};
use interlock_backend::{Page, PageRequest, StoreError, Verb};
use interlock_model::TenantId;
use interlock_model::approval::Approval;
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};
use interlock_model::job::NewJob;
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::step::StepRun;
use serde::de::DeserializeOwned;

use crate::locks::{name_of, of_users, resource_of};
use crate::reply::{Reply, Unreadable};
use crate::script::{Call, Script, script};
use crate::store::{Execute, RedisStore};

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
    fn question<V: Verb>(&self, script: &'static Script, theme: Theme, question: &Question<'_>) -> Call {
        let call = Call::for_verb::<V>(script, question.tenant);
        let call = if theme == Theme::Locks { of_users(call) } else { call };
        call.with("invariant", question.invariant.name())
            .with("grace", question.grace)
            .with("letters_told_from", DEAD_LETTERS_REPORTED_FROM)
            .with("keys_judged_for", KEYS_JUDGED_FOR)
            .with("gone_instances", self.client.known().gone_instances())
    }

    /// A page of one theme.
    async fn look(
        &self,
        theme: Theme,
        question: &Question<'_>,
        page: &PageRequest,
    ) -> Result<Page<Found>, StoreError> {
        let script = match theme {
            Theme::Rows => script!("inspect"),
            Theme::Locks => script!("inspect_locks"),
            Theme::Documents => script!("inspect_documents"),
        };
        let call = self.question::<Inspect>(script, theme, question).page(page);
        if theme == Theme::Documents {
            let page = self.ask_script(call, |reply| reply.page(read_document)).await?;
            let Page { items, next } = page;
            return Ok(Page { items: items.into_iter().flatten().collect(), next });
        }
        self.ask_script(call, |reply| reply.page(read_found)).await
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

impl Execute for Inspect {
    async fn execute(self, store: &RedisStore) -> Result<Page<Finding>, StoreError> {
        let Self { tenant, invariant, grace, page } = self;
        let question = Question { tenant: &tenant, invariant, grace };
        let page = store.look_in_turn(&question, &page).await?;
        Ok(page.map(|found| Finding {
            invariant,
            tenant: Some(tenant.clone()),
            subject: shown(invariant, found.subject),
            detail: found.detail,
            is_repairable: found.obstacle.is_none(),
        }))
    }
}

impl Execute for Repair {
    async fn execute(self, store: &RedisStore) -> Result<RepairOutcome, StoreError> {
        let question = Question { tenant: &self.tenant, invariant: self.invariant, grace: self.grace };
        let mut place = String::new();
        // An entry of a queue is known by its job, which may be missing; a damaged row by its key, whatever it holds.
        if matches!(self.invariant, Invariant::QueueEntryWithoutJob | Invariant::RowDamaged) {
            match store.find(&question, &self.subject).await? {
                None => return Ok(RepairOutcome::NothingToDo),
                Some(Found { obstacle: Some(reason), .. }) => {
                    return Ok(RepairOutcome::Impossible { reason });
                }
                Some(found) => place = found.place,
            }
        }
        let Some(theme) = Theme::of(self.invariant).first().copied() else {
            return Ok(RepairOutcome::NothingToDo);
        };
        let script = if theme == Theme::Locks { script!("repair_locks") } else { script!("repair") };
        let call = store.question::<Self>(script, theme, &question);
        let call = call.with("subject", kept(self.invariant, &self.subject)).with("place", place);
        let read = |mut reply: Reply| match reply.text("outcome")?.as_str() {
            "repaired" => Ok(RepairOutcome::Repaired),
            "nothing" => Ok(RepairOutcome::NothingToDo),
            "impossible" => Ok(RepairOutcome::Impossible { reason: reply.text("reason")? }),
            _ => Err(reply.unreadable("outcome")),
        };
        store.ask_script(call, read).await
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

/// As `lua/shared/rule_pages.lua` gives it.
fn read_found(mut item: Reply) -> Result<Found, Unreadable> {
    Ok(Found {
        // What stands in a list may be anything.
        subject: String::from_utf8_lossy(&item.bytes("subject")?).into_owned(),
        detail: item.text("detail")?,
        obstacle: item.optional_text("obstacle")?,
        place: item.optional_text("place")?.unwrap_or_default(),
    })
}

/// A document as `lua/inspect_documents.lua` gives it, if it cannot be read.
fn read_document(mut item: Reply) -> Result<Option<Found>, Unreadable> {
    let (kind, subject, text) = (item.text("kind")?, item.text("name")?, item.bytes("text")?);
    let trouble = match kind.as_str() {
        "start" => trouble_with::<Start>(&text),
        "head" => trouble_with::<Head>(&text),
        "step" => trouble_with::<StepRun>(&text),
        "event" => trouble_with::<InboxEvent>(&text),
        "job" => trouble_with::<NewJob>(&text),
        "approval" => trouble_with::<Approval>(&text),
        _ => return Err(item.unreadable("kind")),
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
