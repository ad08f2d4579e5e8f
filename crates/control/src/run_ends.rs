//! Waiting for the end of runs: one watcher for all clients of this process that wait.
//!
//! The watcher reads the status of many runs in one call, when the bus says that some of them have changed and at the
//! pace of a poll, should a wake-up be lost. However many clients wait, the store sees one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use interlock_backend::runs::STATUSES_MAX;
use interlock_backend::verbs::{ReadRun, ReadRunStatuses, ReadWorkflowVersion};
use interlock_backend::workflows::WorkflowVersion;
use interlock_backend::{StoreError, Wake};
use interlock_model::run::{Run, RunStatus};
use interlock_model::{RunId, TenantId};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::process::Process;

/// How a wait for the end of a run ended.
#[derive(Debug, Clone)]
pub enum RunEnd {
    Ended(Arc<EndedRun>),
    /// It does not exist, or was deleted meanwhile.
    Gone,
    /// The time is over, or the process closes. With the status that was seen last.
    NotYet(Option<RunStatus>),
}

/// A run that has ended, with the definition that names the steps that it did not reach.
#[derive(Debug)]
pub struct EndedRun {
    pub run: Run,
    pub definition: Option<WorkflowVersion>,
}

/// Why a request did not wait for a run.
#[derive(Debug, thiserror::Error)]
pub enum RunWaitError {
    #[error("as many requests wait for the end of a run as may: {most} {scope}")]
    Full { most: usize, scope: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the watcher knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Live(RunStatus),
    Final,
    Gone,
}

/// A run that is waited for, shared by all who wait.
#[derive(Debug)]
struct Followed {
    seen: watch::Sender<Seen>,
    /// Read once for all who wait.
    ended: OnceCell<Option<Arc<EndedRun>>>,
}

#[derive(Debug, Default)]
struct Watched {
    /// By run and by the tenant that asks: whose the run is, only the store knows.
    runs: BTreeMap<RunId, BTreeMap<TenantId, Arc<Followed>>>,
    /// Those whose status is to be read.
    unchecked: BTreeSet<(TenantId, RunId)>,
    waiters: BTreeMap<TenantId, usize>,
    waiters_in_all: usize,
}

/// Waits for the end of runs, and watches those that are waited for.
pub struct RunEnds {
    process: Arc<Process>,
    watched: Mutex<Watched>,
    arrived: Notify,
}

/// A client that waits. Dropped, it leaves nothing behind.
struct RunWaiter<'a> {
    ends: &'a RunEnds,
    tenant: TenantId,
    run: RunId,
    followed: Arc<Followed>,
}

impl RunEnds {
    pub(crate) fn new(process: &Arc<Process>) -> Self {
        Self { process: process.clone(), watched: Mutex::default(), arrived: Notify::new() }
    }

    /// Waits until the run has ended, at most for `wait`, or until `closing`.
    pub async fn wait(
        &self,
        tenant: &TenantId,
        run: RunId,
        wait: Duration,
        closing: &CancellationToken,
    ) -> Result<RunEnd, RunWaitError> {
        let waiter = self.register(tenant, run)?;
        let mut seen = waiter.followed.seen.subscribe();
        let until_final = seen.wait_for(|seen| matches!(seen, Seen::Final | Seen::Gone));
        let bounded = tokio::time::timeout(wait, until_final);
        drop(closing.run_until_cancelled(bounded).await);
        let last = *waiter.followed.seen.borrow();
        match last {
            Seen::Final => Ok(waiter.ended().await?.map_or(RunEnd::Gone, RunEnd::Ended)),
            Seen::Gone => Ok(RunEnd::Gone),
            Seen::Live(status) => Ok(RunEnd::NotYet(Some(status))),
            Seen::Nothing => Ok(RunEnd::NotYet(None)),
        }
    }

    /// Clients that wait now.
    pub fn waiters(&self) -> usize {
        self.lock().waiters_in_all
    }

    /// Runs that are watched now.
    pub fn runs_watched(&self) -> usize {
        self.lock().runs.len()
    }

    fn register(&self, tenant: &TenantId, run: RunId) -> Result<RunWaiter<'_>, RunWaitError> {
        let settings = &self.process.settings;
        let mut watched = self.lock();
        let own = watched.waiters.get(tenant).copied().unwrap_or_default();
        if own >= settings.tenant_run_waiters_max {
            return Err(RunWaitError::Full { most: settings.tenant_run_waiters_max, scope: "of one tenant" });
        }
        if watched.waiters_in_all >= settings.run_waiters_max {
            return Err(RunWaitError::Full { most: settings.run_waiters_max, scope: "in all" });
        }
        *watched.waiters.entry(tenant.clone()).or_default() += 1;
        watched.waiters_in_all += 1;
        let of_run = watched.runs.entry(run).or_default();
        let is_new = !of_run.contains_key(tenant);
        let followed = of_run.entry(tenant.clone()).or_insert_with(|| {
            Arc::new(Followed { seen: watch::Sender::new(Seen::Nothing), ended: OnceCell::new() })
        });
        let followed = followed.clone();
        if is_new {
            watched.unchecked.insert((tenant.clone(), run));
            self.arrived.notify_one();
        }
        Ok(RunWaiter { ends: self, tenant: tenant.clone(), run, followed })
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunWaiter<'_> {
    async fn ended(&self) -> Result<Option<Arc<EndedRun>>, StoreError> {
        let read = || async {
            let process = &self.ends.process;
            let Some(run) = process.call(ReadRun { tenant: self.tenant.clone(), run: self.run }).await?
            else {
                return Ok(None);
            };
            let (id, version) = (run.start.workflow.clone(), run.start.workflow_version);
            let read = ReadWorkflowVersion { tenant: self.tenant.clone(), id, version };
            let definition = process.call(read).await?;
            Ok(Some(Arc::new(EndedRun { run, definition })))
        };
        self.followed.ended.get_or_try_init(read).await.cloned()
    }
}

