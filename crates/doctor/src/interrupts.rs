// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who interrupts CPUs that are to be left alone.

use crate::check::{Area, Check, Fix, list};
use crate::numa::{near, node_of};
use crate::seen::{Interrupt, Seen, count};
use std::collections::BTreeSet;

const AREA: Area = Area::Interrupts;
const ID: &str = "irq-affinity";
/// Interrupts that are named, before the rest is only counted.
const SHOWN: usize = 6;

pub(crate) fn checks(seen: &Seen, cpus: &[u32]) -> Vec<Check> {
    if seen.interrupts.is_empty() {
        return vec![Check::unknown(ID, AREA, "the kernel does not show where interrupts go", "look as root")];
    }
    cpus.iter().map(|cpu| of_cpu(seen, cpus, *cpu)).collect()
}

fn of_cpu(seen: &Seen, cpus: &[u32], cpu: u32) -> Check {
    let watched = seen.came.get(&cpu);
    let came = |irq: &Interrupt| watched.and_then(|of| of.get(&irq.number)).copied().unwrap_or(0);
    // What came while the CPU was watched comes there, whatever its file says by now.
    let mut here: Vec<&Interrupt> = seen.interrupts.iter().filter(|irq| irq.comes_to(cpu) || came(irq) > 0).collect();
    here.sort_by_key(|irq| std::cmp::Reverse(came(irq)));
    let may = seen.interrupts.iter().filter(|irq| irq.allowed.contains(&cpu) && !here.contains(irq)).count();
    let more = if may == 0 { String::new() } else { format!("; {may} more may come there") };
    if here.is_empty() {
        let fact = format!("no interrupt of a device goes to CPU {cpu}{more}");
        return Check::fine(ID, AREA, fact).on(cpu);
    }
    let shown = here.iter().take(SHOWN).map(|irq| match watched {
        Some(_) => format!("{} ({}; came {})", irq.number, irq.name, count(came(irq) as usize, "time")),
        None => format!("{} ({})", irq.number, irq.name),
    });
    let mut names = shown.collect::<Vec<_>>().join(", ");
    if here.len() > SHOWN {
        names += &format!(" and {} more", here.len() - SHOWN);
    }
    let (interrupts, go) = (count(here.len(), "interrupt"), if here.len() == 1 { "goes" } else { "go" });
    let fact = format!("{interrupts} of devices {go} to CPU {cpu}: {names}{more}");
    let costs = "each takes 1 to 20 µs, and the softirq behind it up to some ms";
    // To CPUs of the device's own node, or of this CPU's.
    let near = |irq: &Interrupt| near(seen, cpus, irq.node.or_else(|| node_of(seen, cpu)));
    // Those whose CPUs the kernel has chosen come for work that this CPU asked for itself.
    let free: Vec<&&Interrupt> = here.iter().filter(|irq| irq.is_managed != Some(true)).collect();
    if free.is_empty() || seen.others(cpus).is_empty() {
        let says = match free.is_empty() {
            true => {
                "the kernel has chosen their CPUs (managed interrupts): one comes only for what this CPU asked its device for"
            }
            false => "there is no other CPU for them than those that are to be left alone",
        };
        return Check::note(ID, AREA, fact, costs, Fix::by(says)).on(cpu);
    }
    let sent: Vec<(&Interrupt, Vec<u32>, String)> = free
        .into_iter()
        .map(|irq| {
            let (to, says) = near(irq);
            (*irq, to, says)
        })
        .collect();
    let to: BTreeSet<u32> = sent.iter().flat_map(|(_, to, _)| to).copied().collect();
    let says: BTreeSet<&str> = sent.iter().map(|(.., says)| says.as_str()).collect();
    let fact = format!("{fact}{}", says.into_iter().collect::<String>());
    let to: Vec<u32> = to.into_iter().collect();
    let mut fix = Fix::by(format!("send them to CPU {}{}", list(&to), balanced(seen)));
    for (irq, to, _) in &sent {
        let file = format!("/proc/irq/{}/smp_affinity_list", irq.number);
        fix = fix.file(file, list(to), list(&irq.allowed));
    }
    Check::spoils(ID, AREA, fact, costs, fix).on(cpu)
}

/// Who would send them back.
fn balanced(seen: &Seen) -> &'static str {
    match seen.tasks.iter().any(|task| task.is_leader && task.name == "irqbalance") {
        true => ", and stop irqbalance first: it runs, and would send them back within seconds",
        false => "",
    }
}
