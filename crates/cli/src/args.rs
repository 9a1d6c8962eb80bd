// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs and flags, defined once: help texts, man pages, completions and the manual's reference
//! come from here. What a page has beyond the flags is in `manual/pages.rs`.

use crate::{manual, usage};
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{
    Arg, ArgAction, Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint,
};
use std::ffi::OsStr;
use std::path::PathBuf;

/// How late packets are, whether that can be believed, and where it comes from
#[derive(Debug, Parser)]
#[command(name = "tardy", version, max_term_width = 110, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub enum Verb {
    /// Build, measure, judge and tear down each cell of an experiment
    Run(Run),
    /// Print the cells and all commands of a run, as a pasteable script
    Plan(Plan),
    /// Print a run again, as a table, a page or a document, without root
    Report(Report),
    /// Set two runs side by side: machine, settings, numbers
    Compare(Compare),
    /// Write runs for other tools: hlog, csv, pcapng, perfetto and more
    Export(Export),
    /// Copy memory by several threads: may their bandwidths be added up?
    Copy(Copy),
    /// Fetch and list kernels for guests; pack what one boots
    Guest(Guest),
    /// List what XDP programs leave before packets
    Hints(Hints),
    /// Show how far the clocks of an experiment's machines are apart
    Clocks(Clocks),
    /// Find what of this machine would spoil figures, and how to fix it
    Doctor(Doctor),
    /// Put back what a killed run left behind
    Undo(Undo),
    /// Print the schema of a file
    Schema(Schema),
    /// Print the manual page of a verb, or write all of them
    Man(Man),
    /// Print the licences of everything in this program
    #[command(hide = true)]
    Notices,
    /// Print what a shell needs to complete verbs and flags
    Completions(Completions),
    /// Be a station (started by `run`; speaks on stdin and stdout)
    #[command(hide = true)]
    Agent(Agent),
    /// Look at this machine and change it for a coordinator elsewhere (speaks on stdin and stdout)
    #[command(hide = true)]
    Steward,
    /// Become a program once a journal has this process (speaks on stdin and stdout)
    #[command(hide = true)]
    Noted(Noted),
    /// Hand packets from one network device to another by XDP, until stdin ends (used by `run`)
    #[command(hide = true)]
    Forward(Forward),
    /// Hand packets from one network device to another by Open vSwitch in user space, until stdin
    /// ends (used by `run`)
    #[command(hide = true)]
    Switch(Switch),
    /// Observe the clocks at both ends of a path by PTP, until stdin ends (used by `run`)
    #[command(hide = true)]
    Ptp(Ptp),
    /// Show or set what a network device stamps (used by `run` and `undo`)
    #[command(hide = true)]
    Hwtstamp(Hwtstamp),
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Experiment")]
pub struct Experiment {
    /// A file or a ready-made name
    #[arg(default_value = "host-to-host", value_name = "EXPERIMENT", value_hint = ValueHint::FilePath, display_order = 0)]
    pub experiment: String,
    /// Set a dotted key, such as stream.ctl.count=400
    #[arg(long = "set", value_name = "KEY=VALUE", display_order = 1)]
    pub set: Vec<String>,
    /// Repetitions of each cell (same as --set trials=N)
    #[arg(long, value_name = "N", value_parser = from_one, display_order = 2)]
    pub trials: Option<u32>,
}

/// Where an experiment is run, if not on this machine.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Experiment")]
pub struct InGuest {
    /// Inside a guest; guest:exact has exact virtual time
    #[arg(long = "in", id = "in", value_name = "guest[:exact]", value_parser = ["guest", "guest:exact"], hide_possible_values = true,
          display_order = 3)]
    pub place: Option<String>,
    /// The guest's kernel [default: debian:6.12]
    #[arg(long, value_name = "K", requires = "in", display_order = 4)]
    pub kernel: Option<String>,
    /// More words for the guest's kernel's command line
    #[arg(long, value_name = "WORDS", requires = "in", allow_hyphen_values = true, hide = true)]
    pub append: Option<String>,
    /// The guest's TAI − UTC, in seconds
    #[arg(long, value_name = "S", requires = "in", default_value_t = 0, hide = true, value_parser = clap::value_parser!(i32).range(0..1000))]
    pub tai_offset: i32,
}

