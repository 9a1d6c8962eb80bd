// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest sends: frames however they are cut, and a run told through them. And what its
//! console and its registers say when it ends.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tardy_lab::coordinator::{self, Options};
use tardy_lab::guest::console::{self, Means};
use tardy_lab::guest::expected::Expected;
use tardy_lab::guest::frame::{self, FrameKind, Frames};
use tardy_lab::guest::relay::{self, Heard, Relay};
use tardy_lab::guest::watch::most_bytes;
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::plan::Kinds;
use tardy_lab::run::{Event, Sink, What};
use tardy_model::copy::{COPY, CopyRecord, CopyThread, Sizes};
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;

fn written(frames: &[(FrameKind, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|(kind, content)| frame::write(&mut bytes, *kind, content).expect("written"));
    bytes
}

fn kinds() -> impl Strategy<Value = (FrameKind, Vec<u8>)> {
    let kind = prop_oneof![Just(FrameKind::Event), Just(FrameKind::Trial), Just(FrameKind::Output)];
    (kind, proptest::collection::vec(any::<u8>(), 0..200))
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        sent in proptest::collection::vec(kinds(), 0..6),
        cuts in proptest::collection::vec(1usize..70, 1..40),
    ) {
        let bytes = written(&sent);
        let (mut frames, mut got, mut at) = (Frames::default(), Vec::new(), 0);
        for cut in cuts.iter().cycle().take(bytes.len() + 1) {
            let end = (at + cut).min(bytes.len());
            frames.push(&bytes[at..end]);
            at = end;
            while let Some(frame) = frames.take().expect("sound") {
                got.push(frame);
            }
        }
        prop_assert_eq!(&got, &sent);
        prop_assert_eq!(frames.pending(), 0);
    }

    #[test]
    fn a_changed_byte_never_makes_another_frame(
        sent in kinds(),
        at in any::<prop::sample::Index>(),
        change in 1u8..,
    ) {
        let mut bytes = written(&[sent]);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let mut frames = Frames::default();
        frames.push(&bytes);
        // It is damaged, or waits for more.
        prop_assert!(!matches!(frames.take(), Ok(Some(_))));
    }
}

/// Keeps what it hears.
#[derive(Default)]
struct Kept {
    events: Vec<String>,
    trials: Vec<(TrialRecord, Vec<(String, Batch)>)>,
    output: Vec<(String, Vec<u8>)>,
}

impl Sink for Kept {
    fn event(&mut self, event: Event) {
        // The host's time is another one.
        self.events.push(format!("{:?}", event.what));
    }
    fn load_output(&mut self, output: Vec<(String, Vec<u8>)>) {
        self.output = output;
    }
    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.trials.push((record.clone(), streams.to_vec()));
        Ok(())
    }
}

fn simulated() -> tardy_spec::experiment::Experiment {
    let source = tardy_spec::ready_made("host-to-host").expect("ready-made");
    let set = ["stream.ctl.port=sim", "stream.ctl.count=300", "trials=3"].map(str::to_owned);
    tardy_spec::load(&source, &set).expect("it loads")
}

/// One whose load is a program, in two instances.
fn with_programs() -> tardy_spec::experiment::Experiment {
    let text = tardy_tests::experiment("program that runs twice");
    tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text: text.to_owned() }, &[]).expect("it loads")
}

