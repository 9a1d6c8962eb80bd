// SPDX-License-Identifier: MIT OR Apache-2.0
//! etf: each packet is held until `delta` before its launch time. Its parameters cannot be changed
//! while it is there; a fresh device has none yet.

use super::tc::{step, words};
use crate::path::LinkEnd;
use crate::step::Step;
use tardy_model::shaper::Etf;

/// As tc takes it.
pub fn arguments(etf: &Etf) -> String {
    let flag = |on: bool, word: &'static str| if on { word } else { "" };
    format!(
        "etf clockid CLOCK_TAI delta {}{}{}{}",
        etf.delta.0,
        flag(etf.deadline_mode, " deadline_mode"),
        flag(etf.skip_sock_check, " skip_sock_check"),
        flag(etf.offload, " offload")
    )
}

/// For the whole device.
pub fn set(etf: &Etf, end: &LinkEnd) -> Vec<Step> {
    step(end, &words(&arguments(etf)), Vec::new())
}
