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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_makes_room_and_a_changed_one_keeps_its_age() {
        let mut cache = Bounded::new(2);
        for (key, value) in [("a", 1), ("b", 1), ("a", 2), ("c", 1)] {
            cache.insert(key, value);
        }
        assert_eq!((cache.get(&"a"), cache.get(&"b"), cache.get(&"c")), (None, Some(&1), Some(&1)));
        assert_eq!(cache.remove(&"b"), Some(1));
        cache.insert("d", 1);
        cache.insert("e", 1);
        assert_eq!((cache.get(&"c"), cache.get(&"d"), cache.get(&"e")), (None, Some(&1), Some(&1)));
    }
}
