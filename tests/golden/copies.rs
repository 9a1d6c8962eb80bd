// SPDX-License-Identifier: MIT OR Apache-2.0
//! The built binary and copies: simulated ones give what was put in, in every format; what cannot
//! be copied is refused with code 2, before a folder is made.

use crate::help::tardy;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tardy_engine::copy::region_bytes;
use tardy_host::cpus::Cpus;
use tardy_lab::copying::{CopyRefused, CopyRoom, all_bytes, is_limited, most_held_bytes, place};
use tardy_model::copy::{Copying, Sizes};
use tardy_model::machine::RtLimit;
use tardy_spec::Source;

fn call(arguments: &[&str], out: &Path) -> Output {
    let mut command = Command::new(tardy());
    command.args(arguments).arg("--out").arg(out).env("COLUMNS", "100").stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{error}: run `make build` first"))
}

fn says(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_cannot_be_copied_is_refused_with_code_2_and_says_why() {
    let keep = tempfile::tempdir().expect("a folder");
    let refused = [
        (vec!["copy", "--bytes", "0"], "copy.bytes"),
        (vec!["copy", "--bytes", "16000000MiB"], "MiB are available: take fewer threads"),
        (vec!["copy", "--threads", "1000", "--buffers", "1000000"], "MiB are available: take fewer threads"),
        (vec!["copy", "--threads", "2000"], "write at most 1024"),
        (vec!["copy", "--bytes", "8000GiB"], "MiB are available: take fewer threads"),
        (vec!["copy", "--bind", "4095"], "names CPU 4095, and this process may use only"),
        (vec!["copy", "--policy", "fifo:200"], "the priority is not 1 to 99"),
        (vec!["copy", "--policy", "deadline:1ms/2ms/2ms"], "a copy has no period"),
        (vec!["copy", "--method", "dma"], "known here: memcpy, non-temporal, rep-movsb"),
        (vec!["run", "copy", "--set", "copy.to_node=1000"], "copy.to_node = 1000, and this"),
        (vec!["run", "copy", "--set", "copy.submit=spin", "--set", "copy.backend=sim"], "has neither locks nor memory"),
        (vec!["run", "copy", "--set", "copy.backend=dmatest"], "copies one buffer at a time"),
        (vec!["run", "copy", "--set", "copy.backend=dmatest"], "or copy.backend = \"sgtest\", tardy's own test module"),
        (
            vec!["run", "copy", "--set", "copy.backend=sgtest", "--set", "copy.bytes=5MiB"],
            "`copy.bytes`: backend sgtest takes buffers that the kernel has in one piece",
        ),
        (
            vec!["run", "copy", "--set", "copy.backend=sgtest", "--set", "copy.iterations=2000000"],
            "backend sgtest keeps 1048576 at most",
        ),
        (
            vec!["run", "copy", "--set", "copy.backend=sgtest", "--set", "copy.policy=fifo:10"],
            "`copy.policy` has no meaning for backend sgtest, whose threads are the kernel's",
        ),
        (
            vec!["run", "copy", "--set", "copy.backend=dmatest", "--set", "copy.buffers=1", "--set", "copy.pages=huge"],
            "`copy.pages` has no meaning for the kernel's dmatest",
        ),
        (vec!["run", "copy", "--set", "copy.total=7", "--set", "copy.threads=2"], "no equal number"),
        (vec!["run", "copy", "--set", "path.kind=veth"], "has no meaning for a copy"),
        (vec!["run", "host-to-host", "--set", "copy.threads=2"], "the experiment is of packets"),
        (vec!["run", "host-to-host", "--set", "stream.ctl.metrics=[\"begin..end\"]"], "of a copying thread"),
    ];
    for (arguments, why) in refused {
        let out = keep.path().join("run");
        let (code, said) = says(&call(&arguments, &out));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!out.exists(), "{arguments:?} made a folder");
    }
}