#[derive(Debug, ClapArgs)]
pub struct Run {
    #[command(flatten)]
    pub experiment: Experiment,
    #[command(flatten)]
    pub guest: InGuest,
    /// Let the file's programs run as root, XDP ones too
    #[arg(long, help_heading = "Experiment", display_order = 5)]
    pub allow_commands: bool,
    /// Let a path take or use network devices of this host
    #[arg(long, help_heading = "Experiment", display_order = 6)]
    pub allow_nics: bool,
    /// Log in to the file's other machines over ssh
    #[arg(long, help_heading = "Experiment", display_order = 7)]
    pub allow_hosts: bool,
    /// An XDP program in place of tardy's (FILE:SECTION)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Experiment", display_order = 8)]
    pub xdp_object: Option<String>,
    /// Run folder, new or empty [default: runs/<UTC time>-<name>]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Print results.json on stdout, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Each flag is a key of the ready-made experiment `copy`.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Copy")]
pub struct Copy {
    /// Threads that copy, of each channel
    #[arg(long, value_name = "N", display_order = 0)]
    pub threads: Option<String>,
    /// Channels of each controller
    #[arg(long, value_name = "N", hide = true)]
    pub channels: Option<String>,
    /// Controllers, each with its channels
    #[arg(long, value_name = "N", hide = true)]
    pub controllers: Option<String>,
    /// Buffers of each thread
    #[arg(long, value_name = "N", display_order = 1)]
    pub buffers: Option<String>,
    /// Size of a buffer, such as 6592 or 64KiB
    #[arg(long, value_name = "SIZE", display_order = 2)]
    pub bytes: Option<String>,
    /// Passes of each thread over its buffers
    #[arg(long, value_name = "N", display_order = 3)]
    pub iterations: Option<String>,
    /// Scheduling: other, fifo:10, rr:10
    #[arg(long, value_name = "POLICY", display_order = 4)]
    pub policy: Option<String>,
    /// A CPU for each thread: spread, isolated, or numbers
    #[arg(long, value_name = "CPUS", num_args = 0..=1, default_missing_value = "spread", display_order = 5)]
    pub bind: Option<String>,
    /// How: memcpy, non-temporal, rep-movsb
    #[arg(long, value_name = "METHOD", display_order = 6)]
    pub method: Option<String>,
    /// Pages of the buffers: small, huge
    #[arg(long, value_name = "PAGES", display_order = 7)]
    pub pages: Option<String>,
    /// What is read: locked (in cache), unlocked (DRAM)
    #[arg(long, value_name = "WHERE", display_order = 8)]
    pub from: Option<String>,
    /// What is written: locked, unlocked
    #[arg(long, value_name = "WHERE", display_order = 9)]
    pub to: Option<String>,
    /// Repetitions of the copy
    #[arg(long, value_name = "N", value_parser = from_one, display_order = 10)]
    pub trials: Option<u32>,
    /// Run folder [default: runs/<UTC time>-copy]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, display_order = 11)]
    pub out: Option<PathBuf>,
    /// Print results.json on stdout, and nothing else
    #[arg(long, display_order = 12)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Plan {
    #[command(flatten)]
    pub experiment: Experiment,
    #[command(flatten)]
    pub guest: InGuest,
    /// An XDP program in place of tardy's (FILE:SECTION)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Experiment", display_order = 7)]
    pub xdp_object: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(disable_help_subcommand = true, subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub struct Guest {
    #[command(subcommand)]
    pub verb: GuestVerb,
}

#[derive(Debug, Subcommand)]
pub enum GuestVerb {
    /// Fetch kernels of Debian's into the cache, through this machine's apt
    Fetch {
        /// Which, such as debian:6.12-rt [default: debian:6.12]
        #[arg(value_name = "KERNEL", value_parser = Suggest(kernels), hide_possible_values = true)]
        kernels: Vec<String>,
        /// Also build what Debian leaves out: netdevsim or dmatest; qemu, for machines in a guest
        #[arg(long, value_name = "MODULE", hide_possible_values = true, value_parser = PossibleValuesParser::new(extras()))]
        with: Vec<String>,
    },
    /// List kernels that a guest can have
    List,
    /// Write the initramfs that a run's guest would boot
    Pack(Pack),
    /// Remove what a run left in its guest's folder, following no link (used by `undo`)
    #[command(hide = true)]
    RemoveFiles {
        /// Files to remove, by absolute paths
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<std::path::PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub struct Pack {
    #[command(flatten)]
    pub experiment: Experiment,
    #[command(flatten)]
    pub guest: InGuest,
    /// Write the initramfs to this file
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The run folder to report on
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// Format of the report
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = formats(), help_heading = "Output")]
    pub format: String,
    /// Only trial N of each cell, marked as one trial
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub trial: Option<u32>,
    /// Instead of the report, the N worst packets of each stream by the metric that leads
    #[arg(long, value_name = "N", conflicts_with = "format", value_parser = worst)]
    pub worst: Option<u32>,
    /// Write to a file instead of stdout
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// More packets than this are no table; `tardy export` has all of them.
const MOST_WORST: u32 = 1_000;

/// A whole number of these, or what to write.
fn whole(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let read = text.parse().ok().filter(|number| (least..=most).contains(number));
    read.ok_or_else(|| match most {
        u32::MAX => format!("write a whole number, from {least}"),
        most => format!("write a whole number, from {least} to {most}"),
    })
}

fn from_one(text: &str) -> Result<u32, String> {
    whole(text, 1, u32::MAX)
}

fn worst(text: &str) -> Result<u32, String> {
    whole(text, 1, MOST_WORST)
}

#[derive(Debug, ClapArgs)]
pub struct Compare {
    /// The first run folder, A
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub a: PathBuf,
    /// The second run folder, B
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub b: PathBuf,
    /// End with 1 if B differs by more: 'scheduled..receive p50 > +2%'
    #[arg(long, value_name = "CONDITION", help_heading = "Conditions")]
    pub fail_if: Vec<String>,
    /// Format of the comparison
    #[arg(long, default_value = "text", value_name = "FORMAT", value_parser = of_comparisons(), help_heading = "Output")]
    pub format: String,
    /// Write to a file instead of stdout
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// Values that completions offer; a wrong one is refused by the verb, which knows more to say.
#[derive(Clone, Copy, Debug)]
struct Suggest(fn() -> Vec<&'static str>);

impl TypedValueParser for Suggest {
    type Value = String;
    fn parse_ref(&self, command: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().into_iter().map(PossibleValue::new)))
    }
}

fn exporters() -> Vec<&'static str> {
    tardy_report::export::EXPORTERS.iter().map(|exporter| exporter.name).collect()
}

fn kernels() -> Vec<&'static str> {
    tardy_lab::guest::kernel::DEBIAN.iter().map(|debian| debian.name).collect()
}

fn extras() -> Vec<&'static str> {
    let modules = tardy_lab::guest::extra::EXTRAS.iter().map(|extra| extra.name);
    modules.chain([tardy_lab::guest::emulator::NAME]).collect()
}

fn verbs() -> Vec<&'static str> {
    manual::PAGES.iter().filter_map(|page| page.verb).collect()
}

