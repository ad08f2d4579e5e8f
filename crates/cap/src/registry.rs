//! Handshakes and heartbeats: which workers exist, what they serve and how loaded they are.

use interlock_backend::StoreError;
use interlock_backend::registry::{Beat, Handshake};
use interlock_model::meta::PLACING_PREFIXES;
use interlock_model::{Topic, WorkerId};

use crate::edge::Shared;
use crate::lease_check::Rejection;
use crate::wire::{self, ComponentRole};

/// What is kept of a worker's description of itself.
pub(crate) const TOPICS_MAX: usize = 256;
pub(crate) const CAPABILITIES_MAX: usize = 64;
pub(crate) const TEXT_MAX: usize = 128;

/// The label of a worker that serves one tenant only.
const TENANT_LABEL: &str = "tenant";

pub(crate) async fn introduce(
    shared: &Shared,
    sender: &str,
    handshake: &wire::Handshake,
) -> Result<(), Rejection> {
    let (worker, handshake, left_out) = read_handshake(sender, handshake)?;
    match register(shared, &worker, &handshake).await {
        Ok(()) => {
            tracing::info!(%worker, topics = handshake.topics.len(), left_out, "NATS worker registered");
            // Jobs may be waiting for it.
            shared.queue.scan_all();
        }
        Err(error) => not_recorded(shared, &worker, &error),
    }
    Ok(())
}

/// Workers send a handshake when they start: a worker that is already registered has restarted and lost its jobs.
async fn register(shared: &Shared, worker: &WorkerId, handshake: &Handshake) -> Result<(), StoreError> {
    let workers = &shared.control.workers;
    let registry = workers.registry().await?;
    if registry.workers.iter().any(|known| known.worker == *worker && known.handshake.is_some()) {
        let lost = workers.abandon(worker).await?;
        if lost > 0 {
            shared.counts.jobs_abandoned.add(lost);
            tracing::warn!(%worker, lost, "NATS worker restarted; its earlier jobs are dispatched again");
        }
    }
    workers.register(worker, handshake).await
}

pub(crate) async fn beat(
    shared: &Shared,
    sender: &str,
    heartbeat: &wire::Heartbeat,
) -> Result<(), Rejection> {
    let (worker, beat) = read_beat(sender, heartbeat)?;
    match shared.control.workers.beat(&worker, &beat).await {
        Ok(Some(before)) if !brings_more(&before, &beat) => {
            if beat.jobs_active < before.jobs_active {
                shared.queue.wake();
            }
        }
        // Jobs may be waiting that only this worker can do.
        Ok(_) => shared.queue.scan_all(),
        Err(error) => not_recorded(shared, &worker, &error),
    }
    Ok(())
}

/// Whether the worker may now get jobs that it could not get before.
fn brings_more(before: &Beat, now: &Beat) -> bool {
    *before != Beat { jobs_active: before.jobs_active, ..now.clone() }
}

fn not_recorded(shared: &Shared, worker: &WorkerId, error: &StoreError) {
    shared.connectivity.heartbeat_lost();
    tracing::warn!(%worker, %error, "a handshake or heartbeat was not recorded");
}

/// The worker, what it serves, and how many of its topics were left out.
pub(crate) fn read_handshake(
    sender: &str,
    handshake: &wire::Handshake,
) -> Result<(WorkerId, Handshake, usize), Rejection> {
    wire::same_name(sender, &handshake.component_id)?;
    if handshake.role() != ComponentRole::Worker {
        return Err(Rejection::Unreadable("the sender is not a worker".to_owned()));
    }
    let (versions, ours) = (&handshake.supported_versions, wire::PROTOCOL_VERSION);
    if !versions.is_empty() && !versions.contains(&ours) {
        return Err(Rejection::Unreadable(format!("the worker does not support protocol version {ours}")));
    }
    let worker = named(&handshake.component_id)?;
    // A step cannot name a topic that is not valid here, so nothing is lost with it.
    let topics = handshake.ready_topics.iter().filter_map(|topic| topic.parse().ok());
    let mut topics: Vec<Topic> = topics.take(TOPICS_MAX).collect();
    topics.sort();
    topics.dedup();
    let left_out = handshake.ready_topics.len() - topics.len();
    Ok((worker, Handshake { topics }, left_out))
}

/// The name of a worker that jobs can be sent to.
fn named(worker: &str) -> Result<WorkerId, Rejection> {
    let worker: WorkerId = worker.parse()?;
    if !wire::is_routable(worker.as_str()) {
        return Err(Rejection::Unreadable(format!("NATS cannot route to a worker called {worker:?}")));
    }
    Ok(worker)
}

