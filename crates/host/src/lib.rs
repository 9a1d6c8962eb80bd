// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the machine: which CPUs may be used, what it is, what its network devices are and are
//! used for, what it is doing at a moment. Changes nothing.

pub mod change;
pub mod cpus;
pub mod facts;
pub mod nic;
pub mod sizes;
pub mod softirq;
pub mod state;
pub mod timekeeper;
