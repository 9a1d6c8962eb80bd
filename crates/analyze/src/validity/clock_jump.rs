// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a clock jumped during a trial, by the rules that tell of it.

use super::evidence::Evidence;
use super::{clock_step, tai_offset};

impl Evidence<'_> {
    /// True if a clock jumped during the trial, which `clock-step` or `tai-offset` tells: spans
    /// and pairs across the jump are no evidence of anything else.
    pub(super) fn clock_jumped(&self) -> bool {
        [tai_offset::RULE, clock_step::RULE].iter().any(|rule| !(rule.judge)(self).is_empty())
    }
}
