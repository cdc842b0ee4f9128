//! The faults that a scenario or a test plants in a machine: each is a mistake that must be found.
//!
//! A machine has at most one (decisions/0071). Code that has a fault says so by [`planted!`], which
//! costs a load of a switch while no fault is planted. A fault that only leaves out a barrier is
//! the platform's: see [`crate::Platform::barrier`].

macro_rules! faults {
    ($($Name:ident),+) => {
        /// A fault. The name says what goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PlantedFault {
            $(#[doc = concat!("See `planted!(platform, ", stringify!($Name), ")`.")] $Name,)+
        }
    };
}

faults! {
    AnnouncedPageDropped, AnnouncedWorkUnseen, ArmedAfterTheRegistration, CancelledWaitGoesOn,
    ConnectedBeforeTheMapping, ConnectedBeforeTheProcessHasMappedThePage, DPCOfACallIsLeft,
    DestroyedFenceMoves, DeviceIsLostAfterItsWorkHasEnded, DeviceRetiredAfterItsObjects,
    DoorbellEnteredAfterItsTransition, DoorbellsWithoutEnd, DoubleFetch, EventsForgotten,
    FailsForAQueueThatIsGone, ForgetsItsBit, FutureLeftToASignalCall, GateCountedTwice,
    GivenBackWithoutAWake, GrantedToTheDead, HangDetectionRests, HeldSignalsForgotten,
    LastSessionUnseen, LatchedWaitEndsItsCommandBuffer, LateSignalEndsTheNextWait, LateWaker,
    LossBeforeTheParkIsMissed, LossLeavesTheQueueParked, LostWaitsAreParked, LostWithoutAWake,
    MonitoredValueRaisedWithoutTheLock, NameIsKept, NestedCallWaitsAtTheGate,
    NoBarrierInTheCPUSignal, NoBarrierOfAllAgents, NoHandoverBetweenEngines,
    NoLookAtTheDeviceOfANewObject, NoShadowBarrier, NoSignalBarrier, NoSummaryBarrier,
    NoticeAfterCancel, OlderPageIsMapped, OwnCopySeen, OwnedByTheDead, PacketsEnterBesideAReset,
    PagingUnseen, ProcessIsClosedAfterItsObjectsHaveEnded, QueueEndsWithItsLastHandle,
    RegistrationIsKnownByItsSlot, RegistrationsTakenAfterTheNotice,
    RemovalLeavesPacketsToTheEngines, RootClearedAfterItsLeaves, RungBeforeTheEnd,
    SleepingEngineIsNotWoken, SleepsWithTheMailbox, StalePlace, StaleWake,
    StateOfANewQueueIsSentOnce, SuspendedWorkUnseen, SweepsOverlap, TurnGivenBackBeforeTheAnswer,
    UnawaitedTurns, UnheardEnd, WaitIsCancelledByItsSlot, WaitersTestedBeforeTheCPUSignal
}

/// Whether the platform has this fault: `planted!(platform, Name)`.
#[macro_export]
macro_rules! planted {
    ($platform:expr, $Name:ident) => {
        $platform.has_planted($crate::PlantedFault::$Name)
    };
}