fn run(sink: &mut dyn Sink) {
    let stop = AtomicBool::new(false);
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { version: "0", stop: &stop, kinds: Kinds::default(), clocks: &one_host };
    let mut steward = Steward::new(folder.path(), Path::new("tardy"), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let found = coordinator::check(&simulated(), &Kinds::default(), &mut hosts).expect("it can be run");
    let ended = coordinator::run(&simulated(), found, &mut hosts, &options, sink);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
}

#[test]
fn a_run_told_over_a_port_is_the_run() {
    let mut here = Kept::default();
    run(&mut here);
    let mut relay = Relay::new(Vec::new());
    run(&mut relay);
    relay.load_output(vec![("bulk.out".to_owned(), vec![0, 255, 10, 13, 3])]);
    let failed = Some("no".to_owned());
    relay.say(What::Ended { interrupted: false, failed, exit_code: Some(3), not_put_back: None });
    let (mut there, mut ended) = (Kept::default(), None);
    let (mut of_trials, mut of_programs) = (Expected::of(&simulated()), Expected::of(&with_programs()));
    let mut frames = Frames::default();
    frames.push(&relay.into_port());
    while let Some((kind, bytes)) = frames.take().expect("sound") {
        // No experiment has both: no program runs in simulated time.
        let expected = if kind == FrameKind::Output { &mut of_programs } else { &mut of_trials };
        if let Heard::Over { failed } = relay::deliver(kind, &bytes, expected, &mut there).expect("sense") {
            ended = failed;
        }
    }
    assert_eq!(ended, Some(("no".to_owned(), 3)));
    assert_eq!(there.events, here.events);
    assert_eq!(there.output, [("bulk.out".to_owned(), vec![0, 255, 10, 13, 3])]);
    assert_eq!(here.trials.len(), 3);
    for (there, here) in there.trials.iter().zip(&here.trials) {
        assert_eq!(there.1, here.1, "every sample");
        assert_eq!(there.0, here.0, "the record");
    }
}

#[test]
fn a_guest_that_sent_for_ever_filled_the_disk() {
    let source = |count: u32| {
        let text = format!("trials = 3\n{}count = {count}\n", tardy_tests::experiment("stream from a to b"));
        tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[]).expect("it loads")
    };
    let (small, large) = (most_bytes(&source(1)), most_bytes(&source(10_000_000)));
    // A trial's samples are far smaller than the memory that it is measured in.
    assert!(small > 64 << 20 && large > small + 3 * 10_000_000 * 200, "{small} {large}");
    let one = written(&[(FrameKind::Event, b"{}".to_vec())]);
    let mut frames = Frames::of_guest(256 << 20).at_most(10 * one.len() as u64);
    for _ in 0..10 {
        frames.push(&one);
        assert!(frames.take().expect("sound").is_some());
    }
    frames.push(&one);
    let error = frames.take().expect_err("too much").to_string();
    assert!(error.contains("more bytes have come than the experiment can bring"), "{error}");
}

#[test]
fn samples_of_uneven_columns_are_refused() {
    let mut kept = Kept::default();
    run(&mut kept);
    let (record, mut streams) = kept.trials.remove(0);
    streams[0].1.outcome.pop();
    let packets = packets_of(&streams);
    let bytes = relay::trial_bytes(&record, &streams).expect("written");
    let why = relay::trial_of(&bytes, |_| Ok(&packets)).expect_err("uneven");
    assert!(why.contains("columns of different lengths"), "{why}");
    for end in 0..bytes.len().min(4_000) {
        assert!(relay::trial_of(&bytes[..end], |_| Ok(&packets)).is_err(), "cut at {end}");
    }
}

fn packets_of(streams: &[(String, Batch)]) -> BTreeMap<String, u32> {
    streams.iter().map(|(name, batch)| (name.clone(), batch.len() as u32)).collect()
}

#[test]
fn streams_without_packets_took_twenty_times_their_bytes_in_memory() {
    let mut kept = Kept::default();
    run(&mut kept);
    let (record, mut streams) = kept.trials.remove(0);
    let packets = packets_of(&streams);
    let reported = |streams: &[(String, Batch)]| {
        let bytes = relay::trial_bytes(&record, streams).expect("written");
        relay::trial_of(&bytes, |_| Ok(&packets)).map(|(_, streams)| streams.len())
    };
    assert_eq!(reported(&streams), Ok(streams.len()));
    let many = vec![(streams[0].0.clone(), Batch::default()); 100_000];
    assert!(reported(&many).is_err_and(|why| why.contains("samples of 100000 streams came")));
    let own = std::mem::take(&mut streams[0].0);
    assert!(reported(&streams).is_err_and(|why| why.contains("has no stream ``")));
    streams[0].0 = own;
    let fewer: BTreeMap<String, u32> = packets.keys().map(|name| (name.clone(), 1)).collect();
    let bytes = relay::trial_bytes(&record, &streams).expect("written");
    let why = relay::trial_of(&bytes, |_| Ok(&fewer)).expect_err("too many packets");
    assert!(why.ends_with("samples, and 1 packets"), "{why}");
}

