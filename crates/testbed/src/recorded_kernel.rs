//! Purpose: a layer at the call surface of a process. It records each call with its arguments,
//! refuses calls, and can put a doorbell of the test in place of the kernel's.
//!
//! Invariant: every call reaches the kernel behind, except refused calls and connects of a scripted
//! doorbell.
//!
//! Entry points: [`RecordedKernel::take`], [`RecordedKernel::refuse`],
//! [`RecordedKernel::script_doorbells`].

use std::fmt::Debug;
use std::sync::Arc;
use tidegate::calls::*;
use tidegate::platform::{Bulk, Event, Mapping, Mutex, Page, Platform, QueueNumber, Word};

/// A call of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method of [`Kernel`].
    pub name: &'static str,
    /// The arguments, as `Debug` formats them.
    pub args: String,
}

/// In which order a doorbell is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectOrder {
    /// The status, then the mapping.
    StatusFirst,
    /// The mapping, then the status, as published.
    MappingFirst,
}

/// A doorbell that no engine reads. The test reads its pages and changes its status.
pub struct ScriptedDoorbell {
    platform: Platform,
    mapping: Mapping,
    status: Word,
    connects_as: Word,
    /// One for each connect. The lock is held over a connect and a disconnect.
    pages: Mutex<Vec<Page>>,
}

impl ScriptedDoorbell {
    fn new(platform: &Platform) -> Arc<ScriptedDoorbell> {
        let words = platform.page(2);
        words.store(0, DoorbellStatus::DisconnectedRetry as u64);
        words.store(1, DoorbellStatus::Connected as u64);
        Arc::new(ScriptedDoorbell {
            platform: platform.clone(),
            mapping: Mapping::new(platform, platform.page(1)),
            status: words.word(0),
            connects_as: words.word(1),
            pages: platform.mutex("pages of a scripted doorbell", Vec::new()),
        })
    }

    /// The status from now on.
    pub fn set_status(&self, status: DoorbellStatus) {
        self.status.store(status as u64);
    }

    /// The status after each connect from now on.
    pub fn connect_as(&self, status: DoorbellStatus) {
        self.connects_as.store(status as u64);
    }

    /// The value rung last on the page of each connect.
    pub fn rung(&self) -> Vec<u64> {
        self.pages.lock().iter().map(|page| page.word(0).load()).collect()
    }

    /// Disconnects, and returns the value rung last on the page that was mapped.
    pub fn disconnect(&self, order: DisconnectOrder) -> u64 {
        let dummy = self.platform.page(1);
        let _one_transition_at_a_time = self.pages.lock();
        if order == DisconnectOrder::StatusFirst {
            self.set_status(DoorbellStatus::DisconnectedRetry);
        }
        let old = self.mapping.rotate(dummy);
        if order == DisconnectOrder::MappingFirst {
            self.set_status(DoorbellStatus::DisconnectedRetry);
        }
        self.platform.fence();
        old.word(0).load()
    }

    fn connect(&self) -> Connection {
        let page = self.platform.page(1);
        let mut pages = self.pages.lock();
        pages.push(page.clone());
        self.mapping.rotate(page);
        self.status.store(self.connects_as.load());
        Connection { value_base: 0, hint: Arc::new(NoHint), announcement: None }
    }
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    refused: Vec<(&'static str, Status)>,
    doorbells: Vec<Doorbell>,
    memory: Vec<AllocationMemory>,
    fences: Vec<FenceInstance>,
    log_numbers: Option<u32>,
    scripted: Option<Arc<ScriptedDoorbell>>,
}

/// The layer.
pub struct RecordedKernel {
    inner: Arc<dyn Kernel>,
    platform: Platform,
    state: Mutex<State>,
}

impl RecordedKernel {
    /// A layer in front of a process.
    pub fn new(platform: &Platform, inner: Arc<dyn Kernel>) -> Arc<RecordedKernel> {
        let state = platform.mutex("calls of a process", State::default());
        Arc::new(RecordedKernel { inner, platform: platform.clone(), state })
    }

    /// The calls since the last take.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock_device().calls)
    }

    /// The names of the calls since the last take.
    pub fn take_names(&self) -> Vec<&'static str> {
        self.take().into_iter().map(|call| call.name).collect()
    }

    /// Refuses each call from now on whose name begins so.
    pub fn refuse(&self, prefix: &'static str, status: Status) {
        self.state.lock_device().refused.push((prefix, status));
    }

    /// Refuses no call from now on.
    pub fn refuse_nothing(&self) {
        self.state.lock_device().refused.clear();
    }

    /// Puts one doorbell of the test in place of those created from now on, and memory of this
    /// layer's platform in place of allocations. So the machine may be of another platform.
    pub fn script_doorbells(&self) -> Arc<ScriptedDoorbell> {
        let made = ScriptedDoorbell::new(&self.platform);
        self.state.lock_device().scripted = Some(made.clone());
        made
    }

    /// Plants how many numbers the entries of a log have, for queues created from now on.
    pub fn plant_log_numbers(&self, numbers: u32) {
        self.state.lock_device().log_numbers = Some(numbers);
    }

    /// The doorbells created so far, as the process sees them.
    pub fn doorbells(&self) -> Vec<Doorbell> {
        self.state.lock_device().doorbells.clone()
    }

    /// Slots and pointers of the ring created last.
    ///
    /// # Panics
    /// When none was created.
    pub fn ring(&self) -> (Bulk, Page) {
        let (mut bulk, mut page) = (None, None);
        for memory in &self.state.lock_device().memory {
            match memory {
                AllocationMemory::Bulk(made) => bulk = Some(made.clone()),
                AllocationMemory::Protocol(made) => {
                    page = Some((bulk.clone().expect("slots"), made.clone()));
                }
                AllocationMemory::Window(_) | AllocationMemory::ByCalls(_) => {}
            }
        }
        page.expect("a ring")
    }

    /// The fences created so far.
    pub fn fences(&self) -> Vec<FenceInstance> {
        self.state.lock_device().fences.clone()
    }

    fn keep(&self, made: FenceInstance) -> FenceInstance {
        self.state.lock_device().fences.push(made.clone());
        made
    }

    fn before(&self, name: &'static str, args: &[&dyn Debug]) -> Result<(), Status> {
        let mut state = self.state.lock_device();
        state.calls.push(Call { name, args: format!("{args:?}") });
        let refused = state.refused.iter().find(|(prefix, _)| name.starts_with(prefix));
        refused.map_or(Ok(()), |(_, status)| Err(*status))
    }
}