#[test]
fn a_simulated_copy_is_the_same_live_and_from_its_folder_in_every_format() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let arguments = ["run", "copy", "--json", "--set", "copy.backend=sim", "--set", "copy.threads=8"];
    let output = call(&[&arguments[..], &["--set", "copy.sim.overlap=0.0", "--trials", "5"]].concat(), &out);
    assert_eq!(says(&output).0, Some(0), "{}", says(&output).1);
    let live: Value = serde_json::from_slice(&output.stdout).expect("results");
    let copy = &live["cells"][0]["streams"]["copy"]["copy"];
    assert_eq!(copy["may_be_added_up"], false);
    assert!((copy["times_less"].as_f64().expect("a figure") - 8.0).abs() < 0.05, "{copy}");
    let report = |format: &str| {
        let output = Command::new(tardy()).args(["report", "--format", format]).arg(&out).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let again: Value = serde_json::from_str(&report("json")).expect("results");
    assert_eq!(again["cells"], live["cells"], "the folder has all that the verdict rests on");
    for format in ["text", "md", "org", "html"] {
        let text = report(format);
        let plain = text.replace("&#39;", "'").split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["8.0 times less in parallel", "Mbit/s, each thread's own added up", "threads copied at once"] {
            assert!(plain.contains(part), "{format} lacks {part}: {text}");
        }
    }
}

/// A simulated copy in its folder.
fn simulated(out: &Path, sets: &[&str]) -> std::path::PathBuf {
    let all = [&["copy.backend=sim", "copy.iterations=50", "copy.threads=2"], sets].concat();
    let sets: Vec<&str> = all.iter().flat_map(|set| ["--set", set]).collect();
    let output = call(&[&["run", "copy", "--trials", "5"], &sets[..]].concat(), out);
    assert_eq!(says(&output).0, Some(0), "{}", says(&output).1);
    out.to_owned()
}

#[test]
fn half_the_bandwidth_was_no_difference_to_compare() {
    let keep = tempfile::tempdir().expect("a folder");
    let run = |name: &str, sets: &[&str]| simulated(&keep.path().join(name), sets);
    let (whole, other) = (run("whole", &[]), run("other", &["copy.sim.jitter=0.02"]));
    let half = run("half", &["copy.sim.rate=40Gbit"]);
    let compare = |b: &Path, conditions: &[&str]| {
        let conditions = conditions.iter().flat_map(|condition| ["--fail-if", condition]);
        let mut command = Command::new(tardy());
        command.arg("compare").arg(&whole).arg(b).args(conditions).env("COLUMNS", "200").stdin(Stdio::null());
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &says(&output).1)
    };
    let (code, said) = compare(&half, &["bandwidth < -5%"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Mbit/s, B − A -50.0 %, lower: each of 5 trials is below each of 5 of A"), "{said}");
    assert!(said.contains("met       bandwidth < -5% (all, copy): B's median is -50.0 % off A's"), "{said}");
    assert_eq!(compare(&half, &[]).0, Some(0), "a difference alone is no failure");
    for within in ["bandwidth < -60%", "bandwidth > +1%", "all: copy bandwidth > +0%"] {
        let (code, said) = compare(&half, &[within]);
        assert!(code == Some(0) && said.contains("which is within the limit"), "{within}: {code:?} {said}");
    }
    let (code, said) = compare(&other, &["bandwidth < -5%"]);
    assert!(code == Some(0) && said.contains("not met"), "{said}");
    for (wrong, why) in [
        ("bandwidth < -5ns", "of a bandwidth the limit is per cent"),
        ("bandwidth < 5%", "write by how much B is less"),
        ("other bandwidth < -5%", "`other` is no stream of A or B"),
        ("band < -5%", "and not `bandwidth`"),
    ] {
        let (code, said) = compare(&half, &[wrong]);
        assert!(code == Some(2) && said.contains(why), "{wrong}: {code:?} {said}");
    }
    let few = keep.path().join("few");
    let flags = ["run", "copy", "--set", "copy.backend=sim", "--set", "copy.iterations=50", "--set", "copy.threads=2"];
    call(&[&flags[..], &["--set", "copy.sim.rate=40Gbit", "--trials", "1"]].concat(), &few);
    let (code, said) = compare(&few, &["bandwidth < -5%"]);
    assert!(code == Some(4) && said.contains("a claim needs 4 of each"), "{code:?} {said}");
}

#[test]
fn a_bandwidth_could_not_be_limited() {
    let keep = tempfile::tempdir().expect("a folder");
    let run = |name: &str, limit: &str| {
        let limit = format!("expect.copy.bandwidth={limit}");
        let sets = ["--set", "copy.backend=sim", "--set", "copy.iterations=50", "--set", limit.as_str()];
        let output = call(&[&["run", "copy", "--trials", "3"], &sets[..]].concat(), &keep.path().join(name));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &says(&output).1)
    };
    let (code, said) = run("kept", "70Gbit");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run("broken", "90Gbit");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("copy bandwidth at least, limit 90000.0 Mbit/s, got 8"), "{said}");
    let set = ["run", "host-to-host", "--set", "expect.ctl.bandwidth=1Gbit"];
    let (code, said) = says(&call(&set, &keep.path().join("packets")));
    assert!(code == Some(2) && said.contains("has no meaning for packets"), "{said}");
}

