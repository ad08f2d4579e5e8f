//! A bounded cache.

use std::collections::{BTreeMap, VecDeque};

/// A map that drops its oldest entry when it is full.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    entries: BTreeMap<K, V>,
    age: VecDeque<K>,
    max: usize,
}

impl<K: Ord + Clone, V> Bounded<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), age: VecDeque::new(), max }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key)?;
        self.age.retain(|known| known != key);
        Some(removed)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.age.push_back(key);
        }
        while self.entries.len() > self.max {
            match self.age.pop_front() {
                Some(oldest) => drop(self.entries.remove(&oldest)),
                None => return,
            }
        }
    }
}
