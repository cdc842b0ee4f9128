//! What the code of a driver uses: levels, spin locks, memory, registers, time, and interrupts that
//! it reports. The functions of `foreign` check nothing and call these.
//!
//! Locks: `line` is outermost and is held while the interrupt routine, or a function of
//! DxgkCbSynchronizeExecution, runs. The others are innermost and are never held over a call.

use crate::address::{address_of, address_of_first, address_of_shared};
use crate::callers::Callers;
use crate::code_test::{CodeTest, Injected, Trial};
use crate::dpc_queue::{Agents, Routines};
use crate::handle_data::HandleData;
use crate::hardware::Hardware;
use crate::registry::{Handles, Registry, SOFTWARE_KEY};
use crate::rule::{BrokenRules, Finding, Rule};
use crate::steps::{Steps, When, is_step};
use crate::waitable::Waitables;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_ddi::{Callbacks, Dirql, Dispatch, FeatureInterface, Injection, InterruptData};
use tidegate_platform::level::{self, Level};
use tidegate_platform::{
    Bulk, CpuTime, Mutex, Page, PhysicalAddress, Platform, Step, WaitEnd, Word, current,
};

/// Published numbers of levels.
const APC_LEVEL: u32 = 1;
const DISPATCH_LEVEL: u32 = 2;
/// The level of the device's interrupt; x86-64 has 3 to 12 for devices.
const DEVICE_LEVEL: u32 = 5;

/// Words of an object of the kernel.
const OBJECT_WORDS: usize = 64;

/// Unlocked, locked, and locked with waiters.
const FREE: u64 = 0;
const LOCKED: u64 = 1;
const CONTENDED: u64 = 2;

/// The kernel around one driver.
pub(crate) struct Host {
    pub(crate) platform: Platform,
    pub(crate) hardware: Hardware,
    /// The name of the driver, for messages.
    pub(crate) name: String,
    /// Held while code at the device's level runs.
    pub(crate) line: Mutex<()>,
    /// What the code at that level has reported, in order. Forwarded when it returns.
    reports: Mutex<Reports>,
    kernel: Mutex<Option<Kernel>>,
    /// Spin locks by their address. A driver that initialises the memory again gets a free lock.
    locks: Mutex<BTreeMap<u64, Word>>,
    pool: Mutex<BTreeMap<u64, (u64, u32)>>,
    contiguous: Mutex<BTreeMap<u64, Contiguous>>,
    /// By hardware queue and type of the log.
    pub(crate) logs: Mutex<BTreeMap<(u64, u32), LogWindow>>,
    /// DPCs, timers, threads, work items.
    pub(crate) agents: Agents,
    /// Events, mutexes, semaphores.
    pub(crate) waitables: Mutex<Waitables>,
    pub(crate) callers: Mutex<Callers>,
    pub(crate) handles: Mutex<Handles>,
    pub(crate) handle_data: Mutex<HandleData>,
    /// Mapped bus addresses (MmMapIoSpace) and how often each is mapped.
    mappings: Mutex<BTreeMap<(u64, u64), u32>>,
    /// DeviceRegistryPath.
    software_path: Vec<u16>,
    /// CM_RESOURCE_LIST of the device, as words.
    resources: Vec<u64>,
    /// DRIVER_OBJECT and DEVICE_OBJECT. A driver keeps their addresses and reads no member.
    driver_object: Vec<u64>,
    device_object: Vec<u64>,
    private_data: Mutex<PrivateData>,
    /// Addresses of surfaces in their segments, and on the bus, of the last flips.
    pub(crate) shown: Mutex<VecDeque<(u64, PhysicalAddress)>>,
    violations: Arc<BrokenRules>,
    /// The steps of an exploration.
    steps: Option<Steps>,
    injected: Mutex<Injected>,
    pub(crate) injection: Option<Injection>,
    /// Failures of memory.
    pub(crate) trial: Mutex<Trial>,
}

/// What a driver gets from the kernel at start.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) callbacks: Arc<dyn Callbacks>,
    pub(crate) features: Arc<dyn FeatureInterface>,
}

/// A fence log, as the driver sees it: the header, and the entries after it.
pub(crate) struct LogWindow {
    /// CPU address of the header.
    pub(crate) at: u64,
    pub(crate) header_bytes: u64,
    pub(crate) header: PhysicalAddress,
    pub(crate) entries_bytes: u64,
    pub(crate) entries: PhysicalAddress,
}

