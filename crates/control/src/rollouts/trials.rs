//! Rollouts: people start and end them, every process counts, and the first with enough figures judges.

use std::time::Duration;

use interlock_backend::StoreError;
use interlock_backend::verbs::{DeleteFigures, ReadFigures, SaveFigures};
use interlock_model::contention::{
    ArmSummaries, ArmSummary, Book, BookError, Guards, Judgement, Measured, NewRollout, Rollout,
    RolloutEventKind, RunStrategy, Scope, Share, Trial,
};
use interlock_model::retry::RetryPolicy;
use interlock_model::{RolloutId, Timestamp};
use tracing::{info, warn};

use super::{Rollouts, TuningError};

/// Who ends a rollout by its guards.
const ITSELF: &str = "interlock";

/// A request for a rollout.
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
    /// What its figures say now; of an ended one, what they said at its end.
    pub verdict: String,
    /// What to know before reading the figures.
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
        info!(rollout = %rollout.id, candidate = %rollout.candidate.policy, by, "rollout started");
        self.forget(&ended).await;
        Ok(self.detail(rollout, &Measured::default()))
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
                Judgement::Continue(why) | Judgement::Promote(why) | Judgement::RollBack(why) => why,
            },
        };
        let is_inbox = self.process.settings.run_strategy == RunStrategy::Inbox;
        let ArmSummaries { control, candidate } =
            rollout.summaries.clone().unwrap_or_else(|| trial.summaries());
        RolloutDetail { control, candidate, note: is_inbox.then_some(NOTHING_TO_MEASURE), verdict, rollout }
    }

    /// Ends a rollout: promoted, its candidate is in force; otherwise its control stays.
    pub async fn end_rollout(
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
        info!(rollout = %id, state = ?rollout.state, by, why, "rollout ended");
        Ok(self.detail(rollout, &measured))
    }

    /// What all processes together have counted.
    async fn measured(&self, id: &RolloutId) -> Result<Measured, StoreError> {
        let mut measured = Measured::default();
        for (instance, text) in self.process.call(ReadFigures { rollout: id.clone() }).await? {
            match serde_json::from_str(&text) {
                Ok(counted) => measured.merge(&counted),
                // Of another release. What the others have counted is still true.
                Err(error) => warn!(%instance, %error, "figures of a process are unreadable"),
            }
        }
        Ok(measured)
    }

    /// Saves what this process has counted of the running rollout, and judges it.
    pub(super) async fn tend_rollout(&self) {
        let Some(rollout) = self.contention.in_force().rollout.clone() else { return };
        self.save_counted().await;
        if let Err(error) = self.judge_rollout(&rollout, self.process.now()).await {
            warn!(%error, rollout = %rollout.id, "rollout not judged; retrying");
        }
    }

    /// If it fails, more is saved the next time: the figures are counted from the beginning.
    pub(super) async fn save_counted(&self) {
        let Some((id, measured)) = self.contention.tally.unsaved() else { return };
        let text = serde_json::to_string(&measured).expect("figures are plain data with text keys");
        let instance = self.process.instance.clone();
        match self.process.call(SaveFigures { rollout: id.clone(), instance, figures: text }).await {
            Ok(()) => self.contention.tally.saved(&id, &measured),
            Err(error) => warn!(%error, rollout = %id, "figures not saved; retrying"),
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
            // Another process or a person has ended it in the same moment.
            Err(TuningError::Book(BookError::Conflict(_) | BookError::UnknownRollout(_))) => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Figures of old rollouts go when a new one begins: until then a slow process may still have saved some.
    async fn forget(&self, ended: &[RolloutId]) {
        for id in ended {
            if let Err(error) = self.process.call(DeleteFigures { rollout: id.clone() }).await {
                warn!(%error, rollout = %id, "figures of an old rollout not deleted; the next rollout retries");
            }
        }
    }
}

fn ended(book: &Book) -> Vec<RolloutId> {
    let ended = book.rollouts_newest_first().filter(|rollout| !rollout.is_running());
    ended.map(|rollout| rollout.id.clone()).collect()
}
