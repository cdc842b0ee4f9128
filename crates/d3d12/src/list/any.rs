//! Open or closed lists, for interfaces that take lists by pointer.

use super::recording::CommandList;
use crate::umd::closed_list::ClosedList;

/// A list that is open or closed. [`crate::Queue::execute`] takes closed lists by their type; a
/// program that knows the state only at run time uses [`crate::Queue::execute_any`].
#[derive(Clone, Copy, Debug)]
pub enum AnyList<'a> {
    /// A list that is still recording. Executing it is an invalid call.
    Open(&'a CommandList),
    /// A closed list.
    Closed(&'a ClosedList),
}

impl<'a> From<&'a CommandList> for AnyList<'a> {
    fn from(list: &'a CommandList) -> AnyList<'a> {
        AnyList::Open(list)
    }
}

impl<'a> From<&'a ClosedList> for AnyList<'a> {
    fn from(list: &'a ClosedList) -> AnyList<'a> {
        AnyList::Closed(list)
    }
}
