// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an experiment file would have done to the machine beyond namespaces and links of the run's
//! own: programs that it runs or loads into the kernel, and network devices that it takes. A file
//! is data; all of it needs a word of the caller's.
//!
//! In a guest neither is asked for: it has no device of this machine, no file of the user's and no
//! network, and its programs are those that every guest has.

use tardy_model::load::LoadKind;
use tardy_model::path::Where;
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
    Nics(Vec<String>),
}

impl Need {
    /// The flag that gives it.
    pub const fn flag(&self) -> &'static str {
        match self {
            Need::Program { .. } | Need::Object { .. } => "--allow-commands",
            Need::Nics(_) => "--allow-nics",
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
            Need::Nics(devices) => {
                let devices = devices.join("` and `");
                format!("the path takes the network devices `{devices}` out of this machine's network for the run")
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
    for cell in experiment.cells.iter().filter(|cell| !cell.setup.is_simulated()) {
        // A guest's own devices are not taken here: the run refuses that by itself.
        let is_refused = cell.setup.path.traits().place == Where::OnlyInGuest;
        let devices = cell.setup.path.devices();
        if !devices.is_empty() && !is_refused {
            add(Need::Nics(devices.into_iter().map(str::to_owned).collect()));
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
        Need::Nics(_) => !allowed.nics,
    };
    let open: Vec<Need> = needs(experiment).into_iter().filter(is_open).collect();
    let Some(need) = open.first().cloned() else { return Ok(()) };
    let more = match open.iter().filter(|other| other.flag() == need.flag()).count() - 1 {
        0 => String::new(),
        n => format!(" (and {n} more, which `tardy plan` lists)"),
    };
    Err(NotAllowed { need, more })
}
