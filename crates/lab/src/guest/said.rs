// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a guest says of its run, beside the trials themselves.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tardy_engine::live::Digest;
use tardy_model::machine::RulerRecord;
use tardy_model::manifest::{ReadBack, StationEntry};
use tardy_model::point::Metric;
use tardy_model::stream::Side;
use tardy_model::verdict::Figure;

/// What a guest says; [`Event`](crate::run::Event)s, owned, and how it began and ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Said {
    /// It is up.
    Machine {
        proc_version: String,
        facts: BTreeMap<String, Figure>,
    },
    Commands {
        commands: Vec<String>,
        took_ns: u64,
        failed: Vec<String>,
    },
    Built {
        read_back: Vec<ReadBack>,
        stations: BTreeMap<String, StationEntry>,
        pids: BTreeMap<String, u32>,
    },
    Ruler {
        records: Vec<RulerRecord>,
    },
    Refused {
        cell: String,
        why: String,
    },
    Short {
        cell: String,
        what: String,
    },
    Trial {
        cell: String,
        n: u32,
        order: u32,
        of: u32,
    },
    Progress {
        stream: String,
        side: Side,
        digest: Digest,
        count: u32,
        metric: Option<Metric>,
    },
    TornDown,
    /// It is over.
    End(End),
}

/// How the run ended inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// What ended it early: the words and the exit code that go with them.
    pub failed: Option<(String, u8)>,
    /// What could not be put back, which goes with the guest.
    pub not_put_back: Option<String>,
}
