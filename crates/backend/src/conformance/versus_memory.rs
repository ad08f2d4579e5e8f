//! Random call sequences: every answer of a backend equals the in-memory reference's.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use interlock_model::admission::{Admission, FirstTurn, IdempotentIntent, StartRun};
use interlock_model::approval::{Decision, Verdict};
use interlock_model::fingerprint::Fingerprint;
use interlock_model::job::{JobOutcome, JobState, NewJob};
use interlock_model::limit::Limits;
use interlock_model::run::{Ending, StartedFrom};
use interlock_model::workflow::Workflow;
use interlock_model::{Fence, JobId, RunId, TenantId, Timestamp};
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::scene::{
    acme, approval, claim, deploy, document, ending, globex, holder, idle, name, new_job, running,
};
use crate::clock::ManualClock;
use crate::jobs::{Claim, LeaseTerm, Progress};
use crate::runs::{RunFilter, Taken};
use crate::tenants::LimitScope;
use crate::{PageRequest, Store, StoreError, memory};

/// Asks both stores the same and compares the answers.
macro_rules! same {
    ($walk:ident, $verb:ident($($argument:expr),*)) => {{
        let question = format!(concat!(stringify!($verb), "{:?}"), ($(&$argument,)*));
        let expected = $walk.reference.$verb($($argument),*).await;
        let found = $walk.subject.$verb($($argument),*).await;
        $walk.compare(&question, &expected, &found);
        found
    }};
}

mod deliveries;
mod documents;
mod giving_up;
mod holds;
mod locks;
mod reservations;
mod workers;

use locks::LockWalk;
use reservations::ReservationWalk;

/// What the sequence has seen so far and may ask for again, stale or not.
struct Walk {
    random: ChaCha8Rng,
    subject: Arc<dyn Store>,
    reference: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    runs: Vec<(TenantId, RunId)>,
    jobs: Vec<(TenantId, JobId, Fence)>,
    approvals: Vec<(TenantId, JobId)>,
    held: Vec<(TenantId, JobId)>,
    taken: Vec<Taken>,
    locks: LockWalk,
    reservations: ReservationWalk,
    attempt: u32,
    log: Vec<String>,
}

/// Makes `calls` random calls on `subject` and on a fresh reference on the same clock.
pub async fn every_answer_equals_the_references(
    subject: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    seed: u64,
    calls: usize,
) {
    let reference: Arc<dyn Store> = Arc::new(memory::store(clock.clone()));
    let mut walk = Walk {
        random: ChaCha8Rng::seed_from_u64(seed),
        subject,
        reference,
        clock,
        runs: Vec::new(),
        jobs: Vec::new(),
        approvals: Vec::new(),
        held: Vec::new(),
        taken: Vec::new(),
        locks: LockWalk::default(),
        reservations: ReservationWalk::default(),
        attempt: 1,
        log: vec![format!("seed {seed}")],
    };
    for _ in 0..calls {
        walk.step().await;
    }
    walk.look_at_everything().await;
}

impl Walk {
    fn compare<T: Debug + PartialEq>(
        &mut self,
        question: &str,
        expected: &Result<T, StoreError>,
        found: &Result<T, StoreError>,
    ) {
        self.log.push(format!("{question} -> {expected:?}"));
        let tail = self.log.iter().rev().take(12).rev().cloned().collect::<Vec<_>>().join("\n");
        assert!(expected == found, "{}\n{tail}\nbut the backend said {found:?}", self.log[0]);
    }

    fn tenant(&mut self) -> TenantId {
        if self.random.random_bool(0.7) { acme() } else { globex() }
    }

    fn pick<T: Clone>(random: &mut ChaCha8Rng, from: &[T]) -> Option<T> {
        // Mostly something recent; sometimes something old and stale.
        let tail = from.len().saturating_sub(4);
        if random.random_bool(0.7) {
            from[tail..].choose(random).cloned()
        } else {
            from.choose(random).cloned()
        }
    }

    async fn step(&mut self) {
        if self.random.random_bool(0.25) {
            return self.lock_something().await;
        }
        match self.random.random_range(0..100) {
            0..4 => self.save_or_delete_workflow().await,
            4..8 => self.set_limits().await,
            8..20 => self.admit().await,
            20..25 => self.start_under_a_lock().await,
            25..30 => self.settle_something().await,
            30..40 => self.take().await,
            40..58 => self.turn().await,
            58..68 => self.claim().await,
            68..80 => self.say_about_a_job().await,
            80..83 => self.resolve().await,
            83..86 => self.cancel_or_delete().await,
            86..90 => self.reconcile().await,
            90..92 => self.give_up().await,
            92..95 => self.hear_of_a_worker().await,
            95..97 => self.document_something().await,
            _ => self.clock.advance(Duration::from_millis(self.random.random_range(1..700))),
        }
    }

