//! Dispatch: claims jobs on behalf of NATS workers, as they would claim over HTTP, and pushes them.

use std::sync::Arc;

use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::registry::RegisteredWorker;
use interlock_backend::verbs::ListTenants;
use interlock_backend::{Effect, PageRequest, StoreError, Wake};
use interlock_model::scheduling::Edge;
use interlock_model::{JobId, RunId, TenantId, Timestamp, Topic};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::backoff::PushBackoff;
use crate::choose;
use crate::dispatch_queue::{Demand, QUANTUM, QueueEntry, Served};
use crate::edge::Shared;
use crate::lost_claims::{self, LostClaim};
use crate::push::{self, DispatchedJob};
use crate::wire::{self, JobCancel, Payload};
use crate::worker_view::{WorkerView, capabilities, topics};

/// Tenants per scan.
const TENANTS_A_SCAN: usize = 500;

/// A job that never exists: reading its result shows whether the mailbox answers.
fn probe() -> JobId {
    let step = "probe".parse().expect("the id of a step");
    JobId { run: RunId::new(Timestamp::ZERO, [0; 10]), step, attempt: 1 }
}

/// Receives wake-ups until `shutdown`.
pub(crate) async fn listen(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut wakes = shared.bus.subscribe();
    while let Some(received) = shutdown.run_until_cancelled(wakes.recv()).await {
        match received {
            Ok(Wake::JobsReady { tenant, topic, jobs }) => {
                let demand = Demand::Jobs(usize::try_from(jobs).unwrap_or(usize::MAX).max(1));
                shared.queue.request(QueueEntry { tenant, topic: Some(topic) }, demand);
            }
            Ok(Wake::JobsRevoked { jobs }) => cancel(&shared, &jobs).await,
            Ok(
                Wake::RunReady { .. }
                | Wake::JobsHeld { .. }
                | Wake::ChildrenWanted { .. }
                | Wake::RunChanged { .. }
                | Wake::WorkflowChanged { .. }
                | Wake::LimitsChanged
                | Wake::LockTurn { .. }
                | Wake::KeysChanged
                | Wake::TuningChanged,
            ) => {}
            Ok(Wake::WorkersChanged) | Err(RecvError::Lagged(_)) => shared.queue.scan_all(),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sends a cancellation for each job that this replica pushed. The other replicas do the same for theirs.
async fn cancel(shared: &Shared, jobs: &[JobId]) {
    for job in jobs {
        shared.confirmations.forget(job);
        let Some(push) = shared.pushed.find(job) else { continue };
        let cancel = JobCancel {
            job_id: job.to_string(),
            reason: "the run or the step has ended".to_owned(),
            requested_by: wire::SENDER.to_owned(),
            dispatch: Some(push::dispatch(job, push.fence, push.worker.as_str())),
            ..JobCancel::default()
        };
        let now = shared.control.process.now();
        let packet = wire::write(&job.run.to_string(), now, Payload::JobCancel(cancel));
        if let Err(error) = shared.client.publish(wire::CANCEL, packet).await {
            tracing::debug!(run = %job.run, %job, %error, "cancellation not sent; the result will be refused");
        }
    }
}

/// Pushes waiting jobs until `shutdown`.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut poll = tokio::time::interval(shared.settings.poll);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut dispatcher = Dispatcher {
        shared: shared.clone(),
        shutdown: shutdown.clone(),
        view: None,
        unpushed: Vec::new(),
        lost_claims: Vec::new(),
        backoff: PushBackoff::default(),
        scanned_to: None,
    };
    loop {
        let is_poll = tokio::select! {
            () = shutdown.cancelled() => break,
            _ = poll.tick() => true,
            () = shared.queue.changed() => false,
        };
        // Not cut short: between the claim of a job and its push lies a lease of many minutes.
        if let Err(error) = dispatcher.dispatch(is_poll).await {
            tracing::warn!(%error, "jobs could not be dispatched to NATS workers; retrying");
        }
    }
    push::release(&shared, &mut dispatcher.unpushed).await;
}

struct Dispatcher {
    shared: Arc<Shared>,
    shutdown: CancellationToken,
    view: Option<Arc<WorkerView>>,
    unpushed: Vec<DispatchedJob>,
    lost_claims: Vec<LostClaim>,
    backoff: PushBackoff,
    /// The tenant at which the last scan stopped.
    scanned_to: Option<String>,
}

impl Dispatcher {
    async fn dispatch(&mut self, is_poll: bool) -> Result<(), StoreError> {
        lost_claims::settle(&self.shared, &mut self.lost_claims, &mut self.unpushed).await?;
        push::release(&self.shared, &mut self.unpushed).await;
        if !self.may_claim() || self.backoff.is_failing() && !self.has_recovered().await {
            return Ok(());
        }
        let scans_all = self.shared.queue.take_scan_all();
        if scans_all {
            (self.view, self.scanned_to) = (None, None);
        }
        let view = self.current_view().await?;
        if is_poll || scans_all {
            self.scan_tenants(&view).await?;
        }
        self.serve_queue().await
    }

    /// Whether a job that is claimed now can be expected to be pushed.
    fn may_claim(&self) -> bool {
        let can_push = self.shared.connectivity.is_connected() && !self.backoff.is_waiting();
        can_push && self.unpushed.is_empty() && !self.shutdown.is_cancelled()
    }

    /// After a failed push: whether the mailbox answers again. The connection to NATS is checked in any case.
    async fn has_recovered(&mut self) -> bool {
        let probe = probe();
        let answers = self.shared.mailbox.result(&probe, &format!("redis://res:{probe}")).await.is_ok();
        if !answers {
            self.backoff.fail(self.shared.settings.poll);
        }
        answers
    }

    /// The workers, read again if the last view is too old.
    async fn current_view(&mut self) -> Result<Arc<WorkerView>, StoreError> {
        let settings = &self.shared.settings;
        if let Some(view) = self.view.as_ref().filter(|view| view.age() <= settings.registry_age_max) {
            return Ok(view.clone());
        }
        let requested_at = Instant::now();
        let registry = self.shared.control.workers.registry().await?;
        let connected = self.shared.connectivity.reconnected_for();
        let pools = &self.shared.control.process.settings().pools;
        let view = Arc::new(WorkerView::new(registry, requested_at, connected, settings, pools));
        Ok(self.view.insert(view).clone())
    }

    /// Adds tenants to the queue that may have jobs without a wake-up. With many tenants, each scan covers some of them.
    async fn scan_tenants(&mut self, view: &WorkerView) -> Result<(), StoreError> {
        if view.is_empty() {
            return Ok(());
        }
        let page = PageRequest { limit: TENANTS_A_SCAN, after: self.scanned_to.take() };
        let tenants = self.shared.store.call(ListTenants { page }).await?;
        self.scanned_to = tenants.next;
        for tenant in tenants.items {
            self.shared.queue.add(QueueEntry { tenant, topic: None }, Demand::AtLeast(1));
        }
        Ok(())
    }

    /// Serves every tenant in the queue; those whose jobs do not fit wait for room.
    async fn serve_queue(&mut self) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let until = Instant::now() + shared.settings.poll;
        shared.queue.begin_round();
        while !shared.queue.must_scan_all() && Instant::now() < until {
            let Some((entry, demand)) = shared.queue.next() else { return Ok(()) };
            let served = self.serve(&entry, demand).await;
            let unserved = Served { jobs: 0, left: Some(demand) };
            shared.queue.finish(&entry, *served.as_ref().unwrap_or(&unserved));
            served?;
        }
        // There may be more entries, or other workers than those in the view.
        shared.queue.wake();
        Ok(())
    }

    async fn serve(&mut self, entry: &QueueEntry, demand: Demand) -> Result<Served, StoreError> {
        let view = self.current_view().await?;
        if !self.may_claim() {
            return Ok(Served { jobs: 0, left: Some(demand) });
        }
        match &entry.topic {
            Some(topic) => self.serve_topic(&view, (&entry.tenant, topic), demand).await,
            None => self.scan_tenant(&view, &entry.tenant).await,
        }
    }

    /// Spreads a quantum of one topic over all NATS workers that serve it. If there are none, an HTTP worker may claim it.
    async fn serve_topic(
        &mut self,
        view: &WorkerView,
        (tenant, topic): (&TenantId, &Topic),
        demand: Demand,
    ) -> Result<Served, StoreError> {
        let jobs_max = if self.backoff.is_failing() { 1 } else { demand.jobs().min(QUANTUM) };
        let mut able = view.serving(tenant, topic);
        let mut jobs = 0;
        while !able.is_empty() {
            let mut finished = None;
            for (worker, share) in self.spread(view, &able, jobs_max - jobs) {
                let claimed = self.claim(view, tenant, (worker, share), std::slice::from_ref(topic)).await?;
                jobs += claimed.len();
                if claimed.len() < share {
                    finished = Some(worker);
                    break;
                }
            }
            let Some(finished) = finished else { return Ok(Served { jobs, left: demand.after(jobs) }) };
            // No job is left for it, nor for a worker without further capabilities.
            able.retain(|known| !is_within(capabilities(known), capabilities(finished)));
        }
        Ok(Served { jobs, left: None })
    }

    /// Claims one job for each kind of worker. Where there was one, there may be more.
    async fn scan_tenant(&mut self, view: &WorkerView, tenant: &TenantId) -> Result<Served, StoreError> {
        let mut untried = view.of_tenant(tenant);
        let mut jobs = 0;
        while !untried.is_empty() && jobs < QUANTUM {
            let Some((worker, _)) = self.spread(view, &untried, 1).pop() else { break };
            let claimed = self.claim(view, tenant, (worker, 1), topics(worker)).await?;
            jobs += claimed.len();
            self.shared.control.results.polled(tenant, topics(worker), &claimed);
            for topic in topics(worker).iter().filter(|_| !claimed.is_empty()) {
                let entry = QueueEntry { tenant: tenant.clone(), topic: Some(topic.clone()) };
                self.shared.queue.add(entry, Demand::AtLeast(1));
            }
            untried.retain(|known| {
                !is_within(topics(known), topics(worker))
                    || !is_within(capabilities(known), capabilities(worker))
            });
        }
        Ok(Served { jobs, left: (!untried.is_empty()).then_some(Demand::AtLeast(1)) })
    }

    fn spread<'a>(
        &self,
        view: &WorkerView,
        workers: &[&'a RegisteredWorker],
        jobs: usize,
    ) -> Vec<(&'a RegisteredWorker, usize)> {
        let loads = self.shared.pushed.loads(view.now(), workers, self.shared.settings.default_capacity);
        choose::spread(loads, jobs)
    }

    /// Claims jobs for the worker and pushes them. Returns their topics.
    async fn claim(
        &mut self,
        view: &WorkerView,
        tenant: &TenantId,
        (known, jobs_max): (&RegisteredWorker, usize),
        topics: &[Topic],
    ) -> Result<Vec<Topic>, StoreError> {
        let claim = Claim {
            tenant: tenant.clone(),
            worker: known.worker.clone(),
            topics: topics.to_vec(),
            capabilities: capabilities(known).to_vec(),
            jobs_max,
            // Only until it is pushed: if this process dies before that, the job is soon dispatched again.
            term: LeaseTerm::For(self.shared.control.process.settings().locks.job().ttl),
            edge: Edge::Nats,
        };
        let (from, claimed_at) = (view.now(), Instant::now());
        let claimed = self.shared.control.results.claim_now(claim).await.inspect_err(|error| {
            if matches!(error, StoreError::Unavailable { effect: Effect::Unknown, .. }) {
                let (tenant, worker) = (tenant.clone(), known.worker.clone());
                let lost = LostClaim { tenant, worker, from, until: view.now() };
                lost_claims::remember(&mut self.lost_claims, lost);
            }
        })?;
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let topics = claimed.iter().map(|claimed| claimed.job.topic.clone()).collect();
        if push::push_all(&self.shared, &mut self.unpushed, tenant, claimed, claimed_at).await {
            self.backoff = PushBackoff::default();
        } else {
            self.backoff.fail(self.shared.settings.poll);
        }
        Ok(topics)
    }
}

/// Whether all of these are among the others.
fn is_within<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    some.iter().all(|one| others.contains(one))
}
