// SPDX-License-Identifier: MIT OR Apache-2.0
//! Run folders and experiment files that are made to harm: each costs one clear error, and less
//! than 200 MB of memory, which the kernel sees to. The built binary is called, for what breaks
//! the program breaks it past every `catch_unwind`.
//!
//! And every input of the fuzzers' corpus again, seeds and what they found: each ends in a result
//! or in one error. So a change that breaks a target, or falls back into an old fault, is seen
//! without a fuzzer. Its lock file, which nothing else reads, is held too. These tests verify the
//! check sum of samples. Fuzzing ignores it, so `fuzz/run.sh 0` also reads what follows a wrong
//! one.

use crate::help::tardy;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tardy_fuzz_bodies::corpus::{self, Inputs};
use tardy_fuzz_bodies::{experiment, frame, hints, message, run_folder, samples};
use tardy_model::sample::Batch;
use tardy_model::time::MOST_SOURCES;
use tardy_store::{RunFolder, StoreError, write_samples};
use tempfile::TempDir;

/// Two hundred megabytes of address space, in KiB: more than the program may ever have in memory.
const MOST_KIB: u32 = 200_000_000 / 1024;

fn tardy_in_little_memory(args: &[&str]) -> Output {
    let limited = format!("ulimit -v {MOST_KIB}; exec \"$0\" \"$@\"");
    Command::new("sh").arg("-c").arg(limited).arg(tardy()).args(args).output().expect("sh starts")
}

/// It ends with 2, and one line says why.
fn refused(args: &[&str], says: &str) {
    let output = tardy_in_little_memory(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(stderr.contains(says) && stderr.lines().count() == 1 && stderr.len() < 2_000, "{args:?}: {stderr}");
    // The head of an export of samples is on its way when they are read.
    assert!(output.stdout.is_empty() || args[0] == "export", "{args:?}");
}

/// A sound run whose packets have gates, on port sim.
struct Run {
    keep: TempDir,
}

impl Run {
    fn new() -> Run {
        let keep = tempfile::tempdir().expect("a folder");
        let run = Run { keep };
        let file = run.keep.path().join("gated.toml");
        fs::write(&file, tardy_tests::experiment("gated")).expect("a file");
        let output =
            Command::new(tardy()).arg("run").arg(&file).arg("--out").arg(run.path()).output().expect("tardy starts");
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", String::from_utf8_lossy(&output.stderr));
        let good = tardy_in_little_memory(&["report", run.name(), "--format", "html"]);
        assert!(good.status.success(), "sound in little memory: {}", String::from_utf8_lossy(&good.stderr));
        run
    }

    fn path(&self) -> PathBuf {
        self.keep.path().join("run")
    }

    fn name(&self) -> &'static str {
        // A test is short, and its names few.
        Box::leak(self.path().display().to_string().into_boxed_str())
    }

    fn record(&self) -> PathBuf {
        self.path().join("trials/all/1/trial.json")
    }

    /// Rewrites the trial's record, and asks for every picture and export that reads it.
    fn with_record(&self, says: &str, change: impl Fn(&mut Value)) {
        let sound = fs::read(self.record()).expect("a record");
        let mut record: Value = serde_json::from_slice(&sound).expect("JSON");
        change(&mut record);
        fs::write(self.record(), record.to_string()).expect("written");
        self.refuse_all(says);
        fs::write(self.record(), sound).expect("written");
    }

    fn refuse_all(&self, says: &str) {
        let run = self.name();
        refused(&["report", run], says);
        refused(&["report", run, "--format", "html"], says);
        refused(&["compare", run, run], says);
        refused(&["export", run, "--to", "csv"], says);
    }
}

