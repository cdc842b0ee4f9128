//! Counts of an import: events found, paired and unpaired, with their wording.

use serde::Serialize;

use super::damage::Damage;
use super::source::{Remark, Source};

/// An engine that replays work of several streams that overlapped in the recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedEngine {
    /// The engine's kind and its number among the engines of the kind, from 0.
    pub engine: String,
    /// The streams that share it.
    pub streams: Vec<String>,
    /// How long work of several of them ran at once in the recording, in nanoseconds. It is
    /// replayed one after the other.
    pub overlapped_ns: u64,
}

/// Counts of one import.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ImportReport {
    /// The format of the file.
    pub source: Source,
    /// Events in the file.
    pub events: u64,
    /// Damaged events, which are left out.
    pub damage: Damage,
    /// Host threads with calls that are replayed.
    pub host_threads: u64,
    /// Streams with work.
    pub streams: u64,
    /// Streams with waits but without work.
    pub streams_without_work: u64,
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Fills.
    pub fills: u64,
    /// Host calls that launched GPU work.
    pub launches: u64,
    /// Stream waits for an event with a known record.
    pub stream_waits: u64,
    /// Stream waits for an event whose record is unknown or outside the trace.
    pub stream_waits_unpaired: u64,
    /// Event records.
    pub event_records: u64,
    /// Event records that a recorded wait needs.
    pub event_records_awaited: u64,
    /// Host waits for an event that are replayed.
    pub event_syncs: u64,
    /// Host waits for an unknown event.
    pub event_syncs_unpaired: u64,
    /// Host waits for a stream that are replayed.
    pub stream_syncs: u64,
    /// Host waits for an unknown stream.
    pub stream_syncs_unpaired: u64,
    /// Host waits for a device.
    pub device_syncs: u64,
    /// Host waits for an unknown device.
    pub device_syncs_unpaired: u64,
    /// Host waits for an unknown stream in processes with one stream.
    pub syncs_of_only_stream: u64,
    /// Of the host waits for an unknown object: those for the work that ended just before them.
    pub syncs_by_time: u64,
    /// Those that were too short to wait for anything.
    pub syncs_of_nothing: u64,
    /// Those for which the recording names nothing. They are replayed as long as recorded.
    pub syncs_unresolved: u64,
    /// The length of those, in nanoseconds.
    pub syncs_unresolved_ns: u64,
    /// Calls that free or copy memory and returned just after work had ended; replayed as waits.
    pub syncs_of_other_calls: u64,
    /// Presents of swap chains.
    pub presents: u64,
    /// Presents whose frame was on the screen.
    pub presents_shown: u64,
    /// Presents that are replayed on the display.
    pub presents_replayed: u64,
    /// Presents whose call waited for GPU work.
    pub presents_for_work: u64,
    /// Presents whose call waited for a frame on the screen.
    pub presents_for_display: u64,
    /// Dependencies of work on work of another stream that are replayed.
    pub dependencies: u64,
    /// Dependencies that the recorded times contradict, because the awaited work ended after its
    /// waiter began. They are not replayed.
    pub dependencies_unpaired: u64,
    /// Copies and fills whose call blocked until they were complete.
    pub blocking_copies: u64,
    /// Queries of an event or a stream; they order nothing.
    pub queries: u64,
    /// Graph launches. Dependencies inside a graph are not recorded.
    pub graph_launches: u64,
    /// GPU work inside graphs, replayed stream by stream in recorded order.
    pub graph_work: u64,
    /// Most launches, signals and waits of one stream that were in flight: how far the host ran
    /// ahead.
    pub deepest_run_ahead: u64,
    /// GPU work whose launch is not in the trace; submitted as early as its stream's order allows.
    pub work_without_launch: u64,
    /// Work that began before the work before it on its stream had ended; replayed one after the
    /// other.
    pub overlaps_on_a_stream: u64,
    /// Length of that overlap, in nanoseconds. The replay of the stream is longer by as much.
    pub overlapped_on_a_stream_ns: u64,
    /// Work whose start is explained neither by its launch nor by a wait nor by the work before it.
    pub gaps: u64,
    /// Sum of those gaps, in nanoseconds.
    pub gaps_ns: u64,
    /// Sum of the shorter distances, the device's own turn-around, in nanoseconds.
    pub turnaround_ns: u64,
    /// Median time from the hand-over of work to its start on an idle stream, in nanoseconds; 0 if
    /// there is none.
    pub median_launch_ns: u64,
    /// Median time from the end of work, or from the signal that ended a wait, to the start of the
    /// next work of the stream.
    pub median_turnaround_ns: u64,
    /// Median time from the signal that ended a wait of the host to its return.
    pub median_wake_ns: u64,
    /// Whether gaps were left out.
    pub gaps_dropped: bool,
    /// Streams that share an engine with a stream that they overlapped, for lack of engines.
    pub streams_sharing_an_engine: u64,
    /// Gaps of streams that share an engine. They occupy no engine: a thread of the host ends them
    /// at their recorded time.
    pub gaps_timed_by_host: u64,
    /// Those engines, with the time that is lost.
    pub shared_engines: Vec<SharedEngine>,
    /// Facts that the file lacks.
    pub remarks: Vec<Remark>,
}

