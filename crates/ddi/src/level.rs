//! The interrupt request levels, as tokens that an entry demands. In user space: PASSIVE is a thread
//! that may block; DISPATCH must not block; DIRQL holds the adapter's interrupt lock, so it is
//! serialised with the interrupt routine.
//!
//! Invariants: a token is made where the kernel enters the level, and passed on from there; `cargo
//! xtask tidy` lists the files that may make one. In debug builds a token that is made above its
//! level is a panic with the agent's name ([`tidegate_platform::level`]).

use std::marker::PhantomData;
use tidegate_platform::level::{Level, assert_at_most};

/// Proof that the caller may block.
#[derive(Debug)]
pub struct Passive(());

impl Passive {
    /// For the kernel: this agent is at PASSIVE level.
    ///
    /// # Panics
    /// In debug builds, in an interrupt routine or a DPC.
    #[inline]
    pub fn enter() -> Passive {
        assert_at_most(Level::Passive, "a call at PASSIVE level");
        Passive(())
    }
}

/// Proof that the caller must not block (DISPATCH_LEVEL).
#[derive(Debug)]
pub struct Dispatch(());

impl Dispatch {
    /// For the kernel: this agent is at DISPATCH level.
    ///
    /// # Panics
    /// In debug builds, in an interrupt routine.
    #[inline]
    pub fn enter() -> Dispatch {
        assert_at_most(Level::Dispatch, "a call at DISPATCH level");
        Dispatch(())
    }
}

/// Proof that the caller holds the adapter's interrupt lock. Lives no longer than the guard.
#[derive(Debug)]
pub struct Dirql<'a>(PhantomData<&'a ()>);

impl<'a> Dirql<'a> {
    /// For the kernel: `_held` is the guard of the adapter's interrupt lock.
    #[inline]
    pub fn enter<G>(_held: &'a G) -> Dirql<'a> {
        Dirql(PhantomData)
    }
}
