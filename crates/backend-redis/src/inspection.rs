//! Checks invariants among the keys and repairs violations. `lua/shared/*_rules.lua` hold the rules.

use std::time::Duration;

use interlock_backend::inspection::OF_UNLISTED;
use interlock_backend::verbs::{Inspect, InspectUnlisted, Repair};
use interlock_backend::{Page, PageRequest, StoreError};
use interlock_model::approval::Approval;
use interlock_model::doctor::{Finding, Invariant, Realm, RepairOutcome};
use interlock_model::job::NewJob;
use interlock_model::run::{Head, InboxEvent, Start};
use interlock_model::step::StepRun;
use interlock_model::time::millis;
use interlock_model::{Resource, TenantId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::client::new_request;
use crate::reply::{self, Unreadable};
use crate::script::{Arguments, Call, name_of};
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
    /// Runs, their slots, and those that wait for them: a script may have 200 names.
    Runs,
    /// Texts that scripts keep and never look into.
    Documents,
}

impl Theme {
    /// Where an invariant is looked for, in turn.
    fn of(invariant: Invariant) -> &'static [Self] {
        let locks = [Invariant::LockDebt, Invariant::LockTallyDrift, Invariant::LockNotListed];
        let runs = [
            Invariant::SlotWithoutRun,
            Invariant::RunWithoutSlot,
            Invariant::TimerOverdue,
            Invariant::TimerMissing,
            Invariant::TimerWithoutRun,
            Invariant::InboxNotDrained,
            Invariant::ReadyWithoutRun,
            Invariant::RunHoldWithoutHolder,
            Invariant::RunQuarantined,
            Invariant::LimitSlotWithoutRun,
            Invariant::RunWithoutLimitSlot,
            Invariant::FairQueueDrift,
            Invariant::QueuedRunInNoQueue,
            Invariant::LimitQueueEntryWithoutRun,
            Invariant::DebouncedRunWithoutTimer,
            Invariant::DebounceEntryWithoutRun,
            Invariant::StartableRunWaits,
            Invariant::ChildWithoutStep,
            Invariant::StepWithoutChild,
            Invariant::ChildStartNotDue,
            Invariant::EventWaiterNotIndexed,
            Invariant::EventWaiterWithoutStep,
        ];
        if invariant == Invariant::RowDamaged {
            &[Self::Rows, Self::Locks, Self::Documents]
        } else if locks.contains(&invariant) {
            &[Self::Locks]
        } else if runs.contains(&invariant) {
            &[Self::Runs]
        } else if invariant.realm() == Realm::Installation
            || matches!(invariant, Invariant::SlotCountDrift | Invariant::LimitCountDrift)
            || OF_UNLISTED.contains(&invariant)
        {
            // Slots are counted where they are kept.
            &[]
        } else {
            &[Self::Rows]
        }
    }
}

/// What is looked for, by all verbs.
pub(crate) struct Question<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) invariant: Invariant,
    pub(crate) grace: Duration,
}

/// Something that was found, as `lua/shared/rule_pages.lua` gives it.
#[derive(Deserialize)]
pub(crate) struct Found {
    #[serde(deserialize_with = "lossy")]
    subject: String,
    detail: String,
    /// Why only a person can repair it.
    obstacle: Option<String>,
    /// Where it is found again, if its subject does not say.
    #[serde(default)]
    place: String,
}

impl Found {
    pub(crate) fn into_finding(self, invariant: Invariant, tenant: TenantId) -> Finding {
        Finding {
            invariant,
            tenant: Some(tenant),
            subject: shown(invariant, self.subject),
            detail: self.detail,
            is_repairable: self.obstacle.is_none(),
        }
    }
}

/// What stands in a list may be anything.
fn lossy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(String::from_utf8_lossy(<&[u8]>::deserialize(deserializer)?).into_owned())
}

impl Question<'_> {
    pub(crate) fn arguments(&self) -> Arguments {
        Arguments::default().with("invariant", self.invariant).with("grace", millis(self.grace))
    }
}