fn formats() -> PossibleValuesParser {
    let formats = tardy_report::FORMATS.iter();
    formats.map(|format| PossibleValue::new(format.name).help(format.says)).collect::<Vec<_>>().into()
}

fn of_comparisons() -> PossibleValuesParser {
    let formats = tardy_report::compare::FORMATS.iter();
    formats.map(|format| PossibleValue::new(format.name).help(format.says)).collect::<Vec<_>>().into()
}

#[derive(Debug, ClapArgs)]
pub struct Schema {
    /// The file whose schema is printed
    #[arg(value_name = "FILE", value_enum)]
    pub of: SchemaOf,
}

/// Files that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// An experiment file, as JSON
    Experiment,
    /// results.json: the figures and verdicts of a run
    Results,
    /// samples.parquet: its columns, and a SQL view with every metric
    Samples,
    /// manifest.json: the machine, and how the run was made
    Manifest,
    /// What `tardy doctor --json` prints
    Doctor,
}

#[derive(Debug, ClapArgs)]
pub struct Man {
    /// The page of this verb instead of tardy(1)
    #[arg(value_name = "VERB", value_parser = Suggest(verbs), hide_possible_values = true, conflicts_with_all = ["out", "reference"])]
    pub verb: Option<String>,
    /// Write all pages there: tardy.1, tardy-run.1 and so on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output", conflicts_with = "reference")]
    pub out: Option<PathBuf>,
    /// Write the book's reference chapters there, as Markdown
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub reference: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub struct Completions {
    /// The shell that is to complete verbs and flags
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Shells that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, ClapArgs)]
pub struct Agent {
    /// Enter this network namespace first
    #[arg(long, value_name = "NAME", help_heading = "Station")]
    pub netns: Option<String>,
    /// Report nothing while a trial runs
    #[arg(long, help_heading = "Station")]
    pub quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Forward {
    /// The network namespace of both devices
    #[arg(long, value_name = "NAME", help_heading = "Path")]
    pub netns: String,
    /// Where the programs run: native, in the drivers, or generic, behind them
    #[arg(long, value_name = "MODE", value_parser = ["native", "generic"], help_heading = "Path")]
    pub mode: String,
    /// Let the programs print a line for each packet
    #[arg(long, help_heading = "Path")]
    pub printk: bool,
    /// Refuse unless the kernel compiles the programs (on), or interprets them (off)
    #[arg(long, value_name = "STATE", value_parser = ["on", "off"], help_heading = "Path")]
    pub jit: Option<String>,
    /// The two network devices
    #[arg(value_name = "DEV", num_args = 2)]
    pub devices: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Switch {
    /// The network namespace of both devices
    #[arg(long, value_name = "NAME", help_heading = "Path")]
    pub netns: String,
    /// Where the switch has its files: a folder of its own, which is made and removed
    #[arg(long, value_name = "DIR", help_heading = "Path")]
    pub folder: PathBuf,
    /// What the bridge is called, which is also a device of the namespace
    #[arg(value_name = "BRIDGE")]
    pub bridge: String,
    /// The two network devices
    #[arg(value_name = "DEV", num_args = 2)]
    pub devices: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Ptp {
    /// The network namespace of the device
    #[arg(long, value_name = "NAME", help_heading = "Path")]
    pub netns: String,
    /// Where ptp4l listens: in a folder that is there
    #[arg(long, value_name = "FILE", help_heading = "Path")]
    pub socket: PathBuf,
    /// The other end leads
    #[arg(long, help_heading = "Path")]
    pub follows: bool,
    /// The network device at the end of the path
    #[arg(value_name = "DEV")]
    pub device: String,
}

#[derive(Debug, ClapArgs)]
pub struct Noted {
    /// End if the run does not note this process within this time
    #[arg(long, value_name = "SECONDS", default_value_t = 60, hide = true)]
    pub within: u64,
    /// The program and its arguments; `tardy` is this very program
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Export {
    /// The run folder to export from; to a data set any number
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath, required = true)]
    pub runs: Vec<PathBuf>,
    /// hlog (HdrHistogram log), csv (the samples), prometheus (text format), dataset (Parquet)
    #[arg(long, value_name = "TOOL", value_parser = Suggest(exporters), hide_possible_values = true, help_heading = "Output")]
    pub to: String,
    /// Write to a file, or into a folder that exists, instead of stdout
    #[arg(short, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// To a data set: the machine's name [default: the one that the run noted]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub host: Option<String>,
    /// To a data set: the commit of what was measured
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub commit: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub struct Hints {
    /// A BPF object, vmlinux, or a loaded module
    #[arg(value_name = "OBJECT|vmlinux|MODULE", value_hint = ValueHint::FilePath)]
    pub source: String,
    /// Print JSON on stdout, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct Clocks {
    #[command(flatten)]
    pub experiment: Experiment,
    /// Log in to the file's other machines over ssh
    #[arg(long, help_heading = "Experiment", display_order = 5)]
    pub allow_hosts: bool,
    /// End after this number of readings [default: until a signal]
    #[arg(long, value_name = "N", value_parser = from_one)]
    pub count: Option<u32>,
}

#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// A CPU to be left alone; it is watched for 2 s
    #[arg(long, value_name = "N")]
    pub cpu: Vec<u32>,
    /// Only what matters for this experiment, on its CPUs
    #[arg(long = "for", value_name = "EXPERIMENT", value_hint = ValueHint::FilePath)]
    pub experiment: Option<String>,
    /// Set a dotted key of it, such as stream.ctl.rx.port=xdp
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "experiment")]
    pub set: Vec<String>,
    /// A network device to look at [default: hardware]
    #[arg(long, value_name = "IF")]
    pub nic: Vec<String>,
    /// With --nic: try the modes of XDP on the device
    #[arg(long, requires = "nic")]
    pub try_xdp: bool,
    /// With --try-xdp: also on the default route's device
    #[arg(long, requires = "try_xdp")]
    pub allow_nics: bool,
    /// Look at another machine, which ssh calls so
    #[arg(long, value_name = "HOST", conflicts_with_all = ["experiment", "try_xdp"])]
    pub host: Option<String>,
    /// With --host: become root there by sudo
    #[arg(long, requires = "host")]
    pub sudo: bool,
    /// Do not watch the CPUs
    #[arg(long)]
    pub no_live: bool,
    /// Do not try what the kernel can do (loads modules)
    #[arg(long)]
    pub no_try: bool,
    /// Print the commands that fix it until the next boot, as a script
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    pub fix: bool,
    /// With --fix: run those of what spoils figures; see `tardy undo`
    #[arg(long, requires = "fix", conflicts_with = "try_xdp", help_heading = "Output")]
    pub apply: bool,
    /// Print JSON on stdout, and nothing else there
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Debug, Default, ClapArgs)]
pub struct Undo {
    /// Do it on another machine, which ssh calls so
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// With --host: become root there by sudo
    #[arg(long, requires = "host")]
    pub sudo: bool,
    /// Only what this very process has changed, before a second signal made it begin anew (used by
    /// `run`)
    #[arg(long, hide = true)]
    pub own: bool,
}

