//! Mutexes, semaphores and fences of WDDM 1.x, for which contexts wait in their order.
//!
//! A wait for a mutex or a semaphore is two entries of its context's queue: the arrival, which
//! enters the context among the waiters, and a wait for a fence of the context, the grant.
//!
//! Invariants: contexts acquire in the order in which they arrive. The end of the last instance or
//! NT handle releases the waiters. A context that has ended acquires nothing, and its mutexes are
//! signalled for it; a mutex that is owned at birth is signalled when its creator's instance ends.
//! A global handle keeps nothing alive.
//!
//! Entry points: [`OlderInstance`], [`Acquisitions`].

use super::device::Device;
use super::fence::owner;
use crate::fence::instance::{FenceHold, refuse_unsupported};
use crate::fence::names::{ObjectNames, Share, ShareKind, Shareable};
use crate::fence::sharing::{allowed_by, refused_by, refused_by_flags};
use crate::fence::{CreateFence, FenceTarget, Fences, Instance, signal};
use crate::memory::Affinity;
use crate::scheduling::{ScheduledQueue, Scheduling, SignalAction};
use crate::timer::{AtPassive, EndAtPassive};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tidegate_calls::{
    CreateSynchronizationObject, NtHandle, OlderObject as Description, SignalFlags, Status,
    SyncObjectAccess, SyncObjectFlags,
};
use tidegate_ddi::{Irql, Passive};
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Platform};

/// What a context has acquired, and the grants of its waits.
pub(crate) struct Acquisitions {
    /// Created by the first wait. The lock keeps an arrival and its wait together in the queue.
    grants: Mutex<Option<Grants>>,
    held: Mutex<Held>,
}

struct Grants {
    fence: Instance,
    /// The value that grants the wait queued last.
    last: u64,
}

#[derive(Default)]
struct Held {
    ended: bool,
    mutexes: Vec<Arc<OlderObject>>,
}

impl Acquisitions {
    pub(crate) fn new(platform: &Platform) -> Arc<Acquisitions> {
        Arc::new(Acquisitions {
            grants: platform.mutex("grants of a context", None),
            held: platform.mutex("mutexes of a context", Held::default()),
        })
    }

    /// Queues a wait of the context for a mutex or a semaphore.
    pub(crate) fn wait(
        self: &Arc<Acquisitions>,
        level: &Passive,
        device: &Arc<Device>,
        context: ScheduledQueue,
        object: &Arc<OlderObject>,
    ) -> Result<(), Status> {
        let sched: &Scheduling = &device.layers.sched;
        let mut grants = self.grants.lock_device();
        if grants.is_none() {
            let flags = SyncObjectFlags::empty();
            let fence = new_fence(level, device, "grants of a context", 0, flags)?;
            *grants = Some(Grants { fence, last: 0 });
        }
        let Some(grants) = &mut *grants else { return Ok(()) };
        grants.last += 1;
        let target = FenceTarget { fence: grants.fence.fence.clone(), value: grants.last };
        let waiter = Waiter { context: Arc::downgrade(self), grant: target.clone() };
        let arrival: Box<dyn SignalAction> = Box::new(Arrival(object.clone(), waiter));
        sched.signal(level, &[context], crate::scheduling::Signal::action(arrival));
        sched.wait(level.into(), context, &[target]);
        Ok(())
    }

    /// Enters a mutex or a semaphore that is granted. Returns `false` if the context has ended.
    fn acquire(&self, object: &Arc<OlderObject>) -> bool {
        let mut held = self.held.lock();
        if held.ended && !planted!(object.fences.port.platform, GrantedToTheDead) {
            return false;
        }
        if matches!(object.kind, Kind::Mutex) {
            held.mutexes.push(object.clone());
        }
        true
    }

    /// Removes a mutex that was signalled. Returns the reference, which the caller drops outside
    /// the lock of the mutex.
    fn release(&self, object: &Arc<OlderObject>) -> Option<Arc<OlderObject>> {
        let mut held = self.held.lock();
        let at = held.mutexes.iter().position(|known| Arc::ptr_eq(known, object))?;
        Some(held.mutexes.swap_remove(at))
    }