impl ImportReport {
    /// Report lines, one for each count that is not 0.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "{}, {} events: {} kernels, {} copies, {} fills on {} streams, launched by {} calls of {} host threads",
                self.source.name(),
                self.events,
                self.kernels,
                self.copies,
                self.fills,
                self.streams,
                self.launches,
                self.host_threads
            ),
            format!(
                "waits paired: {} by streams, {} for events, {} for streams, {} for the device",
                self.stream_waits, self.event_syncs, self.stream_syncs, self.device_syncs
            ),
        ];
        lines.extend(self.damage.lines());
        let mut counted = |n: u64, what: &str| {
            if n > 0 {
                lines.push(format!("{what}: {n}"));
            }
        };
        counted(self.stream_waits_unpaired, "not replayed, record not known: stream waits");
        counted(self.event_syncs_unpaired, "record not in the trace: host waits for events");
        counted(self.stream_syncs_unpaired, "stream not recorded: host waits for streams");
        counted(self.device_syncs_unpaired, "device not recorded: host waits for devices");
        counted(self.syncs_of_only_stream, "  of these, waits for the only stream of the process");
        counted(
            self.syncs_by_time,
            "  of these, waits for the work that ended just before they did",
        );
        counted(self.syncs_of_nothing, "  of these, too short to have waited");
        if self.presents > 0 {
            lines.push(format!(
                "{} presents, {} shown, {} replayed on the display; calls of {} waited for GPU work, of {} for the screen",
                self.presents,
                self.presents_shown,
                self.presents_replayed,
                self.presents_for_work,
                self.presents_for_display
            ));
        }
        if self.syncs_unresolved > 0 {
            let ms = self.syncs_unresolved_ns as f64 / 1e6;
            let waits = self.syncs_unresolved;
            lines.push(format!(
                "  of these, what they waited for is unknown: {waits}, {ms:.3} ms, replayed as long as recorded"
            ));
        }
        let mut counted = |n: u64, what: &str| {
            if n > 0 {
                lines.push(format!("{what}: {n}"));
            }
        };
        counted(
            self.syncs_of_other_calls,
            "calls that free or copy memory and ended with work, replayed as waits",
        );
        counted(self.dependencies, "dependencies between pieces of work, replayed as stream waits");
        counted(
            self.dependencies_unpaired,
            "not replayed, awaited work ended after its waiter began: dependencies",
        );
        counted(
            self.graph_launches,
            "graph launches (what depends on what inside a graph is not recorded)",
        );
        counted(self.work_without_launch, "GPU work whose launch is not in the trace");
        counted(self.queries, "event and stream queries (they order nothing)");
        lines.extend(self.remarks.iter().map(Remark::to_string));
        lines.push(format!(
            "the host ran ahead of a stream by at most {} operations",
            self.deepest_run_ahead
        ));
        let us = |ns: u64| ns as f64 / 1e3;
        if self.overlaps_on_a_stream > 0 {
            lines.push(format!(
                "{} pieces of work overlapped the work before them on their stream, {:.1} us in all; they are replayed one \
                 after the other",
                self.overlaps_on_a_stream,
                us(self.overlapped_on_a_stream_ns)
            ));
        }
        if self.gaps_timed_by_host > 0 {
            let gaps = self.gaps_timed_by_host;
            lines.push(format!(
                "there are more streams than engines: {gaps} gaps of streams that share one are ended by a thread of the \
                 host, at their recorded times"
            ));
        }
        for shared in &self.shared_engines {
            lines.push(format!(
                "engine {} replays {} one after the other; in the recording they overlapped for {:.1} us",
                shared.engine,
                shared.streams.join(", "),
                us(shared.overlapped_ns)
            ));
        }
        lines.push(format!(
            "the recorded machine, medians: launch to start {:.1} us, end to next start {:.1} us, wait met to return {:.1} us",
            us(self.median_launch_ns),
            us(self.median_turnaround_ns),
            us(self.median_wake_ns)
        ));
        if self.gaps > 0 {
            let fate = if self.gaps_dropped {
                "left out (--gaps drop)"
            } else {
                "kept as delays (--gaps keep)"
            };
            let ms = self.gaps_ns as f64 / 1e6;
            lines.push(format!(
                "{} starts are not explained by the trace, {ms:.3} ms of gaps, {fate}",
                self.gaps
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report whose counts are different numbers.
    fn report() -> ImportReport {
        ImportReport {
            events: 1001,
            host_threads: 1002,
            streams: 1003,
            kernels: 1004,
            copies: 1005,
            fills: 1006,
            launches: 1007,
            stream_waits: 1008,
            stream_waits_unpaired: 1009,
            event_syncs: 1010,
            event_syncs_unpaired: 1011,
            stream_syncs: 1012,
            stream_syncs_unpaired: 1013,
            device_syncs: 1014,
            device_syncs_unpaired: 1015,
            syncs_of_only_stream: 1016,
            syncs_by_time: 1017,
            syncs_of_nothing: 1018,
            syncs_unresolved: 1019,
            syncs_unresolved_ns: 1_020_000_000,
            syncs_of_other_calls: 1021,
            presents: 1022,
            presents_shown: 1023,
            presents_replayed: 1024,
            presents_for_work: 1025,
            presents_for_display: 1026,
            dependencies: 1027,
            dependencies_unpaired: 1028,
            queries: 1029,
            graph_launches: 1030,
            deepest_run_ahead: 1031,
            work_without_launch: 1032,
            overlaps_on_a_stream: 1033,
            overlapped_on_a_stream_ns: 1_034_000,
            gaps: 1035,
            gaps_ns: 1_036_000_000,
            median_launch_ns: 1_037_000,
            median_turnaround_ns: 1_038_000,
            median_wake_ns: 1_039_000,
            gaps_timed_by_host: 1040,
            shared_engines: vec![SharedEngine {
                engine: "compute 0".to_owned(),
                streams: vec!["a".to_owned(), "b".to_owned()],
                overlapped_ns: 1_041_000,
            }],
            ..ImportReport::default()
        }
    }

    #[test]
    fn each_count_has_its_line() {
        let lines = report().lines();
        for count in 1001..=1041 {
            let with = |line: &&String| line.contains(&count.to_string());
            assert_eq!(lines.iter().filter(with).count(), 1, "{count}: {lines:#?}");
        }
        for (count, words) in [
            (1009, "not replayed, record not known: stream waits"),
            (1021, "calls that free or copy memory and ended with work, replayed as waits"),
            (1028, "awaited work ended after its waiter began: dependencies"),
            (1029, "event and stream queries (they order nothing)"),
            (1030, "graph launches"),
            (1032, "GPU work whose launch is not in the trace"),
        ] {
            let ends = |line: &String| line.contains(words) && line.ends_with(&count.to_string());
            assert!(lines.iter().any(ends), "{count}: {lines:#?}");
        }
    }

    #[test]
    fn a_count_of_nothing_has_no_line() {
        let lines = ImportReport::default().lines();
        assert_eq!(
            lines.len(),
            4,
            "what was read, waits, how far ahead, and the machine: {lines:#?}"
        );
    }
}
