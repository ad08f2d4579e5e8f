//! The timeout of a request's header. Hyper's own also runs while a connection is idle, so it cannot tell a client that
//! keeps a connection from one that sends its header slowly.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Whether a request is being answered: odd while one is, and raised at each begin and end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<AtomicU64>);

impl Turns {
    pub(crate) fn change(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Pace {
    turns: Turns,
    /// The turn that the fields below belong to.
    turn: u64,
    timeout: Duration,
    /// When the first byte of the header arrived.
    since: Option<Instant>,
    /// Runs until the rest of it must have arrived.
    late: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(crate) fn new(turns: Turns, timeout: Duration) -> Self {
        Self { turn: turns.now(), turns, timeout, since: None, late: None }
    }

    /// The result of a read, or a timeout if it is pending and the header is late.
    pub(crate) fn bounded(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let turn = self.turns.now();
        if turn != self.turn {
            (self.turn, self.since, self.late) = (turn, None, None);
        }
        let is_answering = turn % 2 == 1;
        if is_answering {
            return read;
        }
        match (read, self.since) {
            (Poll::Ready(read), since) => {
                self.since = since.or_else(|| Some(Instant::now()));
                Poll::Ready(read)
            }
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Pending, Some(since)) => {
                let deadline = since + self.timeout;
                let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
                let late = late.as_mut().poll(context);
                late.map(|()| {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "the header did not arrive in time"))
                })
            }
        }
    }
}
