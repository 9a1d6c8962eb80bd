// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment needs of a machine, so that only what matters for it is shown.

use crate::check::{Area, Check, Fix, Verdict};
use crate::seen::Seen;
use std::collections::BTreeSet;

/// What an experiment needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// CPUs of its threads.
    pub cpus: BTreeSet<u32>,
    /// Network devices that it takes.
    pub nics: BTreeSet<String>,
    /// Queue disciplines that it sets.
    pub qdiscs: BTreeSet<String>,
    /// It attaches XDP programs.
    pub xdp: bool,
    /// A thread of it has a realtime policy.
    pub realtime: bool,
    /// A thread of it has an ordinary policy.
    pub ordinary: bool,
    /// Its packets have launch times.
    pub launches: bool,
    /// Its stations are on several machines.
    pub between_machines: bool,
    /// What its cells hold `/dev/cpu_dma_latency` at, µs; `None` of a cell that does not hold it.
    pub holds_us: BTreeSet<Option<i32>>,
}

impl Needs {
    /// Makes of what was seen what the experiment meets: queue disciplines that it sets, and CPUs
    /// that it holds awake itself.
    pub fn narrow(&self, seen: &mut Seen) {
        if let Some(held_us) = self.holds_us.iter().max().copied().flatten().filter(|_| !self.holds_us.contains(&None))
        {
            let before_us = seen.dma_latency_us.filter(|us| *us >= 0);
            seen.dma_latency_us = Some(before_us.map_or(held_us, |us| us.min(held_us)));
        }
        if let Some(Ok(tried)) = &mut seen.tried {
            tried.qdiscs.retain(|(kind, _)| self.qdiscs.contains(kind));
        }
    }

    /// Of these checks those that matter. What a kernel refuses that the experiment needs spoils
    /// figures.
    pub fn of(&self, checks: Vec<Check>) -> Vec<Check> {
        checks.into_iter().filter(|check| self.matters(check)).map(needed).collect()
    }

    fn matters(&self, check: &Check) -> bool {
        match check.id.as_str() {
            "rt-limit" | "fair-server" => self.realtime,
            "autogroup" => self.ordinary,
            "tai-offset" => self.launches || self.between_machines,
            "clock-services" | "clock-offset" => self.between_machines,
            "qdiscs" => !self.qdiscs.is_empty(),
            "xdp-modes" => self.xdp,
            "xdp" | "xdp-tried" => self.xdp && check.nic.as_ref().is_none_or(|nic| self.nics.contains(nic)),
            // A tracer's programs are no experiment's.
            "bpf-programs" => false,
            _ => check.nic.as_ref().is_none_or(|nic| self.nics.contains(nic)),
        }
    }
}

fn needed(check: Check) -> Check {
    let refused = check.area == Area::Kernel && check.verdict == Verdict::Note;
    if !refused {
        return check;
    }
    let costs = Some("this machine refuses cells of the experiment".to_owned());
    let fix = check.fix.or_else(|| Some(Fix::by("use a kernel that has it")));
    Check { verdict: Verdict::Spoils, costs, fix, ..check }
}
