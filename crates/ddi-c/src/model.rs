//! A device in a library of the user: its registers, DMA, interrupts and time. The calls of the
//! library are in `foreign`.
//!
//! Invariants:
//! - the library's code runs under the lock `code`: in a register access of the driver, or in a
//!   turn of the model's agent;
//! - the interrupt sink is called on that agent, with no lock held;
//! - locks are taken in the order `code`, then those of [`ModelBus`], which are innermost.
//!
//! Entry points: [`DeviceModel`], and [`ModelBus`] for the functions that the library calls.

use crate::pci::{Identity, MOST_BARS, PciFunction};
use crate::rule::{BrokenRules, Rule};
use std::sync::{Arc, Weak};
use tidegate_gpu_abi::device::END_OF_TURN;
use tidegate_gpu_abi::program::Argument;
use tidegate_gpu_abi::{Device, InterruptSink, QueueId, Register, Summary};
use tidegate_platform::{
    Agent, CpuTime, Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, ServiceHandle, Step,
    Target, Turn, WaitClass, WakeWord, Word,
};

/// Nodes of a device.
pub(crate) const MOST_NODES: usize = 48;
/// Kinds of nodes.
const KINDS: u32 = 5;
/// The sizes of a range of registers.
const BAR_BYTES: std::ops::RangeInclusive<u64> = 1 << 12..=1 << 31;
/// Messages of a function.
const MOST_MESSAGES: u32 = 32;
const LEAST_REFRESH_NS: u64 = 1_000;
const MOST_REVISION: u32 = 0xFF;
const MOST_CLASS: u32 = 0xFF_FFFF;
/// The class code of a 3D controller, for a model that states none.
const CONTROLLER_3D: u32 = 0x03_02_00;
/// The answer of `step` of an idle model.
const IDLE: u64 = u64::MAX;
/// Steps that a model may ask for at once, without a write of a register between them.
const MOST_STEPS_AT_ONCE: u32 = 1 << 16;
/// Steps of the device that the caller makes after a register access.
const MOST_STEPS_OF_AN_ACCESS: u32 = 1 << 10;
/// Problems that are kept with their text.
const KEPT_PROBLEMS: usize = 64;

/// What a model says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) vendor_id: u16,
    pub(crate) device_id: u16,
    pub(crate) revision: u32,
    pub(crate) class_code: u32,
    pub(crate) messages: u32,
    pub(crate) bar_bytes: [u64; MOST_BARS],
    pub(crate) traits: u64,
    pub(crate) refresh_period_ns: u64,
    pub(crate) node_count: u32,
    /// Kind and traits of each node.
    pub(crate) nodes: Vec<(u32, u32)>,
}

impl Description {
    /// # Errors
    /// The value that cannot be, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let [first, second] = self.bar_bytes;
        let is_size = |bytes: &u64| bytes.is_power_of_two() && BAR_BYTES.contains(bytes);
        let bars = [(0, first)].into_iter().chain((second != 0).then_some((1, second)));
        if let Some((number, bytes)) = bars.into_iter().find(|(_, bytes)| !is_size(bytes)) {
            return Err(format!(
                "bar_bytes[{number}] is {bytes}: it must be a power of two from 4096 to 2147483648"
            ));
        }
        if self.messages != 0
            && !(self.messages.is_power_of_two() && self.messages <= MOST_MESSAGES)
        {
            return Err(format!(
                "messages is {}: it must be 0 for a line, or 1, 2, 4, 8, 16 or 32",
                self.messages
            ));
        }
        let nodes = self.node_count as usize;
        if nodes == 0 || nodes > MOST_NODES {
            return Err(format!("node_count is {nodes}: 1 to {MOST_NODES} are possible"));
        }
        let mut nodes = self.nodes.iter().take(nodes).enumerate();
        if let Some((number, (kind, _))) = nodes.find(|(_, (kind, _))| *kind >= KINDS) {
            return Err(format!("nodes[{number}].kind is {kind}: 0 to {} are possible", KINDS - 1));
        }
        let most = |name: &str, value: u32, most: u32| match value > most {
            true => Err(format!("{name} is {value:#x}: at most {most:#x}")),
            false => Ok(()),
        };
        most("revision", self.revision, MOST_REVISION)?;
        most("class_code", self.class_code, MOST_CLASS)?;
        if (1..LEAST_REFRESH_NS).contains(&self.refresh_period_ns) {
            return Err(format!(
                "refresh_period_ns is {}: at least {LEAST_REFRESH_NS}, or 0 without a display",
                self.refresh_period_ns
            ));
        }
        Ok(())
    }

    fn function(&self) -> PciFunction {
        let class = if self.class_code == 0 { CONTROLLER_3D } else { self.class_code };
        let identity = Identity {
            vendor: self.vendor_id,
            device: self.device_id,
            revision: self.revision as u8,
            class,
        };
        let bars = if self.bar_bytes[1] == 0 { &self.bar_bytes[..1] } else { &self.bar_bytes[..] };
        PciFunction::of_sizes(identity, bars, self.messages)
    }
}

