// SPDX-License-Identifier: MIT OR Apache-2.0
//! `manifest.json`: what the machine and the tools were, so that a number can be traced to what
//! made it. The comments of the fields are the descriptions in its JSON Schema
//! ([`crate::schema`]).

use crate::FORMAT;
use crate::harmless::Json;
use crate::machine::RulerRecord;
use crate::verdict::Figure;
use crate::xdp::Inspection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the machine and the tools were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "tardy manifest", extend("$id" = format!("urn:tardy:manifest:{FORMAT}")))]
pub struct Manifest {
    /// Version of the run folder.
    #[schemars(extend("const" = FORMAT))]
    pub format: u32,
    /// Version of the tardy that ran it.
    pub tardy: String,
    /// The experiment's `name`, as its file has it.
    pub name: String,
    /// When the run began, UTC, RFC 3339.
    pub started_utc: String,
    /// When it ended, UTC, RFC 3339; null if the run was killed.
    pub ended_utc: Option<String>,
    /// Seed of the order of trials, the phases and the nonces.
    pub seed: u64,
    /// The command line: the program and its arguments.
    pub command: Vec<String>,
    /// The cells as planned, in the experiment's order.
    pub cells: Vec<CellEntry>,
    /// Facts of the coordinator's machine, by dotted name.
    pub machine: BTreeMap<String, Figure>,
    /// The stations that were built, by their names.
    pub stations: BTreeMap<String, StationEntry>,
    /// The ruler's figures, by station and CPU.
    pub ruler: Vec<RulerRecord>,
    /// What was read back after set-up: commands, and what they printed.
    pub read_back: Vec<ReadBack>,
    /// Programs that were run, with their versions.
    pub programs: BTreeMap<String, String>,
    /// The other machines of the run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostEntry>,
    /// The guest that it ran in, if it did; `machine` then describes the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestEntry>,
    /// The user's own XDP programs that were loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xdp_objects: Vec<XdpObjectEntry>,
}

/// A user's own XDP program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "xdp_object")]
pub struct XdpObjectEntry {
    /// The object file, as it was named.
    pub file: String,
    /// The section of the program.
    pub section: String,
    /// The file's SHA-256, hexadecimal.
    pub sha256: String,
    /// Columns of `samples.parquet` that members of its hint structs make, besides `hint`.
    pub columns: Vec<String>,
    /// Members that make none, with the reason.
    pub unrecorded: Vec<String>,
    /// The member that is the packet's arrival time, where the experiment names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Columns that are times: each has a metric `COLUMN..receive`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<String>,
    /// Why their metrics are absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_times: Option<String>,
    /// The clock of its stamps: `tai`, `monotonic` or `boottime`; null if there is no `rx_xdp`.
    pub clock: Option<String>,
    /// Why there is no `rx_xdp`, or none with some structs.
    pub without_time: Option<String>,
    /// Functions that print a line into the kernel's trace, one for each call.
    #[serde(default)]
    pub printing: Vec<String>,
    /// Numbers of devices that are constants in redirects of its code.
    #[serde(default)]
    pub device_numbers: Vec<u32>,
}

/// Another machine of a run than the coordinator's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "host")]
pub struct HostEntry {
    /// The machine that runs its processors, where it is a guest; null for a machine of its own.
    pub parent: Option<String>,
    /// Its facts, by dotted name.
    pub machine: BTreeMap<String, Figure>,
    /// Programs that were run on it, with their versions.
    pub programs: BTreeMap<String, String>,
}

/// Nanoseconds that an instruction takes in a guest whose time is counted instructions.
pub const INSTRUCTION_NS: i64 = 2;

/// How a guest's time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestMode {
    /// With the host's: emulated, or by KVM where it starts ordinary kernels.
    RealTime,
    /// By counted instructions: virtual time, the same in every run.
    Exact,
}

impl GuestMode {
    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            GuestMode::RealTime => "guest",
            GuestMode::Exact => "guest:exact",
        }
    }
}

impl GuestEntry {
    /// True if its time is counted instructions.
    pub fn is_exact(&self) -> bool {
        self.mode == GuestMode::Exact.name()
    }

