//! A lock on a run: first among the tasks of this process, then, by the store's lease, among the replicas.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use interlock_backend::runs::AcquiredRun;
use interlock_backend::verbs::{ExtendRunLease, ReleaseRun};
use interlock_model::{Fence, RunId, TenantId};

use super::LeaseRequest;
use crate::lease::{self, Loss, Renewal, Term};
use crate::process::Process;

/// The runs that tasks of this process are at. A run is listed only while a task is at it or waits for it.
#[derive(Debug, Default)]
pub(super) struct RunLocks {
    runs: Mutex<HashMap<RunId, Local>>,
}

#[derive(Debug, Default)]
struct Local {
    lock: Arc<tokio::sync::Mutex<()>>,
    tasks: usize,
}

impl RunLocks {
    /// Runs `work` when no other task of this process is at the run, first come, first served.
    pub(super) async fn alone<T>(&self, run: RunId, work: impl Future<Output = T>) -> T {
        let presence = Presence::enter(self, run);
        let _held = presence.lock.lock().await;
        work.await
    }

    /// Runs `work` now, unless a task of this process is at the run or waits for it: then nothing.
    pub(super) async fn alone_at_once<T>(&self, run: RunId, work: impl Future<Output = T>) -> Option<T> {
        let presence = Presence::enter_first(self, run)?;
        let _held = presence.lock.try_lock().ok()?;
        Some(work.await)
    }

    /// Whether a task of this process waits for the run: it will see what is posted by now.
    pub(super) fn is_awaited(&self, run: RunId) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&run).is_some_and(|local| local.tasks > 1)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// One task at, or waiting for, a run. The last to leave takes the entry with it.
struct Presence<'a> {
    locks: &'a RunLocks,
    run: RunId,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Presence<'a> {
    fn enter(locks: &'a RunLocks, run: RunId) -> Self {
        let mut runs = locks.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let local = runs.entry(run).or_default();
        local.tasks += 1;
        Self { locks, run, lock: local.lock.clone() }
    }

    fn enter_first(locks: &'a RunLocks, run: RunId) -> Option<Self> {
        let mut runs = locks.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Vacant(free) = runs.entry(run) else { return None };
        let local = free.insert(Local { tasks: 1, ..Local::default() });
        Some(Self { locks, run, lock: local.lock.clone() })
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        let mut runs = self.locks.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(local) = runs.get_mut(&self.run) {
            local.tasks -= 1;
            if local.tasks == 0 {
                runs.remove(&self.run);
            }
        }
    }
}

/// The store's lease on a run that was acquired for one turn. The commit of the turn ends it.
pub(super) struct RunLease<'a> {
    process: &'a Process,
    tenant: TenantId,
    run: RunId,
    fence: Fence,
    term: Term,
}

impl<'a> RunLease<'a> {
    pub(super) fn of(process: &'a Process, acquired: &AcquiredRun, request: LeaseRequest) -> Self {
        let failures_max = process.settings.locks.run().failures_max.unwrap_or(u32::MAX);
        Self {
            process,
            tenant: acquired.start.tenant.clone(),
            run: acquired.start.run,
            fence: acquired.fence,
            term: Term { asked_at: request.at, ttl: request.lease, failures_max },
        }
    }

    /// Makes the turn, which is dropped once another replica may have the run.
    pub(super) async fn guard<T>(&self, turn: impl Future<Output = T>) -> Result<T, Loss> {
        let (tenant, run, fence, ttl) = (&self.tenant, self.run, self.fence, self.term.ttl);
        let renew = || async move {
            let extend = ExtendRunLease { tenant: tenant.clone(), run, fence, lease: ttl };
            match lease::renewal(self.process.call(extend).await.map(|()| ttl)) {
                // Our own commit may have ended the lease, and its answer be on the way: the commit decides, by the fence.
                Renewal::Refused(_) => Renewal::Failed,
                renewal @ (Renewal::Extended(_) | Renewal::Failed) => renewal,
            }
        };
        lease::guard(self.process, self.term, renew, turn).await
    }

    /// Releases the run without having changed it.
    pub(super) async fn release(self) {
        let release = ReleaseRun { tenant: self.tenant, run: self.run, fence: self.fence };
        let _ = self.process.call(release).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use interlock_model::Timestamp;

    use super::*;

    fn run(number: u8) -> RunId {
        RunId::new(Timestamp::ZERO, [number; 10])
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_one_process_are_at_a_run_one_after_the_other_as_they_came() {
        let (locks, order) = (RunLocks::default(), Mutex::new(Vec::new()));
        let at_it = |number: u32| {
            let order = &order;
            locks.alone(run(1), async move {
                order.lock().unwrap().push((number, "begins"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                order.lock().unwrap().push((number, "ends"));
            })
        };
        tokio::join!(
            at_it(1),
            at_it(2),
            locks.alone(run(2), async { order.lock().unwrap().push((3, "aside")) })
        );
        let events = order.lock().unwrap().clone();
        assert_eq!(events, [(1, "begins"), (3, "aside"), (1, "ends"), (2, "begins"), (2, "ends")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_wait_gets_only_a_run_without_other_tasks() {
        let locks = RunLocks::default();
        let mut first = Box::pin(locks.alone_at_once(run(1), std::future::pending::<()>()));
        assert!(first.as_mut().now_or_never().is_none());
        assert_eq!(locks.alone_at_once(run(1), std::future::ready(1)).await, None);
        assert_eq!(locks.alone_at_once(run(2), std::future::ready(2)).await, Some(2));
        let mut patient = Box::pin(locks.alone(run(1), std::future::ready(3)));
        assert!(patient.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(locks.alone_at_once(run(1), std::future::ready(4)).await, None, "a task waits for it");
        assert_eq!(patient.await, 3);
        assert_eq!(locks.alone_at_once(run(1), std::future::ready(5)).await, Some(5));
        assert_eq!(locks.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_without_tasks_leaves_nothing_behind_however_its_tasks_ended() {
        let locks = RunLocks::default();
        {
            let mut first = Box::pin(locks.alone(run(1), std::future::pending::<()>()));
            let mut second = Box::pin(locks.alone(run(1), std::future::ready(())));
            assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
            assert_eq!(locks.len(), 1);
            drop(first);
            assert_eq!(locks.len(), 1, "a task still waits for it");
            second.await;
        }
        assert_eq!(locks.len(), 0);
    }
}
