//! Workers on HTTP.

use super::sampled;
use crate::verbs::{DrainWorker, ForgetWorker, ListWorkers, ReadWorker};

sampled!(
    ListWorkers,
    1,
    |walk| {
        let tenant = walk.tenant();
        let page = walk.page(&format!("workers of {tenant}"));
        Some(ListWorkers { tenant, page })
    },
    |asked, answer, known| known.learn_page(format!("workers of {}", asked.tenant), answer)
);

sampled!(ReadWorker, 1, |walk| Some(ReadWorker { tenant: walk.tenant(), worker: walk.worker() }));

sampled!(DrainWorker, 2, |walk| {
    Some(DrainWorker { tenant: walk.tenant(), worker: walk.worker(), is_draining: walk.flip(0.3) })
});

sampled!(ForgetWorker, 2, |walk| {
    let unless_after = walk.now() - walk.millis(0..2_000);
    Some(ForgetWorker { tenant: walk.tenant(), worker: walk.worker(), unless_after })
});