    /// What a reader needs to make it again, by name, in the order in which it is read. What is not
    /// known is left out.
    pub fn facts(&self) -> Vec<(String, String)> {
        let tai = Some(self.tai_offset_s).filter(|offset| *offset != 0).map(|offset| format!("{offset} s"));
        let facts = [
            ("mode", self.mode.clone()),
            ("accelerator", self.accelerator.clone()),
            ("kernel", format!("{} {}", self.kernel, self.kernel_release).trim().to_owned()),
            ("/proc/version", self.proc_version.clone().unwrap_or_default()),
            ("QEMU", self.qemu.clone()),
            ("SHA-256 of the kernel", self.kernel_sha256.clone()),
            ("SHA-256 of the initramfs", self.initramfs_sha256.clone()),
            ("TAI − UTC", tai.unwrap_or_default()),
        ];
        let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
        known.map(|(name, value)| (format!("guest: {name}"), value)).collect()
    }
}

/// The guest that a run was made in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "guest")]
pub struct GuestEntry {
    /// How its time goes: with the host's (`guest`), or by counted instructions (`guest:exact`).
    #[schemars(extend("enum" = [GuestMode::RealTime.name(), GuestMode::Exact.name()]))]
    pub mode: String,
    /// What ran its instructions: an emulator (`tcg`), or the processor itself (`kvm`).
    #[schemars(extend("enum" = ["tcg", "kvm"]))]
    pub accelerator: String,
    /// How many virtual CPUs it has.
    pub cpus: u32,
    /// Memory that it has, MiB.
    pub memory_mib: u64,
    /// The kernel, as it was asked for.
    pub kernel: String,
    /// Release of that kernel, as `uname -r` prints it.
    pub kernel_release: String,
    /// SHA-256 of the kernel's image.
    pub kernel_sha256: String,
    /// SHA-256 of the file that QEMU was given: the kernel unpacked out of its image, or the
    /// image. Absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots_sha256: Option<String>,
    /// SHA-256 of the initramfs that it booted: tardy, programs, modules, the experiment.
    pub initramfs_sha256: String,
    /// The guest's `/proc/version`; null if it never came up.
    pub proc_version: Option<String>,
    /// Version that QEMU reports.
    pub qemu: String,
    /// Arguments that QEMU was started with.
    pub arguments: Vec<String>,
    /// TAI − UTC in it, seconds.
    pub tai_offset_s: i32,
    /// Processor time that QEMU had used when the first trial's warm-up was over and its packets
    /// were about to go, ns; null if it never came so far.
    pub boot_cpu_ns: Option<i64>,
    /// How long it took until the first trial's warm-up was over and its packets were about to go,
    /// ns; null if it never came so far.
    pub boot_ns: Option<i64>,
    /// Processor time that QEMU had used when the run was over, ns; null where it is not known.
    pub cpu_ns: Option<i64>,
    /// Facts of the host, by dotted name.
    pub host: BTreeMap<String, Figure>,
}

/// A cell as planned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "cell")]
pub struct CellEntry {
    /// Id of the cell: the name of its case and the values of its axes, or `all`.
    pub id: String,
    /// Full dotted key to value.
    pub axes: BTreeMap<String, String>,
    /// Trials that were asked for.
    pub trials: u32,
    /// Why the machine could not run it; null if it could.
    #[serde(default)]
    pub refused: Option<String>,
    /// What was found on its path before the first packet, if that is why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Inspection>,
    /// What it asked for and could not have, and what was taken instead.
    #[serde(default)]
    pub short: Vec<String>,
}

/// A station as it was built.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "station")]
pub struct StationEntry {
    /// Its kind: `netns`, a network namespace.
    pub kind: String,
    /// Its name in the machine; null if it has none.
    pub netns: Option<String>,
    /// Version of the agent there.
    pub agent: String,
}

/// An end of a path whose queue disciplines were read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "qdiscs_of")]
pub struct QdiscsOf {
    /// The station whose device it is.
    pub station: String,
    /// The network device, by the name that each run has for it; `link` for one that the path
    /// makes, whose own name contains the number of a slot.
    pub device: String,
}

impl QdiscsOf {
    /// What a device that the path makes is called.
    pub const MADE: &str = "link";
}

/// What was read back after set-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "read_back")]
pub struct ReadBack {
    /// The cell whose path it was; only of queue disciplines, which differ from cell to cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The owner of the queue disciplines that it shows; absent where it shows something else, and
    /// in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qdiscs_of: Option<QdiscsOf>,
    /// The command that was run.
    pub command: String,
    /// What it printed: as it is if that was JSON, else as a text.
    pub says: Json,
}