/// As linuxptp's hwstamp_ctl, which a machine may lack: commands of a plan must run everywhere.
#[derive(Debug, ClapArgs)]
pub struct Hwtstamp {
    /// show, set, or restore: set, and fail if it is not exactly so then
    #[arg(value_parser = ["show", "set", "restore"])]
    pub what: String,
    /// The network device whose stamping is meant
    #[arg(value_name = "DEV")]
    pub device: String,
    /// Network namespaces to look for it in, the first that has it counting [default: this one]
    #[arg(long, value_name = "NAME")]
    pub netns: Vec<String>,
    /// Which sent packets are stamped: 0 none, 1 all
    #[arg(long, value_name = "N", required_if_eq_any([("what", "set"), ("what", "restore")]))]
    pub tx: Option<i32>,
    /// Which received packets are stamped: 0 none, 1 all, others as the kernel numbers them
    #[arg(long, value_name = "N", required_if_eq_any([("what", "set"), ("what", "restore")]))]
    pub rx: Option<i32>,
    /// Flags, as the kernel numbers them
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub flags: i32,
}

/// The whole command line. Each verb's help is one screen, the same for `-h` and `--help`, with
/// examples below the flags.
pub fn command() -> clap::Command {
    const WHOLE: &str = "{about}\n{usage-heading} {usage}\n\n{all-args}{after-help}";
    let help = |about| Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help(about);
    let mut command = Args::command().disable_help_flag(true).arg(help("Print help, also of a verb"));
    for page in manual::PAGES {
        command = match page.verb {
            // All verbs and their page on one screen leave no empty line above the usage.
            None => command.help_template(WHOLE).after_help(manual::after_help(page)),
            Some(verb) if command.find_subcommand(verb).is_some() => command.mut_subcommand(verb, |command| {
                // Not listed there: who sees the list has found it.
                let nested: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
                let help = help("Print help").hide(true);
                let command = nested.into_iter().fold(command, |command, verb| {
                    let help = help.clone();
                    command.mut_subcommand(verb, |verb| verb.disable_help_flag(true).arg(help))
                });
                command.disable_help_flag(true).arg(help).after_help(manual::after_help(page))
            }),
            Some(_) => command,
        };
    }
    command
}

/// Reads the command line. A wrong one ends the program with a message and exit code 2.
pub fn read() -> Args {
    let mut command = command();
    let given = usage::meant(std::env::args_os().collect());
    let read = command.try_get_matches_from_mut(&given).map_err(|error| usage::explained(error, &command, &given));
    let matches = read.unwrap_or_else(|error| error.exit());
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}
