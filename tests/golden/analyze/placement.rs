// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placement that differs from what was asked for: the injected cause is reported, and without the
//! cause nothing is.

use super::fixture::{LEAD, batches, healthy_packets, record};
use super::validity::{assert_is, verdict};
use std::collections::BTreeMap;
use tardy_analyze::cell::CellAnalysis;
use tardy_model::placement::{CpuAsked, CpuWork, KvmWork, NapiThread, SoftirqBy, SoftirqRecord};
use tardy_model::result::{CellResult, MachinesPlacement};
use tardy_model::trial::{StreamRecord, TrialRecord};
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_model::xdp::{Core, CoreRecord, XdpMode, XdpRecord, XdpSeen};
use tardy_tests::xdp_record;

const COUNT: u32 = 10_000;

fn asked(cpu: &str, of: Option<&str>) -> CpuAsked {
    CpuAsked { cpu: cpu.to_owned(), of: of.map(str::to_owned) }
}

/// A trial whose receiver on CPU 1 is apart from its sender on CPU 0, and whose packets are taken
/// in on CPU 0, by these means.
fn placed(by: SoftirqBy) -> TrialRecord {
    let mut record = record(1, COUNT);
    let packets = u64::from(COUNT);
    record.before.work = BTreeMap::from([(0, CpuWork::default()), (1, CpuWork::default())]);
    record.after.work = BTreeMap::from([
        (0, CpuWork { net_rx: packets, net_tx: 4, packets: packets + 3, interrupts: 90_000, timer: 700 }),
        (1, CpuWork { net_rx: 12, net_tx: 0, packets: 12, interrupts: 40_000, timer: 300 }),
    ]);
    record.placement.asked = BTreeMap::from([
        ("ctl.tx".to_owned(), asked("auto", None)),
        ("ctl.rx".to_owned(), asked("different", Some("ctl.tx"))),
    ]);
    let thread =
        NapiThread { tid: 900, name: "napi/tardy0-1-7".into(), affinity: vec![0], cpu: Some(0), switches: 9_990 };
    let softirq = SoftirqRecord {
        device: "tardy0-1".to_owned(),
        by,
        asked: asked("different", Some("ctl.rx")),
        cpu: Some(0),
        packets,
        receivers: vec!["ctl.rx".to_owned()],
        threads: if by == SoftirqBy::Napi { vec![thread] } else { Vec::new() },
    };
    record.placement.softirq.insert("b".to_owned(), softirq);
    ctl(&mut record).rx.napi_id = Some(if by == SoftirqBy::Napi { 8_193 } else { 0 });
    ctl(&mut record).rx.migrations = Some(0);
    record
}

fn ctl(record: &mut TrialRecord) -> &mut StreamRecord {
    record.streams.get_mut("ctl").expect("the stream")
}

fn station(record: &mut TrialRecord) -> &mut SoftirqRecord {
    record.placement.softirq.get_mut("b").expect("the station")
}

/// A second stream, whose threads are on these CPUs.
fn add_stream(record: &mut TrialRecord, name: &str, tx: u32, rx: u32) {
    let mut stream = record.streams["ctl"].clone();
    for (thread, cpu, tid) in [(&mut stream.tx, tx, 201), (&mut stream.rx, rx, 202)] {
        (thread.cpu_asked, thread.affinity, thread.cpus_seen, thread.tid) = (Some(cpu), vec![cpu], vec![cpu], tid);
        thread.run_ns = Some(0);
    }
    record.streams.insert(name.to_owned(), stream);
}

fn judge(records: &[TrialRecord]) -> CellResult {
    let streams: Vec<String> = records[0].streams.keys().cloned().collect();
    let metrics = streams.iter().map(|stream| (stream.clone(), vec![LEAD])).collect();
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), metrics, Vec::new());
    for record in records {
        let batches = batches(&healthy_packets(1, COUNT as usize), 4_096);
        cell.trial(record, streams.iter().flat_map(|stream| batches.iter().map(move |batch| (stream.clone(), batch))));
    }
    cell.finish().result
}

