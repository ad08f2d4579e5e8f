//! A command with all its children: none of them may continue once their lock or job is lost.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The process group that a child leads. Dropping it kills every process in it.
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// Of a child that was started as the leader of its own group.
    pub(super) fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    /// The leader has ended, and its process id may be reused.
    pub(super) fn disarm(&mut self) {
        self.leader = None;
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // An error means that the group has ended already.
            let _ended = kill_process_group(leader, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
