// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tardy doctor` makes of network devices, and of what the kernel can do for packets.

use super::made::{isolated, quiet_nic};
use std::process::Command;
use tardy_bpf::types::ProgramSupport;
use tardy_doctor::{Area, Check, Needs, Seen, SeenNic, Tried, Verdict, diagnose};
use tardy_sys::ethtool::{Coalescing, Eee, Pause};
use tardy_sys::nic::{Feature, TsInfo, XdpFeatures};

fn of_nic(nic: SeenNic) -> Vec<Check> {
    let all = diagnose(&Seen { nics: vec![nic], ..Seen::default() }, &[]);
    all.into_iter().filter(|check| check.area == Area::Network).collect()
}

#[test]
fn a_device_s_settings_that_delay_packets_each_change_one_check() {
    let quiet = of_nic(quiet_nic());
    assert_eq!(quiet.len(), 9, "{quiet:#?}");
    assert!(
        quiet.iter().all(|check| check.verdict == Verdict::Fine && check.nic.as_deref() == Some("enp3s0")),
        "{quiet:#?}"
    );
    // What is changed, which check it changes, to what, and the commands there and back.
    type Change = fn(&mut SeenNic);
    let changes: [(Change, &str, Verdict, &str); 11] = [
        (
            |nic| nic.coalescing = Some(Coalescing { rx_us: 5, tx_us: 20, ..Coalescing::default() }),
            "coalescing",
            Verdict::Note,
            "ethtool -C enp3s0 rx-usecs 0|ethtool -C enp3s0 rx-usecs 5 ethtool -C enp3s0 tx-usecs 0|ethtool -C enp3s0 tx-usecs 20",
        ),
        (
            |nic| nic.coalescing = Some(Coalescing { rx_us: 50, adaptive_rx: true, ..Coalescing::default() }),
            "coalescing",
            Verdict::Spoils,
            "ethtool -C enp3s0 adaptive-rx off|ethtool -C enp3s0 adaptive-rx on ethtool -C enp3s0 rx-usecs 0|ethtool -C enp3s0 rx-usecs 50",
        ),
        (
            |nic| _ = nic.offloads.insert("rx-gro".into(), Feature { on: true, switchable: true }),
            "offloads",
            Verdict::Note,
            "ethtool -K enp3s0 gro off|ethtool -K enp3s0 gro on ip link set dev enp3s0 gso_max_size 3000|ip link set dev enp3s0 gso_max_size 65536",
        ),
        (
            |nic| nic.eee = Some(Eee { is_enabled: true, is_active: true }),
            "eee",
            Verdict::Spoils,
            "ethtool --set-eee enp3s0 eee off|ethtool --set-eee enp3s0 eee on",
        ),
        (
            |nic| nic.pause = Some(Pause { autoneg: true, rx: true, tx: false }),
            "pause",
            Verdict::Note,
            "ethtool -A enp3s0 autoneg off rx off tx off|ethtool -A enp3s0 autoneg on rx on tx off",
        ),
        (|nic| nic.nic.can = Ok(TsInfo { flags: 0, phc: -1, rx_filters: 0 }), "stamps", Verdict::Note, ""),
        (|nic| nic.xdp = Some(XdpFeatures::default()), "xdp", Verdict::Note, ""),
        (|nic| nic.programs = Some(vec![17]), "programs", Verdict::Note, ""),
        (|nic| nic.nic.up = false, "link", Verdict::Note, ""),
        (|nic| nic.twice_tagged = Some(Ok(3)), "vlan-tags", Verdict::Note, ""),
        (|nic| nic.twice_tagged = Some(Err("EPERM".into())), "vlan-tags", Verdict::Unknown, ""),
    ];
    for (change, id, verdict, commands) in changes {
        let mut nic = quiet_nic();
        change(&mut nic);
        for (check, before) in of_nic(nic).iter().zip(&quiet) {
            if check.id != id {
                assert_eq!(check, before);
                continue;
            }
            assert_eq!(check.verdict, verdict, "{check:#?}");
            assert_eq!(check.costs.is_some(), verdict != Verdict::Unknown, "{check:#?}");
            let fix = check.fix.as_ref().expect("a fix");
            let listed =
                fix.commands.iter().map(|command| format!("{}|{}", command.does, command.undoes)).collect::<Vec<_>>();
            assert_eq!(listed.join(" "), commands, "{check:#?}");
        }
    }
}

#[test]
fn a_device_s_name_reached_a_shell() {
    let mut nic = quiet_nic();
    nic.nic.name = "a;id>'x".into();
    nic.eee = Some(Eee { is_enabled: true, is_active: true });
    let checks = of_nic(nic);
    let check = checks.iter().find(|check| check.id == "eee").expect("a check");
    let fix = check.fix.as_ref().expect("a fix");
    assert_eq!(fix.commands[0].does, r"ethtool --set-eee 'a;id>'\''x' eee off");
}

