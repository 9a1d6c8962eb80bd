// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exact virtual time: equal runs have equal stamps, to the nanosecond, and different ones do not.
//! And `tardy compare --fail-if` on such runs, one of which sends larger packets.

use crate::command::{Finished, Place, wait};
use crate::two_hosts::{self, figures};
use crate::{KERNEL, SHORT, can_run, exact, qemu_of, rooted};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tardy_lab::guest::qemu::{Accelerator, CONSOLE, VirtualMachine};
use tardy_lab::guest::{folder, kernel, programs};
use tardy_lab::host::qemu;
use tardy_model::manifest::GuestMode;

/// The run that the others are held against.
pub struct First {
    pub run: Finished,
    manifest: Value,
    events: Vec<Value>,
    out: String,
    /// What stood there, and in its folder `guest`.
    files: [Vec<String>; 2],
    /// What `tardy report` made of it: JSON and text.
    again: Value,
    text: String,
}

/// Made once. Only what was read of it stays: a folder would never be removed.
pub fn first() -> &'static First {
    static FIRST: OnceLock<First> = OnceLock::new();
    FIRST.get_or_init(|| {
        let (place, run) = run(&[]);
        let report =
            |format: &str| place.call(place.command("report").arg(place.out()).args(["--format", format])).stdout;
        First {
            run,
            manifest: manifest(&place),
            events: place.events(),
            out: place.out().display().to_string(),
            files: [files(&place.out()), files(&place.out().join("guest"))],
            again: serde_json::from_str(&report("json")).expect("JSON"),
            text: report("text"),
        }
    })
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn run(args: &[&str]) -> (Place, Finished) {
    let place = Place::new();
    let run = place.call(exact(&place, &SHORT).args(args).arg("--json"));
    run.ran();
    (place, run)
}

pub fn print(of: &Value) -> &str {
    of["fingerprint"].as_str().expect("a fingerprint")
}

#[test]
fn two_exact_runs_are_the_same_to_the_nanosecond() {
    if !can_run("two_exact_runs_are_the_same_to_the_nanosecond") {
        return;
    }
    let (first, (_, b)) = (first(), run(&[]));
    let a = &first.run;
    assert_eq!(print(&a.results).len(), 64, "SHA-256");
    assert_eq!(print(&a.results), print(&b.results));
    assert_eq!(print(a.cell()), print(b.cell()));
    assert_eq!(a.results["cells"], b.results["cells"], "every figure and every verdict");
    assert_eq!(a.outcome("received"), 600);
    // Read again from the samples, it is what it was.
    assert_eq!(print(&first.again), print(&a.results));
    assert_eq!(first.again["cells"], a.results["cells"]);
    assert!(first.text.contains(print(&a.results)), "{}", first.text);
    assert!(first.text.contains("exact virtual time"), "{}", first.text);
}

/// Programs that keep every CPU of the host busy, two each, and wake QEMU's main thread all the
/// time: by SIGIO, which it waits for and does nothing about. They end with it.
struct BusyHost(Vec<Child>);

impl BusyHost {
    fn around(qemu: u32) -> BusyHost {
        // Before it has blocked the signal, to wait for it, it would be ended by it. A child that
        // is not yet QEMU blocks all signals, and takes them as they come when it is.
        let is_qemu = || {
            let file = std::fs::read_link(format!("/proc/{qemu}/exe")).unwrap_or_default();
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("qemu-system"))
        };
        let blocked = || {
            if !is_qemu() {
                return None;
            }
            let status = std::fs::read_to_string(format!("/proc/{qemu}/status")).unwrap_or_default();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or_default();
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap_or_default();
            (mask >> (SIGIO - 1) & 1 == 1).then_some(())
        };
        wait(Duration::from_secs(30), blocked).expect("a QEMU that waits for SIGIO within 30 s");
        let wakes = format!("while kill -{SIGIO} {qemu} 2>/dev/null; do :; done");
        let cpus = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        BusyHost((0..2 * cpus).map(|_| Command::new("sh").args(["-c", &wakes]).spawn().expect("a shell")).collect())
    }
}