impl Drop for RunWaiter<'_> {
    fn drop(&mut self) {
        let mut watched = self.ends.lock();
        watched.waiters_in_all -= 1;
        if let Some(own) = watched.waiters.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                watched.waiters.remove(&self.tenant);
            }
        }
        // The table has one, and this waiter the other: no other request waits.
        if Arc::strong_count(&self.followed) > 2 {
            return;
        }
        watched.unchecked.remove(&(self.tenant.clone(), self.run));
        if let Some(of_run) = watched.runs.get_mut(&self.run) {
            of_run.remove(&self.tenant);
            if of_run.is_empty() {
                watched.runs.remove(&self.run);
            }
        }
    }
}

impl Watched {
    fn note(&mut self, run: RunId) {
        let of_run = self.runs.get(&run).into_iter().flatten();
        self.unchecked.extend(of_run.map(|(tenant, _)| (tenant.clone(), run)));
    }

    fn note_all(&mut self) {
        let all =
            self.runs.iter().flat_map(|(run, tenants)| tenants.keys().map(|tenant| (tenant.clone(), *run)));
        self.unchecked = all.collect();
    }

    fn hear(&mut self, heard: &Result<Wake, RecvError>) {
        match heard {
            Ok(Wake::RunChanged { run }) => self.note(*run),
            // What was missed is unknown.
            Err(RecvError::Lagged(_)) => self.note_all(),
            Ok(_) | Err(RecvError::Closed) => {}
        }
    }

    /// The next runs of one tenant to look at.
    fn next_unchecked(&mut self) -> Option<ReadRunStatuses> {
        let (tenant, _) = self.unchecked.first()?.clone();
        let of_tenant = self.unchecked.iter().take_while(|(other, _)| *other == tenant);
        let runs: Vec<RunId> = of_tenant.map(|(_, run)| *run).take(STATUSES_MAX).collect();
        for run in &runs {
            self.unchecked.remove(&(tenant.clone(), *run));
        }
        Some(ReadRunStatuses { tenant, runs })
    }

    fn learn(&self, tenant: &TenantId, run: RunId, status: Option<RunStatus>) {
        let Some(followed) = self.runs.get(&run).and_then(|tenants| tenants.get(tenant)) else { return };
        let seen = match status {
            None => Seen::Gone,
            Some(status) if status.is_final() => Seen::Final,
            Some(status) => Seen::Live(status),
        };
        followed.seen.send_if_modified(|last| {
            let is_news = *last != seen && !matches!(last, Seen::Final | Seen::Gone);
            if is_news {
                *last = seen;
            }
            is_news
        });
    }
}

/// Watches the runs that are waited for, until `shutdown`.
pub(crate) async fn watch(ends: Arc<RunEnds>, shutdown: CancellationToken) {
    let mut wakes = ends.process.bus.subscribe();
    shutdown.run_until_cancelled(ends.watch(&mut wakes)).await;
}

impl RunEnds {
    async fn watch(&self, wakes: &mut Receiver<Wake>) {
        let poll = self.process.settings.run_end_poll;
        let mut next_poll = Instant::now() + poll;
        loop {
            self.look().await;
            let is_idle = self.lock().runs.is_empty();
            let due = async {
                // While no request waits, nothing is read.
                if is_idle {
                    std::future::pending::<()>().await;
                } else {
                    tokio::time::sleep_until(next_poll).await;
                }
            };
            tokio::select! {
                biased;
                heard = wakes.recv() => {
                    if matches!(heard, Err(RecvError::Closed)) {
                        return;
                    }
                    self.hear_all(&heard, wakes);
                }
                () = self.arrived.notified() => {}
                () = due => {
                    self.lock().note_all();
                    next_poll = Instant::now() + poll;
                }
            }
        }
    }

    /// What has come together is looked at together.
    fn hear_all(&self, first: &Result<Wake, RecvError>, wakes: &mut Receiver<Wake>) {
        let mut watched = self.lock();
        watched.hear(first);
        loop {
            match wakes.try_recv() {
                Ok(wake) => watched.hear(&Ok(wake)),
                Err(TryRecvError::Lagged(missed)) => watched.hear(&Err(RecvError::Lagged(missed))),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Reads the status of the runs that may have changed.
    async fn look(&self) {
        loop {
            let Some(read) = self.lock().next_unchecked() else { return };
            let (tenant, runs) = (read.tenant.clone(), read.runs.clone());
            match self.process.call(read).await {
                Ok(found) => {
                    let found: BTreeMap<RunId, RunStatus> = found.into_iter().collect();
                    let watched = self.lock();
                    for run in runs {
                        watched.learn(&tenant, run, found.get(&run).copied());
                    }
                }
                // The next poll reads them again.
                Err(error) => tracing::debug!(%tenant, %error, "cannot read the status of runs"),
            }
        }
    }
}
