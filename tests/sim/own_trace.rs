// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict `own-trace` on ordinary simulated trials of all kinds: it says nothing, for the
//! simulated path knows no tardy.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tardy_analyze::cell::CellAnalysis;
use tardy_analyze::own_trace;
use tardy_lab::coordinator::{Options, check, run};
use tardy_lab::host::clocks::one_host;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::kinds::Kinds;
use tardy_lab::run::{Event, Sink};
use tardy_model::sample::Batch;
use tardy_model::trial::TrialRecord;
use tardy_spec::{Source, load};

const GATES: &str = "[shaper]\nkind = \"taprio\"\nclasses = 4\nmap = [3, 3, 3, 1, 3, 0, 3, 2, 3, 3, 3, 3, 3, 3, 3, 3]\n\
entries = [\"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\", \"3 100us\", \"0 100us\", \"1 100us\", \"2 200us\"]\n";
const ASSIST: &str = "mode = \"txtime-assist\"\ntxtime_delay = \"400us\"\netf.delta = \"200us\"\n";
const ETF: &str = "[shaper]\nkind = \"etf\"\netf.delta = \"200us\"\n";

/// Paths that are quiet, noisy, and late now and then.
const NOISES: [&str; 3] = [
    "",
    "sim.jitter = \"20us\"\nsim.loss = 0.0005\nsim.reorder = 0.01\n",
    "sim.jitter = \"5us\"\nsim.late_share = 0.05\nsim.late = \"300us\"\nsim.drift_ppb = 20000\n",
];

/// Takes each trial into its cell.
struct Cells(BTreeMap<String, CellAnalysis>);

impl Sink for Cells {
    fn event(&mut self, _event: Event) {}
    fn trial(&mut self, record: &TrialRecord, streams: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let cell = self.0.get_mut(&record.cell).ok_or("a cell that nobody asked for")?;
        cell.trial(record, streams.iter().map(|(name, batch)| (name, batch)));
        Ok(())
    }
}

/// The verdicts on a run of five trials, and the number of tests behind them.
fn judged(stream: &str, shaper: &str, count: u32) -> (Vec<String>, usize) {
    let text = format!(
        "trials = 5\n[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\nport = \"sim\"\ncount = {count}\n\
         {stream}\n{shaper}"
    );
    let source = Source { name: "x.toml".into(), text };
    let experiment = load(&source, &[]).unwrap_or_else(|error| panic!("{stream}{shaper}{}", error.one_line()));
    let asked = |cell: &tardy_spec::experiment::Cell| {
        let streams = cell.setup.streams.iter();
        streams.map(|stream| (stream.name.clone(), stream.metrics.clone())).collect()
    };
    let new = |cell: &tardy_spec::experiment::Cell| {
        (cell.id.clone(), CellAnalysis::new(cell.id.clone(), BTreeMap::new(), asked(cell), Vec::new()))
    };
    let mut cells = Cells(experiment.cells.iter().map(new).collect());
    let stop = AtomicBool::new(false);
    let options = Options { version: "0", stop: &stop, kinds: Kinds::default(), clocks: one_host };
    let mut steward = Steward::new(Path::new("/nonexistent"), Path::new("tardy"), std::process::id());
    let mut hosts = Hosts::here(&mut steward);
    let found = check(&experiment, &mut hosts).expect("nothing stands against a simulation");
    let ended = run(&experiment, found, &mut hosts, &options, &mut cells);
    assert!(ended.failed.is_none(), "{:?}", ended.failed);
    let answers: Vec<_> = cells.0.into_values().map(CellAnalysis::finish).collect();
    let tests = answers.iter().map(|answer| answer.own_trace.tests().count()).sum();
    let verdicts = own_trace::judge(answers.iter().map(|answer| (&answer.result, &answer.own_trace)), 1);
    (verdicts.into_iter().map(|verdict| verdict.says).collect(), tests)
}

#[test]
fn own_trace_is_silent_on_simulated_trials_of_every_kind() {
    for noise in NOISES {
        for (kind, count) in [("", 600), ("reflect = true\n", 600), ("kind = \"pingpong\"\n", 2_000)] {
            let noise =
                if kind.contains("pingpong") { noise.replace("sim.late", "# sim.late") } else { noise.to_owned() };
            let (told, tests) = judged(&format!("{kind}{noise}"), "", count);
            assert!(tests >= 4, "{kind}{noise}: only {tests} tests");
            assert!(told.is_empty(), "{kind}{noise}: {told:#?}");
        }
    }
}

#[test]
fn own_trace_is_silent_under_every_queue_discipline_that_is_simulated() {
    let strict = "launch = \"strict\"\ntx.advance = \"400us\"\npriority = 3\n";
    let deadline = "launch = \"deadline\"\ntx.advance = \"400us\"\npriority = 3\n";
    let assist = format!("{GATES}{ASSIST}");
    let shapers = [
        (ETF, strict),
        (GATES, "priority = 3\n"),
        (&assist, strict),
        (&format!("{ETF}etf.deadline_mode = true\n"), deadline),
    ];
    for noise in NOISES {
        for (shaper, stream) in shapers {
            let (told, tests) = judged(&format!("{stream}{noise}"), shaper, 600);
            assert!(tests >= 4, "{shaper}{noise}: only {tests} tests");
            assert!(told.is_empty(), "{shaper}{noise}: {told:#?}");
        }
    }
}
