// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer's door to [`tardy_fuzz_bodies::hints`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tardy_fuzz_bodies::hints::input(bytes);
});
