// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bad input and machines that cannot: one clear error, the exit code of the contract, nothing left
//! behind. And the program itself: which build measures, whose programs it starts, what it shows
//! meanwhile.

use crate::command::{Finished, Place, SHORT, can_run_beside_others, machine, same, tardy};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn file_of(place: &Place, bytes: &[u8]) -> Finished {
    let file = place.path("experiment.toml");
    std::fs::write(&file, bytes).expect("a file");
    place.call(place.run(&[]).arg(&file))
}

fn refused(run: &Finished, code: i32, says: &[&str]) {
    assert_eq!(run.code, Some(code), "{}", run.stderr);
    for text in says {
        assert!(run.stderr.contains(text), "`{text}` is not in: {}", run.stderr);
    }
    let said = run.said().into_iter().filter(|line| !line.is_empty()).count();
    assert_eq!(said, 1, "one error, not {}", run.stderr);
    assert!(run.stdout.is_empty(), "{}", run.stdout);
}

#[test]
fn an_experiment_file_that_is_none_is_refused() {
    let place = Place::new();
    refused(&file_of(&place, b""), 2, &["experiment.toml", "empty"]);
    refused(&file_of(&place, b"\x7fELF\x00\x01\xff\xfe"), 2, &["experiment.toml"]);
    let stream = tardy_tests::part("stream from a to b");
    refused(&file_of(&place, format!("{stream}count = 0\n").as_bytes()), 2, &["experiment.toml:6:", "count"]);
    let huge = place.path("huge.toml");
    std::fs::File::create(&huge).and_then(|file| file.set_len(100 << 20)).expect("a sparse file");
    refused(&place.call(place.run(&[]).arg(&huge)), 2, &["huge.toml", "104857600", "1048576"]);
    refused(&place.call(&mut place.run(&["host-to-hots"])), 2, &["host-to-host"]);
    refused(&place.call(&mut place.run(&["--set", "stream.ctl.cuont=5"])), 2, &["cuont", "count"]);
    assert!(!place.out().exists(), "nothing is written for a file that cannot be run");
}

#[test]
fn a_count_that_memory_cannot_hold_is_refused_before_anything_is_built() {
    let place = Place::new();
    let huge = ["--set", "stream.ctl.count=4000000000", "--set", "stream.ctl.cycle=500ns"];
    refused(&place.call(&mut place.run(&huge)), 3, &["MiB", "count"]);
}

#[test]
fn a_cpu_that_does_not_exist_is_exit_3() {
    if !can_run_beside_others("a_cpu_that_does_not_exist_is_exit_3") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    refused(&place.call(place.run(&SHORT).args(["--set", "stream.ctl.tx.cpu=999"])), 3, &["CPU 999", "auto"]);
    assert!(!place.out().exists(), "the folder stays free for the next try");
    same(&before);
}

#[test]
fn without_root_it_says_what_is_missing() {
    if !can_run_beside_others("without_root_it_says_what_is_missing") {
        return;
    }
    let place = Place::new();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--"]).arg(tardy());
    command.args(["run", "--out", "/tmp/tardy-never"]).stdin(Stdio::null());
    refused(&place.call(&mut command), 3, &["root", "CAP_NET_ADMIN"]);
}

#[test]
fn without_ip_it_says_what_to_install() {
    if !can_run_beside_others("without_ip_it_says_what_to_install") {
        return;
    }
    let place = Place::new();
    refused(&place.call(place.run(&SHORT).env("PATH", "/nonexistent")), 3, &["`ip`", "iproute2"]);
}

