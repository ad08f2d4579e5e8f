//! The course of the drill: commands the participants and records what they observe.

use std::io;
use std::time::{Duration, Instant};

use interlock_api::client::{Client, Error};
use interlock_api::runs::RunView;
use interlock_model::run::RunStatus;
use interlock_model::time::millis;
use serde_json::json;

use super::DrillSettings;
use super::cleanup::DrillCleanup;
use super::ledger::DrillLedger;
use super::plan::{DrillActor, DrillOperation, DrillPlan};
use super::process::ParticipantProcess;
use super::protocol::{
    DrillOutcome, Observation, ParticipantCommand, ParticipantEvent, ParticipantRole, ParticipantSettings,
};

/// The only step of the workflow.
const STEP: &str = "work";

/// The timeout of the run, in case the cleanup fails.
const RUN_TIMEOUT: Duration = Duration::from_mins(5);

/// How often the pause may meet the holder during a write to the ledger.
const PAUSES_MAX: u32 = 20;

const POLL: Duration = Duration::from_millis(50);

/// Why the drill is incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrillError {
    #[error("{0}")]
    Api(#[from] Error),
    #[error("could not {action}: {source}")]
    Local { action: &'static str, source: io::Error },
    #[error("the {0} process exited early")]
    Exited(ParticipantRole),
    #[error("the {role}'s {operation} was not accepted: {detail}")]
    NotAcquired { role: ParticipantRole, operation: DrillOperation, detail: String },
    #[error("the contender's {0} was accepted while the holder had the lease")]
    AcquiredEarly(DrillOperation),
    #[error("the holder was writing to the ledger at every pause: run the drill again")]
    AlwaysWriting,
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
    plan: &'a DrillPlan,
    settings: &'a DrillSettings,
    client: &'a Client,
    cleanup: &'a mut DrillCleanup,
    ledger: DrillLedger,
    holder: Option<ParticipantProcess>,
    contender: Option<ParticipantProcess>,
    observations: Vec<(DrillActor, Observation)>,
    backend: Option<String>,
    paused_at: Option<Instant>,
    paused: Option<Duration>,
}

impl<'a> DrillRunner<'a> {
    pub(super) fn new(
        plan: &'a DrillPlan,
        settings: &'a DrillSettings,
        client: &'a Client,
        cleanup: &'a mut DrillCleanup,
    ) -> Self {
        Self {
            plan,
            settings,
            client,
            cleanup,
            ledger: DrillLedger::new(&settings.folder, plan.guarded),
            holder: None,
            contender: None,
            observations: Vec::new(),
            backend: None,
            paused_at: None,
            paused: None,
        }
    }

    pub(super) async fn run(&mut self, progress: &dyn Fn(&str)) -> Result<()> {
        progress("saving a workflow and starting a run");
        self.prepare().await?;
        progress("the holder acquires the lock and the job");
        self.holder = Some(self.start(ParticipantRole::Holder, ParticipantCommand::Acquire).await?);
        self.wait_for_rounds(ParticipantRole::Holder, 1).await?;
        progress("the contender requests them and must be refused");
        self.try_early().await?;
        self.pause().await?;
        progress("the holder is paused; the contender waits for its leases to expire");
        send(&mut self.contender, ParticipantCommand::Acquire).await?;
        self.wait_for_rounds(ParticipantRole::Contender, 1).await?;
        self.resume().await?;
        progress("the holder resumes and sends its late writes");
        self.wait_until_done(ParticipantRole::Holder).await?;
        progress("the contender finishes its work");
        send(&mut self.contender, ParticipantCommand::Finish).await?;
        self.wait_until_done(ParticipantRole::Contender).await?;
        self.check_results().await
    }

    /// Kills the participants, and returns the observations, the backend, and how long the holder was paused.
    pub(super) async fn finish(self) -> (Vec<(DrillActor, Observation)>, Option<String>, Option<Duration>) {
        for process in [self.holder, self.contender].into_iter().flatten() {
            process.kill().await;
        }
        (self.observations, self.backend, self.paused)
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
        // Recorded before the request, because its response may be lost.
        self.cleanup.workflow = Some(name.clone());
        self.client.create_workflow(&document).await?;
        self.cleanup.run = Some(self.client.start_run(name, &json!({}), Some(name)).await?.run_id);
        Ok(())
    }

    async fn start(&self, role: ParticipantRole, first: ParticipantCommand) -> Result<ParticipantProcess> {
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
        let mut process = process.map_err(local("start a participant"))?;
        process.send(first).await.map_err(local("write to a participant"))?;
        Ok(process)
    }

    /// The contender requests both leases, while the holder proves before and after that it has them.
    async fn try_early(&mut self) -> Result<()> {
        self.contender = Some(self.start(ParticipantRole::Contender, ParticipantCommand::Try).await?);
        let mut tries = 0;
        while tries < 2 {
            let (role, event) = self.next_event().await?;
            let is_try = matches!(event, ParticipantEvent::Observed { .. });
            tries += u32::from(role == ParticipantRole::Contender && is_try);
        }
        // The first round that ends now may have begun before the tries.
        self.wait_for_rounds(ParticipantRole::Holder, 2).await?;
        let is_early = |(actor, observation): &&(DrillActor, Observation)| {
            *actor == DrillActor::ContenderEarly && observation.outcome == DrillOutcome::Accepted
        };
        match self.observations.iter().find(is_early) {
            Some((_, observation)) => Err(DrillError::AcquiredEarly(observation.operation)),
            None => Ok(()),
        }
    }

    /// Pauses the holder outside of a ledger write: inside, its file lock would block the contender.
    async fn pause(&mut self) -> Result<()> {
        for _ in 0..PAUSES_MAX {
            self.paused_at = Some(Instant::now());
            let holder = self.holder.as_ref().ok_or(DrillError::Exited(ParticipantRole::Holder))?;
            holder.pause().await.map_err(local("pause the holder"))?;
            if self.ledger.is_free().map_err(local("check the ledger's lock"))? {
                return Ok(());
            }
            holder.resume().map_err(local("resume the holder"))?;
            self.paused_at = None;
            self.wait_for_rounds(ParticipantRole::Holder, 1).await?;
        }
        Err(DrillError::AlwaysWriting)
    }

    /// Sends the holder its last command during the pause, and resumes it once its leases must have expired.
    async fn resume(&mut self) -> Result<()> {
        send(&mut self.holder, ParticipantCommand::Finish).await?;
        if let Some(paused_at) = self.paused_at {
            // The contender may have acquired the leases earlier, because they began before the pause.
            tokio::time::sleep_until((paused_at + self.plan.ttl).into()).await;
        }
        let holder = self.holder.as_ref().ok_or(DrillError::Exited(ParticipantRole::Holder))?;
        holder.resume().map_err(local("resume the holder"))?;
        self.paused = self.paused_at.map(|at| at.elapsed());
        Ok(())
    }

    /// Waits until the participant has repeated all its writes `count` times.
    async fn wait_for_rounds(&mut self, role: ParticipantRole, count: u32) -> Result<()> {
        for _ in 0..count {
            while self.next_event().await? != (role, ParticipantEvent::Round) {}
        }
        Ok(())
    }

    /// Waits until the participant has sent its last writes, and ends it.
    async fn wait_until_done(&mut self, role: ParticipantRole) -> Result<()> {
        while self.next_event().await? != (role, ParticipantEvent::Done) {}
        let process = match role {
            ParticipantRole::Holder => self.holder.take(),
            ParticipantRole::Contender => self.contender.take(),
        };
        if let Some(process) = process {
            process.kill().await;
        }
        Ok(())
    }

    /// The next event of either participant. Records it if it is an observation.
    async fn next_event(&mut self) -> Result<(ParticipantRole, ParticipantEvent)> {
        let (role, event) = tokio::select! {
            event = next_event(&mut self.holder) => event?,
            event = next_event(&mut self.contender) => event?,
        };
        if let ParticipantEvent::Observed { command, observation, token } = event.clone() {
            if let (DrillOperation::LockAcquire, Some(token)) = (observation.operation, token) {
                let resource = self.plan.name.parse().expect("a valid resource");
                self.cleanup.locks.push((resource, token));
            }
            self.record(role, command, observation)?;
        }
        Ok((role, event))
    }

    fn record(
        &mut self,
        role: ParticipantRole,
        command: ParticipantCommand,
        observation: Observation,
    ) -> Result<()> {
        let Observation { operation, outcome, .. } = observation;
        let detail = observation.detail.clone();
        if let Some(actor) = self.actor(role, command) {
            self.observations.push((actor, observation));
        }
        let must_succeed = operation.is_acquisition() && command == ParticipantCommand::Acquire;
        if must_succeed && outcome != DrillOutcome::Accepted {
            return Err(DrillError::NotAcquired { role, operation, detail });
        }
        Ok(())
    }

    /// None for a write that was in progress when the pause began: it may have arrived before or after.
    fn actor(&self, role: ParticipantRole, command: ParticipantCommand) -> Option<DrillActor> {
        use ParticipantCommand::{Acquire, Finish, Try};
        match (role, command) {
            (ParticipantRole::Holder, Finish) => Some(DrillActor::HolderLate),
            (ParticipantRole::Holder, Try | Acquire) => {
                self.paused_at.is_none().then_some(DrillActor::HolderLive)
            }
            (ParticipantRole::Contender, Try) => Some(DrillActor::ContenderEarly),
            (ParticipantRole::Contender, Acquire | Finish) => Some(DrillActor::Contender),
        }
    }

    /// Checks that the contender's work is the result.
    async fn check_results(&mut self) -> Result<()> {
        if let Some(run) = self.cleanup.run {
            let mut view = self.client.run(&run.to_string()).await?;
            while !view.summary.status.is_final() {
                tokio::time::sleep(POLL).await;
                view = self.client.run(&run.to_string()).await?;
            }
            let (is_kept, detail) = run_output(&view);
            self.record_check(DrillOperation::RunOutput, is_kept, detail);
        }
        let entries = self.ledger.entries().map_err(local("read the ledger"))?;
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

async fn next_event(process: &mut Option<ParticipantProcess>) -> Result<(ParticipantRole, ParticipantEvent)> {
    let Some(process) = process else { return std::future::pending().await };
    let event = process.next_event().await.map_err(local("read from a participant"))?;
    event.map(|event| (process.role(), event)).ok_or(DrillError::Exited(process.role()))
}

async fn send(process: &mut Option<ParticipantProcess>, command: ParticipantCommand) -> Result<()> {
    match process {
        Some(process) => process.send(command).await.map_err(local("write to a participant")),
        None => Ok(()),
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
