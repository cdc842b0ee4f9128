//! Flips: what is on the screen, refresh by refresh. In virtual time, so that every refresh is
//! known. The tests read the screen by the display's own scan. A frame is torn when its pixels are
//! of several pictures.

use std::ops::RangeInclusive;
use tidegate::calls::DisplayStats;
use tidegate::d3d12::Texture;
use tidegate::dxgkrnl::Census;
use tidegate::platform::RunReport;
use tidegate::run_workload;
use tidegate::trace::Kind;
use tidegate::workload::load;
use tidegate_testbed::prelude::*;

/// A refresh, in nanoseconds.
const PERIOD: u64 = 1_000_000;
const WIDTH: u32 = 32;
const HEIGHT: u32 = 45;
const PICTURE_BYTES: u64 = (WIDTH * HEIGHT * 4) as u64;

/// What the screen showed.
type Screen = Arc<Mutex<Vec<Frame>>>;

/// A machine with a display, and what the screen shows.
struct Shown {
    platform: Platform,
    machine: Machine,
    screen: Screen,
    /// Preemption requests while the display had a flip that it had not latched.
    preempted_while_pending: Word,
}

/// How a picture is made: each pixel is its number.
struct Painter {
    device: Device,
    queue: Queue,
    chain: SwapChain,
}

fn machine(change: impl FnOnce(&mut MachineConfig)) -> Shown {
    let platform = Platform::virtual_time(StepCosts::free());
    let mut config = MachineConfig::standard(&platform).with_display(PERIOD);
    change(&mut config);
    let mut hooked = None;
    let machine = Machine::builder(&platform).reference_behind(config, |inner| {
        hooked.insert(Hooked::new(&platform, inner, None)).clone()
    });
    let machine = machine.start().unwrap();
    let hooked = hooked.expect("a machine has a driver");
    let (flips, preempted_while_pending) = (platform.page(1).word(0), platform.page(1).word(0));
    let (set, count, gpu) = (flips.clone(), preempted_while_pending.clone(), machine.gpu().clone());
    hooked.on(Entry::SetVidPnSourceAddress, move || {
        set.fetch_add(1);
    });
    hooked.on(Entry::PreemptCommand, move || {
        if flips.load() > gpu.display_stats().latched {
            count.fetch_add(1);
        }
    });
    let screen: Screen = Arc::new(platform.mutex("the screen", Vec::new()));
    let sees = screen.clone();
    machine.gpu().show_frames_to(Arc::new(move |frame| sees.lock().push(frame)));
    Shown { platform, machine, screen, preempted_while_pending }
}

fn queue(device: &Device, name: &str, submission: Submission, priority: Priority) -> Queue {
    let desc = QueueDesc {
        name: name.to_owned(),
        priority,
        ..QueueDesc::new(CommandListType::Direct).submission(submission)
    };
    device.create_queue(desc).unwrap()
}

fn chain_of(buffers: u32, frame_latency: u32) -> SwapChainDesc {
    SwapChainDesc::new("screen", WIDTH, HEIGHT).buffers(buffers).frame_latency(frame_latency)
}

impl Shown {
    fn device(&self) -> Device {
        self.machine.device(DeviceOptions::default()).unwrap()
    }

    fn painter(&self, submission: Submission, desc: SwapChainDesc) -> Painter {
        let device = self.device();
        let queue = queue(&device, "graphics", submission, Priority::Normal);
        let chain = device.create_swap_chain(&queue, desc).unwrap();
        Painter { device, queue, chain }
    }

    /// Runs a program to its end and asserts that no contract was broken.
    fn run(&self, program: impl FnOnce() + Send + 'static) -> RunReport {
        let (_, report) = self.machine.run_to_report(program);
        assert!(report.completed(), "{report:?}");
        assert_eq!(self.machine.adapter().bug_checks(), []);
        assert_eq!(self.machine.driver().violations(), []);
        report
    }

