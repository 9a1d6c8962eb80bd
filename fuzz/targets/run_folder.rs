// SPDX-License-Identifier: MIT OR Apache-2.0
//! libFuzzer's door to [`tardy_fuzz_bodies::run_folder`].
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use tardy_fuzz_bodies::run_folder;

fuzz_target!(init: run_folder::sound_is_reported(), |bytes: &[u8]| -> Corpus {
    if run_folder::input(bytes, true) { Corpus::Keep } else { Corpus::Reject }
});
