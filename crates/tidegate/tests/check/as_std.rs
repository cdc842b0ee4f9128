//! Every operation of the types of `tidegate::check` answers as std's does, outside of an explored
//! program and on one thread of it.

// std's types are what ours are compared with.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tidegate::check::cell::{RaceCell, UnsafeCell};
use tidegate::check::{check, thread};

const NO_TIME: Duration = Duration::ZERO;

/// Runs a program with std's types, then with ours outside of and in an explored program. Each
/// returns what it was answered, in words.
macro_rules! answers_as_std {
    ($program:block) => {{
        let of_std = {
            #[allow(unused_imports)]
            use std::{sync, thread};
            $program
        };
        let ours = || {
            #[allow(unused_imports)]
            use tidegate::check::{sync, thread};
            $program
        };
        assert_eq!(ours(), of_std, "outside");
        check(move || assert_eq!(ours(), of_std, "explored"));
    }};
}

fn words<const N: usize>(answers: [&dyn Debug; N]) -> String {
    format!("{answers:?}")
}

/// Runs what panics, without the panic.
fn fails(body: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(body)).is_err()
}

#[test]
fn atomics() {
    answers_as_std!({
        use sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
        let a = sync::atomic::AtomicU8::new(250);
        let fetched = [
            a.fetch_add(10, SeqCst),
            a.fetch_sub(5, AcqRel),
            a.fetch_and(0b1110_1111, Release),
            a.fetch_or(3, Relaxed),
            a.fetch_xor(0xff, Acquire),
            a.fetch_max(9, SeqCst),
            a.fetch_min(7, SeqCst),
            a.swap(4, Release),
        ];
        let exchanged = [
            a.compare_exchange_weak(3, 9, AcqRel, Acquire),
            a.compare_exchange_weak(4, 9, AcqRel, Acquire),
            a.compare_exchange(9, 8, Release, Relaxed),
            a.fetch_update(SeqCst, Relaxed, |v| v.checked_sub(9)),
            a.fetch_update(SeqCst, Relaxed, |v| v.checked_sub(3)),
        ];
        let seen = format!("{a:?}");
        let signed = sync::atomic::AtomicI16::new(-2);
        let lowest = [signed.fetch_min(-7, SeqCst), signed.fetch_max(-3, SeqCst)];
        let b = sync::atomic::AtomicBool::from(true);
        let bits = [
            b.fetch_nand(true, SeqCst),
            b.fetch_nand(true, SeqCst),
            b.fetch_and(false, SeqCst),
            b.fetch_or(true, SeqCst),
            b.fetch_xor(true, SeqCst),
        ];
        sync::atomic::fence(Release);
        let last = (a.into_inner(), signed.into_inner(), b.into_inner());
        words([&fetched, &exchanged, &seen, &lowest, &bits, &last])
    });
}

#[test]
fn mutexes() {
    answers_as_std!({
        use sync::TryLockError;
        let mutex = sync::Mutex::new(3);
        let held = mutex.lock().unwrap();
        let seen = format!("{held:?}");
        let busy = matches!(mutex.try_lock(), Err(TryLockError::WouldBlock));
        drop(held);
        let free = mutex.try_lock().map(|held| *held).ok();
        let before = mutex.is_poisoned();
        let failed = fails(|| {
            let _held = mutex.lock().unwrap();
            panic!("planted");
        });
        let poisoned = mutex.is_poisoned();
        let tried =
            matches!(mutex.try_lock(), Err(TryLockError::Poisoned(held)) if **held.get_ref() == 3);
        let locked = matches!(mutex.lock(), Err(held) if **held.get_ref() == 3);
        let inner = [sync::Mutex::new(4).into_inner().ok(), mutex.into_inner().ok()];
        words([&seen, &busy, &free, &before, &failed, &poisoned, &tried, &locked, &inner])
    });
}

