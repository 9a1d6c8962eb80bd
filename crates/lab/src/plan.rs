// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a set-up to everything that will be done to the machine, and how each of it is put back. Pure: nothing is looked up
//! and nothing is changed, so the plan that is shown is the plan that is run.

use crate::command::{Command, Step};
use crate::names::Names;
use crate::orders::PlaceError;
use crate::path::{self, Found, LinkEnd, PathError};
use crate::shaper;
use crate::softirq;
use crate::vlan;
use std::collections::BTreeMap;
use std::fmt::Write;
use tardy_model::time::{Instant, Tai};
use tardy_spec::experiment::Setup;
use thiserror::Error;

/// What is done for one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Commands that tell what the kernel has made of it.
    pub read_back: Vec<Command>,
    /// Where each station meets the path.
    pub ends: BTreeMap<String, LinkEnd>,
    /// When the queue discipline's schedule begins, where it has one.
    pub begins: Option<Instant<Tai>>,
}

/// A set-up that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The path cannot join these stations.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Packets cannot be taken in where it is asked for.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The name cannot be part of a namespace's.
    #[error(
        "station `{name}`: a namespace cannot be called so; use letters, digits, `_` and `-`, at most {STATION_NAME}"
    )]
    StationName {
        /// The station's.
        name: String,
    },
}

/// Longest name of a station, bytes. A namespace is a file, whose name ends at 255.
const STATION_NAME: usize = 200;

/// Plans a set-up under these names, on what was found of the machine.
///
/// # Errors
/// If the path cannot join the stations, a station's name cannot be used, or a CPU that is asked for cannot be had.
pub fn plan(setup: &Setup, names: Names, found: &Found) -> Result<Plan, PlanError> {
    let usable = |name: &str| {
        (1..=STATION_NAME).contains(&name.len())
            && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
    };
    if let Some(name) = setup.stations.keys().find(|name| !usable(name)) {
        return Err(PlanError::StationName { name: name.clone() });
    }
    let laid = path::lay(setup, names, found)?;
    let (steered, steered_back) = softirq::steps(setup, &laid.ends, found)?;
    let (queued, queued_back) = vlan::queues(setup, &laid.ends, found);
    let shaped = shaper::set(setup, &laid.ends, found);
    let device = |end: &LinkEnd| {
        let show = |object| Command::ip_in(&end.netns, &["-j", "-d", object, "show", "dev", &end.device]);
        // Addresses come with all that `link show` tells. After that one in the same batch, ip 6.1 shows no addresses.
        [show("addr"), show("neigh")]
    };
    let read_back = laid
        .ends
        .values()
        .flat_map(device)
        .chain(laid.read_back)
        .chain(steered_back)
        .chain(queued_back)
        .chain(shaped.read_back);
    let read_back = read_back.collect();
    let steps = laid.steps.into_iter().chain(steered).chain(queued).chain(shaped.steps).collect();
    Ok(Plan { steps, read_back, ends: laid.ends, begins: shaped.begins })
}

impl Plan {
    /// The inverses, in the order in which they are run.
    pub fn undo(&self) -> impl Iterator<Item = &Command> {
        self.steps.iter().rev().flat_map(|step| &step.undoes)
    }

    /// All of it as lines for a shell: what is done, what is read back, and how it is put back.
    pub fn script(&self) -> String {
        let mut script = String::new();
        let mut said = "";
        for step in &self.steps {
            if step.why != said {
                let _ = writeln!(script, "# {}", step.why);
                said = step.why;
            }
            step.does.iter().for_each(|command| _ = writeln!(script, "{command}"));
        }
        script.push_str("# what the kernel has made of it\n");
        self.read_back.iter().for_each(|command| _ = writeln!(script, "{command}"));
        script.push_str("# the stations: each end is spoken to on stdin and stdout while the trials run\n");
        self.ends.values().for_each(|end| _ = writeln!(script, "# tardy agent --netns {}", end.netns));
        script.push_str("# put everything back\nprintf 'built; Enter puts everything back: '; read _\n");
        self.undo().for_each(|command| _ = writeln!(script, "{command}"));
        script
    }
}
