// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy doctor` makes of a machine, of which each file is the test's own.

mod applied;
mod made;
mod network;
mod services;

use made::{Made, isolated, quiet_nic};
use std::fs;
use std::path::Path;
use std::process::Command;
use tardy_doctor::{
    Area, Diagnosis, Live, Seen, SeenNic, Verdict, Watched, column, diagnose, left_alone, list, live, of_mask, problems,
};
use tardy_host::timekeeper::{Keeper, Kept};

#[test]
fn a_cpu_that_is_left_alone_is_fine_and_one_that_is_not_has_a_fix() {
    let ids = ["isolcpus", "nohz_full", "rcu_nocbs", "tasks", "kernel-threads", "workqueues", "irq-affinity"];
    for id in ids {
        let check = isolated().check(&[3], id);
        assert_eq!(check.verdict, Verdict::Fine, "{check:#?}");
    }
    assert_eq!(left_alone(&isolated().seen()), [3]);
    for id in ids {
        let check = Made::new().check(&[1], id);
        assert!(matches!(check.verdict, Verdict::Spoils | Verdict::Note), "{check:#?}");
    }
    let interrupt = Made::new().check(&[1], "irq-affinity");
    assert!(
        interrupt.fact.starts_with("1 interrupt of devices goes to CPU 1: 7 (PCI-MSI 7-edge eth0-rx-0)"),
        "{}",
        interrupt.fact
    );
    let fix = interrupt.fix.expect("a fix");
    assert_eq!(fix.commands[0].does, "echo 0,2-3 >/proc/irq/7/smp_affinity_list");
    assert_eq!(fix.commands[0].undoes, "echo 0-3 >/proc/irq/7/smp_affinity_list");
}

#[test]
fn one_fact_changed_and_its_check_did_not() {
    let changed = |id: &str, change: &dyn Fn(&Made)| {
        let made = isolated();
        change(&made);
        let check = made.check(&[3], id);
        (check.verdict, check.fact)
    };
    let task = changed("tasks", &|made| _ = made.task(40, "a (b) c", 0, "3", 0));
    assert_eq!(task.0, Verdict::Spoils);
    assert!(task.1.contains("1 user task may run on CPU 3: a (b) c"), "{}", task.1);
    // Who may run everywhere stays away from an isolated CPU.
    assert_eq!(changed("tasks", &|made| _ = made.task(40, "sshd", 0, "0-3", 0)).0, Verdict::Fine);
    // Who is there already stays, and so does who may run on isolated CPUs alone.
    assert_eq!(changed("tasks", &|made| _ = made.ran(40, "sshd", 0, "0-3", 0, 3)).0, Verdict::Spoils);
    let two = |made: &Made| {
        made.write("sys/devices/system/cpu/isolated", "2-3\n").task(40, "vcpu", 0, "2-3", 0);
    };
    assert_eq!(changed("tasks", &two).0, Verdict::Spoils);
    let thread = changed("kernel-threads", &|made| _ = made.task(41, "kcompactd0", 0x0020_0000, "0-3", 0));
    assert_eq!(thread.0, Verdict::Note);
    assert!(thread.1.contains("kcompactd0"), "{}", thread.1);
    let stays = changed("kernel-threads", &|made| _ = made.task(42, "migration/3", 0x0420_0000, "3", 1));
    assert_eq!(stays.0, Verdict::Fine);
    assert!(
        stays.1.contains("1 of the kernel's own threads belong to it and cannot be moved: migration/3"),
        "{}",
        stays.1
    );
    // The scheduler puts nobody there who may run elsewhere.
    assert_eq!(changed("rcu_nocbs", &|made| _ = made.task(31, "rcuop/3", 0x0020_0000, "0-3", 0)).0, Verdict::Fine);
    let rcu = changed("rcu_nocbs", &|made| _ = made.task(31, "rcuop/3", 0x0020_0000, "3", 0));
    assert_eq!(rcu.0, Verdict::Spoils);
    assert!(rcu.1.contains("rcuop/3 may run there too"), "{}", rcu.1);
    let built = changed("isolation-config", &|_| ());
    assert_eq!(built.0, Verdict::Fine);
    assert!(built.1.contains("CONFIG_NO_HZ_FULL, CONFIG_RCU_NOCB_CPU"), "{}", built.1);
    let not_built = changed("isolation-config", &|made| {
        made.write("boot/config-6.6.1-test", "CONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\n");
    });
    assert_eq!((not_built.0, not_built.1.as_str()), (Verdict::Note, "the kernel is built without CONFIG_NO_HZ_FULL"));
    let irq = changed("irq-affinity", &|made| _ = made.write("proc/irq/7/effective_affinity_list", "3\n"));
    assert_eq!(irq.0, Verdict::Spoils);
    let queue = changed("workqueues", &|made| _ = made.write("sys/devices/virtual/workqueue/cpumask", "f\n"));
    assert_eq!(queue.0, Verdict::Note);
}

