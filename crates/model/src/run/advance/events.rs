//! Steps that wait for events, and events that wait for steps.
//!
//! An event goes to every step that waits for it when the run's turn takes it. If there is none it is kept, in the row of
//! the first step with its name, and the first step that then begins to wait for it takes it.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::scope::RunScope;
use super::{Illegal, Machine};
use crate::event::{AwaitedEvent, EventWaiter, SentEvent};
use crate::expression::{Member, Scope, Template};
use crate::history::{Event, EventKind};
use crate::step::{StepEvent, StepRun};
use crate::workflow::{EventRule, StepKind};
use crate::{EventKey, EventName, InvalidId, StepId, StepKey};

/// The run as one step sees it, with the event that it may take.
struct EventScope<'a> {
    run: RunScope<'a>,
    event: Value,
}

impl Scope for EventScope<'_> {
    fn root(&self, name: &str) -> Option<Cow<'_, Value>> {
        if name == "event" { Some(Cow::Borrowed(&self.event)) } else { self.run.root(name) }
    }

    fn member(&self, root: &str, member: &str) -> Member<'_> {
        if root == "event" { Member::AskRoot } else { self.run.member(root, member) }
    }
}

impl Machine<'_> {
    /// The step waits, unless an event was kept that it takes.
    pub(super) fn wait_for_event(&mut self, key: &StepKey, rule: &EventRule) -> Result<(), Illegal> {
        let event_key = match rule.key.as_ref().map(|template| self.event_key(key, template)).transpose() {
            Ok(event_key) => event_key,
            Err(problem) => return self.fail_expression(key, format!("event.key: {problem}")),
        };
        self.move_step(key, StepEvent::Begin)?;
        let timeout = self.definition(&key.step).and_then(|step| step.timeout);
        let deadline_at = timeout.map(|timeout| self.now + timeout);
        let awaits = AwaitedEvent { name: rule.name.clone(), key: event_key };
        self.record(self.event(EventKind::StepWaiting, key).saying(format!("waiting for {awaits}")));
        let waiter = waiter(key, &awaits);
        self.effects.waits.begun.extend(waiter);
        let step = self.step(key);
        step.deadline_at = deadline_at;
        step.awaits = Some(awaits);
        match self.take_kept(key, &rule.name) {
            Some(event) => self.receive(key, &event),
            None => Ok(()),
        }
    }

    fn event_key(&self, key: &StepKey, template: &Template) -> Result<EventKey, String> {
        let rendered = self.render(key, template).map_err(|error| error.to_string())?;
        let text = rendered.as_str().map(str::to_owned).or_else(|| Some(rendered.as_number()?.to_string()));
        let text = text.ok_or_else(|| format!("{rendered} is not a key: use a text or a number"))?;
        text.parse().map_err(|error: InvalidId| error.to_string())
    }

    /// An event has come for the run.
    pub(super) fn take_event(&mut self, event: &SentEvent) -> Result<(), Illegal> {
        let waits = |step: &StepRun| step.awaits.as_ref().is_some_and(|it| it.accepts(event));
        let waiting = self.run.steps.iter().filter(|(_, step)| waits(step)).map(|(key, _)| key.clone());
        let waiting: Vec<StepKey> = waiting.collect();
        let takers: Vec<StepKey> = waiting.into_iter().filter(|key| self.matches(key, event)).collect();
        let home = if takers.is_empty() { self.home(&event.name) } else { None };
        let data = json!({"name": event.name, "event_id": event.id, "key": event.key, "by": event.by,
            "kept": home.is_some()});
        self.record(Event::new(self.now, EventKind::EventReceived).with_data(data));
        match home {
            Some(home) => self.step(&StepKey::whole(&home)).kept_events.push(event.clone()),
            None => self.use_up(event),
        }
        for key in takers {
            // The event may have ended what the step belongs to.
            if self.run.steps.get(&key).is_some_and(|step| step.awaits.is_some()) {
                self.receive(&key, event)?;
            }
        }
        Ok(())
    }

    /// The first step that can take an event of this name, now or later: what is kept is in its row.
    fn home(&self, name: &EventName) -> Option<StepId> {
        let takes = |step: &&StepId| {
            let kind = self.definition(step).map(|step| &step.kind);
            matches!(kind, Some(StepKind::WaitEvent(rule)) if rule.name == *name)
        };
        self.workflow.order.iter().find(takes).cloned()
    }

    /// The first kept event that the step takes.
    fn take_kept(&mut self, key: &StepKey, name: &EventName) -> Option<SentEvent> {
        let home = StepKey::whole(&self.home(name)?);
        let kept = self.run.steps.get(&home).map(|row| row.kept_events.clone()).unwrap_or_default();
        let awaits = self.run.steps.get(key).and_then(|step| step.awaits.clone())?;
        let at = kept.iter().position(|event| awaits.accepts(event) && self.matches(key, event))?;
        let event = self.step(&home).kept_events.remove(at);
        self.use_up(&event);
        Some(event)
    }

    /// It counts no more toward what the run keeps.
    fn use_up(&mut self, event: &SentEvent) {
        self.run.head.used_events = self.run.head.used_events.plus(event.tally());
    }

    /// Whether the step takes the event. One for which the expression has no value does not end its wait.
    fn matches(&mut self, key: &StepKey, event: &SentEvent) -> bool {
        let kind = self.definition(&key.step).map(|step| &step.kind);
        let Some(StepKind::WaitEvent(rule)) = kind else { return false };
        let Some(condition) = &rule.condition else { return true };
        match condition.is_true(&EventScope { run: self.scope(key), event: event.shown() }) {
            Ok(is_true) => is_true,
            Err(error) => {
                let message = format!("event.match of event {}: {error}", event.id);
                self.record(self.event(EventKind::StepConditionFailed, key).saying(message));
                false
            }
        }
    }

    /// Ends the wait of a step with the data of the event.
    fn receive(&mut self, key: &StepKey, event: &SentEvent) -> Result<(), Illegal> {
        match self.keep("the output", &event.data) {
            Ok(()) => self.take_output(key, event.data.clone(), EventKind::StepEventReceived),
            Err(problem) => self.fail_as_too_large(key, problem),
        }
    }

    /// A step has ended: it waits for no event.
    pub(super) fn end_wait(&mut self, key: &StepKey) {
        let awaits = self.step(key).awaits.take();
        self.effects.waits.ended.extend(awaits.and_then(|awaits| waiter(key, &awaits)));
    }
}

fn waiter(step: &StepKey, awaits: &AwaitedEvent) -> Option<EventWaiter> {
    let AwaitedEvent { name, key } = awaits.clone();
    Some(EventWaiter { step: step.clone(), name, key: key? })
}
