//! Swap chains: buffers that the display shows in turn, each after its queue has rendered it.
//!
//! Present number p, from 1 on, shows buffer (p - 1) mod n. The kernel signals the chain's fence
//! with p when a vertical sync has latched it. The buffer of present p - 1 is free then. Order of a
//! present: 1. the caller waits until fewer presents than the frame latency are pending; 2. the
//! flip is queued behind the queue's work; 3. the queue waits for the vertical sync that frees the
//! next buffer. Work that is queued after a present therefore never writes a buffer that is shown
//! or pending. Other queues that render into the buffers wait for [`SwapChain::fence`] themselves.
//!
//! Swap chains need a kernel-mode queue, because the kernel times the flips and programs the
//! display.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::hazards;
use crate::model::{BufferDesc, Heap, Submission};
use crate::queue::Queue;
use crate::resource::{Buffer, Format, Resource, Texture, TextureDimension};
use crate::shared_device::{SharedDevice, USER_QUEUES_DO_NOT_PRESENT};
use std::fmt;
use std::sync::Arc;
use tidegate_calls::{DisplayInfo, PixelFormat, Present, Surface};
use tidegate_platform::Mutex;
use tidegate_platform::hazard::TimelineId;

/// The minimum and maximum number of buffers of a chain.
const BUFFERS: std::ops::RangeInclusive<usize> = 2..=16;
/// The maximum frame latency.
const MAX_FRAME_LATENCY: u32 = 15;
/// The maximum sync interval.
const MAX_SYNC_INTERVAL: u32 = 4;

/// Describes a swap chain to create (DXGI_SWAP_CHAIN_DESC1). The default has two buffers without a
/// size.
///
/// ```
/// use tidegate_d3d12::SwapChainDesc;
///
/// let desc = SwapChainDesc::new("screen", 1280, 720).buffers(3);
/// assert_eq!((desc.buffers, desc.frame_latency), (3, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapChainDesc {
    /// The name of the chain in messages, and of its fence.
    pub name: String,
    /// Pixels in a row. A pixel has 4 bytes: red, green, blue, alpha.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The number of buffers, from 2 to 16.
    pub buffers: u32,
    /// The number of pending presents at which [`SwapChain::present`] blocks, from 1 to 15.
    pub frame_latency: u32,
}

impl SwapChainDesc {
    /// Describes a chain of two buffers with at most two presents under way.
    pub fn new(name: impl Into<String>, width: u32, height: u32) -> SwapChainDesc {
        SwapChainDesc { name: name.into(), width, height, buffers: 2, frame_latency: 2 }
    }

    /// Sets the number of buffers.
    pub fn buffers(self, buffers: u32) -> SwapChainDesc {
        SwapChainDesc { buffers, ..self }
    }

    /// Sets how many presents may be under way.
    pub fn frame_latency(self, frame_latency: u32) -> SwapChainDesc {
        SwapChainDesc { frame_latency, ..self }
    }
}

impl Default for SwapChainDesc {
    fn default() -> SwapChainDesc {
        SwapChainDesc::new("", 0, 0)
    }
}

/// Buffers that the display shows in turn.
#[doc(alias = "IDXGISwapChain")]
pub struct SwapChain {
    desc: SwapChainDesc,
    queue: Queue,
    buffers: Vec<Buffer>,
    textures: Vec<Texture>,
    surface: Surface,
    shown: Fence,
    /// The number of presents. Locked during a present, which orders the presents of several
    /// threads.
    presented: Mutex<u64>,
    device: Arc<SharedDevice>,
    /// The display's reads, for the hazard check.
    checked: Option<TimelineId>,
}

impl Device {
    /// Returns the adapter's display; `None` for a render-only adapter.
    pub fn display(&self) -> Option<DisplayInfo> {
        self.shared.umd.enter().display()
    }