#[test]
fn a_run_of_packets_compared_with_a_copy_had_code_0_and_nothing_to_show() {
    let keep = tempfile::tempdir().expect("a folder");
    let copy = simulated(&keep.path().join("copy"), &[]);
    let packets = keep.path().join("packets");
    let sets = ["--set", "stream.ctl.port=sim", "--set", "stream.ctl.count=200"];
    let ran = call(&[&["run", "host-to-host", "--trials", "1"], &sets[..]].concat(), &packets);
    assert!(packets.join("results.json").exists(), "{}", says(&ran).1);
    let output = Command::new(tardy()).arg("compare").args([&packets, &copy]).output().expect("it runs");
    let (code, said) = says(&output);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("sends packets") && said.contains("compare runs of one kind"), "{said}");
}

#[test]
fn threads_bound_to_two_cpus_were_one_line_that_named_one() {
    let usable = std::fs::read_to_string("/proc/self/status").expect("its status");
    let usable = usable.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its CPUs").trim();
    if !usable.contains(['-', ',']) {
        tardy_tests::skip("threads_bound_to_two_cpus_were_one_line_that_named_one", "there is one CPU");
        return;
    }
    let keep = tempfile::tempdir().expect("a folder");
    let flags =
        ["--threads", "4", "--bind", "--iterations", "20", "--from", "locked", "--to", "locked", "--trials", "2"];
    let output = call(&[&["copy", "--json"], &flags[..]].concat(), &keep.path().join("run"));
    let results: Value = serde_json::from_slice(&output.stdout).expect("results");
    let rows = results["cells"][0]["placement"].as_array().expect("rows");
    assert!(rows.len() >= 2, "{rows:#?}");
    for row in rows {
        assert_eq!(row["thread"], "copy.threads");
        let seen: Vec<String> = row["cpus_seen"].as_array().expect("CPUs").iter().map(Value::to_string).collect();
        assert_eq!(seen, [row["cpu_asked"].as_str().expect("a CPU")], "{row}");
    }
}

