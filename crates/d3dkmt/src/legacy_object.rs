//! Synchronisation objects before monitored fences: mutexes, semaphores, fences of WDDM 1.x, and
//! CPU notifications. The kernel has none of them, so the library makes them of monitored fences.
//!
//! A context that waits for a mutex or a semaphore signals a fence when it arrives, and then waits
//! for a second fence, its grant. So it takes its place among the waiters when it arrives, not when
//! the wait is queued.
//!
//! Invariants: contexts acquire in the order in which they arrive. A destroyed object releases its
//! waiters, and a destroyed context takes no count. The notice of a CPU wait must not call the
//! kernel, so an agent of the library signals the grants.

use crate::event::LastingEvent;
use crate::internal_fence::InternalFence;
use crate::object::{Context, Device};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{Handle, HandleTable, Status, SyncObjectFlags, WaitCallback};
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd};

/// Distinguishes global handles, whose low six bits are 2, from those of the process.
const GLOBAL: u32 = 2;

/// An instance.
pub(crate) struct Legacy {
    pub(crate) object: Arc<LegacyObject>,
    /// `None` for an instance that was opened by a call without a device.
    device: Option<Arc<Device>>,
    pub(crate) flags: SyncObjectFlags,
}

impl Legacy {
    pub(crate) fn new(
        object: Arc<LegacyObject>,
        device: Option<Arc<Device>>,
        flags: SyncObjectFlags,
    ) -> Legacy {
        if let Kind::Counted(counted) = &object.kind {
            counted.state.lock_device().instances += 1;
        }
        Legacy { object, device, flags }
    }

    pub(crate) fn device(&self) -> Option<&Arc<Device>> {
        self.device.as_ref()
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        if let Kind::Counted(counted) = &self.object.kind {
            let mut state = counted.state.lock_device();
            state.instances -= 1;
            state.grant(&counted.grants);
        }
    }
}

/// The object behind its instances.
pub(crate) struct LegacyObject {
    pub(crate) kind: Kind,
    /// Its global handle in the table that holds it.
    global: Option<(Handle, Arc<Globals>)>,
    /// Whether it can be shared by NT handle.
    pub(crate) is_nt_shared: bool,
}

/// What an object is.
pub(crate) enum Kind {
    /// A mutex or a semaphore.
    Counted(CountedObject),
    /// A fence.
    Fence(InternalFence),
    /// A CPU notification.
    Notification(Arc<LastingEvent>),
}

/// A mutex or a semaphore.
pub(crate) struct CountedObject {
    state: Mutex<Counted>,
    grants: Arc<Grants>,
}

struct Counted {
    count: u32,
    most: u32,
    waiters: VecDeque<Waiter>,
    /// Open instances. Without any, no waiter is held.
    instances: u32,
}

/// A context that has arrived at a wait.
struct Waiter {
    context: Weak<Context>,
    grant: Arc<InternalFence>,
}

impl Counted {
    /// Grants what can be granted.
    fn grant(&mut self, grants: &Grants) {
        while self.count > 0 || self.instances == 0 {
            let Some(waiter) = self.waiters.pop_front() else { return };
            // A destroyed context waits no more.
            if waiter.context.strong_count() > 0 {
                self.count = self.count.saturating_sub(1);
            }
            // The agent also ends the fence, which no notice may.
            grants.give(waiter.grant);
        }
    }
}

/// The notice of a context that arrives at a wait.
pub(crate) struct Arrival {
    object: Arc<LegacyObject>,
    waiter: Mutex<Option<Waiter>>,
}

impl Arrival {
    pub(crate) fn new(
        platform: &Platform,
        object: &Arc<LegacyObject>,
        context: &Arc<Context>,
        grant: Arc<InternalFence>,
    ) -> Arrival {
        let waiter = Waiter { context: Arc::downgrade(context), grant };
        let waiter = platform.mutex("an arrival", Some(waiter));
        Arrival { object: object.clone(), waiter }
    }
}

impl WaitCallback for Arrival {
    fn wait_is_over(&self) {
        let waiter = self.waiter.lock_device().take();
        if let (Kind::Counted(counted), Some(waiter)) = (&self.object.kind, waiter) {
            let mut state = counted.state.lock_device();
            state.waiters.push_back(waiter);
            state.grant(&counted.grants);
        }
    }
}

/// The notice of contexts that reach a signal of a mutex or a semaphore.
pub(crate) struct Release {
    pub(crate) object: Arc<LegacyObject>,
    /// The device of the contexts. Its end is no signal.
    pub(crate) device: Arc<Device>,
}

