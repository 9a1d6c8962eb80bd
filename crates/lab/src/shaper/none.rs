// SPDX-License-Identifier: MIT OR Apache-2.0
//! No shaper: the device keeps the queue discipline that the kernel gave it, and that is read back, not assumed.

use crate::path::{Ends, LinkEnd};
use crate::step::Question;

/// Nothing to set; what is there is read.
pub fn read_back(ends: &Ends) -> Vec<Question> {
    let read = |end: &LinkEnd| Question::at(&end.place, end.place.tc(&["-j", "qdisc", "show", "dev", &end.device]));
    ends.values().map(read).collect()
}