    async fn save_or_delete_workflow(&mut self) {
        let tenant = self.tenant();
        if self.random.random_bool(0.85) {
            let _ = same!(self, save_workflow(&tenant, &deploy(), &document()));
        } else {
            let _ = same!(self, delete_workflow(&tenant, &deploy()));
        }
    }

    async fn set_limits(&mut self) {
        let retention = self.random.random_bool(0.2).then_some(Duration::from_secs(2));
        let runs_max = self.random.random_bool(0.8).then(|| self.random.random_range(0..6));
        let limits = Limits { runs_max, key_retention: retention };
        let scope =
            if self.random.random_bool(0.2) { LimitScope::System } else { LimitScope::Tenant(self.tenant()) };
        let _ = same!(self, set_limits(&scope, limits));
    }

    async fn admit(&mut self) {
        let start = self.a_start().await;
        if let Ok(Admission::Admitted { run, .. }) = same!(self, admit(&start)) {
            self.runs.push((start.tenant, run));
        }
    }

    async fn a_start(&mut self) -> StartRun {
        let tenant = self.tenant();
        let input = json!({"n": self.random.random_range(0..2)});
        let key = self.random.random_bool(0.6).then(|| format!("key-{}", self.random.random_range(0..4)));
        let current = self.reference.workflow(&tenant, &deploy()).await;
        let current = current.ok().flatten().map_or(1, |workflow| workflow.version);
        let known = self.runs.last().filter(|(owner, _)| *owner == tenant).map(|(_, run)| *run);
        let repeated = known.filter(|_| self.random.random_bool(0.1));
        let now = interlock_model::Clock::now(&*self.clock);
        let start = StartRun {
            run: repeated.unwrap_or_else(|| RunId::new(now, self.random.random())),
            intent: key.map(|key| IdempotentIntent {
                fingerprint: Fingerprint::of_start(&deploy(), &input),
                key: name(&key),
            }),
            tenant,
            workflow: deploy(),
            workflow_version: if self.random.random_bool(0.9) { current } else { 1 },
            input,
            origin: StartedFrom::Request,
            is_repeat: repeated.is_some(),
            copied_steps: Vec::new(),
            first_turn: None,
            hold: None,
        };
        self.perhaps_begun(start, now)
    }

    /// Half of the starts bring their first turn with them.
    fn perhaps_begun(&mut self, start: StartRun, now: Timestamp) -> StartRun {
        let workflow = Workflow::compile(deploy(), start.workflow_version, &document()).expect("it compiles");
        let turn = FirstTurn::of(&workflow, &start, now).expect("the rules know how a run begins");
        StartRun { first_turn: turn.filter(|_| self.random.random_bool(0.5)), ..start }
    }

    async fn take(&mut self) {
        let tenant = self.tenant();
        let lease = Duration::from_millis(500);
        if self.random.random_bool(0.5) {
            let limit = self.random.random_range(1..4);
            if let Ok(taken) = same!(self, take_ready(&tenant, &holder(), lease, limit)) {
                self.taken.extend(taken);
            }
        } else if let Some((tenant, run)) = Self::pick(&mut self.random, &self.runs)
            && let Ok(Some(taken)) = same!(self, take(&tenant, run, &holder(), lease))
        {
            self.taken.push(taken);
        }
    }

