//! The situations: programs that every driver runs, and what happens meanwhile.

use crate::journal::{Accident, Engines, Facts, Interrupts};
use std::borrow::Cow;
use std::sync::Arc;
use tidegate::d3d12::Validation;
use tidegate::ddi::{AdapterCaps, DevicePowerState, EntryGroup, Injection, Overrides};
use tidegate::dxgkrnl::{PagingBuffers, PowerManagement};
use tidegate::platform::Step;
use tidegate::runner::HangAt;
use tidegate::variants::Variant;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions, model::Workload};
use tidegate::{MakeDriver, Platform, RunRequest};

/// A program and what happens while it runs.
pub struct Situation {
    /// The name.
    pub name: Cow<'static, str>,
    /// What happens, in one sentence.
    pub about: &'static str,
    program: Program,
    submission: Submission,
    /// Whether a driver with these caps can be in it.
    pub(crate) needs: fn(&AdapterCaps) -> bool,
    /// What the driver lacks otherwise.
    pub(crate) lacks: &'static str,
    happens: fn(&mut RunRequest),
    /// What the kernel does otherwise than usual, as a layer between kernel and watch.
    pub(crate) kernel: Option<fn(&Platform, Overrides) -> Overrides>,
    /// What happens to work of the program.
    pub(crate) accident: Accident,
    /// How interrupts come.
    pub(crate) interrupts: Interrupts,
    /// How fast the engines are.
    pub(crate) engines: Engines,
    /// A call of the driver's code that fails.
    pub(crate) injection: Option<Injection>,
}

/// Interrupts of a situation in which later ones get lost.
const INTERRUPTS_THAT_COME: u64 = 6;

/// How late interrupts are that come late.
const LATE_NS: u64 = 200_000;

/// What runs.
enum Program {
    /// A file of `situations`, and its text.
    Ours(&'static str, &'static str),
    /// A workload of the user.
    Theirs(Arc<Workload>),
}

/// Virtual time of a situation. It has some tens of milliseconds, and time-outs of seconds.
const LIMIT_NS: u64 = 60_000_000_000;
/// Virtual time of a workload of the user.
const LIMIT_OF_WORKLOADS_NS: u64 = 3_600_000_000_000;

/// TdrDelay of situations with a hang.
const DELAY_NS: u64 = 10_000_000;

fn any(_: &AdapterCaps) -> bool {
    true
}

fn has_hw_queues(caps: &AdapterCaps) -> bool {
    !caps.nodes.is_empty() && caps.nodes.iter().all(|node| node.context_scheduling)
}

fn has_user_queues(caps: &AdapterCaps) -> bool {
    !caps.nodes.is_empty() && caps.nodes.iter().all(|node| node.user_mode_submission)
}

fn hang_of(request: &mut RunRequest, queue: &str, submission: u64) {
    request.tdr_delay_ns = Some(DELAY_NS);
    request.hangs = vec![HangAt { queue: queue.to_owned(), submission }];
}

fn hang_of_frames(request: &mut RunRequest) {
    hang_of(request, "frames", 2);
}

fn sleep_twice(request: &mut RunRequest) {
    request.sleeps_at_ns = vec![200_000, 600_000];
}

/// Paging buffers with room for two operations of the reference driver.
fn small_buffers(count: u32, operation_bytes: u64) -> PagingBuffers {
    PagingBuffers { bytes: 80, count, operation_bytes, ..PagingBuffers::standard() }
}

/// How many times longer steps of a slow device take.
const SLOWER: u64 = 200;

/// Engines fetch, decode and complete slowly, and interrupts come long after that.
fn slow_device(request: &mut RunRequest) {
    let steps = [Step::RingFetch, Step::PacketDecode, Step::DmaCompletion, Step::InterruptDelivery];
    request.costs.steps = steps.into_iter().fold(request.costs.steps.clone(), |costs, step| {
        let ns = costs.ns(step) * SLOWER;
        costs.with(step, ns)
    });
}

/// Engines that the driver offers lose power.
fn power_down_idle_engines(request: &mut RunRequest) {
    request.machine = |config| {
        config.kernel.power = PowerManagement::Managed;
        config.driver.idle.engine_after_ns = 20_000;
    };
}

/// The driver has no reset of single engines: the adapter is reset.
fn without_engine_reset(_: &Platform, overrides: Overrides) -> Overrides {
    overrides.hides(EntryGroup::EngineReset).query_adapter_caps(|inner, level| {
        let mut caps = inner.query_adapter_caps(level);
        caps.per_engine_tdr = false;
        caps
    })
}

