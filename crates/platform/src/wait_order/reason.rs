//! The reason of a wait: a text for reports, and the class of the wait.

use super::class::WaitClass;

/// Why an agent waits: a text for reports of blocked agents, and a class for the order of waits. A
/// text without a class is for a wait that an application ends.
#[derive(Clone, Copy, Debug)]
pub struct Reason<'a> {
    pub(crate) class: Option<&'static WaitClass>,
    pub(crate) text: &'a str,
}

impl<'a> From<&'a str> for Reason<'a> {
    #[inline]
    fn from(text: &'a str) -> Reason<'a> {
        Reason { class: None, text }
    }
}

impl<'a> From<&'a String> for Reason<'a> {
    #[inline]
    fn from(text: &'a String) -> Reason<'a> {
        Reason { class: None, text }
    }
}

impl From<&'static WaitClass> for Reason<'static> {
    #[inline]
    fn from(class: &'static WaitClass) -> Reason<'static> {
        Reason { class: Some(class), text: class.name }
    }
}

impl<'a> From<(&'static WaitClass, &'a str)> for Reason<'a> {
    #[inline]
    fn from((class, text): (&'static WaitClass, &'a str)) -> Reason<'a> {
        Reason { class: Some(class), text }
    }
}
