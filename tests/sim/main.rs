// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sim layer: the real engine on simulated clocks and paths; exact results.

mod answered;
mod bends;
mod copies;
mod copy_threads;
mod drifts;
mod engine;
mod foreign;
mod ports;
mod shapers;
mod soak;
mod syncs;
mod trial;
mod truth;
mod xdp;
