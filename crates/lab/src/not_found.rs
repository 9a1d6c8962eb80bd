// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is named and is not there, or could be either of two. Code that looks up a station, an end,
//! a path, a stream, a CPU or a host passes this error on. It never uses anything else as a
//! substitute, nor the first of several.

use crate::host::{HostId, OtherHosts};
use tardy_model::path::PathId;
use tardy_model::stream_id::NoStream;
use thiserror::Error;

/// Something that is named and is not there, or not the only one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotFound {
    /// A station that the experiment does not have.
    #[error("there is no station `{0}`: write a section [station.{0}]")]
    Station(String),
    /// More stations than have a number.
    #[error("station `{0}` is one too many to be numbered: use fewer stations")]
    TooManyStations(String),
    /// A station that the path does not lead to.
    #[error("no path leads to station `{0}`: let a path join it, or use another station")]
    End(String),
    /// Two stations that no path joins.
    #[error("no path joins stations `{from}` and `{to}`: let a path join them, or use another station")]
    Path { from: String, to: String },
    /// Two stations that several paths join, and none is chosen.
    #[error(
        "{} join stations `{from}` and `{to}`, and nothing says which one is meant: choose one of them",
        list(paths)
    )]
    WhichPath { from: String, to: String, paths: Vec<PathId> },
    /// Two stations that a path which was chosen does not join.
    #[error("{path} was chosen, and it does not join stations `{from}` and `{to}`: choose another one")]
    NotBetween { path: PathId, from: String, to: String },
    /// A station to which several paths lead, and none is chosen.
    #[error("{} lead to station `{station}`, and nothing says which one is meant: choose one of them", list(paths))]
    WhichEnd { station: String, paths: Vec<PathId> },
    /// A station to which a path that was chosen does not lead.
    #[error("{path} was chosen, and it does not lead to station `{station}`: choose another one")]
    NotAt { path: PathId, station: String },
    /// A station whose end of the path has no device for a VLAN.
    #[error("station `{station}` has no device for VLAN {vlan} on its path: {REPORT}")]
    Vlan { station: String, vlan: u16 },
    /// A station whose end of the path has no IPv6 address.
    #[error(
        "station `{0}` has no IPv6 address on its path: write ip = \"ipv4\" in its streams, or use another kind of path"
    )]
    Ipv6(String),
    /// A device whose hardware address cannot go into a frame.
    #[error(
        "device {device} of station `{station}` has the hardware address `{mac}`, which cannot go into an Ethernet frame: use port \"udp\""
    )]
    Mac { station: String, device: String, mac: String },
    /// A stream that the set-up does not have.
    #[error(transparent)]
    Stream(#[from] NoStream),
    /// A host that the run does not have, or has not looked at.
    #[error("{0} is asked for, and it is none of this run's hosts: {REPORT}")]
    Host(HostId),
    /// A CPU of another host than the one that is to run on it.
    #[error(transparent)]
    Cpu(#[from] OtherHosts),
}

fn list(paths: &[PathId]) -> String {
    paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

const REPORT: &str = "this is a fault of tardy; report it with this message";
