//! The rules: one holder at a time, fences that only grow, and a place that refuses a fence smaller than the last.

use porcupine_rs::Model;

/// What was done to the lock, or to what it guards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Granted {
        token: String,
        fence: u64,
    },
    /// Refused because somebody else held it.
    Held,
    Renewed {
        token: String,
    },
    /// Renewal or release refused: the hold had ended.
    Stale {
        token: String,
    },
    /// Released, or run out; of the latter only the store can tell when.
    Ended {
        token: String,
    },
    /// The guarded place took a write.
    Written {
        fence: u64,
    },
    WriteRefused {
        fence: u64,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    holder: Option<String>,
    last_fence: u64,
    written_fence: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct FencedLock;

impl Model for FencedLock {
    type State = State;
    type Op = Act;
    type Metadata = ();

    fn init() -> State {
        State::default()
    }

    fn step(state: &State, act: &Act) -> (bool, State) {
        let is_holder = |token: &String| state.holder.as_ref() == Some(token);
        match act {
            Act::Granted { token, fence } => {
                let after = State { holder: Some(token.clone()), last_fence: *fence, ..state.clone() };
                (state.holder.is_none() && *fence > state.last_fence, after)
            }
            Act::Held => (state.holder.is_some(), state.clone()),
            Act::Renewed { token } => (is_holder(token), state.clone()),
            Act::Stale { token } => (!is_holder(token), state.clone()),
            Act::Ended { token } => (is_holder(token), State { holder: None, ..state.clone() }),
            Act::Written { fence } => {
                (*fence >= state.written_fence, State { written_fence: *fence, ..state.clone() })
            }
            Act::WriteRefused { fence } => (*fence < state.written_fence, state.clone()),
        }
    }
}
