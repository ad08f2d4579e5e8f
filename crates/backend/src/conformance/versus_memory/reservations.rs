//! Idempotency keys, reserved under their tenant's admission lock.

use interlock_model::Fence;
use interlock_model::lock::LockName;

use super::sampled;
use crate::verbs::{CountRuns, ReleaseIdempotencyKey, ReserveIdempotencyKey};

sampled!(ReserveIdempotencyKey, 6, |walk| {
    let start = walk.start();
    let fence =
        walk.known.lock_fence(&LockName::Admission(start.request.tenant.clone())).unwrap_or(Fence::new(1));
    Some(ReserveIdempotencyKey {
        tenant: start.request.tenant.clone(),
        workflow: start.request.workflow.clone(),
        intent: start.request.intent.clone()?,
        run: start.request.run,
        fence,
        lease: walk.millis(50..900),
    })
});

sampled!(ReleaseIdempotencyKey, 3, |walk| {
    let start = walk.pick(|known| &known.starts)?;
    let key = start.request.intent.clone()?.key;
    Some(ReleaseIdempotencyKey {
        tenant: start.request.tenant.clone(),
        workflow: start.request.workflow.clone(),
        key,
        run: start.request.run,
    })
});

sampled!(CountRuns, 2, |walk| Some(CountRuns { tenant: walk.tenant() }));
