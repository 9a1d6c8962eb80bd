// SPDX-License-Identifier: MIT OR Apache-2.0
//! No shaper: the device keeps the queue discipline that the kernel gave it, and that is read
//! back, not assumed.

use crate::path::LinkEnd;
use crate::step::Question;

/// Nothing to set; what is there is read.
pub fn question(end: &LinkEnd) -> Question {
    Question::at(&end.place, end.place.tc(&["-j", "qdisc", "show", "dev", &end.device]))
}
