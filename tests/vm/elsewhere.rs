// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine of its own kernel and its own clock, reached over ssh. Its clock is set and made
//! faster from inside, and tardy must find out by how much.

use crate::command::wait;
use crate::rig::{Rig, rig, rig_of};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use tardy_sys::clock;

#[test]
fn how_far_another_machine_s_clock_was_set_and_how_fast_it_runs_is_found() {
    let Some(rig) = rig("how_far_another_machine_s_clock_was_set_and_how_fast_it_runs_is_found") else { return };
    let before = rig.clocks(12);
    let last = before[11];
    let read = Instant::now();
    rig.does_there("/clock shift 3000000");
    let stepped = rig.clocks(1)[0];
    // Both readings' bounds, and what the clocks drift meanwhile, as they were found to.
    let [ppm, ppm_bound] = last.ppm.expect("a drift");
    let drift = (ppm.abs() + ppm_bound) * 1e-6 * read.elapsed().as_nanos() as f64;
    let allowed = last.bound_ns + stepped.bound_ns + drift;
    assert!((stepped.ahead_ns - last.ahead_ns - 3e6).abs() <= allowed, "{last:?} {stepped:?} {drift}");
    assert!(allowed < 3e6, "a bound that says nothing: {last:?} {stepped:?} {drift}");

    // Faster by 50 ppm than before.
    rig.does_there("/clock ppm 50");
    let faster = rig.clocks(12);
    let [[was, was_bound], [is, is_bound]] = [before[11], faster[11]].map(|row| row.ppm.expect("a drift"));
    assert!((is - was - 50.0).abs() <= was_bound + is_bound, "{before:?} {faster:?}");
    assert!(is_bound < 500.0, "a bound that says nothing: {faster:?}");

    // Set back while it is watched.
    let mut watching = rig.tardy("clocks", "host-to-host", &["--count", "6"]);
    let watching = rig.place.start(&mut watching);
    std::thread::sleep(Duration::from_secs(4));
    rig.does_there("/clock shift -3000000000");
    let shown = rig.place.finish(watching);
    assert!(shown.stdout.contains("a clock was set"), "{}\n{}", shown.stdout, shown.stderr);
}

