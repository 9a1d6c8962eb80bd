// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy doctor` finds on machines that are known: virtual ones with two CPUs, booted with
//! and without the words that isolate one of them.

use crate::rig::{Rig, rig_with};
use serde_json::Value;

const ISOLATED: &str = "isolcpus=1 nohz_full=1 rcu_nocbs=1";

/// The checks of CPU 1 there.
struct Found(Value);

impl Found {
    fn of(rig: &Rig, args: &str) -> Found {
        // By another name, tardy's program does not load modules.
        let line = format!(
            "test -e /tmp/tardy || {{ cat /usr/bin/modprobe >/tmp/tardy; chmod 755 /tmp/tardy; }}; /tmp/tardy doctor --cpu 1 --json {args}"
        );
        let output = rig.there(&line);
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{says}");
        Found(serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {says}")))
    }

    /// Verdict and fact of a check.
    fn check(&self, id: &str) -> (String, String) {
        let all = self.0["checks"].as_array().expect("checks");
        let check = all.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("{id}: {:#}", self.0));
        let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("fact"))
    }

    fn verdicts<const N: usize>(&self, ids: [&str; N]) -> [String; N] {
        ids.map(|id| self.check(id).0)
    }

    /// Timer ticks while the CPU was watched.
    fn ticks(&self) -> u64 {
        let (_, fact) = self.check("live");
        let before = fact.split(" timer").next().expect("a fact");
        before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{fact}"))
    }
}

#[test]
fn a_machine_that_isolates_a_cpu_and_one_that_does_not_are_known_apart() {
    const TEST: &str = "a_machine_that_isolates_a_cpu_and_one_that_does_not_are_known_apart";
    const WORDS: [&str; 3] = ["isolcpus", "nohz_full", "rcu_nocbs"];
    let Some(open) = rig_with(TEST, 2, "") else { return };
    let found = Found::of(&open, "");
    assert_eq!(found.verdicts(WORDS), ["spoils", "note", "note"], "{:#}", found.0);
    assert_eq!(found.check("tasks").0, "spoils", "everything may run there");
    let ticks_open = found.ticks();
    drop(open);

    let Some(rig) = rig_with(TEST, 2, ISOLATED) else { return };
    let found = Found::of(&rig, "");
    assert_eq!(found.verdicts(WORDS), ["fine", "fine", "fine"], "{:#}", found.0);
    assert_eq!(found.check("tasks").0, "fine", "{:#}", found.0);
    let ticks = found.ticks();
    assert!(ticks * 4 < ticks_open, "{ticks} ticks on the isolated CPU, {ticks_open} on the other machine's");

    // A task that is put there, which ends with its sleep.
    rig.does_there("taskset 2 sleep 600 >/dev/null 2>&1 </dev/null & echo $! >/tmp/sleeps");
    let (verdict, fact) = Found::of(&rig, "--no-live").check("tasks");
    assert_eq!(verdict, "spoils", "{fact}");
    assert!(fact.contains("1 user task may run on CPU 1: sleep"), "{fact}");
    rig.does_there("kill $(cat /tmp/sleeps)");
    assert_eq!(Found::of(&rig, "--no-live").check("tasks").0, "fine");

    // The fixes are commands that work: they send the driver's interrupts away.
    rig.does_there("/tmp/tardy doctor --cpu 1 --no-live --fix >/tmp/fixes; sed -n '/smp_affinity_list$/p' /tmp/fixes | sed -n '/^echo/p' | sh");
    let (verdict, fact) = Found::of(&rig, "--no-live").check("irq-affinity");
    assert_eq!(verdict, "fine", "{fact}");
    // An interrupt of the second device is steered there.
    let number = rig.does_there("sed -n 's/^ *\\([0-9]*\\):.*virtio1-input.0.*/\\1/p' /proc/interrupts");
    let number = number.trim();
    rig.does_there(&format!("echo 1 >/proc/irq/{number}/smp_affinity_list"));
    let (verdict, fact) = Found::of(&rig, "--no-live").check("irq-affinity");
    assert_eq!(verdict, "spoils", "{fact}");
    assert!(fact.contains(&format!("{number} (")) && fact.contains("virtio1-input.0"), "{fact}");
}
