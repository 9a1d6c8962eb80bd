// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden layer: bytes and text, no machine needed.

mod analyze;
mod answered;
mod compare;
mod deps;
mod devices;
mod ethernet;
mod frame;
mod fuzz;
mod guest;
mod help;
mod hostile;
mod loads;
mod manual;
mod placement;
mod plan;
mod report;
mod runner;
mod shapers;
mod spec;
mod store;
mod vlan;
mod wire;