#[test]
fn the_ready_made_sweep_names_the_line_and_the_l2_together() {
    let keep = tempfile::tempdir().expect("a folder");
    let sets = ["copy.backend=sim", "copy.sim.multiple=64", "copy.sim.beyond=1048576", "copy.iterations=50"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let output = call(&[&["run", "copy-sizes", "--json"], &sets[..]].concat(), &keep.path().join("run"));
    let results: Value = serde_json::from_slice(&output.stdout).expect("results");
    let cliffs = results["verdicts"].as_array().expect("verdicts").iter().find(|verdict| verdict["id"] == "cliffs");
    let says = cliffs.expect("its verdict")["says"].as_str().expect("words");
    assert!(says.contains("a multiple of the cache line (64 bytes) are 2.0 times faster"), "{says}");
    assert!(says.contains("fit into the L2 (1048576 bytes) are 2.0 times faster"), "{says}");
}

#[test]
fn the_reference_is_next_to_this_runs_sums_and_walls() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let sets = ["--set", "copy.backend=sim", "--set", "copy.iterations=20", "--set", "copy.threads=1"];
    let output = call(&[&["run", "copy-parallel", "--trials", "1"], &sets[..]].concat(), &out);
    assert_eq!(says(&output).0, Some(0), "{}", says(&output).1);
    let output = Command::new(tardy()).args(["report", "--format", "org"]).arg(&out).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let (_, table) = text.split_once("Compared with reference results R5").expect("the reference is named");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).filter(|part| !part.is_empty()).collect())
        .collect();
    let at = rows.iter().position(|row| row.first() == Some(&"locked-locked-6580")).expect("its row");
    assert_eq!(rows[at][1], "this run, over the wall");
    assert_eq!(rows[at + 1][0], "this run, added up");
    assert_eq!(rows[at + 2], ["R5", "26434", "33006"]);
    // Four threads of 80 Gbit/s each that copied all the time.
    for figure in &rows[at][2..] {
        let mbit_s: f64 = figure.parse().expect("a figure");
        assert!((mbit_s - 320_000.0).abs() < 5_000.0, "{figure}");
    }
}

#[test]
fn a_real_copy_by_two_threads_gives_both_bandwidths_whatever_the_machine_does() {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let flags = ["--threads", "2", "--iterations", "20", "--from", "locked", "--to", "locked", "--trials", "1"];
    for method in ["memcpy", "non-temporal", "rep-movsb"] {
        let output = call(&[&["copy", "--json", "--method", method], &flags[..]].concat(), &out.join(method));
        let (code, said) = says(&output);
        // On a busy machine the figures may not be valid.
        assert!(matches!(code, Some(0 | 4)), "{method}: {code:?} {said}");
        let results: Value = serde_json::from_slice(&output.stdout).expect("results");
        let copy = &results["cells"][0]["streams"]["copy"]["copy"];
        let figure = |name: &str| copy[name].as_f64().unwrap_or_else(|| panic!("{name}: {copy}"));
        assert_eq!(copy["bytes"], 2 * 20 * 48 * 4_096);
        assert!(figure("wall_bytes_s") > 0.0 && figure("sum_bytes_s") >= figure("wall_bytes_s") * 0.999, "{copy}");
        assert!(figure("parallelism") > 0.0, "{copy}");
        let in_flight: f64 = copy["in_flight_ns"].as_array().expect("a list").iter().filter_map(Value::as_f64).sum();
        assert_eq!(in_flight, figure("wall_ns"), "every moment is counted once");
    }
}

