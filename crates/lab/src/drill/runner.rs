//! The course of the drill: commands the participants and records what they observe.

use std::io;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error};
use interlock_api::runs::RunView;
use interlock_model::RunId;
use interlock_model::run::RunStatus;
use interlock_model::time::millis;
use serde_json::json;

use super::DrillSettings;
use super::ledger::DrillLedger;
use super::plan::{CHECKS, DrillActor, DrillCheck, DrillOperation, DrillPlan, ExpectedOutcome};
use super::process::ParticipantProcess;
use super::protocol::{DrillOutcome, Observation, ParticipantCommand, ParticipantRole, ParticipantSettings};

/// The only step of the workflow.
const STEP: &str = "work";

/// The timeout of the run, in case the cleanup fails.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

const POLL: Duration = Duration::from_millis(50);

/// Why the drill is incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrillError {
    #[error("{0}")]
    Api(#[from] Error),
    #[error("could not {action}: {source}")]
    Local { action: &'static str, source: io::Error },
    #[error("{actor}: {operation} was not accepted: {detail}")]
    NotAcquired { actor: DrillActor, operation: DrillOperation, detail: String },
    #[error("the contender's {0} was accepted while the holder had the lease")]
    AcquiredEarly(DrillOperation),
    #[error("no result within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("interrupted")]
    Interrupted,
}

fn local(action: &'static str) -> impl FnOnce(io::Error) -> DrillError {
    move |source| DrillError::Local { action, source }
}

type Result<T> = std::result::Result<T, DrillError>;

pub(super) struct DrillRunner<'a> {
    pub(super) plan: &'a DrillPlan,
    settings: &'a DrillSettings,
    pub(super) client: &'a Client,
    holder: Option<ParticipantProcess>,
    contender: Option<ParticipantProcess>,
    pub(super) observations: Vec<(DrillActor, Observation)>,
    pub(super) backend: Option<String>,
    pub(super) run: Option<RunId>,
    paused_at: Option<Instant>,
    /// How long the holder was paused.
    pub(super) paused: Option<Duration>,
}

impl<'a> DrillRunner<'a> {
    pub(super) fn new(plan: &'a DrillPlan, settings: &'a DrillSettings, client: &'a Client) -> Self {
        Self {
            plan,
            settings,
            client,
            holder: None,
            contender: None,
            observations: Vec::new(),
            backend: None,
            run: None,
            paused_at: None,
            paused: None,
        }
    }

    pub(super) async fn execute(&mut self, progress: &dyn Fn(&str)) -> Result<()> {
        progress("saving a workflow and starting a run");
        self.prepare().await?;
        for phase in CHECKS.chunk_by(|(actor, ..), (next, ..)| actor == next) {
            let actor = phase[0].0;
            match actor {
                DrillActor::HolderLive => progress("the holder acquires the lock and the job, and writes"),
                DrillActor::ContenderEarly => progress("the contender requests them and must be refused"),
                DrillActor::Contender if self.paused_at.is_none() => {
                    self.pause().await?;
                    progress("the holder is paused; the contender waits for its leases to expire");
                }
                DrillActor::HolderLate => progress("the holder resumes and sends its late writes"),
                DrillActor::Contender => progress("the contender finishes its work"),
                DrillActor::Afterwards => return self.check_results().await,
            }
            self.perform(actor, phase).await?;
        }
        Ok(())
    }

    pub(super) async fn kill_participants(&mut self) {
        for process in [self.holder.take(), self.contender.take()].into_iter().flatten() {
            process.kill().await;
        }
    }

    async fn prepare(&mut self) -> Result<()> {
        self.backend = Some(self.client.status().await?.backend.kind);
        let name = &self.plan.name;
        let document = json!({
            "id": name,
            "name": "interlock drill",
            "timeout_sec": (RUN_TIMEOUT + self.plan.ttl).as_secs(),
            "steps": {STEP: {"type": "worker", "topic": name}},
        });
        self.client.create_workflow(&document).await?;
        self.run = Some(self.client.start_run(name, &json!({}), Some(name)).await?.run_id);
        self.holder = Some(self.start(ParticipantRole::Holder).await?);
        self.contender = Some(self.start(ParticipantRole::Contender).await?);
        Ok(())
    }

    async fn start(&self, role: ParticipantRole) -> Result<ParticipantProcess> {
        let name = &self.plan.name;
        let connection = &self.settings.connection;
        let settings = ParticipantSettings {
            role,
            gateway: connection.gateway.clone(),
            api_key: connection.api_key.clone(),
            tenant: connection.tenant.clone(),
            worker: format!("{name}-{role}").parse().expect("a valid worker id"),
            topic: name.parse().expect("a valid topic"),
            resource: name.parse().expect("a valid resource"),
            ttl_ms: millis(self.plan.ttl),
            folder: self.settings.folder.clone(),
            guarded: self.plan.guarded,
        };
        let process = ParticipantProcess::start(self.settings, &settings).await;
        process.map_err(local("start a participant"))
    }

