//! Queues on several engines and adapters: the rules of the multi-engine document, its programs,
//! reports of runs.

mod adapter_variants;
mod deadlocks;
mod device_calls;
mod device_end;
mod engines_of_a_queue;
mod hazards;
mod hazards_of_memory;
mod linked_adapters;
mod list_commands;
mod machine_runs;
mod overlap;
mod ported;
mod ported_samples;
mod programs;
mod queue_rules;
mod resource_states;
mod run_reports;
mod several_engines;
mod stations;
mod synchronised_programs;
mod tiles;
mod video_queues;
