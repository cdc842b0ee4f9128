//! The rules that the host checks while the code of a driver runs. Each finding is of one rule.

use tidegate_platform::{Mutex, Platform};

macro_rules! rules {
    ($($(#[$doc:meta])* $Rule:ident $id:literal $text:literal, $source:literal;)*) => {
        /// A rule for the code of a driver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {$(
            #[doc = $text]
            $Rule,
        )*}

        impl Rule {
            /// All rules.
            pub const ALL: &[Rule] = &[$(Rule::$Rule),*];

            /// Returns the id.
            pub const fn id(self) -> &'static str {
                match self { $(Rule::$Rule => $id),* }
            }

            /// Returns the rule, in one sentence.
            pub const fn text(self) -> &'static str {
                match self { $(Rule::$Rule => $text),* }
            }

            /// Returns the page that it comes from.
            pub const fn source(self) -> &'static str {
                match self { $(Rule::$Rule => $source),* }
            }
        }
    };
}

rules! {
    Level "code-level" "a function is called at a level that its page allows",
        "IRQL of each function's page";
    LevelKept "code-level-kept" "an entry returns at the level at which it was called",
        "page Managing hardware priorities";
    Lock "code-lock" "a spin lock is released by its holder", "page KeReleaseSpinLock";
    Region "code-region" "critical regions are entered before they are needed, and left once",
        "page KeEnterCriticalRegion";
    Pool "code-pool" "pool memory is freed once, with its tag, and written inside of its bounds",
        "page ExFreePoolWithTag";
    Leak "code-leak" "all memory and all mappings are freed before the driver is unloaded",
        "page DxgkDdiUnload";
    Contiguous "code-contiguous" "contiguous memory is used from the start on, and freed once",
        "page MmAllocateContiguousMemory";
    Mapping "code-mapping" "MmMapIoSpace maps registers of the device, and is undone once",
        "page MmMapIoSpace";
    BusAddress "code-bus-address" "a bus address is asked for memory that the device reaches",
        "page MmGetPhysicalAddress";
    Register "code-register" "a register is accessed as a whole, inside of the device's registers",
        "docs/hardware.md";
    Object "code-object" "events, mutexes and semaphores are initialised, and are of the right kind",
        "page KeWaitForSingleObject";
    Owner "code-owner" "a mutex is released by its owner, and not waited for by it twice",
        "page KeReleaseMutex";
    Handle "code-handle" "handles and references are valid, and are closed before the driver ends",
        "page ZwClose";
    Thread "code-thread" "threads, timers and work of the driver end before the driver does",
        "page DxgkDdiUnload";
    Interrupt "code-interrupt" "DxgkCbNotifyInterrupt is called at the device's level, with data",
        "page DXGKCB_NOTIFY_INTERRUPT";
    Dpc "code-dpc" "a report is followed by DxgkCbQueueDpc", "page DXGKCB_QUEUE_DPC";
    Answer "code-answer" "the answers of the start describe an adapter that can be",
        "page DXGKDDI_QUERYADAPTERINFO";
    MustNotFail "code-must-not-fail" "an entry that must not fail does not fail",
        "page of each entry";
    PagingBuffer "code-paging-buffer" "DxgkDdiBuildPagingBuffer moves pDmaBuffer past its commands",
        "page DXGKARG_BUILDPAGINGBUFFER";
    RenderBuffer "code-render-buffer"
        "DxgkDdiRender moves pDmaBuffer and pPatchLocationListOut past what it wrote",
        "page DXGKARG_RENDER";
    Allocation "code-allocation" "the Size of an allocation is at least what is asked for",
        "page DXGK_ALLOCATIONINFO";
    Stack "code-stack" "an entry uses a kernel stack's 24 KiB at most", "page Using the kernel stack";
    Stall "code-stall" "KeStallExecutionProcessor takes 50 microseconds at most",
        "page KeStallExecutionProcessor";
    Mdl "code-mdl" "a memory descriptor list is built or locked once, before it is used",
        "page MmProbeAndLockPages";
    UserAddress "code-user-address" "an address that is probed is aligned, and of a process",
        "page ProbeForRead";
    Lookaside "code-lookaside" "a lookaside list is initialised, and empty at its end",
        "page ExDeleteLookasideListEx";
    List "code-list" "the head of a sequenced list is aligned to 16 bytes",
        "page InitializeSListHead";
    Bitmap "code-bitmap" "bits of a bitmap lie inside of it", "page RtlSetBits";
    Port "code-port" "ports are accessed on a device that has them", "docs/hardware.md";
    String "code-string" "strings fit their buffers, and conversions exist",
        "pages of the ntstrsafe functions";
    Registry "code-registry" "keys are kernel handles, and direct values have a checked type",
        "page RtlQueryRegistryValues";
    Work "code-work" "a work item is queued once, and freed when it has run",
        "page IoQueueWorkItem";
    Timer "code-timer" "a timer that is set is cancelled when it is deleted",
        "page ExDeleteTimer";
    Priority "code-priority" "a thread's priority is 1 to 31", "page KeSetPriorityThread";
    Assertion "code-assertion" "assertions hold, and KeBugCheckEx is not called",
        "page NT_ASSERT";
    MemoryStatus "code-memory-status"
        "an entry that fails for memory returns STATUS_NO_MEMORY or STATUS_INSUFFICIENT_RESOURCES",
        "page of each entry";
    MemoryLeft "code-memory-left" "an entry that fails for memory frees what it has allocated",
        "page of each entry";
    MemoryAgain "code-memory-again"
        "an entry that has failed for memory succeeds when it is called again",
        "page of each entry";
    MemoryOfWork "code-memory-work" "an entry that gets work does not fail for memory",
        "page of each entry";
    Dma "code-dma" "a device model finds memory at the bus addresses that the driver gives it",
        "page MmGetPhysicalAddress";
    Line "code-line" "the interrupt routine has a device model lower its interrupt line",
        "page DXGKDDI_INTERRUPT_ROUTINE";
}

impl Rule {
    /// Returns whether the rule is checked only on a device model.
    pub const fn needs_model(self) -> bool {
        matches!(self, Rule::Dma | Rule::Line)
    }

    /// Returns the rule that `tidegate_nt.c` names; an unknown name is an assertion's.
    pub(crate) fn of_id(id: &str) -> Rule {
        Rule::ALL.iter().copied().find(|rule| rule.id() == id).unwrap_or(Rule::Assertion)
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// What was seen.
    pub text: String,
}

/// Findings that are kept with their text. Later ones are only counted.
const KEPT: usize = 64;

#[derive(Default)]
struct Found {
    count: u64,
    kept: Vec<Finding>,
}

/// The rules that were broken, in order.
pub(crate) struct BrokenRules(Mutex<Found>);

impl BrokenRules {
    pub(crate) fn new(platform: &Platform) -> BrokenRules {
        BrokenRules(platform.mutex("driver's violations", Found::default()))
    }

    pub(crate) fn add(&self, rule: Rule, text: String) {
        let mut found = self.0.lock();
        found.count += 1;
        if found.kept.len() < KEPT {
            found.kept.push(Finding { rule, text });
        }
    }

    /// Returns how many there are, and the first of them.
    pub(crate) fn all(&self) -> (u64, Vec<Finding>) {
        let found = self.0.lock();
        (found.count, found.kept.clone())
    }
}
