//! Rollouts: begun and ended by people, counted by every process, and judged by whoever comes first.

use interlock_backend::verbs::{DeleteFigures, ReadFigures, SaveFigures};
use std::time::Duration;

use interlock_backend::StoreError;
use interlock_model::contention::{
    Arm, ArmSummary, Book, BookError, Guards, Judgement, Measured, NewRollout, Rollout, RolloutEventKind,
    RunStrategy, Scope, Share, Trial,
};
use interlock_model::retry::RetryPolicy;
use interlock_model::{RolloutId, Timestamp};
use tracing::{info, warn};

use super::{Rollouts, TuningError};

/// Who ends a rollout that nobody ends.
const ITSELF: &str = "interlock";

/// What somebody wants to try.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRollout {
    pub candidate: RetryPolicy,
    pub share: Share,
    pub duration: Duration,
    pub guards: Guards,
}

/// A rollout with its two arms, side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutDetail {
    pub rollout: Rollout,
    pub control: ArmSummary,
    pub candidate: ArmSummary,
    /// What would be said of it now; of an ended one, what was.
    pub verdict: String,
    /// What should be known before reading the figures.
    pub note: Option<&'static str>,
}

const NOTHING_TO_MEASURE: &str = "the run strategy is inbox: results never find their run busy, so that there are no \
                                  busy retries to measure";

impl Rollouts {
    pub async fn start_rollout(
        &self,
        start: StartRollout,
        by: &str,
        reason: Option<String>,
    ) -> Result<RolloutDetail, TuningError> {
        let StartRollout { candidate, share, duration, guards } = start;
        let signed = self.signed(by, reason);
        let configured = self.contention.configured.of(Scope::LockBusy);
        let new = NewRollout {
            id: self.process.identity.rollout_id(signed.at),
            candidate,
            configured,
            share,
            duration,
            guards,
        };
        let (rollout, ended) = self
            .change_book(|book| {
                let rollout = book.start(new.clone(), signed.clone())?;
                Ok((rollout, ended(book)))
            })
            .await?;
        info!(rollout = %rollout.id, candidate = %rollout.candidate.policy, by, "a rollout begins");
        self.forget(&ended).await;
        Ok(self.detail(rollout, &Measured::default()))
    }

    /// Ends a rollout on somebody's word.
    pub async fn promote_rollout(
        &self,
        id: &RolloutId,
        by: &str,
        reason: Option<String>,
    ) -> Result<RolloutDetail, TuningError> {
        self.end_rollout(id, RolloutEventKind::Promoted, by, reason).await
    }

    /// The same, and the control stays in force.
    pub async fn abort_rollout(
        &self,
        id: &RolloutId,
        by: &str,
        reason: Option<String>,
    ) -> Result<RolloutDetail, TuningError> {
        self.end_rollout(id, RolloutEventKind::Aborted, by, reason).await
    }

    /// The rollout with its figures.
    pub async fn rollout(&self, id: &RolloutId) -> Result<RolloutDetail, TuningError> {
        let rollout = self.book().await?.rollout(id)?.clone();
        Ok(self.with_figures(rollout).await?)
    }

    /// With what every process has counted of it; an ended one with what it was judged by.
    pub async fn with_figures(&self, rollout: Rollout) -> Result<RolloutDetail, StoreError> {
        let measured = match &rollout.measured {
            Some(measured) => measured.clone(),
            None => self.measured(&rollout.id).await?,
        };
        Ok(self.detail(rollout, &measured))
    }

    fn detail(&self, rollout: Rollout, measured: &Measured) -> RolloutDetail {
        let trial = Trial { rollout: &rollout, measured, now: self.process.now() };
        let said = rollout.history.last().filter(|_| !rollout.is_running());
        let verdict = match said {
            Some(event) => event.why.clone().unwrap_or_else(|| format!("ended by {}", event.by)),
            None => match trial.judge() {
                Judgement::Continue(word) | Judgement::Promote(word) | Judgement::RollBack(word) => word,
            },
        };
        let is_inbox = self.contention.run_strategy() == RunStrategy::Inbox;
        RolloutDetail {
            control: trial.summary(Arm::Control),
            candidate: trial.summary(Arm::Candidate),
            note: is_inbox.then_some(NOTHING_TO_MEASURE),
            verdict,
            rollout,
        }
    }