/// The code of a model. One agent calls it at a time.
pub(crate) trait ModelCode: Send {
    fn read(&self, bar: u32, offset: u64, bytes: u32) -> u64;
    fn write(&self, bar: u32, offset: u64, bytes: u32, value: u64);
    /// Returns nanoseconds until the next step, or [`IDLE`].
    fn step(&self) -> u64;
    fn reset(&self);
    /// Returns the last packet that a node has completed, if the model says so.
    fn completed(&self, node: u32) -> Option<u32>;
}

/// The interrupts of a model, and what its agent has to do.
#[derive(Default)]
struct Signals {
    /// Messages that the model declares; `None` before it has described itself.
    declared: Option<u32>,
    is_high: bool,
    /// The line stays low for the driver, which has not lowered it.
    is_masked: bool,
    /// A bit for each message that is not served.
    messages: u32,
    /// The line went up, or a message was sent, and the sink was not called yet.
    is_new: bool,
    /// A register was written, and the model has made no step since.
    is_written: bool,
    /// The driver starts the device, and may read a register until it changes.
    is_starting: bool,
}

#[derive(Default)]
struct Problems {
    count: u64,
    kept: Vec<String>,
}

/// What the library of a model reaches: memory, interrupts, time.
pub(crate) struct ModelBus {
    platform: Platform,
    name: String,
    local: Option<PhysicalMemory>,
    pub(crate) local_base: u64,
    pub(crate) local_bytes: u64,
    /// From the start of the device on.
    system: Mutex<Option<PhysicalMemory>>,
    signals: Mutex<Signals>,
    problems: Mutex<Problems>,
    /// Shared with the host of the driver.
    broken: Arc<BrokenRules>,
}

