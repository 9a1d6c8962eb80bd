// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs whose pages the tests open: on the simulated port, so that they are exact and need no root.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tardy_model::load::LoadRecord;
use tempfile::TempDir;

pub struct Run {
    folder: TempDir,
}

impl Run {
    /// Runs a simulated stream: trials, packets of each, the simulation's table, anything else at
    /// the end of the file.
    pub fn of(trials: u32, count: u32, sim: &str, more: &str) -> Run {
        Run::of_stream(trials, &format!("cycle = \"100us\"\ncount = {count}\nsim = {{ {sim} }}\n{more}"))
    }

    /// The same of a stream of any kind: its keys, and anything else at the end of the file.
    pub fn of_stream(trials: u32, keys: &str) -> Run {
        let folder = TempDir::with_prefix("tardy-run-").expect("a temporary folder");
        let experiment = format!(
            "name = \"seen\"\ntrials = {trials}\n[station.a]\n[station.b]\n[stream.ctl]\nfrom = \"a\"\nto = \"b\"\n\
             port = \"sim\"\n{keys}\n"
        );
        let file = folder.path().join("seen.toml");
        std::fs::write(&file, experiment).expect("the experiment is written");
        let run = Run { folder };
        let mut command = tardy();
        command.arg("run").arg(&file).arg("--out").arg(run.out());
        let out = command.env("TARDY_STATE", run.folder.path().join("state")).output().expect("tardy starts");
        // What is not valid has a page too.
        let code = out.status.code();
        assert!(matches!(code, Some(0 | 1 | 4)), "{code:?}: {}", String::from_utf8_lossy(&out.stderr));
        run
    }

    /// Two cells of two trials, with outliers, losses and a limit.
    pub fn usual() -> Run {
        let sim = "delay = \"40us\", jitter = \"20us\", late_share = 0.002, late = \"900us\", wake = \"5us\"";
        let more = "[matrix]\n\"stream.ctl.sim.loss\" = [0.0, 0.0005]\n[expect.ctl]\n\
                    \"scheduled..rx_kernel\" = [\"p99 < 2ms\", \"max < 300us\"]";
        Run::of(2, 5_000, sim, more)
    }

    /// The same way, another delay.
    pub fn other() -> Run {
        let sim = "delay = \"70us\", jitter = \"5us\", late_share = 0.01, late = \"300us\", wake = \"12us\"";
        Run::of(2, 5_000, sim, "[matrix]\n\"stream.ctl.sim.loss\" = [0.0, 0.0005]")
    }

    /// The page after these loads were added to the record of a trial: the simulated port runs
    /// without any.
    pub fn with_loads(&self, trial: u32, loads: &BTreeMap<String, LoadRecord>) -> PathBuf {
        let file = self.out().join(format!("trials/all/{trial}/trial.json"));
        let text = std::fs::read_to_string(&file).expect("the trial was recorded");
        let mut record: Value = serde_json::from_str(&text).expect("JSON");
        record["loads"] = serde_json::to_value(loads).expect("a record");
        std::fs::write(&file, record.to_string()).expect("the record is written");
        let page = self.folder.path().join(format!("beside-{trial}.html"));
        std::fs::write(&page, self.drawn_again()).expect("the page is written");
        page
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The page that the run wrote.
    pub fn page(&self) -> PathBuf {
        self.out().join("report.html")
    }

    /// The page made again from the folder.
    pub fn drawn_again(&self) -> String {
        let out = tardy().args(["report", "--format", "html"]).arg(self.out()).output().expect("tardy starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).expect("a page is text")
    }
}

fn tardy() -> Command {
    let program = std::env::var_os("TARDY").map_or_else(|| Path::new("../dist/tardy").into(), PathBuf::from);
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}
