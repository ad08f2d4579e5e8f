//! The client's loops against a gateway that answers by a script.

#[cfg(test)]
mod lock_guard;
#[cfg(test)]
mod run_events;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod worker_loop;
