//! The value that names a machine, and its kinds.
//!
//! Each call of the seam dispatches by the kind, statically: most are a few nanoseconds, where a
//! call through a table of functions costs as much again (decisions/0170).
//!
//! Rooms: `clock`, `exploration` (barriers and what only an explored machine does), `running` (the
//! platform of the caller) · `state`, `instruments`, `planted` (what a platform keeps beside its
//! machine)

mod clock;
mod exploration;
mod instruments;
mod planted;
mod running;
mod state;

pub use instruments::Instruments;
pub use planted::PlantedFault;
pub(crate) use running::enter;
pub(crate) use state::{Handover, HazardState, Rests, Timeline};

use crate::wait_order::Graph;
use instruments::Switches;
use state::{Hazards, Services};
use std::sync::{Arc, OnceLock};
use tidegate_machines::host::{Host, OwnsHost};
use tidegate_machines::thread::{TakesRecords, WorldId};
use tidegate_machines::world::World;
use tidegate_machines::{Controller, MemoryModel, StepCosts, world};
use tidegate_trace::{ClockName, Record};

/// The kind of a [`Platform`]'s back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformKind {
    /// Threads, real atomics, wall clock.
    Host,
    /// One thread, fibers in order of virtual time.
    Virtual,
    /// One thread, fibers in the order that a [`Controller`] chooses, stores behind store buffers.
    Explored,
}

/// A machine: memory, agents, clock. Cheap to clone; every part of a machine holds one.
#[derive(Clone)]
pub struct Platform {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) kind: PlatformKind,
    /// The host's threads; `None` for a cooperative machine.
    pub(crate) host: Option<Host>,
    pub(crate) timeline: Timeline,
    pub(crate) hazards: Hazards,
    pub(crate) switches: Switches,
    pub(crate) world: Option<WorldId>,
    lock_order: OnceLock<&'static [&'static str]>,
    pub(crate) waits: Graph,
    /// The planted fault.
    fault: OnceLock<PlantedFault>,
    pub(crate) services: Services,
}

impl Platform {
    /// Returns a platform of threads, real atomics and the wall clock.
    ///
    /// Threads of the application may call in and wait as agents do. No standstill is detected:
    /// a wait returns [`WaitEnd::Stopped`](crate::WaitEnd::Stopped) only on a stop, because an
    /// unknown thread may still end it.
    pub fn host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(Host::new(false)))
    }

    /// Returns a platform as [`Platform::host`] does, for programs that start every thread with
    /// [`Platform::spawn`] or [`Platform::spawn_service`].
    ///
    /// If no agent can move, [`Platform::run`] ends after a second and names the blocked agents, as
    /// on the cooperative platforms. Other threads are not considered: a wait that one of them
    /// would end may return [`WaitEnd::Stopped`](crate::WaitEnd::Stopped).
    pub fn closed_host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(Host::new(true)))
    }

    /// Returns a platform as [`Platform::host`] does whose memory for processes lies in files that
    /// other processes can map ([`Platform::client_page`]).
    pub fn sharing_host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(Host::sharing()))
    }

    /// Returns a platform as [`Platform::sharing_host`] does, for processes in guests too
    /// ([`Room`](crate::Room)). A change of a page that processes may only read costs more.
    pub fn hosting_guests() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(Host::hosting_guests()))
    }

    /// Returns a platform as [`Platform::host`] does whose pages for processes can be shown at
    /// addresses that stay ([`Mapping::place`](crate::Mapping::place)), and whose bytes for
    /// processes begin at a page, and can be mapped again by this process.
    pub fn placing_host() -> Platform {
        Platform::new(PlatformKind::Host, None, Some(Host::placing()))
    }

    /// Returns a platform of fibers on the calling thread, in order of virtual time.
    /// [`Platform::spend`] charges `costs`. The machine is bound to its thread.
    ///
    /// # Panics
    ///
    /// The thread already has a cooperative machine. A call from another thread panics there,
    /// without effect.
    pub fn virtual_time(costs: StepCosts) -> Platform {
        Platform::new(PlatformKind::Virtual, Some(World::open_virtual(costs)), None)
    }

    /// Returns a platform of fibers on the calling thread, in the order chosen by
    /// `controller`, with store buffers as in `model`. The machine is bound to its thread, as
    /// with [`Platform::virtual_time`].
    pub fn explored(controller: Box<dyn Controller>, model: MemoryModel) -> Platform {
        let world = World::open_explored(controller, model);
        Platform::new(PlatformKind::Explored, Some(world), None)
    }

    fn new(kind: PlatformKind, world: Option<WorldId>, host: Option<Host>) -> Platform {
        let clock = match kind {
            PlatformKind::Host => ClockName::Wall,
            PlatformKind::Virtual => ClockName::Virtual,
            PlatformKind::Explored => ClockName::Steps,
        };
        Platform {
            inner: Arc::new(Inner {
                kind,
                host,
                hazards: Hazards::default(),
                switches: Switches::new(kind == PlatformKind::Virtual),
                timeline: Timeline::new(clock),
                world,
                lock_order: OnceLock::new(),
                waits: Graph::new(cfg!(debug_assertions) || kind == PlatformKind::Explored),
                fault: OnceLock::new(),
                services: Services::default(),
            }),
        }
    }

    /// Returns the kind of back end.
    pub fn kind(&self) -> PlatformKind {
        self.inner.kind
    }

    /// Returns whether agents are fibers of one thread (virtual and explored).
    pub fn is_cooperative(&self) -> bool {
        self.inner.kind != PlatformKind::Host
    }

    #[inline]
    pub(crate) fn host_threads(&self) -> &Host {
        self.inner.host.as_ref().expect("only a host platform has threads")
    }

    /// Returns whether services rest at the end of the run that is under way.
    pub(crate) fn rests(&self) -> bool {
        self.inner.services.rest()
    }

    /// Returns the identity of the platform while a handle of it is alive.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Returns the number of a new object; 0 unless the platform is explored.
    #[inline]
    pub(crate) fn new_object_id(&self) -> u32 {
        if self.inner.kind == PlatformKind::Explored { world::next_object_id() } else { 0 }
    }

    /// Returns what is switched on beside the work itself.
    #[inline]
    pub fn instruments(&self) -> Instruments {
        self.inner.switches.read()
    }

    /// Sets the lock order, outermost first, once, before any lock is created. In debug builds an
    /// agent that takes a lock of the list while it holds the same or a later one panics with both
    /// names. Locks that are not in the list are not ordered.
    pub fn set_lock_order(&self, order: &'static [&'static str]) {
        let _first = self.inner.lock_order.set(order);
    }

    pub(crate) fn lock_rank(&self, name: &str) -> Option<u32> {
        let order = self.inner.lock_order.get().filter(|_| cfg!(debug_assertions))?;
        order.iter().position(|other| *other == name).map(|at| at as u32)
    }
}

impl OwnsHost for Platform {
    fn host(&self) -> &Host {
        self.host_threads()
    }
}

impl TakesRecords for Inner {
    fn take(&self, records: Vec<Record>) {
        self.timeline.with_builder(|builder| builder.append(records));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(id) = self.world {
            world::close(id);
        }
    }
}
