//! The driver's part of preemption: requests for the packets of an engine, their answers, and the
//! last completed packet.
//!
//! Order of a request: 1. with the interrupt view held, the driver answers the request itself if
//! every submitted packet is complete and reported; 2. otherwise the hardware gets the request and
//! answers with an interrupt, even if its ring is empty by then. The kernel submits nothing to the
//! engine in between.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{CancelCommand, Dispatch, EngineId, InterruptData, PreemptCommand};
use tidegate_gpu_abi::{AdminCommand, Register};

impl ReferenceDriver {
    /// Requests the preemption of all packets of an engine.
    pub(crate) fn preempt(&self, level: &Dispatch, args: PreemptCommand) -> Result<(), KmdError> {
        let engine = self.engine_number(args.engine)?;
        // 1.
        if self.answer_here(level, args)? {
            return Ok(());
        }
        // 2.
        let PreemptCommand { preemption_fence_id, .. } = args;
        self.mailbox.run(AdminCommand::PreemptNode { engine, preemption_fence_id })
    }

    /// Answers a request if all packets are complete and reported.
    // spec: PRE-023
    fn answer_here(&self, level: &Dispatch, args: PreemptCommand) -> Result<bool, KmdError> {
        let view = self.view.lock_device();
        let (callbacks, submitted) = {
            let objects = self.objects.lock();
            let started = objects.started()?;
            (started.callbacks.clone(), started.packets[args.engine].submitted)
        };
        let reported = view.reported[args.engine];
        if reported != submitted || self.current_fence(args.engine)? != submitted {
            return Ok(false);
        }
        let level = level.raise_to_dirql(&view);
        callbacks.notify_interrupt(
            &level,
            InterruptData::DmaPreempted {
                engine: args.engine,
                preemption_fence_id: args.preemption_fence_id,
                last_completed_fence_id: reported,
            },
        );
        callbacks.queue_dpc(&level);
        Ok(true)
    }

    /// Returns the last packet that the hardware completed, 0 before the first. The kernel reads it
    /// before it declares a timeout.
    pub(crate) fn current_fence(&self, engine: EngineId) -> Result<u32, KmdError> {
        let register = Register::COMPLETED_FENCE.offset(self.engine_number(engine)?);
        Ok(self.device.read_register(register) as u32)
    }

    /// Accepts the cancellation of a packet. The driver keeps no state for it.
    pub(crate) fn cancel(&self, args: CancelCommand) -> Result<(), KmdError> {
        let context = self.objects.lock().contexts.get(args.context)?.engine;
        match context == args.engine {
            true => Ok(()),
            false => Err(KmdError::Argument("a packet is cancelled on the engine of its context")),
        }
    }
}

/// The hardware's answers to preemption requests, each with its last completed packet. They are
/// reported after the completions and faults of the same routine, because an answer counts those
/// packets as settled.
pub(crate) struct Answers {
    answers: Vec<InterruptData>,
}

impl Answers {
    /// Reads the answers of the current interrupt.
    pub(crate) fn take(driver: &ReferenceDriver) -> Answers {
        let read = |register: Register, number| {
            driver.device.read_register(register.offset(number)) as u32
        };
        let engines = driver.read_engines(Register::PREEMPTED_ENGINES);
        let answers = engines.map(|(number, engine)| InterruptData::DmaPreempted {
            engine,
            preemption_fence_id: read(Register::PREEMPTED_FENCE, number),
            last_completed_fence_id: read(Register::PREEMPTED_COMPLETED, number),
        });
        Answers { answers: answers.collect() }
    }

    /// Returns an empty set of answers.
    pub(crate) fn none() -> Answers {
        Answers { answers: Vec::new() }
    }

    /// Returns whether the packets of this engine are preempted.
    pub(crate) fn name(&self, engine: EngineId) -> bool {
        self.answers.iter().any(|answer| {
            matches!(*answer, InterruptData::DmaPreempted { engine: of, .. } if of == engine)
        })
    }

    pub(crate) fn into_reports(self) -> Vec<InterruptData> {
        self.answers
    }
}
