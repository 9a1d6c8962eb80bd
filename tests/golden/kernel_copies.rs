// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies by threads of the kernel: what its own test and tardy's test module print, and what its
//! tracepoints show of waits for locks, read from text as a kernel wrote it; and how a report shows
//! these waits.

use crate::help::tardy;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tardy_engine::copy::contention::lines::{LockEvent, LockWaits, event};
use tardy_engine::copy::dmatest::lines::{message, summary};
use tardy_engine::copy::sgtest::lines::{Line, line};
use tardy_lab::guest::devices;
use tardy_model::copy::{Contention, KernelLock, MOST_LOCKS};

#[test]
fn what_the_kernel_prints_of_its_threads_is_read_as_it_is_written() {
    let line = "dmatest: dma0chan2-copy1: summary 100 tests, 0 failures 101.14 iops 925 KB/s (0)";
    let record = format!("6,1234,98765432,-;{line}\n SUBSYSTEM=dma\n");
    assert_eq!(message(&record), Some((98_765_432, line)));
    let found = summary(&record).expect("a summary");
    assert_eq!((found.at_us, found.channel.as_str(), found.thread), (98_765_432, "dma0chan2", 1));
    let figures = &found.figures;
    assert_eq!((figures.tests, figures.failures, figures.kb_s), (100, 0, 925));
    assert!((figures.iops - 101.14).abs() < 1e-9);
    assert_eq!(figures.line, line);
    let failed = "4,1,5,-;dmatest: dma1chan0-copy0: summary 7 tests, 3 failures 2.50 iops 0 KB/s (-110)";
    let failed = summary(failed).expect("a summary");
    assert_eq!((failed.figures.failures, failed.code), (3, -110));
    // A thread that found no memory for its buffers counts no failure.
    let none = "4,1,5,-;dmatest: dma1chan0-copy0: summary 0 tests, 0 failures 0.00 iops 0 KB/s (-12)";
    let none = summary(none).expect("a summary");
    assert_eq!((none.figures.failures, none.code), (0, -12));
    for other in [
        "6,1,5,-;dmatest: Started 1 threads using dma0chan0",
        "6,1,5,-;dmatest: dma0chan0-copy0: dstbuf[0x0] not copied! Expected d8, got 2b",
        "6,1,5,-;other: dma0chan0-copy0: summary 1 tests, 0 failures 1.00 iops 1 KB/s (0)",
        "no record",
        "6,1,x,-;dmatest: dma0chan0-copy0: summary 1 tests, 0 failures 1.00 iops 1 KB/s (0)",
        "6,1,5,-;dmatest: dma0chan0-copy0: summary 1 tests, 0 failures",
        "6,1,5,-;dmatest: dma0chan0-copy0: summary 1 tests, 0 failures 1.00 iops 1 KB/s",
    ] {
        assert_eq!(summary(other), None, "{other}");
    }
}

#[test]
fn what_the_test_module_keeps_is_read_as_it_is_written() {
    let text =
        "tardy_sgtest: dma0chan1-sg3: summary 9 of 10 chains of 4 descriptors of 4096 bytes, 0 failures, 81250 ns";
    let Some(Line::Thread(of)) = line(text) else { panic!("a thread") };
    assert_eq!((of.channel.as_str(), of.thread, of.done, of.asked), ("dma0chan1", 3, 9, 10));
    assert_eq!((of.descriptors, of.bytes, of.failures, of.took_ns), (4, 4_096, 0, 81_250));
    let figures = of.figures();
    // 36 buffers of 4 KiB in 81.25 µs.
    assert_eq!((figures.tests, figures.kb_s, figures.line.as_str()), (36, 1_772_307, text));
    assert!((figures.iops - 36.0 / 81.25e-6).abs() < 1e-3, "{figures:?}");
    let none = text.replace("9 of 10", "0 of 10").replace("81250 ns", "0 ns");
    let Some(Line::Thread(of)) = line(&none) else { panic!("a thread") };
    assert_eq!((of.figures().tests, of.figures().iops, of.figures().kb_s), (0, 0.0, 0));
    let pass = Line::Pass { thread: 3, begin_ns: 1_764_538_263_000_000_000, end_ns: 1_764_538_263_000_012_345 };
    assert_eq!(line("3 1764538263000000000 1764538263000012345"), Some(pass));
    let strange = [
        "3 5 4",
        "3 5",
        "3 5 6 7",
        "-1 5 6",
        "",
        "dmatest: dma0chan1-copy0: summary 9 tests, 0 failures 1.00 iops 1 KB/s (0)",
        &text.replace("tardy_sgtest", "other"),
        &text.replace("-sg3", "-copy3"),
        &text.replace("81250 ns", "81250 ns more"),
        &text.replace("4096 bytes", "many bytes"),
    ];
    for other in strange {
        assert_eq!(line(other), None, "{other}");
    }
}

