// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment file would have done beyond namespaces and links of the run's own on this
//! machine: programs that it runs or loads into the kernel, network devices that it takes, and
//! machines that it logs in to with the caller's keys. A file is data; all of it needs a word of
//! the caller's.
//!
//! In a guest neither is asked for: it has no device of this machine, no file of the user's and no
//! network, and its programs are those that every guest has.

use std::net::IpAddr;
use tardy_model::load::LoadKind;
use tardy_model::path::{Devices, Where};
use tardy_spec::experiment::Experiment;

/// What the caller has allowed on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The programs of loads may be run.
    pub commands: bool,
    /// XDP programs of users may be loaded.
    pub objects: bool,
    /// Network devices may be taken.
    pub nics: bool,
    /// Other machines may be logged in to.
    pub hosts: bool,
}

/// Something that needs the caller's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Program {
        load: String,
        /// The station where it runs.
        station: String,
        /// It and its arguments.
        argv: Vec<String>,
    },
    /// A user's own XDP program.
    Object {
        file: String,
        section: Option<String>,
        /// The station whose device it is attached to.
        station: String,
    },
    /// The network devices of a path.
    Nics {
        devices: Vec<String>,
        /// They are this machine's alone.
        here: bool,
    },
    /// Streams and loads over this machine's own network, between these of its addresses.
    Network { addresses: Vec<IpAddr> },
    /// A login to another machine, which `ssh` calls so.
    Host { ssh: String, sudo: bool },
}

impl Need {
    /// The flag that gives it.
    pub const fn flag(&self) -> &'static str {
        match self {
            Need::Program { .. } | Need::Object { .. } => "--allow-commands",
            Need::Nics { .. } | Need::Network { .. } => "--allow-nics",
            Need::Host { .. } => "--allow-hosts",
        }
    }

    /// What it is, in words.
    pub fn says(&self) -> String {
        match self {
            Need::Program { load, station, argv } => {
                let line = crate::command::Command::new(
                    argv.first().map_or("", String::as_str),
                    &argv.iter().skip(1).map(String::as_str).collect::<Vec<_>>(),
                );
                format!("load `{load}` runs this program as root, at station `{station}`: {line}")
            }
            Need::Object { file, section, station } => {
                let section = section.as_ref().map(|section| format!(", section {section}")).unwrap_or_default();
                format!(
                    "the XDP program of {file}{section} is loaded into the kernel and sees all packets that arrive at \
                     station `{station}`"
                )
            }
            Need::Nics { devices, here } => {
                let devices = devices.join("` and `");
                let whose = if *here { "this machine's network" } else { "their machines' networks" };
                format!("the path takes the network devices `{devices}` out of {whose} for the run")
            }
            Need::Network { addresses } => {
                let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join("` and `");
                format!("streams and loads go over this machine's own network, between its addresses `{addresses}`")
            }
            Need::Host { ssh, sudo } => {
                let by = if *sudo { ", by sudo" } else { "" };
                format!(
                    "tardy logs in to `{ssh}` over ssh, copies itself there, builds and measures there as root{by}, and sends the \
                     streams and loads to it"
                )
            }
        }
    }
}

/// The caller did not give the word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{more}: if that is what you want, call `tardy run` with {}", need.says(), need.flag())]
pub struct NotAllowed {
    /// The first thing that needs it.
    pub need: Need,
    /// How many more of its kind there are, in words.
    more: String,
}

/// All that an experiment needs the caller's word for, each once, in the order of its cells.
pub fn needs(experiment: &Experiment) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut add = |need: Need| {
        if !needs.contains(&need) {
            needs.push(need);
        }
    };
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.builds_nothing()) {
        for remote in cell.setup.stations.values().filter_map(|station| station.remote.as_ref()) {
            add(Need::Host { ssh: remote.ssh.clone(), sudo: remote.sudo });
        }
        let is_own = cell.setup.path.traits().devices == Devices::Own;
        let is_here = cell.setup.stations.values().all(|station| station.remote.is_none());
        let addresses: Vec<IpAddr> = cell.setup.stations.values().filter_map(|station| station.address).collect();
        if is_own && is_here && !addresses.iter().all(IpAddr::is_loopback) {
            add(Need::Network { addresses });
        }
        // A guest's own devices are not taken here: the run refuses that by itself.
        let is_refused = cell.setup.path.traits().place == Where::OnlyInGuest;
        let devices = cell.setup.path.devices();
        if !devices.is_empty() && !is_refused {
            add(Need::Nics { devices: devices.into_iter().map(str::to_owned).collect(), here: is_here });
        }
        for stream in &cell.setup.streams {
            if let Some(object) = &stream.rx.object {
                let (file, section) = (object.file.clone(), object.section.clone());
                add(Need::Object { file, section, station: stream.to.clone() });
            }
        }
        for load in cell.setup.loads.iter().filter(|load| load.count > 0) {
            let LoadKind::Command { command, peer_command } = &load.kind else { continue };
            let sides = [(load.to.as_ref(), peer_command), (Some(&load.from), command)];
            for (station, argv) in sides.into_iter().filter(|(_, argv)| !argv.is_empty()) {
                // A side without a station is never started.
                let Some(station) = station.cloned() else { continue };
                add(Need::Program { load: load.name.clone(), station, argv: argv.clone() });
            }
        }
    }
    needs
}

/// Refuses what the caller did not allow.
///
/// # Errors
/// [`NotAllowed`].
pub fn check(experiment: &Experiment, allowed: Allowed) -> Result<(), NotAllowed> {
    let is_open = |need: &Need| match need {
        Need::Program { .. } => !allowed.commands,
        Need::Object { .. } => !allowed.objects,
        Need::Nics { .. } | Need::Network { .. } => !allowed.nics,
        Need::Host { .. } => !allowed.hosts,
    };
    let open: Vec<Need> = needs(experiment).into_iter().filter(is_open).collect();
    let Some(need) = open.first().cloned() else { return Ok(()) };
    let more = match open.iter().filter(|other| other.flag() == need.flag()).count() - 1 {
        0 => String::new(),
        n => format!(" (and {n} more, which `tardy plan` lists)"),
    };
    Err(NotAllowed { need, more })
}
