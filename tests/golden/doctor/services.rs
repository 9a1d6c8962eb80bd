// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which clock each program sets, by its arguments; where what is sent away goes on a machine with
//! several NUMA nodes; which hooks of BPF a kernel is built with, on any processor.

use super::made::{Made, isolated, quiet_nic};
use tardy_bpf::types::ProgramSupport;
use tardy_doctor::{Seen, Tried, Verdict, diagnose};
use tardy_model::xdp::XdpMode;

/// The check of a machine on which these programs run.
fn keeping(lines: &[&str]) -> (Verdict, String) {
    let made = Made::new();
    made.write("sys/class/net/enp3s0/device/ptp/ptp1/clock_name", "x\n");
    for (tid, line) in (100..).zip(lines) {
        let name = line.split(' ').next().expect("a name");
        made.task(tid, name, 0, "0-3", 0);
        made.write(&format!("proc/{tid}/cmdline"), &(line.replace(' ', "\0") + "\0"));
    }
    let check = made.check(&[], "clock-services");
    (check.verdict, check.fact)
}

#[test]
fn which_clock_phc2sys_sets_was_for_the_reader_to_find_out() {
    use Verdict::{Fine, Note, Spoils};
    let ptp4l = "ptp4l -i enp3s0 -m";
    for (lines, verdict, says) in [
        (&["chronyd -F 1"][..], Fine, "chronyd sets CLOCK_REALTIME"),
        // Its second process has the same arguments.
        (&["chronyd -F 1", "chronyd -F 1"], Fine, "chronyd sets CLOCK_REALTIME"),
        (&["chronyd -dx"], Note, "chronyd sets no clock itself"),
        (&[ptp4l], Note, "ptp4l sets /dev/ptp1 where it follows others; nothing sets CLOCK_REALTIME"),
        (&["ptp4l -2Hi enp3s0 -s"], Note, "ptp4l sets /dev/ptp1; nothing sets CLOCK_REALTIME"),
        (&["ptp4l -S -i eth9 -s"], Fine, "ptp4l sets CLOCK_REALTIME"),
        (&["ptp4l -i eth9 --time_stamping=software --clientOnly 1"], Fine, "ptp4l sets CLOCK_REALTIME"),
        (&["ptp4l -i eth9 --free_running=1"], Note, "ptp4l sets no clock itself"),
        (&[ptp4l, "phc2sys -s enp3s0 -w"], Fine, "phc2sys sets CLOCK_REALTIME"),
        (&[ptp4l, "phc2sys -a -r"], Fine, "phc2sys sets CLOCK_REALTIME"),
        (&[ptp4l, "phc2sys -arr"], Fine, "phc2sys sets CLOCK_REALTIME where it follows others"),
        (&["chronyd", ptp4l, "phc2sys -a -r -E ntpshm"], Fine, "phc2sys sets no clock itself"),
        (&["chronyd", ptp4l, "phc2sys -a --clock_servo ntpshm -r"], Fine, "phc2sys sets no clock itself"),
        (
            &["chronyd", ptp4l, "phc2sys -s enp3s0"],
            Spoils,
            "several programs set one clock: chronyd sets CLOCK_REALTIME",
        ),
        (&["chronyd", "systemd-timesyn"], Spoils, "several programs set one clock"),
        (&["chronyd", "phc2sys -s CLOCK_REALTIME -c /dev/ptp1"], Fine, "phc2sys sets /dev/ptp1"),
        // The device's clock by its two names.
        (&["ptp4l -i enp3s0 -s", "phc2sys -s CLOCK_REALTIME -c /dev/ptp1"], Spoils, "several programs set one clock"),
        (&[ptp4l, "phc2sys -s CLOCK_REALTIME -cenp3s0"], Note, "phc2sys sets /dev/ptp1"),
        (&["ts2phc -s generic -c enp3s0", "phc2sys -s enp3s0 -c /dev/ptp1"], Spoils, "several programs set one clock"),
        (&["chronyd", "phc2sys -s /dev/ptp0 -c CLOCK_REALTIME -O 37"], Spoils, "several programs set one clock"),
    ] {
        let (is, fact) = keeping(lines);
        assert!(is == verdict && fact.contains(says), "{lines:?}: {is:?}: {fact}");
    }
    // Arguments that are not shown.
    let made = Made::new();
    made.task(100, "phc2sys", 0, "0-3", 0).task(101, "chronyd", 0, "0-3", 0);
    let check = made.check(&[], "clock-services");
    assert_eq!(check.verdict, Verdict::Note);
    assert!(check.fact.contains("phc2sys runs, and what it sets is not shown"), "{}", check.fact);
}