/// The first events of a guest with Linux 6.12.118 (Debian), of threads of tardy's test module, by
/// the kernel's own clock. The one that was the last has not ended.
const TRACE: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 28/28   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
   dma1chan1-sg0-152     [000] ...1.     4.754024: contention_begin: 000000005ba2c0df (flags=SPIN|MUTEX)
   dma1chan1-sg0-152     [000] .N.1.     4.760345: contention_end: 000000005ba2c0df (ret=0)
   dma0chan0-sg7-135     [000] ...1.     4.798089: contention_begin: 00000000ac023dcd (flags=SPIN|MUTEX)
   dma0chan0-sg7-135     [000] .N.1.     4.804107: contention_end: 00000000ac023dcd (ret=0)
   dma1chan0-sg2-146     [000] ...1.     4.839236: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg2-146     [000] .N.1.     4.848117: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg2-146     [000] ...1.     4.880494: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg2-146     [000] ...2.     4.885913: contention_begin: 0000000097ab3831 (flags=MUTEX)
   dma1chan0-sg1-145     [001] ...1.     4.888734: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg1-145     [001] ...1.     4.888781: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg4-148     [001] ...1.     4.889861: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg4-148     [001] ...1.     4.889866: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg4-148     [001] ...1.     4.890950: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg4-148     [001] ...1.     4.890954: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg1-145     [001] ...1.     4.891635: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg1-145     [001] ...1.     4.891638: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg4-148     [001] ...1.     4.892659: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg4-148     [001] ...1.     4.892663: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg1-145     [001] ...1.     4.892891: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg1-145     [001] ...1.     4.892895: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg4-148     [001] ...1.     4.893982: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg4-148     [001] ...1.     4.893986: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg1-145     [001] ...1.     4.894699: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg1-145     [001] ...1.     4.894702: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg4-148     [001] ...1.     4.895396: contention_begin: 0000000097ab3831 (flags=SPIN|MUTEX)
   dma1chan0-sg4-148     [001] ...1.     4.895399: contention_end: 0000000097ab3831 (ret=0)
   dma1chan0-sg2-146     [000] ...2.     4.896676: contention_end: 0000000097ab3831 (ret=0)
   dma1chan1-sg3-155     [001] ...1.     4.908720: contention_begin: 000000005ba2c0df (flags=SPIN|MUTEX)
";

fn joined(text: &str) -> Contention {
    let mut waits = LockWaits::default();
    text.lines().for_each(|line| waits.push(line));
    waits.finish(1_000, |ns| ns as i64)
}

#[test]
fn a_trace_of_the_real_kernel_comes_to_the_waits_that_are_in_it() {
    let found = joined(TRACE);
    let lock = |lock: &str, waits, sum_us: i64, max_us: i64| KernelLock {
        lock: lock.to_owned(),
        kind: "mutex".to_owned(),
        waits,
        sum_ns: sum_us * 1_000,
        max_ns: max_us * 1_000,
    };
    // By hand: of the first, 8881, 16182 over two beginnings, 47, 5, and seven of 3 or 4 µs.
    let all = [
        lock("0000000097ab3831", 11, 25_140, 16_182),
        lock("000000005ba2c0df", 1, 6_321, 6_321),
        lock("00000000ac023dcd", 1, 6_018, 6_018),
    ];
    assert_eq!(found.locks, all);
    assert_eq!((found.half, found.lost, found.other_waits), (1, 0, 0));
}

