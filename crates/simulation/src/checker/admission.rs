//! Who may start: the answer that every admission must have given.

use interlock_backend::StoreError;
use interlock_backend::verbs::Admit;
use interlock_model::admission::{IdempotentIntent, StartOutcome};
use interlock_model::run::StartedFrom;
use interlock_model::{RunId, TenantId, Timestamp, WorkflowId};

use super::{Checker, runs};
use crate::Invariant;

/// What a key stands for.
pub(super) struct Key {
    run: RunId,
    fingerprint: String,
    expires_at: Option<Timestamp>,
}

/// What the key alone says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ByKey {
    Fresh,
    Replay(RunId),
    Mismatch(RunId),
}

impl Checker {
    pub(crate) fn admission(&mut self, asked: &Admit, answer: &Result<StartOutcome, StoreError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.created_under_lock(asked, Some(error)),
        };
        let by_key = self.by_key(asked);
        let rows = self.tables.last_batch;
        match answer {
            StartOutcome::Admitted { run, .. } if rows == 0 => self.repeated(asked, *run),
            StartOutcome::Admitted { run, .. } => {
                self.created_under_lock(asked, None);
                self.admitted(asked, *run, by_key);
            }
            StartOutcome::Replayed { run, .. } => self.replayed(asked, *run, by_key),
            StartOutcome::KeyReused { run, .. } => {
                self.counts.keys_reused += 1;
                self.require(by_key == ByKey::Mismatch(*run), Invariant::OneRunPerKey, || {
                    format!(
                        "a start in tenant {} was refused for a key that run {run} does not have",
                        asked.request.tenant
                    )
                });
            }
            StartOutcome::Queued { run, .. } if rows == 0 => self.repeated(asked, *run),
            StartOutcome::Queued { run, .. } => {
                self.created_under_lock(asked, None);
                if *run == asked.request.run {
                    self.queued(asked, *run, by_key);
                } else {
                    self.taken_in(asked, *run, by_key);
                }
            }
            StartOutcome::Joined { run, .. } => self.joined(asked, *run, by_key),
            StartOutcome::AtCapacity { .. } => self.refused(asked, by_key),
            StartOutcome::LimitReached { .. } | StartOutcome::QueueFull { .. } => {
                self.counts.limits_reached += 1;
                self.require(by_key == ByKey::Fresh, Invariant::OneRunPerKey, || {
                    format!(
                        "a retry in tenant {} was refused, though its key has a run",
                        asked.request.tenant
                    )
                });
            }
            StartOutcome::LimitsChanged { .. } => self.counts.limits_changed += 1,
            StartOutcome::DefinitionChanged { .. } => {
                self.counts.definitions_changed += 1;
                let current = self.current_version(asked);
                self.require(
                    current.is_none() || current != asked.version(),
                    Invariant::NoNeedlessRefusal,
                    || {
                        format!(
                            "workflow {} of tenant {} has not changed",
                            asked.request.workflow, asked.request.tenant
                        )
                    },
                );
            }
        }
        let is_accepted = matches!(
            answer,
            StartOutcome::Admitted { .. } | StartOutcome::Queued { .. } | StartOutcome::Joined { .. }
        );
        if !is_accepted {
            self.require(rows == 0, Invariant::RefusalLeavesNoTrace, || {
                format!("a start in tenant {} was not admitted and wrote {rows} rows", asked.request.tenant)
            });
        }
    }

    fn replayed(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        self.counts.replays += 1;
        // A repeated start whose run was deleted in the meantime is answered without a status.
        let is_own = asked.is_repeat && run == asked.request.run;
        let was_deleted = is_own && self.runs.get(&run).is_some_and(|run| run.is_deleted);
        let is_true = by_key == ByKey::Replay(run) || was_deleted;
        self.require(is_true, Invariant::OneRunPerKey, || {
            format!(
                "a replay in tenant {} names run {run}, which its key did not start",
                asked.request.tenant
            )
        });
    }

    fn by_key(&self, asked: &Admit) -> ByKey {
        let Some(intent) = &asked.request.intent else { return ByKey::Fresh };
        self.key_says(&asked.request.tenant, &asked.request.workflow, intent)
    }

    pub(super) fn key_says(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowId,
        intent: &IdempotentIntent,
    ) -> ByKey {
        let name = (workflow.clone(), intent.key.as_str().to_owned());
        let key = self.tenants.get(tenant).and_then(|tenant| tenant.keys.get(&name));
        let now = interlock_model::Clock::now(&self.clock);
        match key.filter(|key| key.expires_at.is_none_or(|at| now < at)) {
            None => ByKey::Fresh,
            Some(key) if key.fingerprint == intent.fingerprint.as_str() => ByKey::Replay(key.run),
            Some(key) => ByKey::Mismatch(key.run),
        }
    }

    fn current_version(&self, asked: &Admit) -> Option<u32> {
        self.tenants.get(&asked.request.tenant)?.versions.get(&asked.request.workflow).copied()
    }

    /// An admission that wrote nothing: the same request must have been admitted before.
    fn repeated(&mut self, asked: &Admit, run: RunId) {
        self.counts.admissions_repeated += 1;
        // A run that waits for newer starts may have taken it in before, where it has no key that says so.
        let is_taken_in = asked.is_repeat && asked.request.intent.is_none();
        let is_known = (run == asked.request.run || is_taken_in) && self.runs.contains_key(&run);
        self.require(is_known, Invariant::AnswersAreTrue, || {
            format!(
                "tenant {} got the answer that run {run} is admitted, which it never was",
                asked.request.tenant
            )
        });
    }

    fn admitted(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        let id = &asked.request.tenant;
        let tenant = self.tenants.entry(id.clone()).or_default();
        let limits = tenant.limits.under(self.system);
        tenant.live.insert(run);
        let (live, max) = (tenant.live.len(), limits.runs_max as usize);
        let renewed = self.key_taken(asked, run);
        self.counts.admitted += 1;
        self.counts.admitted_at_the_edge += u64::from(live == max);
        self.counts.keys_renewed += u64::from(renewed);
        self.counts.reruns += u64::from(asked.request.origin != StartedFrom::Request);
        self.require(live <= max, Invariant::Cap, || {
            format!("cap exceeded for tenant {id} ({live} > {max})")
        });
        self.created(asked, run, by_key);
        match asked.first_turn() {
            Some(turn) => {
                self.counts.first_turns += 1;
                self.carry_out(&runs::Turn::first(asked, turn));
            }
            None => self.counts.left_to_the_engine += 1,
        }
    }

    /// A new run that waits for its slots.
    fn queued(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        self.counts.queued += 1;
        self.key_taken(asked, run);
        self.created(asked, run, by_key);
        self.tenants.entry(asked.request.tenant.clone()).or_default().queued.insert(run);
    }

    /// A run that waits for newer starts takes the start in.
    fn taken_in(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        self.counts.taken_in += 1;
        self.key_taken(asked, run);
        let request = &asked.request;
        let tenant = self.tenants.entry(request.tenant.clone()).or_default();
        let waits = tenant.queued.contains(&run);
        let input = self.tables.limits(request.tenant.as_str()).debounced.input_of(run).cloned();
        self.require(waits && by_key == ByKey::Fresh, Invariant::QuietIsKept, || {
            format!("a replay, or a start of a run that does not wait, was taken in by run {run}")
        });
        self.require(input.as_ref() == Some(&request.input), Invariant::QuietIsKept, || {
            format!("run {run} has the input {input:?}, and its newest start has {}", request.input)
        });
    }

    /// A run that exists answers the start.
    fn joined(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        self.counts.joined += 1;
        self.key_taken(asked, run);
        let tenant = self.tenants.entry(asked.request.tenant.clone()).or_default();
        let is_there =
            tenant.live.contains(&run) || tenant.queued.contains(&run) || tenant.children.contains(&run);
        self.require(is_there && by_key == ByKey::Fresh, Invariant::AnswersAreTrue, || {
            format!("a start in tenant {} joined run {run}, which is not live", asked.request.tenant)
        });
    }

    /// The key stands for the run from now on. Whether it had stood for another, long ago.
    fn key_taken(&mut self, asked: &Admit, run: RunId) -> bool {
        let Some(intent) = &asked.request.intent else { return false };
        let tenant = self.tenants.entry(asked.request.tenant.clone()).or_default();
        let limits = tenant.limits.under(self.system);
        let now = interlock_model::Clock::now(&self.clock);
        let expires_at = limits.key_retention.map(|time| now + time);
        let key = Key { run, fingerprint: intent.fingerprint.as_str().to_owned(), expires_at };
        let name = (asked.request.workflow.clone(), intent.key.as_str().to_owned());
        tenant.keys.insert(name, key).is_some()
    }

    fn created(&mut self, asked: &Admit, run: RunId, by_key: ByKey) {
        let id = &asked.request.tenant;
        self.require(by_key == ByKey::Fresh, Invariant::OneRunPerKey, || {
            format!("run {run} of tenant {id} was started by a key that had started another")
        });
        let current = self.current_version(asked);
        self.require(current.is_some() && current == asked.version(), Invariant::AnswersAreTrue, || {
            format!("run {run} of tenant {id} started with version {:?} and not {current:?}", asked.version())
        });
        let before = self.runs.insert(run, runs::Run::admitted(asked.request.tenant.clone()));
        self.require(before.is_none(), Invariant::OneRunPerStart, || {
            format!("run {run} of tenant {id} was created a second time")
        });
    }

    /// A run has got a slot of its tenant: one that waited is live now.
    pub(super) fn slot_given(&mut self, key: &str) {
        let Some((tenant, run)) = key.split_once('/') else { return };
        let (Ok(tenant), Ok(run)) = (tenant.parse::<TenantId>(), run.parse::<RunId>()) else { return };
        if let Some(tenant) = self.tenants.get_mut(&tenant)
            && tenant.queued.remove(&run)
        {
            tenant.live.insert(run);
        }
    }

    fn refused(&mut self, asked: &Admit, by_key: ByKey) {
        self.counts.refused += 1;
        let id = &asked.request.tenant;
        let tenant = self.tenants.entry(id.clone()).or_default();
        let (live, max) = (tenant.live.len(), tenant.limits.under(self.system).runs_max as usize);
        let others_wait = !tenant.queued.is_empty();
        self.require(by_key == ByKey::Fresh, Invariant::OneRunPerKey, || {
            format!("a retry in tenant {id} was refused at the cap, though its key has a run")
        });
        self.require(live >= max || others_wait, Invariant::NoNeedlessRefusal, || {
            format!("tenant {id} was refused with {live} of {max} slots taken")
        });
        let was_admitted = self.runs.get(&asked.request.run).is_some_and(|run| !run.is_deleted);
        self.require(!was_admitted, Invariant::NoNeedlessRefusal, || {
            format!("run {} of tenant {id} was admitted and is now refused", asked.request.run)
        });
    }

    /// A client got the answer that `run` is its own.
    pub(crate) fn acknowledged(&mut self, tenant: &TenantId, run: RunId) {
        let is_known = self.runs.get(&run).is_some_and(|known| known.tenant == *tenant);
        self.require(is_known, Invariant::AnswersAreTrue, || {
            format!("a client of tenant {tenant} got run {run} as its answer, which was never admitted")
        });
    }
}
