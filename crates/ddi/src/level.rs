//! Interrupt request levels, as tokens that entries take. In user space:
//!
//! - PASSIVE: a thread that may block.
//! - DISPATCH: a caller that must not block.
//! - DIRQL: a caller that holds the adapter's interrupt lock, so it is serialised with the
//!   interrupt routine.
//!
//! Invariants: a token is made where the kernel enters the level and is passed on from there;
//! `cargo xtask tidy` lists the files that may make one. A token of a lower level raises to a
//! higher one. In debug builds, making a token above its level panics with the agent's name
//! ([`tidegate_platform::level`]).

use std::marker::PhantomData;
use tidegate_platform::level::{Level, assert_at_most, may_block};

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

    /// For the kernel, where the level is known only at run time: `None` in an interrupt routine
    /// or a DPC.
    #[inline]
    pub fn enter_if_current() -> Option<Passive> {
        may_block().then_some(Passive(()))
    }

    /// Raises the level (KeRaiseIrql) for a call that must not block.
    #[inline]
    pub fn raise(&self) -> Dispatch {
        Dispatch(())
    }

    /// As [`Dispatch::raise_to_dirql`].
    #[inline]
    pub fn raise_to_dirql<'g, G>(&self, held: &'g G) -> Dirql<'g> {
        self.raise().raise_to_dirql(held)
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

    /// Raises to the level of the interrupt routine. `_held` is the guard of the adapter's
    /// interrupt lock, or of the driver's lock that its interrupt routine takes.
    #[inline]
    pub fn raise_to_dirql<'g, G>(&self, _held: &'g G) -> Dirql<'g> {
        Dirql { is_interrupt: false, held: PhantomData }
    }
}

/// Proof that the caller is serialised with the interrupt routine: it holds the adapter's interrupt
/// lock, or the driver's lock that the routine takes. Lives no longer than the guard.
#[derive(Debug)]
pub struct Dirql<'a> {
    is_interrupt: bool,
    held: PhantomData<&'a ()>,
}

impl<'a> Dirql<'a> {
    /// For the kernel's interrupt routine: `_held` is the guard of the adapter's interrupt lock.
    #[inline]
    pub fn enter<G>(_held: &'a G) -> Dirql<'a> {
        Dirql { is_interrupt: true, held: PhantomData }
    }

    /// Whether the interrupt routine runs, and not a call that raised its level. The agent of the
    /// interrupt runs the DPC afterwards.
    #[inline]
    pub fn is_interrupt(&self) -> bool {
        self.is_interrupt
    }
}

/// The level of code that runs at PASSIVE or at DISPATCH level. It may block only at PASSIVE.
#[derive(Clone, Copy, Debug)]
pub enum Irql<'a> {
    /// The caller may block.
    Passive(&'a Passive),
    /// The caller must not block.
    Dispatch(&'a Dispatch),
}

impl<'a> Irql<'a> {
    /// The proof that the caller may block, if it may.
    #[inline]
    pub fn passive(self) -> Option<&'a Passive> {
        match self {
            Irql::Passive(level) => Some(level),
            Irql::Dispatch(_) => None,
        }
    }

    /// Raises the level, where it is lower.
    #[inline]
    pub fn raise(self) -> Dispatch {
        Dispatch(())
    }

    /// As [`Dispatch::raise_to_dirql`].
    #[inline]
    pub fn raise_to_dirql<G>(self, held: &G) -> Dirql<'_> {
        self.raise().raise_to_dirql(held)
    }
}

impl<'a> From<&'a Passive> for Irql<'a> {
    #[inline]
    fn from(level: &'a Passive) -> Irql<'a> {
        Irql::Passive(level)
    }
}

impl<'a> From<&'a Dispatch> for Irql<'a> {
    #[inline]
    fn from(level: &'a Dispatch) -> Irql<'a> {
        Irql::Dispatch(level)
    }
}
