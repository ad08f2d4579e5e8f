//! The dispatch policy: rules, and an external service where no rule decides, approve a job before a worker gets it.

mod breaker;
mod hold;
mod rules;
mod service;

pub use breaker::{Breaker, BreakerState, Permission};
pub use hold::{BudgetPlace, HeldJob, Hold, HoldReason};
pub use rules::{Action, Facts, InvalidRules, Mismatch, Rule, Rules, Throttle, TopicPattern};
pub use service::{Answer, AnsweredDecision, FailureMode, Question, ServiceTerms};
