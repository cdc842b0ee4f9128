//! Calls about mutexes, semaphores and fences of WDDM 1.x.

use super::Process;
use super::calls::{entered, one_packet};
use crate::fence::FenceTarget;
use crate::fence::signal::{check_flags, check_rewinds};
use crate::object::object_table::Object;
use crate::object::older::{OlderInstance, Release};
use crate::scheduling::{Signal, SignalAction, fence_signal};
use std::sync::Arc;
use tidegate_calls::{
    CreateSynchronizationObject, Handle, OpenSynchronizationObject, SignalFlags, Status,
    SyncObjectFlags, SynchronizationObject,
};
use tidegate_d3dukmdt::MAX_OBJECTS_WAITED_ON;
use tidegate_vidsch::SignalEffect;

/// An instance, and for a fence the target with the call's value.
type OlderTarget = (Arc<OlderInstance>, Option<FenceTarget>);

impl Process {
    pub(super) fn create_older(
        &self,
        args: &CreateSynchronizationObject,
    ) -> Result<SynchronizationObject, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let instance = OlderInstance::create(level, &device, &self.objects.names, args)?;
        let shared_handle = instance.shared_handle();
        let handle = self.insert(level, Object::Older(Arc::new(instance)))?;
        Ok(SynchronizationObject { handle, shared_handle })
    }

    pub(super) fn open_older(&self, args: OpenSynchronizationObject<'_>) -> Result<Handle, Status> {
        let level = &entered();
        let (fences, names) = (&self.objects.fences, &self.objects.names);
        let instance = match args {
            OpenSynchronizationObject::Shared(handle) => {
                OlderInstance::open_global(fences, names, handle)?
            }
            OpenSynchronizationObject::NtHandle { nt_handle, device, flags } => {
                let device = device.map(|device| self.live_device(device)).transpose()?;
                OlderInstance::open(level, fences, device, nt_handle, flags)?
            }
        };
        self.insert(level, Object::Older(Arc::new(instance)))
    }

    /// Resolves the 1 to 32 instances of a wait or signal. One with the flag `refused` is denied.
    fn older_instances(
        &self,
        handles: &[Handle],
        value: u64,
        refused: SyncObjectFlags,
    ) -> Result<Vec<OlderTarget>, Status> {
        if handles.is_empty() || handles.len() > MAX_OBJECTS_WAITED_ON {
            return Err(Status::INVALID_PARAMETER);
        }
        let find = |handle: &Handle| {
            let instance = self.older(*handle)?;
            if instance.flags.contains(refused) {
                return Err(Status::ACCESS_DENIED);
            }
            if let Some(device) = &instance.device {
                device.check()?;
            }
            let Some(hold) = instance.object().fence() else { return Ok((instance, None)) };
            let fence = hold.fence().clone();
            match fence.current.as_ref().is_some_and(|current| current.admits(value)) {
                true => Ok((instance, Some(FenceTarget { fence, value }))),
                false => Err(Status::INVALID_PARAMETER),
            }
        };
        handles.iter().map(find).collect()
    }

    pub(super) fn wait_for_older(
        &self,
        context: Handle,
        objects: &[Handle],
        value: u64,
    ) -> Result<(), Status> {
        let level = &entered();
        let context = self.context(context)?;
        context.device.check()?;
        let instances = self.older_instances(objects, value, SyncObjectFlags::NO_WAIT)?;
        // A wait for a mutex or a semaphore is two entries.
        self.take_room(2 * instances.len())?;
        for (instance, fence) in instances {
            let queue = context.scheduled();
            match fence {
                Some(target) => self.objects.sched.wait(level.into(), queue, &[target]),
                None => {
                    let object = instance.object();
                    context.acquisitions().wait(level, &context.device, queue, object)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn signal_older(
        &self,
        contexts: &[Handle],
        objects: &[Handle],
        flags: SignalFlags,
        value: u64,
    ) -> Result<(), Status> {
        let level = &entered();
        let contexts = one_packet(contexts, |h| self.context(h), |c| &c.device)?;
        check_flags(flags, SignalFlags::all() - SignalFlags::ENQUEUE_CPU_EVENT)?;
        let instances = self.older_instances(objects, value, SyncObjectFlags::NO_SIGNAL)?;
        let targets: Vec<FenceTarget> =
            instances.iter().filter_map(|(_, fence)| fence.clone()).collect();
        check_rewinds(&self.objects.port, &targets, flags)?;
        self.take_room(contexts.len() * instances.len())?;
        let queues: Vec<_> = contexts.iter().map(|context| context.scheduled()).collect();
        for (instance, fence) in instances {
            let signal = match fence {
                Some(target) => fence_signal(vec![target], flags),
                None => {
                    let release: Box<dyn SignalAction> =
                        Box::new(Release(instance.object().clone()));
                    Signal { effect: SignalEffect::Action(release), flags }
                }
            };
            self.objects.sched.signal(level, &queues, signal);
        }
        Ok(())
    }
}