/// What comes of a guest that says so, of an experiment of one cell with 3 trials.
fn reported(kind: FrameKind, bytes: &[u8], expected: &mut Expected) -> Result<(), String> {
    let mut kept = Kept::default();
    match relay::deliver(kind, bytes, expected, &mut kept) {
        Ok(_) => Ok(()),
        Err(relay::Untold::Nonsense(why)) => {
            assert!(kept.trials.is_empty() && kept.events.is_empty(), "{why}: nothing of it is kept");
            Err(why)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn said(what: &What, expected: &mut Expected) -> Result<(), String> {
    reported(FrameKind::Event, &serde_json::to_vec(&Event::now(what.clone())).expect("JSON"), expected)
}

/// What a guest that lies does to its trial.
type Change<'a> = dyn Fn(&mut TrialRecord, &mut Vec<(String, Batch)>) + 'a;

#[test]
fn a_guests_trials_of_cells_that_the_experiment_does_not_have_were_kept() {
    let mut here = Kept::default();
    run(&mut here);
    let (record, streams) = &here.trials[0];
    let change = |change: &Change<'_>| {
        let (mut record, mut streams) = (record.clone(), streams.clone());
        change(&mut record, &mut streams);
        reported(
            FrameKind::Trial,
            &relay::trial_bytes(&record, &streams).expect("bytes"),
            &mut Expected::of(&simulated()),
        )
    };
    assert_eq!(change(&|_, _| {}), Ok(()));
    let whole = change(&|record, _| record.cell = "../evil".to_owned());
    assert_eq!(whole, Err("the experiment has no cell `../evil`".to_owned()));
    for n in [0, 4, u32::MAX] {
        let strange = change(&|record, _| record.n = n).expect_err("no such trial");
        assert!(strange.contains("has 3 trials and no trial"), "{strange}");
    }
    let columns = change(&|_, streams| streams[0].0 = "other".to_owned()).expect_err("no such stream");
    assert!(columns.contains("has no stream `other`"), "{columns}");
    let of_record = change(&|record, _| {
        let ctl = record.streams.remove("ctl").expect("a stream");
        record.streams.insert("other".to_owned(), ctl);
    });
    assert!(of_record.is_err_and(|why| why.contains("has no stream `other`")));
    // Twice would be more trials than there were.
    let mut expected = Expected::of(&simulated());
    let bytes = relay::trial_bytes(record, streams).expect("bytes");
    assert_eq!(reported(FrameKind::Trial, &bytes, &mut expected), Ok(()));
    assert!(reported(FrameKind::Trial, &bytes, &mut expected).is_err_and(|why| why.contains("came twice")));
    let of_none = What::Refused { cell: "x".to_owned(), why: "y".to_owned(), found: None };
    assert!(said(&of_none, &mut expected).is_err());
    let cell = simulated().cells[0].id.clone();
    let unstamped = |stream: &str| What::Unstamped { cell: cell.clone(), stream: stream.to_owned(), packets: 10 };
    assert!(said(&unstamped("other"), &mut expected).is_err_and(|why| why.contains("has no stream `other`")));
    assert_eq!(said(&unstamped("ctl"), &mut expected), Ok(()));
}

#[test]
fn a_guests_record_of_a_copy_was_not_looked_at() {
    let text = "name = \"x\"\nkind = \"copy\"\n[copy]\nbackend = \"sim\"\nthreads = 2\niterations = 10\n".to_owned();
    let experiment = tardy_spec::load(&tardy_spec::Source { name: "x.toml".into(), text }, &[]).expect("sound");
    let asked = experiment.cells[0].setup.copy.clone().expect("a copy");
    let mut here = Kept::default();
    run(&mut here);
    let (record, streams) = &here.trials[0];
    let came = |change: &dyn Fn(&mut CopyRecord)| {
        let mut of = CopyRecord {
            asked: asked.clone(),
            threads: vec![CopyThread { done: 10, ..CopyThread::default() }; 2],
            recording_ns: 0.0,
            window_bytes: [0, 0],
            sizes: Sizes::USUAL,
            provider: None,
            contention: None,
        };
        change(&mut of);
        let mut record = record.clone();
        record.cell.clone_from(&experiment.cells[0].id);
        let mut stream = record.streams.remove("ctl").expect("a stream");
        stream.copy = Some(of);
        record.streams = std::iter::once((COPY.to_owned(), stream)).collect();
        let streams = vec![(COPY.to_owned(), streams[0].1.clone())];
        Expected::of(&experiment).trial(&record, &streams)
    };
    assert_eq!(came(&|_| {}), Ok(()));
    let many = came(&|of| of.threads[0].done = u32::MAX).expect_err("too many");
    assert!(many.contains("4294967295 passes of 10"), "{many}");
    let threads = came(&|of| of.threads = vec![CopyThread::default(); 100_000]).expect_err("too many");
    assert!(threads.contains("2 threads with figures of 100000"), "{threads}");
    let other = came(&|of| of.asked.threads = 3).expect_err("not what was asked for");
    assert!(other.contains("than the experiment asks for"), "{other}");
    // And no stream of packets has figures of a copy.
    let mut strange = record.clone();
    let copy = CopyRecord {
        asked: asked.clone(),
        threads: vec![CopyThread::default(); 2],
        recording_ns: 0.0,
        window_bytes: [0, 0],
        sizes: Sizes::USUAL,
        provider: None,
        contention: None,
    };
    strange.streams.get_mut("ctl").expect("a stream").copy = Some(copy);
    let why = Expected::of(&simulated()).trial(&strange, streams).expect_err("no copy");
    assert!(why.contains("stream `ctl` is no copy"), "{why}");
}

#[test]
fn a_guest_that_said_one_thing_again_and_again_had_the_manifest_written_each_time() {
    let mut expected = Expected::of(&simulated());
    let cell = simulated().cells[0].id.clone();
    let again = What::Short { cell, what: "too little".to_owned() };
    let heard = (0..1_000).take_while(|_| said(&again, &mut expected).is_ok()).count();
    assert_eq!(heard, 64 + 64 + 4, "for the run, for its one cell, and for its stream");
}

#[test]
fn a_guest_that_says_what_only_its_host_can_know_is_refused() {
    let cell = simulated().cells[0].id.clone();
    let kept = What::TrialKept { cell: cell.clone(), n: 1, valid: Some(true) };
    let broken = What::TrialBroken { cell, n: 1, why: "so".to_owned() };
    let booted = What::GuestBooted { boot_cpu_ns: 1, boot_ns: None };
    for what in [kept, broken, booted] {
        let why = said(&what, &mut Expected::of(&simulated())).expect_err("the host's");
        assert_eq!(why, "it says what only its host can know");
    }
}

#[test]
fn what_a_kernel_answered_took_two_hundred_times_its_size() {
    let built = |bytes: usize| {
        let says = format!("[{}0]", "0,".repeat(bytes / 2));
        let read = format!("{{\"command\":\"tc qdisc show\",\"says\":{says}}}");
        let built = format!("{{\"read_back\":[{read}],\"stations\":{{}},\"pids\":{{}}}}");
        format!("{{\"at\":1,\"what\":{{\"built\":{built}}}}}").into_bytes()
    };
    let mut expected = Expected::of(&simulated());
    assert_eq!(reported(FrameKind::Event, &built(900_000), &mut expected), Ok(()));
    let much = reported(FrameKind::Event, &built(2_000_000), &mut expected).expect_err("too much");
    assert!(much.contains("of 1048576 bytes are the most"), "{much}");
    // The text itself is what is kept, and it comes out as it went in.
    let read: tardy_model::manifest::ReadBack =
        serde_json::from_str("{\"command\":\"x\",\"says\": {\"b\" : [1, 2.50]} }").expect("it reads");
    assert_eq!(read.says.text(), "{\"b\" : [1, 2.50]}");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), "{\"command\":\"x\",\"says\":{\"b\" : [1, 2.50]}}");
}

