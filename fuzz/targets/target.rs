// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer's way into the bodies: every target is this file, and calls the body of its own name.
#![no_main]

use tardy_fuzz_bodies::{experiment, frame, hints, message, run_folder, samples};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| match env!("CARGO_BIN_NAME") {
    "experiment" => experiment::input(bytes),
    "frame" => frame::input(bytes),
    "hints" => hints::input(bytes),
    "message" => message::input(bytes),
    "run_folder" => run_folder::input(bytes),
    "samples" => samples::input(bytes),
    other => panic!("no body is called {other}"),
});
