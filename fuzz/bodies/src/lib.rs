// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each fuzz target does with an input: called by the fuzzers in `fuzz/targets`, and by the
//! golden layer for every input in `fuzz/corpus`. A fault is a panic.

pub mod corpus;
pub mod experiment;
pub mod frame;
pub mod hints;
pub mod message;
pub mod run_folder;
pub mod samples;