#[test]
fn an_interrupt_that_was_sent_elsewhere_seemed_to_stay_until_it_came() {
    for (allowed, effective, comes) in
        [("0-3", "3", true), ("0-2", "3", false), ("3", "0", true), ("0-3", "1", false), ("3", "", true)]
    {
        let made = isolated();
        made.write("proc/irq/7/smp_affinity_list", &format!("{allowed}\n"));
        made.write("proc/irq/7/effective_affinity_list", &format!("{effective}\n"));
        let verdict = made.check(&[3], "irq-affinity").verdict;
        assert_eq!(verdict == Verdict::Spoils, comes, "{allowed} {effective}");
    }
}

#[test]
fn a_word_of_the_command_line_that_the_kernel_ignored_went_unseen() {
    let made = Made::new();
    made.write("proc/cmdline", "isolcpus=9 nohz_full=2 rcu_nocbs=2\n").write("sys/devices/system/cpu/nohz_full", "\n");
    for (id, says) in [
        ("isolcpus", "isolcpus=9 is on the command line, and the kernel has no CPU of it"),
        ("nohz_full", "nohz_full=2 is on the command line, and the kernel has no CPU of it"),
        ("rcu_nocbs", "rcu_nocbs=2 is on the command line, and the kernel has no CPU of it"),
    ] {
        let check = made.check(&[2], id);
        assert_eq!((check.verdict, check.fact.as_str()), (Verdict::Spoils, says));
    }
    // A kernel that is not built for it says so.
    made.write("boot/config-6.6.1-test", "CONFIG_HZ=250\n");
    let fix = made.check(&[2], "nohz_full").fix.expect("a fix");
    assert!(fix.says.contains("CONFIG_NO_HZ_FULL"), "{}", fix.says);
}

#[test]
fn each_verdict_that_is_not_fine_has_what_it_costs_and_how_to_fix_it() {
    let made = Made::new();
    made.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    made.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "intel_pstate\n");
    made.write("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    made.write("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3\n");
    made.write("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    for (n, (name, latency)) in [("POLL", 0), ("C6", 133)].into_iter().enumerate() {
        made.write(&format!("sys/devices/system/cpu/cpu1/cpuidle/state{n}/name"), name);
        made.write(&format!("sys/devices/system/cpu/cpu1/cpuidle/state{n}/latency"), &latency.to_string());
    }
    made.write("sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000\n");
    made.write("proc/sys/kernel/numa_balancing", "1\n").write("proc/sys/kernel/sched_autogroup_enabled", "1\n");
    made.write("proc/sys/kernel/watchdog", "1\n").write("proc/sys/kernel/watchdog_cpumask", "0-3\n");
    made.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    let checks = made.checks(&[1]);
    let all: Vec<(&str, Verdict)> = checks.iter().map(|check| (check.id.as_str(), check.verdict)).collect();
    for id in [
        "governor",
        "turbo",
        "smt-sibling",
        "idle-states",
        "fair-server",
        "numa-balancing",
        "autogroup",
        "watchdog",
        "clock-source",
        "preemption",
        "rt-limit",
        "huge-pages",
    ] {
        let of = all.iter().find(|(of, _)| *of == id).unwrap_or_else(|| panic!("{id}: {all:?}"));
        assert!(matches!(of.1, Verdict::Spoils | Verdict::Note), "{of:?}");
    }
    for check in &checks {
        let needs = check.verdict != Verdict::Fine;
        assert_eq!(check.fix.is_some(), needs, "{check:#?}");
        assert!(check.costs.is_some() == matches!(check.verdict, Verdict::Spoils | Verdict::Note), "{check:#?}");
        for command in check.fix.iter().flat_map(|fix| &fix.commands) {
            assert_ne!(command.does, command.undoes, "{check:#?}");
        }
    }
    let found = Diagnosis::of("6.12".into(), vec![1], checks);
    assert!(!found.fine);
}

