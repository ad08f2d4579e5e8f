//! Tenants and their limits.

use interlock_model::limit::Limits;
use rand::RngExt as _;
use std::time::Duration;

use super::{Walk, sampled};
use crate::tenants::LimitScope;
use crate::verbs::{ListTenants, ReadEffectiveLimits, ReadLimits, SetLimits};

sampled!(SetLimits, 3, |walk| {
    let key_retention = walk.flip(0.2).then_some(Duration::from_secs(2));
    let runs_max = walk.flip(0.8).then(|| walk.random.random_range(0..8));
    Some(SetLimits { scope: walk.limit_scope(), limits: Limits { runs_max, key_retention } })
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
