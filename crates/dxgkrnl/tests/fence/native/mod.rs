//! Native fences: the two values, the signalled interrupt, logs, and what engines do without the
//! CPU.

mod batches;
mod call_surface;
mod cpu_signals;
mod engine_variants;
mod engines_without_the_cpu;
mod log_ends;
mod logs;
mod monitored_shadow;
mod signaled_hw_queues;
mod values;
