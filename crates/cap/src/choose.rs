//! Which worker gets the next job: the least loaded, by share of its capacity.

use interlock_backend::registry::RegisteredWorker;

#[derive(Debug, Clone)]
pub(crate) struct Load<'a> {
    pub(crate) worker: &'a RegisteredWorker,
    pub(crate) jobs: u32,
    pub(crate) capacity: u32,
    /// Decides between equals. It differs between replicas, so that two of them do not choose the same worker.
    pub(crate) preference: u64,
}

impl Load<'_> {
    pub(crate) fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.jobs)
    }

    /// Whether this worker is chosen before the other.
    fn goes_before(&self, other: &Self) -> bool {
        let mine = u64::from(self.jobs) * u64::from(other.capacity);
        let theirs = u64::from(other.jobs) * u64::from(self.capacity);
        (mine, other.free(), self.preference) < (theirs, self.free(), other.preference)
    }
}

/// Spreads up to `jobs` jobs, one by one, each to the worker that is then the least loaded. No worker gets more than its
/// capacity; the rest is left over. Returns the workers that get jobs, and how many.
pub(crate) fn spread(mut loads: Vec<Load<'_>>, jobs: usize) -> Vec<(&RegisteredWorker, usize)> {
    let mut shares: Vec<_> = loads.iter().map(|load| (load.worker, 0)).collect();
    for _ in 0..jobs {
        let Some(chosen) = least_loaded(&loads) else { break };
        loads[chosen].jobs += 1;
        shares[chosen].1 += 1;
    }
    shares.retain(|(_, jobs)| *jobs > 0);
    shares
}

fn least_loaded(loads: &[Load<'_>]) -> Option<usize> {
    let free = (0..loads.len()).filter(|&position| loads[position].free() > 0);
    free.reduce(|best, next| if loads[next].goes_before(&loads[best]) { next } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock_model::Timestamp;

    fn load(worker: &str, jobs: u32, capacity: u32) -> Load<'static> {
        let worker = RegisteredWorker {
            worker: worker.parse().unwrap(),
            handshake: None,
            beat: None,
            last_seen_at: Timestamp::ZERO,
            is_draining: false,
        };
        Load { worker: Box::leak(Box::new(worker)), jobs, capacity, preference: 0 }
    }

    fn shares(loads: &[Load<'_>], jobs: usize) -> Vec<(String, usize)> {
        spread(loads.to_vec(), jobs)
            .into_iter()
            .map(|(known, jobs)| (known.worker.to_string(), jobs))
            .collect()
    }

    fn named(shares: &[(&str, usize)]) -> Vec<(String, usize)> {
        shares.iter().map(|(worker, jobs)| ((*worker).to_owned(), *jobs)).collect()
    }

    #[test]
    fn a_burst_does_not_pile_up_on_one_worker() {
        let idle = [load("a", 0, 4), load("b", 0, 4), load("c", 0, 4)];
        assert_eq!(shares(&idle, 6), named(&[("a", 2), ("b", 2), ("c", 2)]));
    }

    #[test]
    fn the_least_loaded_by_share_of_its_capacity_comes_first() {
        let loads = [load("half", 1, 2), load("third", 3, 9), load("full", 4, 4)];
        assert_eq!(shares(&loads, 1), named(&[("third", 1)]));
        assert_eq!(shares(&[load("busy", 3, 4), load("idle", 0, 4)], 3), named(&[("idle", 3)]));
    }

    #[test]
    fn no_worker_gets_more_than_its_capacity() {
        let loads = [load("a", 3, 4), load("b", 1, 2), load("over", 9, 4)];
        assert_eq!(shares(&loads, 100), named(&[("a", 1), ("b", 1)]));
        assert_eq!(shares(&[], 1), named(&[]));
    }

    #[test]
    fn among_equals_the_larger_comes_first_and_then_the_preferred() {
        assert_eq!(shares(&[load("small", 0, 1), load("large", 0, 8)], 1), named(&[("large", 1)]));
        let preferred = Load { preference: 1, ..load("b", 0, 4) };
        let other = Load { preference: 2, ..load("a", 0, 4) };
        assert_eq!(shares(&[other, preferred], 1), named(&[("b", 1)]));
    }

    #[test]
    fn unequal_workers_fill_up_evenly() {
        assert_eq!(
            shares(&[load("small", 0, 2), load("large", 0, 8)], 5),
            named(&[("small", 1), ("large", 4)])
        );
    }
}
