//! What must hold when faults have stopped and everybody had time.

use interlock_backend::local::Table;

use super::{Checker, Tenant};
use crate::{Failure, Invariant, Summary};

/// Indexes of what is open. With every run ended, nothing is.
pub(crate) const OPEN: [Table; 23] = [
    Table::Active,
    Table::LimitSlots,
    Table::RunSlots,
    Table::RunQueue,
    Table::Debounced,
    Table::LimitTimers,
    Table::Ready,
    Table::Inbox,
    Table::RunLeases,
    Table::Timers,
    Table::Queue,
    Table::JobLeases,
    Table::JobExpiries,
    Table::QueueTimeouts,
    Table::OpenApprovals,
    Table::Deferred,
    Table::DeferredDue,
    Table::Held,
    Table::HeldDue,
    Table::Children,
    Table::ChildStarts,
    Table::ChildrenDue,
    Table::EventWaiters,
];

impl Checker {
    /// Whether every run that was admitted has ended.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_quiet = |tenant: &Tenant| {
            tenant.live.is_empty() && tenant.queued.is_empty() && tenant.children.is_empty()
        };
        self.tenants.values().all(is_quiet)
    }

    /// Time is up: a run that has not ended never will.
    pub(crate) fn give_up_waiting(&mut self) {
        let live: Vec<String> = self
            .tenants
            .iter()
            .flat_map(|(tenant, model)| {
                model
                    .live
                    .iter()
                    .chain(&model.queued)
                    .chain(&model.children)
                    .map(move |run| format!("{tenant}/{run}"))
            })
            .collect();
        self.require(live.is_empty(), Invariant::EveryRunEnds, || {
            format!("{} of the admitted runs never ended: {}", live.len(), live.join(", "))
        });
    }

    pub(crate) fn left(&mut self, table: Table, keys: &[String]) {
        self.require(keys.is_empty(), Invariant::NothingIsLeft, || {
            format!("every run has ended, and {} still holds {}", table.name(), keys.join(", "))
        });
    }

    pub(crate) fn verdict(&mut self) -> Result<Summary, Failure> {
        self.counts.simulated_ms = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counts.history = self.log.hash();
        self.failure.clone().map_or_else(|| Ok(self.counts.clone()), Err)
    }
}
