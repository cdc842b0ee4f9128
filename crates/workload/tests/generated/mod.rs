//! A PyTorch profiler trace of any length, as a stream: operators, launches, kernels, copies, flow
//! arrows and waits in the proportions of a training run.
//!
//! Entry point: [`Trace`]. Two traces of one length are equal.

use std::fmt::Write as _;
use std::io::Read;

/// Kernels run on these streams in turn.
const STREAMS: [u64; 4] = [7, 20, 24, 28];
/// Events of one step: 2 operators, a launch, a kernel, 2 ends of a flow arrow, and the waits of a
/// few steps.
pub const EVENTS_PER_STEP: u64 = 6;

/// Reads as the text of a trace.
pub struct Trace {
    steps: u64,
    step: u64,
    pub events: u64,
    pub kernels: u64,
    text: String,
    read: usize,
    ended: bool,
}

impl Trace {
    /// A trace of about `events` events.
    pub fn new(events: u64) -> Self {
        let text = "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"a GPU\"}], \"traceEvents\": [\n"
            .to_owned();
        Self {
            steps: events / EVENTS_PER_STEP,
            step: 0,
            events: 0,
            kernels: 0,
            text,
            read: 0,
            ended: false,
        }
    }

    fn event(&mut self, text: std::fmt::Arguments<'_>) {
        if self.events > 0 {
            self.text.push_str(",\n");
        }
        self.text.write_fmt(text).expect("a text takes everything");
        self.events += 1;
    }

    fn write_step(&mut self) {
        let k = self.step;
        // Steps of 10 us: the launch takes 4 us, the kernel starts 3 us after it and takes 8 us.
        let ns = 1_700_000_000_000_000_000 + k * 10_000;
        let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let (ts, after, start) = (us(ns), us(ns + 500), us(ns + 8_001 + k % 900));
        let (stream, id, name) = (STREAMS[(k / 64 % 4) as usize], k + 1, k % 97);
        self.event(format_args!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::linear\", \"pid\": 4242, \"tid\": 4242,\n    \"ts\": {ts}, \"dur\": 9.500,\n    \"args\": {{\n      \"External id\": {id},\"Record function id\": 0, \"Ev Idx\": {id}\n    }}\n  }}"
        ));
        self.event(format_args!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4242, \"tid\": 4242,\n    \"ts\": {ts}, \"dur\": 9.000,\n    \"args\": {{\n      \"External id\": {id},\"Record function id\": 0, \"Ev Idx\": {id}\n    }}\n  }}"
        ));
        self.event(format_args!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4242, \"tid\": 4242,\n    \"ts\": {after}, \"dur\": 4.000,\n    \"args\": {{\n      \"External id\": {id}, \"cbid\": 211, \"correlation\": {id}\n    }}\n  }}"
        ));
        self.event(format_args!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void gemm_{name}_sm80_tensorop_f16_s16816\", \"pid\": 0, \"tid\": {stream},\n    \"ts\": {start}, \"dur\": 8.000,\n    \"args\": {{\n      \"External id\": {id}, \"queued\": 0, \"device\": 0, \"context\": 1, \"stream\": {stream}, \"correlation\": {id},\n      \"registers per thread\": 168, \"shared memory\": 49152, \"blocks per SM\": 1.185185, \"warps per SM\": 4.740741,\n      \"grid\": [16, 8, 1], \"block\": [128, 1, 1], \"est. achieved occupancy %\": 7\n    }}\n  }}"
        ));
        self.kernels += 1;
        self.event(format_args!(
            "  {{\n    \"ph\": \"s\", \"id\": {id}, \"pid\": 4242, \"tid\": 4242, \"ts\": {after},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }}"
        ));
        self.event(format_args!(
            "  {{\n    \"ph\": \"f\", \"id\": {id}, \"pid\": 0, \"tid\": {stream}, \"ts\": {start},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  }}"
        ));
        if k % 1_000 == 999 {
            let (at, id) = (us(ns + 5_000), 1_000_000_000 + k);
            self.event(format_args!(
                "  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaDeviceSynchronize\", \"pid\": 4242, \"tid\": 4242,\n    \"ts\": {at}, \"dur\": 14.000,\n    \"args\": {{\n      \"cbid\": 165, \"correlation\": {id}\n    }}\n  }}"
            ));
        }
    }
}

impl Read for Trace {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        while self.text.len() - self.read < out.len() && !self.ended {
            self.text.drain(..self.read);
            self.read = 0;
            if self.step < self.steps {
                self.write_step();
                self.step += 1;
            } else {
                self.text.push_str("\n  ],\n  \"traceName\": \"generated\"\n}\n");
                self.ended = true;
            }
        }
        let length = out.len().min(self.text.len() - self.read);
        out[..length].copy_from_slice(&self.text.as_bytes()[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}
