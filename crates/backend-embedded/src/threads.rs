//! How threads start, and how others learn that they have ended.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::OpenError;

const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(OpenError::Thread)
}

/// Held by a thread for as long as it runs.
pub(crate) type Running = Sender<Infallible>;

/// Knows when the holder of its [`Running`] has ended. Dropping this waits for that, but not for long: a caller that drops a
/// store expects its folder to be free, which takes some milliseconds, and may be on an async thread. After that the
/// threads end on their own.
#[derive(Debug, Clone)]
pub(crate) struct Ended(Arc<Mutex<Receiver<Infallible>>>);

impl Ended {
    pub(crate) fn channel() -> (Running, Self) {
        let (running, ended) = channel();
        (running, Self(Arc::new(Mutex::new(ended))))
    }

    /// Blocks until it has.
    pub(crate) fn wait(&self) {
        if let Ok(ended) = self.0.lock() {
            let _ = ended.recv();
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // If the lock is taken, another waits already.
        if let Ok(ended) = self.0.try_lock() {
            let _ = ended.recv_timeout(PATIENCE);
        }
    }
}