#[test]
fn a_wait_for_a_lock_goes_from_its_first_beginning_to_its_end() {
    let begin = "   dma0chan0-sg0-97      [001] .....     9.000010: contention_begin: 00000000a1 (flags=SPIN|MUTEX)";
    let again = "   dma0chan0-sg0-97      [001] .....     9.000020: contention_begin: 00000000a1 (flags=MUTEX)";
    let end = "   dma0chan0-sg0-97      [000] .....     9.000045: contention_end: 00000000a1 (ret=0)";
    let of = LockEvent { task: 97, at: 9_000_010_000, lock: "00000000a1", flags: Some("SPIN|MUTEX") };
    assert_eq!(event(begin), Some(of));
    assert_eq!(event(end).expect("an end").flags, None);
    // Of another task and another lock at the same time, in an interrupt of the first.
    let other = "   dma1chan0-sg1-98      [000] d.h1.     9.000030: contention_begin: 00000000a1 (flags=SPIN|READ)\n   \
                 dma0chan0-sg0-97      [001] d.h1.     9.000031: contention_begin: 00000000b2 (flags=SPIN)\n   \
                 dma0chan0-sg0-97      [001] d.h1.     9.000032: contention_end: 00000000b2 (ret=0)\n   \
                 dma1chan0-sg1-98      [000] d.h1.     9.000033: contention_end: 00000000a1 (ret=0)";
    let found = joined(&[begin, again, other, end].join("\n"));
    let lock = |lock: &str, kind: &str, sum_ns| KernelLock {
        lock: lock.to_owned(),
        kind: kind.to_owned(),
        waits: 1,
        sum_ns,
        max_ns: sum_ns,
    };
    let all = [
        lock("00000000a1", "mutex", 35_000),
        lock("00000000a1", "spin|read", 3_000),
        lock("00000000b2", "spin", 1_000),
    ];
    assert_eq!(found.locks, all);
    assert_eq!((found.half, found.lost, found.other_waits, found.unit_ns), (0, 0, 0, 1_000));
    assert_eq!(joined(&[begin, again].join("\n")).half, 1, "it never ended");
    assert_eq!(joined(&[end, begin, end].join("\n")).half, 1, "one began before");
}

#[test]
fn readings_of_the_counter_are_no_seconds() {
    let at =
        |stamp: &str| format!("   dma0chan0-sg0-97  [001] ..... {stamp}: contention_begin: 00000000a1 (flags=SPIN)");
    let read = |stamp: &str| event(&at(stamp)).map(|event| event.at);
    assert_eq!(read("123456789012345"), Some(123_456_789_012_345));
    assert_eq!(read("12.000345"), Some(12_000_345_000));
    for strange in ["12.345", "x", "-5", "1.2.3", "99999999999999999999", "99999999999.000000"] {
        assert_eq!(read(strange), None, "{strange}");
    }
    let mut waits = LockWaits::default();
    waits.push(&at("1000"));
    waits.push("   dma0chan0-sg0-97  [000] ..... 4000: contention_end: 00000000a1 (ret=0)");
    let found = waits.finish(1, |ticks| ticks as i64 / 3);
    assert_eq!((found.locks[0].sum_ns, found.unit_ns), (1_000, 1));
}

#[test]
fn events_that_were_lost_are_counted() {
    assert_eq!(joined("# entries-in-buffer/entries-written: 120/150   #P:2").lost, 30);
    assert_eq!(joined("# entries-in-buffer/entries-written: 120/120   #P:2").lost, 0);
    assert_eq!(joined("CPU:1 [LOST 7 EVENTS]\nCPU:0 [LOST 5 EVENTS]").lost, 12);
    let strange =
        ["# entries-in-buffer/entries-written: 9/8", "CPU:1 [LOST many EVENTS]", "[LOST 3 EVENTS]", "", "###"];
    for strange in strange {
        let found = joined(strange);
        assert_eq!((found.lost, found.half, found.locks.len()), (0, 0, 0), "{strange}");
    }
}

#[test]
fn of_many_locks_the_longest_are_listed_and_the_others_counted() {
    let pair = |lock: usize| {
        let of = |at: usize, event: &str, more: &str| {
            format!("   dma0chan0-sg0-97  [001] .....     1.{at:06}: {event}: {lock:016x} ({more})\n")
        };
        of(0, "contention_begin", "flags=SPIN") + &of(lock + 1, "contention_end", "ret=0")
    };
    let found = joined(&(0..50).map(pair).collect::<String>());
    assert_eq!((found.locks.len(), found.other_waits), (MOST_LOCKS, 50 - MOST_LOCKS as u64));
    assert_eq!((found.locks[0].sum_ns, found.locks[MOST_LOCKS - 1].sum_ns), (50_000, 35_000));
}