#[test]
fn two_bytes_of_a_guest_became_an_entry_of_a_programs_output_or_a_file() {
    let output = |entries: usize| {
        let entries: Vec<(String, Vec<u8>)> = (0..entries).map(|n| (n.to_string(), Vec::new())).collect();
        postcard::to_stdvec(&entries).expect("bytes")
    };
    let mut expected = Expected::of(&with_programs());
    let many = reported(FrameKind::Output, &output(5), &mut expected).expect_err("two instances have two ends each");
    assert!(many.contains("5 programs came, and the loads start at most 4"), "{many}");
    assert!(reported(FrameKind::Output, &output(4), &mut expected).is_err_and(|why| why.contains("came twice")));
    assert_eq!(reported(FrameKind::Output, &output(4), &mut Expected::of(&with_programs())), Ok(()));
    assert!(reported(FrameKind::Output, &output(1), &mut Expected::of(&simulated())).is_err(), "it has no such load");
}

#[test]
fn a_guest_that_began_a_trial_again_and_again_kept_the_host_from_hearing_a_signal() {
    let mut expected = Expected::of(&simulated());
    let cell = simulated().cells[0].id.clone();
    let trial = |n| What::Trial { cell: cell.clone(), n, order: 0, of: 3 };
    assert_eq!(said(&trial(1), &mut expected), Ok(()));
    assert!(said(&trial(1), &mut expected).is_err());
    let built = What::Built { read_back: Vec::new(), stations: Default::default(), pids: Default::default() };
    let heard = (0..100).take_while(|_| said(&built, &mut expected).is_ok()).count();
    assert_eq!(heard, 4, "before each of three trials, and once more");
}

