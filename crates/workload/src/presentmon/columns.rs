//! The columns of PresentMon's versions, by name.
//!
//! Version 1 counts from the present call of a frame, version 2 from the start of the CPU's work on
//! it. Names differ in the prefix `Ms` and in case. Entry points: [`is_presentmon`],
//! [`Columns::of`].

/// Columns that every version has.
const COMMON: [&str; 3] = ["Application", "ProcessID", "SwapChainAddress"];

/// Whether a header names the columns that every version has.
pub fn is_presentmon(header: &[u8]) -> bool {
    let header = String::from_utf8_lossy(header);
    let has = |name: &str| header.split(',').any(|column| is_called(column, name));
    COMMON.iter().all(|name| has(name))
}

fn is_called(column: &str, name: &str) -> bool {
    let column = column.trim().trim_matches('"');
    // Version 2 has both spellings: `CPUBusy` and `MsCPUBusy`.
    let bare = |text: &str| text.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("ms"));
    let column = if bare(column) && !bare(name) { &column[2..] } else { column };
    column.eq_ignore_ascii_case(name)
}

/// A column: its name for messages, and its place in the table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub place: usize,
}

/// How the times of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    /// Ticks of the performance counter.
    Ticks,
    Date,
}

/// What the times of a frame count from.
#[derive(Debug, Clone, Copy)]
pub enum Version {
    /// Its present call.
    One { between: Option<Column> },
    /// The start of the CPU's work on it.
    Two { cpu_busy: Column },
}

/// The GPU's work on a frame.
#[derive(Debug, Clone, Copy)]
pub struct GpuColumns {
    pub start: Column,
    /// In version 1 the end, counted like the start. In version 2 the length.
    pub end: Column,
    pub busy: Column,
}

/// The columns of a file.
#[derive(Debug, Clone, Copy)]
pub struct Columns {
    pub application: Column,
    pub process: Column,
    pub chain: Column,
    pub interval: Option<Column>,
    pub frame_type: Option<Column>,
    pub dropped: Option<Column>,
    pub time: (Column, Unit),
    pub version: Version,
    /// How long the present call took.
    pub in_present: Column,
    pub gpu: GpuColumns,
    /// From the present call to the screen.
    pub shown: Option<Column>,
    /// From the start of the CPU's work to the screen.
    pub latency: Option<Column>,
}

/// The columns with the time of a frame in version 2, and in version 1.
const STARTS: [(&str, Unit); 4] = [
    ("CPUStartTime", Unit::Milliseconds),
    ("CPUStartQPCTime", Unit::Milliseconds),
    ("CPUStartQPC", Unit::Ticks),
    ("CPUStartDateTime", Unit::Date),
];
const PRESENTS: [(&str, Unit); 6] = [
    ("TimeInSeconds", Unit::Seconds),
    ("TimeInMs", Unit::Milliseconds),
    ("TimeInQPCTime", Unit::Milliseconds),
    ("TimeInQPC", Unit::Ticks),
    ("QPCTime", Unit::Ticks),
    ("TimeInDateTime", Unit::Date),
];

impl Columns {
    /// Finds the columns in a header.
    ///
    /// # Errors
    /// The missing column, and how to record it.
    pub fn of(header: &[String]) -> Result<Self, String> {
        let place = |name: &str| header.iter().position(|column| is_called(column, name));
        let find = |name: &'static str| place(name).map(|place| Column { name, place });
        let need = |name, advice: &str| {
            find(name).ok_or_else(|| format!("line 1 has no column {name}; {advice}"))
        };
        let gpu = |name| need(name, "record with PresentMon without --no_track_gpu");
        let other = |name| need(name, "give a CSV file that PresentMon wrote");
        let first = |names: &[(&'static str, Unit)]| {
            names.iter().find_map(|(name, unit)| Some((find(name)?, *unit)))
        };
        let started = first(&STARTS).filter(|_| find("CPUBusy").is_some());
        let (time, version, in_present, gpu) = match (started, first(&PRESENTS)) {
            (Some(time), _) => {
                let version = Version::Two { cpu_busy: other("CPUBusy")? };
                let (start, end) = (gpu("GPULatency")?, gpu("GPUTime")?);
                let gpu = GpuColumns { start, end, busy: gpu("GPUBusy")? };
                (time, version, other("CPUWait")?, gpu)
            }
            (None, Some(time)) => {
                let version = Version::One { between: find("BetweenPresents") };
                let (start, end) = (gpu("UntilRenderStart")?, gpu("UntilRenderComplete")?);
                let gpu = GpuColumns { start, end, busy: gpu("GPUActive")? };
                (time, version, other("InPresentAPI")?, gpu)
            }
            (None, None) => {
                return Err("line 1 has no column CPUStartTime or TimeInSeconds with the time of \
                            a frame; give a CSV file that PresentMon wrote"
                    .to_owned());
            }
        };
        Ok(Self {
            application: other("Application")?,
            process: other("ProcessID")?,
            chain: other("SwapChainAddress")?,
            interval: find("SyncInterval"),
            frame_type: find("FrameType"),
            dropped: find("Dropped"),
            time,
            version,
            in_present,
            gpu,
            shown: find("UntilDisplayed"),
            latency: find("DisplayLatency"),
        })
    }
}
