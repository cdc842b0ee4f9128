//! Channels with the methods of std's, of a mutex and two condition variables. A channel of bound
//! 0, on which two threads meet, is left out.

use crate::belonging::opaque;
use crate::condvar::Condvar;
use crate::mutex::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

struct Channel<T> {
    state: Mutex<State<T>>,
    has_value: Condvar,
    has_room: Condvar,
    /// `None` without a bound.
    bound: Option<usize>,
}

struct State<T> {
    queue: VecDeque<T>,
    senders: usize,
    has_receiver: bool,
}

impl<T> Channel<T> {
    #[track_caller]
    fn new(bound: Option<usize>) -> Arc<Channel<T>> {
        let state = State { queue: VecDeque::new(), senders: 1, has_receiver: true };
        let (has_value, has_room) = (Condvar::new(), Condvar::new());
        Arc::new(Channel { state: Mutex::new(state), has_value, has_room, bound })
    }

    #[track_caller]
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.lock();
        while state.has_receiver && self.bound.is_some_and(|most| state.queue.len() >= most) {
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.has_receiver {
            return Err(SendError(value));
        }
        state.queue.push_back(value);
        drop(state);
        self.has_value.notify_one();
        Ok(())
    }

    #[track_caller]
    fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let mut state = self.lock();
        if !state.has_receiver {
            return Err(TrySendError::Disconnected(value));
        }
        if self.bound.is_some_and(|most| state.queue.len() >= most) {
            return Err(TrySendError::Full(value));
        }
        state.queue.push_back(value);
        drop(state);
        self.has_value.notify_one();
        Ok(())
    }

    #[track_caller]
    fn recv(&self, limit: Option<Duration>) -> Result<T, RecvTimeoutError> {
        let mut state = self.lock();
        let mut timed_out = false;
        loop {
            if !state.queue.is_empty() || state.senders == 0 {
                return self.take(state).map_err(|_| RecvTimeoutError::Disconnected);
            }
            if timed_out {
                return Err(RecvTimeoutError::Timeout);
            }
            state = match limit {
                None => self.has_value.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    let waited = self.has_value.wait_timeout(state, limit);
                    let (state, end) = waited.unwrap_or_else(PoisonError::into_inner);
                    timed_out = end.timed_out();
                    state
                }
            };
        }
    }

    /// Takes the first value of `state`.
    #[track_caller]
    fn take(&self, mut state: MutexGuard<'_, State<T>>) -> Result<T, TryRecvError> {
        let Some(value) = state.queue.pop_front() else {
            let has_senders = state.senders > 0;
            return Err(if has_senders { TryRecvError::Empty } else { TryRecvError::Disconnected });
        };
        drop(state);
        if self.bound.is_some() {
            self.has_room.notify_all();
        }
        Ok(value)
    }

    #[track_caller]
    fn drop_sender(&self) {
        // An agent must not be switched while it unwinds. Its panic ends the run.
        if std::thread::panicking() && self.state.is_of_machine() {
            return;
        }
        let mut state = self.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.has_value.notify_all();
        }
    }

    #[track_caller]
    fn drop_receiver(&self) {
        if std::thread::panicking() && self.state.is_of_machine() {
            return;
        }
        let mut state = self.lock();
        state.has_receiver = false;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        self.has_room.notify_all();
    }
}

/// Creates a channel without a bound.
#[track_caller]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Channel::new(None);
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// Creates a channel that holds up to `bound` values.
///
/// # Panics
/// `bound` is 0.
#[track_caller]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    assert!(bound > 0, "a channel of bound 0 is left out: use a bound of 1 and an answer");
    let channel = Channel::new(Some(bound));
    (SyncSender(Arc::clone(&channel)), Receiver(channel))
}

macro_rules! sender {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T>(Arc<Channel<T>>);

        impl<T> $name<T> {
            /// Sends a value. Waits while the channel is full.
            ///
            /// # Errors
            /// The receiver is dropped.
            #[track_caller]
            pub fn send(&self, value: T) -> Result<(), SendError<T>> {
                self.0.send(value)
            }
        }

        impl<T> Clone for $name<T> {
            #[track_caller]
            fn clone(&self) -> $name<T> {
                self.0.lock().senders += 1;
                $name(Arc::clone(&self.0))
            }
        }

        impl<T> Drop for $name<T> {
            fn drop(&mut self) {
                self.0.drop_sender();
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

sender!(
    /// The sending side of a [`channel`], as [`std::sync::mpsc::Sender`].
    Sender
);
sender!(
    /// The sending side of a [`sync_channel`], as [`std::sync::mpsc::SyncSender`].
    SyncSender
);

impl<T> SyncSender<T> {
    /// Sends a value if the channel has room.
    ///
    /// # Errors
    /// The channel is full, or the receiver is dropped.
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(value)
    }
}

/// The receiving side of a channel, as [`std::sync::mpsc::Receiver`].
pub struct Receiver<T>(Arc<Channel<T>>);

impl<T> Receiver<T> {
    /// Waits for a value and takes it.
    ///
    /// # Errors
    /// The channel is empty and every sender is dropped.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.recv(None).map_err(|_| RecvError)
    }

    /// Waits as [`Receiver::recv`] does, but not longer than `limit`.
    ///
    /// # Errors
    /// As [`Receiver::recv`], or the limit has passed.
    #[track_caller]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        self.0.recv(Some(limit))
    }

    /// Takes a value if there is one.
    ///
    /// # Errors
    /// The channel is empty.
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.take(self.0.lock())
    }

    /// Returns an iterator that waits for each value, and ends when every sender is dropped.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.drop_receiver();
    }
}

opaque!("Receiver", Receiver<T>, T);
