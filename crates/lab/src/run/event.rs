// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens in a run, as one owned value with a time, and where that and the samples go. The
//! progress line, `events.jsonl` and the port of a guest all take this one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tardy_engine::live::Digest;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{GuestEntry, HostEntry, ReadBack, StationEntry};
use tardy_model::point::Metric;
use tardy_model::sample::Batch;
use tardy_model::stream::Side;
use tardy_model::time::{Instant, Nanos, Realtime};
use tardy_model::trial::TrialRecord;
use tardy_model::verdict::Figure;
use tardy_model::xdp::Inspection;
use tardy_sys::clock;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the clock of the host that runs tardy. What a guest says gets the time at which
    /// the host heard it, because the guest's clock is its own.
    pub at: Instant<Realtime>,
    pub what: What,
}

/// What happened. In JSON the name of what happened is the key next to `at`. So the kernel's
/// answers stay the text that they are, which a tag among the fields would not allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A batch of commands was run: each as a person would paste it. The event's time is the
    /// batch's end.
    Commands {
        commands: Vec<String>,
        /// How long the batch took.
        took_ns: Nanos,
        /// What failed, in the program's words.
        failed: Vec<String>,
        /// They are nothing for this machine's shell: a guest says that it ran them, or they start
        /// one.
        #[serde(default, skip_serializing_if = "is_false")]
        elsewhere: bool,
    },
    /// The other machines of the run were looked at.
    Hosts {
        /// What they are, by name.
        hosts: BTreeMap<String, HostEntry>,
    },
    /// A path is built and its agents answer.
    Built {
        /// What was read back.
        read_back: Vec<ReadBack>,
        stations: BTreeMap<String, StationEntry>,
        /// Agents' process ids by station.
        pids: BTreeMap<String, u32>,
    },
    /// The ruler was measured: before the first trial, and again after the last one; also before a
    /// trial whose receiver was placed anew on a CPU where none like it was to run.
    Ruler {
        /// A record for each kind of thread.
        records: Vec<RulerRecord>,
    },
    /// The machine cannot run a cell; the others go on.
    Refused {
        cell: String,
        why: String,
        /// What was found on its path, if that is why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<Box<Inspection>>,
    },
    /// There are programs of others on the path, or packets do not arrive as they were sent. The
    /// first packet of the trial is still to come.
    Found { cell: String, found: Box<Inspection> },
    /// None of a stream's warm-up packets has the stamp of the user's own XDP program. The first
    /// packet of the trial is still to come.
    Unstamped {
        cell: String,
        stream: String,
        /// The warm-up packets that arrived.
        packets: u32,
    },
    /// Something was not available and the run replaced it. The run goes on and says so.
    Short { cell: String, what: String },
    Trial {
        cell: String,
        /// Number in the cell, from 1.
        n: u32,
        /// Place in the run, from 0.
        order: u32,
        /// Trials of the run.
        of: u32,
    },
    Progress {
        stream: String,
        side: Side,
        digest: Digest,
        /// Packets that the trial intends.
        count: u32,
        /// What the figures are of; `None` for an end that cannot compute the metric that leads.
        metric: Option<Metric>,
    },
    /// A trial was written to the run folder.
    TrialKept {
        cell: String,
        /// Number in the cell, from 1.
        n: u32,
        /// The judge's word; `None` if the cell is not the experiment's.
        valid: Option<bool>,
    },
    /// A station failed in a trial; what the others had recorded was written.
    TrialBroken {
        cell: String,
        /// Number in the cell, from 1.
        n: u32,
        why: String,
    },
    /// Everything is put back.
    TornDown,
    /// A guest is up and has reported its facts.
    GuestUp { proc_version: String, facts: BTreeMap<String, Figure> },
    /// A guest's first trial begins.
    GuestBooted {
        /// The processor time that QEMU had taken by then.
        boot_cpu_ns: i64,
        /// The time on the host's clock.
        boot_ns: Option<i64>,
    },
    /// More has become known of a guest.
    Guest {
        /// All that is known of it.
        entry: Box<GuestEntry>,
    },
    /// The run is over.
    Ended {
        /// A signal ended it.
        interrupted: bool,
        /// What ended it early, in words.
        failed: Option<String>,
        /// The exit code that goes with them, where a guest ran it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
        /// What could not be put back.
        not_put_back: Option<String>,
    },
}

fn is_false(it: &bool) -> bool {
    !it
}

impl Event {
    /// It happened just now.
    pub fn now(what: What) -> Event {
        Event { at: clock::now(), what }
    }

    /// The same, from another machine: its commands are nothing for this machine's shell.
    #[must_use]
    pub fn of_elsewhere(mut self) -> Event {
        if let What::Commands { elsewhere, .. } = &mut self.what {
            *elsewhere = true;
        }
        self
    }

    /// It happened so long ago.
    pub fn ago(ago: Nanos, what: What) -> Event {
        Event { at: clock::now::<Realtime>() - ago, what }
    }
}

/// Where a run's events and samples go.
pub trait Sink {
    fn event(&mut self, event: Event);
    /// What the programs of the trial's loads wrote, by file name; the trial itself follows.
    fn load_output(&mut self, _output: Vec<(String, Vec<u8>)>) {}
    /// A trial is over. An error ends the run. If the record says that it failed, half of it is
    /// gone: what there is may be kept, but it is no finished trial and no figure may come of it.
    fn trial(
        &mut self,
        record: &TrialRecord,
        streams: &[(String, Batch)],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}
