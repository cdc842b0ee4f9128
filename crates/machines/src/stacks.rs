//! Stacks of every thread of the process, for a watchdog that gives a run up.
//!
//! Each thread is sent a signal in turn and writes its own stack. Capturing a stack allocates, so a
//! thread inside of the allocator may not answer: the caller goes on after `PATIENCE`, and then
//! ends the process. One of the rooms that may use `unsafe`.
//!
//! Entry point: [`write_all`].

#![allow(unsafe_code)]

use std::backtrace::Backtrace;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a thread may take to write its stack.
const PATIENCE: Duration = Duration::from_millis(500);
/// The signal that asks for a stack. Nothing else of the project uses it.
const SIGNAL: libc::c_int = libc::SIGURG;

/// Stacks that were written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn write_own(_signal: libc::c_int) {
    let name = std::thread::current().name().unwrap_or("a thread without a name").to_owned();
    // The test harness keeps what macros print until the end of a test, which does not come.
    let _ = writeln!(std::io::stderr(), "stack of '{name}':\n{}", Backtrace::force_capture());
    WRITTEN.fetch_add(1, Ordering::SeqCst);
}

/// Writes the stack of each thread of the process, except the caller's, to standard error.
pub fn write_all() {
    let handler: extern "C" fn(libc::c_int) = write_own;
    // SAFETY: the structure is zeroed, which is an empty mask without flags, and names a handler of
    // the type that `sigaction` calls without SA_SIGINFO.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
    }
    // SAFETY: takes no argument and always succeeds.
    let own = unsafe { libc::gettid() };
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return };
    for task in tasks.flatten() {
        let thread = task.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok());
        let Some(thread) = thread.filter(|thread| *thread != own) else { continue };
        let before = WRITTEN.load(Ordering::SeqCst);
        // SAFETY: a signal to a thread of this process, whose handler is installed. A thread that
        // has ended meanwhile makes the call fail.
        let sent = unsafe {
            libc::syscall(libc::SYS_tgkill, std::process::id() as libc::pid_t, thread, SIGNAL)
        };
        let mut left = PATIENCE;
        while sent == 0 && WRITTEN.load(Ordering::SeqCst) == before && !left.is_zero() {
            let pause = Duration::from_millis(5);
            std::thread::sleep(pause);
            left = left.saturating_sub(pause);
        }
    }
}