impl ModelBus {
    /// The bus of a model on a machine. `gpu` has the machine's local memory.
    pub(crate) fn new(platform: &Platform, name: String, gpu: &dyn Device) -> ModelBus {
        ModelBus {
            platform: platform.clone(),
            name,
            local: gpu.local_memory(0).cloned(),
            local_base: gpu.read_register(Register::LOCAL_MEMORY_BASE),
            local_bytes: gpu.local_memory_bytes(),
            system: platform.mutex("model's system memory", None),
            signals: platform.mutex("model's interrupts", Signals::default()),
            problems: platform.mutex("model's problems", Problems::default()),
            broken: Arc::new(BrokenRules::new(platform)),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        let CpuTime(ns) = self.platform.now();
        ns
    }

    pub(crate) fn print(&self, text: &str) {
        eprintln!("device model {}: {text}", self.name);
    }

    /// Records a misuse of the host's functions, or an impossible answer.
    fn problem(&self, text: String) {
        let mut problems = self.problems.lock();
        problems.count += 1;
        if problems.kept.len() < KEPT_PROBLEMS {
            problems.kept.push(text);
        }
    }

    // Memory.

    /// Returns the memory at a bus address, and how many of the wanted bytes are in one piece.
    fn piece(&self, at: u64, wanted: usize) -> Option<(Target, usize)> {
        let target = match at >= self.local_base {
            true => self.local.as_ref()?.resolve(PhysicalAddress(at))?,
            false => self.system.lock().clone()?.resolve(PhysicalAddress(at))?,
        };
        let here = match &target {
            Target::Bulk(bulk, offset) => bulk.len() - offset,
            Target::Protocol(_, offset) => 8 - offset % 8,
        };
        Some((target, wanted.min(usize::try_from(here).unwrap_or(usize::MAX))))
    }

    fn no_memory(&self, direction: &str, at: u64, bytes: usize, done: usize) -> bool {
        let missing = at.saturating_add(done as u64);
        let what = match self.system.lock().is_some() {
            true => "no memory is there",
            false => "the device is not started",
        };
        self.broken.add(
            Rule::Dma,
            format!("{direction} of {bytes} bytes at {at:#x} by the device: {missing:#x}: {what}"),
        );
        false
    }

    /// Reads memory. Returns `false` if a part of the range has none.
    // spec: PRE-180
    pub(crate) fn dma_read(&self, at: u64, out: &mut [u8]) -> bool {
        let mut done = 0;
        while done < out.len() {
            let here = at.checked_add(done as u64).and_then(|at| self.piece(at, out.len() - done));
            let Some((target, bytes)) = here else {
                return self.no_memory("a read", at, out.len(), done);
            };
            let part = &mut out[done..done + bytes];
            match target {
                Target::Bulk(bulk, offset) => {
                    if bulk.read(offset, part).is_err() {
                        return false;
                    }
                }
                Target::Protocol(page, offset) => {
                    let word = page.load((offset / 8) as usize).to_le_bytes();
                    let begin = (offset % 8) as usize;
                    part.copy_from_slice(&word[begin..begin + bytes]);
                }
            }
            done += bytes;
        }
        true
    }

    /// Writes memory, as [`ModelBus::dma_read`] reads.
    pub(crate) fn dma_write(&self, at: u64, from: &[u8]) -> bool {
        let mut done = 0;
        while done < from.len() {
            let here = at.checked_add(done as u64).and_then(|at| self.piece(at, from.len() - done));
            let Some((target, bytes)) = here else {
                return self.no_memory("a write", at, from.len(), done);
            };
            let part = &from[done..done + bytes];
            match target {
                Target::Bulk(bulk, offset) => {
                    if bulk.write(offset, part).is_err() {
                        return false;
                    }
                }
                Target::Protocol(page, offset) => {
                    write_word(&page.word((offset / 8) as usize), (offset % 8) as usize, part);
                }
            }
            done += bytes;
        }
        true
    }

    // Interrupts.

    pub(crate) fn set_line(&self, is_high: bool) {
        let misuse = {
            let mut signals = self.signals.lock();
            match signals.declared {
                Some(0) => {
                    signals.is_new |= is_high && !signals.is_high;
                    signals.is_high = is_high;
                    signals.is_masked &= is_high;
                    None
                }
                Some(declared) => {
                    Some(format!("set_line of a device with {declared} messages: it has no line"))
                }
                None => Some("set_line before tidegate_device_open has returned".to_owned()),
            }
        };
        misuse.into_iter().for_each(|text| self.problem(text));
    }

    pub(crate) fn send_message(&self, message: u32) {
        let misuse = {
            let mut signals = self.signals.lock();
            match signals.declared {
                Some(declared) if message < declared => {
                    signals.is_new |= signals.messages & 1 << message == 0;
                    signals.messages |= 1 << message;
                    None
                }
                Some(declared) => {
                    Some(format!("send_message of {message}: the device declares {declared}"))
                }
                None => Some("send_message before tidegate_device_open has returned".to_owned()),
            }
        };
        misuse.into_iter().for_each(|text| self.problem(text));
    }
}

/// Stores some bytes of a word; others of it may be stored at the same time.
fn write_word(word: &Word, begin: usize, part: &[u8]) {
    if let Ok(whole) = <[u8; 8]>::try_from(part) {
        return word.store(u64::from_le_bytes(whole));
    }
    let mut seen = word.load();
    loop {
        let mut bytes = seen.to_le_bytes();
        bytes[begin..begin + part.len()].copy_from_slice(part);
        match word.compare_exchange(seen, u64::from_le_bytes(bytes)) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// When a model wants to make its next step.
enum Next {
    AtOnce,
    At(CpuTime),
    AfterAWrite,
}

/// A device whose code is a library of the user (`include/wddm/tidegate_device.h`), on the bus of
/// one machine.
pub struct DeviceModel {
    bus: Arc<ModelBus>,
    description: Description,
    /// The machine's GPU, which has the local memory, and does nothing else.
    gpu: Arc<dyn Device>,
    code: Mutex<Box<dyn ModelCode>>,
    wake: WakeWord,
    service: Mutex<Option<ServiceHandle>>,
    sink: Mutex<Option<Arc<dyn InterruptSink>>>,
}

impl DeviceModel {
    /// A model that has described itself.
    pub(crate) fn new(
        bus: Arc<ModelBus>,
        gpu: Arc<dyn Device>,
        description: Description,
        code: Box<dyn ModelCode>,
    ) -> DeviceModel {
        bus.signals.lock().declared = Some(description.messages);
        let platform = &bus.platform;
        DeviceModel {
            code: platform.mutex("device model", code),
            wake: WakeWord::new(platform),
            service: platform.mutex("model's service", None),
            sink: platform.mutex("model's interrupt sink", None),
            bus,
            description,
            gpu,
        }
    }

    pub(crate) fn function(&self) -> PciFunction {
        self.description.function()
    }

    pub(crate) fn broken(&self) -> Arc<BrokenRules> {
        Arc::clone(&self.bus.broken)
    }

    /// Returns what the library did wrong. At most 64 have their text; a last line counts others.
    pub fn problems(&self) -> Vec<String> {
        let problems = self.bus.problems.lock();
        let more = problems.count - problems.kept.len() as u64;
        let more = (more > 0).then(|| format!("{more} more"));
        problems.kept.iter().cloned().chain(more).collect()
    }

    /// Returns the last packet that a node has completed, if the model says so.
    pub fn completed(&self, node: u32) -> Option<u32> {
        (node < self.description.node_count).then(|| self.code.lock_device().completed(node))?
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.description.node_count
    }

    // Start and stop.

    /// Resets the model and starts its agent. `system_memory` is what its DMA reaches.
    pub(crate) fn begin(self: &Arc<DeviceModel>, system_memory: PhysicalMemory) {
        *self.bus.system.lock() = Some(system_memory);
        {
            let code = self.code.lock_device();
            let mut signals = self.bus.signals.lock();
            let declared = signals.declared;
            *signals = Signals { declared, is_written: true, ..Signals::default() };
            drop(signals);
            code.reset();
        }
        let agent = ModelAgent {
            model: Arc::downgrade(self),
            platform: self.bus.platform.clone(),
            due: None,
            at_once: 0,
        };
        let name = format!("device model {}", self.bus.name);
        let agents: Vec<Box<dyn Agent>> = vec![Box::new(agent)];
        let service = self.bus.platform.spawn_service(name, self.wake.clone(), agents);
        *self.service.lock() = Some(service);
    }

    /// The driver begins to start the device, or ends it.
    pub(crate) fn set_starting(&self, is_starting: bool) {
        self.bus.signals.lock().is_starting = is_starting;
    }

    /// Ends what [`DeviceModel::begin`] began, after the driver has stopped the device.
    pub(crate) fn end(&self) {
        self.stop();
        *self.bus.system.lock() = None;
    }

    /// Stops the agent, so that pending work stays pending.
    pub fn stop(&self) {
        let Some(service) = self.service.lock().take() else { return };
        service.stop();
        // An agent of a machine that never ran ends here: it would keep the machine.
        self.bus.platform.rest_unless_run();
    }

    // Registers.

    pub(crate) fn read(&self, bar: u32, offset: u64, bytes: u32) -> u64 {
        let value = self.code.lock_device().read(bar, offset, bytes);
        self.go_on(false);
        value
    }

    pub(crate) fn write(&self, bar: u32, offset: u64, bytes: u32, value: u64) {
        self.code.lock_device().write(bar, offset, bytes, value);
        self.go_on(true);
    }

    /// Wakes the agent after an access. On a cooperative machine no agent moves while the driver
    /// reads a register again and again, and none outside of the run: at the start of the device,
    /// and then, the caller makes the steps.
    fn go_on(&self, is_write: bool) {
        let (has_work, is_starting) = {
            let mut signals = self.bus.signals.lock();
            signals.is_written |= is_write;
            (is_write || signals.is_new, signals.is_starting)
        };
        let platform = &self.bus.platform;
        if platform.is_cooperative() && (is_starting || !platform.is_current()) {
            for _ in 0..MOST_STEPS_OF_AN_ACCESS {
                if self.code.lock_device().step() != 0 {
                    break;
                }
            }
        }
        if has_work {
            self.wake.ring(Step::DoorbellToFetch);
        }
    }

    // The agent.

    fn take_written(&self) -> bool {
        std::mem::take(&mut self.bus.signals.lock().is_written)
    }

    fn step(&self) -> Next {
        let ns = self.code.lock_device().step();
        match ns {
            0 => Next::AtOnce,
            IDLE => Next::AfterAWrite,
            ns => Next::At(self.bus.platform.now().after(ns)),
        }
    }

    /// Calls the sink for a line that went up, or for messages. Returns whether it did.
    fn deliver(&self) -> bool {
        if !std::mem::take(&mut self.bus.signals.lock().is_new) {
            return false;
        }
        let sink = self.sink.lock().clone();
        sink.iter().for_each(|sink| sink.raise());
        true
    }

    fn end_turn(&self) {
        let sink = self.sink.lock().clone();
        sink.iter().for_each(|sink| sink.turn_ended());
    }

    // The interrupt routine.

    /// Returns whether its interrupts are messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.description.messages > 0
    }

    /// Takes the number of the lowest message that is not served.
    pub(crate) fn take_message(&self) -> Option<u32> {
        let mut signals = self.bus.signals.lock();
        let message = (signals.messages != 0).then(|| signals.messages.trailing_zeros())?;
        signals.messages &= !(1 << message);
        Some(message)
    }

    /// Returns whether the line calls for the interrupt routine.
    pub(crate) fn is_line_high(&self) -> bool {
        let signals = self.bus.signals.lock();
        signals.is_high && !signals.is_masked
    }

    /// Keeps the line low for the driver until the model lowers it.
    pub(crate) fn mask_line(&self) {
        self.bus.signals.lock().is_masked = true;
    }
}

/// The agent of a model. It makes the steps and raises the interrupts.
struct ModelAgent {
    model: Weak<DeviceModel>,
    platform: Platform,
    /// When the next step is due; `None` for after a write.
    due: Option<CpuTime>,
    /// Steps that the model has asked for at once, since it was written to or let time pass.
    at_once: u32,
}

impl Agent for ModelAgent {
    fn ends(&self) -> Option<&'static WaitClass> {
        Some(&END_OF_TURN)
    }

    fn turn(&mut self) -> Turn {
        let Some(model) = self.model.upgrade() else { return Turn::Park };
        let mut has_raised = model.deliver();
        let is_due = self.due.is_some_and(|due| due <= self.platform.now());
        let is_written = model.take_written();
        let steps = is_due || is_written;
        if steps {
            self.platform.spend(Step::PacketDecode);
            let next = model.step();
            let is_in_a_row = !is_written && matches!(next, Next::AtOnce);
            self.at_once = if is_in_a_row { self.at_once + 1 } else { 0 };
            self.due = match next {
                // The machine cannot rest while the model has work.
                Next::AtOnce if self.at_once >= MOST_STEPS_AT_ONCE => {
                    model.bus.problem(format!(
                        "step asks for {MOST_STEPS_AT_ONCE} steps at once: return the time that the \
                         work takes, or TIDEGATE_DEVICE_IDLE"
                    ));
                    None
                }
                Next::AtOnce => Some(self.platform.now()),
                Next::At(due) => Some(due),
                Next::AfterAWrite => None,
            };
            has_raised |= model.deliver();
        }
        if has_raised {
            model.end_turn();
        }
        match self.due {
            _ if steps || has_raised => Turn::Again,
            Some(due) => Turn::Until(due),
            None => Turn::Park,
        }
    }
}

/// What the graphics kernel and user mode know of the device, in the registers of the software GPU.
impl Device for DeviceModel {
    fn read_register(&self, register: Register) -> u64 {
        let of = &self.description;
        let node = |first: Register| {
            let number =
                register.0.checked_sub(first.0).filter(|number| *number < of.node_count)?;
            of.nodes.get(number as usize)
        };
        if let Some((kind, _)) = node(Register::NODE_CLASS) {
            return u64::from(*kind);
        }
        if let Some((_, traits)) = node(Register::NODE_TRAITS) {
            return u64::from(*traits);
        }
        match register {
            Register::NODE_COUNT => u64::from(of.node_count),
            Register::DEVICE_TRAITS => of.traits,
            Register::DISPLAY_PERIOD => of.refresh_period_ns,
            Register::LOCAL_MEMORY_BASE => self.bus.local_base,
            Register::LOCAL_MEMORY_BYTES => self.bus.local_bytes,
            _ => 0,
        }
    }

    fn write_register(&self, _register: Register, _value: u64) {}

    fn doorbell_page(&self, _queue: QueueId) -> Option<(Page, Summary, u32)> {
        None
    }

    fn turn_ends(&self) -> Word {
        self.gpu.turn_ends()
    }

    fn connect_interrupt(&self, sink: Arc<dyn InterruptSink>) {
        *self.sink.lock() = Some(sink);
    }

    fn local_memory(&self, physical_gpu: u32) -> Option<&PhysicalMemory> {
        self.gpu.local_memory(physical_gpu)
    }

    fn local_memory_bytes(&self) -> u64 {
        self.bus.local_bytes
    }

    fn program_arguments(&self, program: u32) -> Option<&'static [Argument]> {
        self.gpu.program_arguments(program)
    }

    fn node_count(&self) -> u32 {
        self.description.node_count
    }

    fn physical_gpu_count(&self) -> u32 {
        1
    }
}