    /// Signals the mutexes of a context that ends, or whose device is lost. It acquires nothing
    /// from now on.
    pub(crate) fn end(self: &Arc<Acquisitions>, level: Irql<'_>) {
        let mutexes = {
            let mut held = self.held.lock();
            held.ended = true;
            std::mem::take(&mut held.mutexes)
        };
        for mutex in mutexes {
            if planted!(mutex.fences.port.platform, OwnedByTheDead) {
                continue;
            }
            let me = Arc::downgrade(self);
            mutex.change(level, |state| {
                if matches!(&state.owner, Some(Owner::Context(owner)) if owner.ptr_eq(&me)) {
                    state.signal(1);
                }
            });
        }
    }
}

/// Creates a monitored fence that the kernel waits for and signals.
pub(super) fn new_fence(
    level: &Passive,
    device: &Arc<Device>,
    name: &str,
    initial_value: u64,
    flags: SyncObjectFlags,
) -> Result<Instance, Status> {
    let args = CreateFence {
        name,
        initial_value,
        flags,
        native: None,
        private_data: [0; 64],
        affinity: Affinity::ALL,
    };
    Instance::create(level, &device.layers.fences, &owner(device), &args)
}

/// An object behind its instances.
pub(crate) struct OlderObject {
    pub(crate) kind: Kind,
    /// Those of its adapter.
    fences: Arc<Fences>,
    flags: SyncObjectFlags,
    /// Its global handle, in the namespace that has it.
    global: Option<(u32, ObjectNames)>,
    state: Mutex<State>,
}

/// What an object is.
pub(crate) enum Kind {
    Mutex,
    Semaphore { max_count: u32 },
    Fence(FenceHold),
}

struct State {
    /// Instances and NT handles. Without any, no waiter is held.
    holders: u32,
    count: u32,
    /// Of a mutex that was acquired.
    owner: Option<Owner>,
    waiters: VecDeque<Waiter>,
}

enum Owner {
    /// The instance of its creator.
    Creator,
    Context(Weak<Acquisitions>),
}

/// A context that has arrived at a wait.
struct Waiter {
    context: Weak<Acquisitions>,
    grant: FenceTarget,
}

impl State {
    fn signal(&mut self, max_count: u32) -> Option<Owner> {
        self.count = max_count.min(self.count.saturating_add(1));
        self.owner.take()
    }
}

impl OlderObject {
    /// Changes the state, and grants what can be granted then.
    fn change<T>(self: &Arc<OlderObject>, level: Irql<'_>, change: impl FnOnce(&mut State) -> T) {
        // What is dropped, and the fences that are signalled, once the lock is dropped.
        let (mut passed, mut granted) = (Vec::new(), Vec::new());
        let changed = {
            let mut state = self.state.lock();
            let changed = change(&mut state);
            while state.count > 0 || state.holders == 0 {
                let Some(waiter) = state.waiters.pop_front() else { break };
                let context = waiter.context.upgrade();
                let acquires = state.holders > 0;
                if !context.as_ref().is_some_and(|context| !acquires || context.acquire(self)) {
                    passed.push((context, waiter));
                    continue;
                }
                if acquires {
                    state.count -= 1;
                    state.owner = matches!(self.kind, Kind::Mutex)
                        .then(|| Owner::Context(waiter.context.clone()));
                }
                granted.push(waiter.grant.clone());
                passed.push((context, waiter));
            }
            changed
        };
        granted.iter().for_each(|grant| {
            signal::signal(level, std::slice::from_ref(grant), SignalFlags::empty());
        });
        drop((changed, passed));
    }

    /// Signals a mutex or a semaphore.
    fn signalled(self: &Arc<OlderObject>, level: Irql<'_>) {
        let max_count = match self.kind {
            Kind::Semaphore { max_count } => max_count,
            Kind::Mutex | Kind::Fence(_) => 1,
        };
        self.change(level, |state| match state.signal(max_count) {
            Some(Owner::Context(owner)) => {
                owner.upgrade().map(|owner| (owner.release(self), owner))
            }
            _ => None,
        });
    }