impl WaitCallback for Release {
    fn wait_is_over(&self) {
        if let (Kind::Counted(counted), false) = (&self.object.kind, self.device.is_ended()) {
            let mut state = counted.state.lock_device();
            state.count = state.most.min(state.count.saturating_add(1));
            state.grant(&counted.grants);
        }
    }
}

type Globals = Mutex<HandleTable<Weak<LegacyObject>>>;

impl LegacyObject {
    /// The global handle of an object that was shared by one; else 0.
    pub(crate) fn shared_handle(&self) -> u32 {
        self.global.as_ref().map_or(0, |(handle, _)| handle.0 | GLOBAL)
    }

    fn has_instances(&self) -> bool {
        match &self.kind {
            Kind::Counted(counted) => counted.state.lock_device().instances > 0,
            Kind::Fence(_) | Kind::Notification(_) => true,
        }
    }
}

impl Drop for LegacyObject {
    fn drop(&mut self) {
        if let Some((handle, globals)) = &self.global {
            globals.lock_device().remove(*handle);
        }
    }
}

/// The grants that are still to be signalled, and the agent that does it.
struct Grants {
    given: Mutex<Vec<Arc<InternalFence>>>,
    pending: Event,
}

impl Grants {
    fn start(platform: &Platform) -> Arc<Grants> {
        let given = platform.mutex("grants of the library", Vec::new());
        let grants = Arc::new(Grants { given, pending: platform.event(false) });
        let served = grants.clone();
        platform.spawn_worker("grants of the C library", move || served.serve());
        grants
    }

    /// May be called at any level.
    fn give(&self, grant: Arc<InternalFence>) {
        self.given.lock_device().push(grant);
        self.pending.set(Step::ThreadWake);
    }

    fn serve(&self) {
        while self.pending.wait() == WaitEnd::Woken {
            let given = std::mem::take(&mut *self.given.lock_device());
            given.iter().for_each(|grant| grant.signal(1));
        }
    }
}

/// What all these objects share.
pub(crate) struct LegacyObjects {
    platform: Platform,
    globals: Arc<Globals>,
    /// Started by the first mutex or semaphore.
    grants: OnceLock<Arc<Grants>>,
}

impl LegacyObjects {
    pub(crate) fn new(platform: &Platform) -> LegacyObjects {
        let globals = Arc::new(platform.mutex("global handles", HandleTable::new()));
        LegacyObjects { platform: platform.clone(), globals, grants: OnceLock::new() }
    }

    /// A mutex or a semaphore.
    pub(crate) fn counted(&self, count: u32, most: u32) -> Kind {
        let counted = Counted { count, most, waiters: VecDeque::new(), instances: 0 };
        let state = self.platform.mutex("a mutex or semaphore", counted);
        let grants = self.grants.get_or_init(|| Grants::start(&self.platform)).clone();
        Kind::Counted(CountedObject { state, grants })
    }

    /// Makes an object with the handle by which its flags share it.
    ///
    /// # Errors
    /// INVALID_PARAMETER for flags of sharing without SHARED; INSUFFICIENT_RESOURCES for too many
    /// global handles.
    pub(crate) fn make(
        &self,
        kind: Kind,
        flags: SyncObjectFlags,
    ) -> Result<Arc<LegacyObject>, Status> {
        use SyncObjectFlags as Flags;
        let is_shared = flags.contains(Flags::SHARED);
        let is_nt_shared = flags.contains(Flags::NT_SECURITY_SHARING);
        if !is_shared && flags.intersects(Flags::NT_SECURITY_SHARING | Flags::CROSS_ADAPTER) {
            return Err(Status::INVALID_PARAMETER);
        }
        if !is_shared || is_nt_shared {
            return Ok(Arc::new(LegacyObject { kind, global: None, is_nt_shared }));
        }
        let object = Arc::new_cyclic(|object: &Weak<LegacyObject>| {
            let handle = self.globals.lock_device().insert(object.clone()).ok();
            let global = handle.map(|handle| (handle, self.globals.clone()));
            LegacyObject { kind, global, is_nt_shared }
        });
        match object.global {
            Some(_) => Ok(object),
            None => Err(Status::INSUFFICIENT_RESOURCES),
        }
    }

    /// Returns the object of a global handle.
    pub(crate) fn find(&self, global: u32) -> Option<Arc<LegacyObject>> {
        let is_global = global & 0x3F == GLOBAL;
        let handle = is_global.then_some(Handle(global & !GLOBAL))?;
        let found = self.globals.lock().get(handle)?;
        // An operation that is still queued may keep an object without instances.
        found.upgrade().filter(|object| object.has_instances())
    }
}