    /// Blocks until the display's next vertical sync.
    ///
    /// # Errors
    /// [`Error::NotSupported`] without a display; [`Error::Stopped`].
    #[doc(alias = "WaitForVBlank")]
    pub fn wait_for_vertical_blank(&self) -> Result<()> {
        if self.display().is_none() {
            return Err(no_display("a wait for a vertical sync".to_owned()));
        }
        let waited = self.shared.umd.enter().wait_for_vertical_blank_event();
        waited.map_err(|s| self.shared.error("D3DKMTWaitForVerticalBlankEvent", "the display", s))
    }

    /// Creates a swap chain on a kernel-mode queue, with buffers of its own. The description of the
    /// queue must name its submission model: the default is user mode where the adapter has it.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on a user-mode queue, or without a display; [`Error::BadValue`] for
    /// a number out of range; [`Error::Foreign`]; what the kernel refuses.
    #[doc(alias = "CreateSwapChainForHwnd")]
    pub fn create_swap_chain(&self, queue: &Queue, desc: SwapChainDesc) -> Result<SwapChain> {
        let surface = Surface::packed(desc.width, desc.height, PixelFormat::A8B8G8R8);
        let what =
            || format!("swap chain '{}' of {} by {} pixels", desc.name, desc.width, desc.height);
        let bad = |why| Error::BadValue { what: what(), why };
        let bytes = surface.bytes().ok_or_else(|| bad(WRONG_SIZE))?;
        if !BUFFERS.contains(&(desc.buffers as usize)) {
            return Err(bad(WRONG_BUFFERS));
        }
        let buffers = (0..desc.buffers).map(|number| {
            let name = format!("{}[{number}]", desc.name);
            self.create_buffer(BufferDesc { name, bytes, heap: Heap::Default })
        });
        // Before any buffer is made: a refusal costs nothing.
        self.presents_on(queue, &desc.name)?;
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        self.create_swap_chain_of(queue, buffers, desc)
    }

    /// Creates a swap chain of existing buffers, which are shown in this order. `desc.buffers` is
    /// ignored.
    ///
    /// # Errors
    /// As [`Device::create_swap_chain`]; [`Error::OutOfRange`] for a buffer that is too short.
    pub fn create_swap_chain_of(
        &self,
        queue: &Queue,
        buffers: Vec<Buffer>,
        desc: SwapChainDesc,
    ) -> Result<SwapChain> {
        let surface = Surface::packed(desc.width, desc.height, PixelFormat::A8B8G8R8);
        let bytes = surface.bytes().ok_or_else(|| bad(&desc.name, WRONG_SIZE))?;
        for buffer in &buffers {
            if buffer.bytes() < bytes {
                let (command, name, size) = ("a present", buffer.name().to_owned(), buffer.bytes());
                return Err(Error::OutOfRange { command, buffer: name, offset: 0, bytes, size });
            }
        }
        self.chain(queue, BackBuffers { buffers, textures: Vec::new() }, surface, desc)
    }

    /// Creates a swap chain of existing textures with two dimensions, R8G8B8A8_UNORM, of the
    /// chain's size. A texture must be in the state PRESENT (COMMON) when it is presented.
    ///
    /// # Errors
    /// As [`Device::create_swap_chain`]; [`Error::BadValue`] for a texture of another kind.
    pub fn create_swap_chain_of_textures(
        &self,
        queue: &Queue,
        textures: Vec<Texture>,
        desc: SwapChainDesc,
    ) -> Result<SwapChain> {
        let mut surface = Surface::packed(desc.width, desc.height, PixelFormat::A8B8G8R8);
        surface.bytes().ok_or_else(|| bad(&desc.name, WRONG_SIZE))?;
        for texture in &textures {
            let of = texture.desc();
            let fits = of.dimension == TextureDimension::Two
                && of.format == Format::R8G8B8A8Unorm
                && (of.width, of.height) == (desc.width, desc.height);
            let footprint = texture.footprint(0).filter(|_| fits);
            let Some(footprint) = footprint else { return Err(bad(&desc.name, WRONG_TEXTURE)) };
            surface.pitch_bytes = footprint.row_pitch as u32;
        }
        self.chain(queue, BackBuffers { buffers: Vec::new(), textures }, surface, desc)
    }

