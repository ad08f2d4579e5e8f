//! Jobs go out: claimed on a worker's behalf, as it would claim by itself over HTTP, and pushed to it.

use interlock_backend::verbs::ListTenants;
use std::sync::Arc;

use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::registry::RegisteredWorker;
use interlock_backend::{Effect, PageRequest, StoreError, Wake};
use interlock_model::scheduling::Edge;
use interlock_model::{JobId, TenantId, Topic};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::choose::{self, Share};
use crate::edge::Shared;
use crate::line::{Place, Served, TURN_MAX, Wanted, Work};
use crate::lost_claims::{LostClaim, LostClaims};
use crate::push::{self, Returns};
use crate::trouble::Trouble;
use crate::view::{self, View};
use crate::wire::{self, JobCancel, Payload};

/// Tenants that one look goes through.
const TENANTS_A_LOOK: usize = 500;

/// A result that is never there: reading it tells whether the mailbox answers.
const PROBE: &str = "redis://res:probe";

/// Hears what the bus says until `shutdown`.
pub(crate) async fn listen(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut wakes = shared.bus.subscribe();
    while let Some(heard) = shutdown.run_until_cancelled(wakes.recv()).await {
        match heard {
            Ok(Wake::JobsReady { tenant, topic, jobs }) => {
                let wanted = Wanted::Jobs(usize::try_from(jobs).unwrap_or(usize::MAX).max(1));
                shared.line.ask(Place { tenant, work: Work::Topic(topic) }, wanted);
            }
            Ok(Wake::JobsRevoked { jobs }) => cancel(&shared, &jobs).await,
            Ok(
                Wake::RunReady { .. }
                | Wake::JobsHeld { .. }
                | Wake::RunChanged { .. }
                | Wake::WorkflowChanged { .. }
                | Wake::LimitsChanged
                | Wake::LockTurn { .. }
                | Wake::KeysChanged
                | Wake::TuningChanged,
            ) => {}
            Ok(Wake::WorkersChanged) | Err(RecvError::Lagged(_)) => shared.line.look_at_all(),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Tells the workers of jobs that we pushed that they may stop. Whoever pushed tells, so it is told once.
async fn cancel(shared: &Shared, jobs: &[JobId]) {
    for job in jobs {
        let Some(push) = shared.pushed.find(job) else { continue };
        let cancel = JobCancel {
            job_id: job.to_string(),
            reason: "the run or the step has ended".to_owned(),
            requested_by: wire::SENDER.to_owned(),
            dispatch: Some(push::dispatch(job, push.fence, push.worker.as_str())),
            ..JobCancel::default()
        };
        let packet = wire::write(&job.run.to_string(), shared.process.now(), Payload::JobCancel(cancel));
        if let Err(error) = shared.client.publish(wire::CANCEL, packet).await {
            tracing::debug!(run = %job.run, %job, %error, "a cancellation was not told; the result will be refused");
        }
    }
}

/// Pushes what waits until `shutdown`.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut dispatcher = Dispatcher::new(shared.clone(), shutdown.clone());
    let mut poll = tokio::time::interval(shared.settings.poll);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_poll = tokio::select! {
            () = shutdown.cancelled() => break,
            _ = poll.tick() => true,
            () = shared.line.changed() => false,
        };
        // Not cut short: between the claim of a job and its push lies a lease of many minutes.
        if let Err(error) = dispatcher.turn(is_poll).await
            && let Some(kept_back) = shared.quiet.may_warn()
        {
            tracing::warn!(%error, kept_back, "jobs could not be dispatched to workers on NATS; trying again");
        }
    }
    dispatcher.returns.release(&shared).await;
}

struct Dispatcher {
    shared: Arc<Shared>,
    view: Option<View>,
    returns: Returns,
    lost_claims: LostClaims,
    trouble: Trouble,
    shutdown: CancellationToken,
    /// The tenant at which the last look at all of them stopped.
    after: Option<String>,
}

impl Dispatcher {
    fn new(shared: Arc<Shared>, shutdown: CancellationToken) -> Self {
        Self {
            shared,
            view: None,
            returns: Returns::default(),
            lost_claims: LostClaims::default(),
            trouble: Trouble::default(),
            shutdown,
            after: None,
        }
    }

    async fn turn(&mut self, is_poll: bool) -> Result<(), StoreError> {
        self.lost_claims.settle(&self.shared, &self.returns).await?;
        self.returns.release(&self.shared).await;
        if !self.may_claim() || self.trouble.is_there() && !self.seems_over().await {
            return Ok(());
        }
        let looks_at_all = self.shared.line.take_look_at_all();
        self.refresh(looks_at_all).await?;
        if looks_at_all {
            self.after = None;
        }
        if is_poll || looks_at_all {
            self.look_at_tenants().await?;
        }
        self.serve_line().await
    }

    /// Whether what is claimed now can be expected to go out.
    fn may_claim(&self) -> bool {
        let can_push = self.shared.hearing.is_connected() && !self.trouble.is_to_be_waited_out();
        can_push && self.returns.is_empty() && !self.shutdown.is_cancelled()
    }

    /// After a push has failed: whether the mailbox answers again. NATS is looked at anyway.
    async fn seems_over(&self) -> bool {
        let answers = self.shared.mailbox.result(PROBE).await.is_ok();
        if !answers {
            self.trouble.failed(self.shared.settings.poll);
        }
        answers
    }

    async fn refresh(&mut self, now: bool) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        if now || self.view.as_ref().is_none_or(|view| view.age() > settings.registry_age_max) {
            let asked = Instant::now();
            self.view = None;
            let registry = self.shared.workers.registry().await?;
            let connected = self.shared.hearing.reconnected_for();
            self.view =
                Some(View::new(registry, asked, connected, settings, &self.shared.process.settings().pools));
        }
        Ok(())
    }

    /// Puts tenants into the line that may have jobs that nobody told of. With many tenants, a look goes through some.
    async fn look_at_tenants(&mut self) -> Result<(), StoreError> {
        if self.view.as_ref().is_none_or(View::is_empty) {
            return Ok(());
        }
        let page = PageRequest { limit: TENANTS_A_LOOK, after: self.after.take() };
        let tenants = self.shared.store.call(ListTenants { page: page.clone() }).await?;
        self.after = tenants.next;
        for tenant in tenants.items {
            self.shared.line.put(Place { tenant, work: Work::Anything }, Wanted::AtLeast(1));
        }
        Ok(())
    }

    /// Everybody in the line has a turn; those whose jobs do not fit wait for room.
    async fn serve_line(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + self.shared.settings.poll;
        self.shared.line.begin();
        while !self.shared.line.is_to_look_at_all() && Instant::now() < until {
            let Some((place, wanted)) = self.shared.line.next() else { return Ok(()) };
            let served = self.serve(&place, wanted).await;
            let kept = Served { jobs: 0, left: Some(wanted) };
            self.shared.line.end_turn(&place, *served.as_ref().unwrap_or(&kept));
            served?;
        }
        // Others may wait of whom nobody has told, or the workers are not those that we know.
        self.shared.line.try_again();
        Ok(())
    }

    async fn serve(&mut self, place: &Place, wanted: Wanted) -> Result<Served, StoreError> {
        self.refresh(false).await?;
        let Some(view) = self.view.as_ref().filter(|_| self.may_claim()) else {
            return Ok(Served { jobs: 0, left: Some(wanted) });
        };
        match &place.work {
            Work::Topic(topic) => self.serve_topic(view, (&place.tenant, topic), wanted).await,
            Work::Anything => self.look_at(view, &place.tenant).await,
        }
    }

    /// A turn's worth of one topic, spread over all who serve it. Should nobody serve it here, whoever does claims by
    /// itself.
    async fn serve_topic(
        &self,
        view: &View,
        (tenant, topic): (&TenantId, &Topic),
        wanted: Wanted,
    ) -> Result<Served, StoreError> {
        let turn = if self.trouble.is_there() { 1 } else { wanted.jobs().min(TURN_MAX) };
        let mut able = view.serving(tenant, topic);
        let mut jobs = 0;
        while !able.is_empty() {
            let mut finished = None;
            for share in self.spread(view, &able, turn - jobs) {
                let claimed = self.claim(view, tenant, &share, std::slice::from_ref(topic)).await?;
                jobs += claimed.len();
                if claimed.len() < share.jobs {
                    finished = Some(share.worker);
                    break;
                }
            }
            let Some(finished) = finished else { return Ok(Served { jobs, left: wanted.after(jobs) }) };
            // Nothing is left that it could do, nor anybody who is capable of no more than it is.
            let capabilities = view.capabilities_of(&finished);
            able.retain(|known| !is_within(view::capabilities(known), capabilities));
        }
        Ok(Served { jobs, left: None })
    }

    /// Tries one job for each kind of worker. Where there was one, there may be more.
    async fn look_at(&self, view: &View, tenant: &TenantId) -> Result<Served, StoreError> {
        let mut untried = view.of_tenant(tenant);
        let mut jobs = 0;
        while !untried.is_empty() && jobs < TURN_MAX {
            let Some(share) = self.spread(view, &untried, 1).into_iter().next() else { break };
            let (topics, capabilities) = (view.topics_of(&share.worker), view.capabilities_of(&share.worker));
            let claimed = self.claim(view, tenant, &share, topics).await?;
            jobs += claimed.len();
            self.shared.results.polled(tenant, topics, &claimed);
            for topic in topics.iter().filter(|_| !claimed.is_empty()) {
                let place = Place { tenant: tenant.clone(), work: Work::Topic(topic.clone()) };
                self.shared.line.put(place, Wanted::AtLeast(1));
            }
            untried.retain(|known| {
                !is_within(view::topics(known), topics) || !is_within(view::capabilities(known), capabilities)
            });
        }
        Ok(Served { jobs, left: (!untried.is_empty()).then_some(Wanted::AtLeast(1)) })
    }

    fn spread(&self, view: &View, workers: &[&RegisteredWorker], jobs: usize) -> Vec<Share> {
        let loads = self.shared.pushed.loads(view.now(), workers, self.shared.settings.default_capacity);
        choose::spread(loads, jobs)
    }

    /// Claims for the worker and pushes what it got. Returns the topic of each of these jobs.
    async fn claim(
        &self,
        view: &View,
        tenant: &TenantId,
        share: &Share,
        topics: &[Topic],
    ) -> Result<Vec<Topic>, StoreError> {
        let claim = Claim {
            tenant: tenant.clone(),
            worker: share.worker.clone(),
            topics: topics.to_vec(),
            capabilities: view.capabilities_of(&share.worker).to_vec(),
            jobs_max: share.jobs,
            // Only until it has gone out: should this process die before that, nobody else would know.
            term: LeaseTerm::For(self.shared.process.settings().locks.job().ttl),
            edge: Edge::Nats,
        };
        let (from, asked_at) = (view.now(), Instant::now());
        let claimed = self.shared.results.claim_now(claim).await.inspect_err(|error| {
            if matches!(error, StoreError::Unavailable { effect: Effect::Unknown, .. }) {
                let (tenant, worker) = (tenant.clone(), share.worker.clone());
                self.lost_claims.remember(LostClaim { tenant, worker, from, until: view.now() });
            }
        })?;
        let topics: Vec<Topic> = claimed.iter().map(|claimed| claimed.job.topic.clone()).collect();
        if !topics.is_empty() && push::push_all(&self.shared, &self.returns, tenant, claimed, asked_at).await
        {
            self.trouble.over();
        } else if !topics.is_empty() {
            self.trouble.failed(self.shared.settings.poll);
        }
        Ok(topics)
    }
}

/// Whether all of these are among the others.
fn is_within<T: PartialEq>(some: &[T], others: &[T]) -> bool {
    some.iter().all(|one| others.contains(one))
}