#[test]
fn a_copy_that_is_interrupted_keeps_what_was_copied_and_one_that_is_killed_leaves_nothing() {
    let keep = tempfile::tempdir().expect("a folder");
    let start = |out: &Path| {
        let mut command = Command::new(tardy());
        command.args(["copy", "--threads", "2", "--bytes", "1MiB", "--iterations", "1000000", "--trials", "1"]);
        command.arg("--out").arg(out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        // Until its threads copy.
        let tasks = format!("/proc/{}/task", child.id());
        let copies = || {
            let names = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            names
                .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
                .any(|name| name.starts_with("tardy-copy-1"))
        };
        for _ in 0..3_000 {
            if copies() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        child
    };
    let signal = |child: &std::process::Child, name: &str| {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().expect("kill");
        assert!(sent.success());
    };
    let out = keep.path().join("interrupted");
    let child = start(&out);
    signal(&child, "INT");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(says(&output).0, Some(130), "{}", says(&output).1);
    let results: Value =
        serde_json::from_slice(&std::fs::read(out.join("results.json")).expect("results")).expect("JSON");
    let stream = &results["cells"][0]["streams"]["copy"];
    let of = |what: &str| stream["outcomes"][what].as_u64().unwrap_or_else(|| panic!("{what}: {stream}"));
    assert!(of("received") > 0 && of("not_sent") > 0, "{stream}");
    assert_eq!(of("received") + of("not_sent"), of("intended"));

    let mut child = start(&keep.path().join("killed"));
    signal(&child, "KILL");
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), None, "by the signal");
    assert!(!Path::new(&format!("/proc/{}/maps", child.id())).exists(), "its memory and its threads went with it");
}

/// A copy with these keys.
fn copying(keys: &str) -> Copying {
    let text = format!("name = \"c\"\nkind = \"copy\"\n[copy]\n{keys}\n");
    let experiment = tardy_spec::load(&Source { name: "c.toml".into(), text }, &[]).expect("sound");
    experiment.cells[0].setup.copy.clone().expect("a copy")
}

#[test]
fn realtime_copies_on_all_cpus_stopped_a_machine_without_a_limit() {
    let placed = |keys: &str, online: &[u32], is_limited: bool| {
        let room = CopyRoom {
            cpus: Cpus { usable: &[0, 1], apart: &[] },
            isolated: &[],
            nodes: &[0],
            available_bytes: None,
            sizes: &Sizes::USUAL,
            online,
            is_limited,
        };
        place("c", &copying(keys), room).map_err(|refused| refused.to_string())
    };
    for keys in ["policy = \"fifo:99\"\nthreads = 2", "policy = \"rr:1\"\nthreads = 16\nbind = \"spread\""] {
        let why = placed(keys, &[0, 1], false).expect_err("nobody else would run");
        assert!(why.contains("on all CPUs of this machine (0, 1)") && why.contains("copy.longest, 20s"), "{why}");
        assert!(why.contains("sysctl kernel.sched_rt_runtime_us=950000"), "{why}");
        assert!(placed(keys, &[0, 1], true).is_ok(), "the kernel leaves others some time");
        assert!(placed(keys, &[0, 1, 2], false).is_ok(), "a CPU is left");
        assert!(placed(keys, &[], false).is_ok(), "nothing is known");
    }
    for keys in [
        "policy = \"fifo:99\"",
        "policy = \"fifo:99\"\nthreads = 4\nbind = \"spread\"\ncpus = [1]",
        "policy = \"other\"\nthreads = 16",
    ] {
        assert!(placed(keys, &[0, 1], false).is_ok(), "{keys}");
    }
    let limit = |runtime_ns| Some(RtLimit { period_ns: 1_000_000_000, runtime_ns });
    assert!(is_limited(limit(950_000_000), Some("6.1.0-18-amd64")));
    assert!(!is_limited(limit(1_000_000_000), Some("6.11.5")) && !is_limited(None, Some("5.10.0")));
    assert!(!is_limited(None, None) && is_limited(None, Some("6.12.1")) && is_limited(None, Some("7.0")));
}

