//! The display by its registers: refreshes, latching, and a screen that is looked at.

use tidegate_gpu_abi::display::{DisplayControl, DisplayFlip, encode_surface};
use tidegate_softgpu::{DisplayStats, SoftGpu};
use tidegate_testbed::prelude::gpu::*;

const PERIOD: u64 = 16_000;
const SURFACE: Surface =
    Surface { width: 4, height: 30, pitch_bytes: 32, format: PixelFormat::A8B8G8R8 };

/// What happened: the causes of interrupts by time, and frames.
#[derive(Default)]
struct Seen {
    interrupts: Vec<(u64, u64, u64)>,
    frames: Vec<Frame>,
}

struct Scene {
    platform: Platform,
    system: PhysicalMemory,
    gpu: Arc<SoftGpu>,
    seen: Arc<Mutex<Seen>>,
}

struct Line {
    platform: Platform,
    gpu: std::sync::Weak<SoftGpu>,
    seen: Arc<Mutex<Seen>>,
}

impl InterruptSink for Line {
    fn raise(&self) {
        let Some(gpu) = self.gpu.upgrade() else { return };
        let cause = gpu.read_register(Register::INTERRUPT_CAUSE);
        let latched = gpu.read_register(Register::DISPLAY_LATCHED);
        self.seen.lock().interrupts.push((self.platform.now().0, cause, latched));
    }

    fn turn_ended(&self) {}
}

fn scene(display: Option<DisplayConfig>) -> Scene {
    let platform = Platform::virtual_time(StepCosts::free());
    let system = PhysicalMemory::new(&platform, PhysicalAddress(0x1_0000));
    let gpu = SoftGpu::new(&platform, &system, Config { display, ..Config::default() });
    let seen = Arc::new(platform.mutex("what was seen", Seen::default()));
    let line = Line { platform: platform.clone(), gpu: Arc::downgrade(&gpu), seen: seen.clone() };
    gpu.connect_interrupt(Arc::new(line));
    let frames = seen.clone();
    gpu.show_frames_to(Arc::new(move |frame| frames.lock().frames.push(frame)));
    gpu.start();
    Scene { platform, system, gpu, seen }
}

fn display(latches_at_vsync: bool) -> Option<DisplayConfig> {
    Some(DisplayConfig { refresh_period_ns: PERIOD, latches_at_vsync })
}

impl Scene {
    /// A surface all of whose words are this.
    fn picture(&self, word: u32) -> (PhysicalAddress, Bulk) {
        let bytes = SURFACE.bytes().unwrap();
        let (at, bulk) = self.system.bulk(bytes as usize);
        bulk.write(0, &word.to_le_bytes().repeat(bytes as usize / 4)).unwrap();
        (at, bulk)
    }

    fn control(&self, control: DisplayControl) {
        self.gpu.write_register(Register::DISPLAY_CONTROL, control.bits());
    }

    fn flip(&self, to: PhysicalAddress) {
        self.flip_when(DisplayFlip::AT_VSYNC, to);
    }

    fn flip_when(&self, when: DisplayFlip, to: PhysicalAddress) {
        self.gpu.write_register(Register::DISPLAY_FLIP, when.bits());
        let (size, pitch) = encode_surface(&SURFACE);
        self.gpu.write_register(Register::DISPLAY_SIZE, size);
        self.gpu.write_register(Register::DISPLAY_PITCH, pitch);
        self.gpu.write_register(Register::DISPLAY_ADDRESS, to.0);
    }

    fn sleep_until(&self, ns: u64) {
        self.platform.sleep_until(CpuTime(ns));
    }

    fn words(&self) -> Vec<(u64, bool, Vec<u32>)> {
        let words = |frame: &Frame| {
            let mut words: Vec<u32> =
                frame.pixels.as_chunks().0.iter().map(|pixel| u32::from_le_bytes(*pixel)).collect();
            words.dedup();
            (frame.refresh, frame.first, words)
        };
        self.seen.lock().frames.iter().map(words).collect()
    }
}

/// Runs a program against a scene; returns the scene.
fn run(
    display: Option<DisplayConfig>,
    program: impl FnOnce(&Scene) + Send + 'static,
) -> Arc<Scene> {
    let scene = Arc::new(scene(display));
    let own = scene.clone();
    let report = scene.platform.run(move || program(&own));
    assert!(report.completed(), "{report:?}");
    scene
}

const SCAN: DisplayControl = DisplayControl::SCAN_OUT;
const BOTH: DisplayControl = DisplayControl::all();

#[test]
fn a_surface_is_latched_at_the_vertical_sync_and_interrupts_say_which() {
    let scene = run(display(true), |s| {
        let (one, two) = (s.picture(1).0, s.picture(2).0);
        s.control(BOTH);
        s.flip(one);
        s.sleep_until(PERIOD * 3 / 2);
        s.flip(two);
        assert_eq!(
            s.gpu.read_register(Register::DISPLAY_LATCHED),
            one.0,
            "not before the next one"
        );
        s.sleep_until(PERIOD * 7 / 2);
        s.control(SCAN);
        s.sleep_until(PERIOD * 20);
        let seen = s.seen.lock();
        let vsync = Cause::VSYNC.0;
        let expected =
            [(PERIOD, vsync, one.0), (2 * PERIOD, vsync, two.0), (3 * PERIOD, vsync, two.0)];
        assert_eq!(seen.interrupts, expected);
    });
    // The frame whose interrupt was turned off in its middle is scanned to its end, and no other
    // begins.
    assert_eq!(scene.words(), [(1, true, vec![1]), (2, true, vec![2]), (3, false, vec![2])]);
    let stats = scene.gpu.display_stats();
    assert_eq!(stats, DisplayStats { vsyncs: 3, latched: 2, scanned: 3, unreadable_lines: 0 });
}

