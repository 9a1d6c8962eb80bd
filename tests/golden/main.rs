// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden layer: bytes and text, no machine needed.

mod analyze;
mod answered;
mod ci;
mod compare;
mod deps;
mod devices;
mod ethernet;
mod frame;
mod fuzz;
mod guest;
mod help;
mod hostile;
mod hostile_run;
mod identity;
mod live;
mod loads;
mod loss;
mod manual;
mod names;
mod observer;
mod placement;
mod plan;
mod report;
mod rings;
mod runner;
mod script;
mod shapers;
mod spec;
mod steward;
mod store;
mod supply;
mod two_hosts;
mod undo;
mod vlan;
mod wire;
