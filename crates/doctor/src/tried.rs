// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this kernel does when it is asked: queue disciplines on a virtual device, XDP programs on
//! both of its ends, and an empty BPF program of each type. The device is in a network namespace
//! without a name, which goes with the thread that made it.

use std::io;
use std::process::{Command, Stdio};
use tardy_bpf::forward::Forwarding;
use tardy_bpf::types::{self, ProgramSupport};
use tardy_model::xdp::XdpMode;
use tardy_sys::process::in_scratch_netns;

/// The ends of the virtual device. No other device is in that namespace.
const ENDS: [&str; 2] = ["one", "two"];
/// Queue disciplines, their settings, and what of the kernel has them.
pub(crate) const QDISCS: [(&str, &str, &str); 9] = [
    ("mqprio", "num_tc 2 map 0 1 queues 1@0 1@1 hw 0", "NET_SCH_MQPRIO"),
    (
        "taprio",
        "num_tc 2 map 0 1 queues 1@0 1@1 base-time 0 sched-entry S 01 500000 sched-entry S 02 500000 clockid CLOCK_TAI",
        "NET_SCH_TAPRIO",
    ),
    ("etf", "clockid CLOCK_TAI delta 200000", "NET_SCH_ETF"),
    ("cbs", "idleslope 98688 sendslope -901312 hicredit 153 locredit -1389 offload 0", "NET_SCH_CBS"),
    ("ets", "bands 2 strict 1", "NET_SCH_ETS"),
    ("prio", "", "NET_SCH_PRIO"),
    ("fq", "", "NET_SCH_FQ"),
    ("netem", "delay 1ms", "NET_SCH_NETEM"),
    ("clsact", "", "NET_SCH_INGRESS"),
];

/// How each attempt ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Queue disciplines by their names; the kernel's words where it refused one.
    pub qdiscs: Vec<(String, Result<(), String>)>,
    /// Modes of XDP on a virtual device.
    pub xdp: Vec<(String, Result<(), String>)>,
    /// BPF programs by their types.
    pub programs: Vec<ProgramSupport>,
}

/// Tries all of it.
///
/// # Errors
/// In words, if no namespace or no virtual device could be made.
pub fn try_all() -> Result<Tried, String> {
    // XDP in the driver needs as many queues that receive as the other end has that send.
    let queues = "numtxqueues 2 numrxqueues 2";
    let tried = in_scratch_netns(|| {
        run("ip", &format!("link add name {} {queues} type veth peer name {} {queues}", ENDS[0], ENDS[1]))?;
        for end in ENDS {
            run("ip", &format!("link set dev {end} up"))?;
        }
        let qdiscs = QDISCS.iter().map(|(kind, settings, _)| ((*kind).to_owned(), qdisc(kind, settings))).collect();
        let modes = [XdpMode::Native, XdpMode::Generic];
        let attached = |mode: XdpMode| {
            let both = Forwarding::between(ENDS, mode, false).map(drop).map_err(|error| error.to_string());
            (mode.name().to_owned(), both)
        };
        let xdp = modes.into_iter().map(attached).collect();
        Ok(Tried { qdiscs, xdp, programs: types::probe() })
    });
    tried.map_err(|error| error.to_string())?
}

fn qdisc(kind: &str, settings: &str) -> Result<(), String> {
    let [at, _] = ENDS;
    let place = if kind == "clsact" { kind.to_owned() } else { format!("root {kind}") };
    run("tc", format!("qdisc add dev {at} {place} {settings}").trim_end())?;
    run("tc", &format!("qdisc del dev {at} {}", if kind == "clsact" { kind } else { "root" }))
}

fn run(program: &str, words: &str) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words.split_whitespace()).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("the program {program} is not installed: apt install iproute2"),
        _ => format!("{program} {words}: {error}"),
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it ended with an error").trim();
    let line = line.strip_prefix("Error: ").unwrap_or(line);
    if output.status.success() { Ok(()) } else { Err(line.to_owned()) }
}
