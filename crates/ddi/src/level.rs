//! Owns the interrupt request levels, as tokens that a DDI demands. In user space: PASSIVE is an
//! ordinary thread that may block; DISPATCH must not block; DIRQL holds the adapter's interrupt
//! lock, so it is serialised with the interrupt routine.
//!
//! A token costs nothing; the kernel makes it where it enters the level, and a driver only passes
//! it on.

use std::marker::PhantomData;

/// Proof that the caller may block.
#[derive(Debug)]
pub struct Passive(());

impl Passive {
    /// For the kernel: this thread is at PASSIVE level.
    pub fn enter() -> Passive {
        Passive(())
    }
}

/// Proof that the caller must not block (DISPATCH_LEVEL).
#[derive(Debug)]
pub struct Dispatch(());

impl Dispatch {
    /// For the kernel: this thread is at DISPATCH level.
    pub fn enter() -> Dispatch {
        Dispatch(())
    }
}

/// Proof that the caller holds the adapter's interrupt lock. Lives no longer than the guard.
#[derive(Debug)]
pub struct Dirql<'a>(PhantomData<&'a ()>);

impl<'a> Dirql<'a> {
    /// For the kernel: `_held` is the guard of the adapter's interrupt lock.
    pub fn enter<G>(_held: &'a G) -> Dirql<'a> {
        Dirql(PhantomData)
    }
}
