//! The terminal of the view: raw mode, the alternate screen, and their end.
//!
//! Invariant: the terminal is restored when the guard is dropped, when a thread panics, and before
//! a signal ends the process.

use ratatui::DefaultTerminal;
use std::io;
use std::ops::{Deref, DerefMut};

/// The terminal while the view is on it.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// What the terminal refuses. It is as before then.
    pub(super) fn take() -> io::Result<Screen> {
        // Also sets a panic hook that restores the terminal before the message.
        ratatui::try_init().map(Screen).inspect_err(|_| ratatui::restore())
    }
}

impl Deref for Screen {
    type Target = DefaultTerminal;

    fn deref(&self) -> &DefaultTerminal {
        &self.0
    }
}

impl DerefMut for Screen {
    fn deref_mut(&mut self) -> &mut DefaultTerminal {
        &mut self.0
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