    /// Runs a program to its end and returns its value.
    fn run_with<T: Send + 'static>(&self, program: impl FnOnce() -> T + Send + 'static) -> T {
        let value: Arc<Mutex<Option<T>>> = Arc::new(self.platform.mutex("a value", None));
        let put = Arc::clone(&value);
        self.run(move || {
            let made = program();
            *put.lock() = Some(made);
        });
        value.lock().take().expect("the program has ended")
    }

    /// The pictures in the order in which they were first shown, with their refreshes; the error is
    /// the first torn frame.
    fn pictures(&self) -> Result<Vec<(u32, u64)>, String> {
        let mut pictures: Vec<(u32, u64)> = Vec::new();
        for frame in self.screen.lock().iter() {
            let number = picture(frame)?;
            if frame.first {
                pictures.push((number, frame.refresh));
            } else if pictures.last().is_none_or(|(last, _)| *last != number) {
                return Err(format!(
                    "picture {number} again at refresh {}, and it was another",
                    frame.refresh
                ));
            }
        }
        Ok(pictures)
    }

    fn stats(&self) -> DisplayStats {
        self.machine.adapter().display_stats()
    }
}

/// The number of the picture that a frame shows as a whole.
fn picture(frame: &Frame) -> Result<u32, String> {
    assert_eq!((frame.width, frame.height), (WIDTH, HEIGHT));
    let (pixels, rest) = frame.pixels.as_chunks::<4>();
    assert!(rest.is_empty() && pixels.len() == (WIDTH * HEIGHT) as usize);
    match pixels.iter().position(|pixel| *pixel != pixels[0]) {
        None => Ok(u32::from_le_bytes(pixels[0])),
        Some(at) => {
            let (line, numbers) =
                (at as u32 / WIDTH, [pixels[0], pixels[at]].map(u32::from_le_bytes));
            Err(format!("torn at line {line} of refresh {}: {numbers:?}", frame.refresh))
        }
    }
}

impl Painter {
    /// Paints and presents pictures, and blocks until the last one is shown.
    fn show(&self, numbers: RangeInclusive<u32>, ns: u64, interval: u32) {
        for number in numbers {
            self.paint(number, ns);
            self.chain.present(interval).unwrap();
        }
        self.chain.wait_shown().unwrap();
    }

    /// Paints a picture into the current buffer, which takes `ns`, half of it before and half
    /// between its two halves.
    fn paint(&self, number: u32, ns: u64) {
        let buffer = &self.chain.buffers()[self.chain.current_index()];
        let half = buffer.bytes() / 2;
        self.device.execute(&self.queue, |list| {
            list.timed(ns / 2)?;
            list.fill(buffer, 0, half, number)?;
            list.timed(ns / 2)?;
            list.fill(buffer, half, half, number)
        });
    }
}

const KERNEL_MODE: [Submission; 2] = [Submission::Packet, Submission::Hardware];

// spec: PRE-081, PRE-082
#[test]
fn pictures_are_shown_whole_in_order_and_one_in_each_refresh() {
    for submission in KERNEL_MODE {
        for buffers in [2, 3] {
            let shown = machine(|_| ());
            let painter = shown.painter(submission, chain_of(buffers, 2));
            shown.run(move || {
                painter.show(1..=12, PERIOD * 3 / 5, 1);
            });
            let pictures = shown.pictures().unwrap();
            let (numbers, refreshes): (Vec<u32>, Vec<u64>) = pictures.into_iter().unzip();
            assert_eq!(numbers, (1..=12).collect::<Vec<_>>(), "{submission} {buffers}");
            // With two buffers rendering begins when the one before is on the screen, and is done
            // within the refresh.
            let in_each = refreshes.windows(2).all(|w| w[1] == w[0] + 1);
            assert!(in_each, "{submission} {buffers}: {refreshes:?}");
            let stats = shown.stats();
            assert_eq!((stats.presents, stats.shown), (12, 12));
            assert_eq!((stats.discarded, stats.missed_vsyncs), (0, 0));
            assert!(stats.latency_max_ns <= 3 * PERIOD, "{stats:?}");
            assert!(stats.latency_ns >= 12 * PERIOD / 2, "{stats:?}");
        }
    }
}