impl Drop for BusyHost {
    fn drop(&mut self) {
        for shell in &mut self.0 {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

/// Linux's number of it on x86-64.
const SIGIO: u32 = 29;

#[test]
fn no_idle_time_ends_late_because_the_host_is_busy() {
    if !can_run("no_idle_time_ends_late_because_the_host_is_busy") {
        return;
    }
    let alone = &first().run;
    let place = Place::new();
    let child = place.start(exact(&place, &SHORT).arg("--json"));
    let busy = BusyHost::around(qemu_of(child.id()));
    let disturbed = place.finish(child);
    drop(busy);
    disturbed.ran();
    assert_eq!(print(&alone.results), print(&disturbed.results));
    assert_eq!(alone.results["cells"], disturbed.results["cells"], "every figure and every verdict");
}

#[test]
fn one_byte_more_is_another_run() {
    if !can_run("one_byte_more_is_another_run") {
        return;
    }
    let (_, other) = run(&["--set", "stream.ctl.size=65B"]);
    assert_ne!(print(&first().run.results), print(&other.results));
}

/// The offset is other digits in what tardy writes down before a trial. That moves the trial by
/// some 100 ns against the guest's tick, and each reading of a clock is rounded to what one
/// instruction takes: so figures are the same within 100 ns, but for the extremes: they are those
/// of one packet, and which one meets a tick is another matter.
#[test]
fn a_guests_tai_offset_moves_no_figure() {
    if !can_run("a_guests_tai_offset_moves_no_figure") {
        return;
    }
    for offset in [36, 37] {
        let (place, moved) = run(&["--tai-offset", &offset.to_string()]);
        let manifest = manifest(&place);
        assert_eq!(manifest["machine"]["clock.tai_offset_s"], offset);
        assert_eq!(manifest["guest"]["tai_offset_s"], offset);
        assert_ne!(print(&first().run.results), print(&moved.results), "the instants themselves are others");
        let [unmoved, moved] = [&first().run, &moved].map(|run| &run.cell()["streams"]["ctl"]);
        assert_eq!(unmoved["outcomes"], moved["outcomes"]);
        let names =
            |stream: &Value| stream["metrics"].as_object().expect("metrics").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(unmoved), names(moved));
        assert!(names(moved).len() >= 5, "{:?}", names(moved));
        let mut compared = 0;
        for name in names(moved) {
            for figure in ["mean_ns", "p50_ns", "p90_ns"] {
                let [a, b] = [unmoved, moved].map(|stream| stream["metrics"][&name][figure].as_f64());
                assert_eq!(a.is_some(), b.is_some(), "{name} {figure}");
                let (Some(a), Some(b)) = (a, b) else { continue };
                assert!((a - b).abs() < 100.0, "{name} {figure}: {a} without, {b} with {offset} s");
                compared += 1;
            }
        }
        assert!(compared >= 10, "only {compared} figures were compared");
    }
}

/// `manifest.json` of a run.
pub fn manifest(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(place.out().join("manifest.json")).expect("a manifest")).expect("JSON")
}

#[test]
fn the_manifest_says_what_ran() {
    if !can_run("the_manifest_says_what_ran") {
        return;
    }
    let First { manifest, events, out, files: [whole, of_guest], .. } = first();
    let guest = &manifest["guest"];
    assert_eq!(guest["mode"], "guest:exact");
    assert_eq!(guest["kernel"], KERNEL);
    let release = guest["kernel_release"].as_str().expect("a release");
    let version = guest["proc_version"].as_str().expect("/proc/version");
    assert!(version.starts_with(&format!("Linux version {release} ")), "{version}");
    // The facts are the guest's, and those of the host are next to them.
    assert_eq!(manifest["machine"]["kernel.release"], release);
    assert_ne!(guest["host"]["kernel.release"], release);
    assert!(guest["qemu"].as_str().is_some_and(|qemu| qemu.contains("QEMU")), "{guest}");
    let arguments = guest["arguments"].as_array().expect("arguments");
    assert!(
        arguments.iter().any(|word| word.as_str().is_some_and(|word| word.starts_with("shift=1,sleep=off"))),
        "{arguments:?}"
    );
    // Two files that QEMU writes and one that it reads, by names without a folder: nothing of this
    // machine.
    assert!(arguments.iter().all(|word| !word.as_str().is_some_and(|word| word.contains(out))), "{arguments:?}");
    let (boot, all) = (guest["boot_cpu_ns"].as_i64().expect("ns"), guest["cpu_ns"].as_i64().expect("ns"));
    assert!(0 < boot && boot < all, "{guest}");
    eprintln!("boot to the first packet: {:.1} s of processor time", boot as f64 / 1e9);
    let booted = events.iter().find(|line| line["event"] == "guest_booted").expect("an event");
    assert_eq!(booted["boot_cpu_ns"], boot);
    // Not the trial's beginning, after which agents prepare and packets warm up, but the end of
    // that.
    let at = |event: &str| events.iter().position(|line| line["event"] == event).expect("an event");
    assert!(at("trial") < at("guest_booted") && at("guest_booted") < at("trial_kept"), "{events:?}");
    // What was built there was put back there, and told as on any machine.
    assert!(events.iter().any(|line| line["event"] == "torn_down"), "{events:?}");
    let files = [
        "commands.sh",
        "events.jsonl",
        "experiment.toml",
        "guest",
        "manifest.json",
        "report.html",
        "results.json",
        "trials",
    ];
    assert_eq!(*whole, files);
    assert_eq!(*of_guest, ["console.log"], "what only passed through is gone");
}

/// The stage from the receiving kernel into the program, of both ends on the guest's one CPU:
/// medians, and whether the last packet of a trial is its worst, trial by trial.
fn into_the_program(stamps: &str) -> (i64, Vec<bool>) {
    let place = Place::new();
    let args = ["--json", "--trials", "5", "--set", "stream.ctl.count=300"];
    let run = place.call(exact(&place, &args).args([format!("--set=stream.ctl.stamps={stamps}")]));
    run.ran();
    let metric = |of: &Value| of["streams"]["ctl"]["metrics"]["rx_kernel..receive"].clone();
    let trials = run.cell()["trials"].as_array().expect("trials");
    let worst = trials.iter().map(|trial| metric(trial)["max_seq"] == 299).collect();
    (metric(run.cell())["p50_ns"].as_i64().expect("a median"), worst)
}

#[test]
fn the_sender_finished_its_trial_before_the_receiver_had_the_last_packet() {
    if !can_run("the_sender_finished_its_trial_before_the_receiver_had_the_last_packet") {
        return;
    }
    let all = r#"["wakeup","send","tx_sched","tx_kernel","rx_kernel","receive"]"#;
    let (with, worst) = into_the_program(all);
    assert!(worst.iter().filter(|worst| **worst).count() <= 1, "the last packet is the worst: {worst:?}");
    // Nor does the receiver wait for a sender that fetches stamps.
    let (without, _) = into_the_program(r#"["wakeup","rx_kernel","receive"]"#);
    assert!((with - without).abs() < 500, "{with} ns with tx stamps, {without} ns without");
}

/// How long a ping-pong in an exact guest takes from a reply to the next request, by its
/// transactions per second and its mean round trip, ns, with this number in flight.
fn turnaround_ns(in_flight: u32, stamps: &str) -> f64 {
    let place = Place::new();
    let file = place.path("turnaround.toml");
    let stream = tardy_tests::experiment("stream from a to b");
    // With several in flight the first requests go out one after the other, and the last replies
    // come back so. Only the rate without pauses has that in it: of 1000 requests it adds half a
    // microsecond to each.
    let count = if in_flight == 1 { 1_000 } else { 6_000 };
    let text = format!(
        "name = \"turnaround\"\ntrials = 1\n{stream}kind = \"pingpong\"\ncount = {count}\nin_flight = {in_flight}\n{stamps}"
    );
    std::fs::write(&file, text).expect("a file");
    let mut command = place.run(&["--in", "guest:exact", "--kernel", KERNEL, "--json"]);
    let run = place.call(command.arg(&file));
    run.ran();
    let rate = run.cell()["streams"]["ctl"]["replies"]["transactions_s"].as_f64();
    let rate = rate.unwrap_or_else(|| panic!("{}{}", run.stdout, run.stderr));
    f64::from(in_flight) * 1e9 / rate - run.metric("send..reply_receive")["mean_ns"].as_f64().expect("a mean")
}

#[test]
fn the_rate_of_a_ping_pong_left_out_the_time_to_the_next_request_in_each_pause() {
    if !can_run("the_rate_of_a_ping_pong_left_out_the_time_to_the_next_request_in_each_pause") {
        return;
    }
    // Without stamps that come back there are no pauses.
    for in_flight in [1, 2, 4] {
        let bare = turnaround_ns(in_flight, "stamps = [\"send\", \"reply_receive\"]\n");
        let paused = turnaround_ns(in_flight, "");
        let says = format!("{in_flight} in flight: {paused:.0} ns, without pauses {bare:.0} ns");
        assert!(bare > 100.0 && (0.75..1.3).contains(&(paused / bare)), "{says}");
    }
}

fn sending(size: &str) -> Place {
    let place = Place::new();
    let args =
        ["--trials", "20", "--set", "stream.ctl.count=200", "--set", &format!("stream.ctl.size={size}"), "--json"];
    let ran = place.call(&mut exact(&place, &args));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    place
}

#[test]
fn packets_that_take_longer_in_each_phase_fail_a_condition_and_a_run_beside_itself_does_not() {
    if !can_run("packets_that_take_longer_in_each_phase_fail_a_condition_and_a_run_beside_itself_does_not") {
        return;
    }
    let (small, large) = (sending("200B"), sending("1400B"));
    let compare = |a: &Place, b: &Place, more: &[&str]| -> Finished {
        small.call(small.command("compare").args([a.out(), b.out()]).args(more))
    };
    const SLOWER: [&str; 4] = ["--fail-if", "scheduled..receive p50 > +2%", "--fail-if", "lost > +0"];
    let met = compare(&small, &large, &SLOWER);
    assert_eq!(met.code, Some(1), "{}{}", met.stdout, met.stderr);
    let said = met.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("beyond the limit in 20 of 20 phases not met lost > +0"), "{said}");
    eprintln!("{}", said.split(" conditions ").last().unwrap_or_default());
    let itself = compare(&small, &small, &SLOWER);
    assert_eq!(itself.code, Some(0), "{}{}", itself.stdout, itself.stderr);
    // A limit that lies beyond all of them, and the other way.
    for condition in ["scheduled..receive p50 > +1ms", "scheduled..receive p50 < -0%"] {
        let not = compare(&small, &large, &["--fail-if", condition]);
        assert_eq!(not.code, Some(0), "{condition}: {}", not.stdout);
    }
    // 200 packets have no p99.9 in a trial: that is no pass.
    assert_eq!(compare(&small, &large, &["--fail-if", "scheduled..receive p99.9 > +2%"]).code, Some(4));
}

/// By this variable the program below knows that it is in the guest, and how far the second host's
/// clocks are to be ahead, ns.
const AHEAD: &str = "TARDY_TEST_AHEAD_NS";
/// What it prints between is for the test that booted it.
const FIGURES: [&str; 2] = ["FIGURES BEGIN", "FIGURES END"];

/// The first process of a guest in which this very program measures. It ends the guest.
const BEGIN: &str = "#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
ip link set dev lo up
AHEAD /program --exact TEST --nocapture --test-threads 1
echo b > /proc/sysrq-trigger
";

/// Boots this test program in exact time, and gives what it measures between two hosts, the second
/// one's clocks of which are so far ahead. The number is as long as any other, for each byte more
/// would be another run.
fn measured(test: &str, ahead_ns: i64) -> Vec<String> {
    let place = Place::new();
    let program = place.path("program");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&program).arg(std::env::current_exe().expect("this program's file"));
    assert!(strip.status().expect("strip runs").success(), "its symbols take most of its room");
    let kernel = kernel::find(&kernel::cache(), KERNEL).expect("it is there");
    let mut archive = rooted();
    programs::pack(false, &["mount"], &mut archive).expect("its programs are here");
    archive.file("/program", std::fs::read(&program).expect("a file"), true);
    let begin = BEGIN.replace("TEST", test).replace("AHEAD", &format!("{AHEAD}={ahead_ns:010}"));
    archive.file("/begin", begin.into_bytes(), true);
    let boots = place.path("boots");
    std::fs::create_dir(&boots).expect("a folder");
    std::fs::write(boots.join(folder::INITRAMFS), archive.bytes()).expect("a file");
    let machine = VirtualMachine {
        mode: GuestMode::Exact,
        accelerator: Accelerator::Tcg,
        cpus: 1,
        memory_mib: 512,
        kernel: kernel.image.display().to_string(),
        append: "rdinit=/begin".to_owned(),
        sandbox: false,
    };
    let mut command = Command::new(qemu::PROGRAM);
    command.args(machine.arguments()).current_dir(&boots).stdin(Stdio::null()).stderr(Stdio::piped());
    let mut booted = command.spawn().expect("QEMU starts");
    let console = || String::from_utf8_lossy(&std::fs::read(boots.join(CONSOLE)).unwrap_or_default()).into_owned();
    if wait(Duration::from_secs(180), || booted.try_wait().expect("its state")).is_none() {
        let _ = booted.kill();
        let _ = booted.wait();
        panic!("the guest does not end: {}", console());
    }
    let said = console();
    let figures = said.split(FIGURES[0]).nth(1).and_then(|rest| rest.split(FIGURES[1]).next());
    let figures = figures.unwrap_or_else(|| panic!("no figures: {said}"));
    figures.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn one_way_figures_do_not_depend_on_how_far_another_machine_s_clocks_are_ahead() {
    const TEST: &str = "one_way_figures_do_not_depend_on_how_far_another_machine_s_clocks_are_ahead";
    if let Ok(ahead_ns) = std::env::var(AHEAD) {
        let figures = figures(ahead_ns.parse().expect("nanoseconds"));
        println!("{}\n{}\n{}", FIGURES[0], figures.join("\n"), FIGURES[1]);
        return;
    }
    if !can_run(TEST) {
        return;
    }
    let test = format!("exact::{TEST}");
    let [agreeing, ahead] = [0, two_hosts::AHEAD_NS].map(|ahead_ns| measured(&test, ahead_ns));
    assert_eq!(agreeing, ahead, "each figure of each packet, to the nanosecond, and its bound");
    // Both streams, with metrics that need both clocks and metrics that need one.
    let of = |words: &str| {
        let line = ahead.iter().find(|line| line.starts_with(words)).unwrap_or_else(|| panic!("{words}: {ahead:#?}"));
        let (bound, rows) = line[words.len()..].split_once(": ").expect("a bound and rows");
        let rows: Vec<i64> = rows.split(' ').map(|ns| ns.parse().expect("ns")).collect();
        assert_eq!(rows.len(), 100, "{line}");
        (bound.to_owned(), rows)
    };
    for crossing in ["there send..rx_kernel: ", "back send..rx_kernel: ", "there reply_send..reply_rx_kernel: "] {
        let (bound, rows) = of(crossing);
        let bound_ns: i64 = bound.parse().expect("a bound");
        assert!(bound_ns >= two_hosts::BOUND_NS, "{crossing}{bound_ns}");
        assert!(rows.iter().all(|ns| (1..1_000_000).contains(ns)), "the offset is not in them: {rows:?}");
    }
    for own in ["there rx_kernel..receive: ", "there send..reply_receive: "] {
        assert_eq!(of(own).0, "one clock");
    }
}

/// The cells of `afxdp-delay` that a guest with one processor has, on two kernels.
#[test]
fn time_delays_of_af_xdp_repeat_on_two_kernels() {
    if !can_run("time_delays_of_af_xdp_repeat_on_two_kernels") {
        return;
    }
    // A kernel that is not there would be fetched.
    let is_there = |kernel: &&str| tardy_lab::guest::kernel::find(&tardy_lab::guest::kernel::cache(), kernel).is_ok();
    let kernels: Vec<&str> = [KERNEL, "debian:6.12-rt"].into_iter().filter(is_there).collect();
    assert!(kernels.contains(&KERNEL), "the layer's own kernel is there");
    if kernels.len() < 2 {
        tardy_tests::skip("time_delays_of_af_xdp_repeat_on_two_kernels: debian:6.12-rt", "it was not fetched");
    }
    for kernel in kernels {
        // With fewer than five the first and the last packets of each trial have no verdict. One
        // kernel is enough for that.
        let (trials, packets) = if kernel == KERNEL { ("5", 200) } else { ("1", 40) };
        let run = || {
            let place = Place::new();
            let mut command = place.command("run");
            command.args(["afxdp-delay", "--in", "guest:exact", "--kernel", kernel, "--json"]);
            command.args(["--trials", trials]);
            command.args(["--set", "stream.ctl.count=40"]).arg("--out").arg(place.out());
            let run = place.call(&mut command);
            run.ran();
            run.results
        };
        let (a, b) = (run(), run());
        assert_eq!(print(&a), print(&b), "{kernel}");
        assert_eq!(a["cells"], b["cells"], "{kernel}: every figure and every verdict");
        let verdicts = a["verdicts"].as_array().expect("verdicts");
        let own: Vec<&Value> = verdicts.iter().filter(|verdict| verdict["id"] == "own-trace").collect();
        assert_eq!(own, Vec::<&Value>::new(), "{kernel}: tardy shows in its figures");
        let cells = a["cells"].as_array().expect("cells");
        for cell in cells {
            let id = cell["id"].as_str().expect("an id");
            let ids: Vec<&str> =
                cell["verdicts"].as_array().into_iter().flatten().filter_map(|v| v["id"].as_str()).collect();
            if id.contains("-remote") {
                let why = cell["not_available"].as_str().unwrap_or_else(|| panic!("{kernel} {id}: {cell}"));
                let polls = id.contains("busypoll");
                let says = if polls { "cannot be kept with rx.wait" } else { "needs another CPU than the one" };
                assert!(why.contains(says), "{kernel} {id}: {why}");
            } else if cell["not_available"].is_null() {
                let delay = &cell["streams"]["ctl"]["metrics"]["rx_xdp..receive"];
                assert_eq!(
                    (&delay["count"], &delay["coverage"]),
                    (&json!(packets), &json!(1.0)),
                    "{kernel} {id}: {cell}"
                );
                assert_eq!(
                    (&cell["xdp"][0]["same"], &cell["valid"]),
                    (&json!(packets), &json!(true)),
                    "{kernel} {id}: {cell}"
                );
                // Without idle states a bound has no effect.
                let is_bound = !id.contains("default");
                assert_eq!(ids.contains(&"pm-qos"), is_bound, "{kernel} {id}: {ids:?}");
            } else {
                panic!("{kernel} {id}: veth of this kernel names its NAPI context: {}", cell["not_available"]);
            }
        }
        let measured = cells.iter().filter(|cell| cell["not_available"].is_null()).count();
        assert_eq!(measured, 12, "{kernel}: four ways to wait, with three bounds");
    }
}
