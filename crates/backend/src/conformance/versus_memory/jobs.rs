//! Jobs: claimed, extended, ended, read.

use interlock_model::job::{JobOutcome, JobState};
use interlock_model::meta::{JobMeta, Priority};
use interlock_model::scheduling::Edge;
use interlock_model::{Fence, TenantId};
use rand::RngExt as _;
use serde_json::json;

use super::super::scene::{name, topic};
use super::known::Known;
use super::{Walk, sampled};
use crate::jobs::{JobView, LeaseTerm, Progress};
use crate::verbs::{
    AbandonWorker, CancelJob, Claim, CountJobsBefore, ExpireLeases, ExtendJobLease, ListJobs, ReadJob,
    RecordProgress, RecordResult,
};

sampled!(
    Claim,
    12,
    |walk| Some(Claim {
        tenant: walk.tenant(),
        worker: walk.worker(),
        topics: if walk.flip(0.3) { vec![topic(), name("test")] } else { vec![walk.topic()] },
        capabilities: walk.tags().into_iter().map(str::to_owned).collect(),
        jobs_max: walk.limit(),
        term: walk.term(),
        edge: if walk.flip(0.8) { Edge::Http } else { Edge::Nats },
    }),
    |asked, answer, known| {
        let jobs = answer.iter().map(|it| (asked.tenant.clone(), it.job.id.clone(), it.lease.fence));
        known.jobs.extend(jobs);
    }
);

sampled!(ExtendJobLease, 2, |walk| {
    let (tenant, job, fence) = walk.job()?;
    Some(ExtendJobLease { tenant, job, fence, term: walk.flip(0.5).then(|| walk.term()) })
});

sampled!(RecordProgress, 2, |walk| {
    let (tenant, job, fence) = walk.job()?;
    let message = walk.flip(0.5).then(|| "half \"done\"".to_owned());
    let progress = Progress { percent: walk.random.random_range(0..101), message };
    Some(RecordProgress { tenant, job, fence, progress })
});

sampled!(RecordResult, 4, |walk| {
    let (tenant, job, fence) = walk.job()?;
    Some(RecordResult { tenant, job, fence, edge: walk.edge(), outcome: walk.outcome() })
});

sampled!(CancelJob, 1, |walk| {
    let (tenant, job, _) = walk.job()?;
    Some(CancelJob { tenant, job, by: walk.person() })
});

sampled!(ExpireLeases, 2, |walk| Some(ExpireLeases { tenant: walk.tenant(), limit: walk.limit() }));

sampled!(AbandonWorker, 2, |walk| {
    Some(AbandonWorker { tenant: walk.tenant(), worker: walk.worker(), limit: walk.limit() })
});

sampled!(CountJobsBefore, 2, |walk| walk.job().map(|(tenant, job, _)| CountJobsBefore { tenant, job }));

sampled!(
    ReadJob,
    2,
    |walk| walk.job().map(|(tenant, job, _)| ReadJob { tenant, job }),
    |asked, answer, known| learn_fences(&asked.tenant, answer.as_slice(), known)
);

sampled!(
    ListJobs,
    2,
    |walk| {
        let tenant = walk.tenant();
        let states =
            [JobState::Held, JobState::Queued, JobState::Running, JobState::Succeeded, JobState::Lost];
        let state = walk.flip(0.5).then(|| walk.one_of(&states));
        let page = walk.page(&format!("jobs of {tenant}"));
        Some(ListJobs { tenant, state, page })
    },
    |asked, answer, known| {
        known.learn_page(format!("jobs of {}", asked.tenant), answer);
        learn_fences(&asked.tenant, &answer.items, known);
    }
);

fn learn_fences(tenant: &TenantId, jobs: &[JobView], known: &mut Known) {
    let leased = jobs.iter().filter_map(|view| Some((view, view.lease.as_ref()?.fence)));
    let leased: Vec<(&JobView, Fence)> = leased.collect();
    known
        .jobs
        .extend(leased.into_iter().map(|(view, fence)| (tenant.clone(), view.job.new.id.clone(), fence)));
}

impl Walk {
    pub(super) fn term(&mut self) -> LeaseTerm {
        let term = self.millis(300..600);
        if self.flip(0.5) { LeaseTerm::For(term) } else { LeaseTerm::UntilDeadline { otherwise: term } }
    }

    pub(super) fn edge(&mut self) -> Option<Edge> {
        match self.random.random_range(0..6) {
            0 => None,
            1 => Some(Edge::Nats),
            _ => Some(Edge::Http),
        }
    }

    pub(super) fn outcome(&mut self) -> JobOutcome {
        let outcome = match self.random.random_range(0..4) {
            0 => JobOutcome::failed("no".to_owned(), self.flip(0.5)),
            1 => JobOutcome::completed(json!({"n": 1})),
            _ => JobOutcome::completed(json!([1, 2.5, {"deep": []}])),
        };
        let usage = self.job_usage();
        outcome.with_usage(usage)
    }

    /// What a job says besides its work; most say little.
    pub(super) fn meta(&mut self) -> JobMeta {
        let mut meta = JobMeta::default();
        if self.flip(0.5) {
            meta.requires = self.tags().into_iter().map(name).collect();
        }
        if self.flip(0.5) {
            meta.priority = self.one_of(&[Priority::Batch, Priority::Interactive, Priority::Critical]);
        }
        if self.flip(0.2) {
            meta.capability = Some(name("shell"));
            meta.risk_tags = [name("writes"), name("network")].into();
        }
        meta
    }
}
