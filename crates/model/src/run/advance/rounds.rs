//! Loops: one round of the body after the other, each as an item of the body.

use serde_json::{Value, json};

use super::super::Run;
use super::{Illegal, Machine, PIECE_MAX, size};
use crate::expression::Expression;
use crate::history::EventKind;
use crate::step::{ErrorCode, FanOut, StepEvent, StepRun, StepStatus};
use crate::workflow::{LoopRule, StepKind};
use crate::{StepId, StepKey};

/// A round, or the moment before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round<'a> {
    body: &'a StepId,
    /// Rounds before it.
    pub(super) index: u32,
}

impl Round<'_> {
    /// The output of the round before it.
    pub(super) fn last<'r>(&self, run: &'r Run) -> Option<&'r Value> {
        run.steps.get(&StepKey::item(self.body, self.index.checked_sub(1)?))?.output.as_ref()
    }
}

impl<'a> Machine<'a> {
    pub(super) fn begin_loop(&mut self, key: &StepKey, rule: &LoopRule) -> Result<(), Illegal> {
        self.move_step(key, StepEvent::Begin)?;
        let total = match rule.count.as_ref().map(|count| self.rounds_wanted(key, count, rule.rounds_max)) {
            None => rule.rounds_max,
            Some(Ok(total)) => total,
            Some(Err(problem)) => return self.fail_expression(key, format!("count: {problem}")),
        };
        self.begin_timeout(key);
        self.step(&StepKey::whole(&rule.body)).fan_out = Some(FanOut { total, next: 0, open: 0, done: 0 });
        self.make_rounds(&key.step, rule)
    }

    fn rounds_wanted(&self, key: &StepKey, count: &Expression, rounds_max: u32) -> Result<u32, String> {
        let count = self.evaluate(key, count).map_err(|error| error.to_string())?;
        let wanted = count.as_u64().and_then(|count| u32::try_from(count).ok());
        let wanted = wanted.filter(|wanted| *wanted <= rounds_max);
        wanted
            .ok_or_else(|| format!("it is not a whole number from 0 to {rounds_max}, which the loop allows"))
    }

    /// Makes rounds until one waits for something, the loop ends, or the next turn must continue.
    pub(super) fn make_rounds(&mut self, id: &StepId, rule: &LoopRule) -> Result<(), Illegal> {
        let body = StepKey::whole(&rule.body);
        while self.status(id) == StepStatus::Running {
            let progress = self.run.steps.get(&body).and_then(|body| body.fan_out);
            let Some(progress) = progress.filter(|progress| progress.open == 0) else { return Ok(()) };
            let is_cut = self.items_written >= PIECE_MAX || self.is_full();
            if is_cut {
                self.continues = true;
                return Ok(());
            }
            match self.is_over(id, rule, progress) {
                Ok(true) => self.succeed_loop(id, rule)?,
                Ok(false) if progress.next >= progress.total => {
                    let message =
                        format!("the loop has made {} rounds and is not at its end", progress.total);
                    self.settle_failure(&StepKey::whole(id), ErrorCode::LoopExhausted, message)?;
                }
                Ok(false) => self.begin_round(rule, progress)?,
                Err(problem) => self.fail_expression(&StepKey::whole(id), problem)?,
            }
        }
        Ok(())
    }

    /// Whether the loop has come to its end.
    fn is_over(&self, id: &StepId, rule: &LoopRule, progress: FanOut) -> Result<bool, String> {
        let key = StepKey::whole(id);
        let holds = |field: &str, test: &Option<Expression>| {
            let held = test.as_ref().map(|test| self.holds(&key, test)).transpose();
            held.map_err(|error| format!("{field}: {error}"))
        };
        if progress.done > 0 && holds("until", &rule.until)? == Some(true) {
            return Ok(true);
        }
        if progress.done >= progress.total && !rule.is_exhausted_by_rounds() {
            return Ok(true);
        }
        Ok(holds("while", &rule.goes_on)? == Some(false))
    }

    fn begin_round(&mut self, rule: &LoopRule, progress: FanOut) -> Result<(), Illegal> {
        let Some(definition) = self.definition(&rule.body) else { return Ok(()) };
        let (body, round) = (StepKey::whole(&rule.body), StepKey::item(&rule.body, progress.next));
        if self.status(&rule.body) == StepStatus::Pending {
            self.move_step(&body, StepEvent::Begin)?;
        }
        self.step(&body).fan_out = Some(FanOut { next: progress.next + 1, open: 1, ..progress });
        self.items_written += 1;
        *self.step(&round) = StepRun::default();
        self.record(self.event(EventKind::StepLoopIteration, &round));
        self.begin(&round, definition)
    }

    /// Ends the loop and its body with the outputs of all rounds.
    fn succeed_loop(&mut self, id: &StepId, rule: &LoopRule) -> Result<(), Illegal> {
        let (key, body) = (StepKey::whole(id), StepKey::whole(&rule.body));
        let outputs = || self.items_of(&rule.body).map(|(_, round)| round.output.as_ref());
        let last = outputs().last().flatten().cloned().unwrap_or_default();
        let bytes = outputs().flatten().map(size::size).sum::<u64>() + 2 * size::size(&last);
        let rounds: Vec<Value> = outputs().map(|output| output.cloned().unwrap_or_default()).collect();
        if let Err(problem) = self.keep_bytes("the list of all outputs", bytes) {
            return self.fail_as_too_large(&key, problem);
        }
        if rounds.is_empty() {
            self.skip(&rule.body, "the loop has made no round")?;
        } else {
            self.succeed(&body, last.clone(), EventKind::StepCompleted)?;
        }
        let output = json!({"count": rounds.len(), "last": last, "rounds": rounds});
        self.succeed(&key, output, EventKind::StepLoopCompleted)
    }

    /// The body of a running loop has ended. If it failed, the loop fails in the same way.
    pub(super) fn round_failed(&mut self, owner: &StepId, body: &StepId) -> Result<(), Illegal> {
        let failed = self.run.steps.get(&StepKey::whole(body)).filter(|body| body.status.is_failure());
        let Some(error) = failed.and_then(|failed| failed.error.clone()) else { return Ok(()) };
        self.branches_ended += 1;
        self.settle_failure(&StepKey::whole(owner), error.code, error.message)
    }

    pub(super) fn is_body(&self, step: &StepId) -> bool {
        let owner = self.definition(step).and_then(|step| step.owner.as_ref());
        let owner = owner.and_then(|owner| self.definition(owner)).map(|owner| &owner.kind);
        matches!(owner, Some(StepKind::Loop(_)))
    }

    /// The round that this step is in: the body in its own, a loop between two of them.
    pub(super) fn round_of<'k>(&self, key: &'k StepKey) -> Option<Round<'k>>
    where
        'a: 'k,
    {
        match (&self.definition(&key.step)?.kind, key.item) {
            (StepKind::Loop(rule), _) => {
                let body = self.run.steps.get(&StepKey::whole(&rule.body));
                let index = body.and_then(|body| body.fan_out).map_or(0, |progress| progress.done);
                Some(Round { body: &rule.body, index })
            }
            (_, Some(index)) if self.is_body(&key.step) => Some(Round { body: &key.step, index }),
            (_, _) => None,
        }
    }
}