#[test]
fn busypoll_without_a_napi_id_is_refused_and_the_other_cells_go_on() {
    if !can_run_beside_others("busypoll_without_a_napi_id_is_refused_and_the_other_cells_go_on") {
        return;
    }
    let place = Place::new();
    let run = place.call(place.run(&SHORT).args(["--set", "stream.ctl.rx.wait=busypoll"]));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    // The reason came without the program's name on stderr, and --json has no table for it.
    assert!(run.stdout.contains("NAPI") && run.stdout.contains("path.napi = true"), "{}", run.stdout);
    // What the plan can foresee is warned of first; the refusal is the last line, and the only one.
    let lines = run.said();
    let [warned, line] = lines[..] else { panic!("a warning and a refusal: {}", run.stderr) };
    assert!(warned.starts_with("tardy: warning: `stream.ctl.rx.wait`: ") && warned.contains("NAPI"), "{warned}");
    assert!(line.starts_with("tardy: all: refused, nothing is measured of it: ") && line.contains("NAPI"), "{line}");
    let place = Place::new();
    let file = place.path("waits.toml");
    let text = tardy_tests::experiment("wait that veth refuses");
    std::fs::write(&file, text).expect("a file");
    let run = place.call(place.run(&[]).arg(&file));
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells[0]["streams"]["ctl"]["outcomes"]["received"], 300, "{}", run.stdout);
    assert_eq!((&cells[1]["valid"], cells[1]["trials"].as_array().map(Vec::len)), (&false.into(), Some(0)));
    assert!(run.ids("invalid").contains(&"refused".to_owned()));
}

#[test]
fn a_killed_run_still_knows_what_was_refused() {
    if !can_run_beside_others("a_killed_run_still_knows_what_was_refused") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let file = place.path("waits.toml");
    let text = tardy_tests::experiment("wait that veth refuses");
    let text = text.replace("trials = 1", "trials = 50").replace("count = 300", "count = 2000");
    std::fs::write(&file, text).expect("a file");
    let mut child = place.start(place.run(&[]).arg(&file));
    place.wait_for("refused");
    child.kill().expect("killed");
    let _ = place.finish(child);
    let manifest = std::fs::read_to_string(place.out().join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("whole");
    let why = manifest["cells"][1]["refused"].as_str().expect("why the cell was refused");
    assert!(why.contains("NAPI"), "{why}");
    let report = place.call(place.command("report").arg(place.out()));
    assert_eq!(report.stdout.matches("NAPI context").count(), 1, "told once: {}", report.stdout);
    assert_eq!(place.undo().code, Some(0));
    same(&before);
}

#[test]
fn an_out_folder_in_use_is_refused_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.out()).expect("a folder");
    std::fs::write(place.out().join("mine.txt"), "mine").expect("a file");
    let sim = ["--set", "stream.ctl.port=sim"];
    refused(&place.call(&mut place.run(&sim)), 2, &["run"]);
    assert_eq!(std::fs::read_dir(place.out()).map_or(0, Iterator::count), 1);
}

#[test]
fn a_truncated_or_newer_run_folder_is_refused_and_named() {
    let place = Place::new();
    let sim = ["--trials", "1", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=500"];
    let run = place.call(&mut place.run(&sim));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let report = || place.call(place.command("report").arg(place.out()));
    assert_eq!(report().code, Some(0), "{}", report().stderr);
    let samples = place.out().join("trials/all/1/samples.parquet");
    let whole = std::fs::read(&samples).expect("samples");
    std::fs::write(&samples, &whole[..whole.len() / 2]).expect("truncated");
    refused(&report(), 2, &["samples.parquet"]);
    std::fs::write(&samples, whole).expect("whole again");
    let results = place.out().join("results.json");
    let text = std::fs::read_to_string(&results).expect("results");
    std::fs::write(&results, &text[..text.len() / 2]).expect("truncated");
    refused(&report(), 2, &["results.json"]);
    std::fs::write(&results, &text).expect("whole again");
    let manifest = place.out().join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replacen("\"format\": 1", "\"format\": 99", 1)).expect("newer");
    refused(&report(), 2, &["99", "newer"]);
    std::fs::write(&manifest, &text[..text.len() / 3]).expect("truncated");
    refused(&report(), 2, &["manifest.json"]);
}

