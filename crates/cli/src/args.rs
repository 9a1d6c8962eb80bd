// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs and flags, defined once: help texts come from here.

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

/// How late packets are on a Linux packet path, whether that number can be believed, and where the lateness comes from.
#[derive(Debug, Parser)]
#[command(name = "tardy", version, max_term_width = 110)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Build each cell of an experiment, measure it, judge it, tear it down
    Run(Run),
    /// Print the cells, and every command that would be run, as a pasteable script
    Plan(Plan),
    /// Draw any picture of a run, without root
    Report(Report),
    /// Put back what a killed run left behind
    Undo,
    /// Print the schema of a file
    Schema(Schema),
    /// Be a station (started by `run`; speaks on stdin and stdout)
    #[command(hide = true)]
    Agent(Agent),
    /// Show or set what a network device stamps (used by `run` and `undo`)
    #[command(hide = true)]
    Hwtstamp(Hwtstamp),
}

#[derive(Debug, ClapArgs)]
pub struct Experiment {
    /// A file, or the name of a ready-made experiment
    #[arg(default_value = "host-to-host", value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Set a dotted key of the experiment, such as stream.ctl.count=400
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Run {
    #[command(flatten)]
    pub experiment: Experiment,
    /// Repetitions of each cell (same as --set trials=N)
    #[arg(long, value_name = "N")]
    pub trials: Option<u32>,
    /// The run folder, new or empty [default: runs/<UTC time>-<name>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print results.json on stdout, and nothing else there
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Plan {
    #[command(flatten)]
    pub experiment: Experiment,
}

#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The run folder
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// text, md, org, html, json or csv
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub format: String,
    /// Write to a file instead of stdout
    #[arg(short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct Schema {
    /// experiment, results, samples or manifest
    #[arg(value_name = "FILE")]
    pub of: String,
}

#[derive(Debug, ClapArgs)]
pub struct Agent {
    /// Enter this network namespace first
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
}

/// As linuxptp's hwstamp_ctl, which a machine may lack: commands of a plan must run everywhere.
#[derive(Debug, ClapArgs)]
pub struct Hwtstamp {
    /// show, set, or restore: set, and fail if it is not exactly so then
    #[arg(value_parser = ["show", "set", "restore"])]
    pub what: String,
    /// The device
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespaces to look for it in, the first that has it counting [default: this one]
    #[arg(long, value_name = "NAME")]
    pub netns: Vec<String>,
    /// HWTSTAMP_TX_*: 0 off, 1 on
    #[arg(long, value_name = "N", required_if_eq_any([("what", "set"), ("what", "restore")]))]
    pub tx: Option<i32>,
    /// HWTSTAMP_FILTER_*: 0 none, 1 all
    #[arg(long, value_name = "N", required_if_eq_any([("what", "set"), ("what", "restore")]))]
    pub rx: Option<i32>,
    /// HWTSTAMP_FLAG_*
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub flags: i32,
}
