//! Owns the driver's part of preemption: a request for the packets of an engine, its answer, and
//! the last completed packet.
//!
//! Order of a request: 1. with the interrupt view held, if every submitted packet is complete and
//! reported, the driver answers the request itself; 2. otherwise the hardware gets the request and
//! answers with an interrupt, even if its ring is empty by then. The kernel submits nothing to the
//! engine in between.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{CancelCommand, Dirql, EngineId, InterruptData, PreemptCommand};
use tidegate_gpu_abi::{AdminCommand, Register};

impl ReferenceDriver {
    /// Requests all packets of an engine.
    pub(crate) fn preempt(&self, args: PreemptCommand) -> Result<(), KmdError> {
        let engine = self.checked_number(args.engine)?;
        // 1.
        if self.answer_here(engine, args)? {
            return Ok(());
        }
        // 2.
        let PreemptCommand { preemption_fence_id, .. } = args;
        self.mailbox.run(AdminCommand::PreemptNode { engine, preemption_fence_id })
    }

    /// Answers a request for packets that are all complete and reported.
    // spec: PRE-023
    fn answer_here(&self, engine: u32, args: PreemptCommand) -> Result<bool, KmdError> {
        let view = self.view.lock_device();
        let (callbacks, submitted) = {
            let objects = self.objects.lock();
            let submitted = *objects.submitted.get(engine as usize).ok_or(KmdError::NotStarted)?;
            (objects.started()?.callbacks.clone(), submitted)
        };
        let reported = *view.reported.get(engine as usize).ok_or(KmdError::NotStarted)?;
        if reported != submitted || self.completed(engine) != submitted {
            return Ok(false);
        }
        let EngineId { node_ordinal, engine_ordinal } = args.engine;
        let level = Dirql::enter(&view);
        callbacks.notify_interrupt(
            &level,
            InterruptData::DmaPreempted {
                node_ordinal,
                engine_ordinal,
                preemption_fence_id: args.preemption_fence_id,
                last_completed_fence_id: reported,
            },
        );
        callbacks.queue_dpc(&level);
        Ok(true)
    }

    /// The last packet that the hardware has completed, 0 before the first.
    fn completed(&self, engine: u32) -> u32 {
        self.device.read_register(Register::COMPLETED_FENCE.offset(engine)) as u32
    }

    /// The same for the kernel, which queries it before it declares a timeout.
    pub(crate) fn current_fence(&self, engine: EngineId) -> Result<u32, KmdError> {
        Ok(self.completed(self.checked_number(engine)?))
    }

    /// A packet that will not be submitted: the driver keeps nothing of it.
    pub(crate) fn cancel(&self, args: CancelCommand) -> Result<(), KmdError> {
        let context = self.objects.lock().contexts.get(args.context)?.engine;
        match context == args.engine {
            true => Ok(()),
            false => Err(KmdError::Argument("a packet is cancelled on the engine of its context")),
        }
    }

    pub(crate) fn checked_number(&self, engine: EngineId) -> Result<u32, KmdError> {
        let there = engine.node_ordinal < self.device.node_count()
            && engine.engine_ordinal < self.device.physical_gpu_count();
        if there {
            Ok(self.engine_number(engine))
        } else {
            Err(KmdError::Argument("there is no such engine"))
        }
    }
}

/// Preemptions that the hardware has answered, with what is complete by each answer: reported after
/// completions and faults of the same routine, whose packets the answer counts as settled.
pub(crate) struct Answers {
    answers: Vec<InterruptData>,
}

impl Answers {
    /// Takes what an interrupt told of.
    pub(crate) fn take(driver: &ReferenceDriver) -> Answers {
        let engines = driver.device.read_register(Register::PREEMPTED_ENGINES);
        let numbers = (0..driver.device.engine_count()).filter(|engine| engines >> engine & 1 != 0);
        let read = |register: Register, engine| {
            driver.device.read_register(register.offset(engine)) as u32
        };
        let answers = numbers.map(|number| {
            let EngineId { node_ordinal, engine_ordinal } = driver.engine(number);
            InterruptData::DmaPreempted {
                node_ordinal,
                engine_ordinal,
                preemption_fence_id: read(Register::PREEMPTED_FENCE, number),
                last_completed_fence_id: read(Register::PREEMPTED_COMPLETED, number),
            }
        });
        Answers { answers: answers.collect() }
    }

    /// None.
    pub(crate) fn none() -> Answers {
        Answers { answers: Vec::new() }
    }

    /// Whether the ring of this engine is back.
    pub(crate) fn name(&self, engine: EngineId) -> bool {
        self.answers.iter().any(|answer| {
            matches!(*answer, InterruptData::DmaPreempted { node_ordinal, engine_ordinal, .. }
                if engine == EngineId { node_ordinal, engine_ordinal })
        })
    }

    pub(crate) fn into_reports(self) -> Vec<InterruptData> {
        self.answers
    }
}
