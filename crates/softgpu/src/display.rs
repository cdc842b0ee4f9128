//! The display: an engine that repeatedly scans a surface out of memory, line by line.
//!
//! A refresh: 1. the vertical sync latches the last committed surface and raises the interrupt; 2.
//! the vertical blank, in which nothing is read; 3. the lines in ascending order, over the rest of
//! the period. A surface that changes during step 3 tears, which latching prevents.
//!
//! Refreshes start at multiples of the period since the platform's start. A refresh is carried out
//! only for an enabled interrupt, a surface to be latched, or a latched surface not yet scanned.
//! Otherwise the panel refreshes itself and the display sleeps.
//!
//! Registers and the agent share one short lock, which is never held over the interrupt line.

use crate::bus::Bus;
use crate::config::DisplayConfig;
use crate::interrupt::InterruptLine;
use std::fmt;
use std::sync::Arc;
use tidegate_d3dukmdt::{PixelFormat, Surface};
use tidegate_gpu_abi::display::{DisplayControl, DisplayFlip, decode_surface};
use tidegate_gpu_abi::{Cause, Register};
use tidegate_platform::{
    Agent, CpuTime, Mutex, PhysicalAddress, Platform, Step, Target, Turn, WakeWord,
};

/// The picture shown in one refresh.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of the refresh, in periods since the platform's start.
    pub refresh: u64,
    /// The address of the surface when the refresh began.
    pub address: PhysicalAddress,
    /// Width in pixels.
    pub width: u32,
    /// Height in rows.
    pub height: u32,
    /// Whether this is the surface's first refresh since it was latched.
    pub first: bool,
    /// Red, green, blue and alpha of each pixel, row by row.
    pub pixels: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height, address) = (self.width, self.height, self.address.0);
        write!(
            f,
            "Frame({width} by {height} at {address:#x}, refresh {}, first: {})",
            self.refresh, self.first
        )
    }
}

/// Receives every scanned frame. The display calls it between two turns, with no lock held.
pub type FrameSink = Arc<dyn Fn(Frame) + Send + Sync>;

/// Statistics of a display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisplayStats {
    /// Vertical syncs carried out.
    pub vsyncs: u64,
    /// Surfaces latched.
    pub latched: u64,
    /// Refreshes scanned completely.
    pub scanned: u64,
    /// Lines at unmapped addresses, which were shown black.
    pub unreadable_lines: u64,
}

/// A surface and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    surface: Surface,
    address: PhysicalAddress,
}

#[derive(Default)]
struct Registers {
    control: DisplayControl,
    size: u64,
    pitch: u64,
    flip: DisplayFlip,
    pending: Option<Placed>,
    active: Option<Placed>,
    /// Whether the active surface was latched and its scan has not begun.
    fresh: bool,
    /// The address that the last vertical sync latched.
    latched: u64,
    stats: DisplayStats,
}

/// The display's registers, and the word that wakes it.
pub(crate) struct Display {
    pub(crate) config: DisplayConfig,
    pub(crate) wake: WakeWord,
    registers: Mutex<Registers>,
    sink: Mutex<Option<FrameSink>>,
}

impl Display {
    pub(crate) fn new(platform: &Platform, config: DisplayConfig) -> Display {
        Display {
            config,
            wake: WakeWord::new(platform),
            registers: platform.mutex("display", Registers::default()),
            sink: platform.mutex("frame sink", None),
        }
    }

    pub(crate) fn connect(&self, sink: FrameSink) {
        *self.sink.lock() = Some(sink);
    }

    pub(crate) fn stats(&self) -> DisplayStats {
        self.registers.lock().stats
    }

    pub(crate) fn read(&self, register: Register) -> u64 {
        match register {
            Register::DISPLAY_PERIOD => self.config.refresh_period_ns,
            Register::DISPLAY_CONTROL => self.registers.lock().control.bits(),
            Register::DISPLAY_LATCHED => self.registers.lock().latched,
            _ => 0,
        }
    }

    pub(crate) fn write(&self, register: Register, value: u64) {
        let mut registers = self.registers.lock();
        match register {
            Register::DISPLAY_SIZE => registers.size = value,
            Register::DISPLAY_PITCH => registers.pitch = value,
            Register::DISPLAY_FLIP => registers.flip = DisplayFlip::from_bits_truncate(value),
            Register::DISPLAY_ADDRESS => {
                // An invalid surface is not shown.
                let Some(surface) = decode_surface(registers.size, registers.pitch) else { return };
                let placed = Placed { surface, address: PhysicalAddress(value) };
                if self.config.latches_at_vsync && registers.flip.contains(DisplayFlip::AT_VSYNC) {
                    registers.pending = Some(placed);
                } else {
                    (registers.active, registers.pending, registers.fresh) =
                        (Some(placed), None, true);
                    registers.stats.latched += 1;
                }
            }
            Register::DISPLAY_CONTROL => {
                registers.control = DisplayControl::from_bits_truncate(value);
                if !registers.control.contains(DisplayControl::SCAN_OUT) {
                    (registers.active, registers.pending, registers.fresh) = (None, None, false);
                    registers.latched = 0;
                }
            }
            _ => return,
        }
        let called = registers.wants_refresh();
        drop(registers);
        if called {
            self.wake.ring(Step::DoorbellToFetch);
        }
    }
}

impl Registers {
    /// Returns whether the next refresh must be carried out.
    fn wants_refresh(&self) -> bool {
        self.control.contains(DisplayControl::VSYNC_INTERRUPT)
            || self.pending.is_some()
            || self.fresh
    }