/// What a report shows of a simulated copy whose record is given these waits, each line with one
/// space between words.
fn shown(contention: &Value, format: &str) -> String {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("run");
    let sets = ["--set", "copy.backend=sim", "--set", "copy.iterations=20", "--trials", "1"];
    let output = Command::new(tardy()).args(["run", "copy", "--out"]).arg(&out).args(sets).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = out.join("trials/all/1/trial.json");
    let change = |file: &Path, change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&std::fs::read(file).expect("its record")).expect("JSON");
        change(&mut value);
        std::fs::write(file, value.to_string()).expect("a file");
    };
    change(&file, &|record| record["streams"]["copy"]["copy"]["contention"] = contention.clone());
    let output = Command::new(tardy()).args(["report", "--format", format]).arg(&out).env("COLUMNS", "200").output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_kernel_without_the_tracepoints_is_one_note_and_no_figure() {
    let source = "lock:contention_begin, lock:contention_end";
    let none = json!({"source": source, "why": "this kernel has none", "unit_ns": 0, "locks": [], "other_waits": 0,
                      "half": 0, "lost": 0});
    let text = shown(&none, "text");
    assert_eq!(text.matches(source).count(), 1, "{text}");
    assert!(text.contains(&format!("the kernel's: no figures of {source}: this kernel has none")), "{text}");
    let results: Value = serde_json::from_str(&shown(&none, "json")).expect("results");
    let of = &results["cells"][0]["streams"]["copy"]["copy"]["contention"];
    assert_eq!((&of["why"], &of["locks"]), (&json!("this kernel has none"), &json!([])));
}

#[test]
fn waits_for_the_kernels_locks_are_in_every_report() {
    let locks = json!([{"lock": "00000000a1", "kind": "mutex", "waits": 1234, "sum_ns": 5_000_000, "max_ns": 40_000}]);
    let of = json!({"source": "lock:contention_begin, lock:contention_end", "why": null, "unit_ns": 1000,
                    "locks": locks, "other_waits": 3, "half": 0, "lost": 17});
    for format in ["text", "md", "org", "html"] {
        let text = shown(&of, format).replace("&#39;", "'").replace(['\u{202f}', '\u{2009}', '\u{a0}'], " ");
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains("the kernel's, mutex 00000000a1: 1"), "{format}: {plain}");
        assert!(plain.contains("waits, 5.0 ms in all, the longest 40"), "{format}: {plain}");
        assert!(plain.contains("; 3 waits for other locks are not listed; 17 events were lost"), "{format}: {plain}");
    }
    let none = json!({"source": "lock:contention_begin, lock:contention_end", "why": null, "unit_ns": 1000,
                      "locks": [], "other_waits": 0, "half": 0, "lost": 0});
    let text = shown(&none, "text");
    assert!(text.contains("lock:contention_end showed no wait of these threads"), "{text}");
}

#[test]
fn a_guest_gets_the_modules_of_its_tests_alone() {
    let modules = |backends: &str| {
        let text = format!(
            "name = \"c\"\nkind = \"copy\"\n[copy]\nbuffers = 1\n[matrix]\n\"copy.backend\" = [{backends}]\n\"copy.bytes\" = [\"64B\", \"128B\"]\n"
        );
        let experiment = tardy_spec::load(&tardy_spec::Source { name: "c.toml".into(), text }, &[]).expect("sound");
        (devices::modules(&experiment), devices::traces(&experiment))
    };
    assert_eq!(modules("\"cpu\""), (Vec::new(), false));
    assert_eq!(modules("\"dmatest\""), (vec!["tardy_softdma", "dmatest"], true));
    assert_eq!(modules("\"cpu\", \"sgtest\""), (vec!["tardy_softdma", "tardy_sgtest"], true));
    assert_eq!(modules("\"sgtest\", \"dmatest\""), (vec!["tardy_softdma", "dmatest", "tardy_sgtest"], true));
}
