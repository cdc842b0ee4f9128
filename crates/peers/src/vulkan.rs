//! The calls of Vulkan that the rows time, on the CPU device of the loader: lavapipe.
//!
//! Invariants that make the calls sound: every handle is of this one device, and one thread makes
//! all calls but signals and waits of semaphores, which need no lock. [`Vulkan`] waits for the
//! device before it ends; the caller destroys a semaphore when no submission and no wait uses it.
//! Room with
//! `unsafe` code: a Vulkan call is one.

#![allow(unsafe_code)]

use crate::Trouble;
use ash::vk;

pub(crate) struct Vulkan {
    name: String,
    device: ash::Device,
    queue: vk::Queue,
    pool: vk::CommandPool,
    buffers: [vk::Buffer; 2],
    memory: vk::DeviceMemory,
    instance: ash::Instance,
    /// The loaded library, which outlives every call.
    _entry: ash::Entry,
}

/// What a submission waits for or signals.
pub(crate) type Point = (vk::Semaphore, u64);

fn said(call: &'static str) -> impl Fn(vk::Result) -> Trouble {
    move |e| format!("{call}: {e:?}")
}

/// Bytes of the two buffers that lists copy between.
pub(crate) const BUFFER_BYTES: u64 = 4_096;

impl Vulkan {
    pub(crate) fn open() -> Result<Vulkan, Trouble> {
        // SAFETY: the library is the system's Vulkan loader, and nothing was called before it.
        let entry = unsafe { ash::Entry::load() }.map_err(|e| format!("no Vulkan loader: {e}"))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `create` points to live data.
        let instance = unsafe { entry.create_instance(&create, None) };
        let instance = instance.map_err(said("vkCreateInstance"))?;
        let opened = Vulkan::on(&instance);
        match opened {
            Ok((name, device, queue)) => Vulkan::with(entry, instance, name, device, queue),
            Err(trouble) => {
                // SAFETY: no object of the instance is left.
                unsafe { instance.destroy_instance(None) };
                Err(trouble)
            }
        }
    }

