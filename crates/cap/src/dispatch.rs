//! Jobs go out: claimed on a worker's behalf, as it would claim by itself over HTTP, and pushed to it.

use std::collections::HashSet;
use std::sync::Arc;

use interlock_backend::jobs::{Claim, LeaseTerm};
use interlock_backend::registry::RegisteredWorker;
use interlock_backend::{Effect, PageRequest, StoreError, Wake};
use interlock_model::{JobId, TenantId, Topic};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::choose::{self, Share};
use crate::edge::Shared;
use crate::line::{Place, Wanted};
use crate::lost_claims::{LostClaim, LostClaims};
use crate::push::{self, Returns};
use crate::trouble::Trouble;
use crate::view::{self, View};
use crate::wire::{self, JobCancel, Payload};

/// Jobs that a tenant is given before the next tenant's turn.
const TURN_MAX: usize = 32;

/// Tenants that one look goes through.
const TENANTS_A_LOOK: usize = 500;

/// Places that are remembered as empty.
const EMPTY_MAX: usize = 100_000;

/// A result that is never there: reading it tells whether the mailbox answers.
const PROBE: &str = "redis://res:probe";

/// Hears what the bus says until `shutdown`.
pub(crate) async fn listen(shared: Arc<Shared>, shutdown: CancellationToken) {
    let mut wakes = shared.bus.subscribe();
    while let Some(heard) = shutdown.run_until_cancelled(wakes.recv()).await {
        match heard {
            Ok(Wake::JobsReady { tenant, topic, jobs }) => {
                let wanted = Wanted::Jobs(usize::try_from(jobs).unwrap_or(usize::MAX).max(1));
                shared.line.ask(Place { tenant, topic }, wanted);
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
            Err(RecvError::Lagged(_)) => shared.line.look_at_all(),
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
        let packet = wire::write(&job.run.to_string(), shared.control.now(), Payload::JobCancel(cancel));
        if let Err(error) = shared.client.publish(wire::CANCEL, packet).await {
            tracing::debug!(%job, %error, "a cancellation was not told; the result will be refused");
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
    dispatcher.returns.give_back(&shared).await;
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
    /// Where the last look found nothing, with a worker there who had room.
    empty: HashSet<Place>,
}

/// What became of a place in the line.
enum Served {
    /// Nothing more is known to wait there.
    Done,
    Left(Wanted),
    /// More waits than fits.
    NoRoom(Wanted),
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
            empty: HashSet::new(),
        }
    }

    async fn turn(&mut self, is_poll: bool) -> Result<(), StoreError> {
        self.lost_claims.settle(&self.shared, &self.returns).await?;
        self.returns.give_back(&self.shared).await;
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
            let registry = self.shared.control.registry().await?;
            let connected = self.shared.hearing.reconnected_for();
            self.view = Some(View::new(registry, asked, connected, settings));
        }
        Ok(())
    }

    /// Looks whether tenants have jobs that nobody told of. With many tenants, a look goes through some of them.
    async fn look_at_tenants(&mut self) -> Result<(), StoreError> {
        let Some(view) = self.view.take_if(|view| !view.is_empty()) else { return Ok(()) };
        let page = PageRequest { limit: TENANTS_A_LOOK, after: self.after.take() };
        let tenants = self.shared.control.store().tenants(&page).await?;
        self.after = tenants.next;
        for tenant in &tenants.items {
            if self.may_claim() {
                self.look_at(&view, tenant).await?;
            }
        }
        self.view = Some(view);
        Ok(())
    }

    /// Tries one job for each kind of worker. Where there was one, there may be more.
    async fn look_at(&mut self, view: &View, tenant: &TenantId) -> Result<(), StoreError> {
        let workers = view.of_tenant(tenant);
        let mut untried = view::all_topics(&workers);
        while !untried.is_empty() {
            let able = |known: &&RegisteredWorker| {
                view::topics_of(known).iter().any(|topic| untried.contains(topic))
            };
            let able: Vec<_> = workers.iter().copied().filter(able).collect();
            let chosen = self.spread(view, &able, 1).into_iter().next();
            let Some(chosen) = chosen else { break };
            let known = able.into_iter().find(|known| known.worker == chosen.worker);
            let topics = known.map_or(&[][..], view::topics_of);
            untried.retain(|topic| !topics.contains(topic));
            let claimed = self.claim(view, tenant, &chosen, topics).await?;
            for topic in topics {
                let place = Place { tenant: tenant.clone(), topic: topic.clone() };
                self.looked_at(&place, &claimed);
                if !claimed.is_empty() {
                    self.shared.line.ask(place, Wanted::AtLeast(1));
                }
            }
        }
        Ok(())
    }

    /// A job that has come since the last look, though there was room for it and nobody said so, was an orphan.
    fn looked_at(&mut self, place: &Place, claimed: &[Topic]) {
        if claimed.is_empty() {
            if self.empty.len() < EMPTY_MAX {
                self.empty.insert(place.clone());
            }
        } else if self.empty.remove(place) && claimed.contains(&place.topic) {
            self.shared.control.found_unsaid(&place.tenant, &place.topic);
        }
    }

    /// Everybody in the line has a turn; those whose jobs do not fit wait for room.
    async fn serve_line(&mut self) -> Result<(), StoreError> {
        let mut waiting = Vec::new();
        let mut served = Ok(());
        while let Some((place, wanted)) = self.shared.line.next() {
            match self.serve(&place, wanted).await {
                Ok(Served::Done) => {}
                Ok(Served::Left(wanted)) => self.shared.line.ask(place, wanted),
                Ok(Served::NoRoom(wanted)) => waiting.push((place, wanted)),
                Err(error) => {
                    waiting.push((place, wanted));
                    served = Err(error);
                    break;
                }
            }
        }
        for (place, wanted) in waiting {
            self.shared.line.wait_for_room(place, wanted);
        }
        served
    }

    async fn serve(&mut self, place: &Place, wanted: Wanted) -> Result<Served, StoreError> {
        self.empty.remove(place);
        self.refresh(false).await?;
        let Some(view) = self.view.as_ref().filter(|_| self.may_claim()) else {
            return Ok(Served::NoRoom(wanted));
        };
        let workers = view.serving(&place.tenant, &place.topic);
        if workers.is_empty() {
            // Whoever serves this topic claims by itself.
            return Ok(Served::Done);
        }
        let turn = if self.trouble.is_there() { 1 } else { wanted.jobs().min(TURN_MAX) };
        let mut found = 0;
        for share in self.spread(view, &workers, turn) {
            let claimed = self.claim(view, &place.tenant, &share, std::slice::from_ref(&place.topic)).await?;
            found += claimed.len();
            if claimed.len() < share.jobs {
                return Ok(Served::Done);
            }
        }
        Ok(match wanted.after(found) {
            None => Served::Done,
            Some(left) if found < turn => Served::NoRoom(left),
            Some(left) => Served::Left(left),
        })
    }

    fn spread(&self, view: &View, workers: &[&RegisteredWorker], jobs: usize) -> Vec<Share> {
        let loads = self.shared.pushed.loads(view.now(), workers, self.shared.settings.default_capacity);
        choose::spread(loads, jobs)
    }

    /// Claims for the worker and pushes what it got. Returns the topic of each job.
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
            capabilities: Vec::new(),
            jobs_max: share.jobs,
            // Only until it has gone out: should this process die before that, nobody else would know.
            term: LeaseTerm::For(self.shared.control.settings().locks.job().ttl),
        };
        let (from, asked_at) = (view.now(), Instant::now());
        let claimed = self.shared.control.claim_now(claim).await.inspect_err(|error| {
            if matches!(error, StoreError::Unavailable { effect: Effect::Unknown, .. }) {
                let (tenant, worker) = (tenant.clone(), share.worker.clone());
                self.lost_claims.remember(LostClaim { tenant, worker, from, until: view.now() });
            }
        })?;
        let got: Vec<Topic> = claimed.iter().map(|claimed| claimed.job.topic.clone()).collect();
        if !got.is_empty() && push::push_all(&self.shared, &self.returns, tenant, claimed, asked_at).await {
            self.trouble.over();
        } else if !got.is_empty() {
            self.trouble.failed(self.shared.settings.poll);
        }
        Ok(got)
    }
}
