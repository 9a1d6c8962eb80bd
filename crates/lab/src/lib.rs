// SPDX-License-Identifier: MIT OR Apache-2.0
//! The laboratory: a plan (pure: commands and their inverses), carried out with the journal on
//! disk first, and put back whatever happens.

pub mod agent;
pub mod behind;
pub mod binding;
pub mod bpf_jit;
pub mod command;
pub mod connection;
pub mod consent;
pub mod coordinator;
pub mod copying;
pub mod estimate;
pub mod fixes;
pub mod guest;
pub mod host;
pub mod identity;
mod idle;
pub mod journal;
pub mod loads;
pub mod machine;
pub mod names;
pub mod not_found;
pub mod observer;
pub mod orders;
pub mod path;
pub mod placement;
pub mod plan;
pub mod process;
pub mod returned;
pub mod run;
pub mod shaper;
pub mod slot;
pub mod softirq;
pub mod state;
pub mod station;
pub mod step;
pub mod trial;
pub mod undo;
pub mod vlan;
