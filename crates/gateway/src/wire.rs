//! The socket as hyper sees it, with timeouts for clients that send their header slowly or do not read their answer. What
//! hyper rejects by itself, before any handler, gets the same problem document as every other refusal.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::Sleep;

use crate::error::Refusal;
use crate::pace::Pace;

pub(crate) struct Wire<S> {
    stream: S,
    pace: Pace,
    write_timeout: Duration,
    /// Runs while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
    /// What is written in place of hyper's own answer, and how much of it was.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S, pace: Pace, write_timeout: Duration) -> Self {
        Self { stream, pace, write_timeout, stalled: None, instead: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let timeout = self.write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: Write + Unpin> Wire<S> {
    /// Writes the problem in place of the first `given` bytes of hyper's answer, which then count as written.
    fn write_instead(&mut self, context: &mut Context<'_>, given: usize) -> Poll<io::Result<usize>> {
        while let Some((bytes, written)) = &mut self.instead {
            if *written == bytes.len() {
                self.instead = None;
                break;
            }
            let done = Pin::new(&mut self.stream).poll_write(context, &bytes[*written..]);
            match ready!(self.bounded(context, done)) {
                Ok(count) => {
                    if let Some((_, written)) = &mut self.instead {
                        *written += count;
                    }
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(given))
    }
}

impl<S: Read + Unpin> Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.pace.bounded(context, read)
    }
}

impl<S: Write + Unpin> Write for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        if wire.instead.is_none() {
            wire.instead = as_problem(buffer).map(|bytes| (bytes, 0));
        }
        if wire.instead.is_some() {
            return wire.write_instead(context, buffer.len());
        }
        let done = Pin::new(&mut wire.stream).poll_write(context, buffer);
        wire.bounded(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = &mut *self;
        match buffers {
            [only] => Pin::new(wire).poll_write(context, only),
            several => {
                let done = Pin::new(&mut wire.stream).poll_write_vectored(context, several);
                wire.bounded(context, done)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The problem that replaces a refusal of hyper's own. Those have no body, and all of ours have one, so that they cannot be
/// mistaken for each other.
fn as_problem(buffer: &[u8]) -> Option<Vec<u8>> {
    const BEGINNINGS: [(&[u8], &str); 3] = [
        (b"HTTP/1.1 400 ", "the request is not valid HTTP: its first line or a header cannot be read"),
        (b"HTTP/1.1 414 ", "the request's path is too long"),
        (b"HTTP/1.1 431 ", "the request's header is too large or has too many fields"),
    ];
    let (_, sentence) = BEGINNINGS.iter().find(|(beginning, _)| buffer.starts_with(beginning))?;
    let head = std::str::from_utf8(buffer).ok()?;
    if !head.ends_with("\r\n\r\n") || !head.contains("content-length: 0\r\n") || head.contains("content-type")
    {
        return None;
    }
    Some(Refusal::invalid(sentence).to_http())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;

    use super::*;
    use crate::pace::Turns;

    #[tokio::test]
    async fn a_client_that_does_not_read_times_out() {
        let (_client, server) = tokio::io::duplex(16);
        let pace = Pace::new(Turns::default(), Duration::from_millis(20));
        let mut wire = Wire::new(TokioIo::new(server), pace, Duration::from_millis(20));
        let mut write = async || poll_fn(|context| Pin::new(&mut wire).poll_write(context, &[7; 16])).await;
        assert_eq!(write().await.unwrap(), 16);
        assert_eq!(write().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn only_a_refusal_without_a_body_is_replaced() {
        assert!(as_problem(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").is_some());
        assert!(as_problem(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_none());
        let ours = b"HTTP/1.1 400 Bad Request\r\ncontent-type: a\r\ncontent-length: 0\r\n\r\n";
        assert!(as_problem(ours).is_none());
    }
}
