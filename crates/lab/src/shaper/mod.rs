// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's queue discipline: the devices by which streams leave get it, the others keep their
//! own. A kind is one file and one line in [`set`]; what the kernel made of it is compared in
//! [`tc`]. [`Readings`] are what is read of it before a trial and after it.

pub mod cbs;
pub mod etf;
pub mod launching;
pub mod mqprio;
pub mod taprio;
pub mod tc;

use crate::command::Command;
use crate::host::HostId;
use crate::machine::{Facts, FactsByHost};
use crate::not_found::NotFound;
use crate::path::{EndId, Ends, LinkEnd, PathId};
use crate::step::{Question, Step};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tardy_host::nic::Nic;
use tardy_model::harmless::Json;
use tardy_model::manifest::QdiscsOf;
use tardy_model::path::{DeviceClock, Devices, Where};
use tardy_model::qdisc::ShaperRecord;
use tardy_model::shaper::{Schedule, Shaper, show_rate};
use tardy_model::time::{Instant, Nanos, Tai};
use tardy_spec::experiment::Setup;
pub use tc::{ROOT, WHY};
use thiserror::Error;

/// A schedule begins so long after it was planned, at the earliest: building takes less.
const AHEAD: Nanos = Nanos(500_000_000);

/// What a shaper plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shaped {
    /// Steps that set it.
    pub steps: Vec<Step>,
    /// Commands that show what the kernel has actually set.
    pub read_back: Vec<Question>,
    /// When its schedule begins on each host that has one, by the host's own clock.
    pub begins: BTreeMap<HostId, Instant<Tai>>,
}

/// A queue discipline that a device cannot have, known before anything is touched.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ShaperError {
    /// It has too few transmit queues.
    #[error(
        "shaper {kind} needs {needed} transmit queues and {device} has {has}: use fewer classes or queues, or another device (`ethtool -L` \
         may give it more)"
    )]
    Queues { kind: &'static str, device: String, needed: u32, has: u32 },
    /// Its link is faster or slower than what the schedule or the credits were written for.
    #[error(
        "the link of {device} runs at {} and `shaper.port_rate` is {}: windows and credits would be computed for another speed; write \
         shaper.port_rate = \"{}\"",
        show_rate(*is),
        show_rate(*asked),
        show_rate(*is)
    )]
    Rate {
        device: String,
        /// What its link sends, bits a second.
        is: u64,
        /// What the experiment takes it for.
        asked: u64,
    },
    /// A station or a host that is not there.
    #[error(transparent)]
    NotFound(#[from] NotFound),
}

/// Between which stations streams go, and on which paths, from which it follows by which ends they
/// leave.
pub fn pairs(setup: &Setup) -> BTreeSet<(&str, &str, Option<PathId>)> {
    setup.streams.iter().map(|stream| (stream.from.as_str(), stream.to.as_str(), stream.path)).collect()
}

/// True if queue disciplines are to be watched during trials: one is asked for, or packets have
/// launch times.
pub fn is_watched(setup: &Setup) -> bool {
    setup.shaper != Shaper::None || setup.streams.iter().any(|stream| stream.launch.is_some())
}

/// The ends by which streams leave.
///
/// # Errors
/// If no path joins the stations of a stream, or it could take several.
pub fn leave_by(setup: &Setup, ends: &Ends) -> Result<BTreeSet<EndId>, NotFound> {
    setup.streams.iter().map(|stream| ends.of_stream(stream).map(|[near, _]| near)).collect()
}

/// When a schedule that is planned now begins: at the first multiple of its cycle that lies far
/// enough ahead, moved by its offset.
fn begin(schedule: &Schedule, now: Option<Instant<Tai>>) -> Instant<Tai> {
    let (cycle, offset) = (schedule.cycle.0.max(1), schedule.offset.0);
    let earliest = now.map_or(0, Instant::ns) + AHEAD.0 - offset;
    Instant::from_ns((earliest + cycle - 1).div_euclid(cycle) * cycle + offset)
}

/// Plans the shaper of a set-up at these ends of the path.
///
/// # Errors
/// If no path joins the stations of a stream, or the run has not looked at the host of one.
pub fn set(setup: &Setup, ends: &Ends, found: &FactsByHost) -> Result<Shaped, NotFound> {
    let leave = leave_by(setup, ends)?;
    let (mut steps, mut begins) = (Vec::new(), BTreeMap::new());
    for end in ends.iter().filter(|(id, _)| leave.contains(id)).map(|(_, end)| end) {
        steps.extend(match &setup.shaper {
            Shaper::None => Vec::new(),
            Shaper::Etf(etf) => etf::set(etf, end),
            Shaper::Taprio(taprio) => {
                let host = end.place.host;
                let at = begin(&taprio.schedule, found.of(host)?.now);
                begins.insert(host, at);
                taprio::set(taprio, end, at)
            }
            Shaper::Mqprio(mqprio) => mqprio::set(mqprio, end),
            Shaper::Cbs(cbs) => cbs::set(cbs, end),
        });
    }
    let question = match setup.shaper {
        Shaper::None => there,
        _ => tc::question,
    };
    let ask = |(id, end): (EndId, &LinkEnd)| {
        // A device that was there before has the name that it has in every run.
        let device = if setup.path.has_only_the_runs_devices() { QdiscsOf::MADE } else { &end.device };
        Ok(question(end).for_qdiscs_of(QdiscsOf { station: ends.label(id)?, device: device.to_owned() }))
    };
    let read_back = ends.iter().map(ask).collect::<Result<_, NotFound>>()?;
    Ok(Shaped { steps, read_back, begins })
}

