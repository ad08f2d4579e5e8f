//! Dead letters.

use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::{JobId, TenantId};
use rand::RngExt as _;

use super::super::scene::letter;
use super::{Walk, sampled};
use crate::verbs::{
    AddDeadLetter, CountDeadLetters, DeleteDeadLetter, ListDeadLetters, ReadDeadLetter, RetryDeadLetter,
};

sampled!(AddDeadLetter, 3, |walk| {
    let (tenant, job, _) = walk.job()?;
    let (dead_letter, dead_letters_max) = (walk.dead_letter(&job), walk.dead_letters_max());
    Some(AddDeadLetter { tenant, dead_letter, dead_letters_max })
});

sampled!(RetryDeadLetter, 2, |walk| {
    let (tenant, job) = walk.letter()?;
    Some(RetryDeadLetter { tenant, job, by: walk.person() })
});

sampled!(DeleteDeadLetter, 1, |walk| walk.letter().map(|(tenant, job)| DeleteDeadLetter { tenant, job }));

sampled!(ReadDeadLetter, 1, |walk| walk.letter().map(|(tenant, job)| ReadDeadLetter { tenant, job }));

sampled!(CountDeadLetters, 1, |walk| Some(CountDeadLetters { tenant: walk.tenant() }));

sampled!(
    ListDeadLetters,
    1,
    |walk| {
        let tenant = walk.tenant();
        let page = walk.page(&format!("dead letters of {tenant}"));
        Some(ListDeadLetters { tenant, page })
    },
    |asked, answer, known| known.learn_page(format!("dead letters of {}", asked.tenant), answer)
);

impl Walk {
    /// The id of a dead letter that there may be: a job's, or a quarantined run's.
    fn letter(&mut self) -> Option<(TenantId, JobId)> {
        if self.flip(0.5)
            && let Some(letter) = self.pick(|known| &known.letters)
        {
            return Some(letter);
        }
        self.job().map(|(tenant, job, _)| (tenant, job))
    }

    pub(super) fn dead_letter(&mut self, job: &JobId) -> DeadLetter {
        let whole = letter(job);
        DeadLetter {
            topic: whole.topic.filter(|_| self.flip(0.5)),
            code: self.one_of(&LetterCode::ALL),
            attempts: self.random.random_range(0..11),
            last_error: whole.last_error.filter(|_| self.flip(0.5)),
            buried_at: self.now(),
            result: whole.result.filter(|_| self.flip(0.5)),
            ..letter(job)
        }
    }

    /// Mostly more than there will be, sometimes fewer than there are.
    pub(super) fn dead_letters_max(&mut self) -> u32 {
        if self.flip(0.7) { 1_000 } else { self.random.random_range(1..6) }
    }
}