    async fn turn(&mut self) {
        let Some(taken) = Self::pick(&mut self.random, &self.taken) else { return };
        let (tenant, run) = (taken.start.tenant.clone(), taken.start.run);
        if self.random.random_bool(0.1) {
            let lease = Duration::from_millis(self.random.random_range(1..900));
            let _ = same!(self, keep_run(&tenant, run, taken.fence, lease));
            return;
        }
        if self.random.random_bool(0.1) {
            let _ = same!(self, let_go(&tenant, run, taken.fence));
            return;
        }
        self.attempt += 1;
        let is_live = !taken.head.status.is_final();
        let mut turn = match self.random.random_range(0..4) {
            0 if is_live => ending(&taken, Ending::Failed),
            1 => idle(&taken),
            _ if is_live => running(&taken),
            _ => idle(&taken),
        };
        for job in &mut turn.dispatched {
            let in_time = taken.now + Duration::from_millis(self.random.random_range(0..3_000));
            let deadline_at = self.random.random_bool(0.5).then_some(in_time);
            let meta = self.meta();
            *job = NewJob { deadline_at, meta, ..new_job(run, self.attempt) };
        }
        turn.held = self.perhaps_held(&tenant, &mut turn.dispatched);
        if is_live && self.random.random_bool(0.3) {
            turn.approvals_opened = vec![approval(run, taken.now)];
            self.approvals.push((tenant.clone(), approval(run, Timestamp::ZERO).job));
        }
        if is_live && self.random.random_bool(0.3) {
            turn.head.due_at = Some(taken.now + Duration::from_millis(self.random.random_range(0..900)));
        }
        let revocable: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(owner, job, _)| *owner == tenant && job.run == run)
            .map(|it| it.1.clone())
            .collect();
        turn.buried = self.letters_of(run);
        turn.letters_max = self.letters_max();
        turn.revoked = revocable.last().cloned().into_iter().collect();
        let _ = same!(self, commit(turn.clone()));
    }

    async fn claim(&mut self) {
        let tenant = self.tenant();
        let jobs_max = self.random.random_range(1..4);
        let capabilities = self.capabilities();
        let request =
            Claim { worker: self.worker(), term: self.term(), capabilities, ..claim(&tenant, jobs_max) };
        if let Ok(claimed) = same!(self, claim(request.clone())) {
            self.jobs.extend(claimed.into_iter().map(|it| (tenant.clone(), it.job.id, it.lease.fence)));
        }
    }

    async fn say_about_a_job(&mut self) {
        let Some((tenant, job, fence)) = Self::pick(&mut self.random, &self.jobs) else { return };
        let fence = if self.random.random_bool(0.1) { Fence::new(fence.number() + 1) } else { fence };
        match self.random.random_range(0..10) {
            0 => drop(same!(self, heartbeat(&tenant, &job, fence))),
            1 => {
                let otherwise = Duration::from_millis(self.random.random_range(100..900));
                let term = LeaseTerm::UntilDeadline { otherwise };
                drop(same!(self, hold(&tenant, &job, fence, term)));
            }
            2 => {
                let progress = Progress { percent: 10, message: None };
                let _ = same!(self, progress(&tenant, &job, fence, progress.clone()));
            }
            3 => {
                let outcome = JobOutcome::Failed { error: "no".to_owned(), retryable: true };
                let _ = same!(self, report(&tenant, &job, fence, outcome.clone()));
            }
            4 => {
                let outcome = JobOutcome::Completed { output: json!([1, 2.5, {"deep": []}]) };
                let _ = same!(self, report(&tenant, &job, fence, outcome.clone()));
            }
            5 => drop(same!(self, cancel_job(&tenant, &job, "a test"))),
            6 | 7 => self.deliver((tenant, job, fence)).await,
            _ => self.put_off((tenant, job, fence)).await,
        }
    }

    async fn resolve(&mut self) {
        let Some((tenant, job)) = Self::pick(&mut self.random, &self.approvals) else { return };
        let verdict = if self.random.random_bool(0.5) { Verdict::Approved } else { Verdict::Rejected };
        let decision = Decision { verdict, by: "someone".to_owned(), reason: None };
        let _ = same!(self, resolve(&tenant, &job, decision.clone()));
    }

    async fn cancel_or_delete(&mut self) {
        let Some((tenant, run)) = Self::pick(&mut self.random, &self.runs) else { return };
        if self.random.random_bool(0.7) {
            let _ = same!(self, request_cancel(&tenant, run, "a test"));
        } else {
            let _ = same!(self, delete_run(&tenant, run));
        }
    }

    async fn reconcile(&mut self) {
        let tenant = self.tenant();
        let _ = same!(self, due(10));
        let _ = same!(self, expire(&tenant, 2));
        let _ = same!(self, ripen(&tenant, 2));
        let _ = same!(self, take_put_off(&tenant, 2));
    }

    async fn look_at_everything(&mut self) {
        for tenant in [acme(), globex()] {
            let _ = same!(self, usage(&tenant));
            let _ = same!(self, active_runs(&tenant, 100));
            let _ = same!(self, limits(&LimitScope::Tenant(tenant.clone())));
            let page = PageRequest { limit: 3, after: None };
            let _ = same!(self, approvals(&tenant, &page));
            let _ = same!(self, workflows(&tenant, &page));
            let _ = same!(self, workers(&tenant, &page));
            let _ = same!(self, jobs(&tenant, Some(JobState::Running), &page));
            if let Ok(first) = same!(self, runs(&tenant, &RunFilter::default(), &page)) {
                let page = PageRequest { limit: 100, after: first.next };
                let _ = same!(self, runs(&tenant, &RunFilter::default(), &page));
            }
        }
        for (tenant, run) in self.runs.clone() {
            let _ = same!(self, run(&tenant, run));
            let _ = same!(self, timeline(&tenant, run, 0, 1_000));
        }
        for (tenant, job, _) in self.jobs.clone() {
            let _ = same!(self, job(&tenant, &job));
            let _ = same!(self, jobs_before(&tenant, &job));
        }
        for (tenant, job) in self.held.clone() {
            let _ = same!(self, job(&tenant, &job));
        }
        self.look_at_what_was_given_up().await;
        self.look_at_documents().await;
    }
}