    /// Has the participant perform the operations of a phase, and records what it observes.
    async fn perform(&mut self, actor: DrillActor, phase: &[DrillCheck]) -> Result<()> {
        for &(_, operation, _) in phase {
            let sent = self.participant(actor).send(ParticipantCommand { actor, operation }).await;
            sent.map_err(local("write to a participant"))?;
        }
        if actor == DrillActor::HolderLate {
            // A paused process finds the commands when it resumes, and continues as if nothing had happened.
            self.resume().await?;
        }
        for &(_, operation, expected) in phase {
            let answer = self.participant(actor).answer().await;
            let observation = answer.map_err(local("read from a participant"))?;
            let (outcome, detail) = (observation.outcome, observation.detail.clone());
            self.observations.push((actor, observation));
            let must_succeed = operation.is_acquisition() && expected != ExpectedOutcome::NotGranted;
            if must_succeed && outcome != DrillOutcome::Accepted {
                return Err(DrillError::NotAcquired { actor, operation, detail });
            }
        }
        Ok(())
    }

    fn participant(&mut self, actor: DrillActor) -> &mut ParticipantProcess {
        let process = match actor {
            DrillActor::HolderLive | DrillActor::HolderLate => &mut self.holder,
            DrillActor::ContenderEarly | DrillActor::Contender | DrillActor::Afterwards => {
                &mut self.contender
            }
        };
        process.as_mut().expect("both participants were started")
    }

    /// Pauses the holder between two writes, unless the contender has proved already that leases are not exclusive.
    async fn pause(&mut self) -> Result<()> {
        let is_early = |(actor, observation): &&(DrillActor, Observation)| {
            *actor == DrillActor::ContenderEarly && observation.outcome == DrillOutcome::Accepted
        };
        if let Some((_, early)) = self.observations.iter().find(is_early) {
            return Err(DrillError::AcquiredEarly(early.operation));
        }
        self.paused_at = Some(Instant::now());
        self.participant(DrillActor::HolderLive).pause().await.map_err(local("pause the holder"))
    }

    /// Resumes the holder once its leases must have expired.
    async fn resume(&mut self) -> Result<()> {
        if let Some(paused_at) = self.paused_at {
            // The contender may have acquired the leases earlier, because they began before the pause.
            tokio::time::sleep_until((paused_at + self.plan.ttl).into()).await;
            self.paused = Some(paused_at.elapsed());
        }
        self.participant(DrillActor::HolderLate).resume().map_err(local("resume the holder"))
    }

    /// Checks that the contender's work is the result.
    async fn check_results(&mut self) -> Result<()> {
        if let Some(run) = self.run {
            let mut view = self.client.run(&run.to_string()).await?;
            while !view.summary.status.is_final() {
                tokio::time::sleep(POLL).await;
                view = self.client.run(&run.to_string()).await?;
            }
            let (is_kept, detail) = run_output(&view);
            self.record_check(DrillOperation::RunOutput, is_kept, detail);
        }
        let ledger = DrillLedger::new(&self.settings.folder, self.plan.guarded);
        let entries = ledger.entries().map_err(local("read the ledger"))?;
        let descent = entries.windows(2).find(|pair| pair[1].fence < pair[0].fence);
        let detail =
            descent.map_or("in order".to_owned(), |pair| format!("{} after {}", pair[1].by, pair[0].by));
        self.record_check(DrillOperation::LedgerOrder, descent.is_none(), detail);
        Ok(())
    }

    fn record_check(&mut self, operation: DrillOperation, is_kept: bool, detail: String) {
        let outcome = if is_kept { DrillOutcome::Kept } else { DrillOutcome::Overwritten };
        let observation = Observation { operation, fence: None, outcome, detail, lease_age_ms: 0 };
        self.observations.push((DrillActor::Afterwards, observation));
    }
}

fn run_output(run: &RunView) -> (bool, String) {
    let status = run.summary.status;
    let by = run.output.as_ref().and_then(|output| output[STEP]["by"].as_str());
    let is_kept = status == RunStatus::Succeeded && by == Some(&ParticipantRole::Contender.to_string());
    let detail = match by {
        Some(by) => format!("{}, by the {by}", status.name()),
        None => status.name().to_owned(),
    };
    (is_kept, detail)
}
