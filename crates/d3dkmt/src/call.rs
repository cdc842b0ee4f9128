//! One call of C: what its handles and its addresses refer to.

use crate::caller::Caller;
use crate::library::Library;

/// One call: the library, and the memory of the caller.
pub(crate) struct Call {
    pub(crate) library: &'static Library,
    pub(crate) caller: Caller,
}
