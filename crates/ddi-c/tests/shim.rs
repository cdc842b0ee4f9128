//! Functions of the NT kernel: `tests/shim.c` uses each family as it should be used, or makes one
//! mistake, which is a finding. A machine without cc prints a line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{MakeDriver, RunRequest, run_workload};
use tidegate_ddi::Driver;
use tidegate_ddi_c::{CDriver, Findings, Registry, Rule};
use tidegate_platform::{Mutex, Platform};
use tidegate_testbed::compile_driver;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles the driver; `None` without a compiler.
fn compile(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let library = folder.join("shim.so");
    let options = [&["-Wl,-z,defs"], options].concat();
    compile_driver(&["crates/ddi-c/tests/shim.c"], &options, &library).then_some(library)
}

/// The values that the driver reads. It makes the mistake of this number.
fn registry(folder: &Path, mistake: usize) -> Registry {
    let path = folder.join("registry.toml");
    let text = format!(
        "[driver]\nMistake = {mistake}\nNumber = 3000000000\nText = \"short\"\n\
         Bytes = [7, 8, 9]\nWide = 9000000000\nNames = [\"a\", \"b\"]\nSet = true\n\
         [driver.Sub]\nInner = 1\n[service.Parameters]\nLevel = 2\n"
    );
    std::fs::write(&path, text).unwrap();
    Registry::load(&path).unwrap()
}

/// Runs a workload. Returns the findings.
fn run(library: &Path, registry: Registry, name: &str, clock: Clock) -> Findings {
    let path = root().join("workloads").join(name);
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    let seen: Arc<Mutex<Option<Findings>>> =
        Arc::new(Platform::host().mutex("findings of the test", None));
    let (library, kept) = (library.to_owned(), Arc::clone(&seen));
    let make: MakeDriver = Arc::new(move |bus, gpu| {
        let (platform, memory) = (bus.platform, bus.system_memory);
        let driver = CDriver::load_with(platform, memory, &library, gpu, registry.clone())
            .map_err(|error| error.to_string())?;
        *kept.lock() = Some(driver.findings());
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    });
    let request = RunRequest {
        submission: Some(Submission::Packet),
        driver: Some(make),
        ..RunRequest::new(Arc::new(workload), clock)
    };
    let result = run_workload(&request).unwrap();
    let report = result.outcome.report;
    assert!(report.are_right(), "{:?}", report.problem_lines());
    seen.lock().take().unwrap()
}

#[test]
fn functions_of_the_kernel_do_what_their_pages_say() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), &[]) else { return };
    for clock in [Clock::Virtual, Clock::Wall] {
        let findings = run(&library, registry(folder.path(), 0), "ring-buffer.toml", clock);
        assert_eq!(findings.lines(), [""; 0], "{clock:?}");
    }
}

/// Rules that mistakes of the packet driver break (`packet.rs`, `model.rs`): `mistakes.c` and
/// `agents.c`. No mistake is planted for `PagingBuffer`.
const OTHER_RULES: [Rule; 21] = [
    Rule::Lock,
    Rule::Pool,
    Rule::Contiguous,
    Rule::BusAddress,
    Rule::Register,
    Rule::Thread,
    Rule::Interrupt,
    Rule::Dpc,
    Rule::Answer,
    Rule::MustNotFail,
    Rule::PagingBuffer,
    Rule::RenderBuffer,
    Rule::Allocation,
    Rule::Stall,
    Rule::Assertion,
    Rule::MemoryStatus,
    Rule::MemoryLeft,
    Rule::MemoryAgain,
    Rule::MemoryOfWork,
    Rule::Dma,
    Rule::Line,
];

/// The thread that waits is on its way when the second release comes.
#[test]
fn a_permit_of_a_semaphore_is_the_waiting_threads_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), &[]) else { return };
    let registry = registry(folder.path(), SEMAPHORE);
    let findings = run(&library, registry, "ring-buffer.toml", Clock::Virtual);
    assert_eq!(findings.lines(), [""; 0]);
}