/// The second half of each picture is a fill that runs on the copy engine, for a third of a
/// refresh.
#[test]
fn a_flip_waits_for_the_lists_that_other_engines_run_for_its_queue() {
    const LATE_PS: u64 = PERIOD * 1_000 / 3 / (PICTURE_BYTES / 2);
    for submission in KERNEL_MODE {
        let shown = machine(|config| config.gpu.rates.byte_ps = LATE_PS);
        let device = shown.device();
        let desc = QueueDesc::direct("graphics").submission(submission);
        let queue = device.create_queue(desc.engines(EnginePolicy::ByCommands)).unwrap();
        let chain = device.create_swap_chain(&queue, chain_of(2, 2)).unwrap();
        assert_eq!(chain.desc(), &chain_of(2, 2));
        let stats = shown.run_with(move || {
            for number in 1..=12 {
                let buffer = &chain.buffers()[chain.current_index()];
                let half = buffer.bytes() / 2;
                device.execute(&queue, |list| {
                    list.timed(PERIOD / 100)?;
                    list.fill(buffer, 0, half, number)
                });
                device.execute(&queue, |list| list.fill(buffer, half, half, number));
                chain.present(1).unwrap();
            }
            chain.wait_shown().unwrap();
            queue.stats()
        });
        let (numbers, _): (Vec<u32>, Vec<u64>) = shown.pictures().unwrap().into_iter().unzip();
        assert_eq!(numbers, (1..=12).collect::<Vec<_>>(), "{submission}");
        // To the copy engine for the fill, and back for the flip.
        assert_eq!((stats.submissions_elsewhere, stats.hand_overs), (12, 24), "{submission}");
    }
}

#[test]
fn a_picture_that_is_late_misses_vertical_syncs_and_the_one_before_stays() {
    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Hardware, chain_of(2, 1));
    shown.run(move || {
        painter.show(1..=5, PERIOD * 5 / 2, 1);
    });
    let pictures = shown.pictures().unwrap();
    assert!(pictures.windows(2).all(|w| w[1] == (w[0].0 + 1, w[0].1 + 3)), "{pictures:?}");
    let stats = shown.stats();
    // Presented right behind the vertical sync that freed its buffer, ready in the third refresh
    // from there.
    assert_eq!((stats.shown, stats.missed_vsyncs), (5, 4 * 2));
}

// spec: PRE-084
#[test]
fn an_interval_is_a_number_of_vertical_syncs() {
    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Packet, chain_of(3, 3));
    shown.run(move || {
        for (number, interval) in (1..).zip([1, 2, 4, 1, 3]) {
            painter.paint(number, PERIOD / 10);
            painter.chain.present(interval).unwrap();
        }
        painter.chain.wait_shown().unwrap();
        assert!(matches!(painter.chain.present(5), Err(Error::BadValue { .. })));
    });
    let refreshes: Vec<u64> =
        shown.pictures().unwrap().into_iter().map(|(_, refresh)| refresh).collect();
    let gaps: Vec<u64> = refreshes.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps, [2, 4, 1, 3]);
    assert_eq!(shown.stats().missed_vsyncs, 0);
}

// spec: PRE-084
#[test]
fn without_an_interval_the_newest_picture_that_is_ready_is_shown() {
    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Hardware, chain_of(5, 15));
    shown.run(move || {
        painter.show(1..=40, PERIOD / 5, 0);
    });
    let pictures = shown.pictures().unwrap();
    let stats = shown.stats();
    assert!(pictures.windows(2).all(|w| w[1].0 > w[0].0 && w[1].1 > w[0].1), "{pictures:?}");
    let last = pictures.last().map(|(number, _)| *number);
    assert_eq!(last, Some(40), "the last picture is shown in any case");
    assert!(stats.discarded > 0 && stats.shown + stats.discarded == 40, "{stats:?}");
}