#[test]
fn a_packet_number_beyond_all_counts_is_one_error_and_no_memory() {
    let run = Run::new();
    let path = run.path().join("trials/all/1/samples.parquet");
    let folder = RunFolder::open(run.path()).expect("it opens");
    let batches = folder.batches("all", 1, "ctl").expect("samples");
    let sound: Vec<Batch> = batches.map(|batch| batch.expect("whole")).collect();
    assert_eq!(sound.len(), 1, "one batch");
    for (row, seq) in [(0, 1_i64 << 62), (39, 1 << 62), (39, i64::from(u32::MAX)), (0, -1), (1, 0), (0, i64::MIN)] {
        let mut batch = sound[0].clone();
        batch.seq[row] = seq;
        write_samples(&path, &[("ctl", &batch)]).expect("written");
        run.refuse_all("packet number");
        refused(&["export", run.name(), "--to", "hlog"], "packet number");
    }
    // What is within all counts and beyond this trial's has no memory either.
    let mut batch = sound[0].clone();
    batch.seq[39] = i64::from(u32::MAX) - 1;
    write_samples(&path, &[("ctl", &batch)]).expect("written");
    for format in ["text", "html", "csv"] {
        let output = tardy_in_little_memory(&["report", run.name(), "--format", format]);
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn gates_that_no_schedule_has_are_one_error_and_no_division_by_zero() {
    let run = Run::new();
    let gates = |record: &mut Value, field: &str, value: Value| {
        let gates = record.pointer_mut("/streams/ctl/launching/gate/gates").expect("the stream has gates");
        assert!(gates.get(field).is_some(), "{gates}");
        gates[field] = value;
    };
    for cycle_ns in [0, -1, i64::MIN, i64::MAX] {
        run.with_record("a cycle of gates takes", |record| gates(record, "cycle_ns", json!(cycle_ns)));
    }
    run.with_record("a cycle of gates begins", |record| gates(record, "offset_ns", json!(-1)));
    let window = |open: i64, close: i64| json!({"open_ns": open, "close_ns": close});
    let many: Vec<Value> = (0..1_025).map(|n| window(n, n + 1)).collect();
    run.with_record("gates have 1025 windows", |record| gates(record, "windows", json!(many)));
    for windows in [[window(5, 5), window(9, 10)], [window(5, 10), window(7, 12)], [window(-1, 5), window(9, i64::MAX)]]
    {
        run.with_record("a window of gates", |record| gates(record, "windows", json!(windows)));
    }
}

#[test]
fn half_a_million_sources_of_one_offset_took_hours_to_compare() {
    let run = Run::new();
    let reading = json!({"at_tai_ns": 1, "ahead_ns": 2, "bound_ns": 3});
    let offset = json!({"host": "rig", "first": reading, "last": reading, "method": "told"});
    let with = |record: &mut Value, end: &str, field: &str, value: Value| {
        let stream = record.pointer_mut("/streams/ctl").expect("a stream");
        stream["offsets"][end] = offset.clone();
        stream["offsets"][end][field] = value;
    };
    let source = json!({"method": "", "first": reading, "last": reading});
    let many = vec![source.clone(); 300_000];
    for end in ["tx", "rx"] {
        run.with_record("more than 32 sources", |record| with(record, end, "others", json!(many)));
    }
    let why = json!({"method": "", "why": ""});
    let many = vec![why; MOST_SOURCES + 1];
    run.with_record("more than 32 sources", |record| with(record, "rx", "left_out", json!(many)));
    // A comparison of two other hosts, of which the record has one or none.
    for other in ["tx", "rx", "host"] {
        let pair = |record: &mut Value| {
            with(record, "pair", "method", json!("told"));
            with(record, other, "method", json!("told"));
        };
        run.with_record("not both ends are on other hosts", pair);
    }
    // What is allowed is judged, whatever its numbers are.
    let sound = fs::read(run.record()).expect("a record");
    for odd in [i64::MIN, i64::MAX] {
        let mut record: Value = serde_json::from_slice(&sound).expect("JSON");
        let ends = |n: i64| json!({"at_tai_ns": n, "ahead_ns": odd, "bound_ns": 0});
        let other = json!({"method": "", "first": ends(-odd.max(1 - i64::MAX)), "last": ends(odd)});
        for end in ["tx", "rx", "pair"] {
            with(&mut record, end, "others", json!(vec![other.clone(); MOST_SOURCES]));
            let offset = &mut record["streams"]["ctl"]["offsets"][end];
            offset["last"] = json!({"at_tai_ns": odd, "ahead_ns": -odd.max(1 - i64::MAX), "bound_ns": 0});
            offset["host"] = json!(end);
        }
        fs::write(run.record(), record.to_string()).expect("written");
        for format in ["text", "html", "csv"] {
            let output = tardy_in_little_memory(&["report", run.name(), "--format", format]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 4)), "{odd} {format}: {stderr}");
        }
    }
}

#[test]
fn an_experiment_that_is_too_large_is_refused_wherever_it_is_read() {
    let run = Run::new();
    let path = run.path().join("experiment.toml");
    let sound = fs::read_to_string(&path).expect("an experiment");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(sound.as_bytes()).expect("written");
    let line = "# as a person would write it, again and again\n".repeat(1 << 12);
    (0..32_000_000 / line.len()).for_each(|_| file.write_all(line.as_bytes()).expect("written"));
    drop(file);
    let run = run.name();
    refused(&["report", run], "an experiment file has at most 1048576 bytes");
    refused(&["compare", run, run], "an experiment file has at most 1048576 bytes");
    refused(&["export", run, "--to", "prometheus"], "an experiment file has at most 1048576 bytes");
}

