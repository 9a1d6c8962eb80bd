// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs made of figures that are written down here, so that every picture of them is known.

use std::collections::BTreeMap;
use tardy_analyze::envelope::Trace;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{CellEntry, Manifest, StationEntry};
use tardy_model::point::Metric;
use tardy_model::result::{
    CellResult, CpuPlacement, ExpectationResult, Figures, MetricResult, Outcomes, Placement, Quantiles, Results,
    SoftirqPlacement, StreamResult, TrialResult,
};
use tardy_model::time::Nanos;
use tardy_model::verdict::{Figure, Level, Verdict};
use tardy_report::{Bars, Facts, Options, Picture, format};

/// Everything that a picture borrows.
pub struct Run {
    pub results: Results,
    pub manifest: Manifest,
    pub facts: Facts,
    pub bars: Bars,
    pub run_dir: Option<String>,
    pub traces: Vec<Trace>,
    pub commands: String,
}

impl Run {
    pub fn draw(&self, name: &str, width: usize) -> String {
        self.draw_as(name, Options { width, colour: false })
    }

    pub fn draw_as(&self, name: &str, options: Options) -> String {
        self.with(|picture| (format(name).expect("a known format").make)(picture, &options).expect("a picture"))
    }

    /// What is made of it as a picture.
    pub fn with(&self, make: impl FnOnce(&Picture<'_>) -> String) -> String {
        // As a judged run: histograms are of metrics between points.
        let bars =
            |_: &str, _: &str, metric: &str| metric.parse::<Metric>().map(|_| self.bars.clone()).unwrap_or_default();
        let picture = Picture {
            results: &self.results,
            manifest: &self.manifest,
            facts: &self.facts,
            bars: &bars,
            run_dir: self.run_dir.as_deref(),
            elapsed: Some(Nanos::from_secs(53)),
            experiment: Some("name = \"host-to-host\"\n"),
            traces: &self.traces,
            commands: Some(&self.commands),
        };
        make(&picture)
    }
}

/// `p50 p99 p99.9 max`, the packet of the maximum, `min mean stddev`; times in ns.
pub fn metric(q: [i64; 3], max: i64, seq: i64, min: i64, mean: f64, stddev: f64) -> MetricResult {
    MetricResult {
        clock: "tai".into(),
        source: "kernel".into(),
        coverage: 1.0,
        count: 50_000,
        percentiles: "exact".into(),
        figures: Figures {
            min_ns: Some(min),
            mean_ns: Some(mean),
            stddev_ns: Some(stddev),
            max_ns: Some(max),
            quantiles: Quantiles {
                p50_ns: Some(q[0]),
                p90_ns: None,
                p99_ns: Some(q[1]),
                p99_9_ns: Some(q[2]),
                p99_99_ns: None,
            },
        },
        max_seq: Some(seq),
        max_trial: Some(3),
        unresolved: vec!["p99.99".into()],
        ..MetricResult::default()
    }
}

/// The stream of the design's sample.
pub fn stream() -> StreamResult {
    let metrics = [
        ("scheduled..wakeup", metric([12_400, 21_000, 88_100], 912_400, 4211, 9_800, 13_000.0, 7_100.0)),
        ("scheduled..rx_kernel", metric([14_000, 23_300, 90_400], 915_000, 4211, 10_900, 14_700.0, 7_200.0)),
        ("tx_kernel..rx_kernel", metric([400, 900, 2_200], 14_100, 8730, 300, 500.0, 100.0)),
        ("rx_kernel..receive", metric([19_500, 31_200, 77_000], 501_900, 122, 15_100, 20_400.0, 6_600.0)),
        ("delta", metric([500_000, 512_900, 588_100], 1_398_600, 4211, 96_000, 500_000.0, 10_200.0)),
    ];
    StreamResult {
        outcomes: Outcomes { intended: 50_000, received: 50_000, ..Outcomes::default() },
        metrics: metrics.into_iter().map(|(name, metric)| (name.to_owned(), metric)).collect(),
        ..StreamResult::default()
    }
}

pub fn cell(id: &str) -> CellResult {
    let streams = BTreeMap::from([("ctl".to_owned(), stream())]);
    let trial =
        |n| TrialResult { n, valid: true, streams: streams.clone(), loads: BTreeMap::new(), verdicts: Vec::new() };
    let repeats = Verdict::new("repeats", Level::Ok, "yes: five trials agree within 0.3 µs at p50 and 2.0 µs at p99")
        .with("spread_p50_ns", 300i64)
        .with("trials_p50_ns", Figure::List(vec![Figure::Int(14_000), Figure::Int(14_300)]));
    CellResult {
        id: id.to_owned(),
        axes: BTreeMap::from([("stream.ctl.rx.wait".to_owned(), id.rsplit('=').next().unwrap_or(id).to_owned())]),
        valid: true,
        not_available: None,
        machines: None,
        fingerprint: None,
        trials: (1..=5).map(trial).collect(),
        streams,
        loads: BTreeMap::new(),
        placement: vec![Placement {
            thread: "ctl.tx".into(),
            host: None,
            cpu_asked: "auto".into(),
            cpus_seen: vec![0],
            policy_asked: "fifo:90".into(),
            policy_granted: "fifo:90".into(),
            memory_locked: Some(true),
            migrations: Some(0),
            wait_ns: Some(12_340),
            run_ns: None,
            over_ns: None,
            wakeups: None,
            napi_ids: Vec::new(),
        }],
        xdp: Vec::new(),
        classes: Vec::new(),
        softirq: vec![SoftirqPlacement {
            station: "b".into(),
            host: None,
            by: "rps".into(),
            cpu_asked: "1".into(),
            cpus_seen: Vec::new(),
            packets: 50_000,
            packets_on_cpu: Some(50_012),
            napi_switches: None,
        }],
        cpus: vec![
            CpuPlacement {
                cpu: 0,
                net_rx: 120,
                net_tx: 3,
                packets: 180,
                interrupts: 61_234,
                ..CpuPlacement::default()
            },
            CpuPlacement {
                cpu: 1,
                net_rx: 49_990,
                net_tx: 0,
                packets: 50_012,
                interrupts: 112_345,
                ..CpuPlacement::default()
            },
        ],
        verdicts: vec![
            Verdict::new("coverage", Level::Ok, "every packet has its stamps").with("share", 1.0),
            Verdict::new("competing_cpu", Level::Note, "CPU 1 also ran ksoftirqd/1 for 0.4 % of the time")
                .with("share", 0.004),
            repeats,
        ],
    }
}

/// A limit on p99.9 of the leading metric.
pub fn limit(cell: &str, limit_ns: i64, got_ns: Option<i64>, met: bool) -> ExpectationResult {
    ExpectationResult {
        cell: cell.to_owned(),
        stream: "ctl".into(),
        metric: "scheduled..rx_kernel".into(),
        of: "p99.9".into(),
        limit_ns: Some(limit_ns),
        got_ns,
        limit: None,
        got: None,
        met: Some(met),
        why: None,
    }
}

/// A limit on lost packets.
pub fn lost(cell: &str, got: u64) -> ExpectationResult {
    ExpectationResult {
        metric: "lost".into(),
        of: "count".into(),
        limit_ns: None,
        limit: Some(0),
        got: Some(got),
        ..limit(cell, 0, None, got == 0)
    }
}

/// The design's sample with these cells, all of them equal.
pub fn run(cells: &[&str]) -> Run {
    let manifest = Manifest {
        hosts: BTreeMap::new(),
        xdp_objects: Vec::new(),
        format: 1,
        tardy: "0.1.0".into(),
        name: "host-to-host".into(),
        started_utc: "2026-11-21T21:26:00Z".into(),
        ended_utc: Some("2026-11-21T21:26:53Z".into()),
        seed: 7,
        command: vec!["tardy".into(), "run".into()],
        cells: cells.iter().map(|id| CellEntry { id: (*id).to_owned(), trials: 5, ..CellEntry::default() }).collect(),
        machine: BTreeMap::from([
            ("kernel.release".to_owned(), Figure::from("6.18.0")),
            ("cpu.count".to_owned(), Figure::Int(2)),
        ]),
        stations: BTreeMap::from([(
            "a".to_owned(),
            StationEntry { kind: "netns".into(), netns: Some("tardy1a".into()), agent: "0.1.0".into() },
        )]),
        ruler: vec![ruler("a", 0, 22, 18_000, 1_100_000), ruler("b", 1, 21, 9_000, 400_000)],
        read_back: Vec::new(),
        programs: BTreeMap::from([("ip".to_owned(), "iproute2-6.1.0".to_owned())]),
        guest: None,
    };
    let first = cells.first().copied().unwrap_or("all");
    let results = Results {
        format: 1,
        name: "host-to-host".into(),
        valid: true,
        expectations_met: Some(true),
        expectations: vec![limit(first, 100_000, Some(90_400), true), lost(first, 0)],
        fingerprint: None,
        validity: Default::default(),
        cells: cells.iter().map(|id| cell(id)).collect(),
        verdicts: Vec::new(),
    };
    let facts = Facts {
        counts_passes: false,
        streams: vec!["ctl".into()],
        paths: vec!["veth".into(), "veth".into()],
        ports: vec!["udp".into(), "udp".into()],
        cycles: vec![Nanos::from_micros(500), Nanos::from_micros(500)],
        packets: vec![10_000, 10_000],
        reference: None,
        pairs: BTreeMap::new(),
    };
    Run {
        results,
        manifest,
        facts,
        bars: bars(),
        run_dir: Some("runs/20261121T212600Z-host-to-host".into()),
        traces: Vec::new(),
        commands: "ip netns add tardy1a\n".into(),
    }
}

fn ruler(station: &str, cpu: u32, stamp: i64, timer_p99: i64, gap: i64) -> RulerRecord {
    RulerRecord {
        station: station.into(),
        host: None,
        after: false,
        threads: vec![if station == "a" { "ctl.tx" } else { "ctl.rx" }.into()],
        cpu: Some(cpu),
        policy: "fifo:90".into(),
        stamp_ns: stamp,
        timer_count: 1000,
        timer_p50_ns: 8_000,
        timer_p99_ns: timer_p99,
        timer_p99_9_ns: Some(58_000),
        timer_max_ns: 60_000,
        wake_wait_ns: Some(1_900),
        loop_ns: 500_000_000,
        gaps_over_10us: 3,
        longest_gap_ns: Some(gap),
    }
}

/// A hump between 10.9 µs and 30 µs and two lone packets.
fn bars() -> Bars {
    let hump = (0..40i64).map(|i| {
        let low = 10_900 + i * 480;
        let distance = (i - 7).unsigned_abs();
        (low, low + 479, 9_000 / (1 + distance * distance))
    });
    hump.chain([(90_300, 90_400, 40), (914_000, 915_000, 1)]).filter(|bar| bar.2 > 0).collect()
}

/// All that can be odd about a run: lost packets, a metric that is not available, a trial that does
/// not count, a warning, two streams, a cell that is not valid, one that the machine refused, a
/// limit broken, names that are no good in a page.
pub fn odd() -> Run {
    let mut run = run(&["A-only", "A+B <same> cpu,rx.wait=busypoll"]);
    run.results.expectations_met = Some(false);
    run.results.expectations[0] = limit("A-only", 80_000, Some(90_400), false);
    run.results.expectations.push(lost("A-only", 3));
    let unknown =
        ExpectationResult { why: Some("p99.9 falls on a lost packet".into()), ..limit("A-only", 90_000, None, false) };
    run.results.expectations.push(unknown);
    run.results.verdicts.push(
        Verdict::new("qos", Level::Note, "another process held /dev/cpu_dma_latency | open, at 0 µs")
            .with("latency_us", 0i64),
    );

    let first = &mut run.results.cells[0];
    let ctl = first.streams.get_mut("ctl").expect("ctl");
    ctl.outcomes = Outcomes {
        intended: 50_000,
        received: 49_997,
        lost: 3,
        early: 2,
        late: 12,
        duplicate: 1,
        ..Outcomes::default()
    };
    let lead = ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric");
    lead.received_only = Some(lead.figures.quantiles.clone());
    lead.figures.quantiles.p99_9_ns = None;
    lead.infinite = vec!["p99.9".into()];
    lead.coverage = 0.99997;
    lead.negative = 2;
    let why = "the device gives no driver stamp: SOF_TIMESTAMPING_TX_SOFTWARE is not among the abilities of veth0a";
    let absent = MetricResult { why: Some(why.into()), percentiles: "exact".into(), ..MetricResult::default() };
    ctl.metrics.insert("tx_kernel..rx_kernel".into(), absent);
    first.verdicts.push(Verdict::new(
        "rt-bandwidth",
        Level::Warning,
        "the RT bandwidth limit stopped the receiver on CPU 1 for 50 ms in each second: 12 gaps, the longest 50.1 ms; write -1 to \
         /proc/sys/kernel/sched_rt_runtime_us to lift it",
    ));
    first.trials[1].valid = false;
    first.trials[1].verdicts.push(Verdict::new("clock-step", Level::Invalid, "CLOCK_REALTIME was set forward by 5 ms"));

    // The cell's verdicts report once what the manifest and the trials know too.
    let says = "trial 2 of 5 is left out: CLOCK_REALTIME was set forward by 5 ms";
    first.verdicts.push(Verdict::new("left-out", Level::Warning, says).with("trials", Figure::List(vec![2i64.into()])));
    let short = "fifo:90 for ctl.tx was refused (EPERM): other was taken";
    first.verdicts.push(Verdict::new("placement", Level::Warning, short));
    run.manifest.cells[0].short.push(short.into());
    let second = &mut run.results.cells[1];
    let video = second.streams["ctl"].clone();
    second.streams.insert("video".into(), video);
    second.valid = false;
    let refused = Some("this machine has 2 CPUs: CPU 7 does not exist".into());
    run.manifest.cells.push(CellEntry { id: "far".into(), refused, trials: 5, ..CellEntry::default() });
    run
}

/// Eight cells, one of them not valid, three with the same warning.
pub fn many() -> Run {
    let ids: Vec<String> = ["block", "poll", "spin", "busypoll"]
        .iter()
        .flat_map(|wait| ["udp", "xdp"].map(|port| format!("port={port},rx.wait={wait}")))
        .collect();
    let mut run = run(&ids.iter().map(String::as_str).collect::<Vec<_>>());
    for (i, cell) in (0i64..).zip(&mut run.results.cells) {
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        let lead = ctl.metrics.get_mut("scheduled..rx_kernel").expect("the leading metric");
        lead.figures.quantiles.p50_ns = Some(14_000 + i * 1_300);
        if (3..6).contains(&i) {
            let says = format!("the RT bandwidth limit stopped the receiver on CPU 1: {i} gaps");
            cell.verdicts.push(Verdict::new("rt-bandwidth", Level::Warning, says));
        }
        if i == 6 {
            cell.valid = false;
            cell.verdicts.push(Verdict::new("coverage", Level::Invalid, "2 % of packets have no kernel stamp"));
        }
    }
    run.results.valid = false;
    // The limit of a figure; that of a count is judged all the same.
    run.results.expectations[0].met = None;
    run.results.expectations_met = None;
    run
}