    /// The device on the CPU, with one queue.
    fn on(instance: &ash::Instance) -> Result<(String, ash::Device, vk::Queue), Trouble> {
        // SAFETY: the instance is live.
        let devices = unsafe { instance.enumerate_physical_devices() };
        let devices = devices.map_err(said("vkEnumeratePhysicalDevices"))?;
        let on_cpu = devices.into_iter().find_map(|device| {
            // SAFETY: the device is of this instance.
            let properties = unsafe { instance.get_physical_device_properties(device) };
            let name = properties.device_name_as_c_str().unwrap_or(c"?").to_string_lossy();
            (properties.device_type == vk::PhysicalDeviceType::CPU)
                .then(|| (device, name.into_owned()))
        });
        let (physical, name) = on_cpu.ok_or("no Vulkan device on the CPU (lavapipe)")?;
        let priorities = [1.0f32];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(0)
            .queue_priorities(&priorities)];
        let mut features = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
        let create =
            vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut features);
        // SAFETY: `create` points to live data; the driver has one queue in family 0.
        let device = unsafe { instance.create_device(physical, &create, None) };
        let device = device.map_err(said("vkCreateDevice"))?;
        // SAFETY: the queue was created with the device.
        let queue = unsafe { device.get_device_queue(0, 0) };
        Ok((name, device, queue))
    }

    fn with(
        entry: ash::Entry,
        instance: ash::Instance,
        name: String,
        device: ash::Device,
        queue: vk::Queue,
    ) -> Result<Vulkan, Trouble> {
        let mut this = Vulkan {
            name,
            device,
            queue,
            pool: vk::CommandPool::null(),
            buffers: [vk::Buffer::null(); 2],
            memory: vk::DeviceMemory::null(),
            instance,
            _entry: entry,
        };
        let create = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        // SAFETY: family 0 is the queue's.
        let pool = unsafe { this.device.create_command_pool(&create, None) };
        this.pool = pool.map_err(said("vkCreateCommandPool"))?;
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let create = vk::BufferCreateInfo::default().size(BUFFER_BYTES).usage(usage);
        let allocate = vk::MemoryAllocateInfo::default().allocation_size(2 * BUFFER_BYTES);
        // SAFETY: memory type 0 is the only one of the driver.
        let memory = unsafe { this.device.allocate_memory(&allocate, None) };
        this.memory = memory.map_err(said("vkAllocateMemory"))?;
        for (number, buffer) in this.buffers.iter_mut().enumerate() {
            // SAFETY: `create` points to live data.
            let made = unsafe { this.device.create_buffer(&create, None) };
            *buffer = made.map_err(said("vkCreateBuffer"))?;
            let at = number as u64 * BUFFER_BYTES;
            // SAFETY: the range is in the memory, and no other buffer is bound there.
            let bound = unsafe { this.device.bind_buffer_memory(*buffer, this.memory, at) };
            bound.map_err(said("vkBindBufferMemory"))?;
        }
        Ok(this)
    }

    /// The name that the driver gives its device.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn command_buffers(&self, count: u64) -> Result<Vec<vk::CommandBuffer>, Trouble> {
        let allocate = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .command_buffer_count(count as u32);
        // SAFETY: the pool is of the device.
        let made = unsafe { self.device.allocate_command_buffers(&allocate) };
        made.map_err(said("vkAllocateCommandBuffers"))
    }

    /// Records a list of `copies` copies of 4 bytes, each to another place.
    pub(crate) fn record(&self, list: vk::CommandBuffer, copies: u64) -> Result<(), Trouble> {
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let [source, target] = self.buffers;
        // SAFETY: the list executes no more: the caller has waited for its last submission.
        let begun = unsafe { self.device.begin_command_buffer(list, &begin) };
        begun.map_err(said("vkBeginCommandBuffer"))?;
        for n in 0..copies {
            let region = [vk::BufferCopy::default().src_offset(4 * n).dst_offset(4 * n).size(4)];
            // SAFETY: the list records, and the caller keeps the copies inside of the buffers.
            unsafe { self.device.cmd_copy_buffer(list, source, target, &region) };
        }
        // SAFETY: the list records.
        unsafe { self.device.end_command_buffer(list) }.map_err(said("vkEndCommandBuffer"))
    }

    /// One vkQueueSubmit.
    pub(crate) fn submit(
        &self,
        wait: Option<Point>,
        list: Option<vk::CommandBuffer>,
        signal: Option<Point>,
    ) -> Result<(), Trouble> {
        let (waits, wait_values) = wait.map_or(([vk::Semaphore::null()], [0]), |w| ([w.0], [w.1]));
        let (signals, values) = signal.map_or(([vk::Semaphore::null()], [0]), |s| ([s.0], [s.1]));
        let lists = [list.unwrap_or_default()];
        let (waits, signals) =
            (&waits[..usize::from(wait.is_some())], &signals[..usize::from(signal.is_some())]);
        let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values[..waits.len()])
            .signal_semaphore_values(&values[..signals.len()]);
        let submit = [vk::SubmitInfo::default()
            .wait_semaphores(waits)
            .wait_dst_stage_mask(&stages[..waits.len()])
            .command_buffers(&lists[..usize::from(list.is_some())])
            .signal_semaphores(signals)
            .push_next(&mut timeline)];
        // SAFETY: all handles are of the device, and one thread uses the queue.
        let done = unsafe { self.device.queue_submit(self.queue, &submit, vk::Fence::null()) };
        done.map_err(said("vkQueueSubmit"))
    }

    pub(crate) fn timeline(&self, value: u64) -> Result<vk::Semaphore, Trouble> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(value);
        let create = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: `create` points to live data.
        let made = unsafe { self.device.create_semaphore(&create, None) };
        made.map_err(said("vkCreateSemaphore"))
    }

    pub(crate) fn destroy(&self, semaphore: vk::Semaphore) {
        // SAFETY: the caller has waited for every submission that uses it.
        unsafe { self.device.destroy_semaphore(semaphore, None) };
    }

    pub(crate) fn signal(&self, (semaphore, value): Point) -> Result<(), Trouble> {
        let signal = vk::SemaphoreSignalInfo::default().semaphore(semaphore).value(value);
        // SAFETY: the semaphore is of the device, and its values rise.
        let done = unsafe { self.device.signal_semaphore(&signal) };
        done.map_err(said("vkSignalSemaphore"))
    }

    pub(crate) fn wait(&self, (semaphore, value): Point) -> Result<(), Trouble> {
        let (semaphores, values) = ([semaphore], [value]);
        let wait = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is of the device.
        let done = unsafe { self.device.wait_semaphores(&wait, u64::MAX) };
        done.map_err(said("vkWaitSemaphores"))
    }

    pub(crate) fn value(&self, semaphore: vk::Semaphore) -> Result<u64, Trouble> {
        // SAFETY: the semaphore is of the device.
        let value = unsafe { self.device.get_semaphore_counter_value(semaphore) };
        value.map_err(said("vkGetSemaphoreCounterValue"))
    }

    pub(crate) fn wait_idle(&self) -> Result<(), Trouble> {
        // SAFETY: one thread uses the queue.
        unsafe { self.device.queue_wait_idle(self.queue) }.map_err(said("vkQueueWaitIdle"))
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // SAFETY: nothing executes after the wait, and no caller has a handle of the device. Null
        // handles are ignored.
        unsafe {
            // A lost device executes nothing either.
            let _idle = self.device.device_wait_idle();
            self.buffers.iter().for_each(|buffer| self.device.destroy_buffer(*buffer, None));
            self.device.free_memory(self.memory, None);
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}