pub(crate) fn read_beat(sender: &str, heartbeat: &wire::Heartbeat) -> Result<(WorkerId, Beat), Rejection> {
    wire::same_name(sender, &heartbeat.worker_id)?;
    let worker = named(&heartbeat.worker_id)?;
    // An invalid label must not open the worker to all tenants.
    let tenant = heartbeat.labels.get(TENANT_LABEL).map(|name| name.parse()).transpose()?;
    // Labels that only some workers have are what jobs with such labels require.
    let is_placing = |name: &str| PLACING_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let mut placing: Vec<String> = heartbeat
        .labels
        .iter()
        .filter(|(name, _)| is_placing(name))
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    placing.sort_unstable();
    let capabilities = heartbeat.capabilities.iter().chain(&placing).take(CAPABILITIES_MAX);
    let beat = Beat {
        capabilities: capabilities.map(|capability| wire::shortened(capability, TEXT_MAX)).collect(),
        pool: Some(wire::shortened(&heartbeat.pool, TEXT_MAX)).filter(|pool| !pool.is_empty()),
        tenant,
        jobs_active: u32::try_from(heartbeat.active_jobs).unwrap_or(0),
        jobs_max: u32::try_from(heartbeat.max_parallel_jobs).unwrap_or(0),
    };
    Ok((worker, beat))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake(role: ComponentRole, topics: &[&str]) -> wire::Handshake {
        wire::Handshake {
            component_id: "w".to_owned(),
            role: role.into(),
            supported_versions: vec![1],
            ready_topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
            ..wire::Handshake::default()
        }
    }

    #[test]
    fn labels_that_place_jobs_are_capabilities() {
        let mut beat = heartbeat(None);
        beat.capabilities = vec!["gpu".to_owned()];
        for (name, value) in [("placement.region", "eu"), ("node.kind", "large"), ("team", "red")] {
            beat.labels.insert(name.to_owned(), value.to_owned());
        }
        let (_, beat) = read_beat("w", &beat).unwrap();
        assert_eq!(beat.capabilities, ["gpu", "node.kind:large", "placement.region:eu"]);
    }

    fn heartbeat(label: Option<&str>) -> wire::Heartbeat {
        let labels = label.map(|tenant| (TENANT_LABEL.to_owned(), tenant.to_owned()));
        wire::Heartbeat {
            worker_id: "w".to_owned(),
            active_jobs: -1,
            max_parallel_jobs: 3,
            labels: labels.into_iter().collect(),
            ..wire::Heartbeat::default()
        }
    }

    #[test]
    fn topics_that_no_job_can_have_are_left_out() {
        let read = read_handshake("w", &handshake(ComponentRole::Worker, &["job.b", "no good", "job.a"]));
        let (_, Handshake { topics }, left_out) = read.unwrap();
        assert_eq!(left_out, 1);
        assert_eq!(topics.iter().map(Topic::as_str).collect::<Vec<_>>(), ["job.a", "job.b"]);
    }

    #[test]
    fn only_workers_that_speak_for_themselves_are_registered() {
        let refused = |handshake| read_handshake("w", &handshake).unwrap_err().to_string();
        let gateway = handshake(ComponentRole::Gateway, &["job.a"]);
        assert_eq!(refused(gateway), "the sender is not a worker");
        let worker = handshake(ComponentRole::Worker, &["job.a"]);
        let other_version = wire::Handshake { supported_versions: vec![2], ..worker.clone() };
        assert_eq!(refused(other_version), "the worker does not support protocol version 1");
        let impostor = Rejection::from(wire::same_name("other", "w").unwrap_err());
        assert_eq!(read_handshake("other", &worker).unwrap_err(), impostor);
        assert_eq!(read_beat("other", &heartbeat(None)).unwrap_err(), impostor);
    }

    #[test]
    fn a_worker_that_nats_cannot_route_to_is_refused() {
        for name in ["w..x", "w."] {
            let handshake = wire::Handshake {
                component_id: name.to_owned(),
                ..handshake(ComponentRole::Worker, &["job.a"])
            };
            let heartbeat = wire::Heartbeat { worker_id: name.to_owned(), ..heartbeat(None) };
            for refused in
                [read_handshake(name, &handshake).unwrap_err(), read_beat(name, &heartbeat).unwrap_err()]
            {
                assert!(refused.to_string().contains("cannot route"), "{name}: {refused}");
            }
        }
    }

    #[test]
    fn a_tenant_label_is_read_and_a_wrong_one_refused() {
        let (worker, beat) = read_beat("w", &heartbeat(Some("acme"))).unwrap();
        assert_eq!((worker.as_str(), beat.jobs_active, beat.jobs_max), ("w", 0, 3));
        assert_eq!(beat.tenant.unwrap().as_str(), "acme");
        let refused = read_beat("w", &heartbeat(Some("no tenant"))).unwrap_err();
        assert!(refused.to_string().contains("no tenant"), "{refused}");
        assert_eq!(read_beat("w", &heartbeat(None)).unwrap().1.tenant, None);
    }
}