/// Paints pictures while others keep the engine busy; returns the fence that ends them.
fn under_load(shown: &Shown, submission: Submission) {
    let painter = shown.painter(submission, chain_of(3, 3));
    let urgent = queue(&painter.device, "urgent", submission, Priority::High);
    let gate = painter.device.fence(0);
    let clock = shown.platform.clone();
    let others = clock.clone();
    shown.run(move || {
        let (device, queue) = (painter.device.clone(), urgent);
        let load = others.clone();
        let bursts = others.spawn("urgent", move || {
            for burst in 1..=60 {
                device.execute(&queue, |list| list.timed(PERIOD / 8));
                queue.signal_and_wait(&gate, burst);
                load.sleep_until(load.now().after(PERIOD / 7));
            }
        });
        painter.show(1..=20, PERIOD * 4 / 5, 1);
        bursts.join();
    });
}

// spec: PRE-018
#[test]
fn no_picture_is_torn_lost_or_overtaken_when_urgent_work_preempts_the_rendering() {
    for submission in KERNEL_MODE {
        let shown = machine(|_| ());
        under_load(&shown, submission);
        let pictures = shown.pictures().unwrap();
        let numbers: Vec<u32> = pictures.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>(), "{submission}");
        assert!(pictures.windows(2).all(|w| w[1].1 > w[0].1), "{submission}: {pictures:?}");
        if submission == Submission::Packet {
            let stats = shown.machine.adapter().stats();
            assert!(stats.packets_preempted > 0, "{stats:?}");
            assert!(shown.preempted_while_pending.load() > 0, "no flip was pending then");
        }
    }
}

// spec: PRE-018
#[test]
fn a_display_that_does_not_latch_is_seen_to_tear() {
    for submission in KERNEL_MODE {
        let shown = machine(|config| {
            config.gpu.display.as_mut().expect("it has one").latches_at_vsync = false;
        });
        under_load(&shown, submission);
        let torn = shown.pictures().unwrap_err();
        assert!(torn.starts_with("torn at line"), "{torn}");
    }
}

// spec: PRE-082
#[test]
fn a_picture_stays_in_its_place_while_others_want_its_memory() {
    for submission in KERNEL_MODE {
        let shown = machine(|config| config.gpu.local_memory_bytes = 3 * PICTURE_BYTES);
        let painter = shown.painter(submission, chain_of(2, 1));
        let (adapter, gpu) = (shown.machine.adapter().clone(), shown.machine.gpu().clone());
        shown.run(move || {
            painter.show(1..=1, PERIOD / 2, 1);
            let device = &painter.device;
            let local = |name: &str| {
                let desc = BufferDesc::gpu_upload(name, PICTURE_BYTES);
                device.create_buffer(desc)
            };
            // The application evicts all its memory, and makes more resident than there is room
            // for.
            let buffers: Vec<&Buffer> = painter.chain.buffers().iter().collect();
            // One reference is the buffer's from its making, one is the chain's.
            (0..2).for_each(|_| device.evict(&buffers).unwrap());
            let others = [local("first").unwrap(), local("second").unwrap()];
            assert!(matches!(local("third"), Err(Error::Call { status: Status::NO_MEMORY, .. })));
            let paged_out = adapter.stats().allocations_paged_out;
            assert!(paged_out > 0, "the picture that is not shown has left");
            // The screen is read again from where the picture is.
            (0..3).for_each(|_| device.wait_for_vertical_blank().unwrap());
            assert_eq!(gpu.display_stats().unreadable_lines, 0);
            drop(others);
            // The reference that the chain gives back when it ends.
            device.make_resident(&buffers).unwrap();
        });
        let screen = shown.screen.lock().len();
        assert!(screen >= 3, "{submission}: the screen was read {screen} times");
        assert_eq!(shown.pictures().unwrap().len(), 1, "{submission}");
    }
}