#[test]
fn a_fix_sent_interrupts_and_tasks_to_the_other_numa_node() {
    let made = isolated();
    made.write("sys/devices/system/node/node0/cpulist", "0-1\n")
        .write("sys/devices/system/node/node1/cpulist", "2-3\n");
    made.write("proc/irq/7/effective_affinity_list", "3\n").write("proc/irq/7/node", "0\n");
    made.task(40, "app", 0, "3", 0);
    let fixed = |id: &str| {
        let check = made.check(&[3], id);
        (check.fix.expect("a fix").commands[0].does.clone(), check.fact)
    };
    // The device is on another node than the CPU: what it needs is near the device.
    let (does, fact) = fixed("irq-affinity");
    assert_eq!(does, "echo 0-1 >/proc/irq/7/smp_affinity_list");
    assert!(fact.ends_with("; CPU 0-1 is on the same NUMA node (0)"), "{fact}");
    let (does, fact) = fixed("tasks");
    assert_eq!(does, "taskset -pc 2 40");
    assert!(fact.ends_with("; CPU 2 is on the same NUMA node (1)"), "{fact}");
    // For a device of no node the CPU's counts, and a node without another CPU is named.
    made.write("proc/irq/7/node", "-1\n");
    assert_eq!(fixed("irq-affinity").0, "echo 2 >/proc/irq/7/smp_affinity_list");
    made.write("sys/devices/system/cpu/isolated", "2-3\n");
    let (does, fact) = fixed("irq-affinity");
    assert_eq!(does, "echo 0-1 >/proc/irq/7/smp_affinity_list");
    assert!(fact.ends_with("; NUMA node 1, where that belongs, has no other CPU for it"), "{fact}");
    // One node is no choice.
    std::fs::remove_dir_all(made.0.path().join("sys/devices/system/node/node0")).expect("a folder");
    assert!(!fixed("irq-affinity").1.contains("NUMA"));
}

#[test]
fn hooks_of_bpf_programs_follow_from_the_configuration_of_any_processor_s_kernel() {
    let names = ["xdp", "tc", "kprobe", "tracing"];
    let programs = names.map(|name| ProgramSupport { name, is_supported: Some(true) }).into();
    let tried = Tried { programs, ..Tried::default() };
    let check = |config: &str| {
        let made = Made::new();
        // As an arm64 board has it.
        made.write("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n");
        made.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter\n");
        made.write("boot/config-6.6.1-test", config);
        let seen = Seen { tried: Some(Ok(tried.clone())), ..made.seen() };
        assert!(!seen.is_virtual);
        let all = diagnose(&seen, &[]);
        let clock = all.iter().find(|check| check.id == "clock-source").expect("a check");
        assert_eq!(clock.verdict, Verdict::Fine, "{clock:?}");
        let check = all.into_iter().find(|check| check.id == "bpf-programs").expect("a check");
        (check.verdict, check.fact)
    };
    let tracer = "CONFIG_ARM64=y\nCONFIG_KPROBES=y\nCONFIG_KPROBE_EVENTS=y\nCONFIG_UPROBE_EVENTS=y\nCONFIG_BPF_EVENTS=y\nCONFIG_BPF_JIT=y\nCONFIG_DEBUG_INFO_BTF=y\nCONFIG_FUNCTION_TRACER=y\n";
    let (verdict, fact) = check(&format!("{tracer}CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\n"));
    let loads = "BPF programs of types xdp, tc, kprobe, tracing";
    assert_eq!(
        (verdict, fact),
        (Verdict::Fine, format!("{loads}; by its configuration it has kprobe, uprobe, fentry"))
    );
    // Before Linux 6.4 an arm64 kernel calls no trampoline from a function's entry.
    let (verdict, fact) = check(tracer);
    assert_eq!(verdict, Verdict::Note);
    assert_eq!(
        fact,
        format!(
            "{loads}; by its configuration it has kprobe, uprobe; it is built without fentry (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)"
        )
    );
    let (verdict, fact) = check(&tracer.replace("CONFIG_KPROBES=y\n", ""));
    assert!(verdict == Verdict::Note && fact.contains("built without kprobe (CONFIG_KPROBES), fentry"), "{fact}");
}

#[test]
fn modes_that_were_tried_on_a_device_are_a_check_of_its_own() {
    let check = |modes| {
        let mut nic = quiet_nic();
        nic.modes = modes;
        let all = diagnose(&Seen { nics: vec![nic], ..Seen::default() }, &[]);
        all.into_iter().find(|check| check.id == "xdp-tried").map(|check| (check.verdict, check.fact))
    };
    assert_eq!(check(None), None, "nobody asked for it");
    let both = vec![(XdpMode::Native, Ok(())), (XdpMode::Generic, Ok(()))];
    let fact = "enp3s0: XDP, tried on it: native works, generic works".to_owned();
    assert_eq!(check(Some(both)), Some((Verdict::Fine, fact)));
    let one = vec![(XdpMode::Native, Err("the driver does not have it".to_owned())), (XdpMode::Generic, Ok(()))];
    let fact = "enp3s0: XDP, tried on it: native does not (the driver does not have it), generic works".to_owned();
    assert_eq!(check(Some(one)), Some((Verdict::Note, fact)));
}
