// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden layer: bytes and text, no machine needed.

mod agents;
mod analyze;
mod ci;
mod compare;
mod crates;
mod devices;
mod ethernet;
mod foresight;
mod frame;
mod fuzz;
mod guest;
mod help;
mod hostile;
mod hostile_run;
mod loads;
mod manual;
mod not_found;
mod open_kinds;
mod optional;
mod placement;
mod plan;
mod programs;
mod prose;
mod report;
mod rings;
mod script;
mod shapers;
mod simulated;
mod spec;
mod store;
mod two_hosts;
mod undo;
mod usage;