// spec: ME-075
#[test]
fn textures_are_shown_by_their_rows_and_are_presented_in_common() {
    let shown = machine(|_| ());
    let options = DeviceOptions { validation: Validation::STATES, ..DeviceOptions::default() };
    let device = shown.machine.device(options).unwrap();
    let queue = queue(&device, "graphics", Submission::Hardware, Priority::Normal);
    let texture = |name: String| {
        TextureDesc::new_2d(name, Format::R8G8B8A8Unorm, WIDTH, HEIGHT)
            .initial(ResourceStates::PRESENT)
    };
    let backs = (0..2).map(|n| device.create_texture(texture(format!("back {n}"))).unwrap());
    let backs: Vec<Texture> = backs.collect();
    let desc = chain_of(2, 1);
    let wide = SwapChainDesc { width: WIDTH + 1, ..desc.clone() };
    let refused = device.create_swap_chain_of_textures(&queue, backs.clone(), wide).unwrap_err();
    assert!(refused.to_string().contains("R8G8B8A8_UNORM"), "{refused}");
    let chain = device.create_swap_chain_of_textures(&queue, backs, desc).unwrap();
    let rules = shown.run_with(move || {
        for number in 1..=3u32 {
            let upload = texture(format!("picture {number}")).heap(Heap::Upload);
            let upload = device.create_texture(upload).unwrap();
            let texels = number.to_le_bytes().repeat((WIDTH * HEIGHT) as usize);
            upload.write(0, &texels).unwrap();
            let back = &chain.textures()[chain.current_index()];
            let mut list = device.create_command_list(CommandListType::Direct);
            list.copy_resource(back, &upload).unwrap();
            // The last picture is presented as it was left by the copy.
            if number < 3 {
                let (before, after) = (ResourceStates::COPY_DEST, ResourceStates::PRESENT);
                list.barrier(&[Barrier::transition(back, before, after)]).unwrap();
            }
            queue.execute(&[&list.close().unwrap()]).unwrap();
            chain.present(1).unwrap();
        }
        chain.wait_shown().unwrap();
        device.state_violations().iter().map(|found| found.rule).collect::<Vec<_>>()
    });
    assert_eq!(rules, [StateRule::PresentState]);
    let numbers: Vec<u32> = shown.pictures().unwrap().into_iter().map(|(n, _)| n).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

// spec: PRE-083
#[test]
fn a_user_mode_queue_presents_nothing() {
    let shown = machine(|_| ());
    let device = shown.device();
    let user = queue(&device, "graphics", Submission::User, Priority::Normal);
    let refused = device.create_swap_chain(&user, chain_of(2, 1)).unwrap_err();
    let Error::NotSupported { what, why } = &refused else { panic!("{refused:?}") };
    assert!(what.contains("'screen' on queue 'graphics'"), "{what}");
    assert!(why.contains("packet or hardware submission"), "{why}");
    shown.run(move || drop((device, user)));
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let none = machine(|config| config.gpu.display = None);
    let device = none.device();
    let hardware = queue(&device, "graphics", Submission::Hardware, Priority::Normal);
    let refused = device.create_swap_chain(&hardware, chain_of(2, 1)).unwrap_err().to_string();
    assert!(refused.contains("no display"), "{refused}");
    assert!(device.wait_for_vertical_blank().unwrap_err().to_string().contains("no display"));
    none.run(move || drop((device, hardware)));
    drop(none);

    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Packet, chain_of(2, 1));
    let other = shown.device();
    let second = queue(&other, "other", Submission::Packet, Priority::Normal);
    for desc in [
        SwapChainDesc { width: 0, ..chain_of(2, 1) },
        SwapChainDesc { height: 20_000, ..chain_of(2, 1) },
        chain_of(1, 1),
        chain_of(17, 1),
        chain_of(2, 0),
        chain_of(2, 16),
    ] {
        let refused = other.create_swap_chain(&second, desc.clone()).unwrap_err();
        assert!(matches!(refused, Error::BadValue { .. }), "{desc:?}: {refused}");
    }
    let foreign = other.create_swap_chain(&painter.queue, chain_of(2, 1)).unwrap_err();
    assert!(matches!(foreign, Error::Foreign { .. }));
    let late = other.create_swap_chain(&second, chain_of(2, 1)).unwrap();
    shown.run(move || {
        painter.show(1..=1, PERIOD / 2, 1);
        // One device has the screen until it ends.
        let Err(Error::Call { status, .. }) = late.present(1) else {
            panic!("two devices on one screen")
        };
        assert_eq!(status, Status::GRAPHICS_VIDPN_SOURCE_IN_USE);
        drop(painter);
        late.present(1).unwrap();
        late.wait_shown().unwrap();
    });
    assert_eq!(shown.stats().shown, 2);
}