fn verdicts(record: &TrialRecord) -> Vec<Verdict> {
    judge(std::slice::from_ref(record)).trials.remove(0).verdicts
}

#[track_caller]
fn assert_only(record: &TrialRecord, id: &str, level: Level, says: &str) -> Verdict {
    let verdicts = verdicts(record);
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    assert_eq!((verdicts[0].id.as_str(), verdicts[0].level), (id, level), "{}", verdicts[0].says);
    assert!(verdicts[0].says.contains(says), "{}", verdicts[0].says);
    verdicts[0].clone()
}

#[test]
fn placement_as_it_was_asked_is_silent() {
    for by in [SoftirqBy::Napi, SoftirqBy::Rps, SoftirqBy::Irq] {
        assert_eq!(verdicts(&placed(by)), []);
    }
    // A folder of an older version says nothing of all this.
    let mut old = placed(SoftirqBy::Rps);
    (old.before.work, old.after.work) = (BTreeMap::new(), BTreeMap::new());
    assert_eq!(verdicts(&old), []);
}

#[test]
fn a_trial_of_an_older_version_can_be_read() {
    fn strip(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                for new in ["placement", "work", "migrations", "napi_id"] {
                    fields.remove(new);
                }
                fields.values_mut().for_each(strip);
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut json = serde_json::to_value(placed(SoftirqBy::Napi)).expect("JSON");
    strip(&mut json);
    let old: TrialRecord = serde_json::from_value(json).expect("it is read");
    assert_eq!((old.placement.is_empty(), old.before.work.len(), old.streams["ctl"].rx.napi_id), (true, 0, None));
    let cell = judge(std::slice::from_ref(&old));
    assert_eq!((cell.trials[0].verdicts.as_slice(), cell.cpus.as_slice()), ([].as_slice(), [].as_slice()));
    assert_eq!(cell.placement[0].migrations, None, "not known is not none");
}

#[test]
fn packets_that_another_cpu_took_in() {
    let mut record = placed(SoftirqBy::Rps);
    let zero = record.after.work[&0];
    let one = record.after.work.insert(1, zero).expect("CPU 1");
    record.after.work.insert(0, one);
    let says = "packets that arrive at b were to be taken in on CPU 0, by packet steering, and were not: CPU 0 took in 12 \
                packets, and at least 10000 came to the receivers that asked for this CPU";
    let verdict = assert_only(&record, "softirq", Level::Invalid, says);
    assert_eq!((&verdict.evidence["cpu_packets"], &verdict.evidence["cpu"]), (&Figure::Int(12), &Figure::Int(0)));
    // Two stations on one CPU need twice as many.
    let mut both = placed(SoftirqBy::Rps);
    let other = SoftirqRecord { receivers: Vec::new(), ..station(&mut both).clone() };
    both.placement.softirq.insert("a".to_owned(), other);
    let ids: Vec<String> = verdicts(&both).into_iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["softirq", "softirq"]);
    let broke_off = TrialRecord { failed: Some("station `b` is gone".into()), ..record };
    assert!(verdicts(&broke_off).iter().all(|verdict| verdict.id != "softirq"));
}

#[test]
fn napi_is_believed_only_with_an_id_and_switches() {
    let mut no_id = placed(SoftirqBy::Napi);
    ctl(&mut no_id).rx.napi_id = Some(0);
    assert_only(&no_id, "softirq", Level::Invalid, "the socket of ctl.rx has NAPI id 0: its packets did not take NAPI");
    let mut idle = placed(SoftirqBy::Napi);
    station(&mut idle).threads[0].switches = 0;
    assert_only(&idle, "softirq", Level::Invalid, "the kernel threads napi/tardy0-1-* never ran");
    let mut none = placed(SoftirqBy::Napi);
    station(&mut none).threads.clear();
    assert_only(&none, "softirq", Level::Invalid, "no kernel thread napi/tardy0-1-* was to be seen");
    let mut loose = placed(SoftirqBy::Napi);
    station(&mut loose).threads[0].affinity = vec![0, 1];
    assert_only(&loose, "softirq", Level::Invalid, "napi/tardy0-1-7 may run on CPU 0 and 1");
    // Where any CPU will do, it may.
    station(&mut loose).cpu = None;
    assert_eq!(verdicts(&loose), []);
}

