//! Fuzzing of what HTTP brings: whole requests, headers and cursors.

mod cursors;
mod headers;
mod requests;