#[test]
fn a_file_of_json_that_no_run_writes_is_refused_unread() {
    let run = Run::new();
    for (name, bytes) in
        [("manifest.json", 65 << 20), ("results.json", 257 << 20), ("trials/all/1/trial.json", 65 << 20)]
    {
        let path = run.path().join(name);
        let sound = fs::read(&path).expect("a file");
        fs::OpenOptions::new().write(true).open(&path).expect("open").set_len(bytes).expect("holes");
        refused(&["report", run.name()], "it has more than");
        fs::write(&path, sound).expect("written");
    }
}

#[test]
fn a_list_that_stands_in_every_cell_is_counted_before_it_is_copied() {
    const SECOND: &str = tardy_tests::part("second stream");
    let keep = tempfile::tempdir().expect("a folder");
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
    let axes = format!(
        "[matrix]\n\"stream.ctl.size\" = [{}]\n\"stream.ctl.cycle\" = [{}]\n",
        list(&mut (64..164).map(|n| format!("\"{n}B\""))),
        list(&mut (100..200).map(|n| format!("\"{n}us\"")))
    );
    let head = tardy_tests::experiment("simulated stream");
    // On port sim no load runs.
    let built = tardy_tests::experiment("stream from a to b");
    let drops = format!("{head}sim.drop = [{}]\n{axes}", list(&mut (0..60_000).map(|n| n.to_string())));
    let words = format!(
        "{built}[load.x]\nkind = \"command\"\nfrom = \"a\"\ncommand = [{}]\n{axes}",
        list(&mut (0..100_000).map(|_| "\"a\"".to_owned()))
    );
    let streams: String =
        (0..254).map(|n| format!("{}port = \"sim\"\n", SECOND.replace("second", &format!("s{n}")))).collect();
    let limits = format!(
        "{head}{axes}[expect.ctl]\n\"scheduled..rx_kernel\" = [{}]\n",
        list(&mut (1..20_000).map(|n| format!("\"p50 < {n}ms\"")))
    );
    for (what, text) in
        [("drops", drops), ("words", words), ("streams", format!("{head}{streams}{axes}")), ("limits", limits)]
    {
        let file = keep.path().join(format!("{what}.toml"));
        fs::write(&file, &text).expect("a file");
        assert!(text.len() < 1 << 20, "{what}: {}", text.len());
        refused(&["plan", file.to_str().expect("UTF-8")], "of memory");
    }
}

#[test]
fn a_link_out_of_a_run_folder_brings_no_other_file_into_the_page() {
    let run = Run::new();
    let secret = run.keep.path().join("secret");
    fs::write(&secret, "PRIVATE KEY\n").expect("a file");
    let link = |below: &str, to: &Path| {
        let at = run.path().join(below);
        let _ = fs::remove_file(&at);
        symlink(to, &at).expect("a link");
    };
    link("commands.sh", &secret);
    let page = tardy_in_little_memory(&["report", run.name(), "--format", "html"]);
    assert!(page.status.success() && !String::from_utf8_lossy(&page.stdout).contains("PRIVATE KEY"));
    let folder = RunFolder::open(run.path()).expect("it opens");
    assert!(matches!(folder.commands(), Err(StoreError::LeadsOut { .. })));
    link("commands.sh", Path::new("../secret"));
    assert!(matches!(folder.commands(), Err(StoreError::LeadsOut { .. })));
    link("experiment.toml", &secret);
    refused(&["report", run.name()], "is a link that leads out of the run folder");
    // Nor does a folder on the way: another run's trials are not this one's.
    let trials = run.keep.path().join("elsewhere");
    fs::rename(run.path().join("trials"), &trials).expect("moved");
    symlink(&trials, run.path().join("trials")).expect("a link");
    assert!(matches!(folder.trials(), Err(StoreError::LeadsOut { .. })));
}