#[test]
fn vertical_syncs_come_only_while_a_flip_or_a_waiter_needs_one() {
    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Hardware, chain_of(2, 1));
    let (clock, gpu) = (shown.platform.clone(), shown.machine.gpu().clone());
    shown.run(move || {
        clock.sleep_until(clock.now().after(20 * PERIOD));
        assert_eq!(gpu.display_stats().vsyncs, 0, "nothing was presented");
        painter.show(1..=1, PERIOD / 2, 1);
        let then = gpu.display_stats().vsyncs;
        clock.sleep_until(clock.now().after(20 * PERIOD));
        assert_eq!(gpu.display_stats().vsyncs, then, "the panel refreshes itself");
        let before = clock.now();
        painter.device.wait_for_vertical_blank().unwrap();
        assert!(clock.now().since(before) <= PERIOD && clock.now().0 % PERIOD == 0);
    });
    assert_eq!(shown.pictures().unwrap().len(), 1);
}

#[test]
fn a_machine_that_stands_still_is_noticed_although_it_has_a_display() {
    let shown = machine(|_| ());
    let painter = shown.painter(Submission::Packet, chain_of(2, 1));
    let never = painter.device.create_fence("never", 0).unwrap();
    let stopped = shown.machine.run(move || {
        painter.queue.wait(&never, 1).unwrap();
        painter.chain.present(1).unwrap();
        let _stopped = painter.chain.wait_shown();
    });
    assert!(!stopped.unwrap_err().report.completed());
    assert_eq!(shown.stats().shown, 0);
}

// spec: PRE-082
#[test]
fn a_process_that_is_ended_leaves_a_dark_screen_and_none_of_its_memory() {
    for submission in KERNEL_MODE {
        // The memory manager's own context is there from its first operation on, for good: the
        // first save area of a packet context asks for one. So there is more than before any
        // process; but not more after three than after one.
        let after_one = after_processes_that_are_ended(1, submission);
        assert_eq!(after_processes_that_are_ended(3, submission), after_one, "{submission}");
        assert_eq!(
            (after_one.fences, after_one.hw_queues, after_one.hw_contexts),
            (0, 0, 0),
            "{submission}"
        );
        let of_kernel = usize::from(submission == Submission::Packet);
        assert_eq!((after_one.devices, after_one.contexts), (of_kernel, of_kernel), "{submission}");
    }
}

