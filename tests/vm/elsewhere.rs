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