    fn chain(
        &self,
        queue: &Queue,
        back: BackBuffers,
        surface: Surface,
        desc: SwapChainDesc,
    ) -> Result<SwapChain> {
        let resources: Vec<Resource<'_>> = back.resources().collect();
        let desc = SwapChainDesc { buffers: resources.len() as u32, ..desc };
        let name = &desc.name;
        self.presents_on(queue, name)?;
        if !BUFFERS.contains(&resources.len()) {
            return Err(bad(name, WRONG_BUFFERS));
        }
        if !(1..=MAX_FRAME_LATENCY).contains(&desc.frame_latency) {
            return Err(bad(
                name,
                "its frame latency is the number of presents under way: give it from 1 to 15",
            ));
        }
        for resource in &resources {
            self.shared.check_owner(resource.memory().device(), || resource.what())?;
            if resource.memory().begun_allocation().is_none() {
                return Err(bad(
                    name,
                    "a back buffer lies inside a heap; give it memory of its own",
                ));
            }
        }
        let shown = self.create_fence(&format!("{name} shown"), 0)?;
        let checked = hazards::add_display(&self.shared.umd, name);
        self.make_resident(&resources)?;
        let BackBuffers { buffers, textures } = back;
        Ok(SwapChain {
            desc,
            queue: queue.clone(),
            buffers,
            textures,
            surface,
            shown,
            presented: self.shared.umd.platform.mutex("presents of a swap chain", 0),
            device: Arc::clone(&self.shared),
            checked,
        })
    }

    fn presents_on(&self, queue: &Queue, name: &str) -> Result<()> {
        let what = || format!("swap chain '{name}' on queue '{}'", queue.name());
        self.shared
            .check_owner(&queue.device.umd.kernel, || format!("queue '{}'", queue.name()))?;
        // spec: PRE-083
        if queue.submission() == Submission::User {
            return Err(Error::NotSupported { what: what(), why: USER_QUEUES_DO_NOT_PRESENT });
        }
        if self.display().is_none() {
            return Err(no_display(what()));
        }
        Ok(())
    }
}

/// The resources of a chain.
struct BackBuffers {
    buffers: Vec<Buffer>,
    textures: Vec<Texture>,
}

impl BackBuffers {
    fn resources(&self) -> impl Iterator<Item = Resource<'_>> {
        let buffers = self.buffers.iter().map(Resource::Buffer);
        buffers.chain(self.textures.iter().map(Resource::Texture))
    }
}

fn bad(chain: &str, why: &'static str) -> Error {
    Error::BadValue { what: format!("swap chain '{chain}'"), why }
}

const WRONG_SIZE: &str = "give it from 1 to 16384 pixels in either direction";
const WRONG_TEXTURE: &str =
    "its textures are of two dimensions, R8G8B8A8_UNORM and the chain's width and height";
const WRONG_BUFFERS: &str =
    "a swap chain has from 2 to 16 buffers: one is shown while another is rendered";

fn no_display(what: String) -> Error {
    Error::NotSupported { what, why: "the adapter has no display; give the machine one" }
}

