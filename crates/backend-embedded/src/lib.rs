//! One node: one SQLite file, group commit, in-process wake-ups
