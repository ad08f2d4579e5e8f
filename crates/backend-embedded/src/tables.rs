//! The tables in their file: how they open, answer and close.

use std::path::Path;
use std::sync::{Arc, Mutex};

use interlock_backend::local::{Decide, Decided, Executor, LocalStore, View};
use interlock_backend::{Effect, StoreError};
use interlock_model::{Clock, Timestamp};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{closed, unavailable};
use crate::folder::Folder;
use crate::log::Log;
use crate::readers::{self, Reader};
use crate::row_cache::RowCache;
use crate::threads::{Ended, start};
use crate::write_request::Typed;
use crate::writer::{self, Writer};
use crate::{OpenError, connection, damage, log, schema, time_mark};

/// Threads that read.
const READERS: usize = 2;
/// The most requests that wait for the writer, and the most that wait for a reader. More wait for room.
const QUEUE_MAX: usize = 1_024;

/// A store in one file.
pub type EmbeddedStore = LocalStore<EmbeddedTables>;

/// Opens the store in `folder`, which it creates if it is missing. Blocks while it reads.
pub fn open(folder: &Path, clock: Arc<dyn Clock>) -> Result<EmbeddedStore, OpenError> {
    EmbeddedTables::open(folder, clock).map(LocalStore::new)
}

/// Ordered tables in one file. Dropping them closes the file after what is queued.
#[derive(Debug)]
pub struct EmbeddedTables {
    writer: mpsc::Sender<writer::Message>,
    readers: mpsc::Sender<readers::Message>,
    cache: Arc<RowCache>,
    clock: Arc<dyn Clock>,
    /// Last, because the threads end only after the queues above are dropped.
    ended: Ended,
}

impl EmbeddedTables {
    pub fn open(folder: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let folder = Folder::claim(folder)?;
        let file = folder.database();
        schema::check(&file)?;
        let refused = |action| schema::refused(&file, action);
        let mut connection = connection::writer(&file).map_err(refused("open the database"))?;
        if let Some(what) = damage::find(&connection).map_err(refused("look for damage"))? {
            return Err(OpenError::Damaged { file: file.clone(), what });
        }
        schema::migrate(&mut connection).map_err(refused("bring the tables to their latest format"))?;
        if let Some(mark) = time_mark::read(&connection).map_err(refused("read the latest time"))? {
            clock.catch_up_with(mark);
        }
        schema::end_former_processes(&connection, clock.now())
            .map_err(refused("end the run leases of former processes"))?;
        let cache = Arc::new(RowCache::load(&connection).map_err(refused("load rows into memory"))?);

        let (log, asked) = Log::new();
        let log = Arc::new(log);
        let moving = connection::log_mover(&file).map_err(refused("open the database to move its log"))?;
        let log_thread = start("interlock-log", move || log::move_when_asked(&moving, &asked))?;
        let (readers, queue) = mpsc::channel(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut reader_threads = Vec::new();
        for _ in 0..READERS {
            let connection = connection::reader(&file).map_err(refused("open the database to read"))?;
            let (clock, log, queue) = (Arc::clone(&clock), Arc::clone(&log), Arc::clone(&queue));
            let work = move || {
                Reader::new(&connection, &*clock, &log).serve(&queue);
            };
            reader_threads.push(start("interlock-reader", work)?);
        }
        let (writer, queue) = mpsc::channel(QUEUE_MAX);
        let (writing, ended) = Ended::channel();
        let work = {
            let (cache, clock) = (Arc::clone(&cache), Arc::clone(&clock));
            move || {
                Writer::new(&connection, &cache, &*clock).serve(queue, &log);
                drop(log);
                // A snapshot that is still read from would keep the log from being emptied.
                for reader in reader_threads {
                    drop(reader.join());
                }
                drop(log_thread.join());
                close(connection);
                drop(folder);
                drop(writing);
            }
        };
        start("interlock-writer", work)?;
        Ok(Self { writer, readers, cache, clock, ended })
    }

    /// Answers what is queued, refuses later requests, and returns when the file is closed and the folder is free.
    pub async fn close(&self) {
        let _ = self.writer.send(writer::Message::Close).await;
        let _ = self.readers.send(readers::Message::Close).await;
        let ended = self.ended.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || ended.wait()).await {
            tracing::warn!(%error, "could not wait for the store to close");
        }
    }
}

impl Executor for EmbeddedTables {
    async fn write<R: Send + 'static>(
        &self,
        action: &'static str,
        decide: impl FnOnce(&dyn View, Timestamp) -> Decided<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (request, answer) = Typed::channel(action, decide);
        self.writer.send(writer::Message::Decide(request)).await.map_err(|_| closed(action))?;
        answer.await.unwrap_or_else(|_| Err(unavailable(action, Effect::Unknown, &"the writer has ended")))
    }

    async fn read<R: Send + 'static>(
        &self,
        action: &'static str,
        look: impl FnOnce(&dyn View, Timestamp) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (reply, answer) = oneshot::channel();
        let look = move |reader: &Reader<'_>| {
            // A read has no effect: a caller that stopped waiting needs none.
            if !reply.is_closed() {
                let _ = reply.send(reader.look(action, look));
            }
        };
        self.readers.send(readers::Message::Look(Box::new(look))).await.map_err(|_| closed(action))?;
        answer.await.unwrap_or_else(|_| Err(closed(action)))
    }

    fn peek<V: Decide>(&self, verb: &V) -> Option<V::Answer> {
        let now = self.clock.now();
        self.cache.peek(|view| verb.decide(view, now))
    }
}

/// Empties the log into the file. If that fails nothing is lost: the next process reads the log.
fn close(connection: Connection) {
    let emptied = connection.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)");
    if let Err(error) = emptied.and_then(|()| connection.close().map_err(|(_, error)| error)) {
        tracing::warn!(%error, "database was not closed cleanly");
    }
}
