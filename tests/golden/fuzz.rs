// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every input of the fuzzers' corpus again, seeds and what they found: each ends in a result or
//! in one error. So a change that breaks a target, or falls back into an old fault, is seen
//! without a fuzzer. Its lock file, which nothing else reads, is held too.
//!
//! These tests verify the check sum of samples. Fuzzing ignores it, so `fuzz/run.sh 0` also reads
//! what follows a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tardy_fuzz_bodies::corpus::{self, Inputs};
use tardy_fuzz_bodies::{experiment, frame, hints, message, run_folder, samples};

fn fuzz() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz")).to_owned()
}

fn inputs(target: &str) -> Inputs {
    corpus::read(target).unwrap_or_else(|error| panic!("{}: {error}", corpus::archive(target).display()))
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
    // Leaf after leaf of the first records: gates, launch times and counters among them.
    for file in 0..=u8::MAX {
        let Some(leaves) = run_folder::leaves_of_record(file) else { continue };
        for leaf in 0..leaves as u16 {
            let [high, low] = leaf.to_be_bytes();
            for worse in [0, 3] {
                run_folder::input(&[10, file, high, low, worse], false);
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
        // What a fuzzer kept has its sum for a name; a person's seeds and regressions are tried
        // whole.
        let whole = !(name.len() == 40 && name.chars().all(|c| c.is_ascii_hexdigit()));
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