/// A call that is recorded and passed on. Those with code of their own come first.
macro_rules! record {
    ($f:ident query_adapter_info $rest:tt $out:ty) => {};
    ($f:ident queue_number $rest:tt $out:ty) => {};
    ($f:ident display $rest:tt $out:ty) => {};
    ($f:ident create_doorbell $rest:tt $out:ty) => {};
    ($f:ident connect_doorbell $rest:tt $out:ty) => {};
    ($f:ident create_monitored_fence $rest:tt $out:ty) => {};
    ($f:ident create_native_fence $rest:tt $out:ty) => {};
    ($f:ident native_fence_log_detail $rest:tt $out:ty) => {};
    ($f:ident create_allocation $rest:tt $out:ty) => {};
    ($f:ident $same:ident ($($arg:ident: $ty:ty),*) $out:ty) => {
        fn $f(&self, $($arg: $ty),*) -> $out {
            self.before(stringify!($f), &[$(&$arg),*])?;
            self.inner.$f($($arg),*)
        }
    };
}

macro_rules! record_all {
    ([]
        local { $($(#[$local_meta:meta])* $Local:ident
            fn $local:ident($($local_arg:ident: $local_ty:ty),* $(,)?) -> $local_out:ty;)* }
        sent { $($(#[$meta:meta])* $Name:ident $how:ident
            fn $f:ident($($arg:ident: $ty:ty $(=> $message:ty)?),* $(,)?) -> $out:ty;)* }
    ) => {
        $(record! { $local $local ($($local_arg: $local_ty),*) $local_out })*
        $(record! { $f $f ($($arg: $ty),*) $out })*
    };
}

impl Kernel for RecordedKernel {
    fn query_adapter_info(&self) -> AdapterInfo {
        self.inner.query_adapter_info()
    }

    fn queue_number(&self, queue: Handle) -> Option<QueueNumber> {
        self.inner.queue_number(queue)
    }

    fn display(&self) -> Option<DisplayInfo> {
        self.inner.display()
    }

    fn create_doorbell(&self, args: CreateDoorbell) -> Result<Doorbell, Status> {
        self.before("create_doorbell", &[&args])?;
        let mut made = self.inner.create_doorbell(args)?;
        let mut state = self.state.lock_device();
        if let Some(script) = &state.scripted {
            made.mapping = script.mapping.clone();
            made.status = ReadOnly::new(script.status.clone());
            made.last_queued = self.platform.page(1).word(0);
        }
        state.doorbells.push(made.clone());
        Ok(made)
    }

    fn connect_doorbell(&self, doorbell: Handle) -> Result<Connection, Status> {
        self.before("connect_doorbell", &[&doorbell])?;
        let scripted = self.state.lock_device().scripted.clone();
        scripted.map_or_else(|| self.inner.connect_doorbell(doorbell), |s| Ok(s.connect()))
    }

    fn create_monitored_fence(
        &self,
        args: CreateMonitoredFence<'_>,
    ) -> Result<FenceInstance, Status> {
        self.before("create_monitored_fence", &[&args])?;
        self.inner.create_monitored_fence(args).map(|made| self.keep(made))
    }

    fn create_native_fence(&self, args: CreateNativeFence<'_>) -> Result<FenceInstance, Status> {
        self.before("create_native_fence", &[&args])?;
        self.inner.create_native_fence(args).map(|made| self.keep(made))
    }

    fn native_fence_log_detail(&self, hw_queue: Handle) -> Result<LogDetail, Status> {
        self.before("native_fence_log_detail", &[&hw_queue])?;
        let detail = self.inner.native_fence_log_detail(hw_queue)?;
        let planted = self.state.lock_device().log_numbers;
        Ok(LogDetail { numbers: planted.unwrap_or(detail.numbers), ..detail })
    }

    fn create_allocation(&self, args: CreateAllocation) -> Result<Allocation, Status> {
        self.before("create_allocation", &[&args])?;
        let mut made = self.inner.create_allocation(args)?;
        let mut state = self.state.lock_device();
        if state.scripted.is_some() {
            let bytes = made.bytes as usize;
            made.memory = match args.kind {
                AllocationKind::Bulk => AllocationMemory::Bulk(self.platform.bulk(bytes)),
                AllocationKind::Protocol => {
                    AllocationMemory::Protocol(self.platform.page(bytes / 8))
                }
            };
        }
        state.memory.push(made.memory.clone());
        Ok(made)
    }

    tidegate::calls::for_each_call!(record_all! {});
}