/// Each interrupt comes twice: the second has no cause, as if another device shared the line.
fn doubled_interrupts(_: &Platform, overrides: Overrides) -> Overrides {
    overrides.interrupt_routine(|inner, level| {
        let ours = inner.interrupt_routine(level);
        inner.interrupt_routine(level);
        ours
    })
}

/// Interrupts after the first few get lost.
fn lost_interrupts(_: &Platform, overrides: Overrides) -> Overrides {
    let count = Platform::host().mutex("interrupts", 0_u64);
    overrides.interrupt_routine(move |inner, level| {
        let earlier = {
            let mut count = count.lock_device();
            *count += 1;
            *count - 1
        };
        earlier < INTERRUPTS_THAT_COME && inner.interrupt_routine(level)
    })
}

/// Each interrupt comes late, so it is for several packets.
fn late_interrupts(platform: &Platform, overrides: Overrides) -> Overrides {
    let platform = platform.clone();
    overrides.interrupt_routine(move |inner, level| {
        platform.spend_ns(LATE_NS);
        inner.interrupt_routine(level)
    })
}

/// Interrupts of another device on the line come while the adapter is in D3. The first call of the
/// routine may take a cause from before.
fn interrupts_in_d3(_: &Platform, overrides: Overrides) -> Overrides {
    overrides.set_power_state(|inner, level, state, action| {
        let result = inner.set_power_state(level, state, action);
        if state == DevicePowerState::D3 && result.is_ok() {
            for _ in 0..2 {
                inner.interrupt_routine(&level.raise_to_dirql(&()));
            }
        }
        result
    })
}

const MIXED: (&str, &str) = ("mixed.toml", include_str!("../situations/mixed.toml"));
const URGENT: (&str, &str) = ("urgent.toml", include_str!("../situations/urgent.toml"));
const MEMORY: (&str, &str) = ("memory.toml", include_str!("../situations/memory.toml"));
const FAULT: (&str, &str) = ("fault.toml", include_str!("../situations/fault.toml"));
const UNEVEN: (&str, &str) = ("uneven.toml", include_str!("../situations/uneven.toml"));
const RESUMED: (&str, &str) = ("resumed.toml", include_str!("../situations/resumed.toml"));
const FLIPS: (&str, &str) = ("flips.toml", include_str!("../situations/flips.toml"));

const NO_HW_QUEUES: &str = "the driver declares no hardware queues on each node";
const NO_USER_QUEUES: &str = "the driver declares no user-mode submission on each node";

fn of(
    name: &'static str,
    about: &'static str,
    (file, text): (&'static str, &'static str),
    submission: Submission,
) -> Situation {
    let (needs, lacks): (fn(&AdapterCaps) -> bool, _) = match submission {
        Submission::Packet => (any, ""),
        Submission::Hardware => (has_hw_queues, NO_HW_QUEUES),
        Submission::User => (has_user_queues, NO_USER_QUEUES),
    };
    Situation {
        name: Cow::Borrowed(name),
        about,
        program: Program::Ours(file, text),
        submission,
        needs,
        lacks,
        happens: |_| {},
        kernel: None,
        accident: Accident::None,
        interrupts: Interrupts::InTime,
        engines: Engines::Even,
        injection: None,
    }
}

/// Returns all situations.
pub fn situations() -> Vec<Situation> {
    [of_packets(), of_preemption(), of_power_and_memory(), of_failing_memory(), of_queues()]
        .into_iter()
        .flatten()
        .collect()
}

/// Packets, and how their interrupts and ids come.
fn of_packets() -> Vec<Situation> {
    vec![
        of("packets", "packets of two engines that wait for each other", MIXED, Submission::Packet),
        Situation {
            kernel: Some(doubled_interrupts),
            interrupts: Interrupts::Twice,
            ..of(
                "packets-doubled",
                "the same; each interrupt comes twice",
                MIXED,
                Submission::Packet,
            )
        },
        Situation {
            happens: |request| request.tdr_delay_ns = Some(DELAY_NS),
            kernel: Some(lost_interrupts),
            accident: Accident::Lost,
            ..of("packets-lost", "the same; interrupts get lost", MIXED, Submission::Packet)
        },
        Situation {
            happens: |request| request.tdr_delay_ns = Some(DELAY_NS),
            kernel: Some(late_interrupts),
            interrupts: Interrupts::Late,
            ..of("packets-late", "the same; interrupts come late", MIXED, Submission::Packet)
        },
        Situation {
            engines: Engines::Uneven,
            ..of(
                "packets-uneven",
                "short packets run while another engine has a long one",
                UNEVEN,
                Submission::Packet,
            )
        },
        Situation {
            happens: slow_device,
            engines: Engines::Slow,
            ..of("packets-slow", "packets on a slow device", MIXED, Submission::Packet)
        },
        Situation {
            happens: |request| request.beside = Some(Arc::clone(&request.workload)),
            ..of("packets-beside", "the same in two processes", MIXED, Submission::Packet)
        },
        Situation {
            happens: |request| {
                request.tdr_delay_ns = Some(DELAY_NS);
                request.machine = |config| config.kernel.fence_ids_ahead = u32::MAX - 8;
            },
            ..of("packets-wrap", "the same; ids of packets wrap", MIXED, Submission::Packet)
        },
    ]
}

