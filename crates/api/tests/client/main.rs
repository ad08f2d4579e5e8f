//! The client's loops against a scripted gateway.

#[cfg(test)]
mod lock_guard;
#[cfg(test)]
mod run_events;
#[cfg(test)]
mod scripted_gateway;
#[cfg(test)]
mod worker_loop;
