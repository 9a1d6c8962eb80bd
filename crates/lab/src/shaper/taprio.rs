// SPDX-License-Identifier: MIT OR Apache-2.0
//! taprio: gates that open by a schedule, kept by the kernel, by launch times with etf below, or
//! by the device.

use super::etf;
use super::tc::{children, classes, step, words};
use crate::path::LinkEnd;
use crate::step::Step;
use std::fmt::Write;
use tardy_model::shaper::{Mode, Taprio};
use tardy_model::time::{Instant, Tai};

/// As tc takes it, with the schedule's beginning.
pub fn arguments(taprio: &Taprio, begins: Instant<Tai>) -> String {
    let Taprio { classes: of, schedule, mode, .. } = taprio;
    let mut arguments = format!("taprio {} base-time {} cycle-time {}", classes(of), begins.ns(), schedule.cycle.0);
    for entry in &schedule.entries {
        let _ = write!(arguments, " sched-entry S {:02x} {}", entry.open, entry.length.0);
    }
    arguments
        + &match mode {
            Mode::Software => " clockid CLOCK_TAI".to_owned(),
            Mode::TxtimeAssist { delay } => format!(" flags 0x1 txtime-delay {} clockid CLOCK_TAI", delay.0),
            // The clock is the device's.
            Mode::Offload => " flags 0x2".to_owned(),
        }
}

pub fn set(taprio: &Taprio, end: &LinkEnd, begins: Instant<Tai>) -> Vec<Step> {
    let below = taprio.etf.as_ref().map(|(of, at)| children(at, &taprio.classes, &etf::arguments(of)));
    step(end, &words(&arguments(taprio, begins)), below.unwrap_or_default())
}
