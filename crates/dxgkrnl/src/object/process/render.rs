//! D3DKMTRender, and D3DKMTSubmitCommand where the driver has no GPU virtual addresses.
//!
//! A process finds an allocation by an address on every adapter. Where the driver has no page
//! tables, the commands at an address are rendered: the driver patches physical addresses.

use super::Process;
use super::calls::{MAX_ALLOCATIONS, entered, one_packet};
use crate::memory::AllocationObject;
use crate::object::context::Context;
use crate::object::object_table::Object;
use crate::scheduling::render::RenderError;
use crate::scheduling::{CommandKind, CommandRange, PacketContext};
use std::sync::Arc;
use tidegate_calls::{AllocationMemory, MAX_RENDER_BYTES, Render, Status};
use tidegate_ddi::Passive;

impl Process {
    /// Renders the commands at an address of the process, for a driver without GPU virtual
    /// addresses. They may use all allocations of the device, as on a GPU with page tables.
    pub(super) fn render_at(
        &self,
        level: &Passive,
        context: &Arc<Context>,
        commands: CommandRange,
    ) -> Result<(), Status> {
        let listed: Vec<(Arc<AllocationObject>, bool)> = {
            let handles = self.handles.lock();
            let of_device = |object: &Object| match object {
                Object::Allocation(of) if of.device.os_handle() == context.device.os_handle => {
                    Some((of.clone(), true))
                }
                _ => None,
            };
            handles.iter().filter_map(|(_, object)| of_device(object)).collect()
        };
        let source = listed.iter().find_map(|(of, _)| {
            let offset = commands.gpu_va.checked_sub(of.gpu_va)?;
            let end = offset.checked_add(commands.bytes.into())?;
            (end <= of.bytes).then_some((of, offset))
        });
        let (allocation, offset) = source.ok_or(Status::INVALID_PARAMETER)?;
        if commands.bytes == 0 || commands.bytes as usize > MAX_RENDER_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut bytes = vec![0; commands.bytes as usize];
        let read = match &allocation.memory {
            AllocationMemory::Bulk(bulk) => bulk.read(offset, &mut bytes).is_ok(),
            AllocationMemory::Window(window) => window.read(offset, &mut bytes).is_ok(),
            AllocationMemory::Protocol(_) | AllocationMemory::ByCalls(_) => false,
        };
        if !read {
            return Err(Status::INVALID_PARAMETER);
        }
        self.take_room(CommandKind::Patched { last: true }.cost(bytes.len()))?;
        let contexts: [Arc<dyn PacketContext>; 1] = [context.clone()];
        let rendered = self.objects.sched.render(level, &contexts, &bytes, &listed);
        rendered.map_err(|error| match error {
            // On a GPU with page tables such commands fault, and the device is lost.
            RenderError::Refused(Status::INVALID_PARAMETER) => {
                let reason = "the driver refused its commands as invalid: they may reach beyond \
                              allocations, or be of a kind that packets do not have";
                let error = RenderError::Split { offset: 0, reason: reason.to_owned() };
                self.refused(level, context, error)
            }
            error => self.refused(level, context, error),
        })
    }

    /// Returns the status of a buffer that was not queued as a whole. The device of a part that
    /// could not be queued is lost.
    fn refused(&self, level: &Passive, context: &Arc<Context>, error: RenderError) -> Status {
        match error {
            RenderError::Refused(status) => status,
            RenderError::Split { offset, reason } => {
                if let Some(recovery) = self.objects.recovery.get() {
                    recovery.split_refused(level.into(), context, offset, reason);
                }
                Status::DEVICE_REMOVED
            }
        }
    }

    pub(super) fn render(&self, args: Render<'_>) -> Result<(), Status> {
        let level = &entered();
        let contexts = one_packet(args.contexts, |h| self.context(h), |c| &c.device)?;
        let engines = contexts.iter().map(|c| c.engine.engine_ordinal);
        let each_once = engines
            .clone()
            .enumerate()
            .all(|(n, engine)| engines.clone().take(n).all(|e| e != engine));
        let whole = !args.commands.is_empty() && args.commands.len() <= MAX_RENDER_BYTES;
        if !each_once || !whole || args.allocations.len() > MAX_ALLOCATIONS {
            return Err(Status::INVALID_PARAMETER);
        }
        let listed = args.allocations.iter().map(|(handle, write)| {
            let found = self.allocation(*handle)?;
            let own = found.device.os_handle() == contexts[0].device.os_handle;
            if own { Ok((found, *write)) } else { Err(Status::INVALID_PARAMETER) }
        });
        let listed = listed.collect::<Result<Vec<_>, Status>>()?;
        let cost = CommandKind::Patched { last: true }.cost(args.commands.len());
        self.take_room(contexts.len() * cost)?;
        let rendered = self.objects.sched.render(
            level,
            &contexts
                .iter()
                .map(|context| context.clone() as Arc<dyn PacketContext>)
                .collect::<Vec<_>>(),
            args.commands,
            &listed,
        );
        rendered.map_err(|error| self.refused(level, &contexts[0], error))
    }
}
