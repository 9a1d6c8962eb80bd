// SPDX-License-Identifier: MIT OR Apache-2.0
//! mqprio: traffic classes with queues of their own, and etf below those that are named.

use super::etf;
use super::tc::{children, classes, step, words};
use crate::path::LinkEnd;
use crate::step::Step;
use tardy_model::shaper::{Classes, Mqprio};

/// As tc takes it: the kernel does the classes, not the device.
pub fn arguments(of: &Classes) -> String {
    format!("mqprio {} hw 0", classes(of))
}

pub fn set(mqprio: &Mqprio, end: &LinkEnd) -> Vec<Step> {
    let below = mqprio.etf.as_ref().map(|(of, at)| children(at, &mqprio.classes, &etf::arguments(of)));
    step(end, &words(&arguments(&mqprio.classes)), below.unwrap_or_default())
}