#[test]
fn a_task_s_name_reached_a_shell() {
    let made = isolated();
    made.task(40, "x`id`\n$(id)", 0, "3", 0);
    let fix = made.check(&[3], "tasks").fix.expect("a fix");
    assert_eq!(fix.commands[0].does, "taskset -pc 0-2 40");
    assert_eq!(fix.commands[0].undoes, "taskset -pc 3 40");
}

#[test]
fn lists_and_masks_of_cpus_are_read_as_the_kernel_writes_them() {
    assert_eq!(of_mask("00000001,0000000f"), [0, 1, 2, 3, 32]);
    assert_eq!(of_mask("f\n"), [0, 1, 2, 3]);
    let seen = Seen { online: (0..8).collect(), ..Seen::default() };
    for (words, cpus) in [
        ("managed_irq,domain,1-3,7", &[1, 2, 3, 7][..]),
        ("all", &[0, 1, 2, 3, 4, 5, 6, 7]),
        ("5-N", &[5, 6, 7]),
        ("1-7:1/2", &[1, 3, 5, 7]),
        ("0-7:2/4", &[0, 1, 4, 5]),
        ("nohz,x-y,:", &[]),
    ] {
        assert_eq!(seen.of_words(words), cpus, "{words}");
    }
    assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    assert_eq!(list(&[]), "");
}

#[test]
fn the_counts_of_a_cpu_behind_one_that_is_off_were_another_ones() {
    let table = "           CPU0       CPU2\n  7:          1          5   PCI-MSI 7-edge      eth0\nLOC:        100        200   Local timer interrupts\nERR:          3\n";
    let counts = column(table, 2);
    assert_eq!(counts.get("7: PCI-MSI 7-edge eth0"), Some(&5));
    assert_eq!(counts.get("LOC: Local timer interrupts"), Some(&200));
    assert_eq!(column(table, 1).len(), 0);
}

#[test]
fn what_took_a_watched_cpu_away_is_named() {
    let counted = Watched {
        interrupts: [("LOC: Local timer interrupts".to_owned(), 500), ("7: eth0".to_owned(), 3)].into(),
        softirqs: [("TIMER".to_owned(), 120)].into(),
        stolen_ticks: 0,
    };
    let watched = Live {
        cpu: 1,
        for_ns: 2_000_000_000,
        gaps: 503,
        gaps_ns: 2_000_000,
        longest_ns: 20_000,
        counted,
        ..Live::default()
    };
    let quiet = live(&Seen::default(), &watched);
    assert_eq!((quiet.verdict, quiet.cpu, quiet.area), (Verdict::Fine, Some(1), Area::Live));
    for says in [
        "away 503 times in 2.0 s, 0.100 % of the time, the longest 20.0 µs",
        "500 timer interrupts, 503 interrupts in all",
        "500 × LOC: Local timer interrupts, 3 × 7: eth0",
        "120 × TIMER",
    ] {
        assert!(quiet.fact.contains(says), "{says}: {}", quiet.fact);
    }
    let late =
        live(&Seen::default(), &Live { longest_ns: 4_000_000, switches: 2, waited_ns: 5_000_000, ..watched.clone() });
    assert_eq!(late.verdict, Verdict::Spoils);
    assert!(late.fact.contains("other tasks ran 2 times, 5000.0 µs in all"), "{}", late.fact);
    // A container's limit is no other task's doing.
    let limited = Live {
        longest_ns: 95_000_000,
        switches: 2,
        waited_ns: 900_000_000,
        stopped_ns: 800_000_000,
        ..watched.clone()
    };
    let limited = live(&Seen::default(), &limited);
    assert!(
        limited.fact.contains("other tasks ran 2 times, 100000.0 µs in all; the control group had used up"),
        "{}",
        limited.fact
    );
    assert!(limited.fix.is_some_and(|fix| fix.says.contains("cpu-quota")));
    let stolen = Watched { stolen_ticks: 3, ..watched.counted.clone() };
    let stolen = live(&Seen::default(), &Live { longest_ns: 4_000_000, counted: stolen, ..watched });
    assert!(
        stolen.fact.contains("a hypervisor took 30 ms")
            && stolen.fix.is_some_and(|fix| fix.says.contains("hypervisor"))
    );
}