#[test]
fn a_socket_of_af_xdp_on_a_veth_was_said_not_to_take_napi() {
    let mut record = placed(SoftirqBy::Napi);
    ctl(&mut record).rx.napi_id = Some(0);
    ctl(&mut record).xdp = Some(tardy_tests::xdp_record());
    assert!(verdicts(&record).iter().all(|verdict| verdict.id != "softirq"), "{:?}", verdicts(&record));
    // Its device's threads must have run.
    station(&mut record).threads[0].switches = 0;
    assert!(verdicts(&record).iter().any(|verdict| verdict.says.contains("never ran")));
}

#[test]
fn a_different_cpu_that_was_shared() {
    let mut record = placed(SoftirqBy::Rps);
    ctl(&mut record).rx.cpus_seen = vec![1, 0];
    (ctl(&mut record).rx.cpu_asked, ctl(&mut record).rx.affinity) = (None, vec![0, 1]);
    let said: Vec<String> = verdicts(&record).into_iter().map(|verdict| verdict.says).collect();
    assert_eq!(
        said,
        [
            "ctl.rx is to have another CPU than ctl.tx, and both ran on CPU 0",
            "softirq of b is to have another CPU than ctl.rx, and both ran on CPU 0",
        ]
    );
    record.placement.asked.insert("ctl.rx".to_owned(), asked("any", None));
    station(&mut record).asked = asked("0", None);
    assert_eq!(verdicts(&record), []);
}

#[test]
fn a_neighbour_on_the_cpu_of_a_thread_that_was_to_be_apart() {
    let mut record = placed(SoftirqBy::Rps);
    add_stream(&mut record, "bulk", 1, 1);
    let verdict = assert_only(
        &record,
        "shared-cpu",
        Level::Note,
        "ctl.rx has a CPU apart from ctl.tx, as asked, and shares it, CPU 1, with bulk.rx and bulk.tx",
    );
    assert_eq!(verdict.evidence["cpu"], Figure::Int(1));
    // Asked to stay away from that very thread, it is more than a note where it came there by
    // itself.
    record.streams.get_mut("bulk").expect("the stream").tx.cpu_asked = None;
    record.placement.asked.insert("bulk.tx".to_owned(), asked("different", Some("ctl.rx")));
    let gravest = verdicts(&record).into_iter().next().expect("a verdict");
    assert_eq!((gravest.level, gravest.id.as_str()), (Level::Warning, "shared-cpu"));
    assert_eq!(gravest.says, "bulk.tx is to have another CPU than ctl.rx, and both ran on CPU 1");
    // On CPUs of its own it disturbs nobody.
    add_stream(&mut record, "bulk", 2, 3);
    assert_eq!(verdicts(&record), []);
    // Who asked for one CPU has it.
    add_stream(&mut record, "bulk", 1, 1);
    record.placement.asked.values_mut().for_each(|asked| asked.cpu = "same".to_owned());
    assert_eq!(verdicts(&record), []);
}

