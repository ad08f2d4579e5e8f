//! Starts under their tenant's admission lock, each of whose steps may be left out or come late.

use std::time::Duration;

use interlock_model::admission::{Admission, StartRun};
use interlock_model::lock::{LockLimits, LockMode, LockName};
use interlock_model::{Fence, TenantId};
use rand::RngExt;

use super::super::scene::name;
use super::Walk;
use crate::locks::{Acquire, Acquired};
use crate::reservations::Reserve;

/// What the walk knows of starts under a lock, stale ones included.
#[derive(Default)]
pub(super) struct ReservationWalk {
    fences: Vec<(TenantId, Fence)>,
    starts: Vec<StartRun>,
}

impl Walk {
    pub(super) async fn start_under_a_lock(&mut self) {
        let start = self.a_start().await;
        let lock = LockName::Admission(start.tenant.clone());
        let token = name(&format!("token-{}", start.run));
        let asked = Acquire {
            lock: lock.clone(),
            owner: name("a-start"),
            mode: LockMode::Exclusive,
            ttl: Duration::from_millis(self.random.random_range(50..900)),
            request: name(&format!("request-{}", start.run)),
            call: name(&format!("token-{}", start.run)),
            held: None,
            stay: None,
            limits: LockLimits::default(),
        };
        if let Ok(turn) = same!(self, acquire(&asked))
            && let Acquired::Granted(grant) = turn.answer
        {
            self.reservations.fences.push((start.tenant.clone(), grant.fence));
        }
        self.perhaps_later();
        let known = Self::pick(&mut self.random, &self.reservations.fences);
        let fence = known.filter(|(of, _)| *of == start.tenant).map_or(Fence::new(1), |(_, fence)| fence);
        let start = StartRun { hold: Some(fence), ..start };
        self.reserve_and_create(start).await;
        if self.random.random_bool(0.7) {
            let _ = same!(self, release(&lock, &token));
        }
    }

    async fn reserve_and_create(&mut self, start: StartRun) {
        self.reservations.starts.push(start.clone());
        if self.random.random_bool(0.9) {
            self.reserve(&start).await;
        }
        let _ = same!(self, count_runs(&start.tenant));
        self.perhaps_later();
        // Now and then somebody else's, or one whose time is long over.
        let picked = Self::pick(&mut self.random, &self.reservations.starts);
        let start = picked
            .filter(|picked| picked.run != start.run)
            .map_or(start, |picked| StartRun { is_repeat: true, ..picked });
        if let Ok(Admission::Admitted { run, .. }) = same!(self, admit(&start)) {
            self.runs.push((start.tenant.clone(), run));
        }
        if let Some(intent) = start.intent.filter(|_| self.random.random_bool(0.4)) {
            let _ = same!(self, release_key(&start.tenant, &start.workflow, &intent.key, start.run));
        }
    }

    async fn reserve(&mut self, start: &StartRun) {
        let (Some(intent), Some(fence)) = (start.intent.clone(), start.hold) else { return };
        let reserve = Reserve {
            tenant: start.tenant.clone(),
            workflow: start.workflow.clone(),
            intent,
            run: start.run,
            fence,
            lease: Duration::from_millis(self.random.random_range(50..900)),
        };
        let _ = same!(self, reserve_key(&reserve));
    }

    fn perhaps_later(&mut self) {
        if self.random.random_bool(0.15) {
            self.clock.advance(Duration::from_millis(self.random.random_range(1..700)));
        }
    }
}
