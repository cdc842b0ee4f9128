//! A list of mostly one element, which then takes no memory of its own: what a signal satisfies, and
//! the registrations of a wait.

/// A list.
pub(crate) struct Few<T> {
    /// `None` in an empty list.
    first: Option<T>,
    others: Vec<T>,
}

impl<T> Few<T> {
    /// Returns an empty list.
    pub(crate) fn new() -> Few<T> {
        Few { first: None, others: Vec::new() }
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, element: T) {
        match &self.first {
            None => self.first = Some(element),
            Some(_) => self.others.push(element),
        }
    }

    /// Returns whether there are no elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Returns the elements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.others)
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Few<T> {
        let mut list = Few::new();
        list.extend(elements);
        list
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.others)
    }
}