    /// Carries out the vertical sync. Returns the surface to scan with whether it is new, and
    /// whether to interrupt.
    fn sync(&mut self) -> (Option<(Placed, bool)>, bool) {
        if let Some(placed) = self.pending.take() {
            (self.active, self.fresh) = (Some(placed), true);
            self.stats.latched += 1;
        }
        self.latched = self.active.map_or(0, |placed| placed.address.0);
        self.stats.vsyncs += 1;
        let scans = self.active.filter(|_| self.control.contains(DisplayControl::SCAN_OUT));
        let scan = scans.map(|placed| (placed, std::mem::take(&mut self.fresh)));
        // A dark screen shows no surface for the first time.
        self.fresh = false;
        (scan, self.control.contains(DisplayControl::VSYNC_INTERRUPT))
    }
}

/// The number of slices in a period. The first is the vertical blank. Each of the others reads a
/// share of the lines.
const SLICES: u64 = 16;

/// A refresh in progress.
struct Scan {
    refresh: u64,
    /// The next slice to read.
    slice: u64,
    began: Placed,
    first: bool,
    pixels: Vec<u8>,
}

/// The agent that scans out.
pub(crate) struct ScanOut {
    platform: Platform,
    bus: Arc<Bus>,
    line: Arc<InterruptLine>,
    display: Arc<Display>,
    scan: Option<Scan>,
    /// The number of the next refresh, once one is needed.
    planned: Option<u64>,
}

impl ScanOut {
    pub(crate) fn new(
        platform: &Platform,
        bus: &Arc<Bus>,
        line: &Arc<InterruptLine>,
        display: &Arc<Display>,
    ) -> ScanOut {
        ScanOut {
            platform: platform.clone(),
            bus: Arc::clone(bus),
            line: Arc::clone(line),
            display: Arc::clone(display),
            scan: None,
            planned: None,
        }
    }

    /// Returns the start time of a slice of a refresh.
    fn begin_of(&self, refresh: u64, slice: u64) -> CpuTime {
        let period = self.display.config.refresh_period_ns;
        CpuTime(refresh.saturating_mul(period).saturating_add(slice * period / SLICES))
    }

    /// Waits for the next vertical sync that is needed, and carries it out.
    fn next_refresh(&mut self) -> Turn {
        if !self.display.registers.lock().wants_refresh() {
            self.planned = None;
            return Turn::Park;
        }
        let (now, period) = (self.platform.now(), self.display.config.refresh_period_ns);
        let planned = *self.planned.get_or_insert(now.0 / period + 1);
        let due = self.begin_of(planned, 0);
        if now < due {
            return Turn::Until(due);
        }
        // Refreshes that are late by whole periods are skipped.
        let refresh = planned.max(now.0 / period);
        self.planned = Some(refresh + 1);
        let looked_at = self.display.sink.lock().is_some();
        let (scan, interrupts) = self.display.registers.lock().sync();
        self.scan = scan.filter(|_| looked_at).map(|(began, first)| Scan {
            refresh,
            slice: 1,
            began,
            first,
            pixels: Vec::with_capacity(
                began.surface.width as usize * began.surface.height as usize * 4,
            ),
        });
        if interrupts && self.line.set(Cause::VSYNC) {
            self.line.turn_ended();
        }
        Turn::Again
    }

    /// Reads the lines of the next slice when it is due.
    fn read_slice(&mut self, mut scan: Scan) -> Turn {
        let due = self.begin_of(scan.refresh, scan.slice);
        if self.platform.now() < due {
            self.scan = Some(scan);
            return Turn::Until(due);
        }
        let active = self.display.registers.lock().active;
        // The screen was turned off: the rest is not scanned.
        let Some(active) = active else { return Turn::Again };
        let height = u64::from(scan.began.surface.height);
        let line_of = |slice: u64| height * (slice - 1) / (SLICES - 1);
        let mut unreadable = 0;
        for line in line_of(scan.slice)..line_of(scan.slice + 1) {
            unreadable += u64::from(!self.read_line(&active, line, &mut scan));
        }
        self.display.registers.lock().stats.unreadable_lines += unreadable;
        scan.slice += 1;
        if scan.slice < SLICES {
            self.scan = Some(scan);
            return Turn::Again;
        }
        self.display.registers.lock().stats.scanned += 1;
        let sink = self.display.sink.lock().clone();
        if let Some(sink) = sink {
            let Surface { width, height, .. } = scan.began.surface;
            let (refresh, address, first) = (scan.refresh, scan.began.address, scan.first);
            sink(Frame { refresh, address, width, height, first, pixels: scan.pixels });
        }
        Turn::Again
    }

    /// Appends a line of the frame. Returns `false` and appends a black line if its address
    /// is unmapped.
    fn read_line(&self, active: &Placed, line: u64, scan: &mut Scan) -> bool {
        let row = scan.began.surface.width as usize * 4;
        let begin = scan.pixels.len();
        scan.pixels.resize(begin + row, 0);
        let Surface { width, height, pitch_bytes, format } = active.surface;
        if line >= u64::from(height) {
            return false;
        }
        let at = PhysicalAddress(active.address.0.saturating_add(line * u64::from(pitch_bytes)));
        let bytes = row.min(width as usize * 4);
        let out = &mut scan.pixels[begin..begin + bytes];
        let read = match self.bus.resolve(at) {
            Some(Target::Bulk(memory, start)) => memory.read(start, out).is_ok(),
            _ => false,
        };
        if format == PixelFormat::A8R8G8B8 {
            out.chunks_exact_mut(4).for_each(|pixel| pixel.swap(0, 2));
        }
        read
    }
}

impl Agent for ScanOut {
    fn turn(&mut self) -> Turn {
        match self.scan.take() {
            Some(scan) => self.read_slice(scan),
            None => self.next_refresh(),
        }
    }
}
