//! The stages: admission, engine, scheduler, results and reconcilers