impl LogWindow {
    fn bus_address(&self, at: u64) -> Option<u64> {
        let offset = at.checked_sub(self.at)?;
        match offset.checked_sub(self.header_bytes) {
            None => Some(self.header.0 + offset),
            Some(offset) if offset < self.entries_bytes => Some(self.entries.0 + offset),
            Some(_) => None,
        }
    }
}

#[derive(Default)]
struct Reports {
    data: Vec<InterruptData>,
    queue_dpc: bool,
}

/// Memory of a driver that its device reaches.
struct Contiguous {
    at: PhysicalAddress,
    bytes: u64,
    /// Keeps the memory. It is a page of words or a run of bytes.
    _memory: Memory,
}

enum Memory {
    Words(#[expect(dead_code, reason = "held")] Page),
    Bytes(#[expect(dead_code, reason = "held")] Bulk),
}

/// A DMA buffer: its context and its GPU address.
type Buffer = (u64, u64);

/// Private data of DMA buffers.
#[derive(Default)]
struct PrivateData {
    /// Of packets at the driver, by node and submission fence id.
    submitted: BTreeMap<(u32, u32), (Buffer, Vec<u64>)>,
    /// Of preempted packets, by buffer, in the order in which they were submitted.
    preempted: BTreeMap<Buffer, VecDeque<Vec<u64>>>,
}

impl Host {
    pub(crate) fn new(
        platform: &Platform,
        hardware: Hardware,
        name: String,
        resources: Vec<u64>,
        routines: Routines,
        (registry, CodeTest { steps, injection }): (Registry, CodeTest),
    ) -> Host {
        let of_model = hardware.model.as_ref().map(|model| model.broken());
        let injected = Injected::new(injection);
        Host {
            platform: platform.clone(),
            hardware,
            name,
            line: platform.mutex("driver's interrupt line", ()),
            reports: platform.mutex("driver's reports", Reports::default()),
            kernel: platform.mutex("driver's kernel", None),
            locks: platform.mutex("driver's spin locks", BTreeMap::new()),
            pool: platform.mutex("driver's pool", BTreeMap::new()),
            contiguous: platform.mutex("driver's contiguous memory", BTreeMap::new()),
            logs: platform.mutex("driver's fence logs", BTreeMap::new()),
            agents: Agents::new(platform, routines),
            waitables: platform.mutex("driver's objects", Waitables::new()),
            callers: platform.mutex("driver's callers", Callers::default()),
            handles: platform.mutex("driver's handles", Handles::new(registry)),
            handle_data: platform.mutex("data of handles", HandleData::default()),
            mappings: platform.mutex("driver's mappings", BTreeMap::new()),
            software_path: SOFTWARE_KEY.encode_utf16().chain([0]).collect(),
            resources,
            driver_object: vec![0; OBJECT_WORDS],
            device_object: vec![0; OBJECT_WORDS],
            private_data: platform.mutex("driver's private data", PrivateData::default()),
            shown: platform.mutex("driver's surfaces", VecDeque::new()),
            violations: of_model.unwrap_or_else(|| Arc::new(BrokenRules::new(platform))),
            steps,
            injected: platform.mutex("driver's injected failure", injected),
            injection,
            trial: platform.mutex("driver's failing memory", Trial::default()),
        }
    }

    /// Has injected failures begin: the driver has started.
    pub(crate) fn begin_injection(&self) {
        self.injected.lock().begin();
    }

    /// Returns whether a call fails, because a failure is injected.
    pub(crate) fn fails(&self, what: Injection) -> bool {
        self.injected.lock_device().fails(what)
    }

    /// Counts a step of the driver's code, if it is explored and the function is a step.
    pub(crate) fn step(&self, function: &str, when: When) {
        if let Some(steps) = &self.steps
            && is_step(function, when)
        {
            steps.step(&self.platform, function, when);
        }
    }

    /// Runs a callback of the kernel between two steps.
    pub(crate) fn between_steps<R>(&self, callback: &str, call: impl FnOnce() -> R) -> R {
        let step = |when| {
            if let Some(steps) = &self.steps {
                steps.step(&self.platform, callback, when);
            }
        };
        step(When::Before);
        let result = call();
        step(When::After);
        result
    }

    pub(crate) fn begin_entry(&self, entry: &str) {
        if let Some(steps) = &self.steps {
            steps.begin(&self.platform, entry);
        }
    }

    pub(crate) fn end_entry(&self) {
        self.steps.iter().for_each(Steps::end);
    }

    /// Returns the address of the device's resources.
    pub(crate) fn resources_at(&self) -> u64 {
        address_of_shared(&self.resources)
    }

    pub(crate) fn driver_object_at(&self) -> u64 {
        address_of_shared(&self.driver_object)
    }

    pub(crate) fn device_object_at(&self) -> u64 {
        address_of_shared(&self.device_object)
    }

    /// Returns DeviceRegistryPath as a UNICODE_STRING.
    pub(crate) fn software_path_words(&self) -> [u64; 2] {
        let bytes = 2 * self.software_path.len() as u64;
        [(bytes - 2) | bytes << 16, address_of_shared(&self.software_path)]
    }

    /// Prints a message of the driver.
    pub(crate) fn print(&self, text: &str) {
        eprintln!("driver {}: {text}", self.name);
    }

    /// Sets or clears what the kernel has given at start.
    pub(crate) fn set_kernel(&self, kernel: Option<Kernel>) {
        *self.kernel.lock() = kernel;
    }

    pub(crate) fn kernel(&self) -> Option<Kernel> {
        self.kernel.lock().clone()
    }

    /// Records a broken rule.
    pub(crate) fn violation(&self, rule: Rule, text: impl Into<String>) {
        self.violations.add(rule, text.into());
    }

    pub(crate) fn violations(&self) -> (u64, Vec<Finding>) {
        self.violations.all()
    }

    // Levels.

    /// Returns the published number of the level.
    pub(crate) fn level(&self) -> u32 {
        match level::current() {
            Level::Passive => u32::from(self.is_at_apc()),
            Level::Dispatch => DISPATCH_LEVEL,
            Level::Dirql => DEVICE_LEVEL,
        }
    }

    /// Sets the level. Returns the previous one.
    pub(crate) fn set_level(&self, number: u32) -> u32 {
        let before = self.level();
        if number < DISPATCH_LEVEL {
            self.set_apc(number == APC_LEVEL);
        }
        level::exchange(match number {
            0..DISPATCH_LEVEL => Level::Passive,
            DISPATCH_LEVEL => Level::Dispatch,
            _ => Level::Dirql,
        });
        before
    }

    /// Returns whether the level is at most `highest`, and records the call of `function` if not.
    /// Checks the stack as well.
    pub(crate) fn check_level(&self, function: &str, highest: u32) -> bool {
        self.check_stack(function, address_of(&mut 0_u8));
        let now = self.level();
        if now > highest {
            self.violation(
                Rule::Level,
                format!("{function} at level {now}: the highest is {highest}"),
            );
        }
        now <= highest
    }

    /// Runs code of the driver at a level, and checks that it leaves the level unchanged and every
    /// critical region.
    pub(crate) fn at_level<R>(&self, entry: &str, at: Level, call: impl FnOnce() -> R) -> R {
        current::assert_no_guards("an entry of a driver in C");
        self.platform.spend(Step::DdiCall);
        let raised = level::raise(at);
        let (before, regions) = (self.level(), self.regions());
        let result = self.on_stack(entry, call);
        let after = self.set_level(before);
        if self.regions() > regions {
            self.violation(Rule::LevelKept, format!("{entry} returned in a critical region"));
        }
        if after != before {
            self.violation(
                Rule::LevelKept,
                format!("{entry} returned at level {after}: it was called at {before}"),
            );
        }
        drop(raised);
        result
    }

    // Spin locks.

    fn lock_word(&self, at: u64) -> Word {
        let mut locks = self.locks.lock();
        let made = || self.platform.page(1).named("a driver's spin lock").word(0);
        locks.entry(at).or_insert_with(made).clone()
    }

    pub(crate) fn forget_lock(&self, at: u64) {
        self.locks.lock().remove(&at);
    }

    pub(crate) fn try_lock(&self, at: u64) -> bool {
        self.lock_word(at).compare_exchange(FREE, LOCKED).is_ok()
    }

    /// Waits until the lock is free. The holder is at DISPATCH level on another agent and needs
    /// nothing of this one.
    pub(crate) fn acquire_lock(&self, at: u64) {
        let word = self.lock_word(at);
        if word.compare_exchange(FREE, LOCKED).is_ok() {
            return;
        }
        while word.exchange(CONTENDED) != FREE {
            if word.wait_while(CONTENDED as u32, None, "a spin lock of the driver")
                == WaitEnd::Stopped
            {
                return;
            }
        }
    }

    pub(crate) fn release_lock(&self, at: u64) {
        let word = self.lock_word(at);
        match word.exchange(FREE) {
            LOCKED => {}
            CONTENDED => word.wake(1, Step::ThreadWake),
            _ => self.violation(
                Rule::Lock,
                format!("the spin lock at {at:#x} was released but not held"),
            ),
        }
    }

    // Pool.

    pub(crate) fn pool_allocated(&self, at: u64, bytes: u64, tag: u32) {
        self.pool.lock().insert(at, (bytes, tag));
    }

    /// Returns whether the memory was allocated and not freed, with this tag unless it is 0.
    pub(crate) fn pool_freed(&self, at: u64, tag: u32) -> bool {
        let removed = self.pool.lock().remove(&at);
        match removed {
            None => {
                self.violation(
                    Rule::Pool,
                    format!("a free of {at:#x}: it is not allocated pool memory"),
                );
            }
            Some((bytes, of)) if tag != 0 && of != tag => self.violation(
                Rule::Pool,
                format!(
                    "pool memory of {bytes} bytes with tag {} was freed with tag {}",
                    tag_text(of),
                    tag_text(tag)
                ),
            ),
            Some(_) => {}
        }
        removed.is_some()
    }

    /// Returns whether an allocation fails, because a failure is injected.
    pub(crate) fn allocation_fails(&self) -> bool {
        self.injection.is_some() && self.trial.lock_device().fails()
    }

    /// Returns how many blocks of memory and mappings the driver has.
    pub(crate) fn memory_held(&self) -> usize {
        let mappings: u32 = self.mappings.lock().values().sum();
        self.pool.lock().len() + self.contiguous.lock().len() + mappings as usize
    }

    /// Records the memory that a driver has not freed, by tag, when it is unloaded.
    pub(crate) fn check_leaks(&self) {
        let pool = std::mem::take(&mut *self.pool.lock());
        let mut by_tag: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (bytes, tag) in pool.into_values() {
            let (blocks, sum) = by_tag.entry(tag).or_default();
            (*blocks, *sum) = (*blocks + 1, *sum + bytes);
        }
        for (tag, (blocks, bytes)) in by_tag {
            let tag = tag_text(tag);
            self.violation(Rule::Leak, format!(
                "the driver was unloaded with {blocks} blocks of pool memory with tag {tag}, {bytes} bytes"
            ));
        }
        let mappings = self.mappings.lock().len();
        if mappings > 0 {
            self.violation(
                Rule::Leak,
                format!("the driver was unloaded with {mappings} mappings of MmMapIoSpace"),
            );
        }
        self.check_handles();
        let contiguous = self.contiguous.lock().len();
        if contiguous > 0 {
            self.violation(
                Rule::Leak,
                format!("the driver was unloaded with {contiguous} blocks of contiguous memory"),
            );
        }
    }

    // Contiguous memory.

    /// Allocates memory that the device reaches: words, which it accesses one at a time, or bytes.
    /// Returns 0 before the device is started.
    pub(crate) fn allocate_contiguous(&self, bytes: u64, words: bool) -> u64 {
        let Ok(size) = usize::try_from(bytes) else { return 0 };
        if self.allocation_fails() {
            return 0;
        }
        if size == 0 {
            self.violation(Rule::Contiguous, "an allocation of 0 bytes of contiguous memory");
            return 0;
        }
        let (at, cpu, memory) = if words {
            let (at, page) = self.hardware.system_memory.protocol(size.div_ceil(8));
            (at, Some(page.word(0).cpu_address()), Memory::Words(page))
        } else {
            let (at, bulk) = self.hardware.system_memory.bulk(size);
            (at, bulk.cpu_address(), Memory::Bytes(bulk))
        };
        let Some(cpu) = cpu else { return 0 };
        let contiguous = Contiguous { at, bytes, _memory: memory };
        self.contiguous.lock().insert(cpu, contiguous);
        cpu
    }

    /// Frees memory of [`Host::allocate_contiguous`], also after the device was stopped.
    pub(crate) fn free_contiguous(&self, at: u64) -> bool {
        let removed = self.contiguous.lock().remove(&at);
        let Some(removed) = removed else {
            self.violation(
                Rule::Contiguous,
                format!("a free of {at:#x}: it is not contiguous memory"),
            );
            return false;
        };
        self.hardware.system_memory.remove(removed.at);
        true
    }

    /// Returns the bus address of contiguous memory or of a fence log.
    pub(crate) fn bus_address(&self, at: u64) -> Option<u64> {
        let found = {
            let contiguous = self.contiguous.lock();
            let found = contiguous.range(..=at).next_back();
            let found = found.filter(|(start, memory)| at - **start < memory.bytes);
            found.map(|(start, memory)| memory.at.0 + (at - start))
        };
        found.or_else(|| self.logs.lock().values().find_map(|log| log.bus_address(at)))
    }

    /// Returns the address at which a driver sees a range of the bus (MmMapIoSpace), or 0.
    pub(crate) fn map_io(&self, bus: u64, bytes: u64) -> u64 {
        let Some(at) = self.hardware.function.window(bus, bytes) else {
            self.violation(
                Rule::Mapping,
                format!(
                    "MmMapIoSpace of {bytes} bytes at {bus:#x}: the device has registers at {}",
                    self.hardware.function.ranges()
                ),
            );
            return 0;
        };
        *self.mappings.lock().entry((at, bytes)).or_default() += 1;
        at
    }

    /// MmUnmapIoSpace.
    pub(crate) fn unmap_io(&self, at: u64, bytes: u64) {
        let known = {
            let mut mappings = self.mappings.lock();
            let count = mappings.get_mut(&(at, bytes));
            let left = count.map(|count| {
                *count -= 1;
                *count
            });
            if left == Some(0) {
                mappings.remove(&(at, bytes));
            }
            left.is_some()
        };
        if !known {
            self.violation(
                Rule::Mapping,
                format!("MmUnmapIoSpace of {bytes} bytes at {at:#x}, which are not mapped"),
            );
        }
    }

    /// Returns the bus address of contiguous memory, or 0.
    pub(crate) fn physical_address(&self, at: u64) -> u64 {
        self.bus_address(at).unwrap_or_else(|| {
            self.violation(
                Rule::BusAddress,
                format!("{at:#x} has no bus address: it is not contiguous memory"),
            );
            0
        })
    }

    // Registers.

    /// KeBugCheckEx. Ends the run.
    pub(crate) fn bug_check(&self, code: u32, parameters: [u64; 4]) -> ! {
        self.violation(Rule::Assertion, format!("KeBugCheckEx with the code {code:#x}"));
        panic!("the driver {} called KeBugCheckEx({code:#x}, {parameters:#x?})", self.name)
    }

    /// Reads a register. An access that hits none returns all ones, as a bus does.
    pub(crate) fn read_register(&self, at: u64, bytes: u32) -> u64 {
        self.hardware.read(at, bytes).unwrap_or_else(|what| {
            self.violation(Rule::Register, what);
            u64::MAX
        })
    }

    pub(crate) fn write_register(&self, at: u64, bytes: u32, value: u64) {
        if let Err(what) = self.hardware.write(at, bytes, value) {
            self.violation(Rule::Register, what);
        }
    }

    // Time.

    /// Blocks for units of 100 ns. Returns `false` if the machine stops.
    pub(crate) fn delay(&self, units: u64) -> bool {
        let end = self.platform.now().after(units.saturating_mul(100));
        let slept = self.platform.sleep_until(end) != WaitEnd::Stopped;
        if !slept {
            self.end_stopped_thread();
        }
        slept
    }

    pub(crate) fn stall(&self, microseconds: u32) {
        self.platform.busy(u64::from(microseconds) * 1_000);
    }

    /// Returns the time in units of 100 ns.
    pub(crate) fn time(&self) -> u64 {
        let CpuTime(ns) = self.platform.now();
        ns / 100
    }

    // Interrupts.

    /// Takes a report at the device's level.
    pub(crate) fn notify_interrupt(&self, data: InterruptData) {
        if level::current() != Level::Dirql {
            let now = self.level();
            self.violation(
                Rule::Interrupt,
                format!(
                    "DxgkCbNotifyInterrupt at level {now}: call it in the interrupt routine or in \
                 DxgkCbSynchronizeExecution"
                ),
            );
        }
        self.reports.lock().data.push(data);
    }

    /// DxgkCbQueueDpc. At the device's level the DPC is queued when that code returns.
    pub(crate) fn queue_dpc(&self) {
        let queue = || self.reports.lock().queue_dpc = true;
        if level::current() == Level::Dirql {
            return queue();
        }
        let line = self.line.lock_device();
        queue();
        self.forward_with(&line);
    }

    /// Gives the reports to the kernel. The caller holds `line`.
    pub(crate) fn forward(&self, level: &Dirql<'_>) {
        let reports = std::mem::take(&mut *self.reports.lock());
        let notified = !reports.data.is_empty();
        let Some(Kernel { callbacks, .. }) = self.kernel() else {
            if notified {
                let what = "DxgkCbNotifyInterrupt while the device is stopped: the report is lost";
                self.violation(Rule::Interrupt, what);
            }
            return;
        };
        for data in reports.data {
            self.release_private_data(&data);
            callbacks.notify_interrupt(level, self.on_bus(data));
        }
        if reports.queue_dpc {
            callbacks.queue_dpc(level);
        } else if notified {
            self.violation(
                Rule::Dpc,
                "DxgkCbNotifyInterrupt without DxgkCbQueueDpc: no DPC calls DxgkCbNotifyDpc",
            );
        }
    }

    /// As [`Host::forward`], at DISPATCH level or below. `line` is the guard of the line.
    fn forward_with<G>(&self, line: &G) {
        self.forward(&Dispatch::enter().raise_to_dirql(line));
    }

    /// Keeps the private data of a packet until it is complete. A packet that was preempted has the
    /// data of its first submission. Returns its address.
    pub(crate) fn keep_private_data(
        &self,
        (node, fence_id): (u32, u32),
        buffer: Buffer,
        bytes: u32,
    ) -> u64 {
        let mut private_data = self.private_data.lock();
        let kept = private_data.preempted.get_mut(&buffer).and_then(VecDeque::pop_front);
        let mut data = kept.unwrap_or_else(|| vec![0; bytes.div_ceil(8) as usize]);
        let at = address_of_first(&mut data);
        private_data.submitted.insert((node, fence_id), (buffer, data));
        at
    }

    /// Drops the private data of packets that are complete, and keeps that of packets that come
    /// back to the kernel.
    fn release_private_data(&self, data: &InterruptData) {
        let (node, last, comes_back) = match *data {
            InterruptData::DmaCompleted { engine, submission_fence_id } => {
                (engine.node_ordinal, submission_fence_id, false)
            }
            InterruptData::DmaPreempted { engine, last_completed_fence_id, .. } => {
                (engine.node_ordinal, last_completed_fence_id, true)
            }
            _ => return,
        };
        let is_done = |id: u32| last.wrapping_sub(id) <= u32::MAX / 2;
        let mut private_data = self.private_data.lock();
        let PrivateData { submitted, preempted } = &mut *private_data;
        submitted.retain(|(of, id), _| *of != node || !is_done(*id));
        if comes_back {
            let back = submitted.extract_if((node, 0)..=(node, u32::MAX), |_, _| true);
            let mut back: Vec<_> = back.collect();
            back.sort_by_key(|((_, id), _)| id.wrapping_sub(last));
            for (_, (buffer, data)) in back {
                preempted.entry(buffer).or_default().push_back(data);
            }
        }
    }

    /// Drops the private data of a context that ends.
    pub(crate) fn drop_private_data(&self, context: u64) {
        let mut private_data = self.private_data.lock();
        private_data.preempted.retain(|(of, _), _| *of != context);
        private_data.submitted.retain(|_, ((of, _), _)| *of != context);
    }

    /// Runs a function at the device's level, ordered with the interrupt routine
    /// (DxgkCbSynchronizeExecution, KeSynchronizeExecution).
    pub(crate) fn synchronize(&self, name: &str, call: impl FnOnce() -> bool) -> Option<bool> {
        if !self.check_level(name, DISPATCH_LEVEL) {
            return None;
        }
        let line = self.line.lock_device();
        let result = {
            let _raised = level::raise(Level::Dirql);
            call()
        };
        self.forward_with(&line);
        Some(result)
    }

    /// DxgkCbNotifyDpc.
    pub(crate) fn notify_dpc(&self) {
        let now = self.level();
        if now != DISPATCH_LEVEL {
            self.violation(
                Rule::Level,
                format!("DxgkCbNotifyDpc at level {now}: the level must be DISPATCH"),
            );
            return;
        }
        if let Some(Kernel { callbacks, .. }) = self.kernel() {
            callbacks.notify_dpc(&Dispatch::enter());
        }
    }
}

/// Returns the four characters of a tag.
fn tag_text(tag: u32) -> String {
    let letter = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
    format!("'{}'", tag.to_le_bytes().map(letter).iter().collect::<String>())
}