/// Packets that are preempted or hang.
fn of_preemption() -> Vec<Situation> {
    vec![
        of("preemption", "urgent packets preempt frames", URGENT, Submission::Packet),
        Situation {
            happens: |request| {
                request.machine = |config| config.kernel.fence_ids_ahead = u32::MAX - 5;
            },
            ..of("preemption-wrap", "the same; ids of packets wrap", URGENT, Submission::Packet)
        },
        Situation {
            happens: slow_device,
            engines: Engines::Slow,
            ..of("preemption-slow", "the same on a slow device", URGENT, Submission::Packet)
        },
        Situation {
            engines: Engines::Uneven,
            ..of(
                "preemption-resumed",
                "urgent packets preempt frames that have added already",
                RESUMED,
                Submission::Packet,
            )
        },
        Situation {
            injection: Some(Injection::Synchronize),
            ..of(
                "preemption-unsynchronized",
                "the same; DxgkCbSynchronizeExecution fails once",
                URGENT,
                Submission::Packet,
            )
        },
        Situation {
            happens: |request| {
                hang_of(request, "urgent", 4);
                // The fourth packet has the id 0.
                request.machine = |config| config.kernel.fence_ids_ahead = u32::MAX;
            },
            accident: Accident::Hang,
            ..of("hang-wrap", "ids of packets wrap, and id 0 hangs", URGENT, Submission::Packet)
        },
        Situation {
            happens: hang_of_frames,
            accident: Accident::Hang,
            ..of("hang", "a packet hangs: its engine is reset", URGENT, Submission::Packet)
        },
        Situation {
            happens: hang_of_frames,
            kernel: Some(without_engine_reset),
            accident: Accident::Hang,
            ..of("hang-adapter", "a packet hangs: the adapter is reset", URGENT, Submission::Packet)
        },
    ]
}

/// Faults, sleep, memory that is moved, and a display.
fn of_power_and_memory() -> Vec<Situation> {
    vec![
        Situation {
            accident: Accident::Fault,
            ..of(
                "packets-fault",
                "a packet reads an address without memory",
                FAULT,
                Submission::Packet,
            )
        },
        Situation {
            happens: sleep_twice,
            ..of("sleep", "the adapter sleeps while packets run", MIXED, Submission::Packet)
        },
        Situation {
            happens: |request| request.sleeps_at_ns = vec![100_000, 300_000],
            kernel: Some(interrupts_in_d3),
            ..of(
                "sleep-idle",
                "the adapter sleeps before packets run; another device interrupts twice in D3",
                URGENT,
                Submission::Packet,
            )
        },
        Situation {
            happens: power_down_idle_engines,
            engines: Engines::Uneven,
            ..of(
                "packets-idle",
                "short packets; engines that are idle lose power",
                UNEVEN,
                Submission::Packet,
            )
        },
        of(
            "memory",
            "buffers are moved, because local memory is small",
            MEMORY,
            Submission::Packet,
        ),
        Situation {
            happens: |request| hang_of(request, "fill", 2),
            kernel: Some(without_engine_reset),
            accident: Accident::Hang,
            ..of(
                "hang-memory",
                "the same; a packet hangs and the adapter is reset",
                MEMORY,
                Submission::Packet,
            )
        },
        Situation {
            happens: |request| {
                request.machine = |config| config.kernel.paging_buffers = small_buffers(1, 0x4000);
            },
            ..of(
                "memory-parts",
                "the same, by several operations in a small paging buffer",
                MEMORY,
                Submission::Packet,
            )
        },
        Situation {
            happens: |request| {
                request.machine = |config| config.kernel.paging_buffers = small_buffers(4, 0x2000);
            },
            ..of(
                "memory-together",
                "the same, with several paging buffers in flight together",
                MEMORY,
                Submission::Packet,
            )
        },
        Situation {
            happens: |request| {
                request.machine = |config| config.kernel.paging_buffers.at_zero = true
            },
            ..of(
                "memory-zero",
                "the same; the paging buffer is at the GPU address 0",
                MEMORY,
                Submission::Packet,
            )
        },
        of("flips", "pictures on a display beside urgent packets", FLIPS, Submission::Packet),
    ]
}

