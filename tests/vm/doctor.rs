// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy doctor` finds on machines that are known: virtual ones with two CPUs, booted with
//! and without the words that isolate one of them.

use crate::rig::{Rig, rig_with};
use serde_json::{Value, json};
use std::process::Output;
use tardy_host::change::Change;
use tardy_lab::step::{Action, Inverse};

const ISOLATED: &str = "isolcpus=1 nohz_full=1 rcu_nocbs=1";

/// tardy there, by a name by which it does not load modules.
fn tardy(rig: &Rig, words: &str) -> Output {
    let copied = "test -e /tmp/tardy || { cat /usr/bin/modprobe >/tmp/tardy; chmod 755 /tmp/tardy; }";
    rig.there(&format!("{copied}; /tmp/tardy {words}"))
}

/// The checks of CPU 1 there.
struct Found(Value);

impl Found {
    fn of(rig: &Rig, args: &str) -> Found {
        let output = tardy(rig, &format!("doctor --cpu 1 --json {args}"));
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

    // No process is started there, and threads of a run are bound to it by its number all the same.
    let words = "run --trials 1 --set stream.ctl.count=50 --set stream.ctl.tx.cpu=1 --out /tmp/isolated --json";
    let run = tardy(&rig, words);
    let says = String::from_utf8_lossy(&run.stderr).into_owned();
    let results: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{error}: {says}"));
    let placed = results["cells"][0]["placement"].as_array().expect("threads");
    let tx = placed.iter().find(|of| of["thread"] == "ctl.tx").expect("the sender");
    assert_eq!(tx["cpus_seen"], json!([1]), "{tx}");
    assert_eq!(results["cells"][0]["streams"]["ctl"]["outcomes"]["intended"], 50, "{says}");
    // And a copy's, which asks for isolated CPUs.
    let copy = tardy(&rig, "copy --bind isolated --iterations 50 --trials 1 --out /tmp/copied --json");
    assert_ne!(copy.status.code(), Some(2), "{}", String::from_utf8_lossy(&copy.stderr));
    let results: Value = serde_json::from_slice(&copy.stdout).expect("JSON");
    let placed = results["cells"][0]["placement"].as_array().expect("threads");
    assert!(placed.iter().all(|of| of["cpus_seen"] == json!([1])), "{placed:?}");

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

/// Applies what fixes CPU 1 there.
const APPLY: &str = "doctor --cpu 1 --no-live --no-try --fix --apply";

/// Where interrupts and the test's own tasks may go there, and two settings.
fn set_there(rig: &Rig) -> String {
    rig.does_there(
        "for f in /proc/irq/*/smp_affinity_list; do echo $f $(cat $f); done; for t in $(cat /tmp/sleeps); do taskset -pc $t; done; \
         cat /proc/sys/kernel/watchdog /proc/sys/kernel/timer_migration",
    )
}

/// Takes all back there, and gives what it said.
fn undone(rig: &Rig) -> String {
    let output = tardy(rig, "undo");
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{says}");
    assert_eq!(rig.left(), "", "{says}");
    says
}

/// The line of a journal that takes a change of a file back.
fn noted(number: u32, file: &str, set: &str, was: &str) -> String {
    let undo = [Inverse::here(Action::of(Change::file(file, set, was)))];
    json!({"v": 2, "step": {"number": number, "undo": undo}}).to_string()
}

#[test]
fn fixes_that_were_applied_stay_until_undo_also_after_a_kill() {
    const TEST: &str = "fixes_that_were_applied_stay_until_undo_also_after_a_kill";
    let Some(rig) = rig_with(TEST, 2, ISOLATED) else { return };
    // Tasks that are put on the CPU, next to the interrupts of its network devices.
    rig.does_there(
        "for n in 1 2 3 4 5; do taskset 2 sleep 3600 >/dev/null 2>&1 </dev/null & echo $! >>/tmp/sleeps; done; sleep 1",
    );
    let number = rig.does_there("sed -n 's/^ *\\([0-9]*\\):.*virtio1-input.0.*/\\1/p' /proc/interrupts");
    rig.does_there(&format!("echo 1 >/proc/irq/{}/smp_affinity_list", number.trim()));
    let before = set_there(&rig);
    let found = Found::of(&rig, "--no-live --no-try");
    assert_eq!(found.verdicts(["tasks", "irq-affinity"]), ["spoils"; 2], "{:#}", found.0);

    let applied = tardy(&rig, APPLY);
    let says = String::from_utf8_lossy(&[applied.stdout, applied.stderr].concat()).into_owned();
    assert!(matches!(applied.status.code(), Some(0 | 1)), "{says}");
    assert!(says.contains("`tardy undo` takes all of it back") && !says.contains("NOT DONE"), "{says}");
    assert_eq!(says.matches("\n    back: taskset -pc 1 ").count(), 5, "{says}");
    let found = Found::of(&rig, "--no-live --no-try");
    assert_eq!(found.verdicts(["tasks", "irq-affinity"]), ["fine"; 2], "{:#}", found.0);
    assert_ne!(set_there(&rig), before);
    // Once more, and there is nothing to do.
    let again = tardy(&rig, APPLY);
    assert!(String::from_utf8_lossy(&again.stdout).contains("No command fixes what spoils figures here"));
    // What somebody has moved since stays where they put it.
    rig.does_there("read first </tmp/sleeps; taskset -pc 0-1 $first");
    let says = undone(&rig);
    assert!(
        says.contains("is left alone: somebody has set it to 0,1") || says.contains("somebody has set it to 0-1"),
        "{says}"
    );
    rig.does_there("read first </tmp/sleeps; taskset -pc 1 $first");
    assert_eq!(set_there(&rig), before, "{says}");

    // Killed once this number of changes is noted; some are made by then.
    let mut changed = 0;
    for steps in [1, 3, 6] {
        rig.does_there(&format!(
            "/tmp/tardy {APPLY} >/tmp/out 2>&1 </dev/null & p=$!; while test -e /proc/$p; do \
             n=$(sed -n '/\"step\"/p' /run/tardy/slots/*/journal.jsonl 2>/dev/null | sed -n '$='); test ${{n:-0}} -ge {steps} && break; done; \
             kill -KILL $p; wait $p; true"
        ));
        changed += u32::from(set_there(&rig) != before);
        let says = undone(&rig);
        assert_eq!(set_there(&rig), before, "after {steps}: {says}");
    }
    assert!(changed > 0, "no kill came in the middle");

    // Settings that no check of this machine changes: by a journal.
    let files = ["/proc/sys/kernel/watchdog", "/proc/sys/kernel/timer_migration"];
    let mut journal = json!({"v": 2, "boot": rig.does_there("cat /proc/sys/kernel/random/boot_id").trim()}).to_string();
    journal += "\n{\"v\":2,\"kept\":\"doctor\"}";
    for (number, file) in (0..).zip(files) {
        let was = rig.does_there(&format!("cat {file}")).trim().to_owned();
        let set = if was == "0" { "1" } else { "0" };
        rig.does_there(&format!("echo {set} >{file}"));
        journal += &format!("\n{}", noted(number, file, set, &was));
    }
    assert_ne!(set_there(&rig), before);
    rig.does_there(&format!(
        "umask 077; mkdir -p /run/tardy/slots/77; printf '%s\\n' '{journal}' >/run/tardy/slots/77/journal.jsonl"
    ));
    let says = undone(&rig);
    assert_eq!(set_there(&rig), before, "{says}");
    // One that asks for another file is shown, and not run.
    let hostile = journal.replace("kernel/watchdog", "kernel/core_pattern");
    let pattern = rig.does_there("cat /proc/sys/kernel/core_pattern");
    rig.does_there(&format!(
        "umask 077; mkdir -p /run/tardy/slots/78; printf '%s\\n' '{hostile}' >/run/tardy/slots/78/journal.jsonl"
    ));
    let refused = tardy(&rig, "undo");
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(3) && says.contains("is no setting that tardy changes"), "{says}");
    assert_eq!((rig.does_there("cat /proc/sys/kernel/core_pattern"), set_there(&rig)), (pattern, before));
}
