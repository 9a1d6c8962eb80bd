// SPDX-License-Identifier: MIT OR Apache-2.0
//! No shaper: the device keeps the queue discipline that the kernel gave it, and that is read back, not assumed.

use crate::command::Command;
use crate::path::LinkEnd;
use std::collections::BTreeMap;

/// Nothing to set; what is there is read.
pub fn read_back(ends: &BTreeMap<String, LinkEnd>) -> Vec<Command> {
    let read = |end: &LinkEnd| Command::tc_in(&end.netns, &["-j", "qdisc", "show", "dev", &end.device]);
    ends.values().map(read).collect()
}