#[test]
fn notes_of_a_guest_that_lies_filled_the_hosts_memory() {
    let mut here = Kept::default();
    run(&mut here);
    let (mut record, streams) = here.trials.remove(0);
    let spans = vec![(1, 1); 20_000];
    let of = record.streams.get_mut("ctl").expect("a stream");
    of.own_between =
        vec![tardy_model::trial::Between { side: tardy_model::stream::Side::Tx, cpu: None, start_ns: 0, spans }];
    let bytes = relay::trial_bytes(&record, &streams).expect("bytes");
    let much = reported(FrameKind::Trial, &bytes, &mut Expected::of(&simulated())).expect_err("of 300 packets");
    assert!(much.contains("more notes of tardy's own work than packets"), "{much}");
}

#[test]
fn a_consoles_end_says_what_went_wrong() {
    let panic = b"\x1b[2J\x1b[0;37mbooting\r\n[    1.2] VFS: Cannot open root device\r\n[    1.3] Kernel panic - not syncing: VFS: \
        Unable to mount root fs\r\n[    1.4] CPU: 0 PID: 1\r\n";
    let end = console::how_it_ended(panic);
    assert_eq!(end.means, Means::Panic);
    assert_eq!(end.lines[0], "[    1.3] Kernel panic - not syncing: VFS: Unable to mount root fs");
    assert_eq!(end.lines.len(), 2);
    let memory =
        b"a\n[    9.1] Out of memory: Killed process 77 (tardy)\n[    9.2] Kernel panic - not syncing: no init\n";
    assert_eq!(console::how_it_ended(memory).means, Means::OutOfMemory);
    let many: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let end = console::how_it_ended(many.as_bytes());
    assert_eq!((end.means, end.lines.len(), &end.lines[7][..]), (Means::Nothing, 8, "line 99"));
    assert_eq!(console::how_it_ended(b"\xff\xfe\x00").to_string(), "its console ends: \u{fffd}\u{fffd}");
    assert_eq!(console::how_it_ended(b"").to_string(), "its console says nothing");
}

#[test]
fn a_guest_that_hung_was_ended_without_a_word_on_where_it_was() {
    // As QEMU's monitor prints it: the command as it is typed, then the registers, then the prompt.
    let shown = "QEMU 7.2.22 monitor - type 'help' for more information\r\n(qemu) i\x1b[K\x1b[Dinfo registers -a\x1b[K\r\n\
                 \r\nCPU#0\r\nRAX=0000000000000000 RBX=0000000000000000\r\n\
                 RIP=ffffffff81c0e5cb RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n\
                 \r\nCPU#1\r\nRIP=00000000004011f0 RFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=0\r\n(qemu) ";
    assert_eq!(
        console::processors(shown),
        "its processors: CPU#0 RIP=ffffffff81c0e5cb RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1 / \
         CPU#1 RIP=00000000004011f0 RFL=00000202 [-------] CPL=3 II=0 A20=1 SMM=0 HLT=0"
    );
    let kept = console::registers(shown);
    assert!(kept.starts_with("CPU#0\nRAX=0000") && kept.ends_with(" HLT=0\n") && !kept.contains('\r'), "{kept}");
    for nothing in ["", "(qemu) ", "CPU#0\r\n"] {
        assert_eq!(console::processors(nothing), "QEMU does not say where its processors are");
    }
    assert_eq!(console::registers("QEMU 7.2.22 monitor\r\n(qemu) "), "");
}
