// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden layer: bytes and text, no machine needed.

mod agents;
/// From samples to a judged table: every figure against a plain reckoning of it, every verdict
/// against its injected cause.
mod analyze {
    mod cells;
    mod cliffs;
    mod copies;
    mod drifts;
    pub(crate) mod fixture;
    mod harm;
    mod hosts;
    mod in_order;
    mod loads;
    mod loss;
    mod naive;
    mod noise;
    mod own_trace;
    mod placement;
    #[allow(dead_code)]
    #[path = "../../examples/repeats.rs"]
    mod process;
    mod quantiles;
    mod repeats;
    mod settings;
    mod threads;
    mod validity;
}
mod behind;
mod bench;
mod ci;
mod compare;
mod copies;
mod crates;
mod devices;
mod doctor;
mod ethernet;
mod foresight;
mod frame;
mod guest;
mod help;
mod hints;
mod hostile;
mod hostile_run;
mod kernel_copies;
mod loads;
mod machines;
mod manual;
mod not_whole;
mod offsets;
mod open_kinds;
mod passages;
mod placement;
mod plan;
mod probes;
mod programs;
mod prose;
mod reached;
mod report;
mod rings;
mod shapers;
mod simulated;
mod spec;
mod store;
mod two_hosts;
mod undo;
mod uplinks;
mod vfio;
mod ways_in;
mod xdp_rings;