    /// Returns the fence of an object that is one.
    pub(crate) fn fence(&self) -> Option<&FenceHold> {
        match &self.kind {
            Kind::Fence(hold) => Some(hold),
            Kind::Mutex | Kind::Semaphore { .. } => None,
        }
    }
}

impl Drop for OlderObject {
    fn drop(&mut self) {
        if let Some((handle, names)) = &self.global {
            names.remove_global(*handle);
        }
    }
}

/// The arrival of a context at a wait.
struct Arrival(Arc<OlderObject>, Waiter);

impl SignalAction for Arrival {
    fn carry_out(self: Box<Self>, level: Irql<'_>) {
        let Arrival(object, waiter) = *self;
        object.change(level, |state| {
            let waiters = std::mem::take(&mut state.waiters).into_iter();
            // A context waits for one object at a time, so there are no more than live contexts.
            let (live, gone): (Vec<Waiter>, Vec<Waiter>) =
                waiters.partition(|waiter| waiter.context.strong_count() > 0);
            state.waiters = live.into();
            state.waiters.push_back(waiter);
            gone
        });
    }
}

/// A queued signal of a mutex or a semaphore. It is dropped with its contexts.
pub(crate) struct Release(pub(crate) Arc<OlderObject>);

impl SignalAction for Release {
    fn carry_out(self: Box<Self>, level: Irql<'_>) {
        self.0.signalled(level);
    }
}

/// Keeps an object: part of an instance or an NT handle.
type Hold = AtPassive<HoldBody>;

struct HoldBody {
    object: Arc<OlderObject>,
    /// Whether it belongs to the creator's instance.
    is_creator: bool,
}

impl Hold {
    fn of(object: Arc<OlderObject>, is_creator: bool) -> Hold {
        let timer = object.fences.port.timer.clone();
        AtPassive::wrap(&timer, HoldBody { object, is_creator })
    }

    /// Adds a holder. Returns `None` if the last one has ended.
    fn new(object: &Arc<OlderObject>) -> Option<Hold> {
        {
            let mut state = object.state.lock();
            if state.holders == 0 {
                return None;
            }
            state.holders += 1;
        }
        Some(Hold::of(object.clone(), false))
    }
}

impl EndAtPassive for HoldBody {
    fn end(&mut self, level: &Passive) {
        self.object.change(level.into(), |state| {
            state.holders -= 1;
            if self.is_creator && matches!(state.owner, Some(Owner::Creator)) {
                state.signal(1);
            }
        });
    }
}

/// What an NT handle holds.
struct SharedOlder {
    hold: Arc<Hold>,
    access: SyncObjectAccess,
}

impl Shareable for Arc<Hold> {
    fn hold(&self, access: SyncObjectAccess) -> Box<dyn Any + Send + Sync> {
        Box::new(SharedOlder { hold: self.clone(), access })
    }
}

/// An instance in its process.
pub(crate) struct OlderInstance {
    hold: Hold,
    /// That of a fence which belongs to a device: its loss sets the fence to its maximum.
    _fence: Option<Instance>,
    /// NO_SIGNAL and NO_WAIT as they apply to this instance.
    pub(crate) flags: SyncObjectFlags,
    /// `None` for an instance that ends with its process.
    pub(crate) device: Option<Arc<Device>>,
}

