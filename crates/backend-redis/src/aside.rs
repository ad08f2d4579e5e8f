//! What takes long is read and written beside the async threads: one tenant's large documents must not delay the others.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// What is smaller takes less time than to hand the other tasks of a thread over.
const SMALL_BYTES: usize = 64 << 10;

/// Works through this number of bytes. Other tasks of the thread continue on another one meanwhile, if there are others.
pub(crate) fn unless_small<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads =
        || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if bytes > SMALL_BYTES && has_threads() { block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_thread_does_all_the_work_itself() {
        assert_eq!(unless_small(usize::MAX, || 7), 7);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_continue_while_much_is_worked_through() {
        let (say, heard) = std::sync::mpsc::channel();
        let limit = Duration::from_secs(20);
        let work = tokio::spawn(async move { unless_small(usize::MAX, || heard.recv_timeout(limit)) });
        // Only the thread that took the tasks of the first one over can run this.
        tokio::spawn(async move { say.send("go on") }).await.unwrap().unwrap();
        assert_eq!(work.await.unwrap(), Ok("go on"));
    }
}