#[test]
fn readers_and_writers() {
    answers_as_std!({
        use sync::TryLockError;
        let lock = sync::RwLock::new(3);
        let reads = lock.read().unwrap();
        let seen = format!("{reads:?}");
        let beside = lock.try_read().is_ok();
        let above = lock.try_write().is_ok();
        drop(reads);
        let writes = lock.write().unwrap();
        let busy = matches!(lock.try_read(), Err(TryLockError::WouldBlock));
        drop(writes);
        let failed = fails(|| {
            let _held = lock.write().unwrap();
            panic!("planted");
        });
        let poisoned = lock.is_poisoned();
        let tried =
            matches!(lock.try_read(), Err(TryLockError::Poisoned(held)) if **held.get_ref() == 3);
        let read = lock.read().is_err();
        let written = lock.write().is_err();
        let inner = lock.into_inner().is_err();
        words([&seen, &beside, &above, &busy, &failed, &poisoned, &tried, &read, &written, &inner])
    });
}

#[test]
fn limits_of_waits() {
    answers_as_std!({
        use sync::mpsc::RecvTimeoutError;
        let (mutex, condvar) = (sync::Mutex::new(3), sync::Condvar::new());
        let (held, end) = condvar.wait_timeout(mutex.lock().unwrap(), NO_TIME).unwrap();
        let waited = (*held, end.timed_out());
        let (sender, receiver) = sync::mpsc::channel::<u8>();
        let empty = [receiver.recv_timeout(NO_TIME), Err(RecvTimeoutError::Timeout)];
        sender.send(5).unwrap();
        let full = receiver.recv_timeout(NO_TIME);
        drop(sender);
        let closed = receiver.recv_timeout(NO_TIME);
        thread::park_timeout(NO_TIME);
        thread::sleep(NO_TIME);
        words([&waited, &empty, &full, &closed])
    });
    // In an explored program such a wait ends when no thread can move.
    check(|| {
        let hour = Duration::from_secs(3_600);
        let condvar = tidegate::check::sync::Condvar::new();
        let mutex = tidegate::check::sync::Mutex::new(3);
        let (held, end) = condvar.wait_timeout(mutex.lock().unwrap(), hour).unwrap();
        assert_eq!((*held, end.timed_out()), (3, true));
        thread::sleep(hour);
    });
}

#[test]
fn channels() {
    answers_as_std!({
        let (sender, receiver) = sync::mpsc::sync_channel(1);
        let sent = [sender.try_send(1), sender.try_send(2)];
        let received = [receiver.try_recv(), receiver.try_recv()];
        let other = sender.clone();
        drop(sender);
        let waits = receiver.try_recv();
        drop(other);
        let ended = receiver.try_recv();
        let (sender, receiver) = sync::mpsc::sync_channel(1);
        drop(receiver);
        let closed = sender.try_send(7);
        words([&sent, &received, &waits, &ended, &closed])
    });
}

#[test]
fn values_that_are_written_once() {
    answers_as_std!({
        let mut cell = sync::OnceLock::new();
        let before = cell.get_mut().copied();
        let set = [cell.set(3), cell.set(4)];
        *cell.get_mut().unwrap() += 2;
        let (now, inner) = (cell.get().copied(), cell.into_inner());
        let once = sync::Once::new();
        let completed = once.is_completed();
        once.call_once(|| ());
        once.call_once(|| panic!("planted"));
        words([&before, &set, &now, &inner, &completed, &once.is_completed()])
    });
}

#[test]
fn threads() {
    answers_as_std!({
        let made = thread::Builder::new().name("worker".to_owned()).spawn(|| 3).unwrap();
        let name = made.thread().name().map(str::to_owned);
        let value = made.join().unwrap();
        let of_scope = thread::scope(|scope| {
            let made = scope.spawn(|| 4);
            made.thread().unpark();
            made.join().unwrap()
        });
        words([&name, &value, &of_scope])
    });
}

#[test]
fn cells_without_std_s_counterpart() {
    let cells = || {
        let cell = UnsafeCell::new(3);
        assert!(!cell.with_mut(|value| value.is_null()));
        assert!(!cell.with(|value| value.is_null()));
        assert_eq!(cell.into_inner(), 3);
        let cell = RaceCell::new(5);
        cell.with_mut(|value| *value += 1);
        assert_eq!(cell.with(|value| *value), 6);
        assert_eq!(cell.into_inner(), 6);
    };
    cells();
    check(cells);
    let cell = RaceCell::new(1);
    assert!(fails(|| cell.with(|_| cell.set(2))), "a write inside of a read");
    assert!(fails(|| _ = cell.with_mut(|_| cell.get())), "a read inside of a write");
}