#[test]
fn the_cpus_of_isolcpus_were_refused_for_no_process_is_started_on_them() {
    let placed = |keys: &str, apart: &[u32]| {
        let room = CopyRoom {
            cpus: Cpus { usable: &[0, 1], apart },
            isolated: &[2, 3],
            nodes: &[0],
            available_bytes: None,
            sizes: &Sizes::USUAL,
            online: &[0, 1, 2, 3],
            is_limited: true,
        };
        place("c", &copying(keys), room).map_err(|refused| refused.to_string())
    };
    let four = |cpus: [u32; 4]| Ok(cpus.map(Some).to_vec());
    assert_eq!(placed("threads = 4\nbind = \"isolated\"", &[2, 3]), four([2, 3, 2, 3]));
    assert_eq!(placed("threads = 4\nbind = \"spread\"", &[2, 3]), four([0, 1, 0, 1]), "nobody asked for them");
    assert_eq!(placed("threads = 4\nbind = \"spread\"\ncpus = [3, 1]", &[2, 3]), four([3, 1, 3, 1]));
    let none = placed("bind = \"isolated\"", &[]).expect_err("a control group keeps them away");
    assert!(none.contains("keeps no CPU free that this process may use"), "{none}");
    let other = placed("bind = \"spread\"\ncpus = [4]", &[2, 3]).expect_err("there is none");
    assert!(other.contains("names CPU 4") && other.contains("only 0, 1, 2, 3"), "{other}");
}

#[test]
fn the_memory_of_a_copys_background_did_not_count() {
    let copy = copying("background = \"memory\"");
    let (with, without) = (all_bytes(&copy, &Sizes::USUAL, 32), all_bytes(&copying(""), &Sizes::USUAL, 32));
    assert_eq!(with - without, 32 * (64 << 20));
    let cpus: Vec<u32> = (0..32).collect();
    let room = |available| CopyRoom {
        cpus: Cpus { usable: &cpus, apart: &[] },
        isolated: &[],
        nodes: &[0],
        available_bytes: Some(available),
        sizes: &Sizes::USUAL,
        online: &cpus,
        is_limited: true,
    };
    assert!(matches!(place("c", &copy, room(with)), Err(CopyRefused::Memory { .. })));
    assert!(place("c", &copy, room(with / 4 * 5 + 5)).is_ok());
    assert!(place("c", &copying(""), room(with)).is_ok());
}

#[test]
fn what_cells_leave_for_each_other_is_no_more_than_one_may_have() {
    let (large, many) = (copying("bytes = \"64MiB\"\nbuffers = 1"), copying("threads = 16"));
    let held = |available| most_held_bytes([&large, &many].into_iter().map(|copy| (copy, Sizes::USUAL)), available, 2);
    let most = [&large, &many].map(|copy| region_bytes(copy, &Sizes::USUAL)).into_iter().max().expect("two");
    // Where it is not known how much there is, what the largest needs.
    assert_eq!(held(None), most);
    let others = [&large, &many].map(|copy| all_bytes(copy, &Sizes::USUAL, 2) - region_bytes(copy, &Sizes::USUAL));
    let available = 100 << 30;
    assert_eq!(held(Some(available)), available / 5 * 4 - others.into_iter().max().expect("two"));
}

#[test]
fn a_size_in_gib_was_refused_and_had_to_be_written_in_mib() {
    assert_eq!(copying("bytes = \"1GiB\"").bytes, 1 << 30);
    assert_eq!(copying("bytes = \"1.5GB\"").bytes, 1_500_000_000);
}

#[test]
fn copy_cpus_of_thousands_of_cells_did_not_count_as_memory() {
    let list = |of: std::ops::Range<u32>| of.map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let text = |cpus: u32| {
        let (cpus, iterations) = (list(0..cpus), list(1..1_001));
        format!(
            "name = \"c\"\nkind = \"copy\"\n[copy]\nbind = \"spread\"\ncpus = [{cpus}]\n[matrix]\n\"copy.iterations\" = [{iterations}]\n"
        )
    };
    let load = |cpus| tardy_spec::load(&Source { name: "c.toml".into(), text: text(cpus) }, &[]);
    assert_eq!(load(1_000).expect("a large machine has a thousand").cells.len(), 1_000);
    let error = load(20_000).expect_err("a thousand times 80 000 bytes").to_string();
    assert!(error.contains("would take more than 64 MiB of memory"), "{error}");
}
