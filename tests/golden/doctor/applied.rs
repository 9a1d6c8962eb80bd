// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixes of the doctor as values: the lines that they are printed as, what a journal takes of them,
//! and what becomes of them when they are taken back.

use super::made::{isolated, quiet_nic};
use crate::plan::{Recorder, folder, head, killed, line, quiet};
use serde_json::{Value, json};
use std::process::{Child, Command as Program};
use std::time::Duration;
use tardy_doctor::{Seen, diagnose};
use tardy_host::change::{Change, DeviceChange, DeviceSetting, Now, ThreadChange};
use tardy_lab::fixes::{FixError, Fixes, Made};
use tardy_lab::host::runner::Processes;
use tardy_lab::journal::{self, JournalError, KeptBy};
use tardy_lab::slot::Slot;
use tardy_lab::step::{Action, Inverse};
use tardy_lab::undo::{leftovers, undo_all};
use tardy_sys::proc::{Stat, Status, Task};

fn device(setting: DeviceSetting, set: &str, was: &str) -> Change {
    Change::Device(DeviceChange { device: "enp3s0".into(), ifindex: 3, setting, set: set.into(), was: was.into() })
}

fn thread(tid: u32, started_ticks: u64, set: &str, was: &str) -> Change {
    Change::Thread(ThreadChange { tid, started_ticks, set: set.into(), was: was.into() })
}

/// Values, the lines there and back, and the command that takes it back.
fn all() -> Vec<(Change, &'static str, &'static str, &'static str)> {
    vec![
        (
            Change::file("/proc/irq/7/smp_affinity_list", "0-2", "0-3"),
            "echo 0-2 >/proc/irq/7/smp_affinity_list",
            "echo 0-3 >/proc/irq/7/smp_affinity_list",
            "sh -c 'echo 0-3 >/proc/irq/7/smp_affinity_list'",
        ),
        (
            Change::file("/proc/sys/kernel/watchdog", "0", "1"),
            "sysctl -w kernel.watchdog=0",
            "sysctl -w kernel.watchdog=1",
            "sh -c 'echo 1 >/proc/sys/kernel/watchdog'",
        ),
        (
            Change::file("/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor", "performance", "powersave"),
            "echo performance >/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor",
            "echo powersave >/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor",
            "sh -c 'echo powersave >/sys/devices/system/cpu/cpu12/cpufreq/scaling_governor'",
        ),
        (
            Change::file("/sys/fs/cgroup/a.slice/b c/cpu.max", "max", "5000 100000"),
            "echo max >'/sys/fs/cgroup/a.slice/b c/cpu.max'",
            "echo 5000 100000 >'/sys/fs/cgroup/a.slice/b c/cpu.max'",
            r"sh -c 'echo 5000 100000 >'\''/sys/fs/cgroup/a.slice/b c/cpu.max'\'''",
        ),
        (
            device(DeviceSetting::RxUsecs, "0", "50"),
            "ethtool -C enp3s0 rx-usecs 0",
            "ethtool -C enp3s0 rx-usecs 50",
            "sh -c 'ethtool -C enp3s0 rx-usecs 50 >/dev/null'",
        ),
        (
            device(DeviceSetting::Eee, "off", "on"),
            "ethtool --set-eee enp3s0 eee off",
            "ethtool --set-eee enp3s0 eee on",
            "sh -c 'ethtool --set-eee enp3s0 eee on >/dev/null'",
        ),
        (
            device(DeviceSetting::Pause, "autoneg off rx off tx off", "autoneg on rx on tx off"),
            "ethtool -A enp3s0 autoneg off rx off tx off",
            "ethtool -A enp3s0 autoneg on rx on tx off",
            "sh -c 'ethtool -A enp3s0 autoneg on rx on tx off >/dev/null'",
        ),
        (thread(40, 7, "0-2", "3"), "taskset -pc 0-2 40", "taskset -pc 3 40", "sh -c 'taskset -pc 3 40 >/dev/null'"),
    ]
}