/// What `Make` of shim.c does wrong, from 1.
const FINDINGS: [&str; 46] = [
    "KeReleaseMutex: the thread does not own the object",
    "KeReleaseSemaphore by 2: above the limit, or not a semaphore",
    "ExAcquireFastMutex at level 2: the highest is 1",
    "ExAcquireFastMutex: the thread owns the mutex, and waits for itself",
    "ExReleaseFastMutex: the thread does not own the object",
    "DxgkDdiStartDevice returned at level 1: it was called at 0",
    "KeFlushQueuedDpcs at level 1: the highest is 0",
    "KeWaitForSingleObject of 0x",
    "KeWaitForMultipleObjects of 4 objects: 1 to 64 are allowed, and more than 3 need",
    "DxgkDdiStartDevice returned in a critical region",
    "KeLeaveCriticalRegion outside of a critical region",
    "ExAcquireResourceExclusiveLite outside of a critical region",
    "ExDeleteResourceLite of an object that a thread owns",
    "ExAcquirePushLockExclusive by a thread that has it",
    "1 blocks of pool memory with tag 'IoWi'",
    "ExQueueWorkItem of a work item that is queued already",
    "ExDeleteTimer of a timer that is set, without Cancel",
    "MmGetSystemAddressForMdlSafe of a list that is neither built nor locked",
    "MmGetMdlPfnArray of memory that the device does not reach",
    "IoFreeMdl of a list whose pages are locked",
    "MmUnlockPages of a list whose pages are not locked",
    "MmFreePagesFromMdl of a list that owns no pages",
    "ExAllocateFromNPagedLookasideList of a lookaside list that was not initialised",
    "ExDeleteNPagedLookasideList of a lookaside list with 1 entries in use",
    "MmMapIoSpace of 16 bytes at 0xffffffffffffffff",
    "unloaded with 1 mappings of MmMapIoSpace",
    "InitializeSListHead of a head that is not aligned to 16 bytes",
    "READ_PORT_UCHAR of 0x3f8: the device has no ports",
    "RtlSetBit of the bits 20 to 21 of a bitmap with 20",
    "DbgPrint at level 2: the highest is 0",
    "RtlStringCbPrintfA at level 2: the highest is 0",
    "RtlStringCbPrintfA with the conversion %y, which is none",
    "RtlUnicodeStringToInteger with the base 7",
    "IoOpenDeviceRegistryKey at level 1: the highest is 0",
    "unloaded with 1 open handles",
    "ZwClose of 0x",
    "RtlQueryRegistryValues with RTL_QUERY_REGISTRY_DIRECT and without",
    "ZwOpenKey without OBJ_KERNEL_HANDLE",
    "without a reference",
    "unloaded with references to 1 objects",
    "stack overflow in DxgkDdiStartDevice",
    "ProbeForRead of 0x",
    "KeSetPriorityThread with the priority 32",
    "MmMapLockedPagesSpecifyCache of a list of MmBuildMdlForNonPagedPool",
    "DbgBreakPoint, called at 0x",
    "1 blocks of pool memory with tag 'Irp.'",
];

/// Situations of shim.c beside the numbered mistakes.
const SEMAPHORE: usize = 97;
const STACK: usize = 98;

#[test]
fn each_mistake_with_a_function_of_the_kernel_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), &[]) else { return };
    let mut broken: BTreeSet<Rule> = OTHER_RULES.into();
    for (mistake, expected) in (1..).zip(FINDINGS) {
        let registry = registry(folder.path(), mistake);
        let findings = run(&library, registry, "hello.toml", Clock::Virtual);
        broken.extend(findings.broken().iter().map(|finding| finding.rule));
        let findings = findings.lines();
        let found = findings.iter().any(|finding| finding.contains(expected));
        assert!(found && findings.len() == 1, "mistake {mistake}, {expected}: {findings:?}");
    }
    assert_eq!(broken, Rule::ALL.iter().copied().collect());
}

/// Without the option, only functions of the kernel measure the stack.
#[test]
fn the_stack_is_measured_in_functions_of_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), &["-finstrument-functions"]) else { return };
    let findings =
        |mistake| run(&library, registry(folder.path(), mistake), "hello.toml", Clock::Virtual);
    let [found] = &findings(STACK).lines()[..] else { panic!("{:?}", findings(STACK).lines()) };
    assert!(found.starts_with("stack overflow in DxgkDdiStartDevice"), "{found}");
    assert!(found.contains("at the start of a function"), "{found}");
    assert_eq!(findings(99).lines(), [""; 0]);
}

#[test]
fn a_file_that_is_no_registry_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.toml");
    let refusal = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Registry::load(&path).err().unwrap().to_string()
    };
    assert!(refusal("[other]").contains("other: tables are driver, device and service"));
    assert!(refusal("[driver]\nA = 1.5").contains("A: no type for float"));
    assert!(refusal("[driver]\nA = [1, 256]").contains("A: a list has strings, or integers"));
    assert!(refusal("[driver").contains("cannot use the registry"));
    assert!(Registry::load(&folder.path().join("none.toml")).is_err());
}