#[test]
fn an_interrupt_that_came_to_a_watched_cpu_was_nowhere_in_its_check() {
    let made = Made::new();
    made.write("proc/irq/7/smp_affinity_list", "2\n").write("proc/irq/7/effective_affinity_list", "2\n");
    let counted = Watched {
        interrupts: [("7: PCI-MSI 7-edge eth0-rx-0".to_owned(), 3), ("LOC: Local timer interrupts".to_owned(), 500)]
            .into(),
        ..Watched::default()
    };
    assert_eq!(counted.of_devices(), [(7, 3)].into());
    let of = |cpu: u32, came: &[(u32, u64)]| {
        let came = [(cpu, came.iter().copied().collect())].into();
        let checks = diagnose(&Seen { came, ..made.seen() }, &[cpu]);
        checks.into_iter().find(|check| check.id == "irq-affinity").expect("a check")
    };
    let here = of(2, &[(7, 3)]);
    assert_eq!(here.verdict, Verdict::Spoils);
    assert!(here.fact.contains("7 (PCI-MSI 7-edge eth0-rx-0; came 3 times)"), "{}", here.fact);
    assert!(of(2, &[]).fact.contains("; came 0 times)"), "its traffic may come later");
    // It came there before somebody sent it away.
    assert_eq!([of(1, &[(7, 1)]).verdict, of(1, &[]).verdict], [Verdict::Spoils, Verdict::Fine]);
}

#[test]
fn how_near_the_clock_is_to_what_it_follows_is_what_its_keeper_reports() {
    let check = |ahead_ns, bound_ns| {
        let reference = "UTC".to_owned();
        let kept = vec![Kept { by: Keeper::Chrony, reference, ahead_ns, bound_ns, at_tai_ns: None, later: None }];
        let checks = diagnose(&Seen { kept, ..Made::new().seen() }, &[]);
        checks.into_iter().find(|check| check.id == "clock-offset").expect("a check")
    };
    let near = check(37_000_000_500, 41_300);
    let says = "chrony reports CLOCK_TAI as 37 s and 0.5 µs ahead of UTC, within 41.3 µs";
    assert_eq!((near.verdict, near.fact.as_str()), (Verdict::Fine, says));
    assert_eq!(check(-1_500, 2_000_000).fact, "chrony reports CLOCK_TAI as -1.5 µs ahead of UTC, within 2000.0 µs");
    assert_eq!([check(0, 2_000_000).verdict, check(0, -1).verdict], [Verdict::Note; 2]);
    assert!(diagnose(&Made::new().seen(), &[]).iter().all(|check| check.id != "clock-offset"));
}

#[test]
fn a_run_reports_each_kind_of_problem_once_and_nothing_else() {
    let made = Made::new();
    let lines = problems(&made.checks(&[1, 2]));
    let ids: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(ids, ["isolcpus", "tasks", "irq-affinity"], "{lines:#?}");
    assert_eq!(lines[0], "isolcpus: no CPU is isolated");
    assert_eq!(lines[1], "tasks: 1 user task may run on CPU 1: init; and the same kind on 1 other CPU");
    assert_eq!(problems(&isolated().checks(&[3])), Vec::<String>::new());
}

#[test]
fn where_threads_of_rcu_run_was_not_said_and_only_six_of_them_were_moved() {
    let made = isolated();
    let fine = made.check(&[3], "rcu_nocbs");
    assert_eq!(fine.fact, "threads run the callbacks of RCU of CPU 3: rcuog/3 on CPU 0-2, rcuop/3 on CPU 0-2");
    for tid in 50..60 {
        made.ran(tid, "rcuop/3", 0x0020_0000, "0-3", 0, 3);
    }
    let check = made.check(&[3], "rcu_nocbs");
    assert_eq!(check.verdict, Verdict::Spoils);
    let moved = check.fix.expect("a fix").commands;
    assert_eq!(moved.iter().filter(|of| of.does.starts_with("taskset -pc 0-2 5")).count(), 10, "{moved:?}");
}

