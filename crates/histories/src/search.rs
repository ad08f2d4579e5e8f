//! The search for an order of events that the rules allow, after Wing and Gong: each step takes an event that no other
//! event must precede, and steps back where the rules allow none. What was tried once is not tried again (Lowe).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::fenced_lock::LockState;
use crate::{HistoryEvent, HistoryVerdict};

pub(crate) struct Search<'a> {
    /// By the time of their call.
    events: Vec<&'a HistoryEvent>,
    is_placed: Vec<bool>,
    /// All events before this one are placed.
    first_open: usize,
    /// The placed events in order, each with the state before it.
    order: Vec<(usize, LockState)>,
    state: LockState,
    tried: HashSet<(usize, Vec<usize>, LockState)>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(history: &'a [HistoryEvent]) -> Self {
        let mut events: Vec<_> = history.iter().collect();
        events.sort_by_key(|event| event.called);
        Self {
            is_placed: vec![false; events.len()],
            events,
            first_open: 0,
            order: Vec::new(),
            state: LockState::default(),
            tried: HashSet::new(),
        }
    }

    pub(crate) fn run(mut self, limit: Duration) -> HistoryVerdict {
        let began = Instant::now();
        // Candidates before this one were tried after the current order.
        let mut from = 0;
        while self.first_open < self.events.len() {
            if began.elapsed() > limit {
                return HistoryVerdict::Undecided;
            }
            if let Some(candidate) = self.next_candidate(from) {
                from = if self.try_place(candidate) { self.first_open } else { candidate + 1 };
            } else if let Some((last, before)) = self.order.pop() {
                self.is_placed[last] = false;
                self.first_open = self.first_open.min(last);
                self.state = before;
                from = last + 1;
            } else {
                return HistoryVerdict::Impossible;
            }
        }
        HistoryVerdict::Linearizable
    }

    /// The first open event from `from` on that was called before every open event was answered.
    fn next_candidate(&self, from: usize) -> Option<usize> {
        let mut answered_first = i64::MAX;
        for at in (self.first_open..self.events.len()).filter(|at| !self.is_placed[*at]) {
            if self.events[at].called > answered_first {
                return None;
            }
            if at >= from {
                return Some(at);
            }
            answered_first = answered_first.min(self.events[at].answered);
        }
        None
    }

    /// Places the event next, if the rules allow it and the result is new.
    fn try_place(&mut self, at: usize) -> bool {
        let Some(after) = self.state.after(&self.events[at].action) else { return false };
        self.is_placed[at] = true;
        let first_open = (self.first_open..self.events.len()).find(|at| !self.is_placed[*at]);
        let first_open = first_open.unwrap_or(self.events.len());
        // Placed events that overlap the first open one were called before the last of the order was answered.
        let overlapping = (first_open..self.events.len())
            .take_while(|at| self.events[*at].called <= self.events[first_open].answered)
            .filter(|at| self.is_placed[*at]);
        if !self.tried.insert((first_open, overlapping.collect(), after.clone())) {
            self.is_placed[at] = false;
            return false;
        }
        self.order.push((at, std::mem::replace(&mut self.state, after)));
        self.first_open = first_open;
        true
    }
}
