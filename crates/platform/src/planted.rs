//! The faults that a scenario or a test plants in a machine: each is a mistake that must be found.
//!
//! A machine has at most one (decisions/0071). Code that has a fault says so by [`planted!`], which
//! costs a load of a switch while no fault is planted. A fault that leaves out a barrier alone is
//! the platform's: see [`Platform::barrier`].

use crate::Platform;

/// A fault. The name says what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    /// Announced page dropped.
    AnnouncedPageDropped,
    /// Announced work unseen.
    AnnouncedWorkUnseen,
    /// Armed after the registration.
    ArmedAfterTheRegistration,
    /// A cancelled wait goes on.
    CancelledWaitGoesOn,
    /// Connected before the mapping.
    ConnectedBeforeTheMapping,
    /// Connected before the process has mapped the page.
    ConnectedBeforeTheProcessHasMappedThePage,
    /// A device is lost after its work has ended.
    DeviceIsLostAfterItsWorkHasEnded,
    /// Device retired after its objects.
    DeviceRetiredAfterItsObjects,
    /// Doorbell entered after its transition.
    DoorbellEnteredAfterItsTransition,
    /// Doorbells without end.
    DoorbellsWithoutEnd,
    /// Double fetch.
    DoubleFetch,
    /// Events forgotten.
    EventsForgotten,
    /// Fails for a queue that is gone.
    FailsForAQueueThatIsGone,
    /// Forgets its bit.
    ForgetsItsBit,
    /// Future left to a signal call.
    FutureLeftToASignalCall,
    /// Gate counted twice.
    GateCountedTwice,
    /// Given back without a wake.
    GivenBackWithoutAWake,
    /// Granted to the dead.
    GrantedToTheDead,
    /// Hang detection rests.
    HangDetectionRests,
    /// Held signals forgotten.
    HeldSignalsForgotten,
    /// Last session unseen.
    LastSessionUnseen,
    /// A latched wait ends its command buffer.
    LatchedWaitEndsItsCommandBuffer,
    /// Late signal ends the next wait.
    LateSignalEndsTheNextWait,
    /// Late waker.
    LateWaker,
    /// A loss before the park is missed.
    LossBeforeTheParkIsMissed,
    /// A loss leaves the queue parked.
    LossLeavesTheQueueParked,
    /// Lost waits are parked.
    LostWaitsAreParked,
    /// Lost without a wake.
    LostWithoutAWake,
    /// MonitoredValue raised without the lock.
    MonitoredValueRaisedWithoutTheLock,
    /// A name is kept.
    NameIsKept,
    /// Nested call waits at the gate.
    NestedCallWaitsAtTheGate,
    /// No barrier in the CPU signal.
    NoBarrierInTheCPUSignal,
    /// No barrier of all agents.
    NoBarrierOfAllAgents,
    /// No hand-over between engines.
    NoHandoverBetweenEngines,
    /// No look at the device of a new object.
    NoLookAtTheDeviceOfANewObject,
    /// No shadow barrier.
    NoShadowBarrier,
    /// No signal barrier.
    NoSignalBarrier,
    /// No summary barrier.
    NoSummaryBarrier,
    /// Notice after cancel.
    NoticeAfterCancel,
    /// An older page is mapped.
    OlderPageIsMapped,
    /// Own copy seen.
    OwnCopySeen,
    /// Owned by the dead.
    OwnedByTheDead,
    /// Packets enter beside a reset.
    PacketsEnterBesideAReset,
    /// Paging unseen.
    PagingUnseen,
    /// A process is closed after its objects have ended.
    ProcessIsClosedAfterItsObjectsHaveEnded,
    /// A queue ends with its last handle.
    QueueEndsWithItsLastHandle,
    /// A registration is known by its slot.
    RegistrationIsKnownByItsSlot,
    /// Registrations taken after the notice.
    RegistrationsTakenAfterTheNotice,
    /// A removal leaves packets to the engines.
    RemovalLeavesPacketsToTheEngines,
    /// Root cleared after its leaves.
    RootClearedAfterItsLeaves,
    /// Rung before the end.
    RungBeforeTheEnd,
    /// A sleeping engine is not woken.
    SleepingEngineIsNotWoken,
    /// Sleeps with the mailbox.
    SleepsWithTheMailbox,
    /// Stale place.
    StalePlace,
    /// Stale wake.
    StaleWake,
    /// The state of a new queue is sent once.
    StateOfANewQueueIsSentOnce,
    /// Suspended work unseen.
    SuspendedWorkUnseen,
    /// Sweeps overlap.
    SweepsOverlap,
    /// Turn given back before the answer.
    TurnGivenBackBeforeTheAnswer,
    /// Unawaited turns.
    UnawaitedTurns,
    /// Unheard end.
    UnheardEnd,
    /// A wait is cancelled by its slot.
    WaitIsCancelledByItsSlot,
    /// Waiters tested before the CPU signal.
    WaitersTestedBeforeTheCPUSignal,
}

/// Whether the platform has this fault: `planted!(platform, Name)`.
#[macro_export]
macro_rules! planted {
    ($platform:expr, $Name:ident) => {
        $platform.has_planted($crate::PlantedFault::$Name)
    };
}

impl Platform {
    /// Plants a fault for an exploration that must find it. A machine has at most one; later calls
    /// have no effect.
    pub fn plant(&self, fault: PlantedFault) {
        self.inner.fault.get_or_init(|| fault);
        self.inner.switches.enable_fault();
    }

    /// Returns whether this fault is planted. Product code asks by [`planted!`].
    #[inline]
    pub fn has_planted(&self, fault: PlantedFault) -> bool {
        self.instruments().has_fault() && self.is_planted(fault)
    }

    #[cold]
    fn is_planted(&self, fault: PlantedFault) -> bool {
        self.inner.fault.get() == Some(&fault)
    }

    /// Executes a full barrier ([`Platform::fence`]), unless `left_out` is planted.
    #[inline]
    pub fn barrier(&self, left_out: PlantedFault) {
        if !self.has_planted(left_out) {
            self.fence();
        }
    }
}