/// What is there after so many processes that show a picture each, one after the other, and are
/// ended in the middle of the next ones.
fn after_processes_that_are_ended(count: usize, submission: Submission) -> Census {
    let shown = machine(|_| ());
    let processes: Vec<_> = (0..count)
        .map(|_| {
            let process = shown.machine.process("player").unwrap();
            let device = shown.machine.device_in(&process, DeviceOptions::default()).unwrap();
            let queue = queue(&device, "graphics", submission, Priority::Normal);
            (process, device, queue)
        })
        .collect();
    let gpu = shown.machine.gpu().clone();
    shown.run(move || {
        for (process, device, queue) in processes {
            let chain = device.create_swap_chain(&queue, chain_of(3, 3)).unwrap();
            let painter = Painter { device, queue, chain };
            painter.show(1..=1, PERIOD / 10, 1);
            for number in 2..=3 {
                painter.paint(number, PERIOD / 10);
                painter.chain.present(1).unwrap();
            }
            process.terminate();
            let ended = painter.chain.present(1);
            assert!(matches!(ended, Err(Error::DeviceRemoved(_) | Error::Stopped)), "{ended:?}");
            drop((painter, process));
            assert!(gpu.display_stats().scanned >= 1);
        }
    });
    let pictures = shown.pictures().unwrap();
    assert_eq!(pictures.first(), Some(&(1, 1)));
    let firsts = pictures.iter().filter(|(number, _)| *number == 1).count();
    assert_eq!(firsts, count, "one of each process");
    shown.machine.adapter().census()
}

