//! Interrupts: which fence operations raise them, and what they wake.

mod native_fences;
