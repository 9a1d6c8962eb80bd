// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each fuzz target does with an input: called by the fuzzers in `fuzz/targets`, and by the golden layer for every input in
//! `fuzz/corpus`. A fault is a panic.

pub mod experiment;
pub mod frame;
pub mod message;
pub mod run_folder;

// Parts of the program itself, as they are.
#[path = "../../../crates/cli/src/judge.rs"]
#[allow(dead_code)]
mod judge;
#[path = "../../../crates/cli/src/traces.rs"]
#[allow(dead_code)]
mod traces;