#[test]
fn where_there_is_one_cpu_a_thread_was_told_to_have_one_apart() {
    let mut record = placed(SoftirqBy::Rps);
    ctl(&mut record).rx.cpus_seen = ctl(&mut record).tx.cpus_seen.clone();
    add_stream(&mut record, "bulk", 0, 0);
    let said: Vec<String> = verdicts(&record).into_iter().map(|verdict| verdict.says).collect();
    assert!(said.iter().any(|says| says.contains("ctl.rx is to have another CPU than ctl.tx, and both ran")));
    assert!(!said.iter().any(|says| says.contains("ctl.rx has a CPU apart from ctl.tx")), "{said:?}");
    // The plan itself put both there, and the run says so once: each trial said it again.
    ctl(&mut record).rx.cpu_asked = ctl(&mut record).tx.cpu_asked;
    station(&mut record).cpu = ctl(&mut record).rx.cpu_asked;
    let said: Vec<String> = verdicts(&record).into_iter().map(|verdict| verdict.says).collect();
    assert!(!said.iter().any(|says| says.contains("is to have another CPU")), "{said:?}");
}

#[test]
fn others_packets_on_the_cpu_of_a_stream() {
    let mut record = placed(SoftirqBy::Rps);
    record.after.work.get_mut(&1).expect("CPU 1").packets = 800_000;
    record.after.work.get_mut(&1).expect("CPU 1").net_rx = 70_000;
    let says =
        "CPU 1, on which ctl.rx ran, also took in 790000 packets that are no stream's: 70000 NET_RX softirqs in all";
    let verdict = assert_only(&record, "shared-cpu", Level::Note, says);
    assert_eq!(verdict.evidence["packets"], Figure::Int(800_000));
    // They were to stay away from it.
    record.placement.asked.insert("bulk.from".to_owned(), asked("different", Some("ctl.rx")));
    assert_only(&record, "shared-cpu", Level::Warning, says);
    // Packets that tardy sends in addition to the measured ones are not other programs' packets.
    let beside = |record: &mut TrialRecord, packets| ctl(record).counters.beside = packets;
    beside(&mut record, 790_000);
    assert_eq!(verdicts(&record), []);
    beside(&mut record, 0);
    // A packet that is joined of many is one: few may be much.
    record.after.work.get_mut(&1).expect("CPU 1").packets = 19_000;
    let says = "CPU 1, on which ctl.rx ran, also took in 9000 packets that are no stream's";
    assert_only(&record, "shared-cpu", Level::Warning, says);
    record.after.work.get_mut(&1).expect("CPU 1").packets = 10_400;
    assert_eq!(verdicts(&record), [], "no more than the stream's own");
    record.after.work.get_mut(&1).expect("CPU 1").packets = 800_000;
    record.placement.asked.values_mut().zip(["same", "1", "0"].iter().cycle()).for_each(|(asked, cpu)| {
        asked.cpu = (*cpu).to_owned();
    });
    assert_eq!(verdicts(&record), [], "who puts all in one place asks for it");
}

#[test]
fn a_cell_tells_of_the_packets_though_a_neighbour_is_told_first() {
    let mut record = placed(SoftirqBy::Rps);
    add_stream(&mut record, "bulk", 1, 1);
    record.after.work.get_mut(&1).expect("CPU 1").packets = 800_000;
    let cell = judge(&[record.clone(), TrialRecord { n: 2, ..record }]);
    let said: Vec<&str> = cell.verdicts.iter().filter(|of| of.id == "shared-cpu").map(|of| of.says.as_str()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("has a CPU apart from ctl.tx") && said[1].contains("that are no stream's"), "{said:?}");
}

