//! What is asked before a job may go to a worker: rules first, then a service where no rule decides.

mod breaker;
mod hold;
mod rules;
mod service;

pub use breaker::{Breaker, BreakerState, Permission};
pub use hold::{HeldJob, Hold, HoldReason};
pub use rules::{Action, Facts, InvalidRules, Mismatch, Rule, Rules, Throttle, TopicPattern};
pub use service::{Answer, AnsweredDecision, FailureMode, Question, ServiceTerms};