#[test]
fn a_damaged_or_newer_results_file_is_not_passed_over() {
    let place = Place::new();
    let sim = ["--trials", "1", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=500"];
    assert_eq!(place.call(&mut place.run(&sim)).code, Some(0));
    let report = || place.call(place.command("report").arg(place.out()));
    let results = place.out().join("results.json");
    let text = std::fs::read_to_string(&results).expect("results");
    std::fs::write(&results, &text[..text.len() / 2]).expect("truncated");
    refused(&report(), 2, &["results.json"]);
    std::fs::write(&results, text.replacen("\"format\": 1", "\"format\": 99", 1)).expect("newer");
    refused(&report(), 2, &["99", "newer"]);
    std::fs::remove_file(&results).expect("removed");
    assert_eq!(report().code, Some(0), "a run that was killed has none: {}", report().stderr);
}

#[test]
fn a_written_verdict_makes_nothing_valid_that_is_not() {
    let place = Place::new();
    let sim = ["--trials", "1", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=500"];
    assert_eq!(place.call(&mut place.run(&sim)).code, Some(0));
    let record = place.out().join("trials/all/1/trial.json");
    let text = std::fs::read_to_string(&record).expect("a record");
    std::fs::write(&record, text.replacen("\"failed\":null", "\"failed\":\"the agent died\"", 1)).expect("spoilt");
    let report = place.call(place.command("report").arg(place.out()).args(["--format", "json"]));
    let judged: serde_json::Value = serde_json::from_str(&report.stdout).expect("results");
    assert_eq!((&judged["valid"], &judged["cells"][0]["valid"]), (&false.into(), &false.into()), "{}", report.stdout);
}

#[test]
fn a_histogram_log_counts_what_the_results_count() {
    let place = Place::new();
    let sim = ["--trials", "1", "--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=500"];
    let run = place.call(&mut place.run(&sim));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let log = std::fs::read_to_string(place.out().join("trials/all/1/ctl.hlog")).expect("a histogram log");
    for metric in ["scheduled..rx_kernel", "rx_kernel..receive", "delta"] {
        let negative = run.metric(metric)["negative"].as_u64().unwrap_or(0);
        let values = run.metric(metric)["count"].as_u64().expect("a count") - negative;
        let line = format!("#{metric}: {values} values, {negative} negative ones counted at 0\n");
        assert!(log.contains(&line), "{line}{log:.900}");
    }
}

#[test]
fn a_vanished_device_is_told_and_what_was_measured_is_kept() {
    if !can_run_beside_others("a_vanished_device_is_told_and_what_was_measured_is_kept") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let child = place.start(&mut place.run(&["--trials", "3", "--set", "stream.ctl.count=3000"]));
    let netns = place.netns("b");
    place.wait_for("trial");
    std::thread::sleep(std::time::Duration::from_millis(900));
    let status = Command::new("ip")
        .args(["netns", "exec", &netns, "sh", "-c"])
        .arg("for d in /sys/class/net/tardy*; do ip link del ${d##*/}; done")
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the device is removed");
    let run = place.finish(child);
    // What the path kept from arriving counts as lost, and the experiment allows no loss.
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("is gone"), "{}", run.stderr);
    let trials = run.cell()["trials"].as_array().expect("trials");
    assert_eq!(trials.len(), 1, "the trial in which it vanished is kept");
    let received = trials[0]["streams"]["ctl"]["outcomes"]["received"].as_u64().expect("a count");
    assert!((1..3_000).contains(&received), "{received} were received before");
    same(&before);
}

/// A file system of a given size, gone with the value.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn at(path: std::path::PathBuf, size: &str) -> SmallDisk {
        std::fs::create_dir(&path).expect("a mount point");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tardy-test"]).arg(&path).status();
        assert!(status.is_ok_and(|status| status.success()), "mount");
        SmallDisk(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_told_and_what_was_finished_stays() {
    if !can_run_beside_others("a_full_disk_is_told_and_what_was_finished_stays") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let disk = SmallDisk::at(place.path("small"), "size=400k");
    let out = disk.0.join("run");
    let mut command = place.command("run");
    command
        .args(["--trials", "9", "--set", "stream.ctl.count=6000", "--set", "stream.ctl.cycle=100us", "--out"])
        .arg(&out);
    let run = place.call(&mut command);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("No space left on device"), "{}", run.stderr);
    assert!(run.stdout.contains("scheduled..rx_kernel"), "what was measured is printed: {}", run.stdout);
    let report = place.call(place.command("report").arg(&out).args(["--format", "csv"]));
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    same(&before);
}

#[test]
fn a_port_in_use_in_a_station_is_exit_3_and_names_the_address() {
    if !can_run_beside_others("a_port_in_use_in_a_station_is_exit_3_and_names_the_address") {
        return;
    }
    for (port, is_tcp) in [("udp", false), ("tcp", true)] {
        let (place, before) = (Place::new(), machine());
        let file = place.path("experiment.toml");
        let trips = tardy_tests::experiment("round trips");
        let text = format!("{trips}port = \"{port}\"\ncount = 100\n");
        std::fs::write(&file, text).expect("a file");
        let child = place.start(place.run(&[]).arg(&file));
        // The ruler is measured before a trial opens its sockets: time enough to be there first.
        let netns = Path::new("/run/netns").join(place.netns("b"));
        let taker = std::thread::spawn(move || -> Box<dyn Send> {
            tardy_sys::process::enter_netns(&netns).expect("the reflector's namespace");
            match is_tcp {
                true => Box::new(TcpListener::bind("0.0.0.0:5800").expect("a free port")),
                false => Box::new(UdpSocket::bind("0.0.0.0:5800").expect("a free port")),
            }
        });
        let taken = taker.join().expect("it is taken");
        refused(&place.finish(child), 3, &["198.18.", ":5800", "in use"]);
        drop(taken);
        assert!(!place.events().iter().any(|event| event["event"] == "trial_kept"), "no trial came about");
        same(&before);
    }
}

#[test]
fn replies_that_stop_for_a_while_cost_rows_and_not_the_run() {
    if !can_run_beside_others("replies_that_stop_for_a_while_cost_rows_and_not_the_run") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let file = place.path("experiment.toml");
    let trips = tardy_tests::experiment("round trips");
    let text = format!("{trips}count = 60_000\ntimeout = \"400ms\"\nmax_loss = \"1%\"\n");
    std::fs::write(&file, text).expect("a file");
    let child = place.start(place.run(&[]).arg(&file));
    place.wait_for("trial");
    std::thread::sleep(std::time::Duration::from_millis(300));
    // The reflector's station loses its address, and gets it back.
    let netns = place.netns("b");
    let ip = |args: &[&str]| {
        let output = Command::new("ip").args(["-n", &netns]).args(args).output().expect("ip");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = ip(&["-4", "-j", "addr"]);
    let links: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let link = links.as_array().into_iter().flatten().find(|link| link["ifname"] != "lo").expect("a link").clone();
    let dev = link["ifname"].as_str().expect("a name");
    let address = link["addr_info"][0]["local"].as_str().map(|local| format!("{local}/30")).expect("an address");
    ip(&["addr", "del", &address, "dev", dev]);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    ip(&["addr", "add", &address, "dev", dev]);
    let run = place.finish(child);
    run.ran();
    let (received, lost) = (run.outcome("received"), run.outcome("lost"));
    // One request after the other was given up, though nothing came that could have ended a wait.
    assert!((2..=6).contains(&lost) && received == 60_000 - lost, "{received} received, {lost} lost: {}", run.stdout);
    same(&before);
}

#[test]
fn a_connection_reset_in_the_middle_is_told_at_both_ends() {
    if !can_run_beside_others("a_connection_reset_in_the_middle_is_told_at_both_ends") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    // `ss -K` has the kernel abort the requester's side, and so reset the connection.
    let text = tardy_tests::experiment("cut connection");
    let file = place.path("experiment.toml");
    std::fs::write(&file, text).expect("a file");
    let run = place.call(place.run(&["--allow-commands"]).arg(&file));
    assert_eq!(run.code, Some(4), "{}{}", run.stdout, run.stderr);
    assert!(run.ids("invalid").contains(&"receiver-broke".to_owned()), "{}", run.stdout);
    let words: Vec<&str> = run.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("the peer reset the connection"), "{}", run.stdout);
    let record = std::fs::read(place.out().join("trials/all/1/trial.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let (ctl, cut) = (&record["streams"]["ctl"], Some(i64::from(libc::ECONNABORTED)));
    // Each end meets it in the call that comes next, sending or receiving.
    let (there, back) = (&ctl["counters"], &ctl["reply"]["counters"]);
    let near = [&there["first_send_errno"], &back["receive_errno"]];
    assert!(near.iter().any(|errno| errno.as_i64() == cut), "{ctl}");
    let far = [&there["receive_errno"], &back["first_send_errno"]];
    assert!(far.iter().any(|errno| errno.as_i64() == Some(libc::ECONNRESET.into())), "{ctl}");
    let (received, lost, refused) = (run.outcome("received"), run.outcome("lost"), run.outcome("not_sent"));
    assert!(received > 0 && received < 400_000 && received + lost + refused == 400_000, "{}", run.stdout);
    assert!(lost <= 1, "only what was on its way can be lost: {lost}");
    same(&before);
}

fn make_runnable(path: &std::path::Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("made runnable");
}

#[test]
fn a_rebuild_during_a_run_mixed_two_builds() {
    if !can_run_beside_others("a_rebuild_during_a_run_mixed_two_builds") {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let (program, next) = (place.path("tardy"), place.path("tardy.new"));
    fs::copy(tardy(), &program).expect("copied");
    let file = place.path("two.toml");
    let text = tardy_tests::experiment("two paths");
    fs::write(&file, text).expect("written");
    let mut command = Command::new(&program);
    command.arg("run").arg(&file).args(["--trials", "2", "--out"]).arg(place.out());
    let child = place.start(command.env("TARDY_STATE", place.state()).stdin(Stdio::null()));
    place.wait_for("built");
    // As `make build` does it: the new file takes the name.
    fs::write(&next, "#!/bin/sh\necho another build >&2\nexit 7\n").expect("written");
    make_runnable(&next);
    fs::rename(&next, &program).expect("renamed");
    let run = place.finish(child);
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    assert!(
        cells.iter().all(|cell| cell["trials"].as_array().is_some_and(|trials| trials.len() == 2)),
        "{}",
        run.stdout
    );
    let built = place.events().iter().filter(|line| line["event"] == "built").count();
    assert!(built > 1, "only {built} path was built: nothing was started after the file had changed");
    let manifest = fs::read_to_string(place.out().join("manifest.json")).expect("a manifest");
    assert!(manifest.contains(" (build "), "the manifest says of which build the agents were");
    same(&before);
}

#[test]
fn root_started_programs_out_of_the_callers_folders() {
    if !can_run_beside_others("root_started_programs_out_of_the_callers_folders") || !tardy_sys::process::is_root() {
        return;
    }
    let (place, before) = (Place::new(), machine());
    let bin = place.path("bin");
    fs::create_dir(&bin).expect("made");
    for program in ["ip", "tc", "sh", "rm"] {
        let path = bin.join(program);
        fs::write(&path, format!("#!/bin/sh\n: > {}\nexit 1\n", place.path("started").display())).expect("written");
        make_runnable(&path);
    }
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o777)).expect("set");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    place.call(place.run(&SHORT).env("PATH", path)).ran();
    assert!(!place.path("started").exists(), "root started what anybody could have put there");
    same(&before);
}

#[test]
fn the_progress_line_showed_another_metric_than_the_table() {
    if !can_run_beside_others("the_progress_line_showed_another_metric_than_the_table") {
        return;
    }
    let lead = |metric: &str| format!("--trials 2 --set stream.ctl.count=2000 --set stream.ctl.lead={metric}");
    for (more, shown) in [
        ("--trials 1 --set stream.ctl.count=4000".to_owned(), "scheduled..rx_kernel"),
        ("--trials 1 --set stream.ctl.reflect=true --set stream.ctl.count=4000".to_owned(), "scheduled..reply_receive"),
        // What no end knows while a trial runs comes from the trial before.
        (lead("tx_kernel..rx_kernel"), "tx_kernel..rx_kernel"),
        (lead("scheduled..wakeup"), "scheduled..wakeup"),
    ] {
        let place = Place::new();
        // The line is shown on a terminal only, which script(1) gives it.
        let line = format!(
            "TARDY_STATE={} {} run {more} --out {}",
            place.state().display(),
            std::path::absolute(tardy()).expect("a path").display(),
            place.out().display()
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .expect("script runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(&format!("{shown} p50 ")), "{text}");
        assert!(!text.contains("scheduled..receive p50"), "{text}");
        if more.contains("lead") {
            assert!(text.contains(&format!("{shown} after this trial")), "{text}");
            assert!(text.contains("µs (trial ") && !text.contains("scheduled..rx_kernel p50"), "{text}");
        }
    }
}
