//! Workers.

use interlock_api::workers::WorkerView;
use interlock_control::worker_directory::KnownWorker;
use interlock_model::scheduling::LiveWorker;

pub(crate) fn view(known: KnownWorker) -> WorkerView {
    let KnownWorker { found, tenant: _, first_seen_at, last_seen_at, is_online } = known;
    let LiveWorker { worker, edge, topics, capabilities, pool, is_draining, load } = found;
    WorkerView {
        worker_id: worker,
        edge,
        topics,
        capabilities,
        pool,
        active_jobs: load.map(|load| load.jobs),
        max_parallel_jobs: load.map(|load| load.jobs_max),
        first_seen_at: first_seen_at.map(Into::into),
        last_seen_at: last_seen_at.into(),
        online: is_online,
        draining: is_draining,
    }
}