#[test]
fn a_mode_of_a_driver_was_called_microseconds() {
    // igb's 3 is a mode in which a packet may wait 250 µs; another driver's is a time.
    for (driver, verdict) in [("igb", Verdict::Spoils), ("stmmac", Verdict::Note)] {
        let mut nic = quiet_nic();
        nic.nic.driver = Some(driver.into());
        nic.coalescing = Some(Coalescing { rx_us: 3, ..Coalescing::default() });
        let checks = of_nic(nic);
        let check = checks.iter().find(|check| check.id == "coalescing").expect("a check");
        assert_eq!(check.verdict, verdict, "{check:#?}");
    }
}

#[test]
fn what_an_experiment_does_not_need_was_shown_and_what_it_needs_was_only_a_note() {
    let tried = Tried {
        qdiscs: vec![
            ("mqprio".into(), Ok(())),
            ("etf".into(), Err("Specified qdisc kind is unknown.".into())),
            ("fq".into(), Ok(())),
        ],
        xdp: vec![("native".into(), Ok(())), ("generic".into(), Ok(()))],
        programs: vec![ProgramSupport { name: "xdp", is_supported: Some(true) }],
    };
    let seen = || Seen { tried: Some(Ok(tried.clone())), nics: vec![quiet_nic()], ..isolated().seen() };
    let kernel =
        |checks: &[Check]| checks.iter().filter(|check| check.area == Area::Kernel).cloned().collect::<Vec<_>>();
    let all = diagnose(&seen(), &[3]);
    let [qdiscs, xdp, programs] = &kernel(&all)[..] else { panic!("{all:#?}") };
    assert_eq!([qdiscs.verdict, xdp.verdict, programs.verdict], [Verdict::Note, Verdict::Fine, Verdict::Fine]);
    assert_eq!(qdiscs.fact, "queue disciplines mqprio, fq; the kernel refuses etf (Specified qdisc kind is unknown.)");
    assert!(qdiscs.fix.as_ref().is_some_and(|fix| fix.says.contains("CONFIG_NET_SCH_ETF")), "{qdiscs:#?}");

    let needs = Needs { qdiscs: ["mqprio".to_owned(), "etf".to_owned()].into(), realtime: true, ..Needs::default() };
    let mut narrowed = seen();
    needs.narrow(&mut narrowed);
    let of = needs.of(diagnose(&narrowed, &[3]));
    let [qdiscs] = &kernel(&of)[..] else { panic!("{of:#?}") };
    assert_eq!((qdiscs.verdict, qdiscs.fact.contains("fq")), (Verdict::Spoils, false), "{qdiscs:#?}");
    let ids: Vec<&str> = of.iter().map(|check| check.id.as_str()).collect();
    assert!(ids.contains(&"rt-limit") && ids.contains(&"isolcpus"), "{ids:?}");
    for id in ["autogroup", "tai-offset", "clock-services", "link", "xdp-modes"] {
        assert!(!ids.contains(&id), "{id}: {ids:?}");
    }
    let without = Needs::default().of(diagnose(&seen(), &[3]));
    assert_eq!(kernel(&without), [], "it sets no queue discipline");
}

#[test]
fn a_run_that_holds_its_cpus_awake_was_warned_of_their_sleep() {
    let made = isolated();
    made.write("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    for (n, (name, us)) in [("POLL", 0), ("C6", 133)].into_iter().enumerate() {
        let state = format!("sys/devices/system/cpu/cpu3/cpuidle/state{n}");
        made.write(&format!("{state}/name"), name).write(&format!("{state}/latency"), &us.to_string());
    }
    let idle = |holds: &[Option<i32>]| {
        let needs = Needs { holds_us: holds.iter().copied().collect(), ..Needs::default() };
        let mut seen = made.seen();
        needs.narrow(&mut seen);
        let checks = needs.of(diagnose(&seen, &[3]));
        checks.into_iter().find(|check| check.id == "idle-states").expect("a check").verdict
    };
    assert_eq!([idle(&[Some(0)]), idle(&[Some(0), Some(2)])], [Verdict::Fine; 2]);
    // One cell does not hold them, or permits the deep state.
    assert_eq!([idle(&[]), idle(&[None, Some(0)]), idle(&[Some(0), Some(200)])], [Verdict::Spoils; 3]);
}

#[test]
fn what_was_tried_of_this_kernel_is_in_the_answer_or_why_it_was_not() {
    let found = Command::new(crate::help::tardy()).args(["doctor", "--json"]).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let checks = value["checks"].as_array().expect("checks");
    let ids: Vec<&str> = checks.iter().filter(|of| of["area"] == "kernel").filter_map(|of| of["id"].as_str()).collect();
    assert!(ids == ["qdiscs", "xdp-modes", "bpf-programs"] || ids == ["kernel-tried"], "{ids:?}");
    let for_it = Command::new(crate::help::tardy())
        .args(["doctor", "--json", "--for", "no-such-experiment"])
        .output()
        .expect("it runs");
    assert_eq!(for_it.status.code(), Some(2), "{}", String::from_utf8_lossy(&for_it.stderr));
    let nic = Command::new(crate::help::tardy()).args(["doctor", "--nic", "no-such-nic"]).output().expect("it runs");
    let says = String::from_utf8_lossy(&nic.stderr);
    assert!(nic.status.code() == Some(2) && says.contains("no network device `no-such-nic`"), "{says}");
}