#[test]
fn a_cells_placement_is_that_of_its_trials_together() {
    let mut first = placed(SoftirqBy::Napi);
    (ctl(&mut first).rx.migrations, ctl(&mut first).rx.wait_ns) = (Some(2), Some(1_500));
    ctl(&mut first).tx.wait_ns = Some(70);
    let mut second = TrialRecord { n: 2, ..first.clone() };
    ctl(&mut second).tx.wait_ns = None;
    let cell = judge(&[first, second]);
    let thread = |name: &str| cell.placement.iter().find(|thread| thread.thread == name).expect("a thread");
    let (tx, rx) = (thread("ctl.tx"), thread("ctl.rx"));
    assert_eq!((rx.migrations, rx.wait_ns, rx.napi_ids.as_slice()), (Some(4), Some(3_000), [8_193].as_slice()));
    assert_eq!(
        (tx.migrations, tx.wait_ns, tx.napi_ids.as_slice()),
        (None, None, [].as_slice()),
        "not known of one trial"
    );
    let [b] = cell.softirq.as_slice() else { panic!("{:?}", cell.softirq) };
    assert_eq!(
        (b.station.as_str(), b.by.as_str(), b.cpu_asked.as_str(), b.cpus_seen.as_slice()),
        ("b", "napi", "0", [0].as_slice())
    );
    assert_eq!((b.packets, b.packets_on_cpu, b.napi_switches), (20_000, Some(20_006), Some(19_980)));
    let cpus: Vec<_> = cell.cpus.iter().map(|cpu| (cpu.cpu, cpu.packets, cpu.net_tx, cpu.interrupts)).collect();
    assert_eq!(cpus, [(0, 20_006, 8, 180_000), (1, 24, 0, 80_000)]);
    assert_eq!(cell.cpus.iter().map(|cpu| cpu.timer_interrupts).collect::<Vec<_>>(), [1_400, 600]);
    assert_eq!(cell.machines, None, "no machine of the run's");
}

#[test]
fn what_machines_cost_is_counted_for_the_packets_of_their_trials() {
    let counted = |exits, halt_exits| Some(KvmWork { exits: Some(exits), halt_exits, irq_injections: Some(2 * exits) });
    let mut first = placed(SoftirqBy::Napi);
    first.after.machine_tasks = [900].into();
    let emulated = judge(&[first.clone()]).machines.expect("a machine that KVM does not run");
    let packets = u64::from(COUNT);
    assert_eq!(emulated, MachinesPlacement { packets, ..MachinesPlacement::default() });
    (first.before.kvm, first.after.kvm) = (counted(1_000, Some(10)), counted(31_000, Some(40)));
    let mut second = TrialRecord { n: 2, ..first.clone() };
    second.after.kvm = counted(21_000, Some(30));
    let all = MachinesPlacement {
        packets: 2 * packets,
        exits: Some(50_000),
        halt_exits: Some(50),
        irq_injections: Some(100_000),
    };
    assert_eq!(judge(&[first.clone(), second.clone()]).machines, Some(all));
    // Of one trial not known: the sum is not known either. A trial without a machine adds nothing.
    second.after.kvm = counted(21_000, None);
    let third = TrialRecord { n: 3, ..placed(SoftirqBy::Napi) };
    assert_eq!(judge(&[first, second, third]).machines, Some(MachinesPlacement { halt_exits: None, ..all }));
}

/// A receiver on this CPU that was asked to have this core, and packets by the CPU that ran the XDP
/// program.
fn by_program(asked: Core, cpu: Option<u32>, by_cpu: &[(u32, u64)]) -> XdpRecord {
    let by_cpu: BTreeMap<u32, u64> = by_cpu.iter().copied().collect();
    XdpRecord {
        mode: XdpMode::ZeroCopy,
        core: CoreRecord::of(Some(asked), cpu, &by_cpu),
        seen: XdpSeen { by_cpu, ..XdpSeen::default() },
        driver: "igc".to_owned(),
        ..xdp_record()
    }
}