// spec: PRE-082
#[test]
fn power_takes_the_screen_along_and_brings_it_back() {
    let shown = machine(|config| config.kernel.power = PowerManagement::Managed);
    let painter = shown.painter(Submission::Hardware, chain_of(2, 1));
    let (adapter, clock) = (shown.machine.adapter().clone(), shown.platform.clone());
    shown.run(move || {
        painter.show(1..=1, PERIOD / 2, 1);
        let state = adapter.power_down_if_idle();
        assert_eq!(state, Ok(DevicePowerState::D0), "a screen that shows something");
        assert_eq!(adapter.set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        clock.sleep_until(clock.now().after(5 * PERIOD));
        assert_eq!(adapter.set_power_state(DevicePowerState::D0), Ok(DevicePowerState::D0));
        clock.sleep_until(clock.now().after(3 * PERIOD));
        // A flip that the display has and has not latched when the power goes.
        painter.paint(2, PERIOD / 10);
        painter.chain.present(1).unwrap();
        clock.sleep_until(clock.now().after(PERIOD / 5));
        assert_eq!(adapter.set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        clock.sleep_until(clock.now().after(5 * PERIOD));
        assert_eq!(adapter.set_power_state(DevicePowerState::D0), Ok(DevicePowerState::D0));
        painter.chain.wait_shown().unwrap();
    });
    let numbers: Vec<u32> =
        shown.pictures().unwrap().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [1, 1, 2]);
    assert_eq!(shown.stats().shown, 2);
}

// spec: PRE-052
#[test]
fn a_reset_that_loses_the_device_of_the_picture_frees_the_screen() {
    let shown = machine(|_| ());
    let (lost, device) = (shown.painter(Submission::Packet, chain_of(2, 1)), shown.device());
    let kernel = shown.machine.open("tool").unwrap();
    let (clock, adapter) = (shown.platform.clone(), shown.machine.adapter().clone());
    shown.run(move || {
        lost.show(1..=1, PERIOD / 10, 1);
        kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        clock.sleep_until(clock.now().after(3 * PERIOD));
        assert_eq!(adapter.display_stats().shown, 1);
        assert!(matches!(lost.chain.present(1), Err(Error::DeviceRemoved(_))));
        // The lost device is still open.
        let queue = queue(&device, "graphics", Submission::Packet, Priority::Normal);
        let chain = device.create_swap_chain(&queue, chain_of(2, 1)).unwrap();
        let next = Painter { device, queue, chain };
        next.show(2..=2, PERIOD / 10, 1);
        drop((lost, next, kernel));
    });
    let numbers: Vec<u32> = shown.pictures().unwrap().into_iter().map(|(n, _)| n).collect();
    assert_eq!(numbers, [1, 2]);
}

// spec: PRE-052
#[test]
fn a_reset_that_the_device_of_the_picture_survives_shows_it_again() {
    for test in [TdrTest::ForceTdr, TdrTest::VSyncTdr] {
        let shown = machine(|_| ());
        let kernel = shown.machine.open("in system memory").unwrap();
        let device = kernel.create_device().unwrap();
        let client = Client::of(&shown.platform, kernel, device);
        let clock = shown.platform.clone();
        shown.run(move || {
            let (context, picture) =
                (client.context(0), client.allocate_in(PICTURE_BYTES, Placement::System));
            let args = Present {
                queue: PresentQueue::Context(context),
                allocation: picture.handle,
                surface: Surface::packed(WIDTH, HEIGHT, PixelFormat::A8B8G8R8),
                vid_pn_source_id: 0,
                sync_interval: 1,
                shown: None,
            };
            client.kernel.present(args).unwrap();
            clock.sleep_until(clock.now().after(3 * PERIOD));
            client.kernel.debug_timeouts(test).unwrap();
            assert_eq!(client.state(), Ok(DeviceState::Active));
            clock.sleep_until(clock.now().after(3 * PERIOD));
            drop(client);
        });
        let numbers: Vec<u32> = shown.pictures().unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(numbers, [0, 0]);
    }
}

/// The workload that comes with the project: each picture has its own horizon, where it is
/// brightest.
// spec: PRE-018
#[test]
fn the_presenting_workload_shows_each_of_its_pictures_once() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/presenting.toml");
    let (workload, _) = load(path.as_ref(), &LoadOptions::default()).unwrap();
    let workload = Arc::new(workload);
    for submission in [None, Some(Submission::Hardware)] {
        let request = RunRequest {
            submission,
            tracing: true,
            frames: true,
            ..RunRequest::new(workload.clone(), Clock::Virtual)
        };
        let result = run_workload(&request).unwrap_or_else(|e| panic!("{e}"));
        let report = &result.outcome.report;
        assert!(report.is_right(), "{:?}", report.problem_lines());
        let display = report.display.as_ref().expect("it has a display");
        assert_eq!((display.frames_shown, display.missed_vsyncs), (24, 0), "{display:?}");
        // It ends with its last picture on the screen.
        assert!(report.makespan_ns >= 24 * display.refresh_ns, "{} ns", report.makespan_ns);
        let names: Vec<&str> = result.shown.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[23]), (24, "frame-0001.png", "frame-0024.png"));
        for (number, (name, width, height, rgba)) in result.shown.iter().enumerate() {
            let brightness = |row: &[u8]| row.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            let rows: Vec<u64> = rgba.chunks(*width as usize * 4).map(brightness).collect();
            let brightest = (0..rows.len()).max_by_key(|row| rows[*row]).expect("it has rows");
            let horizon = *height as usize - 20 - number * 4;
            assert!(brightest.abs_diff(horizon) <= 1, "{name}: {brightest} instead of {horizon}");
        }
        let trace = result.trace.expect("a timeline");
        let lane = trace.lanes.iter().find(|lane| lane.kind == LaneKind::Display);
        let lane = lane.expect("a lane of the display");
        let of =
            |kind| trace.records.iter().filter(|r| r.lane == lane.id && r.kind == kind).count();
        assert_eq!((of(Kind::Flip), lane.name.as_str()), (24, "display"));
        assert!(of(Kind::VSync) >= 24);
    }
    let submission = Some(Submission::User);
    let request = RunRequest { submission, ..RunRequest::new(workload, Clock::Virtual) };
    let refused = run_workload(&request).err().expect("user-mode queues present nothing");
    let refused = refused.to_string();
    assert!(refused.contains("packet or hardware submission"), "{refused}");
}
