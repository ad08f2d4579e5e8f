//! Tenants and their limits.

use interlock_model::limit::Limits;
use interlock_model::limit::document::{OnFull, QueueOrder};
use rand::RngExt as _;
use std::time::Duration;

use super::{Walk, sampled};
use crate::tenants::LimitScope;
use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, SetLimits};

sampled!(SetLimits, 3, |walk| {
    let key_retention = walk.flip(0.2).then_some(Duration::from_secs(2));
    let runs_max = walk.flip(0.8).then(|| walk.random.random_range(0..8));
    let turn_bytes_max = walk.flip(0.2).then_some(1 << 20);
    let run_bytes_max = walk.flip(0.2).then_some(2 << 20);
    let on_full = walk.flip(0.4).then_some(OnFull::Queue);
    let queued_max = walk.flip(0.4).then(|| walk.random.random_range(1..5));
    let queue_wait = walk.flip(0.3).then_some(Duration::from_secs(5));
    let queue_order = walk.flip(0.3).then_some(QueueOrder::Priority);
    // Small enough to be reached now and then.
    let workflows_max = walk.flip(0.1).then_some(2);
    let workflow_versions_max = walk.flip(0.1).then_some(3);
    let workers_max = walk.flip(0.1).then_some(1);
    let limits = Limits {
        runs_max,
        on_full,
        queued_max,
        queue_wait,
        queue_order,
        key_retention,
        turn_bytes_max,
        run_bytes_max,
        workflows_max,
        workflow_versions_max,
        workers_max,
        tenants_max: None,
    };
    Some(SetLimits { scope: walk.limit_scope(), limits, keeps_quotas: walk.flip(0.2) })
});

sampled!(ReadLimits, 1, |walk| Some(ReadLimits { scope: walk.limit_scope() }));

sampled!(ReadEffectiveLimits, 1, |walk| Some(ReadEffectiveLimits { tenant: walk.tenant() }));

sampled!(ListTenants, 1, |walk| Some(ListTenants { page: walk.page("tenants") }), |_, answer, known| known
    .learn_page("tenants".to_owned(), answer));

impl Walk {
    fn limit_scope(&mut self) -> LimitScope {
        if self.flip(0.2) { LimitScope::System } else { LimitScope::Tenant(self.tenant()) }
    }
}
