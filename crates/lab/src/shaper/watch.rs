// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the queue disciplines of the devices that streams leave by, before a trial and after it.

use super::{is_watched, leave_by, read_back};
use crate::command::Command;
use crate::host::HostId;
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::path::{Ends, LinkEnd};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tardy_model::harmless::Json;
use tardy_model::path::Devices;
use tardy_model::qdisc::ShaperRecord;
use tardy_spec::experiment::Setup;

/// What tc said, or why it did not.
type Said = Result<Value, String>;

/// The readings of one trial.
pub struct Readings<'a> {
    setup: &'a Setup,
    /// Drivers of the devices, by what records call the end.
    drivers: BTreeMap<String, String>,
    /// By what records call the end: its device, and what was read, or why that failed.
    ends: Vec<(String, LinkEnd, Vec<Said>)>,
}

impl<'a> Readings<'a> {
    /// None taken yet.
    ///
    /// # Errors
    /// If the run has not looked at the host of a station, or no path joins those of a stream.
    pub fn new(setup: &'a Setup, ends: &Ends, found: &FactsByHost) -> Result<Self, NotFound> {
        let leave = if is_watched(setup) { leave_by(setup, ends)? } else { BTreeSet::new() };
        let of_made = match setup.path.traits().devices {
            Devices::Made { driver } => driver.map(str::to_owned),
            Devices::There(_) | Devices::Named => None,
        };
        let (mut drivers, mut watched) = (BTreeMap::new(), Vec::new());
        for (id, end) in ends.iter().filter(|(id, _)| leave.contains(id)) {
            let (label, host) = (ends.label(id)?, found.of(end.place.host)?);
            let nic = host.named(&end.device).and_then(|name| host.nics.get(name));
            let driver = of_made.clone().or_else(|| nic?.driver.clone());
            drivers.extend(driver.map(|driver| (label.clone(), driver)));
            watched.push((label, end.clone(), Vec::new()));
        }
        Ok(Readings { setup, drivers, ends: watched })
    }

    /// What a host is to be asked for each.
    pub fn commands(&self, host: HostId) -> Vec<Command> {
        self.of(host).map(|at| read_back::question(&self.ends[at].1).command).collect()
    }

    /// Takes one: what that host says to each command.
    pub fn take(&mut self, host: HostId, says: Vec<Result<Json, String>>) {
        let ends: Vec<usize> = self.of(host).collect();
        for (at, says) in ends.into_iter().zip(says) {
            let parsed = |says: Json| serde_json::from_str(says.text()).map_err(|error| error.to_string());
            self.ends[at].2.push(says.and_then(parsed));
        }
    }

    fn of(&self, host: HostId) -> impl Iterator<Item = usize> + '_ {
        let ends = self.ends.iter().enumerate();
        ends.filter(move |(_, (_, end, _))| end.place.host == host).map(|(at, _)| at)
    }

    /// Records by end, of the first reading and the last. If a reading failed, the record says so.
    /// A trial that broke before the second reading has no record.
    pub fn records(self) -> BTreeMap<String, ShaperRecord> {
        let record = |(name, end, says): (String, LinkEnd, Vec<Said>)| {
            let [before, .., after] = &says[..] else { return None };
            let [before, after] = [before, after].map(|says| says.as_ref().map_err(String::as_str));
            let record = read_back::record(&self.setup.shaper, &end.device, before, after);
            let driver = self.drivers.get(&name).cloned();
            Some((name, ShaperRecord { driver, ..record }))
        };
        self.ends.into_iter().filter_map(record).collect()
    }
}
