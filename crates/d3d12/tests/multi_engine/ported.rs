//! Well-known Direct3D 12 code, written call by call against this API: a fence value for each back
//! buffer. Comments name the published call where the name differs.

use tidegate::d3d12::error::Result;
use tidegate::d3d12::{CommandAllocator, Event};
use tidegate_testbed::prelude::*;

const BACK_BUFFERS: usize = 2;
const FRAMES: u32 = 8;
/// Longer than a refresh of the display, so that the GPU is behind the CPU.
const FRAME_NS: u64 = 3_000_000;

/// The members of an application with two back buffers.
struct Renderer {
    queue: Queue,
    swap_chain: SwapChain,
    command_allocators: Vec<CommandAllocator>,
    command_list: ClosedList,
    frame_index: usize,
    fence: Fence,
    fence_event: Event,
    fence_values: [u64; BACK_BUFFERS],
}

impl Renderer {
    fn new(device: &Device, submission: Submission) -> Result<Renderer> {
        let direct = CommandListType::Direct;
        // CreateCommandQueue
        let queue = device.create_queue(QueueDesc::direct("frames").submission(submission))?;
        let desc =
            SwapChainDesc::new("screen", 32, 45).buffers(BACK_BUFFERS as u32).frame_latency(2);
        // CreateSwapChainForHwnd
        let swap_chain = device.create_swap_chain(&queue, desc)?;
        let frame_index = swap_chain.current_index();
        let command_allocators: Vec<CommandAllocator> = (0..BACK_BUFFERS)
            .map(|frame| device.create_command_allocator(&format!("frame {frame}"), direct))
            .collect();
        let command_list = device.create_command_list_from(&command_allocators[frame_index])?;
        let command_list = command_list.close()?;
        let fence = device.create_fence("frame", 0)?;
        let fence_event = device.create_event(EventDesc::auto_reset());
        let mut fence_values = [0; BACK_BUFFERS];
        fence_values[frame_index] += 1;
        let mut renderer = Renderer {
            queue,
            swap_chain,
            command_allocators,
            command_list,
            frame_index,
            fence,
            fence_event,
            fence_values,
        };
        renderer.wait_for_gpu()?;
        Ok(renderer)
    }

    fn populate_command_list(&mut self, picture: u32) -> Result<()> {
        let allocator = &self.command_allocators[self.frame_index];
        allocator.reset()?;
        let mut list = self.command_list.reset(allocator)?;
        let target = &self.swap_chain.buffers()[self.frame_index];
        let (present, drawn) = (ResourceStates::PRESENT, ResourceStates::RENDER_TARGET);
        list.barrier(&[Barrier::transition(target, present, drawn)])?;
        list.timed(FRAME_NS)?;
        let red = picture as f32 / 255.0;
        list.clear_render_target_view(target, [red, 0.0, 0.0, 0.0])?;
        list.barrier(&[Barrier::transition(target, drawn, present)])?;
        self.command_list = list.close()?;
        Ok(())
    }

    fn render(&mut self, picture: u32) -> Result<()> {
        self.populate_command_list(picture)?;
        // ExecuteCommandLists
        self.queue.execute(&[&self.command_list])?;
        self.swap_chain.present(1).map(|_| ())
    }

    fn move_to_next_frame(&mut self) -> Result<()> {
        let current = self.fence_values[self.frame_index];
        self.queue.signal(&self.fence, current)?;
        // GetCurrentBackBufferIndex
        self.frame_index = self.swap_chain.current_index();
        let needed = self.fence_values[self.frame_index];
        // GetCompletedValue
        if self.fence.completed_value() < needed {
            self.fence.set_event_on_completion(needed, &self.fence_event)?;
            // WaitForSingleObject
            self.fence_event.wait()?;
        }
        self.fence_values[self.frame_index] = current + 1;
        Ok(())
    }

    fn wait_for_gpu(&mut self) -> Result<()> {
        let value = &mut self.fence_values[self.frame_index];
        self.queue.signal(&self.fence, *value)?;
        self.fence.set_event_on_completion(*value, &self.fence_event)?;
        self.fence_event.wait()?;
        *value += 1;
        Ok(())
    }
}

/// A device that checks states, on a machine with a display.
fn app() -> App {
    App::new(DeviceOptions::new("ported").validation(Validation::STATES), |config| {
        config.gpu.display =
            Some(DisplayConfig { refresh_period_ns: 1_000_000, ..Default::default() });
    })
}

#[test]
fn a_fence_value_for_each_back_buffer_keeps_two_frames_in_flight() {
    for submission in [Submission::Packet, Submission::Hardware] {
        let app = app().case(submission);
        let shown = Arc::new(app.platform().mutex("shown pictures", Vec::new()));
        let sees = shown.clone();
        app.machine.gpu().show_frames_to(Arc::new(move |frame| {
            let first = u32::from_le_bytes(frame.pixels.as_chunks().0[0]);
            if frame.first && first != 0 {
                sees.lock().push(first);
            }
        }));
        app.run(move |app| {
            let mut renderer = Renderer::new(app, submission).unwrap();
            for picture in 1..=FRAMES {
                renderer.render(picture).unwrap();
                renderer.move_to_next_frame().unwrap();
            }
            renderer.wait_for_gpu().unwrap();
            renderer.swap_chain.wait_shown().unwrap();
            assert_eq!(app.state_violations(), []);
        });
        assert!(shown.lock().iter().copied().eq(1..=FRAMES), "{:?}", *shown.lock());
    }
}

#[test]
fn without_the_wait_the_allocator_of_the_frame_is_still_in_use() {
    app().run(|app| {
        let mut renderer = Renderer::new(app, Submission::Packet).unwrap();
        for picture in 1..=BACK_BUFFERS as u32 {
            renderer.render(picture).unwrap();
            renderer.frame_index = renderer.swap_chain.current_index();
        }
        let error = renderer.populate_command_list(3).unwrap_err();
        assert!(matches!(error, Error::AllocatorExecutes { .. }), "{error}");
        renderer.wait_for_gpu().unwrap();
        renderer.render(3).unwrap();
        renderer.wait_for_gpu().unwrap();
    });
}
