//! What happens when something goes wrong: workers that come and go, jobs that are given up.

use std::time::Duration;

use interlock_model::dead_letter::{DeadLetter, LetterCode};
use interlock_model::{Clock, JobId, RunId, WorkerId};
use rand::RngExt;

use super::Walk;
use crate::PageRequest;
use crate::conformance::scene::{acme, letter, name};
use crate::jobs::LeaseTerm;

const WORKERS: [&str; 3] = ["worker-1", "worker-2", "worker-3@host:1"];

impl Walk {
    pub(super) fn worker(&mut self) -> WorkerId {
        name(WORKERS[self.random.random_range(0..WORKERS.len())])
    }

    pub(super) fn term(&mut self) -> LeaseTerm {
        let term = Duration::from_millis(self.random.random_range(300..600));
        if self.random.random_bool(0.5) {
            LeaseTerm::For(term)
        } else {
            LeaseTerm::UntilDeadline { otherwise: term }
        }
    }

    pub(super) fn letter(&mut self, job: &JobId) -> DeadLetter {
        let topic = letter(job).topic.filter(|_| self.random.random_bool(0.5));
        let code =
            if self.random.random_bool(0.5) { LetterCode::WorkerLost } else { LetterCode::ResultUnhandled };
        let buried_at = self.clock.now();
        DeadLetter { topic, code, attempts: self.random.random_range(0..11), buried_at, ..letter(job) }
    }

    /// Mostly more than there will be, sometimes fewer than there are.
    pub(super) fn letters_max(&mut self) -> u32 {
        if self.random.random_bool(0.7) { 1_000 } else { self.random.random_range(1..6) }
    }

    /// Sometimes one of the run's jobs is given up with the turn.
    pub(super) fn letters_of(&mut self, run: RunId) -> Vec<DeadLetter> {
        let job = self.jobs.iter().rev().map(|(_, job, _)| job).find(|job| job.run == run).cloned();
        let given_up = job.filter(|_| self.random.random_bool(0.1));
        given_up.iter().map(|job| self.letter(job)).collect()
    }

    pub(super) async fn give_up(&mut self) {
        let Some((tenant, job, _)) = Self::pick(&mut self.random, &self.jobs) else { return };
        match self.random.random_range(0..7) {
            0 | 1 => {
                let (letter, letters_max) = (self.letter(&job), self.letters_max());
                let _ = same!(self, bury(&tenant, &letter, letters_max));
            }
            2 => drop(same!(self, dead_letter(&tenant, &job))),
            3 => drop(same!(self, delete_dead_letter(&tenant, &job))),
            4 => drop(same!(self, retry_dead_letter(&tenant, &job, "an \"operator\""))),
            5 => drop(same!(self, count_dead_letters(&tenant))),
            _ => {
                let page = PageRequest { limit: self.random.random_range(1..4), after: None };
                let _ = same!(self, dead_letters(&tenant, &page));
            }
        }
    }

    pub(super) async fn look_at_what_was_given_up(&mut self) {
        let _ = same!(self, registry());
        for tenant in [acme(), super::globex()] {
            let _ = same!(self, count_dead_letters(&tenant));
            let mut page = PageRequest { limit: 2, after: None };
            while let Ok(found) = same!(self, dead_letters(&tenant, &page)) {
                if found.next.is_none() {
                    break;
                }
                page.after = found.next;
            }
        }
        for (tenant, job, _) in self.jobs.clone() {
            let _ = same!(self, dead_letter(&tenant, &job));
        }
    }
}