#[test]
fn a_surface_that_does_not_wait_for_the_vertical_sync_is_latched_at_once() {
    run(display(true), |s| {
        let (one, two) = (s.picture(1).0, s.picture(2).0);
        s.flip_when(DisplayFlip::empty(), one);
        assert_eq!(s.gpu.display_stats().latched, 1);
        // It also takes the place of one that waits.
        s.flip(two);
        s.flip_when(DisplayFlip::empty(), one);
        assert_eq!(s.gpu.display_stats().latched, 2);
        s.control(SCAN);
        s.sleep_until(PERIOD * 5);
        assert_eq!(s.gpu.display_stats().latched, 2);
    });
}

#[test]
fn without_interrupts_a_flip_is_latched_scanned_once_and_then_the_display_sleeps() {
    let scene = run(display(true), |s| {
        s.control(SCAN);
        s.sleep_until(PERIOD * 5);
        assert_eq!(s.gpu.display_stats().vsyncs, 0);
        s.flip(s.picture(7).0);
        s.sleep_until(PERIOD * 10);
        // Two before a vertical sync: the later one counts.
        s.flip(s.picture(8).0);
        s.flip(s.picture(9).0);
        s.sleep_until(PERIOD * 20);
    });
    assert_eq!(scene.words(), [(6, true, vec![7]), (11, true, vec![9])]);
    assert_eq!(scene.seen.lock().interrupts, []);
}

#[test]
fn a_surface_that_changes_while_it_is_scanned_tears() {
    let written_over = run(display(true), |s| {
        let (at, bulk) = s.picture(1);
        s.control(SCAN);
        s.flip(at);
        s.sleep_until(PERIOD + PERIOD / 2);
        bulk.write(0, &2u32.to_le_bytes().repeat(bulk.len() as usize / 4)).unwrap();
        s.sleep_until(PERIOD * 3);
    });
    assert_eq!(written_over.words(), [(1, true, vec![1, 2])]);
    drop(written_over);
    let not_latched = run(display(false), |s| {
        let (one, two) = (s.picture(1).0, s.picture(2).0);
        s.control(SCAN);
        s.flip(one);
        s.sleep_until(PERIOD + PERIOD / 2);
        s.flip(two);
        s.sleep_until(PERIOD * 5);
    });
    assert_eq!(not_latched.words(), [(1, true, vec![1, 2]), (2, true, vec![2])]);
}

#[test]
fn a_dark_screen_reads_nothing() {
    let scene = run(display(true), |s| {
        s.control(BOTH);
        s.flip(s.picture(1).0);
        s.sleep_until(PERIOD + PERIOD / 2);
        s.control(DisplayControl::empty());
        assert_eq!(s.gpu.read_register(Register::DISPLAY_LATCHED), 0);
        s.sleep_until(PERIOD * 4);
        // Nor is what was latched before shown again.
        s.control(SCAN);
        s.sleep_until(PERIOD * 8);
    });
    assert_eq!((scene.words().len(), scene.gpu.display_stats().vsyncs), (0, 1));
}

#[test]
fn formats_come_out_alike_and_memory_that_is_not_there_is_black() {
    let scene = run(display(true), |s| {
        let (at, _) = s.picture(0x0403_0201);
        let (size, pitch) = encode_surface(&Surface { format: PixelFormat::A8R8G8B8, ..SURFACE });
        s.control(SCAN);
        s.gpu.write_register(Register::DISPLAY_SIZE, size);
        s.gpu.write_register(Register::DISPLAY_PITCH, pitch);
        s.gpu.write_register(Register::DISPLAY_ADDRESS, at.0);
        s.sleep_until(PERIOD * 3);
        s.flip(PhysicalAddress(1 << 39));
        s.sleep_until(PERIOD * 6);
        // No surface at all.
        s.gpu.write_register(Register::DISPLAY_SIZE, 0);
        s.gpu.write_register(Register::DISPLAY_ADDRESS, at.0);
        s.sleep_until(PERIOD * 9);
    });
    assert_eq!(scene.words(), [(1, true, vec![0x0401_0203]), (4, true, vec![0])]);
    assert_eq!(scene.gpu.display_stats().unreadable_lines, 30);
}

#[test]
fn a_gpu_without_a_display_has_none_of_its_registers() {
    let scene = run(None, |s| {
        s.control(BOTH);
        s.flip(s.picture(1).0);
        s.sleep_until(PERIOD * 4);
        assert_eq!(s.gpu.read_register(Register::DISPLAY_PERIOD), 0);
        assert_eq!(s.gpu.read_register(Register::DISPLAY_CONTROL), 0);
    });
    assert_eq!(scene.gpu.display_stats(), DisplayStats::default());
}