impl SwapChain {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.desc.name
    }

    /// Returns the description, with the number of buffers or textures that the chain has.
    #[doc(alias = "GetDesc1")]
    pub fn desc(&self) -> &SwapChainDesc {
        &self.desc
    }

    /// Returns the buffers in the order in which they are shown; empty for a chain of textures.
    #[doc(alias = "IDXGISwapChain::GetBuffer")]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Returns the textures in the order in which they are shown; empty for a chain of buffers.
    pub fn textures(&self) -> &[Texture] {
        &self.textures
    }

    fn back_buffers(&self) -> usize {
        self.buffers.len() + self.textures.len()
    }

    /// Returns the resource that present number `number` + 1 shows.
    fn shown_by(&self, number: u64) -> Resource<'_> {
        let at = (number % self.back_buffers() as u64) as usize;
        match self.textures.get(at) {
            Some(texture) => Resource::Texture(texture),
            None => Resource::Buffer(&self.buffers[at]),
        }
    }

    /// Returns the index of the buffer that is presented next.
    #[doc(alias = "GetCurrentBackBufferIndex")]
    pub fn current_index(&self) -> usize {
        (*self.presented.lock_device() % self.back_buffers() as u64) as usize
    }

    /// Returns the fence that reaches p when present number p (from 1 on) is on the screen and the
    /// previous buffer is free.
    pub fn fence(&self) -> &Fence {
        &self.shown
    }

    /// Returns the number of presents.
    #[doc(alias = "GetLastPresentCount")]
    pub fn presented(&self) -> u64 {
        *self.presented.lock_device()
    }

    /// Shows the current buffer when all work of the queue so far is complete. Returns the
    /// present's number. Blocks while the number of pending presents is the frame latency.
    ///
    /// `sync_interval` from 1 to 4 is the minimum number of vertical syncs after the previous
    /// buffer. With 0 the buffer is shown as soon as possible, and not at all if a newer one is
    /// ready then. That needs 4 buffers: with fewer, rendering waits for the screen.
    ///
    /// # Errors
    /// [`Error::BadValue`] for an interval above 4; as [`Queue::execute`].
    #[doc(alias = "Present")]
    #[track_caller]
    pub fn present(&self, sync_interval: u32) -> Result<u64> {
        let _call = self.device.umd.platform.enter_call("SwapChain::present");
        if sync_interval > MAX_SYNC_INTERVAL {
            let what = format!(
                "a present of swap chain '{}' with sync interval {sync_interval}",
                self.name()
            );
            return Err(Error::BadValue { what, why: "give it from 0 to 4" });
        }
        let mut presented = self.presented.lock_device();
        let number = *presented + 1;
        // 1.
        self.shown.wait(number.saturating_sub(self.desc.frame_latency.into()))?;
        // 2.
        let shown = self.shown_by(*presented);
        let begun = shown.memory().begun_allocation();
        let allocation = begun.expect("a back buffer begins an allocation");
        let flip = |queue| Present {
            queue,
            allocation,
            surface: self.surface,
            vid_pn_source_id: 0,
            sync_interval,
            shown: Some(self.shown.object.at(number)),
        };
        if let Some(states) = &self.device.states {
            states.present(&self.queue.inner.id, shown.facts());
            // The flip signals when what the queue held is complete.
            states.signal(&self.queue.inner.id, &self.shown.object, number);
        }
        hazards::present(
            &self.device.umd.platform,
            self.queue.inner.id.checked,
            self.checked,
            &self.shown.object,
            number,
            shown.memory(),
        );
        let queued = self.queue.inner.present(flip);
        queued.map_err(|failure| self.device.queue_error(self.queue.name(), *failure))?;
        *presented = number;
        // 3.
        match (number + 2).saturating_sub(self.back_buffers() as u64) {
            0 => {}
            frees_next => self.queue.wait(&self.shown, frees_next)?,
        }
        Ok(number)
    }

    /// Blocks until the last present is on the screen, and has been there for a whole refresh.
    ///
    /// # Errors
    /// As [`Fence::wait`].
    #[track_caller]
    pub fn wait_shown(&self) -> Result<()> {
        let _call = self.device.umd.platform.enter_call("SwapChain::wait_shown");
        let number = *self.presented.lock_device();
        if number == 0 {
            return Ok(());
        }
        self.shown.wait(number)?;
        let waited = self.device.umd.enter().wait_for_vertical_blank_event();
        waited.map_err(|s| self.device.error("D3DKMTWaitForVerticalBlankEvent", "the display", s))
    }
}

impl fmt::Debug for SwapChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SwapChain({:?}, {} buffers)", self.name(), self.back_buffers())
    }
}

impl Drop for SwapChain {
    fn drop(&mut self) {
        let resources = (0..self.back_buffers() as u64).map(|number| self.shown_by(number));
        let movable = resources.filter_map(|resource| resource.memory().movable());
        let allocations: Vec<_> = movable.collect();
        if !allocations.is_empty() {
            let done = self.device.umd.enter().evict(self.device.umd.handle(), &allocations);
            let device = &self.device.umd.kernel;
            device.thunk().teardown().note("D3DKMTEvict", device.handle(), done);
        }
    }
}
