// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every kind of path must be able to do, and what it needs in a guest.

use super::link::{Laid, PathError};
use crate::command::Command;
use crate::host::HostId;
use crate::host::ask::DeviceAsk;
use crate::host::place::Place;
use crate::machine::{Facts, FactsByHost};
use crate::names::Names;
use crate::station::PlannedStation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tardy_model::xdp::SpecialKind;
use tardy_spec::experiment::Setup;

/// What a kind of path does, in the order in which it is asked.
///
/// Each host's steward asks `is_possible` on its own machine when the run looks at it, after the
/// coordinator has collected what the path `asks` of that host's devices. The coordinator then
/// asks for a `refusal`, once for each cell, and for each set-up it calls `lay` when it plans.
/// Cells whose set-ups `may_share` it share a path that is built.
#[derive(Debug)]
pub struct PathMethods {
    /// True if this machine can have such a path. It looks at the machine and changes nothing.
    pub is_possible: fn() -> bool,
    /// The network devices of a host that the path of a set-up is to take. Pure. An error ends the
    /// run before anything is touched.
    pub asks: fn(&Setup, HostId) -> Result<Vec<DeviceAsk>, PathError>,
    /// Why a host cannot have a path of this kind, by what the run knows of the host (`Facts`), in
    /// cases where a cell that asks for it should not cost the other cells; `None` if the host may
    /// have one. What only the kernel can refuse fails in its step, and ends the run.
    pub refusal: fn(&Facts) -> Option<String>,
    /// True if two set-ups with equal stations and equal keys of the path can share it: for this
    /// kind, what their streams ask for makes no difference.
    pub may_share: fn(&Setup, &Setup) -> bool,
    /// Plans the path of a set-up between stations that are built before it: it joins what the
    /// stations offer. Pure: what cannot be done is found when the steps are applied, and what they
    /// did is put back by their inverses. An error ends the run before anything is touched.
    pub lay: fn(&Setup, &PlannedStations, Names, &FactsByHost) -> Result<Laid, PathError>,
    /// What keeps special frames of this kind from leaving by a device inside the path, by what the
    /// kernel answers to the questions of the path, and the smallest change that lets them pass;
    /// `None` if nothing of the path's own does.
    pub keeps: fn(&[Value], SpecialKind, &str) -> Option<String>,
    /// The command by which a station's kernel says where it routes packets from one address to
    /// another; `None` where the path itself decides that.
    pub route: Option<fn(&Place, [IpAddr; 2]) -> Command>,
    /// What a guest needs for it.
    pub guest: InGuest,
}

impl PathMethods {
    /// A path that any machine can have, that takes no devices and that no stream changes.
    pub const fn made(
        lay: fn(&Setup, &PlannedStations, Names, &FactsByHost) -> Result<Laid, PathError>,
    ) -> PathMethods {
        PathMethods {
            is_possible: || true,
            asks: |_, _| Ok(Vec::new()),
            refusal: |_| None,
            may_share: |_, _| true,
            lay,
            keeps: |_, _, _| None,
            route: None,
            guest: InGuest::NOTHING,
        }
    }
}

/// What a guest needs for a kind of path, in addition to what every guest has.
#[derive(Debug)]
pub struct InGuest {
    /// Kernel modules, in the order in which they are loaded.
    pub modules: fn() -> &'static [&'static str],
    /// Programs that it gets where this machine has them, in addition to those of every guest.
    pub programs: &'static [&'static str],
    /// The arguments for QEMU, in pairs: what two kinds of paths have in common is given once.
    pub arguments: &'static str,
    /// Words for the guest's kernel.
    pub kernel: &'static str,
    /// The first version of QEMU that understands it, and what a message says of it.
    pub since: Option<(u32, &'static str)>,
}

impl InGuest {
    pub const NOTHING: InGuest = InGuest { modules: || &[], programs: &[], arguments: "", kernel: "", since: None };
}

/// Stations as they are planned, by name.
pub type PlannedStations = BTreeMap<String, PlannedStation>;
