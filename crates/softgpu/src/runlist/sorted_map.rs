//! A small sorted map in contiguous memory. Once it has grown, insertion and removal allocate
//! nothing: a run list inserts and removes a queue in every turn of its engine.

/// A small sorted map.
pub(super) struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> SortedMap<K, V> {
        SortedMap(Vec::new())
    }
}

impl<K: Ord + Copy, V> SortedMap<K, V> {
    fn find(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.find(key).is_ok()
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// Returns the value under `key`, after inserting `value` if there was none.
    pub(super) fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let at = self.find(key).unwrap_or_else(|at| {
            self.0.insert(at, (key, value()));
            at
        });
        &mut self.0[at].1
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        self.find(key).ok().map(|at| self.0.remove(at).1)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(K, &V) -> bool) {
        self.0.retain(|(key, value)| keep(*key, value));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }
}
