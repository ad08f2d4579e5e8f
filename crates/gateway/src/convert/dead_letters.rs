//! Dead letters.

use interlock_api::dead_letters::DeadLetterView;
use interlock_model::dead_letter::DeadLetter;

pub(crate) fn view(letter: DeadLetter) -> DeadLetterView {
    let DeadLetter { job, topic, code, reason, attempts, last_error, buried_at } = letter;
    DeadLetterView {
        run_id: job.run,
        job_id: job,
        topic,
        reason,
        reason_code: code.name().to_owned(),
        attempts,
        last_error,
        created_at: buried_at.into(),
    }
}
