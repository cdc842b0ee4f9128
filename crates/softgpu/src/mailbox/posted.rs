//! Commands that need the end of an engine's turn. A register write never waits for it.
//!
//! 1. The command is begun: what it waits for is recorded, and engines or a queue are held, so that
//!    the wait is bounded.
//! 2. If the turns have ended, it is finished at once. Otherwise its status is PENDING.
//! 3. The end of a turn changes `Hardware::turn_ends`. The driver then sends `Continue`, which
//!    finishes the command if all turns have ended.

use super::{address_spaces, doorbells, power, queues, recovery};
use crate::cmp::Cmp;
use crate::cmp::posted::{Posted, Until};
use crate::doorbell::{Placement, Sharing};
use crate::hardware::Hardware;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AdminCommand, AdminError};
use tidegate_platform::MutexGuard;

/// The answer to a command.
pub(super) enum Reply {
    Done((u64, u64)),
    /// The ticket of a command that waits.
    Pending(u64),
}

/// Carries out steps 1 and 2.
pub(super) fn post(gpu: &Hardware, command: AdminCommand) -> Result<Reply, AdminError> {
    let (mut cmp, until) = begin(gpu, command)?;
    if cmp.is_met(&until) {
        return finish(gpu, cmp, command).map(Reply::Done);
    }
    cmp.hold(&until, true);
    cmp.last_ticket += 1;
    let ticket = cmp.last_ticket;
    Ok(wait(gpu, cmp, ticket, Posted { until, command }))
}

/// Carries out step 3.
pub(super) fn go_on(gpu: &Hardware, ticket: u64, at_once: bool) -> Result<Reply, AdminError> {
    let mut cmp = gpu.cmp.lock();
    let posted = cmp.posted.remove(&ticket).ok_or(AdminError::BadValue)?;
    if !at_once && !cmp.is_met(&posted.until) {
        return Ok(wait(gpu, cmp, ticket, posted));
    }
    cmp.hold(&posted.until, false);
    finish(gpu, cmp, posted.command).map(Reply::Done)
}

/// Has the engines return their queues at the ends of their turns, and announce these ends.
fn wait(gpu: &Hardware, mut cmp: MutexGuard<'_, Cmp>, ticket: u64, posted: Posted) -> Reply {
    for engine in cmp.awaited_engines(&posted.until) {
        gpu.request_queues(&mut cmp, engine..engine + 1);
    }
    cmp.turn_is_awaited = true;
    cmp.posted.insert(ticket, posted);
    Reply::Pending(ticket)
}

/// Carries out what a command does before the wait.
fn begin(
    gpu: &Hardware,
    command: AdminCommand,
) -> Result<(MutexGuard<'_, Cmp>, Until), AdminError> {
    match command {
        AdminCommand::SetAddressSpace { address_space, root, physical_gpu } => {
            address_spaces::renew(gpu, address_space, physical_gpu, Some(root))
        }
        AdminCommand::InvalidateTlb { address_space, physical_gpu } => {
            address_spaces::renew(gpu, address_space, physical_gpu, None)
        }
        AdminCommand::DestroyQueue { queue }
        | AdminCommand::SuspendQueue { queue }
        | AdminCommand::ResumeQueue { queue }
        | AdminCommand::ConnectDoorbell { queue, .. }
        | AdminCommand::DisconnectDoorbell { queue } => {
            let mut cmp = gpu.awake()?;
            cmp.queue(queue).ok_or(AdminError::NoSuchQueue)?;
            Ok((cmp, Until::Returned(queue)))
        }
        AdminCommand::HoldEngines => {
            let mut cmp = gpu.cmp.lock();
            cmp.holds += 1;
            // The next turn of each engine finds the hold.
            let until = cmp.turns_of(0..gpu.nodes.len());
            Ok((cmp, until))
        }
        // Power is given at once.
        AdminCommand::PowerEngine { engine, on, .. } => {
            let (cmp, index) = gpu.awake_engine(engine)?;
            Ok((cmp, if on { Until::NOW } else { Until::Between(index..index + 1) }))
        }
        AdminCommand::PowerDevice { on, .. } => {
            let until = if on { Until::NOW } else { Until::Between(0..gpu.nodes.len()) };
            Ok((gpu.cmp.lock(), until))
        }
        AdminCommand::ResetEngine { engine } => {
            let (cmp, index) = gpu.awake_engine(engine)?;
            Ok((cmp, Until::Between(index..index + 1)))
        }
        // A queue that the engine keeps is in no command, and the CMP learns of its progress.
        AdminCommand::QueryEngine { engine } => {
            let (cmp, index) = gpu.awake_engine(engine)?;
            let until = cmp.turns_of(index..index + 1);
            Ok((cmp, until))
        }
        _ => Err(AdminError::Malformed),
    }
}

/// Carries out what a command does after the wait.
fn finish(gpu: &Hardware, cmp: MutexGuard<'_, Cmp>, command: AdminCommand) -> AdminAnswer {
    match command {
        AdminCommand::SetAddressSpace { address_space, root, physical_gpu } => {
            address_spaces::renewed(gpu, cmp, address_space, physical_gpu, Some(root))
        }
        AdminCommand::InvalidateTlb { address_space, physical_gpu } => {
            address_spaces::renewed(gpu, cmp, address_space, physical_gpu, None)
        }
        AdminCommand::DestroyQueue { queue } => queues::destroy(gpu, cmp, queue),
        AdminCommand::SuspendQueue { queue } => queues::suspend(gpu, cmp, queue),
        AdminCommand::ResumeQueue { queue } => queues::resume(gpu, cmp, queue),
        AdminCommand::ConnectDoorbell { queue, global, secondary } => {
            let sharing = match global {
                false => Sharing::Queue,
                true if gpu.config.one_global_doorbell => Sharing::All,
                true => Sharing::Process,
            };
            let in_system_memory = gpu.config.doorbells_in_system_memory;
            let placement = Placement { sharing, secondary, in_system_memory };
            doorbells::connect(gpu, cmp, queue, placement)
        }
        AdminCommand::DisconnectDoorbell { queue } => doorbells::disconnect(gpu, cmp, queue),
        AdminCommand::HoldEngines => DONE,
        AdminCommand::PowerEngine { engine, on, if_idle } => {
            power::set_engine(gpu, cmp, engine, on, if_idle)
        }
        AdminCommand::PowerDevice { on, if_idle } => power::set_device(gpu, cmp, on, if_idle),
        AdminCommand::ResetEngine { engine } => recovery::reset_engine(gpu, cmp, engine),
        AdminCommand::QueryEngine { engine } => recovery::query_engine(cmp, engine),
        _ => Err(AdminError::Malformed),
    }
}
