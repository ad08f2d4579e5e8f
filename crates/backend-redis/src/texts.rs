//! Large documents on their way to Redis: each goes ahead of the call that needs it, in pieces.
//!
//! Redis does one thing at a time. To make a text of Lua of a megabyte takes it a millisecond, and to write one to its disk
//! several: everyone waits meanwhile. No piece takes it that long, and no script touches a large document.

use std::time::Duration;

use interlock_backend::Effect;
use interlock_model::time::millis;
use redis::{Cmd, Value};
use serde::Serialize;
use tokio::time::timeout;

use crate::client::{ScriptClient, new_request};
use crate::connect::SendError;
use crate::script::{Arguments, Call, Home};

/// A larger document goes ahead.
const LARGE_BYTES: usize = 32 << 10;

/// What Redis gets at once.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces of this process that are on their way at once.
pub(crate) const PIECES_AT_ONCE: usize = 2;

/// How long a document stays that no script has taken.
const KEPT_FOR: Duration = Duration::from_mins(1);

/// The longest that the pieces of one document may take.
const SENT_WITHIN: Duration = Duration::from_secs(30);

/// A document as a script gets it: its text, or the id under which it was sent ahead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Document {
    Text(String),
    Large { sent: String },
}

/// A document that goes ahead of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LargeText {
    id: String,
    text: String,
}

/// The large ones among the documents of a call.
#[derive(Debug, Default)]
pub(crate) struct LargeTexts(Vec<LargeText>);

impl LargeTexts {
    /// The document as the script gets it.
    pub(crate) fn document(&mut self, text: String) -> Document {
        if text.len() > LARGE_BYTES { self.large(text) } else { Document::Text(text) }
    }

    pub(crate) fn large(&mut self, text: String) -> Document {
        let id = new_request();
        self.0.push(LargeText { id: id.clone(), text });
        Document::Large { sent: id }
    }

    pub(crate) fn into_vec(self) -> Vec<LargeText> {
        self.0
    }
}

pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > LARGE_BYTES
}

/// A document that is in Redis: its key and its bytes.
pub(crate) type Sent = (String, usize);

/// A document that an answer names by its key, and what stands around it.
pub(crate) struct Elsewhere {
    pub(crate) name: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Elsewhere {
    pub(crate) fn read(value: Value) -> Option<Self> {
        if let Value::Array(_) = value {
            let (name, before, after) = redis::from_redis_value(value).ok()?;
            return Some(Self { name, before, after });
        }
        let name = redis::from_redis_value(value).ok()?;
        Some(Self { name, before: Vec::new(), after: Vec::new() })
    }

    pub(crate) fn around(&self, text: Vec<u8>) -> Vec<u8> {
        if self.before.is_empty() { text } else { [&self.before[..], &text, &self.after].concat() }
    }
}

impl ScriptClient {
    /// Sends these ahead of a call about `home`. A failure leaves nothing behind that does not go by itself.
    pub(crate) async fn send_ahead(&self, home: &Home, texts: &[LargeText]) -> Result<Vec<Sent>, SendError> {
        let mut sent = Vec::with_capacity(texts.len());
        for LargeText { id, text } in texts {
            let name = format!("{}wf:sent:{}:{id}", self.connection().key_prefix(), self.tag(home));
            let sending = timeout(SENT_WITHIN, self.send_in_pieces(home, &name, id, text.as_bytes()));
            sending.await.unwrap_or_else(|_| Err(SendError::too_slow())).map_err(not_done)?;
            sent.push((name, text.len()));
        }
        Ok(sent)
    }

    /// From its end to its beginning: a script sees by the first byte whether it has all of it, even after a failover.
    async fn send_in_pieces(&self, home: &Home, name: &str, id: &str, text: &[u8]) -> Result<(), SendError> {
        if text.len() <= PIECE_BYTES {
            let set = redis::cmd("SET").arg(name).arg(text).arg("PX").arg(millis(KEPT_FOR)).take();
            return self.send_piece(&set).await;
        }
        let arguments =
            Arguments::default().with("id", id).with("bytes", text.len()).with("kept_for", millis(KEPT_FOR));
        let begin = Call { writes: true, ..Call::read("begin_text", "begin a large document", arguments) };
        let begin = Call { home: home.clone(), ..begin };
        self.send(&begin, &[], "", false).await?;
        let starts: Vec<usize> = (0..text.len()).step_by(PIECE_BYTES).collect();
        for start in starts.into_iter().rev() {
            let piece = &text[start..text.len().min(start + PIECE_BYTES)];
            self.send_piece(&redis::cmd("SETRANGE").arg(name).arg(start).arg(piece).take()).await?;
        }
        Ok(())
    }

    /// Best effort: what stays goes by itself after a while.
    pub(crate) async fn drop_sent(&self, sent: &[Sent]) {
        if !sent.is_empty() {
            let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
            let _ = self.connection().send(&redis::cmd("UNLINK").arg(names).take(), false).await;
        }
    }

    async fn send_piece(&self, command: &Cmd) -> Result<(), SendError> {
        let _turn = self.pieces().acquire().await.expect("it is never closed");
        // What counts is the call that takes the document: it waits for replicas, if the durability asks for that.
        self.connection().send(command, false).await.map(drop)
    }
}

/// Nothing that counts has happened before the call.
fn not_done(error: SendError) -> SendError {
    match error.effect {
        Effect::StorageFull => error,
        Effect::NotDone | Effect::Unknown => SendError { effect: Effect::NotDone, ..error },
    }
}
