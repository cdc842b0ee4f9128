//! Tables by object number. A number is its maker in the upper half and the object's number among
//! the maker's in the lower half ([`super::next_object_id`]), so rows are dense.

/// Values by object number. Absent ones are the default.
pub(super) struct Table<T> {
    rows: Vec<Vec<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new() }
    }
}

impl<T: Default> Table<T> {
    /// Returns the value of an object; `None` stands for the default.
    pub(super) fn get(&self, object: u32) -> Option<&T> {
        self.rows.get((object >> 16) as usize)?.get((object & 0xFFFF) as usize)
    }

    /// Returns the value of an object, to change it.
    #[inline]
    pub(super) fn at(&mut self, object: u32) -> &mut T {
        let (maker, number) = ((object >> 16) as usize, (object & 0xFFFF) as usize);
        if self.rows.get(maker).is_none_or(|row| row.len() <= number) {
            self.grow(maker, number);
        }
        &mut self.rows[maker][number]
    }

    #[cold]
    fn grow(&mut self, maker: usize, number: usize) {
        if self.rows.len() <= maker {
            self.rows.resize_with(maker + 1, Vec::new);
        }
        self.rows[maker].resize_with(number + 1, T::default);
    }

    /// Resets all values and keeps the memory of the rows.
    pub(super) fn clear(&mut self) {
        self.rows.iter_mut().for_each(Vec::clear);
    }
}