/// Reads the queue discipline that the kernel gave a device, where the experiment sets none.
fn there(end: &LinkEnd) -> Question {
    Question::at(&end.place, end.place.tc(&["-j", "qdisc", "show", "dev", &end.device]))
}

/// What can be known of a set-up whose paths end so, before anything is touched.
///
/// # Errors
/// If a device has too few queues, or its link another rate, or the run has not looked at its host.
/// A link that does not tell its rate, as one that is down, is believed.
pub fn check(setup: &Setup, ends: &Ends, found: &FactsByHost) -> Result<(), ShaperError> {
    let devices = devices(setup, ends, found)?;
    if let Some(asked) = setup.shaper.port_bit_s() {
        for (device, facts) in &devices {
            // What a virtual device reports is no wire's.
            let nic = facts.nics.get(*device).filter(|nic| nic.kind.is_none());
            let speed = nic.and_then(|nic| nic.speed_mbit).filter(|speed| *speed > 0);
            if let Some(is) = speed.map(|speed| speed as u64 * 1_000_000).filter(|is| *is != asked) {
                return Err(ShaperError::Rate { device: (*device).to_owned(), is, asked });
            }
        }
    }
    let Some(classes) = setup.shaper.classes() else { return Ok(()) };
    let needed = classes.queues.iter().map(|of| of.offset + of.count).max().unwrap_or(0).max(2);
    for (device, facts) in devices {
        if let Some(has) = facts.tx_queues.get(device).copied().filter(|has| *has < needed) {
            return Err(ShaperError::Queues { kind: setup.shaper.kind(), device: device.to_owned(), needed, has });
        }
    }
    Ok(())
}

/// Why the devices that streams leave by cannot do what only a device can; `None` if that is not
/// asked, or may be.
///
/// # Errors
/// If the run has not looked at the host of a station, or no path joins those of a stream.
pub fn offload_refusal(setup: &Setup, ends: &Ends, found: &FactsByHost) -> Result<Option<String>, NotFound> {
    let Some(what) = setup.shaper.offloads() else { return Ok(None) };
    // Gates and launch times go by the device's clock; credits go by none.
    let by_clock = !matches!(setup.shaper, Shaper::Cbs(_));
    if setup.path.traits().clock == DeviceClock::None {
        let name = setup.path.traits().name;
        let lacks = if by_clock { "neither a clock nor gates of its own" } else { "no queues that shape" };
        return Ok(Some(format!("{what} needs a device that does it, and a {name} pair has {lacks}")));
    }
    if !by_clock {
        // Whether the driver does it is only known when it is asked.
        return Ok(None);
    }
    Ok(nics(setup, ends, found)?.into_iter().find_map(|nic| match &nic.can {
        Ok(can) if can.phc >= 0 => None,
        Ok(_) => Some(format!("{what} needs a device with a PTP clock, and {} has none", nic.name)),
        Err(why) => Some(format!("{what} needs a device with a PTP clock; what {} has is unknown: {why}", nic.name)),
    }))
}

/// What a refusal of the kernel's says to the user who asked for an offload: the command, the
/// kernel's words, and what we know of the devices that speaks against it. Many drivers take no
/// queue discipline over unless the user allows it.
///
/// # Errors
/// As [`offload_refusal`].
pub fn with_the_kernels_refusal(
    setup: &Setup,
    ends: &Ends,
    found: &FactsByHost,
    command: &str,
    says: &str,
) -> Result<String, NotFound> {
    let mut all = match offload_refusal(setup, ends, found)? {
        Some(blind) => format!("{blind}; the kernel: {says}"),
        None => format!("`{command}`: {says}"),
    };
    let off = |nic: &&Nic| nic.tc_offload.is_some_and(|feature| !feature.on && feature.switchable);
    // A guest's own devices are as tardy has made them.
    let may_be_told = setup.path.traits().place == Where::OnlyHere;
    for nic in nics(setup, ends, found)?.into_iter().filter(off).filter(|_| may_be_told) {
        let name = &nic.name;
        all += &format!(
            "; hw-tc-offload of {name} is off, and its driver may ask for it: ethtool -K {name} hw-tc-offload on"
        );
    }
    Ok(all)
}

/// The devices of hosts by which streams leave, by the experiment's names for them, each with what
/// is known of its host. Devices that the path makes are not among them.
fn devices<'f>(setup: &Setup, ends: &Ends, found: &'f FactsByHost) -> Result<Vec<(&'f str, &'f Facts)>, NotFound> {
    let mut devices = Vec::new();
    if setup.path.traits().devices.are_made() {
        return Ok(devices);
    }
    for id in leave_by(setup, ends)? {
        let end = ends.end(id)?;
        let facts = found.of(end.place.host)?;
        devices.extend(facts.named(&end.device).map(|name| (name, facts)));
    }
    Ok(devices)
}

/// The same devices as they were found.
fn nics<'f>(setup: &Setup, ends: &Ends, found: &'f FactsByHost) -> Result<Vec<&'f Nic>, NotFound> {
    Ok(devices(setup, ends, found)?.into_iter().filter_map(|(name, facts)| facts.nics.get(name)).collect())
}

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
            Devices::There(_) | Devices::Named | Devices::OfGuest(_) | Devices::Own => None,
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
        self.of(host).map(|at| tc::question(&self.ends[at].1).command).collect()
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
            let record = tc::record(&self.setup.shaper, &end.device, before, after);
            let driver = self.drivers.get(&name).cloned();
            Some((name, ShaperRecord { driver, ..record }))
        };
        self.ends.into_iter().filter_map(record).collect()
    }
}
