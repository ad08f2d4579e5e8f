//! A command with all its children: none of them may go on once what they work on is another's.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The process group that a child leads. Dropping it kills every process in it.
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// Of a child that was started to lead a group of its own.
    pub(super) fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    /// The leader has ended by itself and its number may be given to another.
    pub(super) fn disarm(&mut self) {
        self.leader = None;
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // If it is gone already, that is what was wanted.
            let _gone = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
