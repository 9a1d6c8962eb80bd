// SPDX-License-Identifier: MIT OR Apache-2.0
//! From samples to a judged table: distributions, outcomes, validity, repeatability, expectations.
//!
//! Everything here is a function of the samples and of the trials' records: no input or output, no
//! clock, no randomness. [`cell::CellAnalysis`] is the way in; the other modules are its parts.
//! `docs/method/` says how each figure is made.

pub mod arrival;
pub mod cell;
mod chunk;
pub mod clusters;
pub mod compare;
pub mod copying;
mod counts;
pub mod digest;
pub mod distribution;
pub mod envelope;
pub mod expectations;
pub mod fingerprint;
pub mod gates;
pub mod loads;
pub mod observer;
pub mod outcomes;
pub mod own_trace;
pub mod packets;
pub mod placement;
pub mod repeats;
pub mod ruler;
pub mod run;
mod says;
pub mod statistics;
mod two_clocks;
pub mod validity;
pub mod worst;