#[test]
fn a_halted_virtual_cpu_was_believed_to_wake_within_a_microsecond() {
    let made = isolated();
    made.write("sys/devices/system/cpu/cpuidle/current_driver", "haltpoll\n");
    for (state, name, us) in [(0, "POLL", 0), (1, "haltpoll", 1)] {
        let file = |file: &str| format!("sys/devices/system/cpu/cpu3/cpuidle/state{state}/{file}");
        made.write(&file("name"), name).write(&file("latency"), &us.to_string()).write(&file("disable"), "0");
    }
    assert_eq!(made.check(&[3], "idle-states").verdict, Verdict::Fine, "a driver for idle states of its own");
    made.write("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    let check = made.check(&[3], "idle-states");
    assert_eq!(check.verdict, Verdict::Note, "{}", check.fact);
    assert!(check.fact.ends_with("takes 1 µs to wake, as this kernel reckons"), "{}", check.fact);
}

#[test]
fn where_the_interrupts_of_a_devices_queues_go_was_not_said() {
    let made = isolated();
    let check = |nic: SeenNic| {
        let seen = Seen { nics: vec![nic], ..made.seen() };
        diagnose(&seen, &[3]).into_iter().find(|check| check.id == "queue-irqs")
    };
    let found = check(quiet_nic()).expect("it has an interrupt");
    assert_eq!(found.fact, "enp3s0: of its interrupts, 7 (PCI-MSI 7-edge eth0-rx-0) goes to CPU 1, and may go to 0-3");
    assert!(check(SeenNic { irqs: Vec::new(), ..quiet_nic() }).is_none());
}

#[test]
fn this_machine_is_examined_and_the_answer_fits_its_schema() {
    let call = |args: &[&str]| Command::new(crate::help::tardy()).arg("doctor").args(args).output().expect("it runs");
    let found = call(&["--json"]);
    assert!(matches!(found.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&found.stderr));
    let value: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    assert_eq!(value["fine"] == true, found.status.code() == Some(0));
    let schema = Command::new(crate::help::tardy()).args(["schema", "doctor"]).output().expect("it runs");
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    let required = schema["required"].as_array().expect("keys");
    assert!(required.iter().all(|key| value.get(key.as_str().expect("a key")).is_some()), "{required:?}");
    for check in value["checks"].as_array().expect("checks") {
        assert!(check["verdict"] == "fine" || check["fix"]["says"].is_string(), "{check}");
    }
    let wrong = call(&["--cpu", "9999"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("this machine has no such CPU"));
    assert!(Path::new("/proc").exists());
}

#[test]
fn a_fix_sent_tasks_and_interrupts_to_other_cpus_that_are_to_be_left_alone() {
    let made = isolated();
    made.write("sys/devices/system/cpu/isolated", "2-3\n").write("sys/devices/system/cpu/nohz_full", "3\n");
    made.write("proc/irq/7/effective_affinity_list", "3\n").task(40, "vcpu", 0, "2-3", 0);
    made.write("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3\n");
    made.write("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "2-3\n");
    let all: Vec<String> = made
        .checks(&[2, 3])
        .into_iter()
        .filter_map(|check| check.fix)
        .flat_map(|fix| fix.commands)
        .map(|command| command.does)
        .collect();
    for wanted in ["taskset -pc 0-1 40", "echo 0-1 >/proc/irq/7/smp_affinity_list"] {
        assert!(all.iter().any(|line| line == wanted), "{wanted}: {all:#?}");
    }
    assert!(!all.iter().any(|line| line.contains("/online") || line.starts_with("taskset -pc 0-2")), "{all:#?}");
    // Where no other CPU is left nothing is sent away.
    let all = made.checks(&[0, 1, 2, 3]);
    let sent = all.iter().filter_map(|check| check.fix.as_ref()).flat_map(|fix| &fix.commands);
    assert_eq!(
        sent.filter(|command| command.does.contains("smp_affinity") || command.does.starts_with("taskset")).count(),
        0
    );
}

#[test]
fn what_was_not_shown_counted_as_not_there() {
    // In a container no thread of the kernel is seen.
    let made = isolated();
    for tid in [20, 21, 30, 31] {
        fs::remove_dir_all(made.0.path().join(format!("proc/{tid}"))).expect("a folder");
    }
    for id in ["rcu_nocbs", "tasks", "kernel-threads"] {
        assert_eq!(made.check(&[3], id).verdict, Verdict::Unknown, "{id}");
    }
    // A task whose name is no UTF-8.
    let made = isolated();
    made.task(40, "NAME", 0, "3", 0);
    let file = made.0.path().join("proc/40/task/40/stat");
    let stat = fs::read_to_string(&file).expect("a file").into_bytes();
    let raw: Vec<u8> =
        stat.split(|byte| *byte == b'N').flat_map(|part| [&b"\xff"[..], part].concat()).skip(1).collect();
    fs::write(&file, raw).expect("a file");
    assert_eq!(made.check(&[3], "tasks").verdict, Verdict::Spoils);
    // CPUs that a cgroup keeps, and a word that is about interrupts alone.
    let made = Made::new();
    made.write("sys/fs/cgroup/cpuset.cpus.isolated", "3\n").write("proc/cmdline", "isolcpus=managed_irq,2-3 quiet\n");
    assert_eq!(made.check(&[3], "isolcpus").verdict, Verdict::Fine);
}

#[test]
fn a_limit_that_a_kernel_no_longer_has_was_reported() {
    let made = isolated();
    assert_eq!(made.check(&[3], "rt-limit").verdict, Verdict::Note);
    made.write("proc/sys/kernel/osrelease", "6.12.3\n");
    assert_eq!(made.check(&[3], "rt-limit").verdict, Verdict::Fine);
    assert_eq!(made.check(&[3], "fair-server").verdict, Verdict::Unknown);
}

#[test]
fn a_hold_that_permits_deep_sleep_was_fine_and_a_tuned_first_cpu_spoke_for_all() {
    let made = isolated();
    made.write("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    for cpu in 0..4 {
        for (n, (name, us)) in [("POLL", 0), ("C1", 2), ("C6", 133)].into_iter().enumerate() {
            let state = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{n}");
            made.write(&format!("{state}/name"), name).write(&format!("{state}/latency"), &us.to_string());
            let off = if cpu == 0 && us > 2 { "1" } else { "0" };
            made.write(&format!("{state}/disable"), off);
        }
    }
    let deep = made.check(&[3], "idle-states");
    assert_eq!(deep.verdict, Verdict::Spoils, "{deep:#?}");
    let does = &deep.fix.as_ref().expect("a fix").commands[0].does;
    assert_eq!(does, "echo 1 >/sys/devices/system/cpu/cpu3/cpuidle/state2/disable");
    assert_eq!(made.check(&[0], "idle-states").verdict, Verdict::Fine);
    let hold = |us: i32| {
        fs::create_dir_all(made.0.path().join("dev")).expect("a folder");
        fs::write(made.0.path().join("dev/cpu_dma_latency"), us.to_ne_bytes()).expect("a file");
        made.check(&[3], "idle-states").verdict
    };
    assert_eq!([hold(1_000), hold(2), hold(2_000_000_000)], [Verdict::Spoils, Verdict::Fine, Verdict::Spoils]);
}

#[test]
fn the_cpu_time_that_a_container_leaves_looked_like_other_tasks() {
    let quota = |made: &Made| made.check(&[], "cpu-quota");
    let made = Made::new();
    assert_eq!(quota(&made).verdict, Verdict::Fine);
    // The tightest of its groups counts: here the outer one, in the one hierarchy of version 2.
    made.write("proc/self/cgroup", "0::/outer/inner\n");
    made.write("sys/fs/cgroup/outer/cpu.max", "5000 100000\n")
        .write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
    let limited = quota(&made);
    assert_eq!(limited.verdict, Verdict::Spoils);
    assert!(limited.fact.contains("/sys/fs/cgroup/outer/cpu.max gives its tasks 5000 µs"), "{}", limited.fact);
    // Version 1, where no limit is -1.
    made.write("proc/self/cgroup", "4:cpu,cpuacct:/box\n3:memory:/box\n");
    made.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    made.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    assert_eq!(quota(&made).verdict, Verdict::Fine);
    made.write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n");
    assert!(quota(&made).fact.contains("150000 µs of CPU time in each 100000 µs"), "{}", quota(&made).fact);
    // A path that leaves the mount is none of a group's.
    made.write("proc/self/cgroup", "0::/../../etc\n");
    assert_eq!(quota(&made).verdict, Verdict::Fine);
}