#[test]
fn a_folder_that_is_exchanged_under_a_run_gets_none_of_its_files() {
    let keep = tempfile::tempdir().expect("a folder");
    let (path, moved, victim) = (keep.path().join("run"), keep.path().join("moved"), keep.path().join("victim"));
    fs::write(&victim, "as it was\n").expect("a file");
    let run = RunFolder::create(&path).expect("a new folder");
    run.append_event(&json!({"event": "first"})).expect("appended");
    // What somebody does who owns the folder above.
    fs::rename(&path, &moved).expect("moved");
    fs::create_dir(&path).expect("another one");
    let names = ["experiment.toml", "commands.sh", "events.jsonl", "report.html", "trials", "guest"];
    names.iter().for_each(|name| symlink(&victim, path.join(name)).expect("a link"));
    run.write_experiment("name = \"x\"\n").expect("written");
    run.write_report(b"page").expect("written");
    run.append_commands("ip link").expect("appended");
    run.append_event(&json!({"event": "second"})).expect("appended");
    drop(run.begin_trial("all", 1).expect("begun"));
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "as it was\n");
    assert_eq!(fs::read_dir(&path).expect("a folder").count(), names.len(), "nothing came");
    for name in ["experiment.toml", "commands.sh", "report.html", "trials/all/1.partial"] {
        assert!(moved.join(name).exists(), "{name}");
    }
    assert_eq!(fs::read_to_string(moved.join("events.jsonl")).expect("text").lines().count(), 2);
}

#[test]
fn a_link_planted_in_a_run_folder_is_not_written_through() {
    let keep = tempfile::tempdir().expect("a folder");
    let (path, victim) = (keep.path().join("run"), keep.path().join("victim"));
    fs::write(&victim, "as it was\n").expect("a file");
    let run = RunFolder::create(&path).expect("a new folder");
    let names =
        ["experiment.toml", "experiment.toml.tmp", "commands.sh", "events.jsonl", "report.html", "report.html.tmp"];
    names.iter().for_each(|name| symlink(&victim, path.join(name)).expect("a link"));
    run.write_experiment("name = \"x\"\n").expect("it takes the link's place");
    run.write_report(b"page").expect("it takes the link's place");
    assert!(matches!(run.append_commands("ip link"), Err(StoreError::Link { .. })));
    assert!(matches!(run.append_event(&json!({})), Err(StoreError::Link { .. })));
    assert_eq!(fs::read_to_string(&victim).expect("it is there"), "as it was\n");
    assert_eq!(fs::read_to_string(path.join("report.html")).expect("text"), "page");
}

fn fuzz() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz")).to_owned()
}

fn inputs(target: &str) -> Inputs {
    corpus::read(target).unwrap_or_else(|error| panic!("{}: {error}", corpus::archive(target).display()))
}

/// True in `make soak`, which has the time to try everything.
fn is_soak() -> bool {
    std::env::var_os("TARDY_SOAK").is_some()
}

fn replay(target: &str, input: impl Fn(&str, &[u8])) {
    let inputs = inputs(target);
    assert!(inputs.len() >= 3, "{target} has {} inputs", inputs.len());
    for (name, bytes) in inputs {
        // The last one that is printed is the one that failed.
        println!("{target}: {name}");
        input(&name, &bytes);
    }
}

#[test]
fn the_corpus_of_fuzz_target_experiment_holds() {
    replay("experiment", |_, input| experiment::input(input));
}

#[test]
fn the_corpus_of_fuzz_target_frame_holds() {
    replay("frame", |_, input| frame::input(input));
}

#[test]
fn the_corpus_of_fuzz_target_hints_holds() {
    replay("hints", |_, input| _ = hints::input(input));
    let inputs = inputs("hints");
    for (seeds, has) in [(hints::whole(), true), (hints::broken(), false)] {
        for (name, bytes) in seeds {
            assert!(inputs.get(name) == Some(&bytes), "{name} is not what its function makes: run the example seeds");
            assert_eq!(hints::input(&bytes), has, "{name}");
        }
    }
}

#[test]
fn the_corpus_of_fuzz_target_message_holds() {
    replay("message", |_, input| _ = message::input(input));
}

#[test]
fn the_corpus_of_fuzz_target_message_does_not_stay_behind_the_protocol() {
    let write = "cargo build --release --locked --workspace --example seeds, and run it";
    let (mut kinds, inputs) = (BTreeSet::new(), inputs("message"));
    for (name, bytes) in message::seeds::seeds() {
        assert!(inputs.get(name) == Some(&bytes), "{name} is not what this protocol would say: {write}");
        let broken = ["a_false_length", "another_protocol"].contains(&name);
        assert_eq!(message::input(&bytes) == 0, broken, "{name}");
        kinds.extend(bytes.first().filter(|_| !broken).copied());
    }
    assert_eq!(kinds, BTreeSet::from([0, 2, 3, 4]), "answers, orders, orders behind a greeting, a guest");
    // What a fuzzer found in addition is mostly broken, as it should be. But if none of it
    // reaches a message any more, it was found with an older protocol.
    let heard = inputs.values().filter(|input| message::input(input) > 0).count();
    assert!(
        heard >= 40,
        "{heard} of {} inputs hold a message of this protocol: {write}; then fuzz/run.sh",
        inputs.len()
    );
}

