//! Workers on NATS.

use interlock_model::Fence;
use interlock_model::lock::{LockName, StageLock};
use rand::RngExt as _;

use super::super::scene::acme;
use super::{Walk, sampled};
use crate::registry::{Beat, Handshake};
use crate::verbs::{
    DrainNatsWorker, ForgetNatsWorker, ReadRegistry, ReadSnapshot, RecordBeat, RegisterNatsWorker,
    SaveSnapshot,
};

sampled!(RegisterNatsWorker, 2, |walk| {
    let topics = (0..walk.random.random_range(0..3)).map(|_| walk.topic()).collect();
    Some(RegisterNatsWorker { worker: walk.worker(), handshake: Handshake { topics } })
});

sampled!(RecordBeat, 2, |walk| Some(RecordBeat { worker: walk.worker(), beat: walk.beat() }));

sampled!(DrainNatsWorker, 1, |walk| {
    Some(DrainNatsWorker { worker: walk.worker(), is_draining: walk.flip(0.5) })
});

sampled!(ReadRegistry, 1, |_walk| Some(ReadRegistry));

sampled!(SaveSnapshot, 2, |walk| {
    let fence = walk.known.lock_fence(&LockName::Stage(StageLock::SnapshotWriter)).unwrap_or(Fence::new(1));
    let fence = if walk.flip(0.1) { Fence::new(fence.number() + 1) } else { fence };
    Some(SaveSnapshot { fence, snapshot: format!("{{\"n\":{}}}", walk.random.random_range(0..9)) })
});

sampled!(ReadSnapshot, 1, |_walk| Some(ReadSnapshot));

sampled!(ForgetNatsWorker, 1, |walk| {
    let unless_after = walk.now() - walk.millis(0..2_000);
    Some(ForgetNatsWorker { worker: walk.worker(), unless_after })
});

impl Walk {
    fn beat(&mut self) -> Beat {
        Beat {
            capabilities: self.tags().into_iter().map(str::to_owned).collect(),
            pool: self.flip(0.5).then(|| "west".to_owned()),
            tenant: self.flip(0.5).then(acme),
            jobs_active: self.random.random_range(0..9),
            jobs_max: self.random.random_range(0..9),
        }
    }
}
