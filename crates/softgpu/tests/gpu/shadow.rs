//! A CMP that keeps shadows of MonitoredValue: what engines compare with, what the CMP finds, and
//! how many there is room for.

use tidegate_testbed::prelude::gpu::*;

/// The driver's number for the fence of a test.
const NUMBER: u64 = 0x1234_5678_9ABC;

fn hardware(shadow_entries: u32) -> Config {
    Config { shadow_entries, posted_fence_writes: true, ..Config::default() }
}

/// A queue, and a fence that tells when it has come somewhere.
struct Signaller {
    queue: Queue,
    done: Fence,
    rounds: u64,
}

impl Signaller {
    fn new(process: &Process) -> Signaller {
        Signaller { queue: process.queue(COPY), done: process.fence(0, 0), rounds: 0 }
    }

    /// Signals `fence`; returns whether that interrupted.
    fn interrupts(&mut self, machine: &Machine, fence: &Fence, value: u64) -> bool {
        let of_fence = |seen: &[Seen]| {
            seen.iter()
                .filter(|s| matches!(s, Seen::Signaled(_, va) if *va == fence.current_va))
                .count()
        };
        let before = of_fence(&machine.seen());
        self.rounds += 1;
        self.queue.submit(&[fence.signal(value), self.done.signal(self.rounds)]);
        machine.await_signals(&self.done, self.rounds as usize);
        assert_eq!(fence.current.load(), value);
        of_fence(&machine.seen()) > before
    }
}

#[test]
fn a_signal_is_compared_with_the_shadow_and_not_with_memory() {
    with_process(hardware(16), |machine, process| {
        // Two wait, for 42 and for 50.
        let fence = process.fence(41, u64::MAX);
        assert_eq!(machine.keep_shadow(NUMBER, &process, &fence), Ok(true));
        let mut signaller = Signaller::new(&process);
        assert!(!signaller.interrupts(machine, &fence, 41), "a shadow begins as memory says");
        machine.set_monitored(NUMBER, 41);
        assert!(signaller.interrupts(machine, &fence, 42));
        machine.set_monitored(NUMBER, 49);
        assert!(!signaller.interrupts(machine, &fence, 49));
        assert!(signaller.interrupts(machine, &fence, 60));
        machine.set_monitored(NUMBER, u64::MAX);
        fence.monitored.store(0);
        assert!(
            !signaller.interrupts(machine, &fence, 61),
            "memory says otherwise, and is not asked"
        );
        let stats = machine.gpu.stats();
        assert_eq!((stats.shadow_updates, stats.shadow_interrupts), (3, 0));
    });
}

// spec: NF-045, NF-046
#[test]
fn the_cmp_interrupts_exactly_when_current_value_is_above_the_new_value() {
    with_process(hardware(16), |machine, process| {
        let fence = process.fence(41, u64::MAX);
        machine.keep_shadow(NUMBER, &process, &fence).expect("two values");
        let of_cmp = Seen::OfCmp(process.id, fence.current_va);
        let count = |seen: &[Seen]| seen.iter().filter(|s| **s == of_cmp).count();
        for (times, (value, interrupts)) in
            [(42, false), (41, false), (40, true), (0, true), (u64::MAX, false), (41, false)]
                .into_iter()
                .scan(0, |times, case| {
                    *times += usize::from(case.1);
                    Some((*times, case))
                })
        {
            machine.set_monitored(NUMBER, value);
            if interrupts {
                machine.await_seen(|seen| count(seen) == times);
            }
            // Whatever is due has been raised when an engine has been through a signal of another
            // fence.
            let mut other = Signaller::new(&process);
            other.interrupts(machine, &process.fence(0, u64::MAX), 1);
            assert_eq!(count(&machine.seen()), times, "MonitoredValue {value}");
            assert_eq!(machine.gpu.stats().shadow_interrupts, times as u64);
        }
    });
}

#[test]
fn hardware_that_cannot_tell_fence_kinds_says_only_that_some_fence_is_meant() {
    with_process(Config { tells_fence_kinds: false, ..hardware(16) }, |machine, process| {
        let fence = process.fence(41, u64::MAX);
        machine.keep_shadow(NUMBER, &process, &fence).expect("two values");
        machine.set_monitored(NUMBER, 40);
        assert_eq!(machine.await_seen(|seen| !seen.is_empty()), [Seen::Collapsed]);
    });
}

#[test]
fn a_fence_without_room_for_a_shadow_is_compared_with_memory() {
    with_process(hardware(4), |machine, process| {
        let fences: Vec<Fence> = (0..5).map(|_| process.fence(0, u64::MAX)).collect();
        let kept: Vec<bool> = (0..5)
            .map(|n| machine.keep_shadow(n, &process, &fences[n as usize]).expect("two values"))
            .collect();
        assert_eq!(kept, [true, true, true, true, false]);
        let mut signaller = Signaller::new(&process);
        machine.set_monitored(4, 3);
        assert!(!signaller.interrupts(machine, &fences[4], 5), "memory has the old value");
        fences[4].monitored.store(5);
        assert!(signaller.interrupts(machine, &fences[4], 6));
        // One goes, and there is room.
        machine.run_command(AdminCommand::DropShadow { fence: 2 }).expect("a shadow");
        machine.set_monitored(2, 0);
        assert!(!signaller.interrupts(machine, &fences[2], 1), "back to memory");
        assert_eq!(machine.keep_shadow(4, &process, &fences[4]), Ok(true));
        machine.set_monitored(4, 7);
        assert!(!signaller.interrupts(machine, &fences[4], 7));
        assert!(signaller.interrupts(machine, &fences[4], 8));
        assert_eq!(machine.gpu.stats().shadow_updates, 1, "of those that have a shadow");
    });
}

#[test]
fn keeping_a_shadow_twice_changes_nothing_and_a_wrong_address_is_refused() {
    on(&Platform::closed_host(), hardware(16), |machine: &Arc<Machine>| {
        let process = machine.process();
        let fence = process.fence(0, u64::MAX);
        assert_eq!(machine.keep_shadow(NUMBER, &process, &fence), Ok(true));
        machine.set_monitored(NUMBER, 9);
        assert_eq!(machine.keep_shadow(NUMBER, &process, &fence), Ok(true));
        let mut signaller = Signaller::new(&process);
        assert!(signaller.interrupts(machine, &fence, 10), "it is as it was");
        for wrong in [GpuVa(8), fence.current_va.plus(4), process.buffer(64).va] {
            let no_fence = Fence { monitored_va: wrong, ..fence.clone() };
            assert_eq!(machine.keep_shadow(1, &process, &no_fence), Err(AdminError::BadAddress));
        }
        machine.set_monitored(77, 0);
        machine.run_command(AdminCommand::DropShadow { fence: 77 }).expect("nothing to drop");
    });
}

#[test]
fn a_device_says_whether_it_has_a_shadow() {
    let says = |entries| {
        let machine = Machine::new(&Platform::closed_host(), hardware(entries));
        DeviceTraits(machine.gpu.read_register(Register::DEVICE_TRAITS))
            .has(DeviceTraits::MONITORED_SHADOW)
    };
    assert!(says(1) && !says(0));
    on(&Platform::closed_host(), hardware(0), |machine: &Arc<Machine>| {
        let process = machine.process();
        let fence = process.fence(0, 5);
        assert_eq!(machine.keep_shadow(NUMBER, &process, &fence), Ok(false));
        machine.set_monitored(NUMBER, u64::MAX);
        assert!(Signaller::new(&process).interrupts(machine, &fence, 6), "compared with memory");
    });
}