impl RedisStore {
    /// A page of one theme.
    async fn look(
        &self,
        theme: Theme,
        question: &Question<'_>,
        page: &PageRequest,
    ) -> Result<Page<Found>, StoreError> {
        let script = match theme {
            Theme::Rows => "inspect",
            Theme::Locks => "inspect_locks",
            Theme::Runs => "inspect_runs",
            Theme::Documents => "inspect_documents",
        };
        let arguments = question.arguments().with("page", page);
        let call = Call::on_behalf_of::<Inspect>(script, question.tenant, arguments);
        let reply = self.client.call_as(&call, &new_request()).await?;
        if theme == Theme::Documents {
            return reply::read(&call, &reply, |reply| {
                let page = Page::<Document<'_>>::deserialize(reply)?;
                let damaged = page.items.iter().map(Document::check).collect::<Result<Vec<_>, _>>()?;
                Ok(Page { items: damaged.into_iter().flatten().collect(), next: page.next })
            });
        }
        reply::read(&call, &reply, |reply| Page::deserialize(reply))
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
                return self.find_unlisted(question, subject).await;
            }
        }
        Ok(None)
    }

    async fn find_unlisted(
        &self,
        question: &Question<'_>,
        subject: &str,
    ) -> Result<Option<Found>, StoreError> {
        let Question { tenant, invariant, grace } = *question;
        let page = PageRequest { limit: PAGE, after: None };
        let mut asked = InspectUnlisted { tenant: Some(tenant.clone()), invariant, grace, page };
        for _ in 0..PAGES_MAX {
            let found = self.look_at_unlisted(&asked).await?;
            let named =
                found.items.into_iter().map(|(_, found)| found).find(|found| found.subject == subject);
            asked.page.after = found.next;
            if named.is_some() || asked.page.after.is_none() {
                return Ok(named);
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
        Ok(page.map(|found| found.into_finding(invariant, tenant.clone())))
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
        let script = match Theme::of(self.invariant).first() {
            Some(Theme::Locks) => "repair_locks",
            Some(Theme::Runs) => "repair_runs",
            None if !OF_UNLISTED.contains(&self.invariant) => return Ok(RepairOutcome::NothingToDo),
            Some(Theme::Rows | Theme::Documents) | None => "repair",
        };
        let arguments = question.arguments();
        let arguments = arguments.with("subject", kept(self.invariant, &self.subject)).with("place", place);
        store.client.call(Call::on_behalf_of::<Self>(script, &self.tenant, arguments)).await
    }
}

/// Whether subjects of the invariant are names of locks, which stand in keys in another form.
fn is_about_locks(invariant: Invariant) -> bool {
    matches!(invariant, Invariant::LockDebt | Invariant::LockNotListed)
}

fn resource_of(name: &str) -> Option<Resource> {
    name.replace("%2F", "/").replace("%25", "%").parse().ok()
}

fn shown(invariant: Invariant, subject: String) -> String {
    let resource = is_about_locks(invariant).then(|| resource_of(&subject)).flatten();
    resource.map_or(subject, |resource| resource.as_str().to_owned())
}

fn kept(invariant: Invariant, subject: &str) -> String {
    let resource = is_about_locks(invariant).then(|| subject.parse().ok()).flatten();
    resource.map_or_else(|| subject.to_owned(), |resource| name_of(&resource))
}

/// A document as `lua/inspect_documents.lua` gives it.
#[derive(Deserialize)]
struct Document<'a> {
    kind: String,
    name: String,
    text: &'a [u8],
}

impl Document<'_> {
    /// What is found if it cannot be read.
    fn check(&self) -> Result<Option<Found>, Unreadable> {
        let trouble = match self.kind.as_str() {
            "start" => trouble_with::<Start>(self.text),
            "head" => trouble_with::<Head>(self.text),
            "step" => trouble_with::<StepRun>(self.text),
            "event" => trouble_with::<InboxEvent>(self.text),
            "job" => trouble_with::<NewJob>(self.text),
            "approval" => trouble_with::<Approval>(self.text),
            other => return Err(Unreadable(format!("{other} is no kind of document"))),
        };
        Ok(trouble.map(|trouble| Found {
            subject: self.name.clone(),
            detail: format!("the {} cannot be read: {trouble}", self.kind),
            obstacle: Some(Invariant::RowDamaged.plan().to_owned()),
            place: String::new(),
        }))
    }
}

fn trouble_with<T: DeserializeOwned>(text: &[u8]) -> Option<String> {
    serde_json::from_slice::<T>(text).err().map(|error| error.to_string())
}
