//! The rules: one holder at a time, fences that only grow, and a resource that refuses a fence below the largest seen.

/// An action on the lock, or on the resource behind it, with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAction {
    Granted {
        token: String,
        fence: u64,
    },
    /// Refused: another client held the lock.
    Held,
    Renewed {
        token: String,
    },
    /// Renewal or release refused: the lease had ended.
    Stale {
        token: String,
    },
    /// Released or expired; only the store knows when a lease expired.
    Ended {
        token: String,
    },
    /// The resource accepted a write.
    Written {
        fence: u64,
    },
    WriteRefused {
        fence: u64,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockState {
    holder: Option<String>,
    last_fence: u64,
    written_fence: u64,
}

impl LockState {
    /// The state after the action, or `None` if the rules do not allow it here.
    pub(crate) fn after(&self, action: &LockAction) -> Option<Self> {
        let is_holder = |token: &String| self.holder.as_ref() == Some(token);
        let (is_allowed, after) = match action {
            LockAction::Granted { token, fence } => {
                let after = Self { holder: Some(token.clone()), last_fence: *fence, ..self.clone() };
                (self.holder.is_none() && *fence > self.last_fence, after)
            }
            LockAction::Held => (self.holder.is_some(), self.clone()),
            LockAction::Renewed { token } => (is_holder(token), self.clone()),
            LockAction::Stale { token } => (!is_holder(token), self.clone()),
            LockAction::Ended { token } => (is_holder(token), Self { holder: None, ..self.clone() }),
            LockAction::Written { fence } => {
                (*fence >= self.written_fence, Self { written_fence: *fence, ..self.clone() })
            }
            LockAction::WriteRefused { fence } => (*fence < self.written_fence, self.clone()),
        };
        is_allowed.then_some(after)
    }
}