    async fn end_rollout(
        &self,
        id: &RolloutId,
        kind: RolloutEventKind,
        by: &str,
        reason: Option<String>,
    ) -> Result<RolloutDetail, TuningError> {
        self.save_counted().await;
        let measured = self.measured(id).await?;
        let signed = self.signed(by, reason);
        let rollout = self.change_book(|book| book.end(id, kind, measured.clone(), signed.clone())).await?;
        let why = signed.reason.as_deref().unwrap_or_default();
        info!(rollout = %id, state = ?rollout.state, by, why, "a rollout has ended");
        Ok(self.detail(rollout, &measured))
    }

    /// What all processes together have counted.
    async fn measured(&self, id: &RolloutId) -> Result<Measured, StoreError> {
        let mut measured = Measured::default();
        for (instance, text) in self.process.store.call(ReadFigures { rollout: id.clone() }).await? {
            match serde_json::from_str(&text) {
                Ok(counted) => measured.merge(&counted),
                // Of another release. What the others have counted is still true.
                Err(error) => warn!(%instance, %error, "what a process has counted cannot be read"),
            }
        }
        Ok(measured)
    }

    /// Saves what this process has counted of the running rollout, and judges it.
    pub(super) async fn tend_rollout(&self) {
        let Some(rollout) = self.contention.in_force().rollout.clone() else { return };
        self.save_counted().await;
        if let Err(error) = self.judge_rollout(&rollout, self.process.now()).await {
            warn!(%error, rollout = %rollout.id, "a rollout could not be judged; trying again");
        }
    }

    /// If it fails, more is saved the next time: the figures are counted from the beginning.
    pub(super) async fn save_counted(&self) {
        let Some((id, measured)) = self.contention.tally().unsaved() else { return };
        let text = serde_json::to_string(&measured).expect("figures are plain data with text keys");
        match self
            .process
            .store
            .call(SaveFigures {
                rollout: id.clone(),
                instance: self.process.instance.clone(),
                figures: text.clone(),
            })
            .await
        {
            Ok(()) => self.contention.tally().saved(&id, &measured),
            Err(error) => warn!(%error, rollout = %id, "what was counted could not be saved; trying again"),
        }
    }

    async fn judge_rollout(&self, rollout: &Rollout, now: Timestamp) -> Result<(), TuningError> {
        let measured = self.measured(&rollout.id).await?;
        let (kind, why) = match (Trial { rollout, measured: &measured, now }).judge() {
            Judgement::Continue(_) => return Ok(()),
            Judgement::Promote(why) => (RolloutEventKind::Promoted, why),
            Judgement::RollBack(why) => (RolloutEventKind::RolledBack, why),
        };
        match self.end_rollout(&rollout.id, kind, ITSELF, Some(why)).await {
            // Another process has judged it, or somebody has ended it, in the same moment.
            Err(TuningError::Book(BookError::Conflict(_) | BookError::UnknownRollout(_))) => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Figures of old rollouts go when a new one begins: until then a slow process may still have saved some.
    async fn forget(&self, ended: &[RolloutId]) {
        for id in ended {
            if let Err(error) = self.process.store.call(DeleteFigures { rollout: id.clone() }).await {
                warn!(%error, rollout = %id, "figures of an old rollout stay until the next one begins");
            }
        }
    }
}

fn ended(book: &Book) -> Vec<RolloutId> {
    let ended = book.rollouts_newest_first().filter(|rollout| !rollout.is_running());
    ended.map(|rollout| rollout.id.clone()).collect()
}