#[test]
fn an_application_that_is_not_on_the_core_that_was_asked_for() {
    let judged = |port: XdpRecord| verdict(|record, _| ctl(record).xdp = Some(port));
    let says = "ctl.rx was asked to have the same core as the XDP program, and had not: ctl.rx was on CPU 1 and the program ran \
                on CPU 0 and 1 (100 of 10000 packets disagree)";
    let found = judged(by_program(Core::Same, Some(1), &[(0, 100), (1, 9_900)]));
    assert_is(&found, "core", Level::Invalid, says);
    assert_eq!(found.evidence["packets_by_program_cpu"], Figure::List(vec![100u64.into(), 9_900u64.into()]));
    assert_eq!((&found.evidence["asked"], &found.evidence["receiver_cpu"]), (&"same".into(), &1u32.into()));
    // Few of them leave the figures doubtful.
    let few = judged(by_program(Core::Same, Some(1), &[(0, 99), (1, 9_901)]));
    assert_is(&few, "core", Level::Warning, "(99 of 10000 packets disagree)");
    let remote = judged(by_program(Core::Remote, Some(1), &[(1, 10_000)]));
    assert_is(&remote, "core", Level::Invalid, "another core than the XDP program, and had not: ctl.rx was on CPU 1");
    let nowhere = judged(by_program(Core::Remote, None, &[(0, 10_000)]));
    assert_is(&nowhere, "core", Level::Invalid, "the program ran on CPU 0, and ctl.rx was not on one CPU");
    let unknown = judged(by_program(Core::Same, Some(1), &[]));
    assert_is(&unknown, "core", Level::Invalid, "no packet shows where the program ran");
    for sound in [by_program(Core::Same, Some(1), &[(1, 10_000)]), by_program(Core::Remote, Some(1), &[(0, 9), (2, 9)])]
    {
        let mut record = record(1, COUNT);
        ctl(&mut record).xdp = Some(sound);
        assert_eq!(super::validity::judge(&record, &healthy_packets(1, COUNT as usize)).verdicts, Vec::new());
    }
}

#[test]
fn a_cell_has_where_its_xdp_program_and_its_application_ran() {
    let mut cell = CellAnalysis::new("all", BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (n, bound) in [(1, 2_000_000_000), (2, 2)] {
        let mut record = record(n, COUNT);
        ctl(&mut record).xdp = Some(by_program(Core::Remote, Some(n), &[(0, 6_000), (n, 4_000)]));
        (record.before.cpu_dma_latency_us, record.after.cpu_dma_latency_us) = (Some(bound), Some(2));
        cell.trial(
            &record,
            batches(&healthy_packets(1, COUNT as usize), 4_096).into_iter().map(|batch| ("ctl", batch)),
        );
    }
    let xdp = cell.finish().result.xdp;
    let [port] = xdp.as_slice() else { panic!("{xdp:?}") };
    assert_eq!((&*port.stream, &*port.driver, &*port.mode, &*port.wait), ("ctl", "igc", "zero-copy", "poll"));
    assert_eq!((port.core.as_deref(), &port.receiver_cpus[..]), (Some("remote"), &[1, 2][..]));
    assert_eq!(port.packets_by_program_cpu, BTreeMap::from([(0, 12_000), (1, 4_000), (2, 4_000)]));
    assert_eq!((port.same, port.remote, port.unknown), (8_000, 12_000, 0));
    assert_eq!(port.dma_latency_before_us, [2, 2_000_000_000]);
    assert_eq!(port.dma_latency_after_us, [2]);
}

#[test]
fn a_bound_that_nobody_asked_for_was_printed_as_two_thousand_seconds() {
    let says = |before: i32, after: i32| {
        let mut record = record(1, COUNT);
        (record.before.cpu_dma_latency_us, record.after.cpu_dma_latency_us) = (Some(before), Some(after));
        let verdicts = super::validity::judge(&record, &healthy_packets(1, COUNT as usize)).verdicts;
        verdicts.into_iter().map(|verdict| verdict.says).collect::<Vec<_>>()
    };
    assert_eq!(says(2_000_000_000, 2), ["the bound on CPU wake-up latency (PM QoS) went from no bound to 2 µs"]);
    assert_eq!(says(2, 2_000_000_000), ["the bound on CPU wake-up latency (PM QoS) went from 2 µs to no bound"]);
    assert_eq!(says(2_000_000_000, 2_000_000_000), Vec::<String>::new());
}
