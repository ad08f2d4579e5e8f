//! Results that were tried as often as the policy allows become dead letters, and their jobs fail.

use interlock_backend::StoreError;
use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::job::JobOutcome;

use crate::edge::Shared;
use crate::holder::{self, Unheld};
use crate::verdict;

/// Buries the result and ends its job. An error says that nothing is certain yet: it must be tried again.
pub(crate) async fn bury(
    shared: &Shared,
    payload: &[u8],
    deliveries: i64,
    reason: &str,
) -> Result<(), Unheld> {
    let result = verdict::read(payload)?;
    let spoken = holder::find(shared, &result.job_id).await?;
    let letter = DeadLetter {
        job: spoken.id.clone(),
        topic: Some(spoken.view.job.new.topic.clone()),
        code: LetterCode::ResultUnhandled,
        reason: format!("the result of worker {} could not be handled", result.worker_id),
        attempts: u32::try_from(deliveries).unwrap_or(u32::MAX),
        last_error: Some(reason.to_owned()),
        buried_at: shared.process.now(),
        // It lies where the worker has put it.
        result: None,
    };
    shared.dead_letters.add(&spoken.tenant, &letter).await.map_err(|error| Unheld::from_store(&error))?;
    shared.tally.results_buried.up();
    let (tenant, job) = (&spoken.tenant, &spoken.id);
    tracing::warn!(%tenant, run = %job.run, %job, deliveries, reason, "a result became a dead letter");
    // If it ended meanwhile, the letter tells what came of its result.
    let Ok(fence) = spoken.held_by(&result.worker_id, result.dispatch.as_ref()) else { return Ok(()) };
    let error = format!("the result could not be handled in {deliveries} deliveries: {reason}");
    let failed = JobOutcome::Failed { error, retryable: true };
    match shared.results.report(&spoken.tenant, &spoken.id, fence, failed).await {
        Ok(_) | Err(StoreError::NotFound { .. } | StoreError::Fenced { .. } | StoreError::Conflict(_)) => {
            Ok(())
        }
        Err(error @ (StoreError::Unavailable { .. } | StoreError::Damaged { .. })) => {
            Err(Unheld::from_store(&error))
        }
    }
}