/// Memory that the driver's code asks for and does not get.
fn of_failing_memory() -> Vec<Situation> {
    let of_injection = |name, about, program, injection| Situation {
        injection: Some(injection),
        ..of(name, about, program, Submission::Packet)
    };
    let objects = Injection::MemoryOfObjects;
    vec![
        of_injection(
            "no-memory-start",
            "each allocation of memory fails in turn when the device starts",
            URGENT,
            Injection::MemoryOfStart,
        ),
        of_injection(
            "no-memory-objects",
            "each allocation of memory fails in turn when objects are created",
            FLIPS,
            objects,
        ),
        Situation {
            injection: Some(objects),
            ..of("no-memory-queues", "the same with hardware queues", MIXED, Submission::Hardware)
        },
        Situation {
            injection: Some(objects),
            ..of("no-memory-doorbells", "the same with user-mode queues", MIXED, Submission::User)
        },
        of_injection(
            "no-memory-work",
            "the first allocation of memory of each entry that gets work fails",
            MEMORY,
            Injection::MemoryOfWork,
        ),
    ]
}

/// Hardware and user-mode queues.
fn of_queues() -> Vec<Situation> {
    vec![
        of("hw-queues", "hardware queues that wait for each other", MIXED, Submission::Hardware),
        of("hw-urgent", "urgent hardware queues beside frames", URGENT, Submission::Hardware),
        Situation {
            happens: hang_of_frames,
            accident: Accident::Hang,
            ..of("hw-hang", "a command of a hardware queue hangs", URGENT, Submission::Hardware)
        },
        Situation {
            accident: Accident::Fault,
            ..of("hw-fault", "the same on a hardware queue", FAULT, Submission::Hardware)
        },
        of("user-queues", "user-mode queues that wait for each other", MIXED, Submission::User),
        Situation {
            happens: sleep_twice,
            ..of(
                "user-sleep",
                "the adapter sleeps while user-mode queues run",
                MIXED,
                Submission::User,
            )
        },
        Situation {
            happens: power_down_idle_engines,
            ..of(
                "user-idle",
                "urgent user-mode queues; engines that are idle lose power",
                URGENT,
                Submission::User,
            )
        },
        Situation {
            happens: hang_of_frames,
            accident: Accident::Hang,
            ..of("user-hang", "a command of a user-mode queue hangs", URGENT, Submission::User)
        },
        of("user-memory", "buffers of user-mode queues are moved", MEMORY, Submission::User),
    ]
}

/// An unknown name of a situation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no situation is called '{0}': `tidegate conform --list` lists all")]
pub struct UnknownSituation(pub String);

/// Returns the situation of a name.
///
/// # Errors
/// The name is unknown.
pub fn situation(name: &str) -> Result<Situation, UnknownSituation> {
    let found = situations().into_iter().find(|situation| situation.name == name);
    found.ok_or_else(|| UnknownSituation(name.to_owned()))
}

impl Situation {
    /// Returns whether the program is one of `situations`.
    fn is_ours(&self) -> bool {
        matches!(self.program, Program::Ours(..))
    }

    /// Returns what is known about a run before it begins.
    pub(crate) fn facts(&self) -> Facts {
        let &Situation { accident, interrupts, engines, .. } = self;
        Facts { is_ours: self.is_ours(), accident, interrupts, engines }
    }

    /// Returns the virtual time after which a run is ended.
    pub(crate) fn limit_ns(&self) -> u64 {
        match self.program {
            Program::Ours(..) => LIMIT_NS,
            Program::Theirs(_) => LIMIT_OF_WORKLOADS_NS,
        }
    }

    /// Returns the run of a driver in the situation.
    pub(crate) fn request(
        &self,
        make: MakeDriver,
        adapter: Option<&'static Variant>,
    ) -> RunRequest {
        let mut request = RunRequest {
            submission: Some(self.submission),
            driver: Some(make),
            adapter,
            validation: Validation::empty(),
            ..RunRequest::new(self.workload(), Clock::Virtual)
        };
        (self.happens)(&mut request);
        request
    }

    /// A situation in which a workload runs under a submission model, on a driver that supports it.
    pub fn of_workload(workload: Arc<Workload>, submission: Submission) -> Situation {
        let name = Cow::Owned(format!("{} ({})", workload.name, submission));
        let program = Program::Theirs(workload);
        Situation { name, program, ..of("", "a workload runs", ("", ""), submission) }
    }

    /// # Panics
    /// For a program that does not load; a test loads all.
    fn workload(&self) -> Arc<Workload> {
        let (file, text) = match &self.program {
            Program::Ours(file, text) => (file, text),
            Program::Theirs(workload) => return Arc::clone(workload),
        };
        let loaded = workload::load_bytes(text.as_bytes(), file, &LoadOptions::default());
        let (workload, _) = loaded.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        Arc::new(workload)
    }
}