impl OlderInstance {
    /// Creates an object and its creator's instance.
    pub(crate) fn create(
        level: &Passive,
        device: &Arc<Device>,
        names: &ObjectNames,
        args: &CreateSynchronizationObject,
    ) -> Result<OlderInstance, Status> {
        use SyncObjectFlags as Flags;
        let CreateSynchronizationObject { object, flags, .. } = *args;
        refuse_unsupported(flags)?;
        let is_shared = flags.contains(Flags::SHARED);
        let is_nt_shared = flags.contains(Flags::NT_SECURITY_SHARING);
        let unshared = flags.intersects(Flags::NT_SECURITY_SHARING | Flags::CROSS_ADAPTER);
        if (!is_shared && unshared) || flags.contains(Flags::NO_SIGNAL | Flags::NO_WAIT) {
            return Err(Status::INVALID_PARAMETER);
        }
        let (kind, count, fence) = match object {
            Description::Mutex { owned } => (Kind::Mutex, u32::from(!owned), None),
            // With a maximum of 0 no signal adds to the count.
            Description::Semaphore { max_count, initial_count } if initial_count <= max_count => {
                (Kind::Semaphore { max_count }, initial_count, None)
            }
            Description::Semaphore { .. } => return Err(Status::INVALID_PARAMETER),
            Description::Fence { initial_value } => {
                let storage = match is_shared {
                    true => Flags::SHARED | Flags::NT_SECURITY_SHARING,
                    false => Flags::empty(),
                };
                let fence =
                    new_fence(level, device, "a fence of WDDM 1.x", initial_value, storage)?;
                let hold = FenceHold::new(&fence.fence).ok_or(Status::INVALID_PARAMETER)?;
                (Kind::Fence(hold), 0, Some(fence))
            }
        };
        let owner = matches!(object, Description::Mutex { owned: true }).then_some(Owner::Creator);
        let state = State { holders: 1, count, owner, waiters: VecDeque::new() };
        let fences = device.layers.fences.clone();
        let state = fences.port.platform.mutex("an older object", state);
        let has_global = is_shared && !is_nt_shared;
        let object = Arc::new_cyclic(|object: &Weak<OlderObject>| {
            let handle = has_global.then(|| names.enter_global(object.clone())).flatten();
            let global = handle.map(|handle| (handle, names.clone()));
            OlderObject { kind, fences, flags, global, state }
        });
        if has_global && object.global.is_none() {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let hold = Hold::of(object, true);
        Ok(OlderInstance { hold, _fence: fence, flags, device: Some(device.clone()) })
    }

    /// Opens an object of these fences' adapter by its global handle.
    pub(crate) fn open_global(
        fences: &Arc<Fences>,
        names: &ObjectNames,
        handle: u32,
    ) -> Result<OlderInstance, Status> {
        let object = names.find_global::<OlderObject>(handle);
        let object = object.filter(|object| Arc::ptr_eq(&object.fences, fences));
        let hold = object.and_then(|object| Hold::new(&object));
        let hold = hold.ok_or(Status::INVALID_PARAMETER)?;
        Ok(OlderInstance { hold, _fence: None, flags: SyncObjectFlags::empty(), device: None })
    }

    /// Opens an object of these fences' adapter by NT handle.
    pub(crate) fn open(
        level: &Passive,
        fences: &Arc<Fences>,
        device: Option<Arc<Device>>,
        nt_handle: &NtHandle,
        flags: SyncObjectFlags,
    ) -> Result<OlderInstance, Status> {
        let shared: &SharedOlder = nt_handle.object().ok_or(Status::OBJECT_TYPE_MISMATCH)?;
        let flags = refused_by_flags(flags)? | refused_by(shared.access);
        let object = &shared.hold.object;
        if !Arc::ptr_eq(&object.fences, fences) {
            return Err(Status::NOT_SUPPORTED);
        }
        let open = |device| {
            let hold = FenceHold::new(object.fence()?.fence())?;
            Some(Instance::open(level, hold, &owner(device), flags, Affinity::ALL))
        };
        let fence = device.as_ref().and_then(open).transpose()?;
        let hold = Hold::new(object).ok_or(Status::INVALID_PARAMETER)?;
        Ok(OlderInstance { hold, _fence: fence, flags, device })
    }

    /// Checks that the object may be shared with these rights, and returns what NT handles hold.
    pub(crate) fn share(&self, access: SyncObjectAccess) -> Result<Share, Status> {
        let object = self.object();
        if !object.flags.contains(SyncObjectFlags::NT_SECURITY_SHARING) || access.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        if !allowed_by(self.flags).contains(access) {
            return Err(Status::ACCESS_DENIED);
        }
        let hold = Hold::new(object).ok_or(Status::INVALID_PARAMETER)?;
        Ok(Share { kind: ShareKind::SyncObject, objects: vec![Box::new(Arc::new(hold))], access })
    }

    pub(crate) fn object(&self) -> &Arc<OlderObject> {
        &self.hold.object
    }

    /// Returns the global handle; 0 for none.
    pub(crate) fn shared_handle(&self) -> u32 {
        self.object().global.as_ref().map_or(0, |(handle, _)| *handle)
    }
}