/// How long the quickest packet was on its way from one kernel to the other, and by how much that
/// may be wrong, ns. That is in the samples also where the figure is refused.
fn quickest(rig: &Rig) -> [i64; 2] {
    let run = rig.run("host-to-host", &["--set", "stream.ctl.count=200", "--set", "stream.ctl.cycle=5ms"]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let metric = "tx_kernel..rx_kernel";
    let of = &run.cell()["streams"]["ctl"]["metrics"][metric];
    let bound_ns = of["clock_bound_ns"].as_i64().unwrap_or_else(|| panic!("{of}"));
    let table = rig.place.call(rig.place.command("export").arg(rig.place.out()).args(["--to", "csv"]));
    let mut lines = table.stdout.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = head.iter().position(|name| name.trim_end_matches("_ns") == metric);
    let column = column.unwrap_or_else(|| panic!("{head:?}\n{}", table.stderr));
    let least = lines.filter_map(|line| line.split(',').nth(column)?.parse::<i64>().ok()).min();
    [least.expect("a packet with both stamps"), bound_ns]
}

#[test]
fn another_machine_s_queue_discipline_holds_packets_by_its_own_clock() {
    let Some(rig) = rig_of("another_machine_s_queue_discipline_holds_packets_by_its_own_clock", 2) else { return };
    // Its clock is far from this one's: launch times are by its own.
    rig.does_there("/clock shift 7000000000");
    let file = rig.place.path("etf.toml");
    fs::write(&file, tardy_tests::experiment("wire from a machine of its own kernel")).expect("a file");
    let run = rig.run_wire(&file, &[]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let ctl = &run.cell()["streams"]["ctl"];
    let [received, not_sent] = ["received", "not_sent"].map(|of| ctl["outcomes"][of].as_u64().expect("a count"));
    // On a busy host an emulated machine may have a packet whose launch time is over.
    assert!(received >= 100 && received + not_sent == 200, "{ctl}");
    let held = &ctl["metrics"]["scheduled..tx_kernel"];
    // Sent 10 ms before its launch time, and let go by etf 2 ms before it.
    assert!(held["p50_ns"].as_i64().is_some_and(|ns| (-3_000_000..10_000_000).contains(&ns)), "{held}");
    assert!(run.cell()["loads"]["bulk"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", run.stdout);
    let manifest = fs::read_to_string(rig.place.out().join("manifest.json")).expect("a manifest");
    assert!(manifest.contains("\"etf\""), "it is read back: {manifest}");
    assert_eq!(rig.left(), "");
    let devices = rig.does_there("ip -br link");
    assert!(devices.contains("eth1"), "its device is back: {devices}");
}

#[test]
fn a_machine_whose_clock_was_shifted_slewed_and_stepped_changed_no_figure() {
    let Some(rig) = rig("a_machine_whose_clock_was_shifted_slewed_and_stepped_changed_no_figure") else { return };
    let [least_ns, bound_ns] = quickest(&rig);
    rig.does_there("/clock shift 3000000");
    rig.does_there("/clock ppm 50");
    let [shifted_ns, shifted_bound_ns] = quickest(&rig);
    // Both bounds, and by how much the quickest packet of an emulated machine differs from run to
    // run: far less than the clock was shifted.
    let allowed_ns = bound_ns + shifted_bound_ns + 500_000;
    assert!(allowed_ns < 3_000_000, "a bound that says nothing: {bound_ns} {shifted_bound_ns}");
    assert!((shifted_ns - least_ns).abs() <= allowed_ns, "{least_ns} ± {bound_ns}, {shifted_ns} ± {shifted_bound_ns}");

    // Set while packets are under way.
    let _ = fs::remove_dir_all(rig.place.out());
    let set = ["--set", "stream.ctl.count=4000", "--set", "stream.ctl.cycle=5ms", "--trials", "1", "--json", "--out"];
    let mut command = rig.tardy("run", "host-to-host", &set);
    let run = rig.place.start(command.arg(rig.place.out()));
    rig.place.wait_for("trial");
    std::thread::sleep(Duration::from_secs(12));
    rig.does_there("/clock shift 5000000");
    let stepped = rig.place.finish(run);
    assert_eq!(stepped.code, Some(4), "{}\n{}", stepped.stderr, stepped.stdout);
    assert!(stepped.stdout.contains("\"clock-step\""), "{}", stepped.stdout);

    // Another count of TAI is no offset to be measured, and tardy does not set it.
    let ours_s = clock::tai_offset_s();
    rig.does_there(&format!("/clock tai {}", ours_s + 37));
    let refused = rig.run("host-to-host", &["--set", "stream.ctl.count=200"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let says = format!("ahead of CLOCK_REALTIME by {} s on `rig`, and by {ours_s} s here", ours_s + 37);
    assert!(refused.stderr.contains(&says), "{}", refused.stderr);
    rig.does_there(&format!("/clock tai {ours_s}"));
    assert_eq!(rig.left(), "");
}

#[test]
fn a_clock_that_was_made_faster_within_a_trial_was_taken_for_a_line() {
    let Some(rig) = rig("a_clock_that_was_made_faster_within_a_trial_was_taken_for_a_line") else { return };
    let set = ["--set", "stream.ctl.count=4000", "--set", "stream.ctl.cycle=5ms", "--trials", "1", "--json", "--out"];
    let mut command = rig.tardy("run", "host-to-host", &set);
    let run = rig.place.start(command.arg(rig.place.out()));
    rig.place.wait_for("trial");
    std::thread::sleep(Duration::from_secs(12));
    rig.does_there("/clock ppm 200");
    let run = rig.place.finish(run);
    rig.does_there("/clock ppm 0");
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let trial = fs::read_to_string(rig.place.out().join("trials/all/1/trial.json")).expect("a trial");
    let trial: Value = serde_json::from_str(&trial).expect("JSON");
    let offset = &trial["streams"]["ctl"]["offsets"]["rx"];
    // What this machine's own clock was steered by meanwhile comes on top.
    let steered_ppb = offset["steered_ppb"].as_i64().unwrap_or_else(|| panic!("{offset}"));
    assert!((199_000..400_000).contains(&steered_ppb), "{offset}");
    let at = |moment: &str| offset[moment]["at_tai_ns"].as_i64().expect("a number");
    let bend_ns = steered_ppb * (at("last") - at("first")) / 4_000_000_000;
    let metrics = run.cell()["streams"]["ctl"]["metrics"].as_object().expect("metrics").values();
    let bounds: Vec<i64> = metrics.filter_map(|metric| metric["clock_bound_ns"].as_i64()).collect();
    assert!(!bounds.is_empty() && bounds.iter().all(|bound| *bound > bend_ns), "{bend_ns}: {bounds:?}");
    assert!(run.stdout.contains("\"clock-bend\""), "{}", run.stdout);
    assert_eq!(rig.left(), "");
}

#[test]
fn a_figure_between_two_machines_needs_a_bound_and_round_trips_need_none() {
    let Some(rig) = rig("a_figure_between_two_machines_needs_a_bound_and_round_trips_need_none") else { return };
    // How good the bound of an emulated machine is, and how slow it is, depends on who else uses
    // the CPUs here. Where the bound itself is the limit, a figure that is given is no less than
    // its bound; with a strict limit none is given.
    let bounded = |metrics: &Value, metric: &str, strict: bool| {
        let of = &metrics[metric];
        let bound_ns = of["clock_bound_ns"].as_i64().filter(|ns| *ns > 0).unwrap_or_else(|| panic!("{metric}: {of}"));
        let given_ns = of["p50_ns"].as_i64();
        assert_eq!(of["refused_by"] == "clock-bound", given_ns.is_none(), "{metric}: {of}");
        assert!(given_ns.is_none_or(|ns| !strict && ns >= bound_ns), "{metric}: {of}");
    };
    let args = ["--set", "stream.ctl.count=400", "--set", "stream.ctl.cycle=5ms", "--set"];
    let run = rig.run("host-to-host", &[&args[..], &["validity.clock-bound.limit=100%"]].concat());
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let metrics = &run.cell()["streams"]["ctl"]["metrics"];
    bounded(metrics, "scheduled..rx_kernel", false);
    let run = rig.run("host-to-host", &[&args[..], &["validity.clock-bound.limit=0.0001%"]].concat());
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let metrics = &run.cell()["streams"]["ctl"]["metrics"];
    bounded(metrics, "scheduled..rx_kernel", true);
    assert!(metrics["rx_kernel..receive"]["count"].as_i64().is_some_and(|count| count > 0), "one end's own: {metrics}");
    assert_eq!(rig.left(), "");

    let file = rig.place.path("pingpong.toml");
    fs::write(&file, tardy_tests::experiment("network to another machine")).expect("a file");
    let file = file.display().to_string();
    let run = rig.run(&file, &["--set", "validity.clock-bound.limit=0.0001%"]);
    assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
    let metrics = &run.cell()["streams"]["ctl"]["metrics"];
    assert_eq!(metrics["send..reply_receive"]["count"], 400, "{metrics}");
    assert!(metrics["send..reply_receive"]["p50_ns"].is_i64(), "one clock: {metrics}");
    bounded(metrics, "send..receive", true);
    assert_eq!(rig.left(), "");

    // The coordinator is killed. The steward there hears nothing more, and ends.
    let _ = fs::remove_dir_all(rig.place.out());
    let mut command = rig.tardy("run", &file, &["--set", "stream.ctl.count=100000", "--out"]);
    let mut run = rig.place.start(command.arg(rig.place.out()));
    rig.place.wait_for("trial");
    assert_ne!(rig.left(), "", "its steward and agent are there");
    run.kill().expect("it runs");
    run.wait().expect("it ends");
    let gone = wait(Duration::from_secs(30), || rig.left().is_empty().then_some(()));
    assert!(gone.is_some(), "{}", rig.left());
    let undone = rig.place.call(&mut rig.place.command("undo"));
    assert_eq!(undone.code, Some(0), "{}\n{}", undone.stdout, undone.stderr);
}

/// What passes every packet on, to be seen.
const PASSING: &str = r#"
#include <linux/bpf.h>
__attribute__((section("xdp"), used)) int passes_all(struct xdp_md *ctx)
{
	return XDP_PASS;
}
"#;

#[test]
fn the_way_into_a_machine_that_was_there_is_described_and_nothing_of_it_changed() {
    let Some(rig) = rig("the_way_into_a_machine_that_was_there_is_described_and_nothing_of_it_changed") else { return };
    let does = |line: &str| {
        let output = rig.enter().args(["sh", "-c", line]).output().expect("sh runs");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let state = || does("ip link show; ip -4 addr show; ethtool -k tap0; bridge -d link show");
    let args = ["--set", "stream.ctl.count=100", "--set", "stream.ctl.cycle=5ms", "--set"];
    let run = |tap: &str| rig.run("host-to-host", &[&args[..], &[&format!("station.b.tap={tap}")]].concat());
    let described = |tap: &str| {
        let before = state();
        let run = run(tap);
        assert!([Some(0), Some(4)].contains(&run.code), "{}\n{}", run.stderr, run.stdout);
        assert_eq!(run.cell()["streams"]["ctl"]["outcomes"]["received"], 100, "{}", run.stderr);
        assert_eq!(state(), before);
        let manifest = fs::read_to_string(rig.place.out().join("manifest.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
        (run.stderr, manifest["hosts"]["rig"]["machine"].clone())
    };
    // Its tap alone, over which this end routes.
    let (says, facts) = described("tap0");
    let fact = |facts: &Value, name: &str| {
        facts[format!("behind.{name}")].as_str().unwrap_or_else(|| panic!("{name}: {facts}")).to_owned()
    };
    assert!(
        says.contains(
            "tardy: rig: behind tap0 (tap, MTU 1500): packets are moved by qemu-system-x86 itself, without vhost"
        ),
        "{says}"
    );
    assert_eq!((fact(&facts, "kind"), fact(&facts, "queues")), ("tap".to_owned(), "1 of 1".to_owned()));
    assert!(fact(&facts, "port_of").starts_with("nothing"), "{facts}");
    assert_eq!((fact(&facts, "xdp"), fact(&facts, "tc")), ("none".to_owned(), "none".to_owned()));
    let mac = rig.does_there("cat /sys/class/net/eth0/address").trim().to_owned();
    assert!(fact(&facts, "checked").contains(&format!("{mac} behind tap0")), "{facts}");

    // The same as the port of a bridge, with a program on it.
    let (source, object) = (rig.place.path("passes.c"), rig.place.path("passes.o"));
    fs::write(&source, PASSING).expect("a file");
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    does(&format!("clang -target bpf -g -O2 -I {headers} -c {} -o {}", source.display(), object.display()));
    let address = does("ip -br addr show dev tap0").split_whitespace().nth(2).expect("an address").to_owned();
    does(&format!(
        "ip link add br7 type bridge mcast_snooping 0; ip link set br7 addrgenmode none up; ip addr del {address} dev tap0; \
         ip link set tap0 master br7; ip link set tap1 master br7; ip addr add {address} dev br7; \
         ip link set dev tap0 xdpgeneric obj {} sec xdp",
        object.display()
    ));
    let (says, facts) = described("tap0");
    assert!(says.contains("port of bridge br7"), "{says}");
    let port = fact(&facts, "port_of");
    assert!(
        port.starts_with("bridge br7: STP off, multicast snooping off, VLAN filtering off, ageing 300 s"),
        "{port}"
    );
    assert!(port.ends_with("other ports: tap1"), "{port}");
    assert!(fact(&facts, "xdp").starts_with("tap0: program `passes_all` (id "), "{facts}");
    assert!(fact(&facts, "xdp").ends_with("behind the driver"), "{facts}");
    assert!(fact(&facts, "checked").contains(&format!("{mac} behind tap0")), "{facts}");

    // Another port of that bridge, and no device at all.
    let elsewhere = run("tap1");
    assert_eq!(elsewhere.code, Some(3), "{}", elsewhere.stderr);
    assert!(
        elsewhere.stderr.contains(&format!("its hardware address {mac} is behind network device `tap0`")),
        "{}",
        elsewhere.stderr
    );
    let none = run("vnet9");
    assert_eq!(none.code, Some(3), "{}", none.stderr);
    assert!(
        none.stderr.contains("station.*.tap names network device `vnet9`, and there is none here"),
        "{}",
        none.stderr
    );
    assert_eq!(rig.left(), "");
}
