//! The system calls: futex wait and wake, barriers of all threads, CPU clocks, eventfd, the peer of
//! a socket, the processors of threads, and the size of the heap. One of the rooms that may use
//! `unsafe`.

#![allow(unsafe_code)]

pub mod traps;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Returns the 32-bit half of a word that the futex compares: the low half, little endian.
fn low_half(word: &AtomicU64) -> *const u32 {
    const { assert!(cfg!(target_endian = "little"), "the futex looks at the low half of a word") };
    std::ptr::from_ref(word).cast::<u32>()
}

/// Whether sleepers on a word may be in other processes, which map its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Private,
    Shared,
}

impl Sharing {
    fn flag(self) -> libc::c_int {
        match self {
            Sharing::Private => libc::FUTEX_PRIVATE_FLAG,
            Sharing::Shared => 0,
        }
    }
}

/// Returns the bytes of this process's heap that are in use; `None` if the C library does not count
/// them. Unlike resident memory they do not depend on the load of the host: pages that the heap has
/// given back or keeps are not among them.
pub fn heap_bytes() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: mallinfo2 has no arguments and takes the locks of the heap itself.
        let info = unsafe { libc::mallinfo2() };
        Some((info.uordblks + info.hblkhd) as u64)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    None
}

/// Sleeps while the low 32 bits of `word` are `expected`. Returns early on a wake, on a signal, or
/// after `timeout`.
pub(crate) fn futex_wait(
    word: &AtomicU64,
    expected: u32,
    timeout: Option<Duration>,
    sharing: Sharing,
) {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let spec_ptr = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the address is a live AtomicU64's, borrowed for the call, the kernel only reads
    // it, and the timespec lives on this stack until the call returns. Every outcome is a legal
    // (spurious) wake to the caller.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            low_half(word),
            libc::FUTEX_WAIT | sharing.flag(),
            expected,
            spec_ptr,
        );
    }
}

/// Wakes up to `count` sleepers of `word`.
pub(crate) fn futex_wake(word: &AtomicU64, count: i32, sharing: Sharing) {
    // SAFETY: the address is a live AtomicU64's; FUTEX_WAKE does not dereference it beyond
    // hashing.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE | sharing.flag(), count);
    }
}

/// Returns whether the system can have all threads of this process execute a full barrier.
pub(crate) fn has_barrier_of_threads() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        !cfg!(miri) && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
    })
}

/// Has every thread of this process that runs on a processor execute a full barrier before the call
/// returns. A thread that does not run has executed one when it was taken from its processor.
///
/// # Panics
///
/// [`has_barrier_of_threads`] does not hold.
pub(crate) fn barrier_of_threads() {
    let done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
    assert!(done, "membarrier: {}", io::Error::last_os_error());
}

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Creates a descriptor with a counter of 0, which does not block and is not inherited by exec.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Process and user at the other end of a Unix socket, when it was connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketPeer {
    /// The process ID in the PID namespace of this process; 0 for a process outside of it.
    pub pid: u32,
    /// The user ID in the user namespace of this process; for a user that it does not map, the
    /// number that `/proc/sys/kernel/overflowuid` has.
    pub uid: u32,
}

/// Returns the peer of a connected Unix socket. The structure of rustix has no process ID of 0,
/// which is what the system reports across PID namespaces.
///
/// # Errors
/// The descriptor is not such a socket.
pub fn socket_peer(socket: BorrowedFd<'_>) -> io::Result<SocketPeer> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its size live on this stack until the call returns, and any
    // integers are valid in the structure.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    match result {
        0 => Ok(SocketPeer { pid: peer.pid.unsigned_abs(), uid: peer.uid }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The first socket that the starter of the process passed on (LISTEN_PID, LISTEN_FDS), as systemd
/// does. `None` without one, and for every call but the first.
pub fn passed_socket() -> Option<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    const FIRST: libc::c_int = 3;
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_mine = number("LISTEN_PID") == Some(std::process::id());
    if !is_mine || number("LISTEN_FDS").unwrap_or(0) == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return None;
    }
    // SAFETY: the call takes no pointer, and fails for a descriptor that is not open.
    if unsafe { libc::fcntl(FIRST, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open, and by the convention it was passed for this process to own.
    // `TAKEN` makes this the only owner.
    Some(unsafe { OwnedFd::from_raw_fd(FIRST) })
}

/// Returns the monotonic clock in nanoseconds. The standard library's clock takes ten times as many
/// instructions for the same reading, and a log entry needs one or two.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the system's clock, which may be set, in nanoseconds since 1 January 1970.
pub(crate) fn system_time_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Returns the CPU time used by this process so far (all threads), in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time used by the calling thread so far, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec on this stack, which the call fills in.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return 0;
    }
    nanoseconds(&time)
}

#[inline]
fn nanoseconds(time: &libc::timespec) -> u64 {
    // No clock of this file is negative, unless the system's is set to a time before 1970.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Has sleeps of the calling thread end as soon after their deadline as the system can. By default
/// it may end them 50 µs later, to wake once for many.
pub(crate) fn sleep_with_least_slack() {
    const LEAST_NS: libc::c_ulong = 1;
    // SAFETY: the call takes no pointer. A failure leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, LEAST_NS) };
}

/// Pins the calling thread to a processor. Returns whether the system call succeeded.
pub fn pin_to_cpu(cpu: usize) -> bool {
    // SAFETY: a zeroed cpu_set_t is the empty set; CPU_SET bounds-checks its index; the set lives
    // for the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Returns the number of processors on which the process's first thread may run, at least 1.
pub(crate) fn processors() -> usize {
    // SAFETY: a zeroed cpu_set_t is the empty set; the set lives for the call, which writes no more
    // than its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let found =
            libc::sched_getaffinity(libc::getpid(), size_of::<libc::cpu_set_t>(), &raw mut set);
        if found == 0 { usize::try_from(libc::CPU_COUNT(&set)).unwrap_or(1).max(1) } else { 1 }
    }
}

/// Writes to the standard error, past the output that a test captures.
pub fn write_error(text: &str) {
    use std::io::Write;
    // Without a standard error there is no reader.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

static FAILS: OnceLock<fn() -> bool> = OnceLock::new();

/// Makes the process end with the status of a panic if `fails` returns true when it ends. Effective
/// once.
pub fn fail_at_exit_if(fails: fn() -> bool) {
    extern "C" fn at_exit() {
        if FAILS.get().is_some_and(|fails| fails()) {
            write_error("the process fails: waits in a circle were found, see above\n");
            // SAFETY: ends the process, which is ending already.
            unsafe { libc::_exit(101) }
        }
    }
    if FAILS.set(fails).is_ok() {
        // SAFETY: the function is static, and it neither unwinds nor returns to freed state.
        unsafe { libc::atexit(at_exit) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_seconds_and_nanoseconds() {
        let reading = |tv_sec, tv_nsec| nanoseconds(&libc::timespec { tv_sec, tv_nsec });
        assert_eq!(reading(0, 999_999_999), 999_999_999);
        assert_eq!(reading(3, 5), 3_000_000_005);
    }
}
