//! What a compiled step does, by its type.

use std::num::NonZeroU32;
use std::time::Duration;

use super::parallel::ParallelRule;
use super::rounds::LoopRule;
use super::storage::StorageRule;
use super::subworkflow::SubworkflowRule;
use super::switch::SwitchRule;
use super::wait_event::EventRule;
use crate::expression::{Expression, Template};
use crate::{StepId, Topic};

#[derive(Debug, Clone)]
pub enum StepKind {
    Worker { topic: Topic, input: Option<Template>, fan_out: Option<FanOutRule> },
    Approval { input: Option<Template> },
    Condition { test: Expression },
    Delay(Delay),
    Transform { input: Template },
    Notify { input: Template },
    Switch(SwitchRule),
    Parallel(ParallelRule),
    Loop(LoopRule),
    Storage(StorageRule),
    Subworkflow(SubworkflowRule),
    WaitEvent(EventRule),
}

impl StepKind {
    /// The topic of its jobs, if it has any.
    pub fn topic(&self) -> Option<&Topic> {
        if let Self::Worker { topic, .. } = self { Some(topic) } else { None }
    }

    /// How it runs once per item of a list, if it does.
    pub fn fan_out(&self) -> Option<&FanOutRule> {
        match self {
            Self::Worker { fan_out, .. } | Self::Subworkflow(SubworkflowRule { fan_out, .. }) => {
                fan_out.as_ref()
            }
            Self::Approval { .. }
            | Self::Condition { .. }
            | Self::Delay(_)
            | Self::Transform { .. }
            | Self::Notify { .. }
            | Self::Switch(_)
            | Self::Parallel(_)
            | Self::Loop(_)
            | Self::Storage(_)
            | Self::WaitEvent(_) => None,
        }
    }

    /// The steps that belong to it.
    pub fn owned(&self) -> &[StepId] {
        match self {
            Self::Parallel(rule) => &rule.branches,
            Self::Loop(rule) => std::slice::from_ref(&rule.body),
            Self::Worker { .. }
            | Self::Approval { .. }
            | Self::Condition { .. }
            | Self::Delay(_)
            | Self::Transform { .. }
            | Self::Notify { .. }
            | Self::Switch(_)
            | Self::Subworkflow(_)
            | Self::Storage(_)
            | Self::WaitEvent(_) => &[],
        }
    }
}

#[derive(Debug, Clone)]
pub struct FanOutRule {
    pub items: Expression,
    pub parallel_max: Option<NonZeroU32>,
}

#[derive(Debug, Clone)]
pub enum Delay {
    For(Duration),
    Until(Template),
}