#[test]
fn a_fix_is_a_value_that_a_journal_keeps_and_a_line_is_made_of() {
    let inverses: Vec<Inverse> = all().into_iter().map(|(change, ..)| Inverse::here(Action::of(change))).collect();
    let state = folder();
    let dir = killed(state.path(), 4040, &(head() + &line(0, &inverses)));
    let read = journal::read(&dir).expect("it reads");
    assert_eq!(read.steps, [(0, inverses.clone())]);
    for ((change, does, undoes, command), inverse) in all().into_iter().zip(inverses) {
        assert_eq!([change.line(), change.line_back()], [does, undoes]);
        assert_eq!(inverse.action.change(), Some(change));
        let [one] = &inverse.commands()[..] else { panic!("{inverse:?}") };
        assert_eq!(one.to_string(), command);
        let text = serde_json::to_string(&inverse).expect("JSON");
        for word in ["echo", "ethtool", "taskset", "sysctl", "\"sh\""] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

#[test]
fn each_command_of_a_fix_is_a_value_that_a_journal_takes() {
    let made = isolated();
    made.task(40, "app", 0, "3", 0).task(41, "kcompactd0", 0x0020_0000, "0-3", 0);
    made.write("proc/irq/7/effective_affinity_list", "3\n");
    made.write("sys/devices/virtual/workqueue/cpumask", "f\n");
    made.write("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    for (file, text) in
        [("cpuidle/state0/name", "C6"), ("cpuidle/state0/latency", "133"), ("cpufreq/scaling_governor", "powersave")]
    {
        made.write(&format!("sys/devices/system/cpu/cpu3/{file}"), text);
    }
    made.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    made.write("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    made.write("sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000\n");
    for file in ["numa_balancing", "sched_autogroup_enabled", "watchdog"] {
        made.write(&format!("proc/sys/kernel/{file}"), "1\n");
    }
    made.write("proc/sys/kernel/watchdog_cpumask", "0-3\n").write("proc/sys/kernel/timer_migration", "0\n");
    let clock = "sys/devices/system/clocksource/clocksource0";
    made.write(&format!("{clock}/current_clocksource"), "hpet\n");
    made.write(&format!("{clock}/available_clocksource"), "hpet tsc\n");
    made.write("proc/self/cgroup", "0::/box\n").write("sys/fs/cgroup/box/cpu.max", "5000 100000\n");
    let mut nic = quiet_nic();
    nic.coalescing = Some(tardy_sys::ethtool::Coalescing {
        rx_us: 50,
        tx_us: 7,
        adaptive_rx: true,
        adaptive_tx: true,
        ..Default::default()
    });
    nic.eee = Some(tardy_sys::ethtool::Eee { is_enabled: true, is_active: true });
    nic.pause = Some(tardy_sys::ethtool::Pause { autoneg: true, rx: true, tx: false });
    nic.offloads = ["rx-gro", "rx-gro-hw", "rx-lro", "tx-tcp-segmentation"]
        .map(|name| (name.to_owned(), tardy_sys::nic::Feature { on: true, switchable: true }))
        .into();
    let checks = diagnose(&Seen { nics: vec![nic], ..made.seen() }, &[3]);
    let commands: Vec<_> = checks.iter().filter_map(|check| check.fix.as_ref()).flat_map(|fix| &fix.commands).collect();
    for command in &commands {
        assert_eq!(command.change.fault(), None, "{command:?}");
        assert_eq!(Inverse::here(Action::of(command.change.clone())).fault(), None, "{command:?}");
        assert_eq!([&command.does, &command.undoes], [&command.change.line(), &command.change.line_back()]);
    }
    // Each kind of file, each setting of a device, and threads.
    assert!(commands.len() >= 25, "{commands:#?}");
}

#[test]
fn a_hostile_journal_could_have_written_any_file_of_the_kernel_s() {
    let file = |file: &str, was: &str| json!({"restore_file": {"file": file, "set": "0", "was": was}});
    let nic = |device: &str, setting: &str, was: &str| json!({"restore_device": {"device": device, "ifindex": 3, "setting": setting, "set": "off", "was": was}});
    let moved = |was: &str| json!({"restore_thread": {"tid": 40, "started_ticks": 7, "set": "0", "was": was}});
    let evils = [
        file("/proc/sys/kernel/core_pattern", "|/bin/evil"),
        file("/proc/sys/kernel/modprobe", "/evil"),
        file("/proc/sys/kernel/watchdog", "1; id >/evil"),
        file("/proc/sys/kernel/watchdog/../core_pattern", "1"),
        file("/proc/sys/kernel/watchdog\n", "1"),
        file("/proc/sys/kernel/watchdog", "2"),
        file("/proc/irq/7/../../sysrq-trigger", "0"),
        file("/proc/irq/x/smp_affinity_list", "0"),
        file("/proc/irq//smp_affinity_list", "0"),
        file("/proc/irq/7/smp_affinity_list", "$(id)"),
        file("/proc/irq/7/smp_affinity_list", ""),
        file("/proc/irq/7777777777777777/smp_affinity_list", "0"),
        file("/proc/irq/7/smp_affinity_list.d", "0"),
        file("/sys/devices/system/cpu/cpu1/online", "0"),
        file("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "a b"),
        file("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "`id`"),
        file("/sys/kernel/debug/sched/preempt", "none\nfull"),
        file("/sys/fs/cgroup/../../etc/cpu.max", "max"),
        file("/sys/fs/cgroup/a/./cpu.max", "max"),
        file("/sys/fs/cgroup/a//cpu.max", "max"),
        file("/sys/fs/cgroup/a\nb/cpu.max", "max"),
        file("/sys/fs/cgroup/a/cgroup.procs", "1"),
        file("/sys/fs/cgroup/a/cpu.max", "max; id"),
        file("/etc/passwd", "0"),
        nic("x;id", "eee", "on"),
        nic("-x", "eee", "on"),
        nic("enp3s0", "eee", "on; id"),
        nic("enp3s0", "rx_usecs", "off"),
        nic("enp3s0", "pause", "autoneg on rx on tx $(id)"),
        nic("enp3s0", "firmware", "on"),
        moved("0 1"),
        moved("-p 1"),
        moved("$(id)"),
        json!({"restore_thread": {"tid": -1, "started_ticks": 7, "set": "0", "was": "0"}}),
        json!({"restore_thread": {"tid": 40, "set": "0", "was": "0"}}),
        json!({"restore_file": {"file": "/proc/sys/kernel/watchdog", "set": "0", "was": "1", "argv": ["sh"]}}),
    ];
    let here = json!({"host": "this machine"});
    let journal_of = |place: &Value, action: &Value| {
        let undo = json!([{"place": place, "action": action}]);
        head() + &json!({"v": 2, "step": {"number": 0, "undo": undo}}).to_string() + "\n"
    };
    let place_here = serde_json::to_value(Inverse::here(Action::RestoreBpfJit { was: 1 }).place).expect("JSON");
    for (n, evil) in evils.iter().enumerate() {
        let state = folder();
        let dir = killed(state.path(), 4041, &journal_of(&place_here, evil));
        let error = journal::read(&dir).expect_err(&evil.to_string());
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{n}: {error}");
        let mut runner = Recorder::fine();
        let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
        assert_eq!((runner.ran.len(), done.failed.len()), (0, 1), "{evil}: {:?}", runner.ran);
    }
    // The same place with a setting that may be changed is read.
    let good = file("/proc/sys/kernel/watchdog", "1");
    let state = folder();
    assert!(journal::read(&killed(state.path(), 4041, &journal_of(&place_here, &good))).is_ok(), "{here}");
    // A setting of the whole machine is in no network namespace, and in no other machine's journal.
    for (key, value) in [("netns", json!("tardy-0-a")), ("host", json!("another"))] {
        let mut place = place_here.clone();
        place[key] = value;
        let state = folder();
        let dir = killed(state.path(), 4041, &journal_of(&place, &good));
        assert!(matches!(journal::read(&dir), Err(JournalError::Damaged { .. })), "{place}");
    }
}

/// A process of the test's own, which does nothing.
struct Idle(Child);

impl Idle {
    fn new() -> Idle {
        Idle(Program::new("sleep").arg("600").spawn().expect("it starts"))
    }

    fn tid(&self) -> u32 {
        self.0.id()
    }

    fn started(&self) -> u64 {
        Stat::of(self.tid()).expect("it runs").started_ticks
    }

    fn allowed(&self) -> String {
        let status = Status::of(Task::Process(self.tid())).expect("it runs");
        status.allowed_cpus().expect("a list").to_owned()
    }

    fn moves(&self, to: &str) {
        let done = Program::new("taskset").args(["-pc", to, &self.tid().to_string()]).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_somebody_set_since_was_set_back_over_their_heads() {
    let idle = Idle::new();
    let (tid, started, is) = (idle.tid(), idle.started(), idle.allowed());
    // Changes of one thread, what is run to take them back, and whether a person hears of it.
    let back = vec![format!("sh -c 'taskset -pc 91 {tid} >/dev/null'")];
    let cases: [(&[Change], &[String], bool); 6] = [
        (&[thread(tid, started, &is, "91")], &back, false),
        // It has another value than the one that was set.
        (&[thread(tid, started, "90", "91")], &[], true),
        // It was killed before it was set, or somebody has put it back.
        (&[thread(tid, started, "90", &is)], &[], false),
        // The number is another thread's by now, or nobody's.
        (&[thread(tid, started + 1, &is, "91")], &[], false),
        // Two calls changed it, and the second one was killed before it did.
        (&[thread(tid, started, &is, "91"), thread(tid, started, "90", "91")], &back, false),
        (&[thread(tid, started, "90", "91"), thread(tid, started, &is, "91")], &back, false),
    ];
    for (changes, ran, is_noted) in cases {
        let state = folder();
        let lines: String = (0..)
            .zip(changes)
            .map(|(number, change)| line(number, &[Inverse::here(Action::of(change.clone()))]))
            .collect();
        killed(state.path(), 4042, &(head() + "{\"v\":2,\"kept\":\"doctor\"}\n" + &lines));
        let mut runner = Recorder::fine();
        let done = undo_all(state.path(), &mut runner, &mut quiet).expect("it can be read");
        assert_eq!(runner.ran, ran, "{changes:?}");
        let [(_, put)] = &done.undone[..] else { panic!("{done:?}") };
        assert_eq!((put.notes.len(), put.steps as usize), (usize::from(is_noted), ran.len()), "{changes:?}");
        for note in &put.notes {
            assert!(note.contains("is left alone: somebody has set it to"), "{note}");
        }
        assert!(crate::plan::is_empty(state.path()), "nothing of it is left");
    }
}

#[test]
fn changes_of_an_earlier_boot_are_gone_and_nothing_is_put_back() {
    let idle = Idle::new();
    let change = thread(idle.tid(), idle.started(), &idle.allowed(), "91");
    let state = folder();
    let lines = "{\"v\":2,\"boot\":\"00000000-0000-4000-8000-000000000000\"}\n{\"v\":2,\"kept\":\"doctor\"}\n"
        .to_owned()
        + &line(0, &[Inverse::here(Action::of(change))]);
    killed(state.path(), 4043, &lines);
    let mut runner = Recorder::fine();
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("it can be read");
    let [(4043, put)] = &done.undone[..] else { panic!("{done:?}") };
    assert_eq!((runner.ran.len(), put.steps, put.of_another_boot), (0, 0, 1));
}

/// As a caller begins; tests and other people of this machine take turns.
fn begin(state: &std::path::Path) -> Fixes<Processes<'static>> {
    loop {
        match Fixes::begin(state, |slot| Processes::new(|_| {}).holding(slot)) {
            Err(FixError::Taken { .. }) => std::thread::sleep(Duration::from_millis(20)),
            other => return other.expect("it may begin"),
        }
    }
}

#[test]
fn a_change_stays_behind_its_process_until_undo_and_the_first_value_wins() {
    const TEST: &str = "a_change_stays_behind_its_process_until_undo_and_the_first_value_wins";
    let (state, idle) = (folder(), Idle::new());
    let was = idle.allowed();
    let cpus = tardy_host::cpus::usable();
    let [first, second, ..] = &cpus[..] else { return tardy_tests::skip(TEST, "this machine has one CPU") };
    let (first, second) = (first.to_string(), second.to_string());
    let change = thread(idle.tid(), idle.started(), &first, &was);

    let mut fixes = begin(state.path());
    let slot = fixes.slot();
    assert_eq!(fixes.make(&change), Ok(Made::Changed(change.clone())));
    assert_eq!(fixes.make(&change), Ok(Made::Already));
    let gone = thread(idle.tid(), idle.started() + 1, &first, &was);
    assert!(fixes.make(&gone).is_err_and(|why| why.contains("there is no more of it")));
    let refused = Change::file("/proc/sys/kernel/core_pattern", "0", "1");
    assert!(fixes.make(&refused).is_err_and(|why| why.contains("no setting that tardy changes")));
    // What the kernel refuses is noted no longer, and keeps nothing else from being tried.
    let nowhere = thread(idle.tid(), idle.started(), "8191", &was);
    assert!(fixes.make(&nowhere).is_err(), "no machine of a test has this CPU");
    drop(fixes);
    assert_eq!(idle.allowed(), first, "it stays");
    let dir = state.path().join(format!("slots/{slot}"));
    let noted = journal::read(&dir).expect("it reads");
    assert_eq!((noted.keeper, noted.steps.len()), (Some(KeptBy::Doctor), 1), "{noted:?}");
    // No run counts it as a killed one's, nor takes its slot.
    assert_eq!(leftovers(state.path()).expect("it can be read").len(), 0);
    assert_ne!(Slot::claim(state.path()).expect("a slot").number(), slot);

    // Somebody moves it, and it is changed again: what was there first is kept, in the same slot.
    idle.moves(&second);
    let mut fixes = begin(state.path());
    assert_eq!(fixes.slot(), slot);
    assert_eq!(fixes.make(&change), Ok(Made::Changed(change.clone())));
    drop(fixes);
    let done = undo_all(state.path(), &mut Processes::new(|_| {}), &mut quiet).expect("it can be read");
    let [(_, put)] = &done.undone[..] else { panic!("{done:?}") };
    assert_eq!((put.steps, &put.notes), (1, &Vec::new()));
    assert_eq!((idle.allowed(), change.now()), (was.clone(), Now::Is(was)));
    assert!(crate::plan::is_empty(state.path()));
}

#[test]
fn what_a_killed_run_had_set_was_taken_for_what_was_there() {
    let state = folder();
    killed(state.path(), 4044, &crate::plan::steps());
    let refused = loop {
        match Fixes::begin(state.path(), |slot| Processes::new(|_| {}).holding(slot)) {
            Err(FixError::Taken { .. }) => std::thread::sleep(Duration::from_millis(20)),
            other => break other.err().expect("a killed run has left something"),
        }
    };
    assert!(matches!(refused, FixError::Left { slot: 4044 }), "{refused}");
    assert!(refused.to_string().contains("run `tardy undo` first"), "{refused}");
}

#[test]
fn a_run_in_a_slot_that_a_doctor_left_empty_passed_for_the_doctor() {
    let state = folder();
    // Killed before its first change.
    killed(state.path(), 0, &(head() + "{\"v\":2,\"kept\":\"doctor\"}\n"));
    // Another test, or another process of this machine, may have the number for a while.
    let claimed = (0..500).find_map(|_| {
        let slot = Slot::claim(state.path()).expect("a slot");
        let is_first = slot.number() == 0;
        if !is_first {
            std::thread::sleep(Duration::from_millis(20));
        }
        is_first.then_some(slot)
    });
    let Some(slot) = claimed else {
        return tardy_tests::skip("a_run_in_a_slot_that_a_doctor_left_empty_passed_for_the_doctor", "slot 0 is taken");
    };
    let mut journal = slot.journal().expect("a journal");
    journal.will_do(&[&[crate::plan::delete("x")]]).expect("it is noted");
    assert_eq!((journal.contents().keeper, journal.contents().steps.len()), (None, 1));
    let read = journal::read(&state.path().join("slots/0")).expect("it reads");
    assert_eq!((read.keeper, read.steps.len()), (None, 1));
}

#[test]
fn apply_is_refused_where_it_would_change_another_machine() {
    let call = |args: &[&str]| Program::new(crate::help::tardy()).arg("doctor").args(args).output().expect("it runs");
    let there = call(&["--fix", "--apply", "--host", "lab2"]);
    let says = String::from_utf8_lossy(&there.stderr).into_owned();
    assert_eq!(there.status.code(), Some(2), "{says}");
    assert!(says.contains("log in to `lab2` and call `tardy doctor --fix --apply` there"), "{says}");
    let alone = call(&["--apply"]);
    assert_eq!(alone.status.code(), Some(2), "it is a way of --fix");
}