#[test]
fn any_number_of_a_record_or_of_samples_may_be_anything() {
    // Leaf after leaf of the first records: gates, launch times and counters among them. Each of
    // them in one of two ways, and in the soak in both.
    for file in 0..=u8::MAX {
        let Some(leaves) = run_folder::leaves_of_record(file) else { continue };
        for leaf in 0..leaves as u16 {
            let [high, low] = leaf.to_be_bytes();
            for (worse, of) in [(0, 0), (3, 1)] {
                if is_soak() || leaf % 2 == of {
                    run_folder::input(&[10, file, high, low, worse], false);
                }
            }
        }
    }
    // Column after column of the samples, the first and a later row.
    for column in 0..25 {
        for row in [0, 5] {
            for number in 0..7 {
                run_folder::input(&[0xff, 0, 0, 0, column, 0, row, number], false);
            }
        }
    }
}

#[test]
fn the_corpus_of_fuzz_target_run_folder_holds() {
    run_folder::sound_is_reported();
    replay("run_folder", |name, input| {
        // What a fuzzer kept has its sum for a name: a third of that here, the rest in the soak. A
        // person's seeds and regressions are tried whole.
        let whole = !(name.len() == 40 && name.chars().all(|c| c.is_ascii_hexdigit()));
        let sum = || name.bytes().fold(0, |sum: u32, byte| sum + u32::from(byte));
        if !whole && !is_soak() && !sum().is_multiple_of(3) {
            return;
        }
        assert!(run_folder::input(input, whole), "an input without an edit tries nothing");
    });
}

#[test]
fn the_corpus_of_fuzz_target_samples_holds() {
    replay("samples", |_, input| _ = samples::input(input));
}

#[test]
fn the_corpus_of_fuzz_target_samples_does_not_stay_behind_the_format() {
    let write = "cargo build --release --locked --workspace --example seeds, and run it";
    let inputs = inputs("samples");
    for (seeds, is_whole) in [(samples::whole(), true), (samples::broken(), false)] {
        for (name, bytes) in seeds {
            assert!(inputs.get(name) == Some(&bytes), "{name} is not what the codec would write: {write}");
            assert_eq!(samples::input(&bytes), is_whole, "{name}");
        }
    }
}

#[test]
fn each_fuzz_target_has_its_corpus_and_all_of_it_stays_small() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    let built = manifest.split("[[bin]]").skip(1).filter_map(|bin| bin.split('"').nth(1)).map(str::to_owned);
    let (built, kept) = (built.collect::<BTreeSet<_>>(), corpus::targets().expect("the archives"));
    assert_eq!(built, kept.iter().cloned().collect());
    let called = fs::read_to_string(fuzz().join("targets/target.rs")).expect("the file of all targets");
    for target in &built {
        assert!(called.contains(&format!("\"{target}\" => {target}::input(bytes)")), "target {target} has no body");
    }
    let all: Vec<Vec<u8>> = kept.iter().flat_map(|target| inputs(target).into_values()).collect();
    let bytes: usize = all.iter().map(Vec::len).sum();
    assert!(bytes < 300 << 10, "{bytes} bytes in {} inputs", all.len());
}

/// What a lock file says each of our crates depends on, without versions.
fn locked(path: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(path).expect("a lock file");
    let quoted = |line: &str| line.split('"').nth(1).unwrap_or_default().to_owned();
    text.split("[[package]]")
        .filter_map(|package| {
            let name = quoted(package.lines().find(|line| line.starts_with("name = "))?);
            let needs = package.lines().filter(|line| line.starts_with(" \""));
            // A version stands there only if the file has two of the crate.
            let needs = needs.map(|line| quoted(line).split(' ').next().unwrap_or_default().to_owned());
            name.starts_with("tardy-").then(|| (name, needs.collect()))
        })
        .collect()
}

#[test]
fn the_lock_file_of_the_fuzz_targets_is_not_stale() {
    let ours = locked(&fuzz().join("../Cargo.lock"));
    let theirs = locked(&fuzz().join("Cargo.lock"));
    assert!(theirs.len() > 8, "{:?}", theirs.keys());
    for (name, needs) in theirs.iter().filter(|(name, _)| *name != "tardy-fuzz") {
        let of = ours.get(name).unwrap_or_else(|| panic!("fuzz/Cargo.lock knows {name}, which is no more"));
        assert_eq!(
            needs, of,
            "{name} in fuzz/Cargo.lock: cargo update --offline --manifest-path fuzz/Cargo.toml {name}"
        );
    }
}
